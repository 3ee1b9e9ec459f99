"""Subscriptions that are not durable, in owner mode on real brokers: they begin and end as at the broker itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from integration.gateway import KeylineGateway
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from proxy.wire import pulsar_pb2 as pb
from tests.integration.busy_replicas import patiently, settle
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import administer
from tests.integration.raw_client import RawClient, T

REPLICAS: Final = 3
KEYS: Final = 20
MESSAGES: Final = 200
PERMITS: Final = 1_000
MODE: Final[dict[str, Any]] = {"durable": False, "initialPosition": pb.CommandSubscribe.Latest}
NUMBER_BYTES: Final = 2

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Scene:
    """Three replicas with a worker at each, which wait for what is sent from now on."""

    def __init__(self, broker: PulsarStandalone, gateways: list[KeylineGateway], topic: str, stack: ExitStack) -> None:
        self.gateways = gateways
        self.topic = topic
        self.workers = {f"w{number}": RawClient(each.service_url) for number, each in enumerate(gateways)}
        self.came: defaultdict[str, list[bytes]] = defaultdict(list)
        """Contents by worker, in order."""
        self._direct = stack.enter_context(RawClient(broker.service_url)).locate(topic)
        self._numbers = iter(range(KEYS * MESSAGES))
        for name, worker in self.workers.items():
            stack.callback(worker.close)
            self.join(name)

    def join(self, name: str) -> None:
        """Let a worker subscribe, as it does again after CLOSE_CONSUMER."""
        self.workers[name].locate(self.topic).joined(self.topic, consumer_name=name, **MODE).flow(PERMITS)

    def send(self) -> None:
        """Numbered messages of all keys."""
        numbers = [next(self._numbers) for _ in range(MESSAGES)]
        self._direct.produce(
            self.topic, [(f"key-{number % KEYS}", number.to_bytes(NUMBER_BYTES, "big")) for number in numbers]
        )

    def receive(self, count: int) -> None:
        """Return when so many have come in all, which are acknowledged."""

        def all_came() -> bool:
            for name, worker in self.workers.items():
                messages = worker.ping()
                self.came[name] += [message.tail[-NUMBER_BYTES:] for message in messages]
                if messages:
                    worker.ack([message.place for message in messages])
            return sum(map(len, self.came.values())) >= count

        eventually(all_came, f"{count} messages")

    def check(self, first: int, count: int) -> None:
        """These numbers have come, once each, those of a key to one worker and in order; and each worker got some."""
        numbers = {name: [int.from_bytes(each, "big") for each in came] for name, came in self.came.items()}
        assert sorted(number for came in numbers.values() for number in came) == list(range(first, first + count))
        assert all(numbers[name] for name in self.workers)
        for key in range(KEYS):
            of_key = [[number for number in came if number % KEYS == key] for came in numbers.values()]
            (came_to_one,) = filter(None, of_key)
            assert came_to_one == sorted(came_to_one)
        self.came.clear()

    def owner(self) -> KeylineGateway:
        """The replica that serves all workers, as soon as one does."""
        found: list[KeylineGateway] = []

        def serves() -> bool:
            found[:] = [each for each in self.gateways if each.workers(self.topic, "s") == set(self.workers)]
            return bool(found)

        patiently(serves, "one replica that serves all workers")
        return found[0]


@pytest.fixture
def scene(broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Scene]:
    """On each broker; the topic has a message already, which no worker gets."""
    topic = new_topic("passing")
    with RawClient(broker.service_url) as direct:
        direct.locate(topic).produce(topic, [("key-0", b"\xff\xff")])
    with ExitStack() as stack:
        replicas = Replicas(stack, broker, tmp_path, {"group_deployment": topic.rpartition("/")[2]})
        replicas.start(REPLICAS)
        settle(replicas.gateways)  # these workers would not subscribe again, as a client does
        yield Scene(broker, replicas.gateways, topic, stack)


def test_one_owner_serves_it_to_workers_at_all_replicas_until_the_last_leaves(
    broker: PulsarStandalone, scene: Scene
) -> None:
    """From the end of the topic on. Who wants it durable is refused at any replica, as by the broker."""
    scene.owner()
    scene.send()
    scene.receive(MESSAGES)
    scene.check(0, MESSAGES)
    with RawClient(broker.service_url) as direct:
        refusals = [direct.locate(scene.topic).subscribe(scene.topic)]
    for gateway in scene.gateways:
        with RawClient(gateway.service_url) as other:
            refusals.append(other.locate(scene.topic).subscribe(scene.topic))
    assert [(each.type, each.error.error) for each in refusals] == 4 * [(T.ERROR, pb.NotAllowedError)]
    assert "s" in administer(broker, "GET", scene.topic, "subscriptions")
    for worker in scene.workers.values():
        worker.close()
    eventually(lambda: "s" not in administer(broker, "GET", scene.topic, "subscriptions"), "its end")


def test_it_goes_on_at_the_replica_that_an_operator_names(scene: Scene) -> None:
    """Workers are told as when a broker unloads a topic, and subscribe again; what is sent since comes to them."""
    owner = scene.owner()
    scene.send()
    scene.receive(MESSAGES)
    scene.check(0, MESSAGES)
    target = next(each for each in scene.gateways if each is not owner)
    order = {"replica": target.deployment()["replica"]}
    AdminClient(owner.admin_url).ask("PUT", subscription_path(scene.topic, "s") + "/owner", json=order)
    for name, worker in scene.workers.items():
        assert worker.read().type == T.CLOSE_CONSUMER
        scene.join(name)
    assert scene.owner() is target
    scene.send()
    scene.receive(MESSAGES)
    scene.check(MESSAGES, MESSAGES)
