"""``python -m tests.fuzz [CORPUS_FOLDER] [libFuzzer options, e.g. -max_total_time=600]``. Needs ``pip install atheris``.

The corpus begins with the cases of the decoder's specification. What it finds becomes a case in ``tests/streaming/cases.py``
or an input in ``test_findings.py``.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["llm_locust.streaming"]):
    from tests.fuzz.target import check, seeds


def main() -> None:
    """Fuzz until something is found or the time is up."""
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    corpus = Path(folders[0] if folders else tempfile.mkdtemp(prefix="llm-locust-fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"case-{number:03}").write_bytes(seed)
    options = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    atheris.Setup([sys.argv[0], str(corpus), "-max_len=8192", *options], check)
    atheris.Fuzz()


main()
