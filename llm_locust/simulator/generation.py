"""Generation requests on the wire: from the engine's tokens to chunks, with the fault that the request was dealt.

A request without a stream meets the faults in its own way: a cut sends half of the reply, a stream error is a 500, a stall
and a reset are the same, and the others, which are about events, change nothing.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import gevent
from gevent.queue import SimpleQueue

from llm_locust.records import UsageError
from llm_locust.simulator.connection import ClientGone, Connection
from llm_locust.simulator.dialect import Ask, Dialect, Refused
from llm_locust.simulator.engine import Job, Token
from llm_locust.simulator.faults import AFTER_TOKENS, Fault, parse_fault
from llm_locust.simulator.http import LAST_CHUNK, Request, Response, chunk, head
from llm_locust.simulator.ollama import OllamaDialect, PreloadAsked
from llm_locust.simulator.options import Options
from llm_locust.simulator.pacing import EnginePacer
from llm_locust.simulator.tokens import reply_words, tokenize
from llm_locust.simulator.truth_log import TruthLog, TruthRow

FAULT_HEADER = "x-simulate-fault"
_HTML = b"<!doctype html><html><head><title>Welcome</title></head><body><p>Not the API.</p></body></html>\n"
_ENGINE_DIED = "The engine stopped in the middle of the reply (a fault that was asked for)."


class _Signal(enum.Enum):
    GONE = enum.auto()
    STOP = enum.auto()


class _Stopped(Exception):
    """The server is being stopped."""


Mailbox: TypeAlias = "SimpleQueue[Token | _Signal]"  # as text: older releases of gevent have no generic queue


@dataclass(slots=True)
class _Exchange:
    """One request being answered."""

    request: Request
    connection: Connection
    dialect: Dialect
    fault: Fault | None
    ask: Ask
    job: Job
    words: list[str]
    mailbox: Mailbox
    row: TruthRow

    def has(self, *names: str) -> bool:
        """Whether the fault is one of these."""
        return self.fault is not None and self.fault.name in names

    def strikes(self, tokens_sent: int) -> bool:
        """Whether the fault is one in mid-stream whose time has come."""
        return self.fault is not None and self.fault.strikes(tokens_sent)

    def tokens(self) -> Iterator[Token]:
        """The tokens of the reply as the engine says them.

        Raises:
            ClientGone: nobody is there to read them.
            _Stopped: the server is being stopped.
        """
        is_last = False
        while not is_last:
            item = self.mailbox.get()
            if item is _Signal.GONE:
                raise ClientGone
            if item is _Signal.STOP:
                raise _Stopped
            assert isinstance(item, Token)
            yield item
            is_last = item.is_last

    def stall(self) -> None:
        """Say nothing until the client leaves or the server is stopped."""
        while isinstance(self.mailbox.get(), Token):
            pass


class Generations:
    """Answers generation requests and writes one row of the truth log for each."""

    def __init__(self, options: Options, pacer: EnginePacer, log: TruthLog, unix_anchor_ns: int) -> None:
        """``unix_anchor_ns`` turns monotonic into Unix nanoseconds."""
        self._options = options
        self._faults = options.fault_mix()
        self._pacer = pacer
        self._log = log
        self._anchor_ns = unix_anchor_ns
        self._received = 0
        self._open: set[Mailbox] = set()

    def answer(self, request: Request, connection: Connection, dialect: Dialect, denied: Response | None) -> None:
        """Answer one request; ``denied`` is the answer if it is not let in at all.

        Raises:
            ClientGone: the connection is over.
        """
        number = self._received
        self._received += 1
        row = TruthRow(request.headers.get("x-request-id", ""), request.received_ns + self._anchor_ns)
        try:
            if denied is not None:
                row.outcome = _refuse(request, connection, denied)
            else:
                row.outcome = self._answer(request, connection, dialect, number, row)
        except ClientGone:
            row.outcome = "aborted"
            raise
        except _Stopped:
            row.outcome = "shutdown"
            raise ClientGone from None
        finally:
            row.t_end_ns = self._now_ns()
            self._log.write(row)

    def stop(self, seconds: float) -> None:
        """End every stream as a server does that is being stopped; waits at most ``seconds`` for the last bytes."""
        for mailbox in self._open:
            mailbox.put(_Signal.STOP)
        deadline_ns = time.monotonic_ns() + round(seconds * 1e9)
        while self._open and time.monotonic_ns() < deadline_ns:
            gevent.sleep(0.005)

    def _answer(self, request: Request, connection: Connection, dialect: Dialect, number: int, row: TruthRow) -> str:
        try:
            asked = request.headers.get(FAULT_HEADER)
            if asked is None:
                fault = self._faults.for_request(number)
            else:
                fault = None if asked.strip() == "none" else parse_fault(asked)
        except UsageError as error:
            return _refuse(request, connection, dialect.refusal(400, f"X-Simulate-Fault: {error}"))
        if fault is not None and fault.name in ("status", "html", "close"):
            return self._fail_at_once(request, connection, dialect, fault)
        try:
            ask = dialect.parse(request.body, request.headers.get("x-request-id") or f"{number:016x}")
        except Refused as refused:
            return _refuse(request, connection, refused.response)
        except PreloadAsked as asked_for:
            assert isinstance(dialect, OllamaDialect)
            self._load_or_unload(asked_for)
            connection.send(dialect.without_prompt(asked_for).encode(keep_alive=request.keep_alive))
            return "ok"
        row.prompt_tokens = len(ask.prompt)
        words = reply_words(self._options.seed, ask.prompt, ask.reply_tokens)
        job = Job(ask.prompt, tokenize(" ".join(words)), ask.finish_reason, ask.keep_ns)
        mailbox: Mailbox = SimpleQueue()
        exchange = _Exchange(request, connection, dialect, fault, ask, job, words, mailbox, row)
        with connection.watched(lambda: mailbox.put(_Signal.GONE)):
            if not self._pacer.submit(job, mailbox.put):
                return _refuse(request, connection, dialect.busy())
            self._open.add(mailbox)
            try:
                outcome = self._stream(exchange) if ask.stream and not exchange.has("not-streamed") else None
                return outcome or self._reply_whole(exchange)
            finally:
                self._open.discard(mailbox)
                self._pacer.abort(job)
                if job.admitted_ns is not None:
                    row.t_admitted_ns = job.admitted_ns + self._anchor_ns

    def _load_or_unload(self, asked: PreloadAsked) -> None:
        if asked.unload:
            self._pacer.unload()
        else:
            gevent.sleep(max(0.0, (self._pacer.preload(asked.keep_ns) - time.monotonic_ns()) / 1e9))

    def _fail_at_once(self, request: Request, connection: Connection, dialect: Dialect, fault: Fault) -> str:
        if fault.name == "close":
            connection.cut()
        elif fault.name == "html":
            page = Response(200, _HTML, "text/html; charset=utf-8")
            connection.send(page.encode(keep_alive=request.keep_alive))
        else:
            message = "This status is a fault that was asked for."
            if fault.out_of_memory:
                message = "CUDA out of memory: an allocation of 2.00 GiB failed (a fault that was asked for)."
            connection.send(dialect.refusal(fault.amount, message).encode(keep_alive=request.keep_alive))
        return f"fault {fault}"

    def _stream(self, exchange: _Exchange) -> str:
        request, writer = exchange.request, exchange.ask.writer
        wire = _Wire(exchange.connection, chunked=request.http_1_1, hold=exchange.has("buffered"))
        headers = {"content-type": writer.content_type}
        if request.http_1_1:
            headers["transfer-encoding"] = "chunked"
        else:
            request.keep_alive = False  # without chunks, the end of the connection is the end of the body
        wire.raw(head(200, headers, keep_alive=request.keep_alive))
        try:
            for token in exchange.tokens():
                if exchange.strikes(token.position):
                    return self._strike(exchange, wire, token.position)
                finish = exchange.job.finish_reason if token.is_last and not exchange.has("no-finish") else None
                event = writer.token(token.position, exchange.words[token.position], finish)
                self._stamp(exchange.row, token)
                if token.position == 0:
                    wire.events(writer.opening(), event)
                else:
                    wire.events(event)
        except _Stopped:
            wire.end(writer.aborted(), clean=bool(writer.aborted()))
            raise
        if exchange.has(*AFTER_TOKENS):
            return self._strike(exchange, wire, len(exchange.words))
        if exchange.fault is not None and exchange.fault.name == "slow-usage":
            gevent.sleep(exchange.fault.amount / 1000)
        if exchange.has("buffered"):
            # Nothing has left yet, so this is when the first token does, and the last.
            exchange.row.t_first_ns = exchange.row.t_last_ns = self._now_ns()
        wire.end(writer.closing(exchange.job, finished=not exchange.has("no-finish")), clean=True)
        return _outcome(exchange)

    def _strike(self, exchange: _Exchange, wire: _Wire, index: int) -> str:
        """The fault in place of token ``index``, or after the last one."""
        assert exchange.fault is not None
        writer, connection = exchange.ask.writer, exchange.connection
        match exchange.fault.name:
            case "stream-error":
                wire.end(writer.error(_ENGINE_DIED), clean=True)
            case "cut":
                word = exchange.words[min(index, len(exchange.words) - 1)]
                wire.half(writer.token(index, word, None))
                connection.cut()
            case "reset":
                connection.reset()
            case "stall":
                exchange.stall()
                connection.cut()
        return _outcome(exchange)

    def _reply_whole(self, exchange: _Exchange) -> str:
        request, connection = exchange.request, exchange.connection
        try:
            last = [token for token in exchange.tokens() if token.is_last]
        except _Stopped:
            gone = exchange.dialect.refusal(503, "The server is shutting down.")
            connection.send(gone.encode(keep_alive=False))
            raise
        if exchange.has("stream-error"):
            refusal = exchange.dialect.refusal(500, _ENGINE_DIED)
            connection.send(refusal.encode(keep_alive=request.keep_alive))
            return _outcome(exchange)
        if exchange.has("stall"):
            exchange.stall()
        if exchange.has("stall", "reset"):
            connection.reset()
            return _outcome(exchange)
        data = exchange.ask.writer.whole(exchange.job, exchange.words).encode(keep_alive=request.keep_alive)
        if exchange.has("cut"):
            connection.send(data[: len(data) - 20])
            connection.cut()
            return _outcome(exchange)
        self._stamp(exchange.row, last[0])
        exchange.row.t_first_ns = exchange.row.t_last_ns
        connection.send(data)
        return _outcome(exchange)

    def _stamp(self, row: TruthRow, token: Token) -> None:
        row.output_tokens = token.position + 1
        row.t_last_ns = self._now_ns()
        if token.position == 0:
            row.t_first_ns = row.t_last_ns

    def _now_ns(self) -> int:
        return time.monotonic_ns() + self._anchor_ns


class _Wire:
    """The body of a stream: events framed as chunks, one write for each call, or everything in one write at the end."""

    def __init__(self, connection: Connection, *, chunked: bool, hold: bool) -> None:
        self._send: Callable[[bytes], None] = connection.send
        self._cut = connection.cut
        self._chunked = chunked
        self._held: list[bytes] | None = [] if hold else None

    def raw(self, data: bytes) -> None:
        if self._held is None:
            self._send(data)
        else:
            self._held.append(data)

    def events(self, *events: bytes) -> None:
        self.raw(b"".join(self._frame(event) for event in events if event))

    def end(self, event: bytes, *, clean: bool) -> None:
        """The last event, if any, and the end of the body; not ``clean``: the connection is closed instead."""
        last = LAST_CHUNK if self._chunked and clean else b""
        data = b"".join(self._held or ()) + (self._frame(event) if event else b"") + last
        if data:
            self._send(data)
        if not clean:
            self._cut()

    def half(self, event: bytes) -> None:
        """What a cut leaves of an event: its chunk's length, and half of what was promised."""
        frame = self._frame(event)
        self._send(frame[: len(frame) // 2])

    def _frame(self, event: bytes) -> bytes:
        return chunk(event) if self._chunked else event


def _refuse(request: Request, connection: Connection, refusal: Response) -> str:
    connection.send(refusal.encode(keep_alive=request.keep_alive))
    return f"http_{refusal.status}"


def _outcome(exchange: _Exchange) -> str:
    return "ok" if exchange.fault is None else f"fault {exchange.fault}"
