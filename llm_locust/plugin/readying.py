"""What a run needs before its first stage: a server that answers, prompts of true lengths, a request that works.

Only for the process that leads a run: what it imports inside asks the server, and has no place in one of load alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llm_locust.plugin.before_load import (
    check_one_of_each,
    connect,
    leaving_warning,
    refuse_what_cannot_be_measured,
    unread_warning,
    wait_for_server,
)
from llm_locust.plugin.interrupts import say
from llm_locust.plugin.options import RunOptions
from llm_locust.plugin.run_setup import set_up_run
from llm_locust.plugin.sending import Sending
from llm_locust.records import Clock, Manifest, StageSpec
from llm_locust.records.run import RunSpec
from llm_locust.workload import load_workload

if TYPE_CHECKING:
    from llm_locust.plugin.server_telemetry import ServerTelemetry


def ready_run(
    sending: Sending,
    options: RunOptions,
    stages: Sequence[StageSpec],
    host: str,
    clock: Clock,
    *,
    key_here: bool,
    without_secrets: bool,
) -> tuple[RunSpec, Manifest, ServerTelemetry]:
    """Wait for the server, settle the workload, send one checked request of each user class, find the pages to read.

    Args:
        sending: the users, and the headers of this process.
        options: of the run.
        stages: of the run, as far as they are known.
        host: the server's base URL.
        clock: of this process.
        key_here: whether this process has the key; else only the workers do.
        without_secrets: no secret may be sent to this host.

    Returns:
        What workers are told, what is written down, and the telemetry, which is asked and not started.

    Raises:
        UsageError: the server is not there, or does not take such requests; an option cannot be used.
    """
    from llm_locust.plugin.server_telemetry import ServerTelemetry
    from llm_locust.plugin.workload_setup import settle_workload

    facts = wait_for_server(host, sending.headers, options)
    run, manifest = set_up_run(sending.environment, options, host, facts, clock, without_secrets=without_secrets)
    sending.take_over(run)
    refuse_what_cannot_be_measured(options, load_workload(options.workload))
    for warning in [*leaving_warning(options), *unread_warning(sending.environment)]:
        say(warning)
    run, manifest.workload = settle_workload(
        run,
        options,
        sending.users(),
        sending.headers,
        lambda: connect(run, clock),
        shared_prompts=any(stage.prompts_from is not None for stage in stages),
    )
    check_one_of_each(run, sending.builders().values(), facts, clock, key_here=key_here)
    telemetry = ServerTelemetry(host, sending.headers, options, run.model, clock)
    telemetry.ask(manifest)
    return run, manifest, telemetry
