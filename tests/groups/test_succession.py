"""Who is to lead next: leaders go from where many are to where few are, and do not go to and fro."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.groups.manager import Errand, State
from proxy.groups.messages import SessionId
from proxy.groups.succession import successor
from tests.groups.rig import BOB, TIMING, LeaderRig
from tests.groups.test_manager import leading, manager

ROUNDS = 60


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 1_000)), st.floats(0, 0.999), st.floats(0, 0.999))
def test_nobody_is_chosen_where_it_is_even_and_only_those_with_less_than_most(
    leads: dict[str, int], going: float, to_whom: float
) -> None:
    """Whatever the numbers; a replica that is not heard of chooses nobody."""
    assert successor(leads, "z", (going, to_whom)) is None
    if "a" not in leads:
        return
    chosen = successor(leads, "a", (going, to_whom))
    if max(leads.values()) - min(leads.values()) <= 1:
        assert chosen is None
    assert chosen is None or leads[chosen] < leads["a"] - 1 or leads[chosen] < sum(leads.values()) / len(leads)


@pytest.mark.parametrize("groups", [10, 100, 1_000])
def test_leaders_of_many_groups_become_even_without_going_to_and_fro(groups: int) -> None:
    """All decide at once by the numbers of the round before, as replicas do that report once a second."""
    draw = random.Random(1)  # noqa: S311 - to be repeated, not to be secret
    replicas = [f"r{number}" for number in range(10)]
    led = dict.fromkeys(range(groups), "r0")
    moves = 0
    for _ in range(ROUNDS):
        counts = Counter(led.values())
        leads = {replica: counts[replica] for replica in replicas}
        for group, replica in led.items():
            chosen = successor(leads, replica, (draw.random(), draw.random()))
            if chosen is not None:
                led[group] = chosen
                moves += 1
    counts = Counter(led.values())
    assert max(counts.values()) <= 1.3 * groups / len(replicas) + 1
    assert moves <= 1.5 * groups


HERE = SessionId("leader", 1)


def leading_too_many() -> LeaderRig:
    """A leader whose replica leads 100 groups, and Bob's none; both have streams."""
    rig = LeaderRig()
    rig.leads = {HERE.replica: 100}
    for session in (HERE, BOB):
        rig.joined(session)
    rig.wait(TIMING.balance_delay_s)
    for session in (HERE, BOB):
        rig.confirm(session)
    return rig


def give_way(rig: LeaderRig) -> None:
    """Time goes by until it says who is to lead."""
    end = rig.now + 200.0
    while not rig.successors:
        assert rig.now < end, "it leads for ever"
        for session in (HERE, BOB):
            rig.states(session, rig.number(session))
        rig.wait(TIMING.renew_s)


def test_a_leader_says_who_is_to_lead_and_gives_those_that_wait_the_time_to_let_it_go_first() -> None:
    """Not before it has led for a while; then it is over."""
    rig = leading_too_many()
    began = rig.now
    give_way(rig)
    assert rig.now >= began + TIMING.lead_s - 1.0
    assert rig.successors == ["b"]
    assert not rig.leader.succeeded(rig.now)
    assert rig.leader.due() == rig.now + TIMING.give_way_s
    assert rig.leader.succeeded(rig.now + TIMING.give_way_s)


def test_one_that_retires_after_it_has_said_who_is_to_lead_hands_over_all_the_same() -> None:
    """Its replica leaves in that moment: what it had goes to others first, and nothing is due that is past."""
    rig = leading_too_many()
    give_way(rig)
    rig.disconnect(HERE)
    rig.take(rig.leader.retire(rig.now))
    rig.now += TIMING.give_way_s
    assert not rig.leader.succeeded(rig.now)
    assert rig.leader.due() > rig.now


def test_one_that_has_let_another_lead_waits_behind_it() -> None:
    """It has a session still, and may lead again one day."""
    found = leading()
    assert found.leader is not None
    found.leader.succeeded = lambda now: now >= 2.5  # type: ignore[method-assign]
    assert Errand.CLOSE not in found.tick(2.0)
    assert found.tick(2.5) == [Errand.CLOSE, Errand.CONTEND]
    assert found.state is State.CANDIDATE
    assert found.due() is None


def test_who_waits_lets_the_chosen_one_go_first() -> None:
    """By waiting anew; whoever is chosen, or does not wait, does nothing."""
    waiting = manager()
    waiting.want(0.0)
    assert waiting.let_lead("there", 0.0) == [Errand.CLOSE, Errand.CONTEND]
    assert waiting.state is State.CANDIDATE
    assert waiting.let_lead("here", 0.0) == []
    assert leading().let_lead("there", 0.0) == []
    assert manager().let_lead("there", 0.0) == []
