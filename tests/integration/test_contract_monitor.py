"""The contract's monitor in gateways as they run, before a real broker and with official clients.

It rings for each fault that is put into the dispatcher, wherever somebody may listen, and never without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

import pulsar as official
import pytest

from integration.gateway import KeylineGateway
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration import broken_gateway
from tests.integration.clients import Workers, available, key_shared, numbered, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain
from tests.integration.contract_rig import EVERY_KEY, NONE_AT_ALL, checked, violations, violations_of
from tests.integration.ear import Ear
from tests.integration.parked_rig import PARKS
from tests.integration.prometheus import RULES, Prometheus, prometheus
from tests.integration.redriver import Redriver
from tests.interpreted import interpreted_only

ALERT: Final = "KeylineContractViolated"
LOGGED: Final = "contract violated"
MESSAGES: Final = 2_000
GIVES_BACK: Final = {"receiver_queue_size": 20, "nack_fraction": 0.1, "nack_delay_ms": 50}
"""Workers with short queues, so that messages wait at the gateway beside those that come back."""
SETTINGS: Final = {"put_last": {**EVERY_KEY, "max_unacked_messages_per_worker": "20"}}
"""By fault, if not `EVERY_KEY`. What comes back can only be put behind what waits, however fast the machine is."""
KEYS: Final = [f"k{number}" for number in range(20)]
NewTopic = Callable[[str], str]

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Watched:
    """A gateway that watches every key, and a Prometheus that scrapes it and has the alerts."""

    def __init__(self, gateway: KeylineGateway, scraping: Prometheus) -> None:
        self.gateway = gateway
        self._scraping = scraping

    def alerts(self) -> list[dict[str, str]]:
        """Labels of the contract's alerts that fire."""
        found = self._scraping.now(f'ALERTS{{alertname="{ALERT}", alertstate="firing"}}')
        return [series["metric"] for series in found]

    def scraped(self, name: str) -> float:
        """The newest sum that Prometheus has of a counter."""
        return sum(float(value) for series in self._scraping.now(name) for _, value in series["values"])

    def logged(self) -> list[str]:
        """Lines of the gateway's log about the contract."""
        return [line for line in self.gateway.log.read_text().splitlines() if LOGGED in line]


class StartWatched(Protocol):
    """What the `start_watched` fixture gives."""

    def __call__(self, fault: str = "") -> Watched:
        """Start one with a fault of `broken_gateway`, or without."""


@pytest.fixture
def start_watched(pulsar: PulsarStandalone, tmp_path: Path) -> Iterator[StartWatched]:
    """Start a gateway and its Prometheus; they end with the test."""
    with ExitStack() as stack:

        def start(fault: str = "") -> Watched:
            program = broken_gateway.program(fault) if fault else None
            urls = (pulsar.service_url, pulsar.admin_url)
            settings = SETTINGS.get(fault, EVERY_KEY)
            gateway = KeylineGateway(*urls, tmp_path / "gateway", settings=settings, program=program)
            stack.enter_context(gateway)
            target = gateway.admin_url.removeprefix("http://")
            return Watched(
                gateway, stack.enter_context(prometheus(tmp_path / "prometheus", {"keyline": {}}, target, RULES))
            )

        yield start


@contextmanager
def load(gateway: KeylineGateway, topic: str, directory: Path) -> Iterator[LoadRun]:
    """Workers that join and leave, hold messages and give some back; all others are acknowledged in the block."""
    with LoadRun(directory / "load", gateway.service_url, topic) as run:
        run.start_workers("w1", ack_delay_ms=300, **GIVES_BACK)
        run.produce(count=MESSAGES, keys=50, rate_per_s=400.0, batching=Batching.DEFAULT)
        run.wait_acknowledged(MESSAGES // 5)
        run.start_workers("w2", "w3", ack_delay_ms=20, **GIVES_BACK)
        run.wait_acknowledged(MESSAGES // 2)
        run.release_worker("w1")
        yield run


@interpreted_only
@pytest.mark.parametrize(("fault", "kind"), [("forget_holders", "two_workers"), ("put_last", "overtaken")])
def test_a_gateway_with_a_fault_is_told_of_in_metrics_events_log_and_an_alert(
    fault: str, kind: str, start_watched: StartWatched, new_topic: NewTopic, tmp_path: Path
) -> None:
    """With the topic, the subscription, the kind and the workers."""
    watched, topic = start_watched(fault), new_topic(f"broken-{fault}")
    ear = Ear(watched.gateway, topic)
    with load(watched.gateway, topic, tmp_path) as run:
        eventually(lambda: violations_of(watched.gateway, topic).get(kind), f"a violation {kind}")
        event = ear.next("contract_violated")
        while event["facts"]["violation"] != kind:
            event = ear.next("contract_violated")
        result = run.finish()
    assert not result.ok, "it was not broken"
    assert violations(watched.gateway)[kind] > 0
    assert (event["topic"], event["subscription"]) == (topic, SUBSCRIPTION)
    names = {"w1", "w2", "w3"}
    assert event["facts"]["worker"] in names
    assert event["facts"]["other_worker"] in (names if kind == "two_workers" else {""})
    assert any(kind in line and topic in line and event["facts"]["message"] in line for line in watched.logged())

    def fires() -> bool:
        return any(alert["kind"] == kind for alert in watched.alerts())

    eventually(fires, f"the alert {ALERT}")


def test_a_gateway_without_a_fault_is_silent(start_watched: StartWatched, new_topic: NewTopic, tmp_path: Path) -> None:
    """The same load: each delivery is judged, nothing is counted, logged or alerted."""
    watched, topic = start_watched(), new_topic("sound")
    with load(watched.gateway, topic, tmp_path) as run:
        result = run.finish()
    assert result.ok, explain(result, watched.gateway)
    assert violations(watched.gateway) == NONE_AT_ALL
    judged = checked(watched.gateway)
    assert judged >= MESSAGES
    name = "keyline_gateway_contract_checked_messages_total"
    eventually(lambda: watched.scraped(name) >= judged, "a scrape after the load")
    assert watched.scraped("keyline_gateway_contract_violations_total") == 0
    assert not watched.alerts()
    assert not watched.logged()


class Refusals:
    """Workers that give some messages back, once or until their key is parked, and remember what they have done."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.done: set[str] = set()
        self._refused: Counter[str] = Counter()

    def work(self) -> int:
        """Take what is there; how many were done so far."""
        for consumer in list(self.workers.consumers.values()):
            for message in available(consumer):
                text = f"{message.partition_key()} {message.data().decode()}"
                if self._refused[text] < {"1": 1, "3": 3}.get(text[-1], 0):
                    self._refused[text] += 1
                    consumer.negative_acknowledge(message)
                else:
                    self.done.add(text)
                    consumer.acknowledge(message)
        return len(self.done)


def test_it_is_silent_beside_negative_acks_parked_keys_redrives_and_seeks(
    start_gateway: StartGateway, pulsar: PulsarStandalone, new_topic: NewTopic
) -> None:
    """While workers join and leave, and when the cursor has moved back and everything comes once more."""
    gateway, topic = start_gateway(pulsar, **EVERY_KEY, **PARKS), new_topic("silent")
    client = official.Client(gateway.service_url, logger=official.ConsoleLogger(official.LoggerLevel.Error))
    options = {"negative_ack_redelivery_delay_ms": 50}
    refusals = Refusals(key_shared(client, topic, "a", "b", **options))
    redriver, api = Redriver(gateway, topic, "s"), AdminClient(gateway.admin_url)
    path = subscription_path(topic, "s")
    producer = client.create_producer(topic)

    def is_over() -> bool:
        refusals.work()
        told = api.ask("GET", path)["dispatcher"]
        left = told["outstanding_entries"] + told["unconfirmed_acks"] + told["parked_slots"]
        return not left and len(refusals.done) == count

    count = 200
    with redriver.at_work():
        send_all(producer, numbered(KEYS, count))
        eventually(lambda: refusals.work() >= count // 4, "a quarter of the messages")
        refusals.workers.consumers |= key_shared(client, topic, "c", **options).consumers
        eventually(lambda: refusals.work() >= count // 2, "half of the messages")
        refusals.workers.consumers.pop("a").close()
        eventually(is_over, "all messages")
    assert redriver.redriven
    refusals.done.clear()
    refusals.workers.consumers["b"].seek(official.MessageId.earliest)
    eventually(is_over, "all messages once more")
    client.close()
    assert violations(gateway) == NONE_AT_ALL
    assert checked(gateway) >= count
