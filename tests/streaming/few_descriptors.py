"""Run as a process with few descriptors: asks for more streams at once than it may open, then for one after another.

Prints a line of JSON when every request of the first wave has either ended or its stream, waits for the server to let those
go, and prints another when all has ended and later requests have had their turn.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter

import gevent

from llm_locust.records import Clock
from llm_locust.streaming import Reply, StreamClient, StreamRequest

ASK = StreamRequest(path="/v1/chat/completions", body=b"{}", headers=[], dialect="openai-chat")
WAVE, LATER = 100, 5


def main(url: str, descriptors: int, plain: bool) -> None:
    """Ask ``url``, with so many descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    client = StreamClient(url, Clock(), plain=plain)
    wave = [gevent.spawn(client.stream, ASK, deadline_s=60) for _ in range(WAVE)]
    while not any(job.ready() for job in wave):  # none of the others can end before the server is told to go on
        gevent.sleep(0.01)
    tell([job.value for job in wave if job.ready()])
    gevent.joinall(wave, raise_error=True)
    later = [client.stream(ASK, deadline_s=60) for _ in range(LATER)]
    tell([job.value for job in wave] + later)


def tell(replies: list[Reply]) -> None:
    """One line: how often which outcome, and the errors."""
    outcomes = Counter(str(reply.outcome) for reply in replies)
    errors = sorted({reply.error for reply in replies if reply.error is not None})
    print(json.dumps({"outcomes": outcomes, "errors": errors}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "plain")
