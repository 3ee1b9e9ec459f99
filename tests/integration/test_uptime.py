"""PIP-440's Motivation on real brokers: checkers of uptime fail one by one, and who takes over is counted."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from integration.uptime.judge import problems
from integration.uptime.plan import Plan, preference
from integration.uptime.plot import draw
from integration.uptime.scenario import Record, Scenario, Step

PLAN = Plan(endpoint_count=12, primary_count=3, standby_count=2)
"""12 is a multiple of 3 * 2 * 1: survivors share without a rest."""
RUNS = itertools.count(1)


def run(broker: PulsarStandalone, gateway: KeylineGateway, directory: Path, *, with_priorities: bool) -> Record:
    """Run the scenario on the shared broker and gateway, on topics of its own."""
    prefix = f"uptime-{next(RUNS)}"
    return Scenario(broker, gateway, directory, PLAN, prefix, with_priorities=with_priorities).run()


@pytest.mark.slow
def test_survivors_share_and_the_standby_waits_for_the_last(
    broker: PulsarStandalone, gateway: KeylineGateway, tmp_path: Path
) -> None:
    """With priorities no living primary has more than another, and the standby gets all when none is left."""
    record = run(broker, gateway, tmp_path, with_priorities=True)
    assert problems(record) == []
    assert [record.loads(host) for host in PLAN.primaries] == [[4, 0, 0, 0], [4, 6, 0, 0], [4, 6, 12, 0]]
    assert [record.loads(host) for host in PLAN.standbys] == [[0, 0, 0, 6]] * 2


@pytest.mark.slow
def test_in_the_order_of_arrival_the_standby_takes_all(
    broker: PulsarStandalone, gateway: KeylineGateway, tmp_path: Path
) -> None:
    """Without priorities the host that queued first gets all that fails, and the other primaries nothing."""
    record = run(broker, gateway, tmp_path, with_priorities=False)
    assert problems(record) == []
    assert record.loads("primary-3") == [4, 4, 4, 0]
    assert record.loads("standby-1") == [0, 4, 8, 12]
    draw([record], tmp_path / "uptime.png")


@pytest.mark.parametrize("primary_count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("endpoint_count", [1, 7, 24, 60, 120])
def test_the_plan_keeps_its_promise_whoever_fails(primary_count: int, endpoint_count: int) -> None:
    """Every set of failed hosts leaves survivors that differ by what is promised at most."""
    plan = Plan(endpoint_count, primary_count, standby_count=1)
    for failed_count in range(primary_count):
        for failed in itertools.combinations(plan.primaries, failed_count):
            loads = Counter(dict.fromkeys(set(plan.primaries) - set(failed), 0))
            for endpoint in range(endpoint_count):
                loads[next(host for host in preference(endpoint, plan.primaries) if host not in failed)] += 1
            assert max(loads.values()) - min(loads.values()) <= plan.promised_spread(failed_count)


def test_primaries_are_above_zero_and_the_standby_is_below() -> None:
    """All priorities of an endpoint differ, and the first choice has the highest."""
    for endpoint in range(PLAN.endpoint_count):
        priorities = PLAN.priorities(endpoint)
        assert len(set(priorities.values())) == len(priorities)
        assert max(priorities, key=priorities.__getitem__) == PLAN.first_choice(endpoint)
        assert {host for host, priority in priorities.items() if priority < 0} == set(PLAN.standbys)


@pytest.mark.parametrize(
    ("owners", "at_broker", "words"),
    [
        ([], [], "has 0 owners"),
        (["primary-1", "primary-2"], ["primary-1"], "has 2 owners"),
        (["primary-1"], ["primary-2"], "at the broker"),
        (["standby-1"], ["standby-1"], "the standby owns"),
    ],
)
def test_the_judge_sees_what_is_wrong(owners: list[str], at_broker: list[str], words: str) -> None:
    """No owner, two, somebody else at the broker, and a standby that is too early."""
    plan = Plan(endpoint_count=1, primary_count=1, standby_count=1)
    steps = [
        Step(None, {0: owners}, {0: at_broker}, 0.0),
        Step("primary-1", {0: ["standby-1"]}, {0: ["standby-1"]}, 0.0),
    ]
    assert any(words in problem for problem in problems(Record(plan, with_priorities=True, steps=steps)))


def test_the_judge_sees_an_uneven_share() -> None:
    """Two endpoints at one of two primaries, where each should have one."""
    plan = Plan(endpoint_count=2, primary_count=2, standby_count=1)
    owners = {0: ["primary-1"], 1: ["primary-1"]}
    steps = [Step(None, owners, owners, 0.0)] * 2
    assert any("uneven by 2 > 0" in problem for problem in problems(Record(plan, with_priorities=True, steps=steps)))
