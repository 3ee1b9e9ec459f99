"""Many groups on ten replicas (`tests.groups.scale`): every stream has one owner, and what is said stays in bounds.

What a life promises is checked while it is lived: by each group's judge, and after each change by `GroupWorld.check`.
"""

from __future__ import annotations

import pytest

from proxy.groups.timing import GroupTiming
from tests.groups.scale import HEARTBEATS, IN_TURN, TOGETHER, WORK_S, Fleet, Phase, live

HOSTS = 10
GROUPS = {TOGETHER: 30, IN_TURN: 10}
IDLE_S = 5.0
RESTARTS = 2
TIMING = GroupTiming()
PLANNED = ("begin", "leaders even out", "it comes back", "restart in turn")


@pytest.fixture(scope="module", params=[TOGETHER, IN_TURN])
def order(request: pytest.FixtureRequest) -> str:
    """How replicas begin."""
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture(scope="module")
def lived(order: str) -> dict[str, Phase]:
    """A whole life, by the names of its parts."""
    return {phase.name: phase for phase in live(Fleet(HOSTS, GROUPS[order], order), IDLE_S, RESTARTS)}


@pytest.mark.parametrize("name", ["idle", "idle afterwards"])
def test_idle_groups_say_nothing_but_heartbeats(lived: dict[str, Phase], order: str, name: str) -> None:
    """A report of each session and a renewal for it, as often as configured, to one replica each; few records."""
    phase = lived[name]
    assert set(phase.said.sent) <= HEARTBEATS
    due = GROUPS[order] * HOSTS * phase.seconds * (1 / TIMING.heartbeat_s + 1 / TIMING.renew_s)
    # A leader that began within the last renewal's time before the part has one more in it, or fewer.
    assert phase.said.sent.total() == pytest.approx(due, rel=0.02)
    assert phase.said.heard.total() == pytest.approx(due, rel=0.02)
    assert phase.records <= GROUPS[order] * (1 + phase.seconds / TIMING.checkpoint_s)
    assert phase.versions == 0


def test_a_replica_costs_a_group_as_much_whatever_others_there_are() -> None:
    """What idle members say grows with their number, not with its square."""
    rates = []
    for hosts_count in (4, 8):
        fleet = Fleet(hosts_count, 5)
        *_, idle = [phase for phase in live(fleet, IDLE_S, 0) if phase.name == "idle"]
        rates.append(idle.said.heard.total() / (idle.seconds * hosts_count * 5))
    assert rates[0] == pytest.approx(rates[1], rel=0.05)


@pytest.mark.parametrize("name", PLANNED)
def test_planned_changes_deliver_nothing_twice(lived: dict[str, Phase], name: str) -> None:
    """However many groups a replica joins or leaves at once."""
    assert lived[name].duplicates == 0


def test_one_that_dies_is_replaced_in_all_groups_when_its_leases_are_over(lived: dict[str, Phase], order: str) -> None:
    """At a few messages for each session; what its workers had comes again."""
    phase = lived["kill who leads most"]
    assert phase.duplicates > 0, "workers had nothing: the fault did nothing"
    # A new leader counts from when it begins, and looks once a renewal; then workers need a moment for what comes back.
    assert phase.seconds <= 2 * WORK_S + TIMING.drop_s + TIMING.renew_s + 3.0
    rest = {kind: count for kind, count in phase.said.sent.items() if kind not in HEARTBEATS}
    assert sum(rest.values()) <= 4 * HOSTS * GROUPS[order]
    assert phase.said.sent["FindLeader"] <= 2 * HOSTS * GROUPS[order], "asked over and over"


def test_all_groups_have_leaders_which_go_to_other_replicas(lived: dict[str, Phase], order: str) -> None:
    """Of one that died, and of each that was restarted: it waits behind all others when it is back."""
    for phase in lived.values():
        assert sum(phase.leads) == GROUPS[order]
    before, after = lived["idle"].leads, lived["kill who leads most"].leads
    assert after[before.index(max(before))] == 0


def test_leaders_go_where_few_are(lived: dict[str, Phase], order: str) -> None:
    """Who comes first leads first, be it all groups; within a minute no replica leads many more than another."""
    if order == IN_TURN:
        assert max(lived["begin"].leads) - min(lived["begin"].leads) > 3, "there was nothing to even out"
    for name in ("leaders even out", "leaders even out again"):
        assert max(lived[name].leads) - min(lived[name].leads) <= 3, lived[name].leads


def test_a_restart_of_some_replicas_costs_few_messages_and_records(lived: dict[str, Phase], order: str) -> None:
    """As many for each replica that leaves and comes back as there are sessions, and not as many as all together."""
    phase = lived["restart in turn"]
    rest = sum(count for kind, count in phase.said.sent.items() if kind not in HEARTBEATS)
    assert rest <= 6 * HOSTS * RESTARTS * GROUPS[order]
    assert phase.versions <= 3 * HOSTS * RESTARTS * GROUPS[order]
    assert phase.records <= 2 * HOSTS * RESTARTS * GROUPS[order]
