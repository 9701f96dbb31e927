"""The process that computes for the page: load stays free of it, and it comes back when it has ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from llm_locust.web.workbench.desk import Desk
from tests.plugin.test_imports import loaded_by


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def test_the_routes_load_neither_pandas_nor_scipy() -> None:
    loaded = loaded_by("import llm_locust.web.workbench.routes")
    assert "llm_locust.web.workbench.desk" in loaded
    assert not {"pandas", "scipy", "numpy", "matplotlib"} & loaded


def test_it_answers_on_after_an_error_of_ours_comes_back_when_killed_and_ends_with_its_input(desk: Desk) -> None:
    assert desk.ask("weather").status == 500
    assert desk.ask("goodput").status == 200
    first = desk._process
    assert first is not None
    first.kill()
    first.wait()
    assert desk.ask("goodput").status == 200
    second = desk._process
    assert second is not None
    assert second.stdin is not None
    second.stdin.close()
    assert second.wait(timeout=30) == 0


UNDER_GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent
from llm_locust.web.workbench.desk import Desk

ticks = 0
def tick():
    global ticks
    while True:
        gevent.sleep(0.005)
        ticks += 1
gevent.spawn(tick)
desk = Desk()
large = b'{"rows": [' + b'{"test": "' + b"x" * 900_000 + b'"}]}'
jobs = [gevent.spawn(desk.ask, "worksheet/csv", None, large) for _ in range(3)]
gevent.joinall(jobs)
assert [job.value.status for job in jobs] == [200] * 3, [job.value for job in jobs]
desk.close()
print(ticks)
"""


def test_while_it_computes_gevent_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", UNDER_GEVENT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20  # a second of starting alone, at 5 ms a tick
