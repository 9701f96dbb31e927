"""The workbench in a web server of its own, as ``python -m tests.web.workbench.serving [RUN]``; ends with its input."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from llm_locust.records import RunFolder
from llm_locust.web.live_page import live_blueprint
from llm_locust.web.workbench.routes import workbench_blueprint


def unguarded(view: Callable[..., Any]) -> Callable[..., Any]:
    return view


def no_snapshot(_: object) -> Any:
    raise AssertionError("nobody looks at the live page here")


def make_app(
    newest_run: Callable[[], RunFolder | None],
    base_path: str | None = None,
    guard: Callable[..., Any] = unguarded,
    running: Callable[[], bool] = lambda: False,
) -> Flask:
    app = Flask(__name__)
    app.register_blueprint(live_blueprint(guard, no_snapshot, no_snapshot, newest_run), url_prefix=base_path)
    app.register_blueprint(workbench_blueprint(guard, newest_run, running), url_prefix=base_path)
    return app


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        if not message.startswith('"%s" %s'):
            super().log(type, message, *args)


def main() -> None:
    folder = RunFolder(sys.argv[1]) if len(sys.argv) > 1 else None
    app = make_app(lambda: folder, "/x")
    app.add_url_rule("/favicon.ico", "icon", lambda: ("", 204))  # which a browser asks for by itself
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.port}/x/llm/workbench", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
