"""The owner of a subscription that direct workers share stands still: the broker finds out by the owner's sentinel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from integration.load.options import SUBSCRIPTION, Batching
from integration.standalone import PulsarStandalone
from proxy.net.subscription.sentinel import SUFFIX
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import administer
from tests.integration.faults.owner_waits import check_waits, frozen
from tests.integration.owner_rig import TAKING, WORKERS, owned_subscription

DIRECT: Final = ("d0", "d1")
"""Workers at the broker itself."""
FROZEN_S: Final = 25.0
"""Longer than any key may wait; by itself the broker would give the owner up later, or not at all."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def subscriptions(broker: PulsarStandalone, topic: str) -> dict[str, Any]:
    """What the broker says of those of a topic."""
    found: dict[str, Any] = administer(broker, "GET", topic, "stats")["subscriptions"]
    return found


def test_no_key_waits_for_a_frozen_owner_beside_direct_workers(
    module_broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Neither those that workers of the gateway have, nor those of direct workers; and the sentinel goes with them."""
    topic = new_topic("frozen-migrating")
    settings = {"migrating_subscriptions": f"{topic} {SUBSCRIPTION}"}
    with owned_subscription(module_broker, topic, tmp_path, settings) as owned:
        for name in DIRECT:
            owned.run.start_worker(name, service_url=module_broker.service_url, **TAKING).wait_joined()
        eventually(lambda: SUBSCRIPTION + SUFFIX in subscriptions(module_broker, topic), "a sentinel")
        assert len(subscriptions(module_broker, topic)[SUBSCRIPTION]["consumers"]) == len(DIRECT) + 1
        everybody = (*WORKERS, *DIRECT)
        print(check_waits(owned, frozen(owned.owner()), FROZEN_S, workers=everybody, batching=Batching.NONE))
    eventually(lambda: SUBSCRIPTION + SUFFIX not in subscriptions(module_broker, topic), "no sentinel")
