"""A leader: who gets which stream when, and what it does with whoever does not say what it should."""

from __future__ import annotations

import pytest

from proxy.groups.kept_orders import KeptOrders
from proxy.groups.leader_session import TABLE, Action, Event, State
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import FindLeader, LeaseStreams, UpdateStreamStates
from proxy.groups.streams import StreamState
from tests.groups.rig import ALICE, BOB, CAROL, TIMING, LeaderRig, version

DELAY = TIMING.balance_delay_s


def finished(*streams: int) -> list[StreamState]:
    """Streams that were given back."""
    return [StreamState(stream, finished=True) for stream in streams]


def alone(streams_count: int = 4) -> LeaderRig:
    """Alice has everything, and replays it."""
    rig = LeaderRig(streams_count)
    rig.joined(ALICE)
    rig.wait(DELAY)
    rig.confirm(ALICE)
    assert set(rig.leader.owners.values()) == {ALICE}
    return rig


def changing() -> LeaderRig:
    """Alice had four streams, and is told to give two of them to Bob, who waits."""
    rig = alone()
    rig.joined(BOB)
    assert rig.wait(DELAY) == [("update", "a", "2", "3")]
    return rig


def test_every_state_knows_every_event() -> None:
    """And what is dropped stays dropped."""
    assert TABLE.keys() == set(State)
    assert all(transitions.keys() == set(Event) for transitions in TABLE.values())
    assert all(transition.state is State.DROPPED for transition in TABLE[State.DROPPED].values())
    for state in set(State) - {State.DROPPED}:
        assert TABLE[state][Event.TIMEOUT].action is Action.DROP
        assert TABLE[state][Event.FIND].action is Action.LEASE


def test_joins_within_a_moment_are_one_change() -> None:
    """The first gets nothing that it would have to give back at once."""
    rig = LeaderRig()
    rig.joined(ALICE)
    rig.joined(BOB)
    assert rig.leader.owners == {}
    said = rig.wait(DELAY)
    assert sorted(said) == [("renew", "a"), ("renew", "b"), ("update", "a", "0", "2"), ("update", "b", "1", "3")]


def test_nobody_is_told_before_it_is_stored() -> None:
    """And what is wanted meanwhile is stored in one go afterwards."""
    rig = LeaderRig()
    rig.auto = False
    assert rig.find(ALICE) == rig.find(BOB) == []
    assert rig.find(ALICE) == [], "it asks again, and is told no sooner for that"
    (record,) = [act.record for act in rig.unstored]
    assert record == GroupMemory(1, "leader", 1, 4, lease_s=TIMING.lease_s)
    rig.store()
    assert rig.says() == [("lease", "a")]
    (record,) = [act.record for act in rig.unstored]
    assert record == GroupMemory(1, "leader", 2, 4, lease_s=TIMING.lease_s)
    rig.store()
    assert rig.says() == [("lease", "b")]


def test_a_leader_that_was_stopped_leases_nothing_again_that_is_not_stored_anew() -> None:
    """It may lead no more: the topic would refuse the record, and the session never hears of that lease."""
    rig = LeaderRig()
    assert rig.find(ALICE) == [("lease", "a")]
    rig.auto = False
    rig.now += TIMING.drop_s
    assert rig.find(ALICE) == [("invalidate", "a")]
    (record,) = [act.record for act in rig.unstored]
    assert record.number == 2
    rig.store()
    assert rig.says() == [("lease", "a")]


def test_a_leader_that_was_stopped_hears_nobody_of_before() -> None:
    """What is on its socket comes before its timers, and is of leases that have run out."""
    rig = alone()
    rig.now += TIMING.drop_s
    assert rig.states(ALICE, rig.number(ALICE)) == [("invalidate", "a")]
    assert rig.leader.owners == {}


def test_a_stream_moves_when_it_was_given_back() -> None:
    """One by one, as they are finished; the change is over with the last."""
    rig = changing()
    number, old = rig.number(ALICE), rig.old(ALICE)
    assert rig.states(ALICE, number, *finished(0), old=old) == [("update", "b", "0")]
    assert rig.states(ALICE, number, *finished(0, 1), old=old) == [("renew", "a")]
    rig.states(ALICE, number)
    assert ("update", "b", "0", "1") in rig.confirm(BOB)
    assert rig.leader.owners == {0: BOB, 1: BOB, 2: ALICE, 3: ALICE}


def test_a_session_that_comes_back_keeps_what_it_has() -> None:
    """Under a new version; what it has not is free at once."""
    rig = alone()
    assert rig.find(ALICE, 1, 2) == [("lease", "a", "1", "2")]
    assert rig.leader.owners == {1: ALICE, 2: ALICE}


def test_nobody_goes_on_with_what_another_had_since() -> None:
    """A stopped session asks as soon as the stream is free again: what it fetched of it then is out of date."""
    rig = alone()
    rig.now += TIMING.drop_s
    rig.joined(BOB)
    rig.wait(DELAY)
    assert rig.leader.owners == dict.fromkeys(range(4), BOB), "the silent one was dropped"
    rig.confirm(BOB)
    rig.disconnect(BOB)
    assert rig.leader.owners == {}
    assert rig.find(ALICE, 0, 1, 2, 3) == [("lease", "a")]
    # It has given them up when it confirms, and gets them like anybody.
    rig.states(ALICE, rig.number(ALICE))
    assert ("update", "a", "0", "1", "2", "3") in rig.wait(DELAY)


def test_the_next_leader_knows_who_had_what_nobody_has() -> None:
    """One that had it last keeps what it has of it; one from before that does not."""
    rig = alone()
    rig.disconnect(ALICE)
    rig.joined(BOB)
    rig.auto = False
    rig.wait(DELAY)
    (record,) = [act.record for act in rig.unstored]
    given = dict(record.owners)
    assert given == dict.fromkeys(range(4), BOB)
    rig.store()
    rig.confirm(BOB)
    rig.disconnect(BOB)
    rig.joined(CAROL)
    (record,) = [act.record for act in rig.unstored]
    assert (record.owners, dict(record.had)) == ((), given)
    for session, kept in ((ALICE, ()), (BOB, ("0", "1", "2", "3"))):
        assert LeaderRig(memory=record, epoch=2).find(session, 0, 1, 2, 3) == [("lease", session.replica, *kept)]


@pytest.mark.parametrize("held", [(), (0, 1)])
def test_a_question_that_comes_again_gets_the_same_answer(held: tuple[int, ...]) -> None:
    """The same version: whichever of the two answers arrives, both mean the same; also if it keeps a part only."""
    rig = LeaderRig(memory=GroupMemory(had=((0, ALICE), (1, BOB))))
    kept = ("0",) if held else ()
    assert rig.find(ALICE, *held) == [("lease", "a", *kept)]
    number = rig.number(ALICE)
    assert rig.find(ALICE, *held) == [("lease", "a", *kept)]
    assert rig.number(ALICE) == number


def test_who_looks_for_a_leader_may_have_found_the_one_before_since() -> None:
    """What that one leased it stays reserved until it confirms what this one leases it."""
    rig = LeaderRig(memory=GroupMemory(owners=tuple((stream, ALICE) for stream in range(4))), epoch=2)
    rig.joined(BOB)
    assert rig.find(ALICE, 0) == [("lease", "a", "0")]
    rig.wait(DELAY)
    assert rig.leader.owners == {0: ALICE}
    rig.states(ALICE, rig.number(ALICE))
    rig.wait(DELAY)
    assert set(rig.leader.owners) == {0, 1, 2, 3}


def test_a_new_leader_keeps_streams_for_those_who_had_them() -> None:
    """As long as they may still be delivering; to others they go after that."""
    memory = GroupMemory(4, "old", 9, 4, ((0, ALICE), (1, ALICE), (2, BOB), (3, BOB)))
    rig = LeaderRig(memory=memory, epoch=5)
    rig.joined(BOB, 2, 3)
    rig.wait(DELAY)
    assert rig.leader.owners == {2: BOB, 3: BOB}
    while rig.now < 100.0 + TIMING.last_lease_s(0.0) - 1.0:
        rig.states(BOB, rig.number(BOB))
        rig.wait(1.0)
    assert rig.leader.owners == {2: BOB, 3: BOB}
    rig.wait(1.0)
    assert rig.leader.owners == dict.fromkeys(range(4), BOB)


@pytest.mark.parametrize("silent", [True, False])
def test_what_a_dropped_session_has_is_kept_until_it_has_stopped(*, silent: bool) -> None:
    """A silent one has stopped by then; one that said something odd may not have heard that it is dropped."""
    rig = alone()
    rig.joined(BOB)
    mine = rig.number(BOB)
    if silent:
        for _ in range(int(TIMING.drop_s)):
            rig.now += 1.0
            rig.states(BOB, mine)
        rig.states(BOB, mine)
        assert ("invalidate", "a") in rig.wait(0.0)
        rig.wait(DELAY)
        assert rig.leader.owners == dict.fromkeys(range(4), BOB)
        return
    assert rig.states(ALICE, 77) == [("invalidate", "a")]
    rig.wait(DELAY)
    assert rig.leader.owners == {}
    assert rig.find(ALICE, 0, 1, 2, 3) == [("lease", "a", "0", "1", "2", "3")]


@pytest.mark.parametrize("odd", ["states", "change", "stale change"])
def test_what_does_not_fit_is_answered_with_invalidate(odd: str) -> None:
    """In the middle of a change, by each way in which it may not fit."""
    rig = changing()
    number = rig.number(ALICE)
    words = {"states": (number, None), "change": (number + 1, number), "stale change": (number, rig.old(ALICE) - 1)}
    new, old = words[odd]
    assert ("invalidate", "a") in rig.states(ALICE, new, old=old)
    assert [session.session for session in rig.leader.sessions] == [BOB]


def test_what_was_on_its_way_when_a_change_began_is_heard() -> None:
    """How far it is, of before the change."""
    rig = changing()
    state = StreamState(0, acknowledged=5)
    assert rig.states(ALICE, rig.old(ALICE), state) == []
    assert rig.leader.states[0].acknowledged == 5


def test_what_was_overtaken_is_not_heard() -> None:
    """A message that is not newer than the last one."""
    rig = alone()
    old = UpdateStreamStates(rig.report(ALICE, beat=1), version(77), ())
    assert rig.hear(old) == []
    assert rig.hear(FindLeader(rig.report(ALICE, beat=1), ())) == []
    assert len(rig.leader.owners) == 4


def test_a_session_that_never_gives_back_is_dropped() -> None:
    """However alive it is."""
    rig = changing()
    number, old, mine, said = rig.number(ALICE), rig.old(ALICE), rig.number(BOB), []
    for _ in range(int(TIMING.not_replaying_s) + 1):
        rig.states(ALICE, number, old=old)
        rig.states(BOB, mine)
        said += rig.wait(1.0)
    assert ("invalidate", "a") in said
    assert ("renew change", "a") in said


def test_progress_is_taken_from_the_owner_and_never_goes_back() -> None:
    """It is stored from time to time."""
    rig = alone()
    rig.joined(BOB)
    number = rig.number(ALICE)
    rig.states(ALICE, number, StreamState(0, acknowledged=9))
    rig.states(ALICE, number, StreamState(0, acknowledged=4))
    rig.states(BOB, rig.number(BOB), StreamState(0, acknowledged=99))
    assert rig.leader.states[0].acknowledged == 9
    rig.auto = False
    rig.leader._record._checkpoint_at = rig.now
    rig.wait(0.0)
    (record,) = [act.record for act in rig.unstored]
    assert record.states == (StreamState(0, acknowledged=9),)
    assert (0, ALICE) in record.owners


def test_streams_follow_workers() -> None:
    """Who has more of them gets more, at the next balance."""
    rig = changing()
    rig.confirm(ALICE, 0, 1)
    rig.confirm(BOB)
    rig.workers_count = 9
    rig.states(BOB, rig.number(BOB))
    assert ("update", "a", "3") in rig.wait(DELAY)


def test_one_that_leaves_frees_everything() -> None:
    """And without a session the leader is idle before long."""
    rig = alone()
    assert rig.disconnect(ALICE) == []
    assert rig.leader.owners == {}
    assert not rig.leader.idle(rig.now)
    assert rig.leader.idle(rig.now + TIMING.idle_s)
    assert rig.states(ALICE, 1) == [("invalidate", "a")], "it is not known any more"


def test_a_leader_is_announced_again_as_long_as_somebody_may_not_know() -> None:
    """Once to those that wait for one; then as long as streams are kept for sessions that have not been heard."""
    rig = LeaderRig()
    rig.wait(0.0)
    rig.wait(TIMING.renew_s)
    assert rig.announced == [1]
    rig = LeaderRig(memory=GroupMemory(owners=((0, ALICE), (1, BOB))), epoch=7)
    rig.wait(0.0)
    rig.find(ALICE, 0)
    rig.wait(TIMING.renew_s)
    assert rig.announced == [7, 7]
    rig.find(BOB, 1)
    rig.wait(TIMING.renew_s)
    assert rig.announced == [7, 7]


def test_a_leader_that_retires_is_settled_when_the_next_would_know_all() -> None:
    """What a session had that left is others', they have confirmed it, and the last record says so."""
    rig = changing()
    assert not rig.settled()
    rig.confirm(ALICE, 0, 1)
    rig.confirm(BOB)
    assert rig.settled()
    rig.auto = False
    rig.disconnect(ALICE)
    rig.take(rig.leader.retire(rig.now))
    assert not rig.settled(), "what was Alice's is on its way to Bob"
    rig.store()
    assert rig.leader.owners == dict.fromkeys(range(4), BOB)
    assert not rig.settled()
    rig.confirm(BOB)
    assert rig.settled()


def test_one_that_retires_alone_stores_that_nobody_has_anything() -> None:
    """Or the next leader would keep streams for a session that is no more."""
    rig = alone()
    rig.auto = False
    rig.disconnect(ALICE)
    assert not rig.settled()
    rig.take(rig.leader.retire(rig.now))
    (record,) = rig.unstored
    assert record.record.owners == ()
    rig.store()
    assert rig.settled()


def test_every_word_has_its_epoch_and_a_later_stamp() -> None:
    """Also in versions."""
    rig = LeaderRig(epoch=7)
    rig.take(rig.leader.receive(FindLeader(rig.report(ALICE), ()), rig.now))
    rig.take(rig.leader.tick(rig.now + 1))
    stamps = [message.header.stamp for message in rig.told]
    assert stamps == sorted(set(stamps))
    assert {stamp.epoch for stamp in stamps} == {7}
    assert all(message.version.epoch == 7 for message in rig.told if isinstance(message, LeaseStreams))


def test_a_silent_replica_is_told_to_all() -> None:
    """As long as it has something and says nothing; and after a new leader began, one that has not found it."""
    rig = LeaderRig()
    rig.joined(ALICE)
    rig.joined(BOB)
    mine = rig.number(BOB)
    silent: list[float] = []
    while rig.now < 100.0 + TIMING.drop_s:
        rig.states(BOB, mine)
        if rig.silent:
            assert set(rig.silent) == {ALICE.replica}
            silent.append(rig.now)
            rig.silent.clear()
        rig.wait(1.0)
    assert silent
    assert silent[0] >= 100.0 + TIMING.silent_s
    rig = LeaderRig(memory=GroupMemory(4, "old", 9, 4, ((0, ALICE), (1, BOB))), epoch=5)
    rig.joined(BOB, 1)
    rig.wait(TIMING.renew_s)
    assert set(rig.silent) == {ALICE.replica}
    assert [rig.leader.streams_of(each.replica) for each in (ALICE, BOB)] == [[0], [1, 2, 3]]


BETWEEN_RENEWALS = 0.3


def shared_by_two() -> tuple[LeaderRig, float]:
    """Alice has two of four streams, Bob the others; and when Alice was heard last: between two renewals."""
    rig = LeaderRig(memory=GroupMemory(4, "old", 9, 4, ((0, ALICE), (1, ALICE), (2, BOB), (3, BOB))), epoch=5)
    for session, held in ((ALICE, (0, 1)), (BOB, (2, 3))):
        rig.joined(session, *held)
    rig.sleep(rig.now + BETWEEN_RENEWALS, BOB)
    rig.states(ALICE, rig.number(ALICE))
    return rig, rig.now


def test_what_a_silent_session_had_is_given_away_when_it_is_dropped_and_not_at_the_next_renewal() -> None:
    """The leader asks to be woken then."""
    rig, heard_at = shared_by_two()
    rig.sleep(heard_at + TIMING.drop_s - DELAY, BOB)
    assert {session.session for session in rig.leader.sessions} == {ALICE, BOB}
    rig.sleep(heard_at + TIMING.drop_s + DELAY, BOB)
    assert rig.leader.owners == dict.fromkeys(range(4), BOB)


def test_a_session_that_does_not_replay_is_dropped_when_that_is_due() -> None:
    """However alive it is."""
    rig = changing()
    began_at, mine, number, old = rig.now, rig.number(BOB), rig.number(ALICE), rig.old(ALICE)
    until = began_at + TIMING.not_replaying_s
    while rig.now < until - 1.0:
        rig.sleep(rig.now + BETWEEN_RENEWALS)
        rig.states(ALICE, number, old=old)
        rig.states(BOB, mine)
    rig.sleep(until)
    assert [session.session for session in rig.leader.sessions] == [BOB]


def test_what_was_kept_is_given_away_when_the_leases_before_are_over_and_not_at_the_next_renewal() -> None:
    """Likewise."""
    memory = GroupMemory(4, "old", 9, 4, ((0, ALICE), (1, ALICE), (2, BOB), (3, BOB)))
    rig = LeaderRig(memory=memory, epoch=5)
    over_at = rig.now + TIMING.last_lease_s(0.0)
    rig.joined(BOB, 2, 3)
    rig.sleep(over_at - DELAY / 2, BOB)
    assert rig.leader.owners == {2: BOB, 3: BOB}
    rig.sleep(over_at, BOB)
    assert rig.leader.owners == dict.fromkeys(range(4), BOB)


def test_a_silence_is_told_as_soon_as_it_is_one_and_again_with_each_renewal() -> None:
    """So that the look at the broker begins then."""
    rig, heard_at = shared_by_two()
    silent_at = heard_at + TIMING.silent_s
    rig.sleep(silent_at - DELAY, BOB)
    assert rig.silent == []
    rig.sleep(silent_at, BOB)
    assert rig.silent == [ALICE.replica]
    rig.sleep(silent_at + 2 * TIMING.renew_s, BOB)
    assert rig.silent == 3 * [ALICE.replica]


def test_who_has_not_found_a_new_leader_is_told_of_while_its_leases_are_waited_for() -> None:
    """Early enough for the same look, and of nobody who has found it."""
    rig = LeaderRig(memory=GroupMemory(4, "old", 9, 4, ((0, ALICE), (1, BOB))), epoch=5)
    rig.joined(BOB, 1)
    found_by = rig.now + TIMING.found_s
    rig.sleep(found_by - DELAY, BOB)
    assert rig.silent == []
    rig.sleep(found_by, BOB)
    assert rig.silent == [ALICE.replica]
    assert TIMING.found_s + TIMING.lease_s < TIMING.last_lease_s(0.0)


def test_the_leases_of_the_leader_before_are_waited_for_also_if_they_are_longer() -> None:
    """It may have been configured otherwise, and its record says how."""
    had = ((0, ALICE), (1, BOB), (2, BOB), (3, BOB))
    rig = LeaderRig(memory=GroupMemory(4, "old", 9, 4, had, lease_s=3 * TIMING.lease_s), epoch=5)
    rig.joined(BOB, 1, 2, 3)
    rig.wait(DELAY)
    while rig.now < 100.0 + 3 * TIMING.lease_s:
        rig.states(BOB, rig.number(BOB))
        rig.wait(1.0)
        assert 0 not in rig.leader.owners
    rig.wait(2.0)
    assert rig.leader.owners[0] == BOB


def test_nothing_is_taken_from_others_for_a_session_that_does_not_hear_the_leader() -> None:
    """What the broker sends it may be lost while what it says arrives: whatever was free for it, it would not take.

    Also not what operators want it to have. When it does hear, it gets its share.
    """
    rig = alone()
    rig.take(rig.leader.keep_orders(KeptOrders("orders", "billing", 1, "", replica=BOB.replica), rig.now))
    for _ in range(40):
        rig.find(BOB)
        rig.states(ALICE, rig.number(ALICE))
        rig.wait(1.0)
        assert rig.leader.owners == dict.fromkeys(range(4), ALICE)
    rig.joined(BOB)
    ((kind, replica, *streams),) = rig.wait(DELAY)
    assert (kind, replica, len(streams)) == ("update", "a", 2), "it gives up what is Bob's share"


def test_a_session_that_hears_nothing_any_more_loses_what_it_had() -> None:
    """It has no lease since it asked, and asks for ever: each time it would get back what it has still."""
    rig, _ = shared_by_two()
    asked_at = rig.now
    while rig.now < asked_at + 2 * TIMING.drop_s + BETWEEN_RENEWALS:
        rig.find(ALICE, 0, 1)
        rig.sleep(rig.now + BETWEEN_RENEWALS, BOB)
    assert rig.leader.owners == dict.fromkeys(range(4), BOB)
    assert rig.now - asked_at <= 2 * TIMING.drop_s + 2 * BETWEEN_RENEWALS


def test_a_session_does_not_pay_for_a_record_that_is_stored_late() -> None:
    """Before that it was told nothing that it could answer."""
    rig, _ = shared_by_two()
    rig.auto = False
    rig.find(ALICE, 0, 1)
    for _ in range(int(TIMING.drop_s) + 3):
        rig.find(ALICE, 0, 1)
        rig.states(BOB, rig.number(BOB))
        rig.wait(1.0)
    rig.store()
    rig.states(ALICE, rig.number(ALICE))
    assert rig.leader.owners == {0: ALICE, 1: ALICE, 2: BOB, 3: BOB}
