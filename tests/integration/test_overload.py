"""More than workers take: the broker keeps it, the gateway stays small and answers, and all drains when load falls.

Times are judged against the same gateway when it had nothing to do, in the same run: machines differ, and so does what
else runs on them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.overload_rig import (
    ANSWER_MS,
    FRAME_BYTES_MAX,
    MIB,
    PATHS,
    PAYLOAD,
    SETTINGS,
    SUBSCRIPTION_BYTES,
    Health,
    Producer,
    Taker,
)

ROUNDS = 12
TAKEN_EACH_ROUND = 100
BACKLOG = 2_000
"""Messages of 16 KiB: sixteen times what the subscription may hold, eight times what the gateway may."""
ROOMY_BYTES = 12 * MIB
RESIDENT_GROWTH_MAX = 24 * MIB
"""What resident memory may grow by while the broker holds more than this for us: budget, copies, caches."""
SLOWER_MAX = 25.0
"""Times by which the worst of ten answers may be slower than on the idle gateway; a loop that is blocked shows more."""
IDLE_MS_MIN = 4.0
"""A quicker answer is taken for this: what a machine that others use too gives by luck is no measure."""
DRAIN_SHARE_MIN = 0.2
"""Of the rate at which the idle gateway drained as large a backlog."""
ASKED_MIN = 20
LOOKS = 10
"""A flow that stands still for half a second has stopped; a busy broker pauses for less."""


@pytest.fixture(scope="module")
def small(pulsar: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeylineGateway]:
    """A gateway that may hold little."""
    with bounded(pulsar, tmp_path_factory.mktemp("small"), SETTINGS) as gateway:
        yield gateway


@pytest.fixture
def roomy(pulsar: PulsarStandalone, tmp_path: Path) -> Iterator[KeylineGateway]:
    """A gateway that may hold more than the kernel takes in for a peer that reads nothing, which is some 4 MiB."""
    budget = str(ROOMY_BYTES)
    settings = {**SETTINGS, "subscription_memory_bytes": budget, "gateway_memory_bytes": budget}
    with bounded(pulsar, tmp_path, settings) as gateway:
        yield gateway


@contextmanager
def bounded(broker: PulsarStandalone, directory: Path, settings: dict[str, str]) -> Iterator[KeylineGateway]:
    """A gateway that, when all is over, has not failed inside, nor dropped anybody."""
    with KeylineGateway(broker.service_url, broker.admin_url, directory, settings=settings) as gateway:
        yield gateway
        log = gateway.log.read_text()
        assert "Traceback" not in log
        assert "unread connection closed" not in log


class Idle:
    """The gateway without load: what its answers take, and how fast it drains a backlog."""

    def __init__(self, gateway: KeylineGateway, broker: PulsarStandalone, topic: str) -> None:
        with scene(gateway, broker, topic) as (producer, taker):
            producer.send(BACKLOG)
            taker.client.flow(BACKLOG)
            self.drained_per_s = taker.drain(producer)
        with Health(gateway) as health:
            eventually(lambda: len(health.times_ms[PATHS[-1]]) >= 2 * ASKED_MIN, "answers of the idle gateway")
        self._health = health

    def compare(self, health: Health) -> None:
        """Half of all answers came in time, none failed, and few were much slower than without load."""
        assert not health.failures
        for path, times in health.times_ms.items():
            assert len(times) >= ASKED_MIN
            assert sum(time_ms <= ANSWER_MS for time_ms in times) * 2 >= len(times), (path, sorted(times))
            idle = sorted(self._health.times_ms[path])
            slow = sorted(times)[len(times) * 9 // 10] / max(idle[len(idle) * 9 // 10], IDLE_MS_MIN)
            assert slow <= SLOWER_MAX, f"{path}: {slow:.1f} times slower, {sorted(times)[-5:]} against {idle[-5:]}"


@contextmanager
def scene(gateway: KeylineGateway, broker: PulsarStandalone, topic: str) -> Iterator[tuple[Producer, Taker]]:
    """A producer beside the gateway and a worker behind it, without permits so far."""
    taker = Taker(gateway.service_url, topic)
    producer = Producer(broker.service_url, topic)
    try:
        yield producer, taker
    finally:
        producer.close()
        taker.client.close()
    eventually(lambda: not gateway.statistics()["subscriptions"], "the subscription to end")
    assert gateway.statistics()["held_bytes"] == 0


@pytest.fixture(scope="module")
def idle(small: KeylineGateway, pulsar: PulsarStandalone, new_topic: Callable[[str], str]) -> Idle:
    """Measured first, which warms everything up too."""
    return Idle(small, pulsar, new_topic("idle"))


@pytest.fixture
def subscription_at_broker(pulsar: PulsarStandalone) -> Callable[[str], dict[str, Any]]:
    """Ask the broker for the one subscription of a topic."""
    import httpx  # noqa: PLC0415

    def ask(topic: str) -> dict[str, Any]:
        url = f"{pulsar.admin_url}/admin/v2/{topic.replace('://', '/')}/stats"
        answer = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()
        values: dict[str, Any] = answer["subscriptions"]["s"]
        return values

    return ask


def check_backpressure(
    gateway: KeylineGateway,
    health: Health,
    at_broker: dict[str, Any],
    undelivered: int,
    budget: int = SUBSCRIPTION_BYTES,
) -> None:
    """The broker kept what nobody took, since we granted no more; what we hold is within the budget, in memory too."""
    eventually(lambda: len(health.times_ms[PATHS[-1]]) >= ASKED_MIN, "answers under load")
    (shown,) = gateway.statistics()["subscriptions"]
    assert at_broker["msgBacklog"] - at_broker["unackedMessages"] >= undelivered, at_broker
    assert at_broker["consumers"][0]["availablePermits"] <= 0, at_broker
    assert shown["upstream_permits"] <= 0
    assert shown["budget_stops"] > 0
    assert max(health.held_bytes) <= 2 * budget + FRAME_BYTES_MAX
    assert gateway.statistics()["held_bytes"] <= budget + FRAME_BYTES_MAX
    grown = health.resident_max - health.resident_before
    assert grown <= RESIDENT_GROWTH_MAX, f"{grown >> 20} MiB more"


def check_recovery(idle: Idle, producer: Producer, taker: Taker) -> None:
    """Everything comes, in order and once, about as fast as ever; the next message comes by itself."""
    taker.client.flow(producer.sent + 1)
    drained_per_s = taker.drain(producer)
    assert drained_per_s >= DRAIN_SHARE_MIN * idle.drained_per_s, f"{drained_per_s:.0f} of {idle.drained_per_s:.0f}"
    producer.send(1)
    taker.take(1)
    assert taker.nothing_more() == []


@pytest.mark.slow
def test_producers_twice_as_fast_as_workers_fill_the_broker_and_not_the_gateway(
    small: KeylineGateway,
    idle: Idle,
    pulsar: PulsarStandalone,
    new_topic: Callable[[str], str],
    subscription_at_broker: Callable[[str], dict[str, Any]],
) -> None:
    """In every round two messages come for one that is taken: permits stop, the backlog is the broker's."""
    topic = new_topic("twice")
    with scene(small, pulsar, topic) as (producer, taker):
        with Health(small) as health:
            for _ in range(ROUNDS):
                producer.send(2 * TAKEN_EACH_ROUND)
                taker.client.flow(TAKEN_EACH_ROUND)
                taker.take(TAKEN_EACH_ROUND)
            at_broker = settled(subscription_at_broker, topic, small)
            check_backpressure(small, health, at_broker, ROUNDS * TAKEN_EACH_ROUND // 2)
        idle.compare(health)
        check_recovery(idle, producer, taker)


@pytest.mark.slow
def test_workers_without_permits_leave_everything_at_the_broker(
    small: KeylineGateway,
    idle: Idle,
    pulsar: PulsarStandalone,
    new_topic: Callable[[str], str],
    subscription_at_broker: Callable[[str], dict[str, Any]],
) -> None:
    """None is delivered, little is read ahead; the first permits find their messages here already."""
    topic = new_topic("no-permits")
    with scene(small, pulsar, topic) as (producer, taker):
        with Health(small) as health:
            producer.send(BACKLOG)
            at_broker = settled(subscription_at_broker, topic, small)
            check_backpressure(small, health, at_broker, BACKLOG // 2)
            assert taker.nothing_more() == []
        idle.compare(health)
        check_recovery(idle, producer, taker)


@pytest.mark.slow
def test_a_worker_that_never_reads_costs_its_socket_and_no_more(
    roomy: KeylineGateway,
    idle: Idle,
    pulsar: PulsarStandalone,
    new_topic: Callable[[str], str],
    subscription_at_broker: Callable[[str], dict[str, Any]],
) -> None:
    """It granted a million permits behind the smallest window there is: it counts as one without, and stays."""
    topic = new_topic("window")
    with scene(roomy, pulsar, topic) as (producer, taker):
        narrow(taker.client.socket)
        taker.client.flow(1_000_000)
        with Health(roomy) as health:
            producer.send(BACKLOG)
            at_broker = settled(subscription_at_broker, topic, roomy)
            check_backpressure(roomy, health, at_broker, BACKLOG // 4, ROOMY_BYTES)
            (worker,) = roomy.statistics()["subscriptions"][0]["dispatcher"]["workers"]
            assert not worker["writable"], worker
            assert worker["pending_acks"] * len(PAYLOAD) < ROOMY_BYTES, "the rest waits for the socket"
        idle.compare(health)
        widen(taker.client.socket)
        check_recovery(idle, producer, taker)


def settled(ask: Callable[[str], dict[str, Any]], topic: str, gateway: KeylineGateway) -> dict[str, Any]:
    """The broker's view when nothing moves any more: some looks in a row say the same."""
    looks: list[tuple[int, int]] = []

    def still() -> bool:
        looks.append((ask(topic)["unackedMessages"], gateway.statistics()["held_bytes"]))
        return looks[-LOOKS:] == LOOKS * [looks[-1]] and looks[-1][0] > 0

    eventually(still, "the flow to stop")
    return ask(topic)


def narrow(peer: socket.socket) -> None:
    """As small a window as the kernel grants: one byte is asked for."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 1)


def widen(peer: socket.socket) -> None:
    """A usual window again."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 1 << 20)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
