"""Owner mode in the large: many subscriptions, replicas that come and go, workers of several kinds; audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from integration.artifacts import DEFAULT_VERSION
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.busy_replicas import note_standstills
from tests.integration.conftest import explain
from tests.integration.owner_rig import KEYS, MESSAGES, RATE_PER_S, REPLICAS, WORKERS, Owned, owned_subscription

PARTITIONS: Final = 8
SUBSCRIPTIONS: Final = ("billing", "shipping", "search", "archive")
GATEWAY_GOES: Final = {Cause.GATEWAY_STOPPED, Cause.CLIENT_QUEUE}
OF_THE_BROKER: Final = {Cause.BROKER_KILLED, Cause.CLIENT_QUEUE, Cause.SENT_TWICE}

pytestmark = [pytest.mark.slow, pytest.mark.broker]
current = pytest.mark.parametrize("module_broker", [DEFAULT_VERSION], indirect=True)
"""For a test of clients, whom the broker's version does not concern."""


@pytest.fixture
def owned(module_broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """Three replicas."""
    with owned_subscription(module_broker, new_topic("wide"), tmp_path) as owned:
        yield owned


def test_a_twentieth_is_negatively_acknowledged(owned: Owned) -> None:
    """It comes again to the worker that has the key, wherever both are."""
    for name in WORKERS:
        owned.run.stop_worker(name)
    owned.start_workers(*WORKERS, nack_fraction=0.05)
    owned.produce()
    owned.finish(*Cause)


def test_three_replicas_become_six_and_then_one(owned: Owned) -> None:
    """Bundles go to those that come, drained, and come back from those that leave; every worker finds its owner."""
    owned.produce()
    for number in range(REPLICAS):
        owned.run.wait_acknowledged(MESSAGES * (number + 1) // 10)
        owned.add_replica()
    owned.run.wait_acknowledged(MESSAGES * 4 // 10)
    last, *others = owned.gateways
    for number, gateway in enumerate(others):
        owned.run.wait_acknowledged(MESSAGES * (4 + number) // 10)
        owned.run.interruption(Cause.GATEWAY_STOPPED, workers=frozenset(WORKERS))
        gateway.stop()
    assert owned.owner() is last
    owned.finish(*GATEWAY_GOES)


def test_the_broker_is_killed_while_a_replica_comes(module_broker: PulsarStandalone, owned: Owned) -> None:
    """In the middle of what moves: all goes on where it was, or where it was going."""
    owned.produce()
    owned.run.wait_acknowledged(MESSAGES // 4)
    owned.add_replica()
    owned.run.interruption(Cause.BROKER_KILLED)
    module_broker.kill()
    module_broker.start()
    owned.finish(*OF_THE_BROKER)


@current
def test_workers_on_websockets_are_led_to_the_owner(owned: Owned) -> None:
    """Beside those of the Python client, at every replica."""
    for number, name in enumerate(("s1", "s2", "s3")):
        gateway = owned.gateways[number]
        address = gateway.admin_url.replace("http://", "ws://")
        owned.run.start_worker(name, websocket=f"{address}/ws/v2/").wait_joined()
    owned.produce()
    owned.finish()


@current
def test_partitions_and_subscriptions_have_owners_of_their_own(
    module_broker: PulsarStandalone, owned: Owned, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Every subscription of every partition may be another replica's: all 32 keep the contract, through a restart."""
    topic = new_topic("partitioned")
    path = topic.replace("://", "/")
    with module_broker.admin() as admin:
        admin.put(f"/admin/v2/{path}/partitions", json=PARTITIONS).raise_for_status()
    with ExitStack() as stack:
        runs = [
            stack.enter_context(
                LoadRun(tmp_path / name, owned.gateways[0].service_url, topic, producer_url=module_broker.service_url)
            )
            for name in SUBSCRIPTIONS
        ]
        for name, run in zip(SUBSCRIPTIONS, runs, strict=True):
            others = Owned(owned.gateways, run, owned.add_replica)
            others.start_workers(*(f"{name}-{number}" for number in range(REPLICAS)), subscription=name)
        producer = runs[0].produce(
            count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S / 2, batching=Batching.DEFAULT, batch_messages_max=100
        )
        for run in runs[1:]:
            run.producers.append(producer)
        runs[0].wait_acknowledged(MESSAGES // 3)
        for run in runs:
            run.interruption(Cause.GATEWAY_STOPPED)
        owned.gateways[1].restart()
        for run in runs:
            run.wait_acknowledged(MESSAGES)
        still = [note_standstills(run, *owned.logs) for run in runs]
        results: list[AuditResult] = [run.finish() for run in runs]
    for result in results:
        assert result.ok, explain(result, *owned.gateways)
        assert result.acknowledged == MESSAGES
        assert set(result.duplicates_by_cause) <= GATEWAY_GOES.union(*still), explain(result, *owned.gateways)
