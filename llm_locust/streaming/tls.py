"""TLS over memory: the shared context, and a session whose bytes travel over a socket that others read.

Decrypting from memory keeps the socket reads ours, so that they carry the kernel's receive times.
"""

from __future__ import annotations

import functools
import ssl

from llm_locust.records import UsageError


@functools.lru_cache(maxsize=8)
def tls_context(ca_file: str | None, insecure: bool) -> ssl.SSLContext:
    """The one context for these settings: loading the certificates for every user would cost 20 ms each.

    Raises:
        UsageError: the file cannot be read, or holds no certificate.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(
            f"CA file {ca_file}: {error.strerror or error}; give a file with certificates in PEM form"
        ) from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsSession:
    """One client session. Ciphertext goes in by :meth:`received` and comes out by :meth:`outgoing`."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._in, self._out, server_hostname=server_name)

    def handshake(self) -> bool:
        """Go on with the handshake; ``True`` when it is done.

        Raises:
            ssl.SSLError: it failed.
        """
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def received(self, ciphertext: bytes) -> None:
        """Take what the socket read; nothing means that the peer closed."""
        if ciphertext:
            self._in.write(ciphertext)
        else:
            self._in.write_eof()

    def outgoing(self) -> bytes:
        """Ciphertext that is due to be sent."""
        return self._out.read() if self._out.pending else b""

    def encrypt(self, plaintext: bytes) -> bytes:
        """The ciphertext of all of ``plaintext``."""
        view = memoryview(plaintext)
        while view:
            view = view[self._session.write(view) :]
        return self.outgoing()

    def decrypt(self) -> tuple[bytes, bool]:
        """What can be decrypted now, and whether the peer has ended its side.

        Raises:
            ssl.SSLError: the bytes are no TLS.
        """
        pieces: list[bytes] = []
        while True:
            try:
                piece = self._session.read(65536)
            except ssl.SSLWantReadError:
                return b"".join(pieces), False
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b"".join(pieces), True
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)
