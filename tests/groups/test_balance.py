"""Who is to have how many streams, and which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.groups.balance import granted, quotas, surrendered

WEIGHTS = st.dictionaries(st.integers(0, 30), st.integers(0, 50), max_size=12)
RATES = st.dictionaries(st.integers(0, 15), st.floats(0, 1e6), max_size=16)


@given(WEIGHTS, st.dictionaries(st.integers(0, 30), st.integers(0, 16)), st.integers(1, 64))
def test_shares_are_in_proportion_and_nobody_with_workers_gets_nothing(
    weights: dict[int, int], held: dict[int, int], streams_count: int
) -> None:
    """All streams are shared out; equal weights differ by one at most; more weight is never less."""
    shares = quotas(weights, held, streams_count)
    wanting = [session for session, weight in weights.items() if weight]
    assert shares.keys() == weights.keys()
    assert all(shares[session] == 0 for session in weights if session not in wanting)
    assert sum(shares.values()) == (streams_count if wanting else 0)
    if len(wanting) <= streams_count:
        assert all(shares[session] >= 1 for session in wanting)
    for one in wanting:
        for other in wanting:
            if weights[one] == weights[other]:
                assert abs(shares[one] - shares[other]) <= 1
            elif weights[one] > weights[other] and len(wanting) <= streams_count:
                assert shares[one] >= shares[other] - 1


@given(WEIGHTS, st.integers(1, 64))
def test_shares_that_are_reached_stay(weights: dict[int, int], streams_count: int) -> None:
    """Asked again with what everybody has then, nobody has to give anything away."""
    shares = quotas(weights, {}, streams_count)
    assert quotas(dict(reversed(weights.items())), shares, streams_count) == shares


def test_whoever_has_more_keeps_more() -> None:
    """Where a share is cut either way nothing moves."""
    assert quotas({"a": 1, "b": 1}, {"a": 1, "b": 2}, 3) == {"a": 1, "b": 2}
    assert quotas({"a": 1, "b": 1}, {"a": 2, "b": 1}, 3) == {"a": 2, "b": 1}
    assert quotas({"a": 1, "b": 1, "c": 1}, {"c": 1, "b": 1}, 2) == {"a": 0, "b": 1, "c": 1}


@given(st.sets(st.integers(0, 15)), RATES, st.data(), st.floats(0, 1e6))
def test_what_is_given_away_was_there(
    streams: set[int], rates: dict[int, float], data: st.DataObject, aim: float
) -> None:
    """As many as asked for, each once."""
    count = data.draw(st.integers(0, len(streams)))
    gone = surrendered(streams, rates, count, aim)
    assert len(gone) == len(set(gone)) == count
    assert set(gone) <= streams


def test_a_busy_session_gives_away_what_makes_it_busy() -> None:
    """And an idle one gives away what costs it least."""
    rates = {0: 100.0, 1: 10.0, 2: 10.0, 3: 10.0}
    assert surrendered({0, 1, 2, 3}, rates, 1, 30.0) == [0]
    assert surrendered({0, 1, 2, 3}, rates, 1, 120.0) == [1]


@given(st.sets(st.integers(0, 15)), st.dictionaries(st.integers(0, 5), st.integers(0, 16)), RATES)
def test_every_free_stream_goes_to_one_that_lacks_it(
    free: set[int], lacking: dict[int, int], rates: dict[int, float]
) -> None:
    """None twice, nobody gets more than it lacks, and none is left while somebody lacks one."""
    given_away = granted(free, lacking, {}, rates)
    streams = [stream for each in given_away.values() for stream in each]
    assert len(streams) == len(set(streams)) == min(len(free), sum(lacking.values()))
    assert set(streams) <= free
    assert all(len(given_away[session]) <= count for session, count in lacking.items())


def test_busy_streams_do_not_meet() -> None:
    """Two hot ones go to two sessions."""
    given_away = granted([0, 1, 2, 3], {"a": 2, "b": 2}, {}, {0: 100.0, 1: 90.0, 2: 1.0, 3: 1.0})
    assert sorted(map(tuple, map(sorted, given_away.values()))) == [(0, 3), (1, 2)]
