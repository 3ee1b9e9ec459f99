"""Durations are counted in the right bucket, each once, however they come."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.histogram import BOUNDS_S, Histogram

DURATIONS = st.one_of(st.sampled_from((0.0, *BOUNDS_S)), st.floats(0, 1_000))


def test_a_bound_belongs_to_its_bucket_and_what_is_longer_than_all_to_the_last() -> None:
    """As Prometheus counts: less than or equal."""
    for place, bound in enumerate(BOUNDS_S):
        histogram = Histogram()
        histogram.observe(bound)
        assert histogram.statistics().counts[place] == 1
    histogram = Histogram()
    histogram.observe(61.0)
    assert histogram.statistics().counts[-1] == 1
    assert histogram.statistics().sum_s == 61.0


def test_nothing_observed_is_nothing_counted() -> None:
    """Not even of the duration that stands where none was observed."""
    found = Histogram().statistics()
    assert (sum(found.counts), found.sum_s) == (0, 0.0)
    assert len(found.counts) == len(found.bounds_s) + 1
    assert list(found.bounds_s) == sorted(set(BOUNDS_S))


@given(st.lists(st.tuples(DURATIONS, st.integers(0, 5), st.booleans())))
def test_every_observation_is_counted_once(observed: list[tuple[float, int, bool]]) -> None:
    """Equal ones in a row or not, several at once or none, observed in place or not, looked at in between or not."""
    histogram = Histogram()
    expected = [0] * (len(BOUNDS_S) + 1)
    total = 0.0
    for duration_s, count, in_place in observed:
        if in_place and duration_s == histogram.latest_s:
            histogram.latest_count += count
        else:
            histogram.observe(duration_s, count)
        expected[bisect_left(BOUNDS_S, duration_s)] += count
        total += duration_s * count
        if in_place:
            histogram.statistics()
    found = histogram.statistics()
    assert list(found.counts) == expected
    assert abs(found.sum_s - total) <= 1e-9 * max(total, 1.0)


def test_what_was_frozen_stays_as_it_was() -> None:
    """Whoever shows it takes their time."""
    histogram = Histogram()
    histogram.observe(0.5)
    before = histogram.statistics()
    histogram.observe(0.5)
    assert sum(before.counts) == 1
    assert sum(histogram.statistics().counts) == 2
