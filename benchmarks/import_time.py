"""What importing us adds to importing Locust, in whole processes, and which modules it goes to.

    python -m benchmarks.import_time
    python -m benchmarks.import_time --runs 40 --top 20

Processes are started in turn (A B C A B C ...), so that a machine whose speed drifts bends all alike. "import" is the time
that the statement itself took; "process" is the CPU time of the whole process, with the interpreter's start, the threads
that NumPy's BLAS starts, and what it takes to give all of it back. Measure while nothing else runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict

STATEMENTS = {
    "import locust": "import locust",
    "... and llm_locust": "import locust, llm_locust",
    "... and what a locustfile needs": "import locust\nfrom llm_locust import OpenAIChatUser, StageShape",
}


def timed(statement: str, folder: str) -> tuple[float, float]:
    """Seconds that the statement took in a fresh process, and CPU seconds of that process from start to end."""
    code = f"import time\nbegan = time.perf_counter()\n{statement}\nprint(time.perf_counter() - began)"
    before = os.times()
    told = subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, capture_output=True, text=True).stdout
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return float(told), spent


def own_share(folder: str) -> dict[str, float]:
    """Milliseconds that each module took itself, of those loaded after Locust."""
    command = [sys.executable, "-X", "importtime", "-c", STATEMENTS["... and what a locustfile needs"]]
    told = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True).stderr
    found: dict[str, float] = defaultdict(float)
    ours = False
    for line in told.splitlines():
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit() and ours:
            found[name.strip()] += int(own) / 1000
        ours |= name == " locust"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--top", type=int, default=15, help="how many modules to list")
    given = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in STATEMENTS}
    with tempfile.TemporaryDirectory() as folder:  # not the checkout: what is installed is what is timed
        for number in range(given.runs + 1):
            for name, statement in STATEMENTS.items():
                found = timed(statement, folder)
                if number:  # the first writes byte code and warms the disk
                    times[name].append(found)
        modules = own_share(folder)
    print(f"{given.runs} processes each, in turn; seconds\n")
    print(f"{'':34}{'import':>9}{'median':>9}{'adds':>9}{'process':>11}{'median':>9}{'adds':>9}")
    base = [statistics.median(column) for column in zip(*times["import locust"], strict=True)]
    for name, rows in times.items():
        cells = []
        for place, column in enumerate((sorted(i for i, _ in rows), sorted(c for _, c in rows))):
            middle = statistics.median(column)
            cells.append(f"{column[0]:9.3f}{middle:9.3f}{middle - base[place]:9.3f}")
        print(f"{name:34}{cells[0]}  {cells[1]}")
    packages: dict[str, float] = defaultdict(float)
    for module, ms in modules.items():
        parts = module.split(".")
        packages[".".join(parts[: 2 if parts[0] == "llm_locust" else 1])] += ms
    for title, counted in (("package or room", packages), ("module", modules)):
        print(f"\nms by {title}, of those loaded after Locust")
        for name, ms in sorted(counted.items(), key=lambda item: -item[1])[: given.top]:
            print(f"{ms:9.1f}  {name}")


if __name__ == "__main__":
    main()
