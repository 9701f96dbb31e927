"""The stream client: sockets, TLS, receive times, HTTP framing, event decoding, dialects and the per-request timeline.

Everything from bytes to outcome is without I/O (:class:`ReplyDecoder`); :class:`StreamClient` puts sockets under it.
"""

from llm_locust.streaming.client import StreamClient
from llm_locust.streaming.decoder import MAX_REPLY_BYTES, ReplyDecoder
from llm_locust.streaming.dialects import (
    DIALECTS,
    Counts,
    Delta,
    Dialect,
    WrongDialect,
    get_dialect,
    register_dialect,
)
from llm_locust.streaming.events import Event, JsonLines, SseEvents
from llm_locust.streaming.exchange import Cancelled
from llm_locust.streaming.proxy import Proxy
from llm_locust.streaming.redaction import looks_like_a_secret, names_a_secret
from llm_locust.streaming.reply import Failure, Reply
from llm_locust.streaming.request import StreamRequest

__all__ = [
    "DIALECTS",
    "MAX_REPLY_BYTES",
    "Cancelled",
    "Counts",
    "Delta",
    "Dialect",
    "Event",
    "Failure",
    "JsonLines",
    "Proxy",
    "Reply",
    "ReplyDecoder",
    "SseEvents",
    "StreamClient",
    "StreamRequest",
    "WrongDialect",
    "get_dialect",
    "looks_like_a_secret",
    "names_a_secret",
    "register_dialect",
]
