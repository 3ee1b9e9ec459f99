"""A group that delivers again from somewhere else: nobody has a stream while the cursor is moved."""

from __future__ import annotations

from dataclasses import replace

from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    FindLeader,
    LeaseStreams,
    ReplayDone,
    ReplayTarget,
    ReplayWanted,
    UpdateStreams,
    UpdateStreamStates,
)
from proxy.groups.replay import Answer, GroupReplay
from proxy.groups.streams import StreamState
from tests.groups.rig import ALICE, BOB, GROUP, TIMING, LeaderRig

TARGET = ReplayTarget(position=(7, 3))
OTHER = ReplayTarget(published_ms=1_000)
ALL = range(4)


def shared() -> LeaderRig:
    """Alice and Bob have two streams each."""
    rig = LeaderRig()
    rig.joined(ALICE)
    rig.joined(BOB)
    rig.wait(TIMING.balance_delay_s)
    rig.confirm(ALICE)
    rig.confirm(BOB)
    assert len(rig.leader.owners) == len(ALL)
    return rig


def owned(rig: LeaderRig, session: object) -> list[int]:
    """What a session has."""
    return sorted(stream for stream, owner in rig.leader.owners.items() if owner == session)


def test_the_cursor_is_moved_when_everything_was_given_back() -> None:
    """Not before the last session has; then all is leased again, and the asker is told."""
    rig = shared()
    of_alice, of_bob = owned(rig, ALICE), owned(rig, BOB)
    assert sorted(rig.replay(1, TARGET)) == [("update", "a"), ("update", "b")]
    rig.confirm(ALICE, *of_alice)
    assert rig.repositions == []
    rig.confirm(BOB, *of_bob)
    assert rig.repositions == [TARGET]
    assert rig.wait(1.0) == [("renew", "a"), ("renew", "b")], "nobody gets a stream meanwhile"
    assert sorted(words[0] for words in rig.repositioned()) == ["update", "update"]
    assert len(rig.leader.owners) == len(ALL)
    assert rig.answers == [ReplayDone(GROUP, "a", 1, None)]


def test_how_far_streams_were_is_forgotten() -> None:
    """Acknowledged positions are those of before."""
    rig = shared()
    of_alice, of_bob = owned(rig, ALICE), owned(rig, BOB)
    rig.states(ALICE, rig.number(ALICE), StreamState(of_alice[0], acknowledged=5))
    assert rig.leader.states
    rig.replay(1, TARGET)
    rig.confirm(ALICE, *of_alice)
    rig.confirm(BOB, *of_bob)
    rig.repositioned()
    assert not rig.leader.states


def test_that_the_cursor_is_moved_is_stored_before() -> None:
    """Also the next leader, if this one dies in between, says so to those that come back; and nobody is told before."""
    rig = shared()
    of_alice, of_bob = owned(rig, ALICE), owned(rig, BOB)
    rig.replay(1, TARGET)
    rig.confirm(ALICE, *of_alice)
    rig.auto = False
    rig.confirm(BOB, *of_bob)
    (stored,) = rig.unstored
    assert (stored.record.replays, stored.record.owners, rig.repositions) == (1, (), [])
    rig.auto = True
    rig.store()
    assert rig.repositions == [TARGET]
    rig.take(rig.leader.repositioned(None, rig.now))
    assert {message.replays for message in rig.told if isinstance(message, UpdateStreams)} == {1}
    next_one = LeaderRig(memory=stored.record, epoch=2)
    next_one.take(next_one.leader.receive(FindLeader(next_one.report(ALICE), ()), next_one.now))
    assert [message.replays for message in next_one.told if isinstance(message, LeaseStreams)] == [1]


def test_how_far_one_was_before_the_cursor_was_moved_is_not_believed() -> None:
    """It comes back and says what it had; its reports say that they are of before."""
    rig = LeaderRig(memory=GroupMemory(replays=3, had=((0, ALICE),)))
    state = StreamState(0, acknowledged=9)
    rig.hear(FindLeader(rig.report(ALICE), (state,)))
    assert rig.leader.owners[0] == ALICE
    assert rig.leader.states == {}
    (session,) = rig.leader.sessions
    assert session.version is not None
    rig.hear(UpdateStreamStates(replace(rig.report(ALICE), replays=3), session.version, (state,)))
    assert rig.leader.states[0].acknowledged == 9


def test_one_who_asks_again_is_answered_again_and_nothing_is_done_twice() -> None:
    """Messages are lost, so askers repeat; somebody else has to wait for the end."""
    rig = shared()
    of_alice, of_bob = owned(rig, ALICE), owned(rig, BOB)
    rig.replay(1, TARGET)
    rig.replay(1, TARGET)
    rig.replay(1, OTHER, asker="b")
    (busy,) = rig.answers
    assert busy.asker == "b"
    assert busy.problem is not None
    rig.confirm(ALICE, *of_alice)
    rig.confirm(BOB, *of_bob)
    rig.repositioned("the broker was not there")
    rig.replay(1, TARGET)
    assert rig.answers[1:] == [ReplayDone(GROUP, "a", 1, "the broker was not there")] * 2
    assert rig.repositions == [TARGET]
    assert len(rig.leader.owners) == len(ALL), "it goes on where it was"


def test_one_who_gives_nothing_back_is_named() -> None:
    """When even those have had their time that are dropped for it."""
    replay = GroupReplay(TIMING)
    assert replay.want(ReplayWanted(GROUP, "a", 1, TARGET), 0.0) == []
    assert replay.free(free=False, had="b", now=TIMING.replay_s - 0.1) == []
    (answer,) = replay.free(free=False, had="b", now=TIMING.replay_s)
    assert isinstance(answer, Answer)
    assert answer.message.problem == f"not every stream was released within {TIMING.replay_s:.0f} s: b"
    assert not replay.under_way


def test_an_answer_for_a_leader_of_before_does_nothing() -> None:
    """A replica may lose the producer while the cursor is moved, and lead again when that is answered."""
    rig = shared()
    owners = rig.leader.owners
    assert rig.repositioned() == []
    assert (rig.answers, rig.leader.owners) == ([], owners)


def test_a_session_that_is_silent_holds_a_replay_up_until_it_has_certainly_stopped() -> None:
    """As it holds up everything else."""
    rig = shared()
    of_alice = owned(rig, ALICE)
    rig.replay(1, TARGET)
    rig.confirm(ALICE, *of_alice)
    rig.wait(TIMING.drop_s - 0.1)
    assert rig.repositions == []
    rig.wait(0.2)
    assert rig.repositions == [TARGET]


def test_one_that_comes_with_streams_while_the_cursor_is_moved_keeps_none() -> None:
    """It was given up before; what it still has it must not deliver."""
    rig = shared()
    of_alice, of_bob = owned(rig, ALICE), owned(rig, BOB)
    rig.replay(1, TARGET)
    rig.confirm(ALICE, *of_alice)
    rig.confirm(BOB, *of_bob)
    assert rig.find(BOB, *of_bob) == [("lease", "b")]
    assert rig.leader.owners == {}
