"""Parked keys, ack leases, quarantine and exclusion in the console: a real Chromium, gateway, broker and client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pulsar
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.browser import NARROW, WIDE, chromium, fresh_page, load
from tests.integration.clients import available, key_shared, receive, send_all
from tests.integration.conditions import eventually
from tests.integration.parked_rig import PARKS, parked, refuse

NewTopic = Callable[[str], str]
LEASE_MS = 10_000
"""Longer than a page takes to show it."""
MARKUP = "<img src=x onerror=alert(1)>"

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One browser for all of them."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def parking(pulsar: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeylineGateway]:
    """A gateway that parks keys."""
    place = tmp_path_factory.mktemp("console-parked")
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, place, settings=PARKS) as gateway:
        yield gateway


@pytest.fixture
def client(parking: KeylineGateway) -> Iterator[pulsar.Client]:
    """An official client of it."""
    made = pulsar.Client(parking.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield made
    made.close()


def address(gateway: KeylineGateway, topic: str) -> str:
    """Of the page of the topic's subscription `s`."""
    return f"{gateway.admin_url}/#{urlencode({'topic': topic, 'subscription': 's'})}"


def fits(page: Page) -> bool:
    """Whether no part of it is beside the screen."""
    found: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return found


def with_parked(
    gateway: KeylineGateway, client: pulsar.Client, topic: str, keys: list[str]
) -> tuple[pulsar.Consumer, pulsar.Producer]:
    """Of each key three messages are parked."""
    consumer = key_shared(client, topic, "billing-1", negative_ack_redelivery_delay_ms=50).consumers["billing-1"]
    producer = client.create_producer(topic)
    for key in keys:
        send_all(producer, [(key, b"poison"), (key, b"second"), (key, b"third")])

    def all_parked() -> bool:
        return all(len(parked(gateway, topic, key)) == 3 for key in keys)

    refuse(consumer, b"poison", all_parked, "three messages of each key are parked")
    return consumer, producer


def test_parked_keys_are_listed_inspected_redriven_and_dropped(
    chrome: Browser, parking: KeylineGateway, client: pulsar.Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Each order after a confirmation that says what it does; cancelled, nothing happens."""
    topic = new_topic("console-parked")
    consumer, producer = with_parked(parking, client, topic, ["customer-17", MARKUP])
    with fresh_page(chrome) as (page, complaints):
        load(page, complaints, address(parking, topic))
        rows = page.locator("#parked-table tbody tr")
        expect(rows).to_have_count(2)
        expect(page.locator("#parked-count")).to_have_text(re.compile(r"2\sslots with 6\smessages in .*-s-PARKED"))
        row, marked = rows.filter(has_text="customer-17"), rows.filter(has_text=MARKUP)
        expect(row.locator("[data-label=State]")).to_have_text("parked")
        expect(row.locator("[data-label=Messages]")).to_have_text("3")
        expect(row.locator("[data-label=Attempts]")).to_have_text("2")
        page.screenshot(path=tmp_path / "parked-wide.png", full_page=True)
        row.get_by_role("button", name="Inspect").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("tbody tr")).to_have_count(3)
        expect(dialog.locator("tbody tr").first).to_contain_text("customer-17")
        page.screenshot(path=tmp_path / "parked-inspected.png")
        dialog.get_by_role("button", name="Close").click()
        row.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("3 parked messages")
        page.screenshot(path=tmp_path / "parked-redrive.png")
        dialog.get_by_role("button", name="Cancel").click()
        assert len(parked(parking, topic, "customer-17")) == 3
        row.get_by_role("button", name="Redrive").click()
        dialog.get_by_role("button", name="Redrive", exact=True).click()
        for payload in (b"poison", b"second", b"third"):
            message = receive(consumer)
            assert (message.data(), message.partition_key()) == (payload, "customer-17")
            consumer.acknowledge(message)
        expect(row).to_have_count(0)
        expect(page.locator("#feed")).to_contain_text("all that was parked is acknowledged")
        marked.get_by_role("button", name="Drop").click()
        expect(dialog).to_contain_text("cannot be undone")
        dialog.get_by_role("button", name="Drop", exact=True).click()
        expect(page.locator("#parked-card")).to_be_hidden()
        expect(page.locator("#feed")).to_contain_text("what was parked was deleted")
        send_all(producer, [(MARKUP, b"new")])
        assert receive(consumer).data() == b"new"
        assert complaints.errors == []


def test_parked_keys_are_seen_on_a_phone_and_a_trouble_of_their_topic_is_told(
    chrome: Browser, parking: KeylineGateway, client: pulsar.Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Nothing is beside the screen; what the gateway says of the parking topic stands above the keys."""
    topic = new_topic("console-parked-phone")
    with_parked(parking, client, topic, ["customer-17"])

    def troubled(route: Route) -> None:
        answer = route.fetch().json() | {"trouble": "it is no more", "parked_slots": 300}
        route.fulfill(body=json.dumps(answer), content_type="application/json")

    with fresh_page(chrome, NARROW, "dark") as (page, complaints):
        page.route("**/parked?*", troubled)
        load(page, complaints, address(parking, topic))
        expect(page.locator("#parked-trouble")).to_contain_text("keys wait: it is no more")
        expect(page.locator("#parked-note")).to_contain_text("299 more slots")
        expect(page.get_by_role("button", name=re.compile("Redrive"))).to_be_visible()
        page.screenshot(path=tmp_path / "parked-narrow.png", full_page=True)
        assert fits(page)
        assert complaints.errors == []


def test_a_lease_a_quarantine_and_an_exclusion_are_seen_and_ended(
    chrome: Browser, parking: KeylineGateway, client: pulsar.Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    """When a worker loses its keys; who has none, why and until when; readmitted, it is a worker again."""
    topic = new_topic("console-kept-out")
    rule = {
        "keyline.ack-lease-ms": str(LEASE_MS),
        "keyline.quarantine-after": "1",
        "keyline.quarantine-ms": "600000",
    }
    workers = key_shared(client, topic, "hangs", "works", "odd", properties=rule)
    with fresh_page(chrome) as (page, complaints):
        load(page, complaints, address(parking, topic))
        shown = page.locator("#workers tbody tr")
        expect(shown).to_have_count(3)
        send_all(client.create_producer(topic), [(f"k{number}", b"x") for number in range(60)])
        # The one that hangs takes what it gets, and acknowledges nothing.
        lease = shown.filter(has_text="hangs").locator(".lease", has_text="lease: ")

        def others_work() -> None:
            """Whatever the page and the machine take: else these lose their leases too."""
            for name in ("works", "odd"):
                for message in available(workers.consumers[name]):
                    workers.consumers[name].acknowledge(message)

        def leased() -> bool:
            others_work()
            return lease.count() == 1

        eventually(leased, "the lease of the worker that hangs is shown")
        page.screenshot(path=tmp_path / "lease.png", full_page=True)
        out = page.locator("#kept-out-table tbody tr")

        def quarantined() -> bool:
            others_work()
            return out.count() == 1

        eventually(quarantined, "the worker that hangs is quarantined")
        expect(out).to_contain_text("hangs")
        expect(out).to_contain_text("quarantined")
        expect(out).to_contain_text(re.compile(r"its quarantine is over, in \d+.min"))
        expect(shown).to_have_count(2)
        page.get_by_role("button", name="Exclude odd").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("it owns no keys until it is readmitted")
        expect(dialog).to_contain_text("of the hash space moves")
        dialog.get_by_role("button", name="Exclude", exact=True).click()
        odd = out.filter(has_text="odd")
        expect(odd).to_contain_text("an operator readmits it")
        expect(odd).to_contain_text("127.0.0.1:")
        expect(shown).to_have_count(1)
        page.screenshot(path=tmp_path / "kept-out.png", full_page=True)
        for name in ("odd", "hangs"):
            page.get_by_role("button", name=f"Readmit {name}").click()
            expect(shown.filter(has_text=name)).to_have_count(1)
        expect(page.locator("#kept-out-card")).to_be_hidden()
        assert complaints.errors == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_read_only_gateway_takes_no_key_out(
    chrome: Browser, parking: KeylineGateway, client: pulsar.Client, new_topic: NewTopic, size: tuple[int, int]
) -> None:
    """What may be looked at is; orders are disabled, with the reason."""
    topic = new_topic("console-parked-read-only")
    with_parked(parking, client, topic, ["customer-17"])
    with fresh_page(chrome, size) as (page, complaints):
        told = {"admin_read_only": {"value": True}, "listen": {"value": "127.0.0.1:1"}}
        page.route("**/api/v1/configuration", lambda route: route.fulfill(json=told))
        load(page, complaints, address(parking, topic))
        for order in ("Redrive", "Drop"):
            button = page.locator("#parked-table").get_by_role("button", name=re.compile(order))
            expect(button).to_be_disabled()
            expect(button).to_have_attribute("title", re.compile("admin_read_only"))
        page.locator("#parked-table").get_by_role("button", name=re.compile("Inspect")).click()
        expect(page.get_by_role("dialog").locator("tbody tr")).to_have_count(3)
        assert complaints.errors == []
