"""The manifest: everything needed to run it again, and what the merge needs to put the raw files together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from llm_locust.records.errors import UsageError
from llm_locust.records.run_folder import why_no_run
from llm_locust.records.stage import StageSpec
from llm_locust.records.whole_file import write_whole_json

SCHEMA_VERSION = "1.1"

RunState = Literal["running", "complete", "interrupted", "failed"]


class ClockSample(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of a worker's clock against the master's: the round trip with the least delay of a series."""

    at_ns: int
    """When, on the master's clock."""
    offset_ns: int
    """Worker clock minus master clock."""
    uncertainty_ns: int
    """Half the round trip: the offset is within this of the truth."""


class StageWorker(msgspec.Struct, kw_only=True):
    """One worker in one stage."""

    worker: int
    """The ``k`` of ``worker-<k>.csv``: unique in the run."""
    client_id: str
    """Locust's name of the worker."""
    rank: int
    """Its rank k of W: it takes ``arrivals[k::W]``."""
    host: str = ""
    """Name of its machine; empty: it never said."""
    pid: int | None = None
    """Its process id; ``None``: it never said."""
    addresses: list[str] = []
    """What the target's name (or its proxy's) resolved to there, in the order they are tried."""
    clock_start: ClockSample | None = None
    """Its clock against the master's at the stage's start; ``None``: not measured."""
    clock_end: ClockSample | None = None
    """The same at the stage's end; ``None``: not measured."""
    taken: int | None = None
    """How many of its arrivals came due; ``None`` when it never said."""
    lost: bool = False
    """It went away before the stage's end."""
    lost_reason: str | None = None
    """How that was noticed; ``None``: it was not lost."""
    wall_step_ns: int | None = None
    """How far its wall clock stepped during the run; the records are immune, but it is worth knowing."""
    clock_steps: int | None = None
    """How often in this stage a step of its wall clock made reads take user time instead of the kernel's."""


class StageManifest(msgspec.Struct, kw_only=True):
    """One stage as it was run. Times are Unix nanoseconds on the master's clock."""

    spec: StageSpec
    """The stage as it was asked for."""
    plan_sha256: str | None = None
    """Digest of its planned arrivals, compared on every worker; ``None`` for a closed loop."""
    start_ns: int
    """The start of the warm-up."""
    window_start_ns: int
    """The end of the warm-up."""
    window_end_ns: int | None
    """The end of the measurement window; ``None`` when it was never reached."""
    arrivals_end_ns: int | None = None
    """When arrivals stopped: the end of the cool-down, early or not."""
    end_ns: int | None = None
    """When every request had ended; ``None`` when the stage was cut short by a crash."""
    planned: int = 0
    """Arrivals that were due, cool-down included (withdrawn cool-down arrivals are not)."""
    workers: list[StageWorker] = []
    """Those that took part."""
    interrupted: str | None = None
    """Why the stage ended before its time, when it did."""


class WorkloadFacts(msgspec.Struct, kw_only=True):
    """What was sent."""

    name: str
    """What the workload is called."""
    kind: Literal["synthetic", "representative"]
    """Made up, or taken from real traffic."""
    source: str
    """Where the prompts come from."""
    sha256: str
    """Digest of the prompts and their limits."""
    prompts: int | None = None
    """Distinct prompts, when finite; a session is one. An arrival beyond them takes the first again."""
    read: int | None = None
    """Entries of the file, when it was one: those used and those ``dropped``."""
    dropped: dict[str, int] = {}
    """How many entries were left out, by reason."""
    slices: list[str] = []
    """The named parts of a mix."""
    shared_prefix_share: float | None = None
    """The share of a prompt's tokens that was asked to be common to its group; ``None``: nobody asked."""
    tokens_counted_by: str | None = None
    """What made-up lengths were counted by; ``None`` when none were asked for."""
    longest_off_share: float | None = None
    """The largest |got - asked| / asked of prompts counted before load; ``None``: none were."""
    sampling: dict[str, Any] = {}
    """Sampling fields as a request's body holds them, by user class where they differ; empty when not looked at."""
    cache_state: str | None = None
    """Whether stages take prompts of their own, and whether the prefix cache was reset before each."""
    notes: list[str] = []
    """What else is worth knowing, as sentences."""


class Transcribed(msgspec.Struct, frozen=True, kw_only=True):
    """Another tool sent the requests; the rows are what its result file says of them."""

    tool: str
    """Its name."""
    version: str | None = None
    """Its version; ``None``: the file does not say."""
    file: str
    """The name of the file."""
    sha256: str
    """Of its bytes."""
    lacks: list[str] = []
    """What the file does not say and is null here, or says in another way, as sentences."""


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """What the run must show, or its exit code is 3. Fixed before load, or given to ``llm-locust gate`` afterwards."""

    rate_rps: float | None = None
    """A rate of at least this must be sustained."""
    every_stage: bool = False
    """Every stage must pass."""


class MasterProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The process that makes a run, told apart from any other that may come to have its id."""

    pid: int
    """Its process id."""
    started_s: float
    """Unix seconds, by the wall clock of its system."""
    boot_id: str | None = None
    """Names the boot of its machine; ``None`` where the system has no such name."""
    pid_namespace: int | None = None
    """Within which the id means anything; ``None`` where the system has none."""


class Manifest(msgspec.Struct, kw_only=True):
    """``manifest.json`` of a run folder."""

    schema_version: str = SCHEMA_VERSION
    """Version of this form."""
    run_id: str
    """The run's name, and that of its folder."""
    state: RunState
    """``running`` until the master notes how it ended."""
    state_reason: str | None = None
    """Why it is not ``complete``, in words; ``None``: there is nothing to say."""
    started_at: str
    """ISO 8601, UTC."""
    ended_at: str | None = None
    """ISO 8601, UTC; ``None`` while it is running, or when its master was killed."""
    master: MasterProcess | None = None
    """Who was to note the end of the run; ``None`` where no process of ours made it."""
    host: str
    """The base URL of the target, without credentials."""
    model: str | None = None
    """As requests name it; ``None``: none was named."""
    synthetic_engine: bool = False
    """The target said that it is the synthetic engine: nothing measured on it is called performance."""
    users: list[str] = []
    """The user classes that took part."""
    versions: dict[str, str] = {}
    """Of this project, Locust, Python and what else matters, by name."""
    machine: dict[str, str | int | float | None] = {}
    """The load generator's machine (the master's)."""
    options: dict[str, Any] = {}
    """The options of this project as given, without secrets."""
    command: list[str] = []
    """The command line, without secrets."""
    seed: int
    """Of everything random in the run."""
    deadline_s: float | None
    """``None`` only where another tool sent the requests and does not say."""
    max_in_flight: int | None = None
    """Requests in flight at most (``--max-in-flight``); ``None`` for no cap."""
    streaming: bool = True
    """``False``: whole replies were asked for, so there is no TTFT or TPOT."""
    proxy: str | None = None
    """``http://host:port`` of the proxy that everything went through; ``None`` for none."""
    tls_verified: bool | None = None
    """Whether the server's certificate was verified; ``None`` without TLS."""
    slo: dict[str, float] = {}
    """Per-request limits in milliseconds, fixed before load."""
    gates: list[str] = []
    """Gates that a person chose before load, as written; empty for the defaults."""
    quality: str | None = None
    """What replies were checked by: ``regex:PATTERN``, ``ChatUser.check``; ``None``: nothing is said of their quality."""
    cancel: str | None = None
    """Which requests their clients dropped: ``share=0.1,after=2s``; ``None``: none were planned to be."""
    facts: dict[str, Any] = {}
    """What a client cannot see, as a person stated it before load (``--facts``)."""
    server_facts_start: dict[str, Any] = {}
    """What the server said of itself before load, by field of the evidence record; empty when nothing was asked."""
    server_facts_end: dict[str, Any] = {}
    """The same after the last stage; empty when it was not asked, or did not answer."""
    metrics_targets: list[str] = []
    """Addresses of the metrics pages that were read, without credentials."""
    metrics_interval_s: float | None = None
    """Seconds between two readings; ``None`` when none were made."""
    telemetry_clocks: dict[str, ClockSample] = {}
    """The clocks of samplers (``llm-locust telemetry --port``) whose pages were read, against the master's, by session."""
    ollama: dict[str, Any] = {}
    """What Ollama's ``/api/ps`` said of the model: ``start`` and ``end``, each with its ``size`` and ``size_vram``."""
    requirements: Requirements = msgspec.field(default_factory=lambda: Requirements())
    """What the run must show."""
    workload: WorkloadFacts
    """What was sent."""
    stages: list[StageManifest] = []
    """The stages that were run, in order."""
    transcribed: Transcribed | None = None
    """``None``: this project sent the requests itself."""

    def save(self, path: Path) -> None:
        """Write atomically: a reader sees the old manifest or the new one, never half of one."""
        write_whole_json(path, self)

    @staticmethod
    def load(path: Path) -> Manifest:
        """Read a manifest.

        Raises:
            UsageError: there is none, it is not whole, or it is of another schema.
        """
        try:
            raw = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                why_no_run(path.parent) or f"{path.parent} is not a run folder: it has no {path.name}"
            ) from None
        try:
            written = msgspec.json.decode(raw, type=dict[str, Any])
            found = written.get("schema_version")
            if found != SCHEMA_VERSION:
                by = f" ({v})" if (v := (written.get("versions") or {}).get("llm-locust")) else ""
                raise UsageError(
                    f"{path}: schema {found!r}, but this version reads {SCHEMA_VERSION}: "
                    f"use the version of llm-locust that wrote it{by}"
                )
            return msgspec.json.decode(raw, type=Manifest)
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}: not a manifest: {error}") from None
