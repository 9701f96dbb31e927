"""Workers whose clocks are off, or that are far away: the merged times are right to within what is stated."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, Locust, Run, free_port, truth
from tests.e2e.relay import Relay
from tests.e2e.waiting import llm_locust

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

SHORT = [
    "--rates", "10", "--stage-time", "3", "--warmup-time", "0", "--cooldown", "1", "--max-tokens", "4", "--deadline", "10",
    "--slo", "e2e=30000",
]  # fmt: skip
ANCHORS_NS = 2_000_000
"""What the clocks of two processes of this machine, each anchored once, may differ by."""

SHIFTED = """
import time
from llm_locust.records import Clock

anchor = Clock.__init__

def off(clock):
    anchor(clock)
    clock.anchor_ns += {shift_ns}

Clock.__init__ = off
Clock.wall_step_ns = lambda clock: time.time_ns() + {shift_ns} - clock.now_ns()  # the machine's wall clock is off too
"""


def merged(run: Run) -> pd.DataFrame:
    text = {"outcome": "string", "request_id": "string"}
    frame = pd.read_csv(run.folder.merged, dtype=text, dtype_backend="numpy_nullable")
    return frame.set_index("request_id", drop=False)


def assert_true_to(server: Running, rows: pd.DataFrame, tolerance_ns: int) -> None:
    """Causality against the server's own log: sent before it was received there, received after it was sent from there."""
    log = truth(server).set_index("request_id")
    assert set(rows.index) == set(log.index)
    both = rows.join(log, suffixes=("", "_true"))
    assert (both["planned_ns"] <= both["t_recv_ns"] + tolerance_ns).all()
    assert (both["sent_ns"] <= both["t_recv_ns"] + tolerance_ns).all()
    assert (both["first_output_ns"] >= both["t_first_ns"] - tolerance_ns).all()
    assert (both["last_output_ns"] >= both["t_last_ns"] - tolerance_ns).all()


def test_clocks_that_are_two_seconds_off_are_put_right(locust: Locust, simulator: Simulator) -> None:
    server = simulator(slots=16)
    port = str(free_port())
    shifts_ns = [2_000_000_000, -2_000_000_000]
    master = locust.start(
        "--headless", "--master", "--expect-workers", "2", "--master-bind-port", port, "--host", server.base_url, *SHORT
    )
    workers = []
    for shift_ns in shifts_ns:
        shifted = locust.home / f"off_by_{shift_ns}.py"
        shifted.write_text(SHIFTED.format(shift_ns=shift_ns))
        workers.append(locust.start("--worker", "--master-port", port, files=f"{shifted},{CHAT}"))
    run = locust.finish(master)
    assert [worker.communicate(timeout=30) and worker.returncode for worker in workers] == [0, 0]
    assert run.code == 0, run.stdout
    run.assert_one_row_for_each_planned_arrival()
    (stage,) = run.manifest.stages
    known = {}
    for worker in stage.workers:
        assert worker.clock_start is not None
        assert worker.clock_end is not None
        for sample in (worker.clock_start, worker.clock_end):
            known[worker.worker] = min(shifts_ns, key=lambda ns, at=sample: abs(ns - at.offset_ns))
            assert abs(sample.offset_ns - known[worker.worker]) <= sample.uncertainty_ns + ANCHORS_NS
        assert abs(worker.wall_step_ns or 0) <= ANCHORS_NS
    assert sorted(known.values()) == sorted(shifts_ns)
    (summary,) = run.summary.stages
    uncertainty_ms = summary.generator.clock_uncertainty_ms
    assert uncertainty_ms is not None
    assert uncertainty_ms < 300  # a hundredth of the limit: the stage is valid
    assert summary.generator.valid
    rows = merged(run)
    assert set(rows["outcome"]) == {"ok"}
    assert_true_to(server, rows, round(uncertainty_ms * 1e6) + ANCHORS_NS)
    own = run.rows().set_index("request_id")
    for worker, shift_ns in known.items():  # as they were written, the times are those of the worker's clock
        off_ns = own["sent_ns"][own["worker"] == worker] - rows["sent_ns"]
        assert ((off_ns.dropna() - shift_ns).abs() <= uncertainty_ms * 1e6 + ANCHORS_NS).all()
    for name in ("first_output_ns", "complete_ns", "end_ns"):  # and durations are the worker's own, to the nanosecond
        assert (rows[name] - rows["sent_ns"] == (own[name] - own["sent_ns"]).reindex(rows.index)).all()


@pytest.fixture
def far() -> Iterator[Callable[..., Relay]]:
    relays: list[Relay] = []

    def start(port: int, **delays: float) -> Relay:
        relays.append(Relay(port, **delays))
        return relays[-1]

    yield start
    for relay in relays:
        relay.close()


def test_a_line_of_200_ms_to_the_master_is_stated_as_uncertainty_and_judged_against_the_limits(
    locust: Locust, simulator: Simulator, far: Callable[..., Relay]
) -> None:
    """180 ms there and 20 ms back, the worst case: the offset is then wrong by 80 ms, of the 100 ms that are stated."""
    server = simulator(slots=16)
    port = free_port()
    line = far(port, there_s=0.02, back_s=0.18)
    master = locust.start(
        "--headless", "--master", "--expect-workers", "2", "--master-bind-port", str(port), "--host", server.base_url,
        *SHORT,
    )  # fmt: skip
    workers = [locust.start("--worker", "--master-port", str(line.port)) for _ in range(2)]
    run = locust.finish(master)
    assert [worker.communicate(timeout=30) and worker.returncode for worker in workers] == [0, 0]
    assert run.code == 0, run.stdout
    run.assert_one_row_for_each_planned_arrival()
    assert sorted(run.rows(shipped=True)["index"]) == sorted(run.rows()["index"])
    (stage,) = run.manifest.stages
    for worker in stage.workers:
        for sample in (worker.clock_start, worker.clock_end):
            assert sample is not None
            assert sample.uncertainty_ns >= 100_000_000
            assert abs(sample.offset_ns) <= sample.uncertainty_ns + ANCHORS_NS  # the truth is 0: it is one machine
            assert abs(sample.offset_ns) >= 50_000_000  # and an uneven line does bend it
    (summary,) = run.summary.stages
    uncertainty_ms = summary.generator.clock_uncertainty_ms
    assert uncertainty_ms is not None
    assert summary.generator.valid  # 300 ms may be, at a limit of 30 s
    assert_true_to(server, merged(run), round(uncertainty_ms * 1e6) + ANCHORS_NS)

    claimed = llm_locust("report", str(run.folder.path), "--slo", "ttft=200")
    assert claimed.returncode == 4
    assert "the workers' clocks are known to 1" in " ".join(claimed.stdout.split())
