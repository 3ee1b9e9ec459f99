"""Fifty groups on three replicas, as processes on real brokers, and a storm of workers that come and go.

Each worker is the only one of its group at its replica, so that whoever leaves takes its replica out of the group, and
whoever joins brings it back. Every message has a number within its key: nothing is missing, nothing comes twice, no key
is overtaken, and none is at two workers at a time.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway

GROUPS = 50
REPLICAS = 3
STREAMS = 16
KEYS = 20
"""Of each group."""
RATE_PER_S = 400.0
"""Of all groups together."""
CALM_S = 5.0
STORM_S = 20.0
STORM_THREADS = 6
"""Each has groups of its own."""
PAUSE_S_MAX = 0.3
"""Of one thread between a worker that leaves or joins and the next."""
WORK_S = 0.001
RECEIVER_QUEUE_SIZE = 20
LISTENERS = 4
"""Threads of each replica's clients."""
OPERATION_S = 60
SUBSCRIPTION = "many"
SETTLE_S_MAX = 180.0

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def gateways(module_broker: PulsarStandalone, start_gateway: StartGateway) -> list[KeylineGateway]:
    """Three replicas."""
    names = [f"replica-{number}" for number in range(REPLICAS)]
    return [
        start_gateway(module_broker, groups_enabled="true", groups_mode="streams", replica_name=name) for name in names
    ]


class Ledger:
    """What workers of one topic were given: numbers by key, in the order in which they came."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent: dict[str, int] = {}
        """How many of each key."""
        self.received: dict[str, list[int]] = {}
        self.faults: list[str] = []
        self._holders: dict[str, str] = {}
        """At whom a key is."""
        self._lock = threading.Lock()

    def took(self, worker: str, key: str, number: int) -> None:
        """A worker is given a message."""
        with self._lock:
            holder = self._holders.setdefault(key, worker)
            if holder != worker:
                self.faults.append(f"{key} at {worker} while {holder} has it")
            self.received.setdefault(key, []).append(number)

    def done(self, worker: str, key: str) -> None:
        """It is about to acknowledge it."""
        with self._lock:
            if self._holders.get(key) == worker:
                del self._holders[key]

    @property
    def missing(self) -> int:
        """How many messages have not come."""
        return sum(count - len(set(self.received.get(key, ()))) for key, count in self.sent.items())

    def complaints(self) -> list[str]:
        """All that is wrong."""
        found = list(self.faults)
        for key, count in self.sent.items():
            numbers = self.received.get(key, [])
            if numbers != list(range(count)):
                wrong = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
                near = numbers[max(wrong - 2, 0) : wrong + 4]
                found.append(f"{key}: {len(numbers)} of {count} came, wrong from the {wrong}th on: {near}")
        return [f"{self.topic}: {complaint}" for complaint in found]


class Worker:
    """One consumer, which acknowledges whatever it takes, and leaves with nothing unfinished."""

    def __init__(self, client: pulsar.Client, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self._name = name
        self._leaving = False
        self._busy = 0
        self._lock = threading.Condition()
        self._consumer = client.subscribe(
            ledger.topic,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.KeyShared,
            consumer_name=name,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=RECEIVER_QUEUE_SIZE,
            message_listener=self._listen,
        )

    def leave(self) -> None:
        """Take nothing more, finish, and close; the client sends what it has grouped of acknowledgements before."""
        self._consumer.pause_message_listener()
        with self._lock:
            self._leaving = True
            assert self._lock.wait_for(lambda: not self._busy, timeout=OPERATION_S)
        self._consumer.close()

    def _listen(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        with self._lock:
            if self._leaving:
                return  # as if the client had not handed it out: another will get it
            self._busy += 1
        try:
            key = message.partition_key()
            self._ledger.took(self._name, key, int(message.data()))
            time.sleep(WORK_S)
            self._ledger.done(self._name, key)
            consumer.acknowledge(message)
        except Exception as error:  # noqa: BLE001 - the client's thread would swallow it
            self._ledger.faults.append(f"{self._name}: {error!r}")
        finally:
            with self._lock:
                self._busy -= 1
                self._lock.notify_all()


class Crowd:
    """All workers, by group and replica."""

    def __init__(self, gateways: Sequence[KeylineGateway], ledgers: Sequence[Ledger], ends: ExitStack) -> None:
        self.ledgers = ledgers
        self._clients = [_client(gateway.service_url, ends) for gateway in gateways]
        self._workers: dict[tuple[int, int], Worker] = {}
        self.left = 0
        """How often one has left."""
        self._counting = threading.Lock()

    def join_all(self) -> None:
        """One worker of every group at every replica, if it is not there already."""
        places = [(group, replica) for group in range(len(self.ledgers)) for replica in range(len(self._clients))]
        with ThreadPoolExecutor(STORM_THREADS) as pool:
            list(pool.map(lambda place: self._join(*place), [each for each in places if each not in self._workers]))

    def storm(self, seconds: float, seed: int) -> None:
        """Let them leave and join at random, so long and until as many have left as there are groups."""
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(STORM_THREADS) as pool:
            list(pool.map(lambda number: self._storm(until, seed, number), range(STORM_THREADS)))

    def leave_all(self) -> None:
        """Close everything in order."""
        with ThreadPoolExecutor(STORM_THREADS) as pool:
            list(pool.map(Worker.leave, self._workers.values()))
        self._workers.clear()

    def _storm(self, until: float, seed: int, number: int) -> None:
        draw = random.Random(seed + number)  # noqa: S311 - to be repeated, not to be secret
        own = range(number, len(self.ledgers), STORM_THREADS)
        while time.monotonic() < until or self.left < GROUPS:
            place = draw.choice(own), draw.randrange(len(self._clients))
            worker = self._workers.pop(place, None)
            if worker is None:
                self._join(*place)
            else:
                worker.leave()
                with self._counting:
                    self.left += 1
            time.sleep(draw.uniform(0, PAUSE_S_MAX))

    def _join(self, group: int, replica: int) -> None:
        name = f"w-{group}-{replica}"
        self._workers[group, replica] = Worker(self._clients[replica], self.ledgers[group], name)


class Traffic:
    """Numbered messages of all keys of all groups, in turn, until it is stopped."""

    def __init__(self, broker: PulsarStandalone, ledgers: Sequence[Ledger], ends: ExitStack) -> None:
        client = _client(broker.service_url, ends)
        self._producers = [(ledger, client.create_producer(ledger.topic)) for ledger in ledgers]
        self._stop = threading.Event()
        self._failed: list[pulsar.Result] = []
        self._thread = threading.Thread(target=self._run, name="traffic")
        self._thread.start()
        ends.callback(self._stop.set)

    def stop(self) -> None:
        """Send no more; everything is at the broker afterwards."""
        self._stop.set()
        self._thread.join()
        for _, producer in self._producers:
            producer.flush()
        assert not self._failed, f"the broker refused {len(self._failed)} messages: {self._failed[0]}"

    def _run(self) -> None:
        began, count = time.monotonic(), 0
        while not self._stop.wait(max(began + count / RATE_PER_S - time.monotonic(), 0.0)):
            ledger, producer = self._producers[count % len(self._producers)]
            key = f"k{count // len(self._producers) % KEYS}"
            number = ledger.sent.get(key, 0)
            producer.send_async(str(number).encode(), self._sent, partition_key=key)
            ledger.sent[key] = number + 1
            count += 1

    def _sent(self, result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        _ = message_id
        if result != pulsar.Result.Ok:
            self._failed.append(result)


def _client(url: str, ends: ExitStack) -> pulsar.Client:
    client = pulsar.Client(
        url,
        operation_timeout_seconds=OPERATION_S,
        message_listener_threads=LISTENERS,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    ends.callback(client.close)
    return client


def groups_of(gateway: KeylineGateway) -> dict[str, dict[str, Any]]:
    """What a replica knows of its groups, by topic."""
    answer = httpx.get(f"{gateway.admin_url}/api/v1/groups?limit=1000", trust_env=False, timeout=30)
    return {group["topic"]: group for group in answer.raise_for_status().json()["groups"]}


def settled(gateways: Sequence[KeylineGateway], ledgers: Sequence[Ledger]) -> bool:
    """Whether every group has one leader, and its streams are divided evenly among all replicas."""
    known = [groups_of(gateway) for gateway in gateways]
    for ledger in ledgers:
        parts = [groups.get(ledger.topic) for groups in known]
        if None in parts:
            return False
        leads = [part["leads"] for part in parts if part]
        here = sorted(part["streams_here"] for part in parts if part and not part["streams_releasing"])
        if leads.count(True) != 1 or here != [5, 5, 6]:
            return False
    return True


def test_a_storm_of_joins_and_leaves_in_many_groups(
    module_broker: PulsarStandalone, gateways: list[KeylineGateway], new_topic: Callable[[str], str]
) -> None:
    """Fifty groups settle at once and again after it; meanwhile no key is lost, overtaken or delivered twice."""
    ledgers = [Ledger(new_topic("many")) for _ in range(GROUPS)]
    with ExitStack() as ends:
        crowd = Crowd(gateways, ledgers, ends)
        crowd.join_all()
        eventually(lambda: settled(gateways, ledgers), "all groups to settle", SETTLE_S_MAX)
        traffic = Traffic(module_broker, ledgers, ends)
        time.sleep(CALM_S)
        crowd.storm(STORM_S, seed=1)
        crowd.join_all()
        eventually(lambda: settled(gateways, ledgers), "all groups to settle after the storm", SETTLE_S_MAX)
        traffic.stop()
        eventually(lambda: not any(ledger.missing for ledger in ledgers), "everything to be delivered")
        crowd.leave_all()
        complaints = [complaint for ledger in ledgers for complaint in ledger.complaints()]
        assert complaints == []
        assert crowd.left >= GROUPS, "there was no storm"
        assert sum(sum(ledger.sent.values()) for ledger in ledgers) >= RATE_PER_S * STORM_S / 2
        eventually(lambda: not any(groups_of(gateway) for gateway in gateways), "all replicas to have left")
