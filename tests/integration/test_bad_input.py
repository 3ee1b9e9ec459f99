"""What clients may do wrong, on purpose or not: each is told so or cut off, and nobody else notices.

While the bad ones are at it a healthy worker and producer exchange messages, one after the other, on connections they
must not lose; afterwards the gateway is the same process, has logged no failure of its own, and needs as much memory
and as many file descriptors as before.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import psutil
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.net.events import KEPT_MAX
from proxy.wire import pulsar_pb2 as pb
from tests.integration.abuses import ABUSES, Abuse, subscribe_frame
from tests.integration.bystander import Bystander
from tests.integration.conditions import eventually
from tests.integration.raw_client import RawClient, T, frame

ROUNDS_OF_EVENTS = KEPT_MAX // 65 + 1
MEMORY_RATIO_MAX = 1.15
"""Resident memory after the abuse, of that after a first round of it: caches fill and arenas settle in the first."""
FDS_SPARE = 8
"""File descriptors that may be in use beside those before: connections that are just being closed."""
CONNECTIONS = 10_000
CONNECTIONS_AT_ONCE = 100


@pytest.fixture(scope="module")
def attacked(pulsar: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeylineGateway]:
    """The gateway that has to stand it all; at the end it has not restarted, nor failed inside."""
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, tmp_path_factory.mktemp("attacked")) as gateway:
        pid = gateway.pid
        yield gateway
        assert gateway.pid == pid
        log = gateway.log.read_text()
        assert "Traceback" not in log
        bugs = ("receiver failed", "timer failed", "background task failed")
        assert not [line for line in log.splitlines() if any(bug in line for bug in bugs)][:3]


@pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.__name__)
def test_bad_input_is_told_or_cut_off_and_disturbs_nobody(
    abuse: Abuse, attacked: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """Each kind gets its answer, and the bystander's messages arrive in order on connections that last."""
    with Bystander(attacked.service_url, new_topic("bystander")):
        abuse(attacked.service_url, new_topic("abused"))


@pytest.mark.slow
def test_bad_input_costs_no_memory(attacked: KeylineGateway, new_topic: Callable[[str], str]) -> None:
    """After some rounds of everything, five more leave resident memory and descriptors where they were.

    The gateway keeps its latest events, some 65 of which are of one round: first let it have as many as it keeps.
    """

    def warm_up() -> None:
        for _ in range(ROUNDS_OF_EVENTS):
            _all_abuses(attacked, new_topic)

    with Bystander(attacked.service_url, new_topic("bystander")):
        footprint = measured_from(attacked, warm_up)
        for _ in range(5):
            _all_abuses(attacked, new_topic)
        footprint.check()


@pytest.mark.slow
def test_ten_thousand_connections_opened_and_dropped_leave_nothing(
    attacked: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """In batches: dropped at once, in the middle of the handshake, behind it, and as a worker without a good-bye."""
    topic = new_topic("dropped")
    with Bystander(attacked.service_url, new_topic("bystander")):
        footprint = measured_from(attacked, lambda: drop_connections(attacked.service_url, topic, CONNECTIONS // 10))
        drop_connections(attacked.service_url, topic, CONNECTIONS - CONNECTIONS // 10)
        footprint.check()
    eventually(
        lambda: all(item["topic"] != topic for item in attacked.statistics()["subscriptions"]),
        "the dropped workers' subscription to end",
    )


def _all_abuses(gateway: KeylineGateway, new_topic: Callable[[str], str]) -> None:
    for abuse in ABUSES:
        abuse(gateway.service_url, new_topic("abused"))


def drop_connections(url: str, topic: str, count: int) -> None:
    """Open and drop so many, some at a time."""
    host, _, port = url.removeprefix("pulsar://").partition(":")
    connect = frame(T.CONNECT, pb.CommandConnect(client_version="raw", protocol_version=21))
    first_words = (b"", connect[:9], connect, connect + subscribe_frame(topic))
    for _ in range(count // CONNECTIONS_AT_ONCE):
        opened = [socket.create_connection((host, int(port)), 30) for _ in range(CONNECTIONS_AT_ONCE)]
        for number, peer in enumerate(opened):
            peer.sendall(first_words[number % len(first_words)])
        worker = RawClient(url).locate(topic).joined(topic)
        worker.close()
        for peer in opened:
            peer.close()


class Footprint:
    """What the gateway's process uses, to be compared with later."""

    def __init__(self, gateway: KeylineGateway) -> None:
        self._process = psutil.Process(gateway.pid)
        self._fds = self._process.num_fds()
        self._rss = self._process.memory_info().rss

    def check(self) -> None:
        """Nothing has grown but for the spare that is named above."""
        eventually(lambda: self._process.num_fds() <= self._fds + FDS_SPARE, f"no more than {self._fds} descriptors")
        grown = self._process.memory_info().rss / self._rss
        assert grown <= MEMORY_RATIO_MAX, f"{self._rss >> 20} MiB have grown {grown:.2f} times"


def measured_from(gateway: KeylineGateway, warm_up: Callable[[], None]) -> Footprint:
    """Do it once, and measure when its connections are gone."""
    before = psutil.Process(gateway.pid).num_fds()
    warm_up()
    eventually(
        lambda: psutil.Process(gateway.pid).num_fds() <= before + FDS_SPARE, "the warm-up's descriptors to be closed"
    )
    return Footprint(gateway)
