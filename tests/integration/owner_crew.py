"""Workers of the official client at three replicas in owner mode, in this process, and what became of each message."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pulsar

from integration.gateway import KeylineGateway, service_url_of
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient
from tests.integration.busy_replicas import patiently, settle
from tests.integration.clients import key_shared
from tests.integration.owner_rig import REPLICAS, deployment_of

NAMES: Final = tuple(f"w{number}" for number in range(REPLICAS))
"""Of the workers, one at each replica."""
RECEIVE_MS: Final = 50


class Record:
    """What the workers acknowledged, in order: each key's messages have consecutive numbers, from 0."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.came: dict[str, list[int]] = {}
        self.refusals = 0
        self._of_workers: Counter[str] = Counter()
        self.poisoned: frozenset[tuple[str, int]] = frozenset()
        """Keys and numbers of messages that are refused."""

    def take(self, worker: str, message: pulsar.Message) -> bool:
        """Write it down; false if it is refused."""
        key, number = message.partition_key(), int(message.data())
        with self._lock:
            self._of_workers[worker] += 1
            if (key, number) in self.poisoned:
                self.refusals += 1
                return False
            self.came.setdefault(key, []).append(number)
            return True

    def received(self, worker: str) -> int:
        """How many messages a worker was given, the refused ones included."""
        with self._lock:
            return self._of_workers[worker]

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


class Crew:
    """Three replicas, a worker at each, and who sends."""

    def __init__(self, replicas: Replicas, broker: PulsarStandalone, topic: str, work_s: Mapping[str, float]) -> None:
        """`work_s` is what a worker takes for a message, by key; for those of others no time."""
        self.topic = topic
        self.gateways = replicas.gateways
        self.record = Record()
        self.out: frozenset[str] = frozenset()
        """Workers that no replica may serve."""
        self._work_s = work_s
        self._sent: dict[str, int] = {}
        self._over = {name: threading.Event() for name in NAMES}
        self._threads: dict[str, threading.Thread] = {}
        self._clients: dict[str, pulsar.Client] = {}
        self._sender = _client(broker.service_url)
        self._producer = self._sender.create_producer(topic, block_if_queue_full=True)
        for name in NAMES:
            self._join(name)

    def send(self, key: str, count: int) -> None:
        """So many more of a key, numbered."""
        first = self.sent(key)
        self._sent[key] = first + count
        for number in range(first, first + count):
            self._producer.send_async(b"%d" % number, None, partition_key=key)

    def sent(self, key: str) -> int:
        """How many of a key were sent: the number of the next one."""
        return self._sent.get(key, 0)

    def flush(self) -> None:
        """All that was sent is at the broker."""
        self._producer.flush()

    def end(self) -> None:
        """Everybody goes."""
        for over in self._over.values():
            over.set()
        for name in NAMES:
            self._leave(name)
        self._sender.close()

    def come_again(self, name: str) -> None:
        """The worker's client ends, and another one comes by the worker's name."""
        self._leave(name)
        self._over[name].clear()
        self._join(name)

    def owner(self) -> KeylineGateway:
        """The replica that serves the subscription to all workers that are to be served."""
        found: list[KeylineGateway] = []

        def serves() -> bool:
            serving = [(each, each.workers(self.topic, "s")) for each in self.gateways if each.running]
            found[:] = [each for each, workers in serving if workers]
            return [workers for _, workers in serving if workers] == [frozenset(NAMES) - self.out]

        patiently(serves, "one replica serves all workers")
        return found[0]

    def asked(self) -> AdminClient:
        """Any replica that runs."""
        return AdminClient(next(each for each in self.gateways if each.running).admin_url)

    def order(self, method: str, path: str, **options: Any) -> None:
        """Give an order, as soon as a replica takes it."""

        def taken() -> bool:
            self.asked().ask(method, path, **options)
            return True

        patiently(taken, "the order is taken")

    def kill(self, owner: KeylineGateway) -> None:
        """By SIGKILL; it starts again, finds that another is the owner, and has its share: nothing moves any more.

        A move would cut a redrive short.
        """
        owner.kill()
        owner.start()
        settle(self.gateways)

    def all_came(self) -> bool:
        """Whether every message was acknowledged by some worker."""
        return all(self.record.count(key) == count for key, count in self._sent.items())

    def in_order(self) -> None:
        """For the first time, each key's messages came in the order in which they were sent, and none is missing."""
        for key, count in self._sent.items():
            assert self.record.firsts(key) == list(range(count)), (key, self.record.came[key])

    def _join(self, name: str) -> None:
        client = _client(service_url_of(self.gateways, NAMES.index(name)))
        self._clients[name] = client
        options: dict[str, Any] = {"negative_ack_redelivery_delay_ms": 50, "receiver_queue_size": 50}
        consumer = key_shared(client, self.topic, name, **options).consumers[name]
        self._threads[name] = threading.Thread(target=self._work, args=(name, consumer), daemon=True)
        self._threads[name].start()

    def _leave(self, name: str) -> None:
        self._over[name].set()
        self._threads[name].join(30)
        self._clients[name].close()

    def _work(self, name: str, consumer: pulsar.Consumer) -> None:
        while not self._over[name].is_set():
            try:
                message = consumer.receive(RECEIVE_MS)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException:
                time.sleep(RECEIVE_MS / 1e3)
                continue
            if self.record.take(name, message):
                time.sleep(self._work_s.get(message.partition_key(), 0))
                with suppress(pulsar.AlreadyClosed, pulsar.NotConnected):  # then it comes again
                    consumer.acknowledge(message)
            else:
                consumer.negative_acknowledge(message)


def _client(url: str) -> pulsar.Client:
    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


@contextmanager
def crew_at(
    broker: PulsarStandalone,
    directory: Path,
    topic: str,
    settings: Mapping[str, str] | None = None,
    work_s: Mapping[str, float] | None = None,
) -> Iterator[Crew]:
    """Three replicas and their workers."""
    with deployment_of(broker, topic.rpartition("/")[2], directory, settings) as replicas:
        crew = Crew(replicas, broker, topic, work_s or {})
        try:
            yield crew
        finally:
            crew.end()
