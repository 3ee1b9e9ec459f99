"""A group of replicas delivers again from a time, a message or an end, on real brokers: all streams together.

Workers note what they get, of which key, in the order in which they get it. After the mark that a replay leaves in the
events, every key's messages come in their order, and nothing of before comes behind them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.faults.line import bug_reports

REPLICAS = 2
KEYS = [f"k{number}" for number in range(40)]
ROUNDS = 5
SUBSCRIPTION = "replayed"
REPLAY_S_MAX = 90.0


class Group:
    """Two replicas with a worker each, and what these were given."""

    def __init__(self, broker: PulsarStandalone, gateways: list[KeylineGateway], topic: str, ends: ExitStack) -> None:
        self.gateways = gateways
        self.topic = topic
        self.taken: dict[str, list[int]] = defaultdict(list)
        self.places: dict[tuple[str, int], pulsar.MessageId] = {}
        self.published_ms: dict[tuple[str, int], int] = {}
        self.given: Counter[str] = Counter()
        """Messages by worker."""
        self.work_s = 0.0
        """How long workers have a message."""
        self._lock = threading.Lock()
        self._sent = 0
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        for number, gateway in enumerate(gateways):
            client = pulsar.Client(gateway.service_url, logger=quiet)
            ends.callback(client.close)
            client.subscribe(
                topic,
                SUBSCRIPTION,
                consumer_type=pulsar.ConsumerType.KeyShared,
                consumer_name=f"w{number}",
                initial_position=pulsar.InitialPosition.Earliest,
                message_listener=partial(self._listen, f"w{number}"),
                receiver_queue_size=20,
            )
        client = pulsar.Client(broker.service_url, logger=quiet)
        ends.callback(client.close)
        self._producer = client.create_producer(topic, batching_enabled=False)

    def send(self, rounds: int = ROUNDS) -> None:
        """So many more of each key, numbered on."""
        for number in range(self._sent, self._sent + rounds):
            for key in KEYS:
                self._producer.send_async(b"%d" % number, lambda *_: None, partition_key=key)
            self._producer.flush()
        self._sent += rounds

    def wait(self, *numbers: int) -> None:
        """Every key's messages came, these and no others, in this order; begins anew."""
        wanted = list(numbers)
        eventually(lambda: all(len(self.taken[key]) >= len(wanted) for key in KEYS), f"{len(wanted)} of each key")
        time.sleep(0.3)  # for what must not come
        with self._lock:
            wrong = {key: self.taken[key] for key in KEYS if self.taken[key] != wanted}
            self.taken.clear()
            self.given.clear()
        assert not wrong

    def replay(self, replica: int, **place: Any) -> httpx.Response:
        """Ask one of them."""
        path = f"{self.topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
        url = f"{self.gateways[replica].admin_url}/api/v1/groups/{path}/replay"
        return httpx.post(url, json=place, timeout=REPLAY_S_MAX, trust_env=False)

    def _listen(self, worker: str, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        time.sleep(self.work_s)
        with self._lock:
            self.given[worker] += 1
            place = message.partition_key(), int(message.data())
            self.taken[place[0]].append(place[1])
            self.places[place] = message.message_id()
            self.published_ms[place] = message.publish_timestamp()
        consumer.acknowledge(message)


@pytest.fixture
def group(broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]) -> Iterator[Group]:
    """As `grouped` says, on each version in turn."""
    with grouped(broker, start_gateway, new_topic("replay")) as made:
        yield made


@pytest.fixture(scope="module")
def module_broker_settings() -> dict[str, str]:
    """Silent connections are given up soon."""
    return {"keepAliveIntervalSeconds": "3"}


@contextmanager
def grouped(broker: PulsarStandalone, start_gateway: StartGateway, topic: str) -> Iterator[Group]:
    """Both have streams, and everything that was sent was delivered."""
    names = [f"replica-{number}" for number in range(REPLICAS)]
    gateways = [
        start_gateway(broker, groups_enabled="true", groups_mode="streams", replica_name=name) for name in names
    ]
    with ExitStack() as ends:
        made = Group(broker, gateways, topic, ends)
        eventually(lambda: all(_streams(gateway) for gateway in gateways), "streams at both")
        made.send()
        made.wait(*range(ROUNDS))
        yield made
    for gateway in gateways:
        assert not bug_reports(gateway.log)


def _streams(gateway: KeylineGateway) -> int:
    groups = httpx.get(f"{gateway.admin_url}/api/v1/groups", trust_env=False, timeout=30).json()["groups"]
    return sum(one["streams_here"] for one in groups)


@pytest.mark.parametrize("replica", range(REPLICAS))
def test_everything_comes_again(group: Group, replica: int) -> None:
    """Whichever replica is asked, the leader or not; and it goes on from there."""
    assert group.replay(replica, end="earliest").json() == {"subscription": SUBSCRIPTION}
    group.wait(*range(ROUNDS))
    group.send(2)
    group.wait(ROUNDS, ROUNDS + 1)


def test_from_a_time_and_from_a_message(group: Group) -> None:
    """What was published then or later; that message and all behind it."""
    eventually(lambda: time.time() * 1e3 > max(group.published_ms.values()) + 1, "a later millisecond")
    group.send(3)
    group.wait(*range(ROUNDS, ROUNDS + 3))
    since_ms = min(group.published_ms[key, ROUNDS] for key in KEYS)
    assert group.replay(0, published_at=datetime.fromtimestamp(since_ms / 1e3, UTC).isoformat()).is_success
    group.wait(*range(ROUNDS, ROUNDS + 3))
    first = group.places[KEYS[0], ROUNDS + 2]
    assert group.replay(1, position={"ledger": first.ledger_id(), "entry": first.entry_id()}).is_success
    group.wait(ROUNDS + 2)


def test_a_replica_that_was_frozen_meanwhile_delivers_again_too(
    module_broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]
) -> None:
    """It remembers what the broker had confirmed, and must not take what comes again for a repetition of that.

    The other one's worker is slow, so that most of it is yet to be delivered when streams go back to the frozen one.
    """
    with grouped(module_broker, start_gateway, new_topic("replay")) as group:
        frozen = group.gateways[1]
        frozen.pause()
        try:
            group.work_s = 0.25
            assert group.replay(0, end="earliest").is_success
        finally:
            frozen.resume()
        eventually(lambda: group.given["w1"] > 0, "the one that was frozen to deliver")
        group.work_s = 0.0
        group.wait(*range(ROUNDS))


def test_what_is_bad_is_refused_and_changes_nothing(group: Group) -> None:
    """With what would be right."""
    assert group.replay(0, end="middle").status_code == 400
    both = group.replay(0, end="latest", published_at="2026-01-01T00:00:00Z")
    assert both.status_code == 400
    assert "exactly one of" in both.json()["detail"]
    assert group.replay(0, published_at="2026-01-01T00:00:00").status_code == 400
    group.send(1)
    group.wait(ROUNDS)
