"""A stage's plan shared out over its workers: who takes which place, and the lines of ``plan.csv`` that say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from llm_locust.arrivals import PHASES, StagePlan
from llm_locust.records import PlanRow, StageManifest, StageSpec
from llm_locust.records.run import RunSpec, request_id

_COOLDOWN = PHASES.index("cooldown")


class Shares:
    """Every place of the plan with its worker."""

    def __init__(self, run: RunSpec, spec: StageSpec, plan: StagePlan, workers: int) -> None:
        """Share the plan out over so many workers."""
        self._run = run
        self._spec = spec
        self._plan = plan
        self._rank = np.zeros(len(plan), dtype=np.int64)
        self._nth = np.zeros(len(plan), dtype=np.int64)
        """As how manieth of its own its worker takes a place."""
        for rank in range(workers):
            mine = plan.share(rank, workers)
            self._rank[mine] = rank
            self._nth[mine] = np.arange(len(mine))

    @property
    def before_cooldown(self) -> range:
        """The places of warm-up and window: they are due whatever happens."""
        return range(int(np.count_nonzero(self._plan.phase < _COOLDOWN)))

    def due_in_cooldown(self, record: StageManifest) -> list[int]:
        """The places of the cool-down that came due before arrivals ended.

        A worker that is gone cannot say how many it took; its clock can.
        """
        return [place for place in range(len(self.before_cooldown), len(self._plan)) if self._was_due(place, record)]

    def _was_due(self, place: int, record: StageManifest) -> bool:
        worker = record.workers[self._rank[place]]
        if worker.taken is not None:
            return bool(self._nth[place] < worker.taken)
        return record.start_ns + int(self._plan.offset_ns[place]) < (record.arrivals_end_ns or 0)

    def rows(self, places: Iterable[int], record: StageManifest) -> Sequence[PlanRow]:
        """The lines of these places, for a stage that starts at ``record.start_ns``."""
        plan, spec, run_id = self._plan, self._spec, self._run.run_id
        return [
            PlanRow(
                run_id=run_id,
                stage=spec.stage,
                round=spec.round,
                phase=PHASES[plan.phase[place]],
                index=spec.first_index + place,
                request_id=request_id(run_id, spec.first_index + place),
                worker=record.workers[self._rank[place]].worker,
                user=self._run.users[plan.user[place]].name,
                planned_ns=record.start_ns + int(plan.offset_ns[place]),
                prompt_index=int(plan.prompt[place]),
            )
            for place in places
        ]
