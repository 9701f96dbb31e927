"""What a reply that failed says: the message inside an error body, memory exhaustion by name, web pages."""

from __future__ import annotations

import re

from llm_locust.records import Outcome
from llm_locust.records.run import PROXY_AUTH_VARIABLE
from llm_locust.streaming.dialects.base import WrongDialect, error_message, json_object
from llm_locust.streaming.framing import ResponseHead

MAX_ERROR_BODY_BYTES = 64 * 1024
"""How much of an error body is read for its text."""

_MEMORY_EXHAUSTED = re.compile(
    r"""out[\s_-]*of[\s_-]*(?:\w+[\s_-]+)?memory   # CUDA, HIP, Metal and Vulkan; OutOfMemoryError, ErrorOutOfDeviceMemory
      | outof(?:device|host)?memory
      | \boom\b | oom[\s_-]?kill
      | bad_alloc | cudaErrorMemoryAllocation
      | memory\s+(?:allocation\s+failed|exhausted)
      | (?:cannot|could\s+not|unable\s+to|failed\s+to)\s+allocate\b
      | (?:insufficient|not\s+enough)\s+(?:\w+\s+){0,2}(?:memory|vram)
      | requires\s+more\s+(?:\w+\s+){0,2}memory       # Ollama, before it loads a model
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WEB_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_WANTS_CREDENTIALS = f"the proxy wants user:password in the environment variable {PROXY_AUTH_VARIABLE}"


def names_memory_exhaustion(text: str) -> bool:
    """The error text says that memory ran out."""
    return _MEMORY_EXHAUSTED.search(text) is not None


def by_status(head: ResponseHead, body: bytes) -> tuple[Outcome, str]:
    """Outcome and error text of a response whose status is not 2xx."""
    status = head.status
    if 300 <= status < 400:
        location = head.get("location") or "nowhere"
        return Outcome.HTTP_ERROR, f"HTTP {status}: redirects are not followed; it points to {location}"
    message = body_message(body, head.get("content-encoding"))
    text = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if status == 407:
        return Outcome.HTTP_ERROR, f"{text} ({_WANTS_CREDENTIALS})"
    if names_memory_exhaustion(message):
        return Outcome.OOM, text
    if status in (429, 503):
        return Outcome.REJECTED, text
    return Outcome.HTTP_ERROR, text


def no_tunnel(head: ResponseHead, body: bytes) -> str:
    """Why a proxy opens no tunnel: its message, or else the reason in its status line."""
    words = body_message(body, head.get("content-encoding")).strip() or head.reason
    text = f"HTTP {head.status}: {words}" if words else f"HTTP {head.status}"
    return f"{text} ({_WANTS_CREDENTIALS})" if head.status == 407 else text


def body_message(body: bytes, content_encoding: str = "") -> str:
    """The message in an error body: a JSON error in any of the usual forms, a page's title, or the text itself."""
    if content_encoding.strip().lower() not in ("", "identity"):
        return f"(the error text is compressed: {content_encoding})"
    try:
        return error_message(json_object(body))
    except WrongDialect:
        pass
    if is_web_page("", body):
        return page_title(body)
    return body[:4096].decode("utf-8", "replace")


def is_web_page(content_type: str, body: bytes) -> bool:
    """HTML, by its content type or by how it begins."""
    return content_type.startswith(("text/html", "application/xhtml")) or _WEB_PAGE.match(body[:4096]) is not None


def page_title(body: bytes) -> str:
    """The title of a page, or the empty string."""
    found = _TITLE.search(body)
    return found.group(1).decode("utf-8", "replace").strip() if found else ""
