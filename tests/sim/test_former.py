"""Worlds in which connections to the broker end at the gateway alone, while batches of several keys are under way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.net.subscription.former import FormerConsumer
from tests.sim.actions import Actions
from tests.sim.cluster import GOOD_MANNERS
from tests.sim.seats import Violation
from tests.sim.swarm import draw
from tests.sim.worker import GOOD
from tests.sim.world import World

pytestmark = pytest.mark.usefixtures("quiet_log")
SEEDS = (42, 52, 69, 119, 146)
"""Each has violations where the gateway comes back beside its former consumer. All but the second had some while it
asked only once a batch of several keys had come, and forgot with the last worker that there may be a former one."""
CALM: dict[str, Any] = {
    "ordering_mode": "draining_hashes",
    "dead_letter_after": 0,
    "park_after": 0,
    "ack_lease_ms": 0,
    "key_window": 0,
    "retry_delay_ms": 0,
    "key_share_percent": 0,
    "look_ahead_messages_per_worker": 20,
}


def run(seed: int) -> None:
    """Raises `Violation`."""
    swarm = draw(seed)
    world = World(
        replace(
            swarm,
            mode="draining_hashes",
            kinds=("mixed_batch",),
            faults=("cut_broker", "silence_broker", "long_silence"),
            fault_weight=2.0,
            brokers=1,
            workers_max=4,
            keys=8,
            backlog=0,
            manners=GOOD_MANNERS,
            tempers=(GOOD,),
            transactions=False,
            jump_chance=0.0,
            settings=replace(swarm.settings, **CALM),
        )
    )
    world.run(Actions(world), range(swarm.steps))


@pytest.mark.parametrize("seed", SEEDS)
def test_order_is_kept_where_the_broker_still_has_the_former_consumer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not, in the same world, where the gateway does not wait for it."""
    run(seed)
    monkeypatch.setattr(FormerConsumer, "ask", lambda _former: False)
    with pytest.raises(Violation, match="G2"):
        run(seed)
