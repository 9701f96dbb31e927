"""A login in front of Locust's web UI and all pages below /llm: one name, and a password from the environment.

    LLM_LOCUST_WEB_PASSWORD=... locust -f locustfiles/chat.py,shapes/rate_ladder.py,locustfiles/with_login.py \
        --web-login --web-host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem

A password travels as it is typed: give --tls-cert and --tls-key, or stay on one machine. Sessions end with the process.
"""

import hmac
import os
import secrets
import sys
from typing import Any, NoReturn

import gevent
from flask import Blueprint, redirect, request, session, url_for
from flask_login import UserMixin, login_user
from locust import events
from locust.env import Environment
from werkzeug.wrappers import Response

NAME = os.environ.get("LLM_LOCUST_WEB_USER", "locust")
SHORTEST = 12
SECONDS_AFTER_A_WRONG_ONE = 1.0


class Person(UserMixin):
    def get_id(self) -> str:
        return NAME


def refuse(why: str) -> NoReturn:
    print(f"with_login.py: {why}", file=sys.stderr)
    sys.exit(2)  # wrong usage; a text here would end with 1, which is a crash


@events.init.add_listener
def add_login(environment: Environment, web_ui: Any = None, **_: Any) -> None:
    options = environment.parsed_options
    if web_ui is None or options is None:
        return
    if not options.web_login:
        refuse("add --web-login, or nobody is asked for the password")
    password = os.environ.get("LLM_LOCUST_WEB_PASSWORD", "")
    if len(password) < SHORTEST:
        refuse(f"set LLM_LOCUST_WEB_PASSWORD to a password of at least {SHORTEST} characters")
    base = options.web_base_path or ""
    web_ui.app.config.update(
        SECRET_KEY=secrets.token_hex(),
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_COOKIE_SECURE=bool(options.tls_cert),
    )
    web_ui.login_manager.user_loader(lambda name: Person() if name == NAME else None)
    web_ui.auth_args = {"username_password_callback": f"{base}/login_submit"}
    pages = Blueprint("with_login", __name__, url_prefix=base or None)

    @pages.post("/login_submit")
    def login_submit() -> Response:
        given = (request.form.get("username", ""), request.form.get("password", ""))
        right = [hmac.compare_digest(a.encode(), b.encode()) for a, b in zip(given, (NAME, password), strict=True)]
        if all(right):
            login_user(Person())
            return redirect(url_for("locust.index"))
        gevent.sleep(SECONDS_AFTER_A_WRONG_ONE)
        session["auth_error"] = "Wrong name or password"
        return redirect(url_for("locust.login"))

    web_ui.app.register_blueprint(pages)
