"""A replica in owner mode is killed under load and does not come back: an owner, a leader, both in one, or neither.

And an owner of a subscription that direct workers share stands still: the broker finds out by the owner's sentinel.

Real brokers of both versions, workers at all replicas, producers with default batching; audited. The deployments of
one broker run beside each other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from integration.load.options import SUBSCRIPTION, Batching
from integration.replicas import at_once
from integration.standalone import PulsarStandalone
from proxy.net.subscription.sentinel import SUFFIX
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import administer
from tests.integration.faults.owner_waits import (
    RATE_BESIDE_PER_S,
    WAIT_BESIDE_S_MAX,
    check_waits,
    check_waits_for_the_dead,
    frozen,
)
from tests.integration.owner_rig import TAKING, WORKERS, Role, owned_subscription
from tests.integration.side_by_side import Case, CaseOf, Outcomes

OWNERS: Final = ("owner", "owner_that_leads")
OTHERS: Final = ("leader", "side")
FROZEN: Final = "frozen-beside-direct-workers"
FROZEN_S: Final = 25.0
"""Longer than any key may wait; by itself the broker would give the owner up later, or not at all."""
DIRECT: Final = ("d0", "d1")
"""Workers at the broker itself."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def killed(broker: PulsarStandalone, role: Role, topic: str, directory: Path) -> Case:
    """Three replicas, of which the one with this role is."""

    def prepare(stack: ExitStack) -> Callable[[], str]:
        directory.mkdir()
        owned = stack.enter_context(owned_subscription(broker, topic, directory))
        gateway = owned.replica(role)
        if gateway is not owned.owner():
            owned.lead_a_worker_to(gateway)
        return lambda: check_waits_for_the_dead(owned, gateway)

    return prepare


def frozen_beside_direct_workers(broker: PulsarStandalone, topic: str, directory: Path) -> Case:
    """Three replicas whose owner is frozen; its sentinel is there for as long as a replica owns the subscription."""

    def prepare(stack: ExitStack) -> Callable[[], str]:
        directory.mkdir()
        settings = {"migrating_subscriptions": f"{topic} {SUBSCRIPTION}"}
        owned = stack.enter_context(owned_subscription(broker, topic, directory, settings))
        for name in DIRECT:
            owned.run.start_worker(name, service_url=broker.service_url, **TAKING).wait_joined()
        eventually(lambda: SUBSCRIPTION + SUFFIX in subscriptions(broker, topic), "a sentinel")
        assert len(subscriptions(broker, topic)[SUBSCRIPTION]["consumers"]) == len(DIRECT) + 1

        def act() -> str:
            found = check_waits(
                owned,
                frozen(owned.owner()),
                FROZEN_S,
                workers=(*WORKERS, *DIRECT),
                batching=Batching.NONE,
                rate_per_s=RATE_BESIDE_PER_S,
                wait_s_max=WAIT_BESIDE_S_MAX,
            )
            at_once([gateway.stop for gateway in owned.gateways])
            eventually(lambda: SUBSCRIPTION + SUFFIX not in subscriptions(broker, topic), "no sentinel")
            return found

        return act

    return prepare


def subscriptions(broker: PulsarStandalone, topic: str) -> dict[str, Any]:
    """What the broker says of those of a topic."""
    found: dict[str, Any] = administer(broker, "GET", topic, "stats")["subscriptions"]
    return found


@pytest.fixture(scope="module")
def case_of(broker: PulsarStandalone, new_topic: Callable[[str], str]) -> CaseOf:
    """On a broker of one version."""

    def case(name: str, directory: Path) -> Case:
        if name == FROZEN:
            return frozen_beside_direct_workers(broker, new_topic(name), directory)
        return killed(broker, Role[name.upper()], new_topic("killed"), directory)

    return case


@pytest.mark.parametrize("case", OWNERS)
def test_the_keys_of_an_owner_that_is_gone_go_on_at_another(outcomes: Outcomes, case: str) -> None:
    """When it is dropped; again comes what workers had of it, in order."""
    print(outcomes[case].result())


@pytest.mark.parametrize("case", OTHERS)
def test_only_its_own_workers_notice_a_replica_that_is_gone(outcomes: Outcomes, case: str) -> None:
    """What it led on for them comes again, and nothing of other workers."""
    print(outcomes[case].result())


@pytest.mark.parametrize("case", [FROZEN])
def test_no_key_waits_for_a_frozen_owner_beside_direct_workers(outcomes: Outcomes, case: str) -> None:
    """Neither those that workers of the gateway have, nor those of direct workers; and the sentinel goes with them."""
    print(outcomes[case].result())
