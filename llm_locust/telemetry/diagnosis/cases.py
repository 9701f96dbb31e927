"""The cases by outcome, in the order in which they are tried, and the line that is made of what one finds."""

from __future__ import annotations

from collections.abc import Sequence

from llm_locust.records import Outcome
from llm_locust.streaming.reply import Reply
from llm_locust.telemetry.diagnosis import connection, endpoint, refusal
from llm_locust.telemetry.diagnosis.finding import Case, Failed, Finding

_BY_OUTCOME: dict[Outcome, tuple[Case, ...]] = {
    Outcome.TIMEOUT: (connection.timeout,),
    Outcome.CONNECT_ERROR: (
        connection.proxy,
        connection.plain_http_port,
        connection.certificate,
        connection.handshake,
        connection.no_connection,
    ),
    Outcome.CONNECTION_LOST: (connection.lost,),
    Outcome.OOM: (refusal.out_of_memory,),
    Outcome.REJECTED: (refusal.busy,),
    Outcome.HTTP_ERROR: (
        connection.proxy_credentials,
        endpoint.redirect,
        endpoint.https_wanted,
        refusal.key,
        refusal.too_long,
        refusal.unknown_field,
        refusal.no_chat,
        refusal.model,
        endpoint.wrong_path,
        refusal.refused,
    ),
    Outcome.NOT_STREAMED: (refusal.not_streamed,),
    Outcome.STREAM_ERROR: (refusal.too_long, refusal.model, refusal.stream_error),
    Outcome.PROTOCOL_ERROR: (endpoint.https_wanted, endpoint.web_page, endpoint.other_protocol),
    Outcome.TRUNCATED: (connection.truncated,),
    Outcome.EMPTY: (refusal.empty,),
    Outcome.GENERATOR_ERROR: (connection.proxy, connection.ours),
}
"""The last case of each takes whatever is left. Outcomes that no reply of the stream client has here are not in it."""


def diagnose(
    reply: Reply, *, base_url: str, path: str, model: str | None, models: Sequence[str] | None, key_given: bool
) -> str:
    """Cause, the words it was read from, and the remedy, on one line.

    Args:
        reply: as the stream client returned it, with an outcome that is not ok; its ``error`` is bounded and masked.
        base_url: as given with ``--host``.
        path: the endpoint under it.
        model: what was asked for; ``None`` when the request named none.
        models: what the server lists; ``None`` when it did not say.
        key_given: the request carried a key.
    """
    failed = Failed(reply, base_url, path, model, models, key_given)
    found = (case(failed) for case in _BY_OUTCOME.get(reply.outcome, ()))
    cause, remedy = next(filter(None, found), _unknown(failed))
    quote = failed.text.rstrip(" .") or reply.outcome.value
    return f"{cause} ({failed.root}{failed.sent_path}: {quote}). {remedy}"


def _unknown(failed: Failed) -> Finding:
    return Finding(f"the request ended as {failed.reply.outcome.value}", "Look into the log of the server.")
