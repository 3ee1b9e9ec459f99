"""The ring, the slots and the ranges are the broker's, name for name and number for number.

The same consumer names subscribe directly at the broker and, under another subscription of the same topic, through the
gateway. What the broker's own statistics then say of the one must be what ours say of the other, after every join and
leave; the messages of a key must land at the same name; and the slots that drain for the same unacknowledged messages
must be the same numbers, for they are what operators compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Self

import httpx
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import peek, sticky_key
from tests.conftest import StartPulsar
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.raw_client import Message, RawClient, T

Ranges = list[tuple[str, list[list[int]]]]

NAMES = ("c1", "c2", "c3", "billing-7f9c4", "w", "w", "w", "ünïcode", "a" * 60)
"""Some share a name: the broker numbers those, and so do we."""


class Crew:
    """Consumers of one subscription on one connection, called by their names."""

    def __init__(self, service_url: str, topic: str, subscription: str) -> None:
        self.client = RawClient(service_url).locate(topic)
        self._topic = topic
        self._subscription = subscription
        self._names: dict[int, str] = {}

    def join(self, name: str, permits: int = 10_000, **fields: Any) -> int:
        """Let one more in; returns its consumer id."""
        consumer_id = len(self._names) + 1
        self._names[consumer_id] = name
        self.client.joined(self._topic, self._subscription, consumer_id, consumer_name=name, **fields)
        if permits:
            self.client.flow(permits, consumer_id)
        return consumer_id

    def leave(self, consumer_id: int) -> None:
        """Close one."""
        answer = self.client.ask(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=0))
        assert answer.type == T.SUCCESS, answer

    def received(self, count: int) -> list[Message]:
        """The next messages of all of them."""
        return self.client.messages(count)

    def name_of(self, message: Message) -> str:
        """Who got it."""
        return self._names[message.command.consumer_id]


class Pair:
    """The same crew twice on one topic: at the broker, and through the gateway."""

    def __init__(self, broker: PulsarStandalone, gateway: KeylineGateway, topic: str) -> None:
        self.topic = topic
        path = topic.replace("://", "/")
        self._statistics_url = f"{broker.admin_url}/admin/v2/{path}/stats"
        self._gateway = gateway
        self.direct = Crew(broker.service_url, topic, "direct")
        self.through = Crew(gateway.service_url, topic, "through")

    def __enter__(self) -> Self:
        """Both are connected."""
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect both."""
        self.direct.client.close()
        self.through.client.close()

    def join(self, name: str, **fields: Any) -> int:
        """Let one in on both sides."""
        ids = {crew.join(name, **fields) for crew in (self.direct, self.through)}
        assert len(ids) == 1
        return ids.pop()

    def leave(self, consumer_id: int) -> None:
        """Let one go on both sides."""
        self.direct.leave(consumer_id)
        self.through.leave(consumer_id)

    def brokers(self) -> list[dict[str, Any]]:
        """The broker's statistics of the direct consumers."""
        answer = httpx.get(self._statistics_url, trust_env=False, timeout=30).raise_for_status()
        consumers: list[dict[str, Any]] = answer.json()["subscriptions"]["direct"]["consumers"]
        return consumers

    def ours(self) -> list[dict[str, Any]]:
        """The gateway's statistics of the workers."""
        (found,) = [item for item in self._gateway.statistics()["subscriptions"] if item["topic"] == self.topic]
        assert found["subscription"] == "through"
        workers: list[dict[str, Any]] = found["dispatcher"]["workers"]
        return workers

    def ranges(self) -> tuple[Ranges, Ranges]:
        """Who owns what by the broker's statistics, and by ours."""
        theirs = sorted((item["consumerName"], item["keyHashRangeArrays"]) for item in self.brokers())
        ours = sorted((item["name"], item["key_hash_ranges"]) for item in self.ours())
        return theirs, ours

    def check_ranges(self) -> None:
        """Both say the same, and somebody owns something."""
        theirs, ours = self.ranges()
        assert any(ranges for _, ranges in theirs)
        assert ours == theirs

    def check_messages(self, count: int) -> dict[str, str]:
        """The next messages land at the same names on both sides; returns who got which key."""
        at = []
        for crew in (self.direct, self.through):
            found: dict[str, set[str]] = {}
            for message in crew.received(count):
                key = sticky_key(peek(message.tail).metadata).decode()
                found.setdefault(key, set()).add(crew.name_of(message))
            at.append({key: "".join(names) for key, names in found.items() if len(names) == 1})
            assert len(at[-1]) == len(found), "a key went to two names"
        assert at[0] == at[1]
        return at[0]

    def draining(self) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
        """Hashes that drain, with their unacknowledged messages, by name: the broker's and ours."""
        theirs = {
            item["consumerName"]: {drain["hash"]: drain["unackMsgs"] for drain in item["drainingHashes"]}
            for item in self.brokers()
        }
        ours = {
            item["name"]: {drain["hash"]: drain["unack_msgs"] for drain in item["draining_hashes"]}
            for item in self.ours()
        }
        return theirs, ours


def keyed(count: int, keyless: int = 0) -> list[tuple[str | None, bytes]]:
    """One message of each of so many keys, and some without any."""
    return [(f"key-{number}", b"x") for number in range(count)] + [(None, b"x")] * keyless


def sticky(*ranges: tuple[int, int]) -> pb.KeySharedMeta:
    """Sticky ranges, both ends inclusive."""
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY)
    for start, end in ranges:
        meta.hashRanges.add(start=start, end=end)
    return meta


def join_and_leave(pair: Pair, names: Iterable[str]) -> None:
    """Every step of a crew that grows, shrinks and grows again, compared."""
    ids = []
    for name in names:
        ids.append(pair.join(name))
        pair.check_ranges()
    for consumer_id in (ids[1], ids[4], ids[0], ids[7]):
        pair.leave(consumer_id)
        pair.check_ranges()
    for name in ("w", "c2", "newcomer"):
        pair.join(name)
        pair.check_ranges()


def test_the_ring_is_the_brokers_through_every_join_and_leave(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """Consistent hashing: ranges by name as in the broker's own statistics, also for consumers that share a name."""
    with Pair(broker, gateway, new_topic("ring")) as pair:
        join_and_leave(pair, NAMES)
        theirs, _ = pair.ranges()
        assert Counter(name for name, _ in theirs)["w"] == 3


def test_the_messages_of_a_key_land_at_the_same_name(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """400 keys and 50 messages without one, among them ten whose owners are known from the broker's sources."""
    with Pair(broker, gateway, new_topic("keys")) as pair:
        for name in ("c1", "c2", "c3"):
            pair.join(name)
        with RawClient(broker.service_url) as producer:
            producer.produce(pair.topic, [*keyed(400, keyless=50), *((str(digit), b"x") for digit in range(10))])
        at = pair.check_messages(460)
        assert len(at) == 460
        assert [at[str(digit)] for digit in range(10)] == ["c2", "c2", "c3", "c2", "c1", "c3", "c2", "c2", "c3", "c2"]


def test_the_slots_that_drain_are_the_brokers(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """The same messages unacknowledged at the same name when another joins: same slots, same counts, until acked."""
    with Pair(broker, gateway, new_topic("drain")) as pair:
        pair.join("c1")
        with RawClient(broker.service_url) as producer:
            for _ in range(2):
                producer.produce(pair.topic, keyed(150))
        held = {crew: crew.received(300) for crew in (pair.direct, pair.through)}
        pair.join("c2")
        pair.join("c3")
        theirs, ours = pair.draining()
        assert ours == theirs
        assert len(theirs["c1"]) > 50
        assert set(theirs["c1"].values()) >= {2}
        for crew, messages in held.items():
            crew.client.ack_confirmed([message.place for message in messages[:150]])
        _check_soon(pair, lambda draining: set(draining["c1"].values()) == {1})
        for crew, messages in held.items():
            crew.client.ack_confirmed([message.place for message in messages[150:]])
        _check_soon(pair, lambda draining: not draining["c1"])
        cleared = {item["consumerName"]: item["drainingHashesClearedTotal"] for item in pair.brokers()}
        assert cleared == {item["name"]: item["draining_hashes_cleared_total"] for item in pair.ours()}


def _check_soon(pair: Pair, expected: Callable[[dict[str, dict[int, int]]], bool]) -> None:
    """The broker's statistics follow its acks; ours must be the same then."""
    eventually(lambda: expected(pair.draining()[0]), "the broker's draining hashes")
    theirs, ours = pair.draining()
    assert ours == theirs


def test_sticky_ranges_and_what_falls_into_them_are_the_brokers(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """Several ranges at one name, a hole that nobody covers, and one who covers it later."""
    with Pair(broker, gateway, new_topic("sticky")) as pair:
        pair.join("c1", keySharedMeta=sticky((0, 9_999), (30_000, 65_535)))
        pair.join("c2", keySharedMeta=sticky((10_000, 19_999)))
        pair.check_ranges()
        with RawClient(broker.service_url) as producer:
            producer.produce(pair.topic, keyed(200))
        pair.join("c3", keySharedMeta=sticky((20_000, 29_999)))
        pair.check_ranges()
        at = pair.check_messages(200)
        assert set(at.values()) == {"c1", "c2", "c3"}


@pytest.mark.slow
@pytest.mark.parametrize("version", PULSAR_VERSIONS)
def test_ranges_split_in_halves_are_the_brokers(
    version: str, start_pulsar: StartPulsar, start_gateway: StartGateway, new_topic: Callable[[str], str]
) -> None:
    """With consistent hashing off on both sides: assignment depends on the order of joins and leaves, and agrees."""
    broker = start_pulsar(version, settings={"subscriptionKeySharedUseConsistentHashing": "false"})
    gateway = start_gateway(broker, selector="auto_split")
    with Pair(broker, gateway, new_topic("halves")) as pair:
        join_and_leave(pair, NAMES)
        with RawClient(broker.service_url) as producer:
            producer.produce(pair.topic, keyed(200))
        pair.check_messages(200)
