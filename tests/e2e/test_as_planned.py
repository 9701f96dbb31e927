"""What was planned is what the server received: the same arrivals for any number of workers, each when it was recorded."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from llm_locust.arrivals import PHASES, plan_stage
from llm_locust.records.run import UserChoice
from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, Locust, Run, processes, truth

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

POISSON_THEN_CONSTANT = """
import msgspec
from llm_locust import StageShape

class PoissonThenConstant(StageShape):
    def stages(self, options):
        for arrivals in ("poisson", "constant"):
            yield msgspec.structs.replace(options.open_stage(25), arrivals=arrivals)
"""
ANCHORS_NS = 2_000_000
"""What the clocks of two processes of this machine, each anchored once, may differ by."""


def assert_the_server_received_what_was_planned(run: Run, server: Running) -> None:
    merged = pd.read_csv(run.folder.merged, dtype_backend="numpy_nullable").set_index("request_id")
    received = truth(server).set_index("request_id")["t_recv_ns"]
    assert set(merged.index) == set(received.index)
    for stage in run.manifest.stages:
        plan = plan_stage(stage.spec, [UserChoice(name="ChatUser", weight=1)])
        assert plan.sha256 == stage.plan_sha256
        rows = merged[merged["stage"] == stage.spec.stage].sort_values("index")
        due = len(rows)
        assert due >= int((plan.phase < PHASES.index("cooldown")).sum())
        assert rows["index"].tolist() == list(range(stage.spec.first_index, stage.spec.first_index + due))
        assert rows["planned_ns"].tolist() == [stage.start_ns + int(offset) for offset in plan.offset_ns[:due]]
        # Sent as late as its row says, and not otherwise: the server saw it between then and its first answer.
        lag_ns = ((rows["dispatch_lag_ms"] + rows["cap_wait_ms"]) * 1e6).round().astype("Int64")
        at = received.reindex(rows.index)
        uncertain_ns = ANCHORS_NS + max(
            sample.uncertainty_ns
            for w in stage.workers
            for sample in (w.clock_start, w.clock_end)
            if sample is not None
        )
        assert (lag_ns >= 0).all()
        assert (at >= rows["planned_ns"] + lag_ns - uncertain_ns).all()
        assert (at <= rows["headers_ns"] + uncertain_ns).all()


def test_poisson_and_constant_arrivals_are_sent_as_planned_by_one_worker_and_by_two(
    locust: Locust, simulator: Simulator
) -> None:
    shape = locust.home / "shape.py"
    shape.write_text(POISSON_THEN_CONSTANT)
    started = []
    for workers in (1, 2):
        server, place = simulator(slots=32), Locust(locust.home / f"{workers}", locust.started)
        place.home.mkdir()
        process = place.start(
            "--headless", *processes(workers), "--host", server.base_url, "--stage-time", "2.5", "--warmup-time", "0.5",
            "--cooldown", "0.5", "--max-tokens", "2", "--deadline", "10", files=f"{CHAT},{shape}",
        )  # fmt: skip
        started.append((workers, server, place, process))
    plans = []
    for workers, server, place, process in started:
        run = place.finish(process)
        run.assert_ran()
        run.assert_one_row_for_each_planned_arrival()
        assert [stage.spec.arrivals for stage in run.manifest.stages] == ["poisson", "constant"]
        assert set(run.rows()["worker"]) == set(range(workers))
        assert_the_server_received_what_was_planned(run, server)
        rows = run.rows().sort_values("index")
        of_the_plan = rows[rows["phase"] != "cooldown"]
        plans.append(
            (
                [stage.plan_sha256 for stage in run.manifest.stages],
                [stage.spec.first_index for stage in run.manifest.stages],
                of_the_plan[["index", "stage", "phase", "user", "prompt_sha256"]].to_numpy().tolist(),
            )
        )
    assert plans[0] == plans[1]
