"""What Locust's own UI is told of a run: that it goes on until it has ended, and what becomes of it meanwhile.

Locust's page asks for figures only while the state is "spawning" or "running", and never again once it has read another one.
A run of ours is prepared before Locust calls it spawning, and is drained and judged after a person has pressed Stop: the
page is kept looking until that is over, and the words for it stand in the strip above it and in the tab.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from locust.runners import (
    STATE_CLEANUP,
    STATE_INIT,
    STATE_RUNNING,
    STATE_SPAWNING,
    STATE_STOPPED,
    STATE_STOPPING,
    Runner,
)

from llm_locust.live.snapshot import Snapshot
from llm_locust.web.tab_rows import stage_name, state_words

if TYPE_CHECKING:
    from locust.web import WebUI

LOOK_ON = frozenset({STATE_SPAWNING, STATE_RUNNING})
"""States in which Locust's page goes on asking."""
ENDING = frozenset({STATE_STOPPING, STATE_CLEANUP})


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the strip shows."""

    state: str
    """Of the run: ``idle``, ``starting``, ``running``, ``draining``, ``stopping``, ``judging``, ``judged`` or ``failed``."""
    text: str
    run_id: str | None
    synthetic: bool
    report: bool
    """There is a report to open, of the newest judged run."""


def is_starting(web_ui: WebUI, runner: Runner) -> bool:
    """A start was accepted, and Locust does not call it spawning yet: the server is waited for, the load is prepared."""
    if runner.state not in (STATE_INIT, STATE_STOPPED):
        return False
    return any(
        greenlet is not None and not greenlet.dead for greenlet in (runner.shape_greenlet, web_ui._swarm_greenlet)
    )


def state_for_page(state: str, *, starting: bool) -> str:
    """The state that makes Locust's page do what is right: look on until the run has ended."""
    if starting:
        return STATE_SPAWNING
    return STATE_RUNNING if state in ENDING else state


def told_of(run: Snapshot, *, starting: bool, report: bool) -> Told:
    """The run in a few words."""
    state, text = _words(run, starting)
    return Told(state=state, text=text, run_id=run.run_id, synthetic=run.synthetic, report=report)


def _words(run: Snapshot, starting: bool) -> tuple[str, str]:
    if starting and run.state != "running":
        return "starting", "starting: the server is looked for, and one request is tried"
    if run.state == "running":
        if run.stopping == "now":
            return "stopping", "stopping at once: what is in flight is cancelled, every request keeps its row"
        if run.stopping == "drain":
            left = sum(stage.in_flight for stage in run.stages[-1:])
            flying = f"{left} in flight" if left else "what is in flight"
            return "draining", f"stopping: nothing more is sent, {flying} may end or meet its deadline"
        return "running", _stage_words(run)
    if run.state == "judging":
        return "judging", "the run has ended: it is being merged and judged"
    if run.state == "judged" and run.judged is not None:
        return "judged", run.judged.sentence
    if run.state == "failed":
        return "failed", run.reason or "the run failed"
    return "idle", "no run yet"


def _stage_words(run: Snapshot) -> str:
    if not run.stages:
        return "a run has begun"
    stage = run.stages[-1]
    of = "" if run.stage_count is None else f" of {run.stage_count}"
    return f"stage {stage.stage + 1}{of}, {stage_name(stage)}: {state_words(stage)}, {stage.in_flight} in flight"
