"""How far a sampler's clock is from the master's, and how that is known."""

from __future__ import annotations

from llm_locust.records import Clock, ClockSample
from llm_locust.records.device_sample import DeviceSample, TelemetryClock
from llm_locust.telemetry.devices.clock_offset import (
    PageClock,
    boot_id,
    clock_offset,
    offset_of_page,
    on_master_clock,
)

THERE = TelemetryClock(anchor_ns=5_000, boot_id="boot-1")
SCRAPED = ClockSample(at_ns=0, offset_ns=70, uncertainty_ns=9)


def test_on_one_machine_the_anchors_tell_the_offset_exactly() -> None:
    offset = clock_offset(THERE, master_anchor_ns=4_200, master_boot_id="boot-1", scraped=SCRAPED)
    assert offset == (800, 0, "same machine, same monotonic clock")


def test_two_clocks_of_this_machine_agree_when_their_anchors_are_taken_into_account() -> None:
    mine, other = Clock(), Clock()
    other.anchor_ns += 3_000_000_000  # the wall clock stepped before it was made
    facts = TelemetryClock(anchor_ns=other.anchor_ns, boot_id=boot_id() or "no boot ids here")
    offset = clock_offset(facts, master_anchor_ns=mine.anchor_ns, master_boot_id=facts.boot_id)
    before, there, after = mine.now_ns(), other.now_ns(), mine.now_ns()
    assert before <= there - offset.offset_ns <= after


def test_on_another_machine_it_is_what_its_page_showed() -> None:
    offset = clock_offset(THERE, master_anchor_ns=4_200, master_boot_id="boot-2", scraped=SCRAPED)
    assert offset == (70, 9, "measured when the page was read")


def test_the_page_was_written_between_question_and_answer() -> None:
    # Asked at 1000, answered at 1301: the sampler's 6151 was somewhere in between.
    assert offset_of_page(6_151, 1_000, 1_301) == ClockSample(at_ns=1_150, offset_ns=5_001, uncertainty_ns=151)


def test_what_a_person_states_wins() -> None:
    assert clock_offset(THERE, master_anchor_ns=1, master_boot_id="boot-1", given_ns=-40) == (-40, None, "as given")


def test_otherwise_it_is_assumed_to_be_0_and_that_is_said() -> None:
    unnamed = TelemetryClock(anchor_ns=1)
    for offset in (clock_offset(THERE), clock_offset(unnamed, master_anchor_ns=7, master_boot_id=None)):
        assert (offset.offset_ns, offset.uncertainty_ns) == (0, None)
        assert offset.how.startswith("not known, assumed to be 0")


def test_a_clock_that_is_ahead_has_its_times_put_back() -> None:
    sample = DeviceSample(at_ns=1_000, kind="process", rss_bytes=5)
    [moved] = on_master_clock([sample], 800)
    assert (moved.at_ns, moved.rss_bytes, sample.at_ns) == (200, 5, 1_000)


def test_of_many_pages_the_one_with_the_shortest_round_trip_tells_it() -> None:
    clock = PageClock()
    assert clock.sample() is None
    for at, offset, half in ((1, 70, 40), (2, 95, 9), (3, 60, 50)):
        clock.add(ClockSample(at_ns=at, offset_ns=offset, uncertainty_ns=half))
    assert clock.sample() == ClockSample(at_ns=2, offset_ns=95, uncertainty_ns=9)


def test_how_far_the_clocks_moved_apart_is_part_of_the_uncertainty() -> None:
    clock = PageClock()
    clock.add(ClockSample(at_ns=1, offset_ns=100, uncertainty_ns=5))
    clock.add(ClockSample(at_ns=2, offset_ns=400, uncertainty_ns=8))  # it was at least 392 then
    assert clock.sample() == ClockSample(at_ns=1, offset_ns=100, uncertainty_ns=292)
    clock.add(ClockSample(at_ns=3, offset_ns=-300, uncertainty_ns=10))  # ... and at most -290 then
    assert clock.sample() == ClockSample(at_ns=1, offset_ns=100, uncertainty_ns=390)
