"""A replica in owner mode whose memory is used up: it reads no deliveries, and yet hears its leader and the others.

Its workers take nothing, for longer than leases last and than a silent replica is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from integration.gateway import KeylineGateway
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from tests.integration.busy_replicas import leader_of, settle
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import TopicClient
from tests.integration.overload_rig import SETTINGS, Producer, Taker

REPLICAS: Final = 2
GROUPED: Final = {
    **SETTINGS,
    "gateway_memory_bytes": "3MiB",
    "group_lease_s": "4",
    "group_drop_s": "5",
}
FULL_S: Final = 15.0
"""Three times as long as the others wait for a silent replica."""
TOPICS: Final = 2
"""Both together hold more than the gateway may, and each alone less, or none could go on before the others."""
BACKLOG: Final = 400
"""Messages of 16 KiB: twice what the gateway may hold, of each."""
LATER, SOONER = 1, 5
"""Priorities of producers that wait."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Full:
    """Two replicas, and a worker without permits of each of two topics that one of them owns."""

    def __init__(self, gateways: list[KeylineGateway], broker: PulsarStandalone, topic: str, stack: ExitStack) -> None:
        self.gateways = gateways
        self._broker = broker
        self._topic = topic
        self._stack = stack
        self.owner = gateways[0]
        self.scenes: list[tuple[Producer, Taker]] = []

    def fill(self, owner: KeylineGateway) -> None:
        """Send it more than it may hold; it stops reading."""
        self.owner = owner
        number = 0
        while len(self.scenes) < TOPICS:
            topic = f"{self._topic}-{number}"
            number += 1
            taker = Taker(owner.service_url, topic)
            self._stack.callback(taker.client.close)
            if owner.workers(topic, "s"):
                producer = Producer(self._broker.service_url, topic)
                self._stack.callback(producer.close)
                self.scenes.append((producer, taker))
        for producer, _ in self.scenes:
            producer.send(BACKLOG)
        eventually(lambda: self.owner.statistics()["reading_stopped"], "the gateway to be full")

    def leader(self) -> KeylineGateway:
        """The replica that leads, and that is known to have half of all bundles, as the other has."""
        settle(self.gateways)
        return leader_of(self.gateways)


@pytest.fixture
def full(pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Full]:
    """Nothing is sent yet."""
    with ExitStack() as stack:
        replicas = Replicas(stack, pulsar, tmp_path, GROUPED)
        replicas.start(REPLICAS)
        yield Full(replicas.gateways, pulsar, new_topic("full"), stack)


def state_of(gateway: KeylineGateway) -> dict[str, Any]:
    """What must stay as it is: who leads, who owns what, and that this one holds its lease."""
    told = gateway.deployment()
    shares = {share["replica"]: share["bundles"] for share in told["replicas"]}
    return {"leader": told["leader"], "epoch": told["epoch"], "shares": shares, "leased": told["lease_left_s"] > 0}


def check_producers(full: Full, topic: str) -> None:
    """What clients do over connections of their own goes on: topics are found, and waiting producers get their turn.

    Also the one whose turn it is because a replica has told the other of it.
    """
    other = next(gateway for gateway in full.gateways if gateway is not full.owner)
    with ExitStack() as stack:
        owner, last, first = (
            stack.enter_context(TopicClient(gateway.service_url, topic)) for gateway in (full.owner, full.owner, other)
        )
        owner.owns()
        last.waits(LATER)
        first.waits(SOONER)
        eventually(lambda: best_elsewhere(full.owner, topic) == SOONER, "the full replica to hear who waits elsewhere")
        owner.close()
        first.promoted()
        first.close()
        last.promoted()


def best_elsewhere(gateway: KeylineGateway, topic: str) -> int | None:
    """The priority of the best that it knows to wait at another replica."""
    url = f"{gateway.admin_url}/api/v1/exclusive-producers/{topic.removeprefix('persistent://')}"
    rival = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()["summary"]["rival"]
    return None if rival is None else int(rival["priority"])


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_full_replica_keeps_its_leases_and_what_it_owns(
    full: Full, role: str, new_topic: Callable[[str], str]
) -> None:
    """Whether it leads or not; what waits comes in order and once, when its workers go on."""
    leader = full.leader()
    full.fill(next(gateway for gateway in full.gateways if (gateway is leader) == (role == "leader")))
    before = [state_of(gateway) for gateway in full.gateways]
    until = time.monotonic() + FULL_S
    while time.monotonic() < until:
        assert [state_of(gateway) for gateway in full.gateways] == before
        time.sleep(0.1)
    assert full.owner.statistics()["reading_stopped"]
    check_producers(full, new_topic("owned"))
    assert full.owner.statistics()["reading_stopped"]
    for producer, taker in full.scenes:
        taker.client.flow(producer.sent)
        taker.drain(producer)
    for _, taker in full.scenes:
        assert taker.nothing_more() == []
    assert [state_of(gateway) for gateway in full.gateways] == before
