"""Pictures of the console for the documentation: ``make console-screenshots``.

A broker, a gateway and official clients of its own tell a small story: orders are billed by four workers, one of which
holds what it got, so that a fifth that joins waits for some of its slots. A ledger has one writer at a time, and three
more stand by. Three replicas share another subscription: the third has just come, and the second gives it streams whose
messages a worker has still. Three more own a subscription each.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import pulsar
from playwright.sync_api import Browser, expect

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone
from tests.integration.answers_screenshots import take_answers, take_report
from tests.integration.browser import NARROW, WIDE, chromium, fresh_page
from tests.integration.causes_rig import CAUSES, Crew, worked
from tests.integration.clients import available, key_shared
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import PRIORITY
from tests.integration.pictures import IMAGES, keep

TOPIC: Final = "persistent://public/default/orders"
SUBSCRIPTION: Final = "billing"
KEYS: Final = [f"customer-{number}" for number in range(400)]
SLOW: Final = "billing-2"
LATE: Final = "billing-5"
SMALL: Final = (1440, 620)
"""Of views with less to show."""
SETTLED_MS: Final = 7_000
"""Until rates come from two whole readings."""
LEDGER: Final = "persistent://public/default/ledger"
WRITERS: Final = {"ledger-eu-1": 10, "ledger-us-1": 5, "ledger-ap-1": 1, "ledger-eu-2": 10, "ledger-us-2": 5}
"""Who wants to write it, in the order in which they come, with their priorities."""
PARCELS: Final = "persistent://public/default/parcels"
PACKING: Final = "packing"
REPLICAS: Final = ("keyline-0", "keyline-1", "keyline-2")
SHIPMENTS: Final = {
    f"persistent://public/default/shipments-{area}": [f"shipping-{area}-{number}" for number in range(count)]
    for area, count in (("ap", 2), ("eu", 4), ("us", 3))
}
"""Topics, and their workers, which are connected to a replica each."""
MEDIUM: Final = (1440, 760)
"""Of replicas in owner mode."""
TALL: Final = (1440, 980)
"""Of a group with all its streams."""


TROUBLES: Final = {
    "orders": "stopped_acknowledging",
    "invoices": "look_ahead_full",
    "payments": "slow",
    "returns": "",
    "audit": "",
}
"""Topics, and what is wrong with each."""


class Story:
    """Who sends, who works, who does not."""

    def __init__(self, gateway: KeylineGateway) -> None:
        """Nobody is there yet."""
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self.client = pulsar.Client(gateway.service_url, logger=logger)
        self.ended = threading.Event()
        self._producer = self.client.create_producer(TOPIC)
        self._threads: list[threading.Thread] = []

    def join(self, name: str) -> pulsar.Consumer:
        """A worker that so far does nothing."""
        options: dict[str, Any] = {"subscription_name": SUBSCRIPTION, "receiver_queue_size": 200}
        return key_shared(self.client, TOPIC, name, **options).consumers[name]

    def work(self, consumer: pulsar.Consumer) -> None:
        """Acknowledge what comes."""
        self._run(lambda: [consumer.acknowledge(message) for message in available(consumer)])

    def send(self) -> None:
        """Some 200 messages a second."""
        numbers = count()

        def some() -> None:
            for _ in range(20):
                self._producer.send_async(b"x" * 200, lambda *_: None, partition_key=KEYS[next(numbers) % len(KEYS)])
            self._producer.flush()
            self.ended.wait(0.1)

        self._run(some)

    def end(self) -> None:
        """Everybody goes."""
        self.ended.set()
        for thread in self._threads:
            thread.join(10)
        self.client.close()

    def _run(self, step: Any) -> None:
        def loop() -> None:
            with suppress(pulsar.AlreadyClosed):
                while not self.ended.is_set():
                    step()

        self._threads.append(threading.Thread(target=loop, daemon=True))
        self._threads[-1].start()


@contextmanager
def told(gateway: KeylineGateway) -> Iterator[str]:
    """The story, up to the moment of the picture; gives a key that waits."""
    story = Story(gateway)
    for name in ("billing-1", "billing-3", "billing-4"):
        story.work(story.join(name))
    story.join(SLOW)
    # Somebody who consumes something else.
    other = key_shared(
        story.client, "persistent://public/default/clicks", "counter-1", "counter-2", subscription_name="dashboard"
    )
    story.send()
    story.ended.wait(1.5)
    story.work(story.join(LATE))
    story.ended.wait(8)
    try:
        yield waiting_key(gateway)
    finally:
        story.end()
        other.consumers.clear()


class Writers:
    """Those that want a topic for themselves alone, each with a client and a connection of its own."""

    def __init__(self, gateway: KeylineGateway) -> None:
        """Nobody is there yet."""
        self._gateway = gateway
        self._clients: list[pulsar.Client] = []
        self._made: dict[str, pulsar.Producer] = {}

    def want(self, topic: str, name: str, priority: int, *, service_url: str = "") -> None:
        """One more, that owns the topic or waits for it when this returns."""
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        url = service_url or self._gateway.service_url
        self._clients.append(pulsar.Client(url, operation_timeout_seconds=600, logger=quiet))
        before = self._known(topic)
        mode = pulsar.ProducerAccessMode.WaitForExclusive
        options: dict[str, Any] = {"access_mode": mode, "properties": {PRIORITY: str(priority)}}

        def create() -> None:
            # Those that still wait at the end are told that their client is closed.
            with suppress(pulsar.PulsarException):
                self._made[name] = self._clients[number].create_producer(topic, producer_name=name, **options)

        number = len(self._clients) - 1
        threading.Thread(target=create, daemon=True).start()
        if service_url:
            eventually(lambda: name in self._made, f"{name} owns {topic}")
        else:
            eventually(lambda: self._known(topic) > before, f"{name} is known at the gateway")

    def leave(self, name: str) -> None:
        """Close the owner."""
        eventually(lambda: name in self._made, f"{name} owns its topic")
        self._made[name].close()

    def end(self) -> None:
        """Everybody goes."""
        for client in self._clients:
            client.close()

    def _known(self, topic: str) -> int:
        path = topic.removeprefix("persistent://")
        answer = httpx.get(f"{self._gateway.admin_url}/api/v1/exclusive-producers/{path}", trust_env=False, timeout=30)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return 0
        told = answer.raise_for_status().json()["summary"]
        return int(told["waiting_count"]) + (told["owner"] is not None)


@contextmanager
def written(gateway: KeylineGateway, broker: PulsarStandalone) -> Iterator[None]:
    """The ledger's first writer has gone; another topic's owner is not connected to the gateway."""
    writers = Writers(gateway)
    try:
        for name, priority in WRITERS.items():
            writers.want(LEDGER, name, priority)
        writers.leave("ledger-eu-1")
        writers.want("persistent://public/default/prices", "prices-1", 0)
        writers.want("persistent://public/default/clock", "clock-1", 0, service_url=broker.service_url)
        writers.want("persistent://public/default/clock", "clock-2", 0)
        yield
    finally:
        writers.end()


@contextmanager
def shared(broker: PulsarStandalone, place: Path) -> Iterator[KeylineGateway]:
    """Replicas of one subscription, up to the moment of the picture; gives the one that leads."""
    settings = {"groups_enabled": "true", "groups_mode": "streams", "group_drain_s": "120"}
    with ExitStack() as running:
        gateways = [
            running.enter_context(
                KeylineGateway(
                    broker.service_url, broker.admin_url, place / name, settings=settings | {"replica_name": name}
                )
            )
            for name in REPLICAS
        ]
        packers = [running.enter_context(packer(gateway)) for gateway in gateways[:2]]
        eventually(lambda: streams_at(gateways) == [8, 8, 0], "two replicas have half of the streams each")
        with client_of(broker.service_url) as sender:
            producer = sender.create_producer(PARCELS)
            for key in KEYS:
                producer.send(b"x" * 200, partition_key=key)
        for message in available(packers[0]):
            packers[0].acknowledge(message)
        list(available(packers[1]))
        running.enter_context(packer(gateways[2]))
        yield gateways[0]


@contextmanager
def owned(broker: PulsarStandalone, place: Path) -> Iterator[KeylineGateway]:
    """Replicas in owner mode with some subscriptions; gives one of them."""
    secret = place / "replica-secret"
    secret.write_text("a secret of the replicas of these pictures\n")
    with ExitStack() as running:
        gateways = [
            running.enter_context(
                KeylineGateway(
                    broker.service_url,
                    broker.admin_url,
                    place / f"owner-{name}",
                    settings={
                        "groups_enabled": "true",
                        "replica_name": name,
                        "replica_listen": f"{LOOPBACK}:{port}",
                        "replica_secret_file": str(secret),
                    },
                )
            )
            for name, port in zip(REPLICAS, free_ports(len(REPLICAS)), strict=True)
        ]
        eventually(lambda: owners_at(gateways[0]) == len(REPLICAS), "bundles at all replicas")
        for gateway, (topic, names) in zip(gateways, SHIPMENTS.items(), strict=True):
            client = running.enter_context(client_of(gateway.service_url))
            for name in names:
                key_shared(client, topic, name, subscription_name="shipping")
        yield gateways[1]


@contextmanager
def troubled(broker: PulsarStandalone, place: Path) -> Iterator[KeylineGateway]:
    """Subscriptions in trouble and well ones; gives their gateway."""
    with (
        KeylineGateway(broker.service_url, broker.admin_url, place / "troubled") as gateway,
        client_of(gateway.service_url) as client,
    ):
        crews = {name: Crew(gateway, client, f"persistent://public/default/{name}") for name in TROUBLES}
        try:
            keys = {name: CAUSES[state](crews[name]) for name, state in TROUBLES.items() if state}
            for name, crew in crews.items():
                if name not in keys:
                    worked(crew, f"{name}-1", f"{name}-2").keep_sending(KEYS)
            for name, key in keys.items():
                crews[name].until(key, TROUBLES[name])
            yield gateway
        finally:
            for crew in crews.values():
                crew.end()


def take_home(browser: Browser, gateway: KeylineGateway, name: str, size: tuple[int, int], scheme: str) -> None:
    """All subscriptions, with the lines of some readings."""
    with fresh_page(browser, size, scheme) as (page, complaints):
        page.goto(gateway.admin_url)
        expect(page.locator("#home-table tbody tr")).to_have_count(len(TROUBLES))
        page.wait_for_timeout(3 * SETTLED_MS)
        keep(page, complaints, name)


def owners_at(gateway: KeylineGateway) -> int:
    """How many replicas own something."""
    return sum(each["bundles"] > 0 for each in gateway.deployment()["replicas"])


@contextmanager
def client_of(service_url: str) -> Iterator[pulsar.Client]:
    """A quiet one."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()


@contextmanager
def packer(gateway: KeylineGateway) -> Iterator[pulsar.Consumer]:
    """A worker of the shared subscription, whose replica has streams when this returns."""
    with client_of(gateway.service_url) as client:
        consumer = key_shared(client, PARCELS, "packer", subscription_name=PACKING).consumers["packer"]
        eventually(lambda: streams_at([gateway]) != [0], "streams at its replica")
        yield consumer


def streams_at(gateways: Sequence[KeylineGateway]) -> list[int]:
    """How many streams each has."""
    found = []
    for gateway in gateways:
        groups = (
            httpx.get(f"{gateway.admin_url}/api/v1/groups", trust_env=False, timeout=30)
            .raise_for_status()
            .json()["groups"]
        )
        found.append(sum(group["streams_here"] for group in groups))
    return found


def waiting_key(gateway: KeylineGateway) -> str:
    """A key that the late worker owns and the slow one holds."""
    path = f"{gateway.admin_url}/api/v1/subscriptions/public/default/orders/{SUBSCRIPTION}/explain"
    for key in KEYS:
        answer = httpx.get(path, params={"key": key}, trust_env=False, timeout=30).json()
        if answer["state"] == "draining" and answer["owner"] == LATE:
            return key
    raise AssertionError("no key waits for the slow worker")


def take(browser: Browser, gateway: KeylineGateway, key: str, name: str, size: tuple[int, int], scheme: str) -> None:
    """One picture."""
    with fresh_page(browser, size, scheme) as (page, complaints):
        asked = urlencode({"topic": TOPIC, "subscription": SUBSCRIPTION, "key": key})
        page.goto(f"{gateway.admin_url}/#{asked}")
        expect(page.locator("#workers-count")).to_have_text("5 workers", timeout=30_000)
        page.wait_for_timeout(SETTLED_MS)
        keep(page, complaints, name)


def take_producers(
    browser: Browser, gateway: KeylineGateway, topic: str, name: str, size: tuple[int, int], scheme: str
) -> None:
    """One of exclusive producers: of a topic, or of all."""
    with fresh_page(browser, size, scheme) as (page, complaints):
        page.goto(f"{gateway.admin_url}/#{urlencode({'producers': topic})}")
        expect(page.get_by_text("ledger-eu-2", exact=True).first).to_be_visible(timeout=30_000)
        if topic:
            expect(page.locator("#election-feed")).to_contain_text("ledger-eu-2 became the owner")
        keep(page, complaints, name)


def take_group(browser: Browser, gateway: KeylineGateway, name: str, size: tuple[int, int], scheme: str) -> None:
    """One of a group of replicas."""
    with fresh_page(browser, size, scheme) as (page, complaints):
        page.goto(f"{gateway.admin_url}/#{urlencode({'groups': PARCELS, 'subscription': PACKING})}")
        expect(page.locator("#strip")).to_be_visible(timeout=30_000)
        expect(page.locator("#streams").get_by_text("being released").first).to_be_visible()
        expect(page.locator("#group-feed")).to_contain_text("this replica leads")
        keep(page, complaints, name)


def take_owners(browser: Browser, gateway: KeylineGateway, name: str, size: tuple[int, int], scheme: str) -> None:
    """One of replicas in owner mode."""
    with fresh_page(browser, size, scheme) as (page, complaints):
        page.goto(f"{gateway.admin_url}/#groups")
        expect(page.locator("#owned-table tbody tr")).to_have_count(len(SHIPMENTS), timeout=30_000)
        keep(page, complaints, name)


def main() -> int:
    """Take them all."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with (
            PulsarStandalone(PULSAR_VERSIONS[0], data=place / "pulsar") as broker,
            KeylineGateway(
                broker.service_url, broker.admin_url, place / "gateway", settings={"drain_timeout_s": "0"}
            ) as gateway,
            written(gateway, broker),
            told(gateway) as key,
            chromium() as browser,
        ):
            take(browser, gateway, key, "console-1440x900-light.png", WIDE, "light")
            take(browser, gateway, key, "console-420x900-dark.png", NARROW, "dark")
            take_producers(browser, gateway, LEDGER, "console-producers-light.png", SMALL, "light")
            take_producers(browser, gateway, "", "console-producers-list-dark.png", SMALL, "dark")
            with troubled(broker, place) as gateway_in_trouble:
                take_home(browser, gateway_in_trouble, "console-home-light.png", WIDE, "light")
            with owned(broker, place) as replica:
                take_owners(browser, replica, "console-owners-light.png", MEDIUM, "light")
            with (
                KeylineGateway(broker.service_url, broker.admin_url, place / "answers") as asked,
                client_of(asked.service_url) as client,
            ):
                take_answers(browser, asked, client)
            take_report(browser, place)
            with shared(broker, place) as leader:
                take_group(browser, leader, "console-groups-light.png", TALL, "light")
    return 0


if __name__ == "__main__":
    sys.exit(main())
