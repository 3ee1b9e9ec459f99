"""A replica in owner mode stands still, as under SIGSTOP: the owner of the subscription, the leader, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.standalone import PulsarStandalone
from tests.integration.faults.owner_waits import check_waits, frozen
from tests.integration.owner_rig import REPLICAS, Owned, owned_subscription

SHORT_S: Final = (1.0, 5.0)
LONG_S: Final = 30.0
VERY_LONG_S: Final = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def owned(module_pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """Three replicas."""
    with owned_subscription(module_pulsar, new_topic("frozen"), tmp_path) as owned:
        yield owned


@pytest.mark.parametrize("number", range(REPLICAS))
def test_no_key_waits_for_a_frozen_replica(owned: Owned, number: int) -> None:
    """Whichever it is: one owns the subscription, and one leads. Its keys go on at others, in order."""
    owned.owner()
    print(check_waits(owned, frozen(owned.gateways[number]), LONG_S))


def test_no_key_waits_for_an_owner_that_is_frozen_for_long(owned: Owned) -> None:
    """Until everybody has given its connections up, the broker too; and when it goes on it finds out."""
    print(check_waits(owned, frozen(owned.owner()), VERY_LONG_S))


@pytest.mark.parametrize("seconds", SHORT_S)
def test_an_owner_goes_on_after_a_short_freeze(owned: Owned, seconds: float) -> None:
    """Under its lease, or at the end of it."""
    print(check_waits(owned, frozen(owned.owner()), seconds))
