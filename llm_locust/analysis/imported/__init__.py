"""Result files of other load testers, read request by request; each tool a file, found by what a file holds.

Nothing is guessed: what a file does not say is null, and is listed.
"""

from llm_locust.analysis.imported.base import ImportedRun
from llm_locust.analysis.imported.formats import FORMATS, read_result
from llm_locust.analysis.imported.rows import run_records, transcribed_manifest

__all__ = ["FORMATS", "ImportedRun", "read_result", "run_records", "transcribed_manifest"]
