"""A replica is killed while a key is parked, and in the middle of its redrive: another one goes on, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pulsar
import pytest

from integration.gateway import KeylineGateway, service_url_of
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, Unanswered, subscription_path
from tests.integration.clients import key_shared
from tests.integration.conditions import eventually
from tests.integration.owner_rig import settle
from tests.integration.parked_rig import PARKS

REPLICAS: Final = 3
KEY: Final = "customer-17"
OTHERS: Final = tuple(f"k{number}" for number in range(30))
PARKED: Final = 100
"""Messages of the key that are parked before anybody is killed."""
WORK_S: Final = 0.005
"""What a worker takes for one: so a redrive lasts long enough to be cut short."""
RECEIVE_MS: Final = 50

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Audit:
    """What the workers acknowledged, in order: each key's messages have consecutive numbers, from 0."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.came: dict[str, list[int]] = {}
        self.poisoned = True
        """Whether the first message of the key is refused."""

    def take(self, message: pulsar.Message) -> bool:
        """Write it down; false if it is refused."""
        key, number = message.partition_key(), int(message.data())
        with self._lock:
            if key == KEY and number == 0 and self.poisoned:
                return False
            self.came.setdefault(key, []).append(number)
            return True

    def count(self, key: str) -> int:
        """How many different ones came."""
        with self._lock:
            return len(set(self.came.get(key, ())))

    def firsts(self, key: str) -> list[int]:
        """In the order in which they came for the first time."""
        with self._lock:
            return list(dict.fromkeys(self.came.get(key, ())))

    def repeats(self, key: str) -> int:
        """How many came again."""
        with self._lock:
            came = self.came.get(key, ())
            return len(came) - len(set(came))


class Story:
    """Three replicas, a worker at each, and who sends."""

    def __init__(self, replicas: Replicas, broker: PulsarStandalone, topic: str) -> None:
        self.topic = topic
        self.gateways = replicas.gateways
        self.audit = Audit()
        self._sent: dict[str, int] = {}
        self._over = threading.Event()
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        urls = [service_url_of(self.gateways, number) for number in range(REPLICAS)]
        self._clients = [pulsar.Client(url, logger=quiet) for url in [*urls, broker.service_url]]
        options: dict[str, Any] = {"negative_ack_redelivery_delay_ms": 50, "receiver_queue_size": 50}
        consumers = [
            key_shared(client, topic, f"w{number}", **options).consumers[f"w{number}"]
            for number, client in enumerate(self._clients[:REPLICAS])
        ]
        self._producer = self._clients[-1].create_producer(topic)
        self._threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in consumers]
        for thread in self._threads:
            thread.start()

    def send(self, key: str, count: int) -> None:
        """So many more of a key, numbered."""
        first = self._sent.get(key, 0)
        self._sent[key] = first + count
        for number in range(first, first + count):
            self._producer.send_async(b"%d" % number, None, partition_key=key)

    def flush(self) -> None:
        """All that was sent is at the broker."""
        self._producer.flush()

    def send_others(self) -> None:
        """Some of every other key."""
        for key in OTHERS:
            self.send(key, 10)
        self.flush()

    def end(self) -> None:
        """Everybody goes."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        for client in self._clients:
            client.close()

    def owner(self) -> KeylineGateway:
        """The replica that serves the subscription to all workers."""
        names = {f"w{number}" for number in range(REPLICAS)}
        found: list[KeylineGateway] = []

        def serves() -> bool:
            serving = [each for each in self.gateways if each.running and each.workers(self.topic, "s")]
            found[:] = serving if len(serving) == 1 and serving[0].workers(self.topic, "s") == names else []
            return bool(found)

        eventually(serves, "one replica serves all workers")
        return found[0]

    def asked(self) -> AdminClient:
        """Any replica that runs."""
        return AdminClient(next(each for each in self.gateways if each.running).admin_url)

    def parked(self) -> int:
        """Messages in the parking topic; -1 while no replica tells."""
        try:
            return int(self.asked().ask("GET", subscription_path(self.topic, "s") + "/parked")["parked_messages"])
        except Unanswered:
            return -1

    def redrive(self) -> None:
        """Order it, as soon as a replica takes the order."""

        def taken() -> bool:
            path = subscription_path(self.topic, "s") + "/parked/redrive"
            try:
                self.asked().ask("POST", path, query={"key": KEY})
            except Unanswered:
                return False
            return True

        eventually(taken, "the order is taken")

    def kill(self, owner: KeylineGateway) -> None:
        """By SIGKILL; it starts again, and finds that another is the owner."""
        owner.kill()
        owner.start()

    def all_came(self) -> bool:
        """Whether every message was acknowledged by some worker."""
        return all(self.audit.count(key) == count for key, count in self._sent.items())

    def in_order(self) -> None:
        """For the first time, each key's messages came in the order in which they were sent, and none is missing."""
        for key, count in self._sent.items():
            assert self.audit.firsts(key) == list(range(count)), (key, self.audit.came[key])

    def _work(self, consumer: pulsar.Consumer) -> None:
        while not self._over.is_set():
            try:
                message = consumer.receive(RECEIVE_MS)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException:
                time.sleep(RECEIVE_MS / 1e3)
                continue
            if self.audit.take(message):
                time.sleep(WORK_S if message.partition_key() == KEY else 0)
                consumer.acknowledge(message)
            else:
                consumer.negative_acknowledge(message)


@pytest.fixture
def newest(pulsar: PulsarStandalone) -> PulsarStandalone:
    """The shared broker of one version; `pulsar` is the client's name here."""
    return pulsar


@contextmanager
def told(broker: PulsarStandalone, directory: Path, topic: str) -> Iterator[Story]:
    """Three replicas and their workers."""
    with ExitStack() as stack:
        replicas = Replicas(stack, broker, directory, PARKS | {"group_deployment": topic.rpartition("/")[2]})
        replicas.start(REPLICAS)
        settle(replicas.gateways)
        story = Story(replicas, broker, topic)
        stack.callback(story.end)
        yield story


def test_the_owner_is_killed_while_a_key_is_parked_and_in_the_middle_of_its_redrive(
    newest: PulsarStandalone, tmp_path: Path, new_topic: Callable[[str], str]
) -> None:
    """The next owner finds the key parked, delivers nothing of it, and goes on with the redrive when it is ordered."""
    with told(newest, tmp_path, new_topic("taken-over")) as story:
        owner = story.owner()
        story.send(KEY, PARKED)
        story.send_others()
        eventually(lambda: story.parked() > PARKED // 3, "a part of the messages is parked")
        story.kill(owner)
        story.send(KEY, PARKED)
        story.send_others()
        eventually(lambda: story.parked() == 2 * PARKED, "the next owner parks the rest, and what is new")
        assert story.audit.count(KEY) == 0
        story.audit.poisoned = False
        owner = story.owner()  # found before, since a redrive lasts for seconds only
        story.redrive()
        eventually(lambda: story.audit.count(KEY) >= PARKED // 3, "a part is redriven")
        story.kill(owner)
        story.send(KEY, PARKED)
        story.send_others()
        redriven = story.audit.count(KEY)
        eventually(lambda: story.parked() > 0, "the next owner finds the rest parked")
        assert redriven < 2 * PARKED, "it was killed in the middle"
        story.redrive()
        eventually(story.all_came, "every message came", deadline_s=180.0)
        story.in_order()
        eventually(lambda: story.parked() == 0, "nothing is parked")
        # What was on its way to a worker, or acknowledged and not confirmed yet, when the owner was killed.
        assert story.audit.repeats(KEY) <= PARKED // 3
