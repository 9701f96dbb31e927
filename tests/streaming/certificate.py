"""A certificate made for the test, for the loopback addresses and for ``localhost``."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

from gevent.ssl import SSLContext


class SelfMade(NamedTuple):
    certificate: str
    context: SSLContext


def make_certificate(folder: Path) -> SelfMade:
    """A server's certificate, and its context."""
    key, certificate = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost",
         "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    context = SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return SelfMade(certificate, context)
