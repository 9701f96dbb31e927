"""What a record says of the workload."""

from __future__ import annotations

from typing import Any

from llm_locust.analysis.workload_record import prompts_note, sampling_text, workload_fields
from llm_locust.records import WorkloadFacts


def facts(**known: Any) -> WorkloadFacts:
    return WorkloadFacts(**{"name": "n", "kind": "synthetic", "source": "p.jsonl", "sha256": "", **known})


def test_sampling_is_said_in_words() -> None:
    said = sampling_text({"temperature": 0.0, "seed": 1, "stop": ["END"], "ignore_eos": True})
    assert said == 'temperature 0, seed 1, stop ["END"], ignore_eos true'
    assert sampling_text({"temperature": None}) == "temperature of the server's default"
    varying = sampling_text({"temperature": {"any of": [0.0, None, 0.7]}})
    assert varying == "temperature 0 or the server's default or 0.7 (by request)"
    assert sampling_text({}) is None


def test_only_what_is_known_goes_into_the_record() -> None:
    assert workload_fields(facts()) == {}
    known = facts(sampling={"temperature": 0.5}, cache_state="warm", shared_prefix_share=0.0)
    assert workload_fields(known) == {"sampling": "temperature 0.5", "cache_state": "warm", "shared_prefix_share": 0.0}


def test_a_run_that_needs_more_prompts_than_there_are_says_so() -> None:
    note = prompts_note(facts(prompts=10), distinct=10, requests=25)
    assert note is not None
    assert note.startswith("25 requests were made of 10 prompts (p.jsonl has 10)")
    assert prompts_note(facts(prompts=10), distinct=8, requests=8) is None
    assert prompts_note(facts(), distinct=8, requests=9) is None
