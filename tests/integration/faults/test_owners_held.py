"""An owner with a full look-ahead, whose workers neither take nor acknowledge anything, gives what it owns away.

An operator moves the subscription, or drains the replica, on a real broker; audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from integration.gateway import KeylineGateway
from integration.load.options import SUBSCRIPTION
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import administer
from tests.integration.faults.line import last
from tests.integration.owner_rig import MESSAGES, WORKERS, Owned, owned_subscription

LOOK_AHEAD: Final = 600
SETTINGS: Final = {
    "look_ahead_messages_per_worker": "200",
    "look_ahead_messages_per_subscription": str(LOOK_AHEAD),
    "group_drain_s": "60",
}
"""A look-ahead that is full at once; and workers may keep what they have, on a busy machine, too: none comes anew."""
HELD_S: Final = 3.0
"""For so long after the order workers acknowledge nothing."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def owned(pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """Three replicas."""
    with owned_subscription(pulsar, new_topic("held"), tmp_path, SETTINGS) as owned:
        yield owned


@contextmanager
def held(broker: PulsarStandalone, owned: Owned) -> Iterator[KeylineGateway]:
    """Workers stand still in this block, which begins when the owner reads no further; it is the owner."""
    owner = owned.owner()
    workers = list(owned.run.workers.values())
    for worker in workers:
        worker.pause()
    try:
        eventually(lambda: is_full(broker, owned, owner), "a full look-ahead, and more at the broker")
        yield owner
    finally:
        for worker in workers:
            worker.resume()


def is_full(broker: PulsarStandalone, owned: Owned, owner: KeylineGateway) -> bool:
    """Whether messages wait at the owner, and it has asked for no more than came."""
    (shown,) = owner.statistics()["subscriptions"]
    at_broker = administer(broker, "GET", owned.run.topic, "stats")["subscriptions"][SUBSCRIPTION]
    asked = max(shown["upstream_permits"], at_broker["consumers"][0]["availablePermits"])
    return bool(shown["dispatcher"]["waiting_messages"] >= LOOK_AHEAD // 2 and asked <= 0)


def stays(owned: Owned, owner: KeylineGateway) -> None:
    """What workers have is waited for: all of them are still the owner's, which gives the bundle away."""
    eventually(lambda: owner.deployment()["bundles_leaving"] > 0, "the order to be carried out")
    last(HELD_S)
    eventually(lambda: owner.deployment()["bundles_leaving"] == 1, "all to be given away but what workers have")
    assert owned.workers(owner) == set(WORKERS)
    assert not [each for each in owned.gateways if each is not owner and owned.workers(each)]


def test_a_full_owner_hands_over_what_workers_acknowledge_in_time(pulsar: PulsarStandalone, owned: Owned) -> None:
    """When the subscription is moved and when its replica is drained: nothing comes twice, and all keys go on."""
    owned.owner()
    owned.produce()
    owned.run.wait_acknowledged(MESSAGES // 5)
    with held(pulsar, owned) as owner:
        target = next(gateway for gateway in owned.gateways if gateway is not owner)
        path = f"/subscriptions/{owned.run.topic.removeprefix('persistent://')}/{SUBSCRIPTION}/owner"
        asked = AdminClient(owner.admin_url)
        asked.ask("PUT", path, json={"replica": target.deployment()["replica"]})
        stays(owned, owner)
    eventually(lambda: owned.workers(target) == set(WORKERS), "the replica that is named to serve all workers")
    asked.ask("PUT", path, json={"replica": None})
    owned.run.wait_acknowledged(MESSAGES * 2 // 5)
    with held(pulsar, owned) as drained:
        name = drained.deployment()["replica"]
        AdminClient(drained.admin_url).ask("POST", f"/deployment/replicas/{name}/drain")
        stays(owned, drained)
    eventually(lambda: not owned.workers(drained), "another replica to serve the workers")
    assert owned.owner() is not drained
    owned.finish()
    assert [each.deployment()["handed_over_undrained_total"] for each in owned.gateways] == [0, 0, 0]
