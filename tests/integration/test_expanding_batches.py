"""Small batches that open to much, against a real broker: everybody else goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Self

import httpx
import pulsar
import pytest

from integration.bench.attacks.batches import MESSAGE_BYTES, MESSAGES, publish
from integration.bench.raw_worker import RawWorker
from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.conftest import StartGateway

pytestmark = [pytest.mark.slow, pytest.mark.broker]

BOMBS: Final = 20
BACKLOG: Final = 5_000
SERVED_MAX: Final = BACKLOG - 1
"""One is taken before anything is counted."""
TAKE_S: Final = 120.0


class Counted:
    """Does something again and again beside the test, and counts how often that worked."""

    def __init__(self, once: Callable[[], object]) -> None:
        self.count = 0
        self._once = once
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set() and self.count < SERVED_MAX:
            self._once()
            self.count += 1


def fill(broker: PulsarStandalone, topic: str) -> None:
    """A backlog of unbatched messages."""
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for _ in range(BACKLOG):
        producer.send_async(b"x", None, partition_key="k")
    producer.flush()
    client.close()


def statistics_of(gateway: KeylineGateway, topic: str) -> dict[str, Any]:
    """Of the topic's one subscription."""
    found: list[dict[str, Any]] = [item for item in gateway.statistics()["subscriptions"] if item["topic"] == topic]
    assert len(found) == 1
    return found[0]


def test_batches_that_open_to_64_mib_hold_up_neither_others_nor_health_checks(
    pulsar: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]
) -> None:
    """All of them reach their worker, as they came and counted; for each, others are served more than once."""
    topic, others = new_topic("bombs"), new_topic("bystander")
    publish(pulsar.service_url, topic, BOMBS)
    fill(pulsar, others)
    gateway = start_gateway(pulsar)
    bystander = RawWorker(gateway.service_url, others, "s", "w", 0)

    def one_more() -> None:
        """A grant, and the message that it lets go."""
        bystander.grant(1)
        assert len(bystander.take(TAKE_S)) == 1

    one_more()
    with httpx.Client(trust_env=False, timeout=TAKE_S) as http, bystander:
        asking = Counted(lambda: http.get(f"{gateway.admin_url}/livez").raise_for_status())
        with Counted(one_more) as grants, asking, RawWorker(gateway.service_url, topic, "s", "w", 10_000) as taker:
            taken = 0
            while taken < BOMBS and (came := len(taker.take(TAKE_S))):
                taken += came
            served = grants.count, asking.count
            found = statistics_of(gateway, topic)
    assert taken == BOMBS
    assert min(served) > BOMBS, f"{served} messages of another and answers of /livez during {BOMBS} openings"
    assert found["background_openings"] == BOMBS
    assert found["background_opened_bytes"] > BOMBS * MESSAGES * MESSAGE_BYTES
    assert found["opaque_batches"] == BOMBS
    assert found["opening_messages"] == found["opening_bytes"] == 0
