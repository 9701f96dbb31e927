"""Write every page of the reference, and example files into the pages that show them."""

from __future__ import annotations

import os

os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"  # nothing here makes load

from docs.generate.include import pages_with_files, with_files
from docs.generate.pages import PAGES, REFERENCE
from docs.generate.source import ROOT

REFERENCE.mkdir(exist_ok=True)
written = {REFERENCE / name: made() for name, made in PAGES.items()}
written |= {path: with_files(path.read_text(encoding="utf-8")) for path in pages_with_files()}
for path, page in written.items():
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")
        print(path.relative_to(ROOT))
