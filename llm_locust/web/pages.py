"""The frame of our pages in Locust's web UI: templates, static files, headers, and who may post.

Every link is relative to the page it stands on, so that the pages work under ``--web-base-path`` and behind a proxy that
strips a prefix Locust knows nothing of.
"""

from __future__ import annotations

import functools
import hashlib
import mimetypes
import posixpath
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from urllib.parse import urlsplit

from flask import Blueprint, Response, make_response, request, url_for
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

STATIC_ENDPOINT = "llm.static_file"
LIVE_ENDPOINT = "llm.live"
WORKBENCH = "workbench"
"""Where the workbench is, seen from the live page: ``/llm/workbench``."""

PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'self'"
)
"""Content-Security-Policy of our pages: nothing inline, nothing from another host."""

_YEAR_S = 365 * 24 * 3600
_ROOMS = ("workbench",)
"""Rooms beside this one with ``templates/`` and ``static/`` of their own; their static files are named ``<room>/...``."""


@functools.cache
def environment() -> Environment:
    """Of every template of ours: escaped, and a forgotten value is an error instead of a blank."""
    loaders = [PackageLoader("llm_locust.web", "templates")]
    loaders += [PackageLoader("llm_locust.web", f"{room}/templates") for room in _ROOMS if _has_templates(room)]
    return Environment(loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True)


def render_page(template: str, here: str, **values: object) -> str:
    """One page as HTML text.

    Args:
        template: Its file name; it extends ``base.html.j2``.
        here: Which of our pages it is, for the navigation: ``live`` or ``workbench``.
        values: What the template shows.
    """
    live = url_for(LIVE_ENDPOINT)
    return (
        environment()
        .get_template(template)
        .render(
            here=here,
            static=static_url,
            locust_url=relative(live.removesuffix("/llm") + "/"),
            live_url=relative(live),
            workbench_url=relative(f"{live}/{WORKBENCH}"),
            **values,
        )
    )


def relative(url: str) -> str:
    """A path of this web UI as a link that works from the page which is being answered."""
    folder, name = posixpath.split(url)
    here = posixpath.dirname(request.script_root + request.path)
    link = posixpath.relpath(folder or "/", here or "/")
    return f"{link}/{name}" if link.startswith(".") else f"./{link}/{name}"


def static_url(name: str) -> str:
    """A link to one of our static files, which changes with its content.

    Raises:
        KeyError: there is no such file.
    """
    if name not in static_files():
        raise KeyError(f"no static file {name!r}; there are {', '.join(sorted(static_files()))}")
    return relative(url_for(STATIC_ENDPOINT, version=static_version(), name=name))


def static_response(version: str, name: str) -> Response:
    """One of our static files: kept by the browser for good under its version, never kept under another one."""
    content = static_files().get(name)
    if content is None:
        return make_response(f"no such file: {name}", 404, {"Content-Type": "text/plain; charset=utf-8"})
    response = make_response(content)
    response.mimetype = _type_of(name)
    response.headers["Cache-Control"] = (
        f"private, max-age={_YEAR_S}, immutable" if version == static_version() else "no-store"
    )
    return response


@functools.cache
def static_files() -> dict[str, bytes]:
    """Every static file by its name. Only these are ever served: a name is looked up, never a path."""
    files = dict(_files_below(resources.files("llm_locust.web") / "static", ""))
    for room in _ROOMS:
        files.update(_files_below(resources.files("llm_locust.web") / room / "static", f"{room}/"))
    # Not through llm_locust.report.html: that loads pandas, which has no place in a process that makes load.
    files["palette.css"] = (resources.files("llm_locust.report") / "html" / "palette.css").read_bytes()
    return files


@functools.cache
def static_version() -> str:
    """Of all static files together: one that changes changes all their addresses, so that none meets an older sister."""
    digest = hashlib.sha256()
    for name, content in sorted(static_files().items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def secure(blueprint: Blueprint) -> None:
    """Have every answer of the blueprint carry the headers of :func:`set_headers`."""
    blueprint.after_request(set_headers)


def set_headers(response: Response) -> Response:
    """What keeps a page to itself; what a view has set stays.

    Locust allows every site to read its UI (``Access-Control-Allow-Origin: *``). What we show is for this UI alone: naming
    its own origin, before Locust's extension looks, keeps other sites out.
    """
    headers = response.headers
    headers.setdefault("Content-Security-Policy", PAGE_POLICY)
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-store")
    headers.setdefault("Access-Control-Allow-Origin", f"{request.scheme}://{request.host}")
    return response


def cross_site_reason() -> str | None:
    """Why this request may not change anything, or ``None`` if it may: it must be JSON, sent by one of our own pages."""
    if request.mimetype != "application/json":
        return f"the content type must be application/json, not {request.mimetype or 'none'}"
    return other_site()


def other_site() -> str | None:
    """Which page of another site has sent this request, or ``None``: it came from a page of this very UI, or from none.

    A browser says where a request comes from and no page can make it say otherwise: ``Sec-Fetch-Site`` where the
    connection is trusted, ``Origin`` on every POST. With neither it is no browser, so no page of another site either.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return None if site == "same-origin" else f"sent by a page of another site (Sec-Fetch-Site: {site[:40]})"
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        return f"sent by a page of another site (Origin: {origin[:200]}, and this is {request.host})"
    return None


def _type_of(name: str) -> str:
    if name.endswith(".js"):
        return "text/javascript"  # mimetypes asks the machine, and some machines say text/plain
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _files_below(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_below(entry, f"{prefix}{entry.name}/")
        elif entry.is_file():
            yield prefix + entry.name, entry.read_bytes()


def _has_templates(room: str) -> bool:
    return (resources.files("llm_locust.web") / room / "templates").is_dir()
