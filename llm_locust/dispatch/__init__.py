"""Stage control on the master, the dispatcher on the worker, their messages, clocks, record shipping, generator health."""

from llm_locust.dispatch.bounds import Bounds
from llm_locust.dispatch.controller import FromWorker, ProgressSink, RunController
from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import Prepared, Preparing, Progress, Rows, StageDone
from llm_locust.dispatch.pinned import PinnedUsers
from llm_locust.dispatch.planning import as_workers_read_it
from llm_locust.dispatch.roster import Roster
from llm_locust.dispatch.stage_control import StageControl
from llm_locust.dispatch.worker import WorkerAgent
from llm_locust.dispatch.worker_run import RequestBuilder

__all__ = [
    "Bounds",
    "FromWorker",
    "Link",
    "PinnedUsers",
    "Prepared",
    "Preparing",
    "Progress",
    "ProgressSink",
    "RequestBuilder",
    "Roster",
    "Rows",
    "RunController",
    "StageControl",
    "StageDone",
    "WorkerAgent",
    "as_workers_read_it",
]
