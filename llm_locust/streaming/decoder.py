"""One response from bytes to outcome, without I/O: framing, events, dialect and timeline put together.

Bytes and the time of their read go in; :meth:`ReplyDecoder.finish` says what became of the request. How the bytes were cut
into reads changes times, never what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from llm_locust.records import Outcome
from llm_locust.streaming.alike import AlikeReads, learn
from llm_locust.streaming.dialects import Delta, Dialect, WrongDialect
from llm_locust.streaming.dialects.base import excerpt, json_object
from llm_locust.streaming.events import Event, JsonLines
from llm_locust.streaming.failed_reply import MAX_ERROR_BODY_BYTES, body_message, by_status, is_web_page, page_title
from llm_locust.streaming.framing import ResponseFraming, ResponseHead
from llm_locust.streaming.redaction import safe_line
from llm_locust.streaming.reply import Failure, Reply
from llm_locust.streaming.timeline import Timeline

MAX_REPLY_BYTES = 64 * 1024 * 1024
"""A reply longer than this is given up: it would otherwise grow in memory until the deadline."""
MAX_KEPT_BYTES = 1024 * 1024
"""How much of a body without events is kept, to say what it is instead of a stream."""

_LESSONS = 3
"""How often it may turn out that reads have nothing in common before nothing more is learnt from a reply."""
_WORTH_IT = 8
"""Reads that must have taken the shortcut for it to have been worth learning."""

_Reading = Literal["head", "events", "whole", "error", "unreadable"]


class ReplyDecoder:
    """Decodes one response.

    ``streamed=False`` expects the whole reply in one JSON object: there is then no time of first output.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        streamed: bool = True,
        keep_text: bool = False,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self.bytes_in = 0
        self._dialect = dialect
        self._streamed = streamed
        self._max_bytes = max_bytes
        self._framing = ResponseFraming()
        self._events = dialect.events()
        self._of_lines = isinstance(self._events, JsonLines)
        self._timeline = Timeline(keep_text=keep_text)
        self._reading: _Reading = "head"
        self._body = bytearray()
        """The body so far, while it is not (or not yet) a stream of events."""
        self._body_read = False
        self._events_read = 0
        self._headers_ns: int | None = None
        self._end_ns: int | None = None
        self._lost: str | None = None
        self._wrong: str | None = None
        """The first way in which the bytes were not the protocol asked for."""
        self._given_up = False
        """Nothing more will be read, though the message has not ended."""
        self._alike: AlikeReads | None = None
        self._lessons = _LESSONS
        self._between_events = False
        """The last read ended with an event and with its chunk: the place where reads that are alike begin."""

    @property
    def done(self) -> bool:
        """Nothing more needs to be read."""
        framing = self._framing
        return framing.done or framing.truncated or framing.error is not None or self._given_up

    @property
    def output_events(self) -> int:
        """Events of a stream so far that carried generated output."""
        return self._timeline.output_events

    @property
    def reusable(self) -> bool:
        """The response ended where it said it would and the server keeps the connection: it may carry another request."""
        return self._framing.reusable and not self._given_up

    @property
    def can_wait(self) -> bool:
        """A stream in chunks is under way: reads may be kept and fed together later, by :meth:`feed_all`.

        Its last read is one that ends in an empty line, unless the peer said more than it should.
        """
        head = self._framing.head
        return self._reading == "events" and head is not None and head.body == "chunked" and not self.done

    def feed_all(self, reads: Sequence[bytes], times: Sequence[int]) -> None:
        """Take several reads in order, each received at the time in its place: the same as :meth:`feed` for each."""
        position = 0
        while position < len(reads):
            taken = 0
            if self._alike is not None and self._between_events and not self.done:
                taken = self._feed_alike(self._alike, reads, times, position)
            if not taken:
                self.feed(reads[position], times[position])
            position += taken or 1

    def feed(self, data: bytes, t_ns: int) -> None:
        """Take what one socket read gave, received at ``t_ns``."""
        if self._given_up or not data:
            return
        between_events, self._between_events = self._between_events, False
        already_done = self.done
        self.bytes_in += len(data)
        body = self._framing.feed(data)
        if already_done:
            return
        if self._framing.head is not None and self._reading == "head":
            self._headers_ns = t_ns
            self._reading = self._how_to_read(self._framing.head)
        events = self._take(body, t_ns) if body else []
        if events:
            self._between_events = self._events.idle and self._framing.between_chunks(data)
            if between_events and self._between_events and len(events) == 1:
                self._learn(data, *events[0])
        if self._framing.done:
            self._ended(t_ns)
        elif self.bytes_in > self._max_bytes and not self.done:
            self._wrong = self._wrong or f"the reply is longer than {self._max_bytes} bytes and was given up"
            self._give_up(t_ns)
        elif self.done and self._end_ns is None:
            self._end_ns = t_ns

    def close(self, t_ns: int) -> None:
        """The peer closed the connection."""
        if self.done:
            return
        self._framing.close()
        if self._framing.done:
            self._ended(t_ns)
        else:
            self._end_ns = t_ns

    def lost(self, t_ns: int, error: str) -> None:
        """The connection broke."""
        if self.done:
            return
        self._lost = error
        self._give_up(t_ns)

    def finish(
        self, end_ns: int | None = None, *, failure: Failure | None = None, secrets: Iterable[str] = ()
    ) -> Reply:
        """What became of the request.

        Args:
            end_ns: when it was decided, where the response itself did not end before.
            failure: how the client ended it, which comes before anything that the response says.
            secrets: texts to mask in ``error``, beside whatever has the shape of a secret.

        What only the client knows (sent, connect, retries, the kind of clock) is left for it to fill in.
        """
        framing = self._framing
        self._read_body_in_one_piece()
        outcome, error = self._judge(failure)
        reply = Reply(outcome=outcome, headers_ns=self._headers_ns, bytes_in=self.bytes_in)
        reply.end_ns = self._end_ns if self._end_ns is not None else end_ns
        reply.status = framing.head.status if framing.head is not None else None
        reply.error = None if error is None else safe_line(error, secrets)
        if self._reading in ("events", "whole", "unreadable"):
            timed = self._reading == "events" and outcome is not Outcome.NOT_STREAMED
            self._timeline.write_to(reply, streamed=timed)
            if self._reading == "whole" and self._timeline.finished:
                reply.complete_ns = reply.end_ns
            if reply.finish_reason is not None:
                reply.finish_reason = safe_line(reply.finish_reason, secrets, limit=64)
        return reply

    # Reading

    def _how_to_read(self, head: ResponseHead) -> _Reading:
        if not 200 <= head.status < 300:
            return "error"
        coding = head.get("content-encoding").strip().lower()
        if coding not in ("", "identity"):
            self._wrong = f"the body is compressed ({coding}) although identity was asked for"
            return "unreadable"
        return "events" if self._streamed else "whole"

    def _take(self, body: bytes, t_ns: int) -> list[tuple[Event, Delta]]:
        """The events that the body's next piece completed, and what they carried."""
        read: list[tuple[Event, Delta]] = []
        if self._reading == "events":
            if self._events_read == 0 and len(self._body) < MAX_KEPT_BYTES:
                self._body += body
            self._timeline.begin_read()
            for event in self._events.feed(body):
                delta = self._read_event(event, t_ns)
                if delta is not None:
                    read.append((event, delta))
        elif self._reading == "whole":
            self._body += body
        elif self._reading == "error":
            self._body += body
            if len(self._body) >= MAX_ERROR_BODY_BYTES and not self._framing.done:
                self._give_up(t_ns)
        return read

    def _read_event(self, event: Event, t_ns: int) -> Delta | None:
        self._events_read += 1
        # A body of lines may still be one JSON object on one line; from the second event on it is a stream.
        if self._events_read > 1 or not self._of_lines:
            self._body.clear()
        try:
            delta = self._dialect.read_event(event)
        except WrongDialect as wrong:
            self._wrong = self._wrong or f"event {self._events_read}: {wrong}"
            return None
        self._timeline.add(delta, t_ns)
        return delta

    def _feed_alike(self, alike: AlikeReads, reads: Sequence[bytes], times: Sequence[int], start: int) -> int:
        """Take the reads from ``start`` on that are alike, and say how many they were."""
        strings = alike.strings(reads, start)
        end = start + len(strings) if strings else start + 1
        size = sum(map(len, reads[start:end]))
        if self.bytes_in + size > self._max_bytes:
            return 0
        if strings:
            self._timeline.add_run(alike.field, strings, times[start:end])
        elif strings := alike.strings_of_many(reads[start]):
            self._timeline.add_many(alike.field, strings, times[start])
        else:
            return 0
        self.bytes_in += size
        self._events_read += len(strings)
        return end - start

    def _learn(self, data: bytes, event: Event, delta: Delta) -> None:
        """Learn from this read what the next ones may have in common with it."""
        if not self._lessons:
            return
        if self._alike is not None and self._alike.taken < _WORTH_IT:
            self._lessons -= 1  # a server that writes the time into every event: nothing is alike
            if not self._lessons:
                self._alike = None
                return
        alike = learn(data, event, delta, self._dialect)
        if alike is not None:
            self._alike = alike

    def _ended(self, t_ns: int) -> None:
        """The body is whole."""
        self._end_ns = t_ns
        if self._reading == "events" and self._of_lines and self._events.tail:
            # A last line without its newline is whole when it is JSON; otherwise it is an unfinished tail like any other.
            try:
                json_object(self._events.tail)
            except WrongDialect:
                return
            for event in self._events.feed(b"\n"):
                self._read_event(event, t_ns)

    def _give_up(self, t_ns: int) -> None:
        self._given_up = True
        if self._end_ns is None:
            self._end_ns = t_ns

    def _read_body_in_one_piece(self) -> None:
        """Read what came instead of, or without, a stream: counts and text of it are worth having."""
        asked = self._reading == "whole"
        if not (asked or self._not_streamed()) or not self._framing.done or self._events_read or self._body_read:
            return
        self._body_read = True
        try:
            self._timeline.add_untimed(self._dialect.read_whole(bytes(self._body)))
        except WrongDialect as wrong:
            if asked and self._body.lstrip().startswith(b"data:"):
                self._wrong = self._wrong or "the reply was streamed although no stream was asked for"
            elif asked:
                self._wrong = self._wrong or str(wrong)

    # Judging: the first that matches wins, in the order of these lines.

    def _judge(self, failure: Failure | None) -> tuple[Outcome, str | None]:
        framing, timeline, head = self._framing, self._timeline, self._framing.head
        if failure is not None:
            return failure.outcome, failure.error
        if self._lost is not None:
            return Outcome.CONNECTION_LOST, self._lost
        if head is None and framing.error is None and self._wrong is None:
            when = "before the response head was whole" if self.bytes_in else "without an answer"
            return Outcome.CONNECTION_LOST, f"the connection was closed {when}"
        if head is not None and not 200 <= head.status < 300:
            return by_status(head, bytes(self._body))
        if self._not_streamed():
            return Outcome.NOT_STREAMED, self._not_streamed_text()
        if timeline.error is not None:
            return Outcome.STREAM_ERROR, timeline.error
        wrong = self._web_page() or self._wrong or framing.error or self._no_events()
        if wrong is not None:
            return Outcome.PROTOCOL_ERROR, wrong
        if not framing.done:
            return Outcome.TRUNCATED, "the connection was closed before the end of the body"
        if not timeline.has_output:
            return Outcome.EMPTY, f"the reply ended without any output{self._tail_text()}"
        if not timeline.finished:
            return Outcome.TRUNCATED, f"the body ended without a finish reason{self._tail_text()}"
        return Outcome.OK, None

    def _content_type(self) -> str:
        head = self._framing.head
        return head.get("content-type").strip().lower() if head is not None else ""

    def _not_streamed(self) -> bool:
        """The body is one JSON object where a stream was asked for. A stream under a wrong content type is a stream."""
        if self._reading != "events" or not self._body.strip():
            return False
        if self._content_type().partition(";")[0].strip() == "application/json":
            return True
        if self._of_lines or not self._body.lstrip().startswith(b"{"):
            return False
        try:
            json_object(bytes(self._body))
        except WrongDialect:
            return False
        return True

    def _not_streamed_text(self) -> str:
        text = "a stream was asked for, but the server answered with one JSON object"
        try:
            error = json_object(bytes(self._body)).get("error")
        except WrongDialect:
            error = None
        return f"{text}, an error: {body_message(bytes(self._body))}" if error else text

    def _web_page(self) -> str | None:
        body = bytes(self._body)
        if self._reading not in ("events", "whole") or not body or not is_web_page(self._content_type(), body):
            return None
        title = page_title(body)
        return "the answer looks like a web page, not an API; check the base URL" + (f" ({title})" if title else "")

    def _no_events(self) -> str | None:
        """Why a body without a single event is not even an empty stream."""
        content_type = self._content_type()
        if self._reading != "events" or self._events_read or not self._body.strip():
            return None
        if content_type.startswith(self._dialect.media_type):
            return None
        found = content_type or "no content type"
        return f"no event in the body; wanted {self._dialect.media_type}, got {found}: {excerpt(bytes(self._body))}"

    def _tail_text(self) -> str:
        tail = self._events.tail if self._reading == "events" else b""
        return f"; it stops inside an event: {excerpt(tail)}" if tail else ""
