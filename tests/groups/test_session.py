"""A session: what it does at every word of a leader, and what it never does without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.groups.held_streams import Holding
from proxy.groups.messages import FindLeader, LeaseStreams, RenewStreamLease, UpdateStreams, UpdateStreamStates
from proxy.groups.session_transitions import TABLE, Action, Event, State
from proxy.groups.streams import StreamState
from tests.groups.rig import TIMING, SessionRig, deliverable, version


def replaying(*streams: int) -> SessionRig:
    """With version 1 of these streams."""
    rig = SessionRig()
    rig.lease(1, *streams)
    rig.said.clear()
    return rig


def updating() -> SessionRig:
    """From version 1 of 0 and 1 to version 2 of 1 and 2."""
    rig = replaying(0, 1)
    rig.update(1, 2, 1, 2)
    rig.said.clear()
    return rig


def test_every_state_knows_every_event() -> None:
    """And every state but the last can be left, by what the text says."""
    assert TABLE.keys() == set(State)
    assert all(transitions.keys() == set(Event) for transitions in TABLE.values())
    for state, transitions in TABLE.items():
        reached = {transition.state for transition in transitions.values()}
        assert reached > {state} or state is State.DISCONNECTED
    ignored = [
        (state, event) for state in TABLE for event, (action, _) in TABLE[state].items() if action is Action.IGNORE
    ]
    assert all(TABLE[state][event].state is state for state, event in ignored)


def test_a_new_leader_is_asked_at_once() -> None:
    """By whoever waits for one, and by whoever had streams of the one before, which stand still until it answers."""
    rig = SessionRig()
    rig.said.clear()
    assert rig.began(1) == []
    assert rig.heard() == ["FindLeader"]
    assert rig.began(1) == []
    assert rig.heard() == [], "it was told twice"
    assert rig.lease(1, 0, 2) == ["open 0", "open 2"]
    rig.said.clear()
    assert rig.began(1) == []
    assert deliverable(rig.session, 0, rig.now), "it came late"
    assert rig.began(2) == ["hold 0", "hold 2"]
    assert rig.heard() == ["FindLeader"]
    assert rig.lease(9, 0, 2) == [], "of the leader before"
    assert rig.lease(1, 0, 2, epoch=2) == ["open 0", "open 2"]
    assert deliverable(rig.session, 0, rig.now)


def test_it_looks_for_the_leader_until_it_is_given_streams() -> None:
    """Again and again; then it opens what it was given, and says so."""
    rig = SessionRig(workers_count=3)
    assert rig.heard() == ["FindLeader"]
    rig.wait(TIMING.find_leader_s / 2)
    assert rig.heard() == []
    rig.wait(TIMING.find_leader_s / 2)
    assert rig.said[0].report.workers_count == 3
    assert rig.heard() == ["FindLeader"]
    assert rig.lease(1, 0, 2) == ["open 0", "open 2"]
    (report,) = rig.said
    assert isinstance(report, UpdateStreamStates)
    assert (report.version, report.version_old) == (version(1), None)
    assert report.states == ()  # nothing is known of them yet
    rig.session.progressed(StreamState(2, pending_count=1))
    rig.heard()
    rig.wait(TIMING.heartbeat_s)
    (report,) = rig.said
    assert isinstance(report, UpdateStreamStates)
    assert report.states == (StreamState(2, pending_count=1),)
    assert rig.session.state is State.REPLAYING
    assert deliverable(rig.session, 0, rig.now)
    assert not deliverable(rig.session, 1, rig.now)


def test_a_lease_lasts_from_when_it_asked_and_not_from_when_it_was_answered() -> None:
    """However long the leader's word was on its way, and however often it is said."""
    rig = replaying(0)
    rig.wait(2.0)
    asked_at, beat = rig.now, rig.beat
    for seconds in (2.0, 2.5):
        rig.now += seconds
        rig.hear(RenewStreamLease(rig.header(heard=beat), version(1)))
    assert deliverable(rig.session, 0, asked_at + TIMING.lease_s - 0.001)
    assert not deliverable(rig.session, 0, asked_at + TIMING.lease_s)


@pytest.mark.parametrize("heard_late", [False, True])
def test_nothing_is_delivered_when_the_lease_is_over(*, heard_late: bool) -> None:
    """Also by one that slept through its end and hears a renewal first."""
    rig = replaying(0, 1)
    rig.now += TIMING.lease_s
    assert not deliverable(rig.session, 0, rig.now)
    done = rig.renew(1) if heard_late else rig.wait(0.0)
    assert done == ["hold 0", "hold 1"]
    assert rig.session.state is State.CONNECTING
    (find,) = rig.said
    assert isinstance(find, FindLeader)
    assert [state.stream for state in find.held] == [0, 1]


def test_why_it_has_no_lease_is_known_until_it_has_one() -> None:
    """The event's name, or what the leader said."""
    rig = replaying(0)
    reasons = [rig.session.reason]
    rig.invalidate()
    reasons.append(rig.session.reason)
    rig.lease(2, 0)
    reasons.append(rig.session.reason)
    rig.wait(TIMING.lease_s)
    reasons.append(rig.session.reason)
    assert reasons == [None, "a test", None, "renew_stream_lease_timeout"]


def test_what_is_leased_again_goes_on_where_it_was() -> None:
    """And what is not is drained and closed."""
    rig = replaying(0, 1)
    rig.invalidate()
    assert rig.lease(2, 1, 5) == ["release 0", "open 1", "open 5"]
    assert rig.session.holdings == {0: Holding.RELEASING, 1: Holding.OPEN, 5: Holding.OPEN}
    assert rig.released(0) == []
    assert rig.session.holdings.keys() == {1, 5}


def test_a_change_is_over_when_the_leader_says_so() -> None:
    """Streams that go are drained, said to be finished when they are, and forgotten after the leader's word."""
    rig = replaying(0, 1)
    assert rig.update(1, 2, 1, 2) == ["release 0", "open 2"]
    assert rig.session.state is State.UPDATING
    assert not deliverable(rig.session, 0, rig.now)
    assert deliverable(rig.session, 1, rig.now)
    rig.released(0)
    report = rig.said[-1]
    assert isinstance(report, UpdateStreamStates)
    assert (report.version_old, report.version) == (version(1), version(2))
    assert [(state.stream, state.finished) for state in report.states] == [(0, True)]
    rig.renew(2)
    report = rig.said[-1]
    assert isinstance(report, UpdateStreamStates)
    assert (report.version_old, report.version) == (None, version(2))
    assert report.states == ()


def test_what_comes_again_changes_nothing() -> None:
    """The change, said twice, and the confirmation that it is under way."""
    rig = updating()
    assert rig.update(1, 2, 1, 2) == rig.renew(2, old=1) == []
    assert rig.session.state is State.UPDATING
    rig = replaying(0)
    assert rig.renew(1) == rig.renew(1) == rig.renew(2, old=1) == []
    assert rig.session.state is State.REPLAYING


def check_reset(rig: SessionRig, done: list[str]) -> None:
    """It begins anew, and holds what it has."""
    assert rig.session.state is State.CONNECTING
    assert done == [f"hold {stream}" for stream, holding in rig.session.holdings.items() if holding is Holding.HELD]
    assert done


@pytest.mark.parametrize("odd", range(5))
def test_what_does_not_fit_what_it_has_ends_in_connecting(odd: int) -> None:
    """Nothing is guessed, in neither of the states that deliver."""
    rig = replaying(2)
    words = [
        lambda: rig.renew(3),
        lambda: rig.renew(4, old=3),
        lambda: rig.update(3, 4, 1),
        lambda: rig.update(0, 1, 2),
    ]
    check_reset(rig, [*words, rig.invalidate][odd]())
    rig = updating()
    words = [
        lambda: rig.renew(1),
        lambda: rig.renew(3, old=1),
        lambda: rig.update(1, 3, 1),
        lambda: rig.update(2, 3, 1),
    ]
    check_reset(rig, [*words, rig.invalidate][odd]())


def test_what_was_overtaken_changes_nothing() -> None:
    """An older stamp of this leader, or any of an older leader, whatever it says."""
    rig = SessionRig()
    rig.lease(1, 0, epoch=2)
    for stale in (
        LeaseStreams(rig.header(epoch=2, stamp=1), version(7, 2), (5,), 16),
        LeaseStreams(rig.header(epoch=1, stamp=99), version(8, 1), (6,), 16),
    ):
        assert rig.hear(stale) == []
    assert rig.session.leased == {0}
    rig.wait(TIMING.lease_s)
    assert rig.session.state is State.CONNECTING
    assert rig.hear(LeaseStreams(rig.header(epoch=1, stamp=100), version(9), (6,), 16)) == []
    assert rig.session.state is State.CONNECTING


def test_a_stream_that_is_leased_again_while_it_drains_is_opened_when_it_is_closed() -> None:
    """Two consumers of one stream on one replica would be refused by the broker."""
    rig = updating()
    rig.invalidate()
    assert rig.lease(3, 0, 1) == ["release 2", "open 1"]
    assert rig.session.holdings[0] is Holding.RELEASING
    assert rig.released(0) == ["open 0"]
    report = rig.said[-1]
    assert not any(state.finished for state in getattr(report, "states", ()))


def test_it_leaves_when_everything_is_given_back() -> None:
    """It asks for nothing more, drains as it is told to, and says goodbye."""
    rig = replaying(0, 1)
    rig.take(rig.session.leave(rig.now))
    assert rig.said[-1].report.workers_count == 0
    assert rig.update(1, 2) == ["release 0", "release 1"]
    rig.released(0)
    rig.released(1)
    rig.said.clear()
    rig.renew(2)
    assert rig.heard()[-1] == "Disconnect"
    assert rig.session.state is State.DISCONNECTED
    assert rig.session.due() is None


def test_what_is_being_released_is_told_to_the_next_leader() -> None:
    """It is here until it is closed: else the leader would lease it to others, or move the cursor below it."""
    rig = updating()
    assert rig.began(2) == ["hold 1", "hold 2"]
    (find,) = rig.said
    assert isinstance(find, FindLeader)
    assert sorted(state.stream for state in find.held) == [0, 1, 2]
    assert rig.lease(1, 0, 1, 2, epoch=2) == ["open 1", "open 2"]
    assert rig.released(0) == ["open 0"]


def test_who_leaves_opens_nothing_that_it_has_closed() -> None:
    """A leader that found it with what it drains leases that back first, and takes it away then."""
    rig = updating()
    rig.take(rig.session.leave(rig.now))
    assert rig.began(2) == ["hold 1", "hold 2", "release 1", "release 2"]
    assert rig.lease(1, 0, 1, 2, epoch=2) == []
    assert rig.released(0) == []
    assert rig.released(1) == rig.released(2) == []
    rig.update(1, 2, epoch=2)
    rig.said.clear()
    rig.renew(2, epoch=2)
    assert rig.heard()[-1] == "Disconnect"


def test_it_leaves_though_nobody_answers() -> None:
    """After the time that workers have, and that a leader has to be found."""
    rig = replaying(0)
    rig.take(rig.session.leave(rig.now))
    assert rig.wait(TIMING.lease_s) == ["hold 0", "release 0"]
    rig.wait(TIMING.drain_s)
    assert rig.session.state is State.DISCONNECTED
    rig = SessionRig()
    rig.take(rig.session.leave(rig.now))
    assert rig.session.state is State.DISCONNECTED


def test_a_refusal_of_the_broker_is_told() -> None:
    """Once, and again when it is over."""
    rig = replaying(0)
    rig.session.progressed(StreamState(0, acknowledged=7, pending_count=2))
    rig.take(rig.session.refused(0, rig.now))
    rig.take(rig.session.refused(0, rig.now))
    (report,) = rig.said
    assert isinstance(report, UpdateStreamStates)
    assert report.states == (StreamState(0, acknowledged=7, pending_count=2, refused=True),)
    rig.take(rig.session.opened(0, rig.now))
    assert rig.heard() == ["UpdateStreamStates"] * 2
    assert rig.session.refused(3, rig.now) == []


def test_it_reports_as_often_as_it_must() -> None:
    """A heartbeat, or at once when its workers are more or fewer."""
    rig = replaying(0)
    rig.wait(TIMING.heartbeat_s)
    assert rig.heard() == ["UpdateStreamStates"]
    rig.take(rig.session.weigh(4, rig.now))
    rig.take(rig.session.weigh(4, rig.now))
    assert [message.report.workers_count for message in rig.said] == [4]


def test_one_that_was_not_there_when_the_cursor_was_moved_forgets_what_it_has() -> None:
    """What comes again is to be delivered again; and the leader is told of which time reports are."""
    rig = SessionRig()
    rig.lease(1, 2, 3)
    rig.session.progressed(StreamState(2, acknowledged=9))
    rig.wait(TIMING.lease_s)
    assert rig.hear(LeaseStreams(rig.header(epoch=2), version(1, 2), (2, 3), 16, 1)) == ["release 2", "release 3"]
    assert rig.session.state_of(2).acknowledged is None
    assert rig.said[-1].report.replays == 1
    assert rig.released(2) == [], "all of it has to go before anything comes"
    assert rig.released(3) == ["open 2", "open 3"]
    assert rig.hear(UpdateStreams(rig.header(epoch=2), version(1, 2), version(2, 2), (2, 3), 1)) == []


def test_a_stream_that_was_never_opened_is_given_back_at_once() -> None:
    """It waited for others to go, and is wanted elsewhere before they had."""
    rig = SessionRig()
    rig.lease(1, 2)
    rig.wait(TIMING.lease_s)
    assert rig.hear(LeaseStreams(rig.header(epoch=2), version(1, 2), (5, 6), 16, 1)) == ["release 2"]
    assert rig.hear(UpdateStreams(rig.header(epoch=2), version(1, 2), version(2, 2), (6,), 1)) == []
    said = rig.said[-1]
    assert isinstance(said, UpdateStreamStates)
    assert [state.stream for state in said.states if state.finished] == [5]
    assert rig.released(2) == ["open 6"]


def test_a_group_that_is_cut_in_another_way() -> None:
    """What is here goes at once, and what is leased opens when that is gone, though the numbers are the same."""
    rig = SessionRig()
    assert rig.lease(1, 2, 3) == ["open 2", "open 3"]
    rig.wait(TIMING.lease_s)
    assert rig.session.state is State.CONNECTING
    lease = LeaseStreams(rig.header(epoch=2), version(1, 2), (3,), 4)
    assert rig.hear(lease) == ["release 2", "release 3"]
    assert rig.session.streams_count == 4
    assert rig.released(2) == []
    assert rig.released(3) == ["open 3"]


def test_streams_that_go_together_are_told_together() -> None:
    """There may be a thousand: a report for each would tell of all before it again."""
    rig = replaying(0, 1, 2)
    assert rig.update(1, 2, 2) == ["release 0", "release 1"]
    rig.heard()
    rig.take(rig.session.released_each([0, 1, 7], rig.now))
    (report,) = rig.said
    assert isinstance(report, UpdateStreamStates)
    assert [(state.stream, state.finished) for state in report.states] == [(0, True), (1, True)]
    rig.take(rig.session.released_each([0], rig.now))
    assert rig.heard() == ["UpdateStreamStates"]


def test_a_lease_lasts_as_long_as_its_leader_says() -> None:
    """All sessions of a group have leases of one length, however their replicas are configured."""
    rig = SessionRig()
    header = replace(rig.header(), lease_s=2.0)
    rig.hear(LeaseStreams(header, version(1), (0,), 16))
    rig.wait(1.9)
    assert deliverable(rig.session, 0, rig.now)
    rig.wait(0.2)
    assert not deliverable(rig.session, 0, rig.now)
