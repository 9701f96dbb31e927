"""No answer, or not a whole one: connecting, TLS, names, the deadline, connections that break."""

from __future__ import annotations

import re

from llm_locust.records.run import PROXY_AUTH_VARIABLE
from llm_locust.telemetry.diagnosis.finding import Failed, Finding

_PROXY = re.compile(r"\bthe proxy\b")
_NOT_TLS = re.compile(r"does not speak TLS")
_CERTIFICATE = re.compile(r"certificate was not accepted")
_WRONG_NAME = re.compile(r"mismatch|doesn't match|not valid for", re.IGNORECASE)
_WRONG_TIME = re.compile(r"expired|not yet valid", re.IGNORECASE)
_HANDSHAKE = re.compile(r"TLS handshake")
_REFUSED = re.compile(r"refused", re.IGNORECASE)
_UNRESOLVED = re.compile(r"\bresolved?\b")
_THIS_MACHINE = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0")


def proxy(failed: Failed) -> Finding | None:
    """It is the proxy that does not answer, or does not let us through."""
    if not failed.says(_PROXY):
        return None
    remedy = (
        f"Check --proxy and that the proxy may reach {failed.target.authority}; user:password for it stands in "
        f"{PROXY_AUTH_VARIABLE}. Without --proxy none is used."
    )
    return Finding("there is no way through the proxy", remedy)


def proxy_credentials(failed: Failed) -> Finding | None:
    """HTTP 407: only a proxy says that."""
    return proxy(failed) if failed.status == 407 else None


def plain_http_port(failed: Failed) -> Finding | None:
    """``https://`` to a port that speaks plain HTTP."""
    if not failed.says(_NOT_TLS):
        return None
    remedy = f"Begin the base URL with http://: --host {failed.with_scheme('http')}"
    return Finding("the server speaks plain HTTP on this port, not TLS", remedy)


def certificate(failed: Failed) -> Finding | None:
    """A certificate that is not accepted: another name, another time, or an issuer nobody here trusts."""
    if not failed.says(_CERTIFICATE):
        return None
    if failed.says(_WRONG_NAME):
        remedy = "Give --host with the name that the certificate is made out to, or --insecure to skip the check."
        return Finding(f"the server's certificate is not made out to {failed.target.host}", remedy)
    if failed.says(_WRONG_TIME):
        remedy = "Renew it, set this machine's clock right, or give --insecure to skip the check."
        return Finding("the server's certificate is not valid at this time", remedy)
    remedy = (
        "Trust its issuer (or itself, if it is self-signed) with --ca-file FILE, or give --insecure to skip the check."
    )
    return Finding("the server's certificate is not trusted here", remedy)


def handshake(failed: Failed) -> Finding | None:
    """TLS failed in any other way."""
    if not failed.says(_HANDSHAKE):
        return None
    remedy = f"Check that this is its TLS port; if it speaks plain HTTP: --host {failed.with_scheme('http')}"
    return Finding("the server does not agree on TLS", remedy)


def no_connection(failed: Failed) -> Finding:
    """Refused, unreachable, or silently dropped."""
    host, port = failed.target.host, failed.target.port
    if not failed.says(_REFUSED):
        remedy = f"Check host and port in --host, that {host} is up, and that no firewall lies between."
        return Finding(f"no connection to {failed.target.authority} could be made", remedy)
    remedy = f"Check that the server is running and listens on port {port}; for one that boots, raise --ready-timeout."
    if _THIS_MACHINE.fullmatch(host):
        remedy += f" Inside a container, {host} is the container itself."
    return Finding(f"nothing listens at {failed.target.authority}", remedy)


def ours(failed: Failed) -> Finding:
    """The generator's own fault: a name it cannot resolve, descriptors or ports that ran out."""
    host = failed.target.host
    if failed.says(_UNRESOLVED):
        remedy = f"Check its spelling in --host, and that this machine knows it (getent hosts {host})."
        return Finding(f"the host name {host} has no address here", remedy)
    remedy = (
        "This machine is the limit, not the server: raise its limit of open files (ulimit -n), or free local ports."
    )
    return Finding("the load generator could not send the request", remedy)


def lost(failed: Failed) -> Finding:
    """Closed without an answer, or reset."""
    if failed.status:
        remedy = "Look into the log of the server, and of any proxy before it: one of them ended the connection."
        return Finding("the connection broke in the middle of the reply", remedy)
    remedy = "Look into its log: it may have crashed, or not be up yet behind a port that is already open."
    if not failed.target.tls:
        remedy += f" If it speaks TLS: --host {failed.with_scheme('https')}"
    return Finding("the server hung up without an answer", remedy)


def timeout(failed: Failed) -> Finding:
    """The deadline passed; how far the reply had come says why."""
    reply = failed.reply
    if reply.output_events:
        remedy = "Give it longer with --deadline, or ask for less with --max-tokens."
        return Finding(f"the reply was not finished in time ({reply.output_events} output events had come)", remedy)
    if reply.headers_ns is not None:
        cause = "the server began its answer, but no output came in time"
    elif reply.written_ns is not None:
        cause = "the server took the request, but did not answer in time"
    else:
        cause = "the request could not be delivered in time"
    remedy = "It may be busy with others' requests, or load the model for this first one: look into its log, and raise "
    return Finding(cause, f"{remedy}--deadline if it only needs longer.")


def truncated(failed: Failed) -> Finding:
    """The body ended unfinished."""
    remedy = "Look into the log of the server, and of any proxy before it, for a limit of time or size."
    return Finding("the reply broke off before it was finished", remedy)
