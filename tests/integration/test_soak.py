"""A small soak in every full test run; `make soak` is the large one."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.soak.plan import Plan
from integration.soak.run import check_descriptors, soak
from integration.standalone import PulsarStandalone
from tests.integration.conftest import StartGateway

PLAN = Plan(
    seconds=20,
    idle_workers=300,
    active_workers=20,
    subscriptions=100,
    active_subscriptions=4,
    messages_per_s=300,
    restarts_per_s=4,
    idle_processes=1,
    active_processes=1,
    sample_s=1,
    name="small-soak",
)
JOINED_MIB_MAX = 400
"""Far above what 320 workers need; a gateway that keeps what passes through it gets there."""


@pytest.mark.slow
def test_many_workers_that_come_and_go_cost_no_order_and_leave_nothing(
    pulsar: PulsarStandalone, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Mixed load with rolling restarts: all in order at one worker each, nothing lost, no descriptor left, no failure.

    No connection is lost but those that workers drop themselves, and the gateway has nothing to warn of.
    """
    check_descriptors(PLAN)
    gateway = start_gateway(pulsar)
    result = soak(gateway, PLAN, tmp_path, lambda _: None)
    report = "\n".join(result.lines())
    assert not result.failures, report
    tally = result.tally
    assert tally.sent >= PLAN.messages_per_s * PLAN.seconds / 2, report
    assert tally.restarts >= PLAN.seconds, report
    assert (tally.losses, tally.refusals, tally.unasked) == ((), 0, 0), report
    assert not result.complaints, report
    assert max(look.resident_bytes for look in result.looks) < JOINED_MIB_MAX << 20, report
