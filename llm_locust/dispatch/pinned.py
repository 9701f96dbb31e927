"""Placeholder users: Locust wants users to be running, the plan decides what they would have done."""

from __future__ import annotations

from collections.abc import Iterator

from locust.dispatch import UsersDispatcher
from locust.runners import WorkerNode
from locust.user import User


class PinnedUsers(UsersDispatcher):
    """Exactly one placeholder user on every worker, whatever the weights, ramps or late comers.

    Locust may put only one user class on a worker, and re-dispatches when a worker joins; with open arrivals neither
    must change anything, since arrivals are dispatched beside the users.
    """

    def __init__(self, worker_nodes: list[WorkerNode], user_classes: list[type[User]]) -> None:
        self._nodes = {node.id: node for node in worker_nodes}
        self._classes = sorted(user_class.__name__ for user_class in user_classes)
        self._steps: Iterator[dict[str, dict[str, int]]] = iter(())

    def new_dispatch(
        self, target_user_count: int, spawn_rate: float, user_classes: list[type[User]] | None = None
    ) -> None:
        """One step that puts one user on each worker (none when the target is 0)."""
        first, *others = self._classes
        wanted = {first: min(target_user_count, 1), **dict.fromkeys(others, 0)}
        self._steps = iter([{node: dict(wanted) for node in self._nodes}])

    def __next__(self) -> dict[str, dict[str, int]]:
        return next(self._steps)

    def add_worker(self, worker_node: WorkerNode) -> None:
        """A worker joined or came back."""
        self._nodes[worker_node.id] = worker_node

    def remove_worker(self, worker_node: WorkerNode) -> None:
        """A worker left or went missing."""
        self._nodes.pop(worker_node.id, None)

    @property
    def dispatch_in_progress(self) -> bool:
        """Never: a dispatch is a single step."""
        return False
