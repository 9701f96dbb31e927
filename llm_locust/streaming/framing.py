"""HTTP/1.1 response framing without I/O: bytes in, head and body out, with the exact end of the message.

Strategy: llhttp (through ``httptools``) does the parsing; this module adds what a load generator must know beside it.

* Interim responses (1xx) are skipped; trailers do not mix with the head.
* llhttp goes on to a next message in the same buffer. One request was sent, so whatever follows the end is *surplus*: it
  never spoils the reply that came before it, and the connection is not used again.
* A body without length and chunks ends with the connection. llhttp cannot be told of a close through ``httptools``, so
  that case is decided here.
"""

from __future__ import annotations

from typing import Any, Literal

import httptools
import msgspec

MAX_HEAD_BYTES = 256 * 1024
"""The longest response head, interim responses included, that is still believed to be one."""

BodyKind = Literal["none", "length", "chunked", "close"]


class ResponseHead(msgspec.Struct, frozen=True):
    """The status line and headers of the final response."""

    status: int
    headers: list[tuple[str, str]]
    """Names in lower case, in order."""
    body: BodyKind
    """What ends the body: nothing follows, a length, the last chunk, or the close of the connection."""
    reason: str = ""
    """What the status line says after the status."""

    def get(self, name: str) -> str:
        """The last value of the header (name in lower case), or the empty string."""
        return next((value for key, value in reversed(self.headers) if key == name), "")


class ResponseFraming:
    """The framing of one response.

    Feed what was read, tell of a close with :meth:`close`. After each call ``head``, ``done`` and ``error`` say where the
    message stands. Nothing here raises for what a peer sends.
    """

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.done = False
        """The message has ended, by its own framing."""
        self.truncated = False
        """The connection closed before the message had ended."""
        self.error: str | None = None
        """Why the bytes are not HTTP/1.1, once they are not."""
        self.surplus = False
        """Bytes came after the end of the message."""
        self._keep_alive = False
        self._headers: list[tuple[str, str]] = []
        self._reason = b""
        self._head_bytes = 0
        self._pieces: list[bytes] = []
        self._last_piece: int | None = None
        """How many of the pieces belong to this message, once it has ended."""
        self._chunk_ended = False
        self._parser: Any = httptools.HttpResponseParser(_Callbacks(self))

    @property
    def reusable(self) -> bool:
        """The connection may carry another request."""
        return self.done and self._keep_alive and not self.surplus and self.error is None

    def between_chunks(self, data: bytes) -> bool:
        """``data`` was fed last, and what comes next is a chunk's first byte: another whole chunk would change nothing."""
        return self._chunk_ended and not self.done and self.error is None and data.endswith(b"\r\n")

    def feed(self, data: bytes) -> bytes:
        """Take what one read gave; returns the body bytes in it, chunk framing removed."""
        if not data or self.error is not None:
            return b""
        if self.done or self.truncated:
            self.surplus = True
            return b""
        if self.head is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.error = "the server switched protocols (HTTP 101) instead of answering"
        except httptools.HttpParserError as error:
            self._break(data, str(error))
        if self.head is None and self.error is None and self._head_bytes > MAX_HEAD_BYTES:
            self.error = f"the response head is longer than {MAX_HEAD_BYTES} bytes"
        if self._last_piece is not None:
            del self._pieces[self._last_piece :]
        self._let_go()
        if not self._pieces:
            return b""
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return body

    def close(self) -> None:
        """The peer closed the connection: the end of a close-delimited body, too early for any other."""
        if self.done or self.truncated or self.error is not None:
            return
        if self.head is not None and self.head.body == "close":
            self.done = True
        else:
            self.truncated = True
        self._let_go()

    def _let_go(self) -> None:
        """Nothing more will be parsed: parser and framing know each other, and would wait for the garbage collector."""
        if self.done or self.truncated or self.error is not None:
            self._parser = None

    def _break(self, data: bytes, reason: str) -> None:
        if self.done:
            self.surplus = True
        elif self.head is not None:
            self.error = f"the body breaks HTTP framing: {reason}"
        elif data[:1] in (b"\x15", b"\x16") and self._head_bytes == len(data):
            self.error = "the answer is a TLS record, not HTTP: use https:// in the base URL"
        else:
            self.error = f"not an HTTP/1.1 response: {reason}"

    # What the parser calls, in order of the message.

    def _on_message_begin(self) -> None:
        if self.done:
            self.surplus = True

    def _on_status(self, reason: bytes) -> None:
        if self.head is None:  # in pieces, where reads cut it
            self._reason += reason

    def _on_header(self, name: bytes, value: bytes) -> None:
        if self.head is None:  # a header after the head is a trailer
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def _on_headers_complete(self) -> None:
        if self.done:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._headers.clear()
            self._reason = b""
            return
        self.head = ResponseHead(status, self._headers, self._body_kind(status), self._reason.decode("latin-1"))

    def _body_kind(self, status: int) -> BodyKind:
        if status in (204, 304):
            return "none"
        fields = dict(self._headers)
        coding = fields.get("transfer-encoding")
        if coding is not None:
            return "chunked" if coding.lower().rpartition(",")[2].strip() == "chunked" else "close"
        return "length" if "content-length" in fields else "close"

    def _on_chunk_header(self) -> None:
        self._chunk_ended = False

    def _on_chunk_complete(self) -> None:
        self._chunk_ended = True

    def _on_message_complete(self) -> None:
        if self.head is not None and not self.done:
            self.done = True
            self._last_piece = len(self._pieces)
            self._keep_alive = self._parser.should_keep_alive()


class _Callbacks:
    """The names under which llhttp's events arrive, kept off the public face of the framing."""

    def __init__(self, framing: ResponseFraming) -> None:
        self.on_message_begin = framing._on_message_begin
        self.on_status = framing._on_status
        self.on_header = framing._on_header
        self.on_headers_complete = framing._on_headers_complete
        self.on_chunk_header = framing._on_chunk_header
        self.on_body = framing._pieces.append
        self.on_chunk_complete = framing._on_chunk_complete
        self.on_message_complete = framing._on_message_complete
