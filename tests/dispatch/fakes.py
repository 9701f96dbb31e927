"""Stand-ins for what surrounds a stage on a worker: a server whose replies the test lets go one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

import gevent
from gevent.event import Event

from llm_locust.dispatch.messages import PrepareStage
from llm_locust.dispatch.stage_run import StageRun
from llm_locust.dispatch.worker_run import WorkerRun
from llm_locust.records import Clock, Outcome, PlanRow, RequestRecord, StageSpec
from llm_locust.records.run import RunSpec, UserChoice, WorkloadSpec
from llm_locust.streaming import Cancelled, Reply, StreamRequest
from llm_locust.workload import Prompt, SyntheticPrompts, Workload


@dataclass
class HeldServer:
    """Answers a request when the test says so, in the order the test likes."""

    clock: Clock
    waiting: list[tuple[StreamRequest, Event]] = field(default_factory=list)
    at_once: bool = False
    clock_steps: int = 0
    keep_text: bool = False
    arrived: Event = field(default_factory=Event)

    def stream(self, request: StreamRequest, *, deadline_s: float) -> Reply:
        sent = self.clock.now_ns()
        answer = Event()
        self.waiting.append((request, answer))
        self.arrived.set()
        try:
            if not self.at_once and not answer.wait(deadline_s):
                return Reply(outcome=Outcome.TIMEOUT, sent_ns=sent, end_ns=self.clock.now_ns(), error="deadline")
        except Cancelled:
            return Reply(outcome=Outcome.CANCELLED, sent_ns=sent, end_ns=self.clock.now_ns(), error="cancelled")
        return Reply(outcome=Outcome.OK, sent_ns=sent, end_ns=self.clock.now_ns(), text="said")

    def await_requests(self, count: int) -> None:
        while len(self.waiting) < count:
            self.arrived.clear()
            assert self.arrived.wait(5), f"only {len(self.waiting)} of {count} requests came"

    def answer(self, place: int) -> None:
        self.waiting[place][1].set()


@dataclass
class Rows:
    """What a recorder would have written."""

    terminal: list[RequestRecord] = field(default_factory=list)
    trouble: str | None = None
    issued: list[PlanRow] = field(default_factory=list)

    def add(self, record: RequestRecord) -> None:
        self.terminal.append(record)

    def issue(self, row: PlanRow) -> None:
        self.issued.append(row)


class Builder:
    """A user that asks for its prompt; or one whose author made a mistake that shows from some request on."""

    def __init__(self, fails_from: int | None = None, takes_s: float = 0.0, fails: int | None = None) -> None:
        """``fails``: so many requests from ``fails_from`` on; ``None`` for all of them."""
        self.built = 0
        self.fails_from = fails_from
        self.fails = fails
        self.takes_s = takes_s
        self.prompts: list[int] = []

    def build_request(self, prompt: Prompt, request_id: str) -> StreamRequest:
        self.built += 1
        self.prompts.append(prompt.index)
        if self.fails_from is not None and 0 < self.built - self.fails_from <= (self.fails or self.built):
            raise KeyError("no such field")
        if self.takes_s:
            gevent.sleep(self.takes_s)
        return StreamRequest(path="/", body=request_id.encode(), headers=[], dialect="openai-chat")


class Evicting(Builder):
    """A user whose API can have the model unloaded."""

    can_evict = True

    def __init__(self) -> None:
        super().__init__()
        self.evicting: list[str] = []

    def build_request(self, prompt: Prompt, request_id: str, evict_after: bool = False) -> StreamRequest:
        if evict_after:
            self.evicting.append(request_id)
        return super().build_request(prompt, request_id)


class Bench:
    """One stage on one worker, with everything around it in the test's hands."""

    def __init__(
        self,
        spec: StageSpec,
        *,
        rank: int = 0,
        of: int = 1,
        cap: int | None = None,
        deadline_s: float = 30.0,
        builder: Builder | None = None,
        users: list[UserChoice] | None = None,
        prompts: Workload | None = None,
        stride: int | None = None,
        at_once: bool = False,
        max_requests: int | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        self.clock = Clock()
        self.server = HeldServer(self.clock, at_once=at_once)
        self.rows = Rows()
        self.observed: list[RequestRecord] = []
        self.builder = builder or Builder()
        users = users or [UserChoice(name="U", weight=1)]
        run = WorkerRun(
            spec=RunSpec(
                run_id="run",
                folder="/nonexistent",
                host="http://127.0.0.1:1",
                model=None,
                deadline_s=deadline_s,
                max_in_flight=cap,
                users=users,
                workload=WorkloadSpec(seed=1, max_tokens=8, sha256=""),
            ),
            worker=rank,
            clock=self.clock,
            workload=prompts or SyntheticPrompts(1, 8),
            client=self.server,  # type: ignore[arg-type]
            recorder=self.rows,  # type: ignore[arg-type]
            builders={user.name: self.builder for user in users},
            observe=lambda record, reply, user: self.observed.append(record),
            stride=stride or of,
        )
        order = PrepareStage(
            spec=spec, rank=rank, of=of, max_requests=max_requests, max_output_tokens=max_output_tokens
        )
        self.stage = StageRun(run, order)

    def start(self) -> None:
        self.stage.start(self.clock.now_ns())

    def await_over(self) -> None:
        assert self.stage.over.wait(10), "the stage did not end"

    def outcomes(self) -> dict[int, str]:
        """Outcome by index; fails when an index has two rows."""
        found = {record.index: str(record.outcome) for record in self.rows.terminal}
        assert len(found) == len(self.rows.terminal)
        return found


def burst(count: int, **changes: object) -> StageSpec:
    """A stage whose ``count`` window arrivals are due within a few milliseconds of its start."""
    values: dict[str, object] = {
        "stage": 0,
        "rate_rps": 1000.0,
        "arrivals": "constant",
        "warmup_s": 0.0,
        "window_s": count / 1000.0,
        "cooldown_s": 0.0,
        "seed": 1,
        "first_index": 0,
    }
    return StageSpec(**{**values, **changes})  # type: ignore[arg-type]


def loops(concurrency: int, **changes: object) -> StageSpec:
    """A closed loop without a warm-up; give it ``requests`` or ``window_s``."""
    values: dict[str, object] = {"mode": "closed", "rate_rps": None, "window_s": None, "concurrency": concurrency}
    return burst(1, **{**values, **changes})
