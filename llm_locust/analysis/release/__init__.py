"""Release: whether runs show what a published figure must show, and the envelope that may then be published.

Pure: run folders come in as what was read of them, and a typed verdict comes out. ``pooled`` puts stages and their evidence
records together over all runs, ``requirements`` says what a release requires and whether it is met, ``envelope`` puts down
what may be published, ``verdict`` is the whole.
"""

from llm_locust.analysis.release.pooled import RecordFile, ReleasedRun
from llm_locust.analysis.release.verdict import ReleaseVerdict, judge_release

__all__ = ["RecordFile", "ReleaseVerdict", "ReleasedRun", "judge_release"]
