"""When a process of several is started again, and when it is killed because it stands still."""

from __future__ import annotations

from proxy.app.process_life import PAUSE_S_MAX, SILENCE_S_MAX, START_S_MAX, WELL_S, ProcessLife
from proxy.app.supervision import Report

READY = Report("host-0-1", "pulsar://127.0.0.1:1", started=True, not_ready_because=(), reloads=0)
UNREADY = Report("host-0-1", "pulsar://127.0.0.1:1", started=True, not_ready_because=("broker",), reloads=0)


def test_a_process_is_wanted_at_once_and_not_twice() -> None:
    """One place has one process."""
    life = ProcessLife(0)
    assert life.wanted(5.0)
    life.begun(5.0)
    assert not life.wanted(1_000.0)


def test_pauses_double_up_to_a_minute_while_it_does_not_serve() -> None:
    """A process that cannot start costs little, and is tried for ever."""
    life, now, pauses = ProcessLife(0), 0.0, []
    for _ in range(9):
        life.begun(now)
        pauses.append(life.ended(now + 1))
        assert not life.wanted(now + 1 + pauses[-1] - 0.1)
        now += 1 + pauses[-1]
        assert life.wanted(now)
    assert pauses == [1, 2, 4, 8, 16, 32, PAUSE_S_MAX, PAUSE_S_MAX, PAUSE_S_MAX]
    assert life.restarts_total == 9


def test_after_a_minute_of_service_it_is_started_again_without_a_pause() -> None:
    """And what failed before does not count any more."""
    life = ProcessLife(0)
    for _ in range(4):
        life.begun(0.0)
        life.ended(1.0)
    life.begun(10.0)
    life.heard(READY, 11.0)
    life.heard(READY, 11.0 + WELL_S)
    assert life.ended(11.0 + WELL_S) == 0
    life.begun(100.0)
    assert life.ended(101.0) == 1


def test_a_process_that_was_never_ready_for_long_has_not_served() -> None:
    """Readiness that comes and goes begins anew each time."""
    life = ProcessLife(0)
    life.begun(0.0)
    for at in range(0, int(2 * WELL_S), 10):
        life.heard(UNREADY if at % 20 else READY, float(at))
    assert life.ended(2 * WELL_S) == 1


def test_silence_is_judged_by_what_is_to_be_expected() -> None:
    """A process that is being made may take its time; one that has reported reports each second."""
    life = ProcessLife(0)
    assert not life.silent(1_000.0)
    life.begun(0.0)
    assert not life.silent(START_S_MAX)
    assert life.silent(START_S_MAX + 0.1)
    life.heard(UNREADY, 60.0)
    assert not life.silent(60 + SILENCE_S_MAX)
    assert life.silent(60 + SILENCE_S_MAX + 0.1)
    life.forgive(100.0)
    assert not life.silent(100 + SILENCE_S_MAX)


def test_the_state_of_a_place_is_that_of_its_process() -> None:
    """A place without a process is not ready, and has no name to be asked by."""
    life = ProcessLife(3)
    life.begun(0.0)
    assert (life.state().ready, life.state().replica) == (False, "")
    life.heard(UNREADY, 1.0)
    assert (life.state().ready, life.state().replica) == (False, "host-0-1")
    life.heard(READY, 2.0)
    assert life.state().ready
    life.ended(3.0)
    assert (life.state().ready, life.state().replica, life.state().restarts_total) == (False, "", 1)
    assert life.has_started
