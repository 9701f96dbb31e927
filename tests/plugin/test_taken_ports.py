"""A port that is taken is named before Locust opens its sockets, with what to do."""

from __future__ import annotations

import socket
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import pytest
from locust.argument_parser import LocustArgumentParser, get_empty_argument_parser, setup_parser_arguments

from llm_locust.plugin import taken_ports
from llm_locust.plugin.taken_ports import refuse_taken_ports, taken_port
from llm_locust.ports import free_port, why_not_listen


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def options(**given: Any) -> Namespace:
    quiet = {"worker": False, "master": False, "processes": None, "headless": True, "master_bind_host": "*"}
    return Namespace(**quiet | {"master_bind_port": 5557, "web_host": "127.0.0.1", "web_port": 8089} | given)


def test_a_taken_port_is_told_apart_from_a_free_one(taken: int) -> None:
    for host in ("127.0.0.1", "localhost", "*", ""):
        assert why_not_listen(host, taken) == "another process listens there"
        assert why_not_listen(host, free_port()) is None
        assert why_not_listen(host, 0) is None
    assert why_not_listen("192.0.2.1", 5557) == "this machine has no such address"
    assert why_not_listen("eth999", taken) is None  # ZeroMQ's way to name an interface: not ours to judge


@pytest.mark.parametrize("way", [{"master": True}, {"processes": 2}])
def test_a_second_master_is_told_to_take_a_port_of_its_own(taken: int, way: dict[str, Any]) -> None:
    said = taken_port(options(master_bind_port=taken, **way))
    assert said is not None
    assert said.startswith(f"--master-bind-port {taken}: another process listens there")
    assert "--master-port PORT" in said
    assert taken_port(options(master_bind_port=free_port(), **way)) is None


def test_a_taken_web_port_is_named_unless_there_is_no_page(taken: int) -> None:
    said = taken_port(options(headless=False, web_port=taken))
    assert said is not None
    assert said.startswith(f"--web-port {taken} at 127.0.0.1: another process listens there")
    assert taken_port(options(web_port=taken)) is None
    assert taken_port(options(headless=False, web_port=taken, dry_run=True)) is None


def test_a_worker_and_a_list_of_users_listen_nowhere(taken: int) -> None:
    here: dict[str, Any] = {"headless": False, "web_port": taken, "master_bind_port": taken, "processes": 2}
    assert taken_port(options(worker=True, **here)) is None
    assert taken_port(options(list_commands=True, **here)) is None


def test_locust_ends_with_status_2_at_its_first_reading_and_only_then(
    taken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(taken_ports._Once, "looked", False)
    parser: LocustArgumentParser = get_empty_argument_parser(default_config_files=[])
    setup_parser_arguments(parser)
    refuse_taken_ports(parser)
    arguments = ["--master", "--headless", "--master-bind-port", str(taken)]
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(arguments)
    assert ended.value.code == 2
    assert f"error: --master-bind-port {taken}: another process listens there" in capsys.readouterr().err
    assert parser.parse_args(arguments).master  # as the web page does, when the port is this master's own
