"""The line between master and workers: Locust's messages with typed payloads, the same in a local run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from locust.env import Environment
from locust.rpc import Message
from locust.runners import STATE_MISSING, LocalRunner, MasterRunner, Runner

LOCAL = "local"
"""The client id of the only worker of a run without a master."""


class Payload(Protocol):
    """A message body: a msgspec struct that knows its message type."""

    TYPE: ClassVar[str]


P = TypeVar("P", bound=Any)


class Link:
    """Send and receive payloads over the runner, whatever kind it is."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def on(self, payload_type: type[P], receive: Callable[[P, str], None]) -> None:
        """Call ``receive(payload, client_id)`` for each message of this type; it must return at once."""

        def listener(environment: Environment, msg: Message, **_: object) -> None:
            receive(msgspec.convert(msg.data, payload_type), msg.node_id)

        self.runner.register_message(payload_type.TYPE, listener)

    def send(self, payload: Payload, client_id: str | None = None) -> None:
        """To one worker, to all of them (from a master), or to the master (from a worker)."""
        self.runner.send_message(payload.TYPE, msgspec.to_builtins(payload), client_id)

    def clients(self) -> list[str]:
        """The connected workers' client ids (master or local side), those gone missing left out."""
        if isinstance(self.runner, MasterRunner):
            return [client.id for client in self.runner.clients.all if client.state != STATE_MISSING]
        return [LOCAL]

    @property
    def distributed(self) -> bool:
        """Whether rows have to be shipped to reach the master."""
        return not isinstance(self.runner, LocalRunner)
