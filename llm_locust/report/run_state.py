"""What has become of a run whose manifest says that it is running: it is, or nobody was left to say otherwise."""

from __future__ import annotations

import time

from llm_locust.records import Manifest, RunFolder
from llm_locust.records.manifest import RunState
from llm_locust.telemetry.master_process import goes_on

SILENT_S = 600.0
"""Where the master cannot be seen: a run that has written nothing for so long is over. It may wait for its server for
minutes; its health in a stage is noted every second."""

_NEVER_ENDED = "the master did not finish"


def state_of(folder: RunFolder, manifest: Manifest) -> tuple[RunState, str | None]:
    """The state of a run and why.

    A master that was killed cannot note that it ended. Whether it was is told by its process where that can be looked for,
    else by how long ago anything was written.
    """
    if manifest.state != "running" or manifest.ended_at is not None:
        return manifest.state, manifest.state_reason
    alive = None if manifest.master is None else goes_on(manifest.master)
    if alive:
        return "running", "the run goes on: this is of what it had written so far"
    if alive is False:
        pid = manifest.master.pid if manifest.master is not None else None
        return "interrupted", f"{_NEVER_ENDED}: its process {pid} is gone, and has left no end of the run"
    silent_s = max(time.time() - _last_written_s(folder), 0.0)
    if silent_s >= SILENT_S:
        return "interrupted", f"{_NEVER_ENDED}: nothing was written for {silent_s / 60:.0f} minutes"
    return "running", (
        f"last written {silent_s:.0f} s ago, by a master that cannot be seen from here: if it was killed, merge again when "
        f"{SILENT_S / 60:.0f} minutes have passed"
    )


def _last_written_s(folder: RunFolder) -> float:
    """When a file that grows in the run was last written, in Unix seconds."""
    grows = (folder.manifest, folder.plan, folder.generator, folder.server_csv, folder.devices_csv)
    files = [*grows, *folder.request_files(), *folder.issued_files()]
    return max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
