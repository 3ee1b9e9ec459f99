"""A group cut in half between real network stacks: one replica does not reach the broker, its workers do not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.gateway import KeylineGateway, service_url_of
from integration.load.lives import Cause
from integration.load.run import LoadRun
from tests.integration.conditions import eventually
from tests.integration.conftest import explain
from tests.integration.exclusive_rig import stream_holders
from tests.integration.faults.line import GATEWAY_SETTINGS, bug_reports, reach
from tests.integration.faults.namespaces import BrokerElsewhere, GatewayElsewhere, Namespaces
from tests.integration.faults.test_partition import broker_elsewhere, namespaces

__all__ = ["broker_elsewhere", "namespaces"]

MESSAGES: Final = 12_000
KEYS: Final = 300
RATE_PER_S: Final = 400.0
RECEIVER_QUEUE_SIZE: Final = 20
SINCE: Final = 1_000
"""Messages that the others deliver before the wire is mended."""
OF_A_CUT: Final = {Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE}

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def cut_off(namespaces: Namespaces, broker_elsewhere: BrokerElsewhere, tmp_path: Path) -> Iterator[GatewayElsewhere]:
    """Start the replica that will be cut off from the broker."""
    settings = {**GATEWAY_SETTINGS, "groups_enabled": "true", "groups_mode": "streams", "replica_name": "replica-0"}
    with GatewayElsewhere(namespaces, broker_elsewhere, tmp_path / "replica-0", settings) as gateway:
        yield gateway


@pytest.fixture
def other(broker_elsewhere: BrokerElsewhere, tmp_path: Path) -> Iterator[KeylineGateway]:
    """Start one beside us."""
    settings = {**GATEWAY_SETTINGS, "groups_enabled": "true", "groups_mode": "streams", "replica_name": "replica-1"}
    broker = broker_elsewhere
    with KeylineGateway(broker.service_url, broker.admin_url, tmp_path / "replica-1", settings=settings) as gateway:
        yield gateway


def test_a_replica_that_is_cut_off_delivers_nothing_of_what_others_have(
    namespaces: Namespaces,
    broker_elsewhere: BrokerElsewhere,
    cut_off: GatewayElsewhere,
    other: KeylineGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Its workers stay with it and get nothing, until the wire is mended: then it has its share again."""
    topic, broker = new_topic("cut-in-half"), broker_elsewhere
    with LoadRun(tmp_path / "load", cut_off.service_url, topic, producer_url=broker.service_url) as run:
        for name, url in (("a1", cut_off.service_url), ("a2", cut_off.service_url)):
            run.start_worker(name, service_url=url, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        for name in ("b1", "b2"):
            url = service_url_of([other])
            run.start_worker(name, service_url=url, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        for worker in run.workers.values():
            worker.wait_joined()
        eventually(lambda: len(stream_holders(broker, topic)) == 2, "both replicas to have streams")
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S)
        reach(run, 0.2, MESSAGES)
        try:
            # It goes on delivering for as long as its leases last, and what is acknowledged meanwhile gets lost.
            with run.paused(Cause.GATEWAY_PAUSED, ["a1", "a2"]):
                namespaces.to_broker.tear()
                eventually(lambda: len(stream_holders(broker, topic)) == 1, "the other to have all streams")
            run.wait_acknowledged(run.progress.acknowledged + SINCE)
        finally:
            namespaces.to_broker.mend()
        eventually(lambda: len(stream_holders(broker, topic)) == 2, "both replicas to have streams again")
        result = run.finish()
    found = explain(result)
    assert result.ok, found
    assert result.delivered == result.acknowledged == MESSAGES, found
    assert set(result.duplicates_by_cause) <= OF_A_CUT, found
    assert result.connections_lost == 0, "a worker noticed"
    assert not bug_reports(cut_off.log) + bug_reports(other.log)
