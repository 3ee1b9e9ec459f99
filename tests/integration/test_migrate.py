"""A live subscription moves from the brokers' service URL to the gateway's and back, as docs/migrate.md says.

Official clients under load, and one audit over all workers, wherever they were connected. Each test of the first half
follows the steps of one procedure; the facts that the procedures rest on are tested one by one in the second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar
import pytest

from integration.gateway import KeylineGateway, service_url_of
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.clients import key_shared, nothing_comes, receive, send_all, subscribe
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain
from tests.integration.exclusive_rig import administer

RATE_PER_S = 800.0
KEYS = 300
RUN_LENGTH = 5
"""Consecutive messages of a key where they are batched, so that batches by key hold several."""
SINCE = 600
"""Messages that are worked off between two steps, under load that ends with the last one only."""
WORKERS = ("w1", "w2", "w3")
REPLICAS = 2
STREAMS = 16
PARTITIONS = 3
RECEIVER_QUEUE_SIZE = 200
NACK_DELAY_MS = 50
WHOLE_BATCHES = {"upstream_batch_index_ack": "false"}
CONTENTS = tuple(b"%d" % number for number in range(10))
FACTS = "s"
"""The subscription of those tests that ask for one fact."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@dataclass(frozen=True)
class Place:
    """Where workers of a run may be, and what the broker says of its topic."""

    run: LoadRun
    broker: PulsarStandalone
    partitions: int
    options: dict[str, Any]
    """Of every worker."""

    def work_on(self) -> None:
        """Return when the workers have done some more."""
        self.run.progress.update()
        self.run.wait_acknowledged(self.run.progress.acknowledged + SINCE)

    def start(self, service_url: str, *names: str) -> None:
        """Start workers there and return when all have joined."""
        self.run.start_workers(*names, service_url=service_url, **self.options)

    def stop_all(self, *names: str) -> None:
        """Let them leave at the same time, and return when the last has gone."""
        leaving = [self.run.workers[name] for name in names]
        for name in names:
            self.run.release_worker(name)
        for worker in leaving:
            worker.stop()

    def subscriptions(self) -> list[dict[str, Any]]:
        """What the broker says of the subscription, once for each partition."""
        suffixes = [f"-partition-{number}" for number in range(self.partitions)] or [""]
        return [subscription_of(self.broker, self.run.topic + suffix) for suffix in suffixes]

    def consumers(self) -> list[set[str]]:
        """Names of those connected to the broker, for each partition."""
        return [{item["consumerName"] for item in found["consumers"]} for found in self.subscriptions()]

    def wait_for_consumers(self, names: set[str]) -> None:
        """Return when the broker has exactly these, for each partition."""
        eventually(lambda: all(found == names for found in self.consumers()), f"the broker to have {names}")

    def finish(self) -> AuditResult:
        """End the load, let everything be worked off, and judge."""
        for producer in self.run.producers:
            producer.stop()
        return self.run.finish()


def subscription_of(broker: PulsarStandalone, topic: str, name: str = SUBSCRIPTION) -> dict[str, Any]:
    """Statistics of a subscription, from the broker itself."""
    found: dict[str, Any] = administer(broker, "GET", topic, "stats")["subscriptions"][name]
    return found


@contextmanager
def loaded(
    broker: PulsarStandalone,
    topic: str,
    directory: Path,
    *direct: str,
    batching: Batching = Batching.NONE,
    partitions: int = 0,
) -> Iterator[Place]:
    """Workers at the broker itself, and a producer that stays there for the whole test."""
    if partitions:
        administer(broker, "PUT", topic, "partitions", partitions)
    options = {"receiver_queue_size": RECEIVER_QUEUE_SIZE, "ack_delay_ms": 5}
    with LoadRun(directory, broker.service_url, topic) as run:
        place = Place(run, broker, partitions, options)
        place.start(broker.service_url, *direct)
        run_length = 1 if batching is Batching.NONE else RUN_LENGTH
        run.produce(keys=KEYS, rate_per_s=RATE_PER_S, batching=batching, run_length=run_length)
        yield place


def check(
    place: Place, result: AuditResult, causes: set[Cause], *gateways: KeylineGateway, connections_lost: bool = False
) -> None:
    """Complete, in order, repeated for no other causes than these, and all of it acknowledged at the broker."""
    assert result.ok, explain(result, *gateways)
    assert result.delivered == result.acknowledged == result.confirmed > 0, explain(result, *gateways)
    assert connections_lost or result.connections_lost == 0, explain(result, *gateways)
    assert set(result.duplicates_by_cause) <= causes, explain(result, *gateways)
    eventually(lambda: all(found["msgBacklog"] == 0 for found in place.subscriptions()), "an empty backlog")


@pytest.fixture
def whole_batches(broker: PulsarStandalone, start_gateway: StartGateway) -> KeylineGateway:
    """A gateway of the test's own that acknowledges whole batches only: from it workers can go back to brokers."""
    return start_gateway(broker, **WHOLE_BATCHES)


@pytest.mark.parametrize(
    ("batching", "partitions"), [(Batching.NONE, 0), (Batching.KEY_BASED, PARTITIONS)], ids=["plain", "partitioned"]
)
def test_workers_move_one_by_one_and_back(
    batching: Batching,
    partitions: int,
    broker: PulsarStandalone,
    whole_batches: KeylineGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """While some are at the broker and some at the gateway, keys keep their order and nothing comes twice."""
    with loaded(broker, new_topic("one-by-one"), tmp_path, *WORKERS, batching=batching, partitions=partitions) as place:
        direct = set(WORKERS)
        for step, name in enumerate(WORKERS + WORKERS):
            place.work_on()
            place.run.stop_worker(name)
            leaves = step < len(WORKERS)
            place.start(whole_batches.service_url if leaves else broker.service_url, name)
            direct ^= {name}
            expected = direct if direct == set(WORKERS) else direct | {"keyline"}
            place.wait_for_consumers(expected)
        place.work_on()
        check(place, place.finish(), {Cause.BATCH_UNFINISHED} if partitions else set(), whole_batches)


def test_a_group_takes_over_and_gives_back(
    broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Its workers wait until the last direct one has left; direct ones are refused until its last worker has left."""
    replicas = [
        start_gateway(
            broker, groups_enabled="true", groups_mode="streams", replica_name=f"replica-{number}", **WHOLE_BATCHES
        )
        for number in range(REPLICAS)
    ]
    topic = new_topic("group")
    waiting = [f"g{number}" for number in range(2 * REPLICAS)]
    with loaded(broker, topic, tmp_path, *WORKERS, partitions=PARTITIONS) as place:
        place.work_on()
        for number, name in enumerate(waiting):
            place.start(service_url_of(replicas, number % REPLICAS), name)
        assert place.consumers() == [set(WORKERS)] * PARTITIONS, "the broker let both in"
        place.work_on()
        place.stop_all(*WORKERS)
        streams = {f"replica-{replica}-{stream}" for replica in range(REPLICAS) for stream in range(STREAMS)}
        eventually(
            lambda: all(len(found) == STREAMS and found <= streams for found in place.consumers()),
            "a consumer for each stream, and no other",
        )
        place.work_on()
        refused_directly(broker, f"{topic}-partition-0")
        place.stop_all(*waiting)
        place.wait_for_consumers(set())
        place.start(broker.service_url, *WORKERS)
        place.work_on()
        check(place, place.finish(), set(), *replicas)


def test_batches_of_many_keys_move_at_once_and_back(
    broker: PulsarStandalone, whole_batches: KeylineGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Everybody leaves before anybody comes. One worker alone is in order at a broker too, so the audit covers all."""
    topic = new_topic("at-once")
    with loaded(broker, topic, tmp_path, "alone", batching=Batching.DEFAULT) as place:
        place.work_on()
        place.stop_all("alone")
        place.wait_for_consumers(set())
        place.start(whole_batches.service_url, *WORKERS)
        place.work_on()
        place.stop_all(*WORKERS)
        place.wait_for_consumers(set())
        place.start(broker.service_url, "alone")
        place.work_on()
        check(place, place.finish(), {Cause.BATCH_UNFINISHED}, whole_batches)


def test_the_gateway_dies_halfway_and_workers_go_straight_back(
    broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """What the gateway's workers held goes to the direct one, in order, and they come back without the gateway."""
    gateway = start_gateway(broker)
    moved = WORKERS[:2]
    with loaded(broker, new_topic("halfway"), tmp_path, *WORKERS) as place:
        place.work_on()
        for name in moved:
            place.run.stop_worker(name)
            place.start(gateway.service_url, name)
        place.work_on()
        place.run.interruption(Cause.GATEWAY_KILLED, workers=moved)
        gateway.kill()
        for name in moved:
            place.run.kill_worker(name)
            place.start(broker.service_url, name)
        place.work_on()
        causes = {Cause.GATEWAY_KILLED, Cause.WORKER_KILLED, Cause.CLIENT_QUEUE}
        check(place, place.finish(), causes)


class Visits:
    """One worker after another on one subscription, each alone, at the broker or at the gateway."""

    def __init__(self, broker: PulsarStandalone, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    def visit(
        self, service_url: str, expected: Sequence[bytes], acknowledge: Collection[bytes], **options: Any
    ) -> list[bytes]:
        """Get exactly these, acknowledge some of them, leave, and return the rest."""
        with connected(service_url) as client:
            worker = key_shared(client, self._topic, "worker", **options).consumers["worker"]
            messages = [receive(worker) for _ in expected]
            assert [message.data() for message in messages] == list(expected)
            assert nothing_comes(worker)
            for message in messages:
                if message.data() in acknowledge:
                    worker.acknowledge(message)
            worker.close()
        eventually(lambda: not self.subscription()["consumers"], "the worker to be gone at the broker too")
        return [content for content in expected if content not in acknowledge]

    def nothing_left(self) -> None:
        """Return when the broker has every entry acknowledged."""
        eventually(lambda: self.subscription()["msgBacklog"] == 0, "an empty backlog")

    def subscription(self) -> dict[str, Any]:
        """What the broker says of it."""
        return subscription_of(self._broker, self._topic, FACTS)


@contextmanager
def connected(service_url: str) -> Iterator[pulsar.Client]:
    """An official client."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        yield client
    finally:
        client.close()


def produce(broker: PulsarStandalone, topic: str, *, batched: bool) -> None:
    """Ten messages of one key, in one entry, however slowly the machine hands them over, or in ten."""
    with connected(broker.service_url) as client:
        options = {"batching_enabled": True, "batching_max_publish_delay_ms": 60_000} if batched else {}
        send_all(client.create_producer(topic, **options), [("key", content) for content in CONTENTS])


def refused_directly(broker: PulsarStandalone, topic: str) -> None:
    """A worker that comes to the broker itself now hears so at once, and does not hang."""
    with connected(broker.service_url) as client, pytest.raises(pulsar.ConsumerBusy):
        key_shared(client, topic, "direct", subscription_name=SUBSCRIPTION)


def test_single_acknowledgements_survive_both_ways(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """In any order: what was acknowledged between others does not come again, and the others do."""
    topic = new_topic("singly")
    produce(broker, topic, batched=False)
    visits = Visits(broker, topic)
    rest = visits.visit(broker.service_url, CONTENTS, {b"1", b"3"})
    rest = visits.visit(gateway.service_url, rest, {b"2", b"6"})
    assert not visits.visit(broker.service_url, rest, rest)
    visits.nothing_left()


def test_acknowledgements_by_index_survive_the_way_to_the_gateway(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """The gateway delivers the rest of the batch, and finishes it at the broker when its workers have."""
    topic = new_topic("by-index")
    produce(broker, topic, batched=True)
    visits = Visits(broker, topic)
    rest = visits.visit(broker.service_url, CONTENTS, {b"1", b"3"}, batch_index_ack_enabled=True)
    assert not visits.visit(gateway.service_url, rest, rest)
    visits.nothing_left()


def test_a_batch_that_the_gateway_half_acknowledged_is_never_finished_by_direct_workers(
    broker: PulsarStandalone,
    gateway: KeylineGateway,
    whole_batches: KeylineGateway,
    new_topic: Callable[[str], str],
) -> None:
    """Its rest comes at each visit, until it is finished through a gateway, whether that acknowledges parts or not.

    The C++ client, and so Python's, waits for acknowledgements of those messages too that it is not shown, before it
    acknowledges the batch. Therefore nobody goes back from a gateway that acknowledges parts of batches.
    """
    topic = new_topic("half")
    produce(broker, topic, batched=True)
    visits = Visits(broker, topic)
    rest = visits.visit(gateway.service_url, CONTENTS, CONTENTS[:4], batch_index_ack_enabled=True)
    for _ in range(2):
        visits.visit(broker.service_url, rest, rest)
        assert visits.subscription()["msgBacklog"] == 1
    assert not visits.visit(whole_batches.service_url, rest, rest)
    visits.nothing_left()


def test_whole_batches_come_back_from_a_gateway_that_acknowledges_no_parts(
    broker: PulsarStandalone, whole_batches: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """A batch that is not finished comes again whole, and direct workers finish it."""
    topic = new_topic("whole")
    produce(broker, topic, batched=True)
    visits = Visits(broker, topic)
    visits.visit(whole_batches.service_url, CONTENTS, CONTENTS[:4], batch_index_ack_enabled=True)
    visits.visit(broker.service_url, CONTENTS, CONTENTS)
    visits.nothing_left()


def test_attempts_are_counted_anew_when_all_move_at_once(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """So a message that fails has all its attempts again before it goes to a dead letter topic."""
    topic = new_topic("attempts")
    produce(broker, topic, batched=False)
    for url in (broker.service_url, gateway.service_url, broker.service_url):
        with connected(url) as client:
            options: dict[str, Any] = {"negative_ack_redelivery_delay_ms": NACK_DELAY_MS}
            worker = subscribe(client, topic, pulsar.ConsumerType.KeyShared, **options)
            assert counts_of_first(worker, refusals=2) == [0, 1, 2]


def counts_of_first(worker: pulsar.Consumer, refusals: int) -> list[int]:
    """Refuse the first message so often; return its redelivery count at each delivery."""
    counts: list[int] = []
    while len(counts) <= refusals:
        message = receive(worker)
        if message.data() == CONTENTS[0]:
            counts.append(message.redelivery_count())
            worker.negative_acknowledge(message)
    return counts


def test_ranges_chosen_by_direct_workers_cannot_be_shared(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """The broker refuses the gateway, and the worker hears so at once: such a subscription moves all at once."""
    topic = new_topic("sticky")
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 65_535)])
    with connected(broker.service_url) as direct, connected(gateway.service_url) as through:
        worker = subscribe(direct, topic, pulsar.ConsumerType.KeyShared, key_shared_policy=policy)
        with pytest.raises(pulsar.ConsumerBusy):
            subscribe(through, topic, pulsar.ConsumerType.KeyShared, key_shared_policy=policy)
        worker.close()
        subscribe(through, topic, pulsar.ConsumerType.KeyShared, key_shared_policy=policy)
