"""A replica in owner mode is killed under load and does not come back: an owner, a leader, both in one, or neither.

A real broker, workers at all replicas, a producer with default batching; audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.standalone import PulsarStandalone
from tests.integration.faults.owner_waits import check_waits_for_the_dead
from tests.integration.owner_rig import Owned, Role, owned_subscription

OWNERS: Final = (Role.OWNER, Role.OWNER_THAT_LEADS)
OTHERS: Final = (Role.LEADER, Role.SIDE)

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def owned(module_pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """Three replicas."""
    with owned_subscription(module_pulsar, new_topic("killed"), tmp_path) as owned:
        yield owned


def name_of(role: Role) -> str:
    """In a test's id."""
    return role.name.lower()


@pytest.mark.parametrize("role", OWNERS, ids=name_of)
def test_the_keys_of_an_owner_that_is_gone_go_on_at_another(owned: Owned, role: Role) -> None:
    """When it is dropped; again comes what workers had of it, in order."""
    check_waits_for_the_dead(owned, owned.replica(role))


@pytest.mark.parametrize("role", OTHERS, ids=name_of)
def test_only_its_own_workers_notice_a_replica_that_is_gone(owned: Owned, role: Role) -> None:
    """What it led on for them comes again, and nothing of other workers."""
    gateway = owned.replica(role)
    owned.lead_a_worker_to(gateway)
    check_waits_for_the_dead(owned, gateway)
