"""A replica's part in finding a leader."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.groups.bundles import DEPLOYMENT
from proxy.groups.leader import Store
from proxy.groups.leader_messages import Tell
from proxy.groups.manager import TABLE, Errand, Event, LeaderManager, ManagerAct, State
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import FindLeader, Report, UpdateStreams, UpdateStreamStates
from proxy.groups.streams import StreamState
from tests.groups.rig import ALICE, GROUP, TIMING

QUESTION = FindLeader(Report(GROUP, ALICE, 1, 1), ())


def manager() -> LeaderManager:
    """Of a replica with nothing to do."""
    return LeaderManager(GROUP, "here", 4, TIMING)


def leading() -> LeaderManager:
    """One that leads with epoch 1."""
    made = manager()
    made.want(0.0)
    made.granted(0.0)
    made.read(GroupMemory(), 0.0)
    made.stored(0.0)
    assert made.leader is not None
    return made


def retiring() -> LeaderManager:
    """One whose replica has left, and whose streams are to go to Alice's session."""
    found = leading()
    found.receive(FindLeader(Report(GROUP, ALICE, 1, 1), ()), 0.0)
    found.stored(0.0)
    assert found.leader is not None
    (session,) = found.leader.sessions
    assert session.version is not None
    found.receive(UpdateStreamStates(Report(GROUP, ALICE, 2, 1), session.version, ()), 0.0)
    (stored,) = found.unwant(0.0)
    assert isinstance(stored, Store)
    assert {owner for _, owner in stored.record.owners} == {ALICE}
    assert found.state is State.RETIRING
    return found


def test_every_state_knows_every_event() -> None:
    """And only who leads has a leader."""
    assert TABLE.keys() == set(State)
    assert all(transitions.keys() == set(Event) for transitions in TABLE.values())
    assert all(TABLE[state][Event.LOST].state in (State.OUT, State.CANDIDATE) for state in State)


def test_who_had_a_stream_is_forgotten_when_the_group_is_cut_anew() -> None:
    """Its number means other slots then."""
    found = manager()
    found.want(0.0)
    found.granted(0.0)
    memory = GroupMemory(6, "there", 5, 3, had=((2, ALICE),))
    (store,) = found.read(memory, 0.0)
    assert isinstance(store, Store)
    assert store.record.streams_count != 3
    assert store.record.had == ()


def test_it_leads_when_its_first_record_is_stored_and_not_before() -> None:
    """With the epoch after the last that the topic knows."""
    found = manager()
    assert found.want(0.0) == [Errand.CONTEND]
    assert found.granted(0.0) == [Errand.READ]
    owners = ((1, ALICE),)
    memory = GroupMemory(6, "there", 5, 4, owners, had=((2, ALICE),))
    assert found.read(memory, 0.0) == [Store(replace(memory, epoch=7, leader="here", number=0))]
    question = FindLeader(Report(GROUP, ALICE, 1, 1), ())
    assert found.receive(question, 0.0) == []
    found.stored(0.0)
    assert found.leader is not None
    assert found.leader.epoch == 7
    assert found.receive(question, 0.0) != []


@pytest.mark.parametrize("claiming_s", [1.0, TIMING.last_lease_s(0.0)])
def test_leases_of_the_leader_before_are_waited_for_from_the_grant_on(claiming_s: float) -> None:
    """It leased nothing since. But those that are well have time to find this one."""
    found = manager()
    found.want(0.0)
    found.granted(1.0)
    found.read(GroupMemory(6, "there", 5, 4, ((1, ALICE),)), 1.0 + claiming_s / 2)
    began_at = 1.0 + claiming_s
    found.stored(began_at)
    kept_until = max(1.0 + TIMING.last_lease_s(0.0), began_at + TIMING.find_leader_s)
    assert found.leader is not None
    for steps in range(8, 0, -1):
        found.tick(kept_until - steps * (kept_until - began_at) / 9)
        assert found.leader.streams_of(ALICE.replica) == [1]
    found.tick(kept_until)
    assert found.leader.streams_of(ALICE.replica) == []


def test_one_that_lost_the_producer_does_not_lead() -> None:
    """At whatever moment; it waits for it again, as long as it has a session."""
    for steps in range(1, 4):
        found = manager()
        found.want(0.0)
        found.granted(0.0)
        if steps > 1:
            found.read(GroupMemory(), 0.0)
        if steps > 2:
            found.stored(0.0)
        assert found.lost(0.0) == [Errand.CLOSE, Errand.CONTEND]
        assert (found.state, found.leader) == (State.CANDIDATE, None)
        assert found.due() is None
    found = retiring()
    assert found.lost(0.0) == [Errand.CLOSE]
    assert found.state is State.OUT


def test_one_without_a_session_waits_for_nothing() -> None:
    """Wherever it is on its way to lead: others wait for the producer as well."""
    for steps in range(3):
        found = manager()
        found.want(0.0)
        if steps > 0:
            found.granted(0.0)
        if steps > 1:
            found.read(GroupMemory(), 0.0)
        assert found.unwant(0.0) == [Errand.CLOSE]
        assert (found.state, found.due()) == (State.OUT, None)
        assert found.granted(0.0) == [Errand.CLOSE], "it was promoted before it had left"


def test_one_that_leads_alone_leaves_at_once() -> None:
    """Nobody has anything, and the topic says so."""
    found = leading()
    assert found.unwant(0.0) == [Errand.REMOVE], "and the group has ended"
    assert (found.state, found.leader, found.due()) == (State.OUT, None, None)


def test_the_deployments_topic_stays_when_the_last_replica_leaves() -> None:
    """It has what operators ordered, for the replicas that come later."""
    found = LeaderManager(DEPLOYMENT, "here", 4, TIMING)
    found.want(0.0)
    found.granted(0.0)
    found.read(GroupMemory(), 0.0)
    found.stored(0.0)
    assert found.unwant(0.0) == [Errand.CLOSE]


def test_a_topic_stays_that_says_who_may_deliver() -> None:
    """A replica that was not heard of may have a stream still: the next leader keeps it for that one."""
    found = manager()
    found.want(0.0)
    found.granted(0.0)
    found.read(GroupMemory(6, "there", 5, 4, ((1, ALICE),)), 0.0)
    found.stored(0.0)
    assert found.unwant(0.0) == [Errand.CLOSE]


def test_one_that_goes_idle_while_it_has_a_session_waits_on() -> None:
    """Its session may be cut off from its own leader; another may lead meanwhile."""
    found = leading()
    assert found.tick(TIMING.idle_s) == [Errand.CLOSE, Errand.CONTEND]
    assert found.state is State.CANDIDATE


def test_one_that_retires_leads_until_all_is_handed_over() -> None:
    """Then it gives the producer away."""
    found = retiring()
    assert found.due() is not None
    (told,) = [act for act in found.stored(1.0) if isinstance(act, Tell)]
    assert isinstance(told.message, UpdateStreams)
    states = tuple(StreamState(stream) for stream in told.message.streams)
    assert Errand.CLOSE not in found.receive(
        UpdateStreamStates(Report(GROUP, ALICE, 3, 1), told.message.version, states, told.message.version_old), 1.0
    )
    *_, last = found.receive(UpdateStreamStates(Report(GROUP, ALICE, 4, 1), told.message.version, states), 1.0)
    assert last is Errand.CLOSE
    assert (found.state, found.leader, found.due()) == (State.OUT, None, None)


def test_one_that_retires_does_not_wait_for_ever() -> None:
    """For a session that does not answer."""
    found = retiring()
    assert Errand.CLOSE not in found.tick(TIMING.retire_s - 0.1)
    assert found.tick(TIMING.retire_s)[-1] is Errand.CLOSE
    assert found.state is State.OUT


@pytest.mark.parametrize(
    "wake", [lambda found, now: found.tick(now), lambda found, now: found.receive(QUESTION, now), LeaderManager.stored]
)
def test_one_that_stood_still_leads_no_more(wake: Callable[[LeaderManager, float], list[ManagerAct]]) -> None:
    """Another may have taken its producer, and it would speak of owners that are none."""
    found = leading()
    assert Errand.CLOSE not in found.tick(TIMING.silent_s), "so long it may be silent"
    assert wake(found, 2 * TIMING.silent_s + 0.1) == [Errand.CLOSE, Errand.CONTEND]
    assert (found.state, found.leader) == (State.CANDIDATE, None)


def test_one_that_hears_of_a_later_leader_leads_no_more() -> None:
    """Of itself it hears, too, and of those before it."""
    found = leading()
    assert found.began(1, 0.0) == found.began(0, 0.0) == []
    assert found.state is State.LEADING
    assert found.began(2, 0.0) == [Errand.CLOSE, Errand.CONTEND_LATER], "else brokers that let two lead always would"
    assert manager().began(2, 0.0) == []


def test_two_that_a_broker_lets_lead_do_not_take_turns_with_the_others_for_ever() -> None:
    """It takes the overtaken one's producer for the exclusive one, and promotes who waits when that is closed."""
    replicas = {name: LeaderManager(GROUP, name, 4, TIMING) for name in ("a", "b", "c")}
    for each in replicas.values():
        each.want(0.0)
    granted, waiting, began, epoch = deque(["a", "b"]), deque(["c"]), list[str](), 0
    while granted:
        name = granted.popleft()
        began.append(name)
        assert len(began) < 10, began
        replicas[name].granted(0.0)
        (store,) = replicas[name].read(GroupMemory(epoch=epoch), 0.0)
        assert isinstance(store, Store)
        epoch = store.record.epoch
        replicas[name].stored(0.0)
        for other, each in replicas.items():
            for act in each.began(epoch, 0.0):
                if act is Errand.CONTEND:
                    waiting.append(other)
                elif act is Errand.CLOSE and waiting:
                    granted.append(waiting.popleft())
    assert began == ["a", "b", "c"]
    assert [name for name, each in replicas.items() if each.leader is not None] == ["c"]
