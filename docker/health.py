"""Whether a service of this image does its work; for health checks and probes.

    python health.py answers http://127.0.0.1:9646/metrics     # a page answers with 200
    python health.py connected 5557                            # a worker holds its connection to the master

Exits with 0 or 1, and says in one line why.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

import psutil

WAIT_S = 4.0
USAGE = "usage: health.py answers URL | health.py connected PORT"


def answers(url: str) -> str | None:
    """Why the page does not answer, or ``None`` if it does. Whatever HTTP_PROXY says, it is asked directly."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=WAIT_S) as reply:
            return None if reply.status == 200 else f"{url} answered {reply.status}"
    except (urllib.error.URLError, OSError) as error:
        return f"{url}: {error}"


def connected(port: int) -> str | None:
    """Why no established connection of this container goes to that port, or ``None`` if one does."""
    for connection in psutil.net_connections("tcp"):
        if connection.raddr and connection.raddr.port == port and connection.status == psutil.CONN_ESTABLISHED:
            return None
    return f"no connection to port {port}: the master is not there yet, or gone"


def main(arguments: list[str]) -> int:
    """Exit code: 0 healthy, 1 not, 2 usage."""
    match arguments:
        case ["answers", url] if url.startswith("http://"):
            reason = answers(url)
        case ["connected", port] if port.isdecimal():
            reason = connected(int(port))
        case _:
            print(USAGE, file=sys.stderr)
            return 2
    print(reason or "healthy")
    return 0 if reason is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
