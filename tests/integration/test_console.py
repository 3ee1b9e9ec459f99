"""The console in a real Chromium, over a real gateway, broker and official clients: what a person sees and can do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pulsar as pulsar_client
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.wire import pulsar_pb2 as pb
from tests.integration import browser as browsers
from tests.integration.browser import NARROW, WIDE, Complaints, chromium, fresh_page, load
from tests.integration.clients import Workers, key_shared, nothing_comes, numbered, receive, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.line_boxes import units_apart
from tests.integration.raw_client import RawClient

KEYS = [f"k{number}" for number in range(40)]
MARKUP = "<img src=x onerror=alert(1)>"
MANY = 300
LATE = 3
"""Workers that come while the page is looked at; a busy machine may hold it up once."""
COLOURS_OF_MANY = 250
"""So many of 300 workers' colours must be on the ring: some may be of a pixel too few."""
NewTopic = Callable[[str], str]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One browser for all of them. Playwright keeps a loop in this thread, so it must end with the module."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def gateway(pulsar: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeylineGateway]:
    """Over one broker only: the console does not know which it is."""
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, tmp_path_factory.mktemp("console")) as shared:
        yield shared


@dataclass
class Console:
    """The page, and what it may complain about."""

    page: Page
    complaints: Complaints
    allowed: list[str] = field(default_factory=list)
    """Parts of complaints that a test provokes."""

    def open(self, gateway: KeylineGateway, topic: str = "", **asked: str) -> Console:
        """At a topic's subscription `s`, by its address."""
        address = urlencode({"topic": topic, "subscription": "s", **asked}) if topic else ""
        load(self.page, self.complaints, f"{gateway.admin_url}/#{address}")
        return self

    def row(self, name: str) -> Locator:
        """A worker's row."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("rowheader").get_by_text(name, exact=True))

    def cell(self, name: str, label: str) -> Locator:
        """A cell of it, by its column."""
        return self.row(name).locator(f"[data-label='{label}']")

    def names(self) -> list[str]:
        """Workers in the table, as they stand."""
        return self.page.locator("#workers tbody .pick .name").all_inner_texts()

    @property
    def feed(self) -> Locator:
        """What happened."""
        return self.page.locator("#feed")

    @property
    def dialog(self) -> Locator:
        """The open dialog."""
        return self.page.get_by_role("dialog")

    def button(self, name: str) -> Locator:
        """By its accessible name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def search(self, key: str) -> Locator:
        """Ask for a key; where the answer stands."""
        self.page.get_by_role("searchbox", name="Message key").fill(key)
        self.button("Explain").click()
        return self.page.locator("#key-answer")


@pytest.fixture
def console(chrome: Browser, gateway: KeylineGateway) -> Iterator[Console]:
    """A page that must not complain, nor ask anybody but loopback."""
    with fresh_page(chrome) as (page, complaints):
        shown = Console(page, complaints)
        yield shown
        unexpected = [
            text for text in complaints.but_lost_connections() if not any(part in text for part in shown.allowed)
        ]
        assert unexpected == []
        assert {host.partition(":")[0] for host in complaints.hosts} == {urlsplit(gateway.admin_url).hostname}


def held_and_waiting(client: pulsar_client.Client, topic: str) -> tuple[Workers, list[Any], Workers]:
    """Worker `old` holds a message of each key; `new` joined and waits for about half of them."""
    old = key_shared(client, topic, "old")
    send_all(client.create_producer(topic), numbered(KEYS, len(KEYS)))
    held = old.receive(len(KEYS), acknowledge=False)
    return old, held, key_shared(client, topic, "new")


def waiting_key(gateway: KeylineGateway, topic: str) -> str:
    """A key that `new` owns and `old` holds."""
    path = topic.removeprefix("persistent://")
    for key in KEYS:
        answer = httpx.get(
            f"{gateway.admin_url}/api/v1/subscriptions/{path}/s/explain",
            params={"key": key},
            trust_env=False,
            timeout=30,
        ).json()
        if (answer["owner"], answer["holder"]) == ("new", "old"):
            return key
    raise AssertionError("no key moved")


# ---- what is seen


def test_a_person_chooses_a_subscription_and_sees_its_workers(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """From the list; the address then leads there again."""
    topic, other = new_topic("console-a"), new_topic("console-b")
    key_shared(client, topic, "w1", "w2")
    key_shared(client, other, "elsewhere")
    page = console.open(gateway).page
    expect(page.get_by_role("heading", level=1)).to_have_text("Subscriptions")
    name = topic.rpartition("/")[2]
    row = page.locator("#home-table tbody tr").filter(has_text=name)
    expect(row.locator("[data-label=Workers]")).to_have_text("2")
    row.get_by_role("link").click()
    expect(page.locator("#workers-count")).to_have_text("2 workers")
    assert console.names() == ["w1", "w2"]
    expect(console.cell("w1", "State")).to_have_text(re.compile("ready|no permits"))
    expect(console.row("w1")).to_contain_text("127.0.0.1:")
    expect(page.locator("#picker-list button").filter(has_text=name)).to_have_attribute("aria-current", "true")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_have_accessible_name(f"{topic.rpartition('/')[2]}, subscription s")


def test_a_join_and_a_leave_are_seen_as_they_happen(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """In the table, on the ring and in the feed, without a reload."""
    topic = new_topic("console-live")
    workers = key_shared(client, topic, "first")
    console.open(gateway, topic)
    expect(console.row("first")).to_be_visible()
    expect(console.feed).to_contain_text("first joined")
    console.page.evaluate("window.notReloaded = true")
    one = console.page.evaluate("document.getElementById('ring').toDataURL()")
    second = key_shared(client, topic, "second")
    expect(console.row("second")).to_be_visible()
    expect(console.feed).to_contain_text(
        re.compile(r"second joined from 127\.0\.0\.1:\d+; took \d+\.\d\s% of the slots from first")
    )
    expect(console.page.locator("#legend")).to_contain_text("second")
    eventually(
        lambda: console.page.evaluate("document.getElementById('ring').toDataURL()") != one, "the ring is drawn anew"
    )
    second.consumers["second"].close()
    expect(console.row("second")).to_have_count(0)
    expect(console.feed).to_contain_text("second left")
    assert console.page.evaluate("window.notReloaded")
    workers.consumers["first"].close()
    expect(console.page.get_by_role("heading", name="No worker consumes it now")).to_be_visible()
    console.allowed.append("status of 404")  # how the browser logs that the subscription has ended
    key_shared(client, topic, "third")
    expect(console.row("third")).to_be_visible()


def test_rates_come_from_two_readings(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """A worker that acknowledges has one, one that holds has none."""
    topic = new_topic("console-rates")
    workers = key_shared(client, topic, "busy")
    producer = client.create_producer(topic)
    console.open(gateway, topic)
    expect(console.cell("busy", "Acked/s")).to_have_text("0")

    def flows() -> bool:
        send_all(producer, numbered(KEYS, len(KEYS)))
        workers.receive(len(KEYS))
        return console.cell("busy", "Acked/s").inner_text() not in {"0", "\u2013"}

    eventually(flows, "a rate is shown")
    expect(console.cell("busy", "Last ack")).to_have_text(re.compile("now|ago"))


def test_a_key_that_waits_is_explained_until_it_flows(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """Who holds it, with which message, and what lets it go; and the ring shows where it is."""
    topic = new_topic("console-explain")
    old, held, new = held_and_waiting(client, topic)
    key = waiting_key(gateway, topic)
    client.create_producer(topic).send(b"next", partition_key=key)
    console.open(gateway, topic)
    expect(console.cell("old", "State")).to_have_text("handing over")
    answer = console.search(key)
    expect(answer).to_contain_text("Its hash slot moved to new, and 1 message of it is still at old: these go first.")
    expect(answer).to_contain_text("old must acknowledge or give back 1 message of the slot")
    first = next(message for message in held if message.partition_key() == key).message_id()
    expect(answer.get_by_role("row").nth(1)).to_contain_text(f"{first.ledger_id()}:{first.entry_id()}")
    expect(console.page.get_by_role("slider")).to_have_attribute(
        "aria-valuetext", re.compile("slot .*, new, .* drains at old")
    )
    assert f"key={key}" in console.page.url
    for width, height in (NARROW, WIDE):
        console.page.set_viewport_size({"width": width, "height": height})
        seen, apart = units_apart(console.page, "#key-answer")
        assert seen.count("1 message") >= 3, "the verdict, what waits and what unblocks it"
        assert apart == []
    for message in held:
        old.consumers["old"].acknowledge(message)
    assert receive(new.consumers["new"]).data() == b"next"
    expect(answer).to_contain_text("flowing")
    expect(console.feed).to_contain_text(re.compile("slots? .*handed over from old to new after .*none drains now"))
    expect(console.cell("old", "Draining")).to_have_text("0")


def test_a_slot_is_explained_from_the_ring(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """With the mouse or the arrow keys."""
    topic = new_topic("console-ring")
    key_shared(client, topic, "only")
    page = console.open(gateway, topic).page
    expect(page.locator("#ring-centre")).to_contain_text("1 worker")
    ring = page.get_by_role("slider", name="Hash slot")
    box = ring.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.14)
    expect(page.locator("#key-answer")).to_contain_text("Owneronly")
    assert "slot=" in page.url
    ring.press("Home")
    ring.press("Shift+ArrowRight")
    ring.press("PageDown")
    ring.press("PageUp")
    expect(ring).to_have_attribute("aria-valuenow", "4096")
    expect(ring).to_have_attribute(
        "aria-valuetext", re.compile(r"slot 4,096, only, in 1 to 65,535, owns 100\.0\s% of all")
    )
    ring.press("Enter")
    expect(page.locator("#key-text")).to_have_value("4096")


def test_names_that_are_markup_are_shown_as_they_are(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """They come from clients; so do keys."""
    topic = new_topic("console-markup")
    workers = key_shared(client, topic, MARKUP)
    client.create_producer(topic).send(b"x", partition_key=MARKUP)
    workers.receive(1, acknowledge=False)
    console.open(gateway, topic)
    expect(console.page.locator("#workers .pick .name")).to_have_text(MARKUP)
    expect(console.feed).to_contain_text(f"{MARKUP} joined")
    answer = console.search(MARKUP)
    expect(answer.locator(".verdict .name")).to_have_text(MARKUP)
    expect(answer).to_contain_text(f"Held by{MARKUP}")
    hot = console.page.get_by_role("table", name="Hot keys").get_by_role("row").filter(has_text=MARKUP)
    expect(hot.locator("[data-label=Unacked]")).to_have_text("1")
    expect(hot.locator("[data-label=Worker]")).to_have_text(MARKUP)
    console.search("another")
    hot.get_by_role("button", name=MARKUP).click()
    expect(answer).to_contain_text(f"Held by{MARKUP}")
    console.button(f"Evict {MARKUP}").click()
    expect(console.dialog.get_by_role("heading").first).to_have_text(f"Evict {MARKUP}?")
    assert console.page.locator("img").count() == 0


# ---- what can be done


def test_a_join_and_a_leave_are_previewed(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """In words and shares; nothing changes."""
    topic = new_topic("console-preview")
    old = key_shared(client, topic, "old", "other")
    send_all(client.create_producer(topic), numbered(KEYS, len(KEYS)))
    old.receive(len(KEYS), acknowledge=False)
    console.open(gateway, topic)
    console.button("Preview a join…").click()
    expect(console.dialog).to_contain_text(re.compile(r"new-worker joins\s*0\.0\s%\s*\d\d\.\d\s%"))
    console.dialog.get_by_label("Name of the worker").fill("candidate")
    console.dialog.get_by_role("button", name="Preview").click()
    expect(console.dialog).to_contain_text("candidate joins")
    expect(console.dialog).to_contain_text(
        re.compile(r"\d+\sslots would drain first: \d+\smessages must be acknowledged")
    )
    console.page.keyboard.press("Escape")
    expect(console.dialog).to_have_count(0)
    console.button("Preview that old leaves").click()
    expect(console.dialog).to_contain_text(re.compile(r"old leaves"))
    expect(console.dialog).to_contain_text("would be sent again, to other workers: duplicates")
    console.dialog.get_by_role("button", name="Close").click()
    assert console.names() == ["old", "other"]


def test_a_join_with_ranges_of_its_own_is_previewed(
    console: Console, gateway: KeylineGateway, new_topic: NewTopic
) -> None:
    """Of a STICKY subscription; ranges that are taken are refused in the gateway's words."""
    topic = new_topic("console-sticky")
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=999)])
    with RawClient(gateway.service_url).locate(topic).joined(topic, consumer_name="low", keySharedMeta=meta):
        console.open(gateway, topic)
        expect(console.page.locator("#subtitle")).to_contain_text("sticky ranges")
        console.button("Preview a join…").click()
        ranges = console.dialog.get_by_label("Its ranges")
        ranges.fill("1000-65535")
        ranges.press("Enter")
        expect(console.dialog).to_contain_text(re.compile(r"98\.5\s% of the hash space moves"))
        console.allowed += ["status of 409", "status of 400"]
        ranges.fill("500-2000")
        ranges.press("Enter")
        expect(console.dialog.locator(".problem").first).to_contain_text(
            re.compile("overlap|conflict|taken|low", re.IGNORECASE)
        )
        ranges.fill("nonsense")
        ranges.press("Enter")
        expect(console.dialog.locator(".problem").first).to_contain_text("sticky_ranges")


def test_a_worker_is_drained_after_a_confirmation_and_undrained(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """Cancelled, nothing happens; done, it gets nothing until that is undone."""
    topic = new_topic("console-drain")
    worker = key_shared(client, topic, "only").consumers["only"]
    console.open(gateway, topic)
    console.button("Drain only").click()
    expect(console.dialog).to_contain_text("It gets nothing new until this is undone")
    expect(console.dialog).to_contain_text("100.0 % of the hash space moves")
    console.dialog.get_by_role("button", name="Cancel").click()
    expect(console.cell("only", "State")).not_to_have_text("drained by operator")
    console.button("Drain only").click()
    console.dialog.get_by_role("button", name="Drain", exact=True).click()
    expect(console.cell("only", "State")).to_have_text("drained by operator")
    expect(console.feed).to_contain_text("ordered by 127.0.0.1, not authenticated: drain of only")
    client.create_producer(topic).send(b"x", partition_key="k")
    assert nothing_comes(worker)
    expect(console.search("k")).to_contain_text("only gets nothing new: an operator drains it")
    console.button("Undo drain of only").click()
    assert receive(worker).data() == b"x"
    expect(console.cell("only", "State")).not_to_have_text("drained by operator")


def test_a_worker_is_evicted_and_a_subscription_paused(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """Each after a confirmation; an official client comes again."""
    topic = new_topic("console-orders")
    worker = key_shared(client, topic, "only").consumers["only"]
    console.open(gateway, topic)
    console.button("Evict only").click()
    expect(console.dialog).to_contain_text("Official clients reconnect at once")
    console.dialog.get_by_role("button", name="Evict", exact=True).click()
    console.allowed.append("status of 404")  # while it is gone
    expect(console.feed).to_contain_text("only left: evicted by an operator")
    expect(console.row("only")).to_be_visible()
    console.button("Pause…").click()
    console.dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(console.page.locator("#figures")).to_contain_text("paused")
    client.create_producer(topic).send(b"x", partition_key="k")
    assert nothing_comes(worker)
    console.button("Resume").click()
    assert receive(worker).data() == b"x"


def test_a_read_only_gateway_says_why_it_takes_no_orders(
    console: Console, start_gateway: StartGateway, pulsar: PulsarStandalone, new_topic: NewTopic
) -> None:
    """Orders are disabled with the reason; previews are not, for they order nothing."""
    topic = new_topic("console-read-only")
    own = start_gateway(pulsar, admin_read_only="true")
    client = pulsar_client.Client(own.service_url, logger=pulsar_client.ConsoleLogger(pulsar_client.LoggerLevel.Error))
    key_shared(client, topic, "only")
    console.open(own, topic)
    expect(console.page.locator("#read-only")).to_contain_text("admin_read_only is true")
    for name in ("Drain only", "Evict only", "Pause…"):
        expect(console.button(name)).to_be_disabled()
        expect(console.button(name)).to_have_attribute("title", re.compile("admin_read_only"))
    console.button("Preview that only leaves").click()
    expect(console.dialog).to_contain_text("100.0 % of the hash space moves")
    client.close()


def test_a_refused_order_tells_the_gateways_reason(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """In the dialog that asked for it, which stays open."""
    topic = new_topic("console-refused")
    workers = key_shared(client, topic, "stays", "goes")
    console.open(gateway, topic)
    console.button("Evict goes").click()
    expect(console.dialog).to_contain_text("of the hash space moves")
    workers.consumers["goes"].close()
    expect(console.row("goes")).to_have_count(0)
    console.allowed.append("status of 404")
    console.dialog.get_by_role("button", name="Evict", exact=True).click()
    expect(console.dialog.get_by_role("alert")).to_contain_text("has no worker goes here; it has: stays")


# ---- when the gateway is not there


def test_a_broken_connection_is_shown_and_recovers(
    console: Console, start_gateway: StartGateway, pulsar: PulsarStandalone, new_topic: NewTopic
) -> None:
    """Values are greyed with their age and nothing can be ordered; then all is read anew, without a reload."""
    topic = new_topic("console-broken")
    own = start_gateway(pulsar, drain_timeout_s="0")
    client = pulsar_client.Client(own.service_url, logger=pulsar_client.ConsoleLogger(pulsar_client.LoggerLevel.Error))
    key_shared(client, topic, "only")
    console.open(own, topic)
    expect(console.page.locator("#connection")).to_have_text("live")
    expect(console.row("only")).to_be_visible()
    own.kill()
    banner = console.page.locator("#banner")
    expect(banner).to_contain_text(
        re.compile(r"Disconnected from the gateway \(.*\), reconnecting\. Values are .* old")
    )
    expect(console.button("Drain only")).to_be_disabled()
    expect(console.row("only")).to_be_visible()
    assert console.page.locator("#figures").evaluate("e => getComputedStyle(e).filter") == "grayscale(1)"
    own.start()
    expect(banner).to_be_hidden()
    console.allowed.append("status of 404")  # until its worker is back
    key_shared(client, topic, "another")
    expect(console.row("another")).to_be_visible()
    expect(console.row("only")).to_be_visible()
    expect(console.feed).to_contain_text("connected again")
    client.close()


def test_a_gateway_that_hangs_is_noticed(
    console: Console, start_gateway: StartGateway, pulsar: PulsarStandalone, new_topic: NewTopic
) -> None:
    """Its connections stay open, but nothing comes."""
    topic = new_topic("console-hangs")
    own = start_gateway(pulsar, drain_timeout_s="0")
    with RawClient(own.service_url).locate(topic).joined(topic, consumer_name="only"):
        console.open(own, topic)
        expect(console.row("only")).to_be_visible()
        own.pause()
        expect(console.page.locator("#banner")).to_contain_text("Disconnected from the gateway")
        own.resume()
        expect(console.page.locator("#banner")).to_be_hidden()
        expect(console.page.locator("#connection")).to_have_text("live")


def test_without_a_stream_the_page_still_reads(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """A gateway that lives and has no stream left says so; values come by the clock until it has one."""
    topic = new_topic("console-no-stream")
    key_shared(client, topic, "first")
    console.allowed.append("status of 503")
    refusal = {"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": "200 streams are open"}
    console.page.route("**/api/v1/events?*", lambda route: route.fulfill(status=503, json=refusal))
    console.open(gateway, topic)
    expect(console.page.locator("#banner")).to_have_text("No live events: 200 streams are open.")
    key_shared(client, topic, "second")
    expect(console.row("second")).to_be_visible()
    console.page.unroute("**/api/v1/events?*")
    expect(console.page.locator("#banner")).to_be_hidden()
    expect(console.feed).to_contain_text("second joined")


def test_a_gateway_that_is_back_without_a_stream_is_told_as_found(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """It was lost, and it answers: the feed does not end with its loss."""
    topic = new_topic("console-back")
    key_shared(client, topic, "only")
    console.page.route("**/api/v1/events?*", lambda route: route.abort("connectionrefused"))
    console.open(gateway, topic)
    expect(console.feed).to_contain_text("disconnected from the gateway")
    console.allowed.append("status of 503")
    console.page.unroute("**/api/v1/events?*")
    console.page.route("**/api/v1/events?*", lambda route: route.fulfill(status=503, json={"detail": "many are open"}))
    expect(console.page.locator("#banner")).to_contain_text("No live events")
    expect(console.feed).to_contain_text("connected again; the page is reloaded")


def test_a_hidden_page_lets_its_connection_go(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """Browsers allow six to a host. Looked at again, it has missed nothing."""
    topic = new_topic("console-hidden")
    key_shared(client, topic, "first")
    page = console.page
    page.clock.install()
    console.open(gateway, topic)
    expect(console.feed).to_contain_text("first joined")
    ended: list[str] = []
    page.on("requestfailed", lambda request: ended.append(request.url))
    turn = "(state) => { Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });"
    turn += " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(turn, "hidden")
    page.clock.fast_forward(61_000)
    seen_by(page, lambda: any("/api/v1/events" in url for url in ended), "its connection to end")
    key_shared(client, topic, "second")
    page.evaluate(turn, "visible")
    expect(console.feed).to_contain_text("second joined")
    expect(console.row("second")).to_be_visible()
    expect(console.page.locator("#connection")).to_have_text("live")


def seen_by(page: Page, condition: Callable[[], bool], what: str) -> None:
    """Wait for something that the browser tells when it comes to it."""

    def holds() -> bool:
        page.wait_for_timeout(20)  # which lets its messages in
        return condition()

    eventually(holds, what)


def test_the_policy_holds(chrome: Browser, gateway: KeylineGateway) -> None:
    """Were a name ever taken for markup, nothing in it would run and nothing would leave; and these tests would see."""
    with fresh_page(chrome) as (page, complaints):
        Console(page, complaints).open(gateway)
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = true";
                const picture = document.createElement("img");
                picture.src = "http://127.0.0.2:9/x.png";
                document.body.append(script, picture);
            }"""
        )
        expect(page.get_by_role("heading", name="Subscriptions", level=1)).to_be_attached()
        assert page.evaluate("window.ran") is None
        seen_by(page, lambda: len(complaints.errors) >= 2 and "127.0.0.2:9" in complaints.hosts, "two complaints")
        assert len(complaints.errors) == 2, complaints.errors
        assert all("Content Security Policy" in error for error in complaints.errors), complaints.errors
        assert "127.0.0.2:9" in complaints.hosts


def test_events_that_were_missed_are_made_up_for(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """The gateway tells how many it had to leave out; the page tells the person, and reads everything."""
    topic = new_topic("console-missed")
    key_shared(client, topic, "only")
    event = {
        "number": 1,
        "kind": "operator_order",
        "at": 1,
        "topic": topic,
        "subscription": "s",
        "facts": {"order": "limits"},
    }
    body = f'id: 1\nevent: operator_order\ndata: {json.dumps(event)}\n\nevent: missed\ndata: {{"count": 3}}\n\n'
    console.page.route("**/api/v1/events?*", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    console.open(gateway, topic)
    expect(console.feed).to_contain_text("events were missed; the page is reloaded")
    expect(console.feed).to_contain_text("operator's order: limits")
    expect(console.feed).to_contain_text("disconnected from the gateway")
    console.page.unroute("**/api/v1/events?*")
    expect(console.row("only")).to_be_visible()
    expect(console.page.locator("#connection")).to_have_text("live")


# ---- many


def test_three_hundred_workers(console: Console, gateway: KeylineGateway, new_topic: NewTopic) -> None:
    """Counted, paged, filtered and sorted; each has a colour on the ring, and the page stays quick."""
    topic = new_topic("console-many")
    page = console.page
    page.add_init_script(
        "window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries()"
        ".map((entry) => entry.duration))).observe({ type: 'longtask', buffered: true })"
    )
    with RawClient(gateway.service_url).locate(topic) as raw:
        for number in range(1, MANY + 1):
            raw.joined(topic, consumer_id=number, consumer_name=f"pod-{number}")
        console.open(gateway, topic)
        expect(page.locator("#workers-count")).to_have_text("300 workers")
        expect(page.locator("#ring-centre")).to_contain_text(re.compile(r"300\sworkers.*\d\d,\d{3}\sranges", re.DOTALL))
        assert console.names() == [f"pod-{number}" for number in range(1, 51)]
        console.button("Next").click()
        eventually(lambda: console.names()[0] == "pod-51", "the second page")
        eventually(lambda: colours_on_ring(page) > COLOURS_OF_MANY, "the ring has everybody's colour")
        page.get_by_role("searchbox", name="Filter workers").fill("pod-29")
        expect(page.locator("#workers-count")).to_have_text("11 of 300 workers")
        page.get_by_role("columnheader", name="Share").get_by_role("button").click()
        shares = [float(text.split()[0]) for text in page.locator("#workers td[data-label=Share]").all_inner_texts()]
        assert shares == sorted(shares, reverse=True)
        stuck_ms = []
        for number in range(MANY + 1, MANY + 1 + LATE):
            page.evaluate("window.long.length = 0")
            raw.subscribe(topic, consumer_id=number, consumer_name=f"pod-late-{number}")
            expect(page.locator("#workers-count")).to_contain_text(f"of {number} workers")
            stuck_ms.append(max(page.evaluate("window.long"), default=0))
        assert min(stuck_ms) < 500, f"the page was stuck each time: {stuck_ms}"


def colours_on_ring(page: Page) -> int:
    """Different colours among the ring's pixels, those aside that only its smoothed edges have."""
    return int(
        page.evaluate(
            """() => {
                const canvas = document.getElementById("ring");
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                const counts = new Map();
                for (const pixel of new Uint32Array(data.buffer)) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
                return [...counts.values()].filter((count) => count > 20).length;
            }"""
        )
    )


# ---- for everybody


def test_everything_has_a_name_and_is_reached_by_keyboard(
    console: Console, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """Buttons, fields and pictures are named; Tab goes from the skip link to the orders, and the focus is seen."""
    topic = new_topic("console-keys")
    key_shared(client, topic, "only")
    page = console.open(gateway, topic).page
    expect(console.row("only")).to_be_visible()
    page.get_by_text("Ring as a table").click()
    controls = [
        control
        for role in ("button", "textbox", "searchbox", "combobox", "slider", "link", "table", "navigation", "region")
        for control in page.get_by_role(role).all()
    ]
    assert len(controls) > 20
    # The snapshot of a named one begins so: - button "Explain"
    unnamed = [
        control.evaluate("e => e.outerHTML")
        for control in controls
        if not re.search(r'"\S', control.aria_snapshot().splitlines()[0])
    ]
    assert unnamed == []
    page.locator("body").evaluate("e => { e.tabIndex = -1; e.focus(); e.removeAttribute('tabindex'); }")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent.trim()"))
        if reached[-1] == "Evict only":
            break
    assert reached[0] == "Skip to the subscription"
    wanted = ["Preview a join…", "Pause…", "Hash slot", "Message key", "Filter workers", "Drain only", "Evict only"]
    assert [name for name in reached if name in wanted] == wanted
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(console.dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(console.button("Evict only")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(
    chrome: Browser,
    gateway: KeylineGateway,
    client: pulsar_client.Client,
    new_topic: NewTopic,
    scheme: str,
) -> None:
    """Contrast of all text is at least WCAG's AA, in both themes."""
    topic = new_topic(f"console-contrast-{scheme}")
    held_and_waiting(client, topic)
    with fresh_page(chrome, scheme=scheme) as (page, complaints):
        console = Console(page, complaints).open(gateway, topic)
        expect(console.row("new")).to_be_visible()
        expect(console.search("k1")).to_contain_text("Slot")
        assert page.evaluate(CONTRASTS) == []


CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = (css) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0);
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = rgb(getComputedStyle(at).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !element.checkVisibility() || element.closest(":disabled, .unseen, noscript, canvas")) continue;
        const [a, b] = [luminance(rgb(getComputedStyle(element).color)), luminance(ground(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) found.push([element.outerHTML.slice(0, 120), ratio]);
    }
    return found;
}"""


def test_a_theme_is_kept_and_small_screens_need_no_sideways_scrolling(
    chrome: Browser, gateway: KeylineGateway, client: pulsar_client.Client, new_topic: NewTopic
) -> None:
    """Chosen once, dark against a light system; the list is behind a button there."""
    topic = new_topic("console-small")
    held_and_waiting(client, topic)
    with fresh_page(chrome, browsers.NARROW, reduced_motion="reduce") as (page, complaints):
        console = Console(page, complaints).open(gateway, topic)
        expect(console.row("new")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 246, 244)"
        page.get_by_label("Theme").select_option("dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 19, 22)"
        page.reload()
        expect(console.row("new")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 19, 22)"
        assert page.evaluate("document.documentElement.scrollWidth") == browsers.NARROW[0]
        expect(page.get_by_role("navigation")).to_be_hidden()
        page.get_by_role("link", name="Subscriptions", exact=True).click()
        expect(page.locator("#home-table")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == browsers.NARROW[0]
        assert complaints.errors == []
