"""A worker's clock against the master's: the round trip with the least delay decides."""

from llm_locust.dispatch.roster import best_sample


def test_the_shortest_round_trip_gives_the_offset_and_half_of_it_the_uncertainty() -> None:
    # The worker is 2,000 ahead; the first trip was delayed on the way back.
    sample = best_sample([(1_000, 3_100, 2_000), (5_000, 7_100, 5_200)])
    assert sample is not None
    assert (sample.at_ns, sample.offset_ns, sample.uncertainty_ns) == (5_100, 2_000, 100)


def test_no_answer_is_no_sample() -> None:
    assert best_sample([]) is None
