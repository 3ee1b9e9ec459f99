"""A partition between real network stacks: packets vanish, TCP retransmits, and nobody is told anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.run import LoadRun
from tests.integration.conftest import explain
from tests.integration.faults.line import (
    BROKER_KEEP_ALIVE_S,
    GATEWAY_SETTINGS,
    KEYS,
    LONGER_THAN_KEEP_ALIVE_S,
    MESSAGES,
    OF_A_CUT,
    RATE_PER_S,
    RECEIVER_QUEUE_SIZE,
    WORKERS,
    bug_reports,
    last,
    reach,
    until,
)
from tests.integration.faults.namespaces import BrokerElsewhere, GatewayElsewhere, Namespaces, NamespacesRefused, Wire

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def namespaces() -> Iterator[Namespaces]:
    """Make namespaces, or skip with what the kernel said."""
    made = Namespaces()
    try:
        made.make()
    except NamespacesRefused as refused:
        pytest.skip(f"no network namespaces here: {refused}")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def broker_elsewhere(namespaces: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerElsewhere]:
    """Start a broker in its namespace."""
    settings = {"keepAliveIntervalSeconds": str(BROKER_KEEP_ALIVE_S)}
    with BrokerElsewhere(namespaces, tmp_path_factory.mktemp("pulsar-elsewhere"), settings) as broker:
        yield broker


@pytest.fixture
def gateway_elsewhere(
    namespaces: Namespaces, broker_elsewhere: BrokerElsewhere, tmp_path: Path
) -> Iterator[GatewayElsewhere]:
    """Start a gateway in its namespace."""
    with GatewayElsewhere(namespaces, broker_elsewhere, tmp_path / "gateway", GATEWAY_SETTINGS) as gateway:
        yield gateway


@pytest.fixture
def run(
    broker_elsewhere: BrokerElsewhere,
    gateway_elsewhere: GatewayElsewhere,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[LoadRun]:
    """Start workers at the gateway and a producer at the broker, each over a wire of its own."""
    topic = new_topic("partition")
    with LoadRun(
        tmp_path / "load", gateway_elsewhere.service_url, topic, producer_url=broker_elsewhere.service_url
    ) as load:
        load.start_workers(*WORKERS, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        load.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, run_length=5, batching=Batching.DEFAULT)
        yield load


def tear(wire: Wire, gateway: GatewayElsewhere, noticed: str) -> None:
    """Lose everything for longer than any keep-alive, and until the gateway says in its log that it has `noticed`."""
    wire.tear()
    last(LONGER_THAN_KEEP_ALIVE_S)
    until(gateway.log, noticed)
    wire.mend()


def test_a_partition_between_gateway_and_broker(
    namespaces: Namespaces, gateway_elsewhere: GatewayElsewhere, run: LoadRun
) -> None:
    """Both give the other up; afterwards nothing is missing, nothing was repeated and no worker has noticed."""
    reach(run, 0.3)
    tear(namespaces.to_broker, gateway_elsewhere, "upstream consumer lost")
    result = run.finish()
    found = explain(result)
    assert result.ok, found
    assert result.delivered == result.acknowledged == MESSAGES, found
    assert (result.duplicates_by_cause, result.connections_lost) == ({}, 0), found
    assert not bug_reports(gateway_elsewhere.log)


def test_a_partition_between_workers_and_gateway(
    namespaces: Namespaces, gateway_elsewhere: GatewayElsewhere, run: LoadRun
) -> None:
    """The gateway takes back what it gave, and gives it again, in order, to those who come back."""
    reach(run, 0.3)
    run.interruption(Cause.CONNECTION_LOST)
    tear(namespaces.to_gateway, gateway_elsewhere, "worker left")
    result = run.finish()
    found = explain(result)
    assert result.ok, found
    assert result.delivered == result.acknowledged == MESSAGES, found
    assert set(result.duplicates_by_cause) <= OF_A_CUT, found
    assert not bug_reports(gateway_elsewhere.log)
