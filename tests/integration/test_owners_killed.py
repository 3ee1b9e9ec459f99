"""A replica in owner mode is killed under load and does not come back: an owner, a leader, both in one, or neither.

Real brokers of both versions, workers at all replicas, producers with default batching; audited. The deployments of
one broker run beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from integration.standalone import PulsarStandalone
from tests.integration.faults.owner_waits import check_waits_for_the_dead
from tests.integration.owner_rig import Role, owned_subscription
from tests.integration.side_by_side import Case, side_by_side

OWNERS: Final = ("owner", "owner_that_leads")
OTHERS: Final = ("leader", "side")

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def killed(broker: PulsarStandalone, role: Role, topic: str, directory: Path) -> Case:
    """Three replicas, of which the one with this role is."""

    def prepare(stack: ExitStack) -> Callable[[], str]:
        directory.mkdir()
        settings = {"group_deployment": directory.name}
        owned = stack.enter_context(owned_subscription(broker, topic, directory, settings))
        gateway = owned.replica(role)
        if gateway is not owned.owner():
            owned.lead_a_worker_to(gateway)
        return lambda: check_waits_for_the_dead(owned, gateway)

    return prepare


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest,
    broker: PulsarStandalone,
    new_topic: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[str]]]:
    """What became of each, by its role, on a broker of one version."""
    directory = tmp_path_factory.mktemp("killed")

    def case_of(name: str) -> Case:
        return killed(broker, Role[name.upper()], new_topic("killed"), directory / name)

    with side_by_side(request, "role", case_of) as running:
        yield running


@pytest.mark.parametrize("role", OWNERS)
def test_the_keys_of_an_owner_that_is_gone_go_on_at_another(outcomes: dict[str, Future[str]], role: str) -> None:
    """When it is dropped; again comes what workers had of it, in order."""
    print(outcomes[role].result())


@pytest.mark.parametrize("role", OTHERS)
def test_only_its_own_workers_notice_a_replica_that_is_gone(outcomes: dict[str, Future[str]], role: str) -> None:
    """What it led on for them comes again, and nothing of other workers."""
    print(outcomes[role].result())
