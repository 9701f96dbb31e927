"""What the command as a whole says of names that it does not know."""

from __future__ import annotations

import socket

import pytest
from click.testing import CliRunner

from llm_locust.cli import COMMANDS, llm_locust
from llm_locust.records import UsageError


def test_a_mistyped_command_is_guessed() -> None:
    result = CliRunner().invoke(llm_locust, ["smok"])
    assert result.exit_code == 2
    assert "No such command 'smok'; did you mean smoke?" in result.output


def test_a_command_like_none_is_told_which_there_are() -> None:
    result = CliRunner().invoke(llm_locust, ["xyzzy"])
    assert result.exit_code == 2
    assert all(name in result.output for name in COMMANDS)


def test_a_real_engine_is_not_started_on_a_port_that_is_taken() -> None:
    pytest.importorskip("xllamacpp")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = CliRunner().invoke(llm_locust, ["llama", "--port", str(port)]).exception
    assert isinstance(error, UsageError)
    assert str(error) == (
        f"cannot listen on 127.0.0.1 port {port}: another process listens there; choose another with --port"
    )
