"""The tokens of conversations: every turn sends all that was said before again."""

from __future__ import annotations

from pathlib import Path

from llm_locust.sizing.tokens import tokens_by_stage
from llm_locust.workload import PromptsFile


def test_all_turns_count_with_what_they_send_again(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    lines = [f'{{"prompt": "{"x" * 40}", "max_tokens": 10, "session": "a"}}\n' for _ in range(3)]
    path.write_text("".join(lines))
    (found,) = tokens_by_stage(PromptsFile(str(path), 10), [[0, 0]])
    # Turns of 40, 80 + 10 x 4 and 120 + 20 x 4 characters; twice.
    assert found.output_at_most == 2 * 30
    assert found.input_estimated == 2 * (40 + 120 + 200) // 4
