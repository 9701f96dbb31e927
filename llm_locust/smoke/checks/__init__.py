"""The checks of a server, in the order in which they are made: a promise each, in a file of its own.

Adding one is a file beside this one, a line in :data:`CHECKS` and a test that sees it fail.
"""

from __future__ import annotations

from collections.abc import Callable

from llm_locust.smoke.checks.chat_template import check_chat_template
from llm_locust.smoke.checks.clock import check_clock
from llm_locust.smoke.checks.end_token import check_end_token
from llm_locust.smoke.checks.event_stream import check_event_stream
from llm_locust.smoke.checks.metrics_page import check_metrics_page
from llm_locust.smoke.checks.output_limit import check_output_limit
from llm_locust.smoke.checks.structured_output import check_structured_output
from llm_locust.smoke.checks.token_counts import check_token_counts
from llm_locust.smoke.checks.usage import check_usage
from llm_locust.smoke.result import Check, Found, failed
from llm_locust.smoke.server import RequestFailed, SmokedServer
from llm_locust.telemetry.probe import NoPage

CHECKS: dict[str, Callable[[SmokedServer], Found]] = {
    "chat template": check_chat_template,
    "end token": check_end_token,
    "output limit": check_output_limit,
    "structured output": check_structured_output,
    "streaming": check_event_stream,
    "usage": check_usage,
    "metrics": check_metrics_page,
    "token counts": check_token_counts,
    "clock": check_clock,
}
"""By the names under which they are printed."""


def run_check(name: str, server: SmokedServer) -> Check:
    """Make one check; a request or a page that does not come fails it."""
    try:
        found = CHECKS[name](server)
    except RequestFailed as error:
        found = failed(f"a request that it needs failed: {error}")
    except NoPage as none:
        found = failed(f"a page that it needs did not come: {none.failure.error}")
    # What a server writes may repeat the key that it was sent.
    reason = None if found.reason is None else server.probe.safe(found.reason)
    return Check.of(name, found._replace(seen=server.probe.safe(found.seen), reason=reason))
