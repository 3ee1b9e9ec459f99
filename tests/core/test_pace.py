"""How fast a worker acknowledges, from notes at its acks alone."""

from __future__ import annotations

import pytest

from proxy.core.pace import IDLE_S, SPAN_S, Pace


def noted(pace: Pace, *, per_s: float, seconds: float, start: float, acked: int = 0) -> int:
    """It acknowledges evenly, and is noted as a worker does it; returns how many it has acknowledged."""
    due = start
    step = 1 / per_s
    for number in range(int(seconds * per_s)):
        now = start + number * step
        if now >= due:
            pace.note(acked, 0.0, now)
            due = now + SPAN_S
        acked += 1
    return acked


def test_nothing_is_known_of_one_that_never_acknowledged() -> None:
    """Its rate is none, and it is not compared."""
    pace = Pace()
    assert (pace.lately(0, 100.0), pace.is_known(100.0), pace.usual) == (0.0, False, 0.0)


def test_rates_are_those_of_the_acks() -> None:
    """Lately and usually, after some minutes."""
    pace = Pace()
    acked = noted(pace, per_s=5, seconds=120, start=1_000.0)
    assert pace.lately(acked, 1_120.0) == pytest.approx(5, rel=0.05)
    assert pace.usual == pytest.approx(5, rel=0.05)
    assert pace.is_known(1_120.0)


def test_one_that_stops_gets_slower_with_time_and_its_usual_rate_stays() -> None:
    """Nothing is noted without an ack."""
    pace = Pace()
    acked = noted(pace, per_s=5, seconds=120, start=0.0)
    rates = [pace.lately(acked, 120.0 + after) for after in (0, 30, 300)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.5
    assert pace.usual == pytest.approx(5, rel=0.05)


def test_a_pause_without_work_lowers_neither_rate() -> None:
    """What follows is measured from there on, and not over the pause."""
    pace = Pace()
    acked = noted(pace, per_s=5, seconds=120, start=0.0)
    after = 120.0 + 10 * IDLE_S
    acked = noted(pace, per_s=5, seconds=30, start=after, acked=acked)
    assert pace.lately(acked, after + 30) == pytest.approx(5, rel=0.05)
    assert pace.usual == pytest.approx(5, rel=0.05)


def test_the_usual_rate_follows_slowly() -> None:
    """A minute of another rate is a tenth of ten minutes."""
    pace = Pace()
    acked = noted(pace, per_s=10, seconds=600, start=0.0)
    noted(pace, per_s=1, seconds=60, start=600.0, acked=acked)
    assert 8.5 < pace.usual < 9.7


def test_the_longest_pause_is_forgotten_in_time() -> None:
    """A stop of ten minutes does not excuse the next one for long."""
    pace = Pace()
    pace.note(0, 600.0, 1_000.0)
    assert pace.longest_pause_s == 600.0
    for number in range(12):
        pace.note(number, 0.5, 1_010.0 + 10 * number)
    assert 0.5 < pace.longest_pause_s < 60.0
