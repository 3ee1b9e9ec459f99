"""The console's view of groups of replicas in a real Chromium, over real gateways that share subscriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pulsar as pulsar_client
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.browser import Complaints, chromium, fresh_page, load
from tests.integration.clients import Workers, key_shared
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.test_console import CONTRASTS, MARKUP, NewTopic

SUBSCRIPTION = "s"
STREAMS = 16
NARROWEST = (375, 800)
SIDEWAYS = "document.documentElement.scrollWidth > innerWidth"
CUT_OFF = """(badges) => badges
    .filter((badge) => badge.getBoundingClientRect().right > badge.parentElement.getBoundingClientRect().right)
    .map((badge) => badge.textContent)"""
"""Badges that are broader than their cells."""
Join = Callable[..., Workers]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One browser for all of them. Playwright keeps a loop in this thread, so it must end with the module."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def replicas(
    pulsar: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KeylineGateway, KeylineGateway]]:
    """`left` and `right`, which no test stops."""
    with ExitStack() as running:
        started = [
            running.enter_context(
                KeylineGateway(
                    pulsar.service_url,
                    pulsar.admin_url,
                    tmp_path_factory.mktemp(name),
                    settings={"groups_enabled": "true", "groups_mode": "streams", "replica_name": name},
                )
            )
            for name in ("left", "right")
        ]
        yield started[0], started[1]


@pytest.fixture
def join() -> Iterator[Join]:
    """Let a worker of the subscription join at a gateway: `join(gateway, topic)`. A client of its own each."""
    with ExitStack() as clients:

        def joined(gateway: KeylineGateway, topic: str, subscription: str = SUBSCRIPTION) -> Workers:
            logger = pulsar_client.ConsoleLogger(pulsar_client.LoggerLevel.Error)
            client = pulsar_client.Client(gateway.service_url, logger=logger)
            clients.callback(client.close)
            return key_shared(client, topic, "w", subscription_name=subscription)

        yield joined


@dataclass
class View:
    """The page."""

    page: Page
    complaints: Complaints

    def open(self, gateway: KeylineGateway, topic: str | None = None, subscription: str = SUBSCRIPTION) -> View:
        """At the list, or at a group, by its address."""
        asked = "groups" if topic is None else urlencode({"groups": topic, "subscription": subscription})
        load(self.page, self.complaints, f"{gateway.admin_url}/#{asked}")
        return self

    def group(self, topic: str) -> Locator:
        """A group's row in the list."""
        return self.page.locator("#group-table tbody tr").filter(has_text=local_name(topic))

    def figure(self, term: str) -> Locator:
        """What the head tells under this term."""
        terms = self.page.locator("#group-figures > div")
        return terms.filter(has=self.page.get_by_text(term, exact=True)).locator("dd")

    def on_strip(self, words: str = "stream") -> Locator:
        """Streams of which the strip says these words."""
        return self.page.locator(f"#strip button[aria-label*='{words}']")

    def rows(self, words: str) -> Locator:
        """Rows of the table of streams with these words."""
        return self.page.locator("#streams tbody tr").filter(has_text=words)

    def sessions(self) -> Locator:
        """Rows of the table of sessions."""
        return self.page.locator("#sessions tbody tr")

    def chip(self, replica: str) -> Locator:
        """A replica in the legend."""
        return self.page.locator("#strip-legend button").filter(has_text=replica)

    def colour(self, replica: str) -> Any:
        """That of a replica, as it is drawn."""
        return self.chip(replica).locator(".swatch").evaluate("(swatch) => getComputedStyle(swatch).backgroundColor")

    @property
    def feed(self) -> Locator:
        """What happened."""
        return self.page.locator("#group-feed")


@pytest.fixture
def view(chrome: Browser) -> Iterator[View]:
    """A page that must not complain, nor ask anybody but loopback."""
    with fresh_page(chrome) as (page, complaints):
        yield View(page, complaints)
        # A group that this replica is not in is answered with 404, which a browser logs by itself.
        assert [text for text in complaints.but_lost_connections() if "status of 404" not in text] == []
        assert {host.partition(":")[0] for host in complaints.hosts} == {"127.0.0.1"}


def local_name(topic: str) -> str:
    """What a person calls it."""
    return topic.rpartition("/")[2]


def told(gateway: KeylineGateway, topic: str) -> Any:
    """What the gateway's API answers about the topic's group; None if it is in none."""
    path = topic.removeprefix("persistent://")
    answer = httpx.get(f"{gateway.admin_url}/api/v1/groups/{path}/{SUBSCRIPTION}", trust_env=False, timeout=30)
    return None if answer.status_code == httpx.codes.NOT_FOUND else answer.raise_for_status().json()


def led_by(gateway: KeylineGateway, topic: str, join: Join) -> Workers:
    """The gateway's first worker joins: it leads, and has all streams."""
    workers = join(gateway, topic)
    eventually(lambda: all_at(gateway, topic), "one replica leads and has everything")
    return workers


def all_at(gateway: KeylineGateway, topic: str) -> bool:
    """Whether this replica leads and consumes all streams."""
    group = told(gateway, topic)
    ready = [] if group is None else [row for row in group["streams"] if row["upstream_state"] == "ready"]
    return group is not None and group["summary"]["leads"] and len(ready) == STREAMS


# ---- what is seen


def test_a_person_comes_from_the_list_to_a_group_and_its_streams(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """The address leads there again, and back leads to the list, to where one was."""
    left, _ = replicas
    topic = new_topic("console-groups")
    led_by(left, topic, join)
    page = view.page
    load(page, view.complaints, left.admin_url)
    page.get_by_role("link", name="Groups", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups of replicas")
    expect(view.group(topic).locator("td")).to_have_text(
        [SUBSCRIPTION, "delivers", "this replica", re.compile(r"^[\d,]+$"), f"{STREAMS} of {STREAMS}", "1"]
    )
    view.group(topic).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(view.figure("This replica")).to_contain_text("delivers")
    expect(view.figure("Leader")).to_have_text(re.compile("^this replicaleft-"))
    expect(view.figure("Lease")).to_have_text(re.compile(r"^\d\.\d\ss left" + r"until \d+:\d\d:\d\d"))
    expect(view.on_strip("left-")).to_have_count(STREAMS)
    expect(view.rows("delivered here")).to_have_count(STREAMS)
    expect(view.rows("delivered here").last.locator("td").first).to_have_text("61,440 to 65,535")
    expect(view.sessions()).to_have_count(1)
    expect(view.feed).to_contain_text(re.compile(rf"leases of {STREAMS}\sstreams \(0 to 15\) from left-\w+, epoch \d+"))
    expect(view.feed).to_contain_text("connected to the broker for stream")
    address = page.url
    page.go_back()
    expect(view.group(topic).get_by_role("link")).to_be_focused()
    page.goto("about:blank")
    page.goto(address)
    expect(view.figure("Streams here")).to_have_text(f"{STREAMS} of {STREAMS}")
    assert page.title() == f"{local_name(topic)} / {SUBSCRIPTION}, group \u2013 Keyline"


def test_streams_are_seen_to_move_when_a_replica_joins_and_leaves(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """On the strip, in both tables and among what happens; nobody has to reload, and nobody's colour changes."""
    left, right = replicas
    topic = new_topic("console-moves")
    led_by(left, topic, join)
    page = view.open(left, topic).page
    expect(view.on_strip("left-")).to_have_count(STREAMS)
    page.evaluate("window.notReloaded = true")
    colour = view.colour("left-")
    late = join(right, topic)
    expect(view.on_strip("right-")).to_have_count(STREAMS // 2)
    expect(view.rows("right-")).to_have_count(STREAMS // 2)
    expect(view.rows("delivered here")).to_have_count(STREAMS // 2)
    expect(view.sessions()).to_have_count(2)
    expect(view.figure("Streams here")).to_have_text(f"{STREAMS // 2} of {STREAMS}")
    expect(view.figure("Workers here").locator("small")).to_have_text("2 workers in all")
    expect(view.feed).to_contain_text(re.compile(r"streams?\s.*\sreleased\s(at once|after)"))
    assert view.colour("left-") == colour != view.colour("right-")
    late.consumers["w"].close()
    expect(view.on_strip("left-")).to_have_count(STREAMS)
    expect(view.rows("right-")).to_have_count(0)
    expect(view.sessions()).to_have_count(1)
    expect(view.chip("right-")).to_have_count(0)
    assert view.colour("left-") == colour
    assert page.evaluate("window.notReloaded")


def test_a_replica_that_does_not_lead_says_who_does_and_what_it_does_not_know(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """Of others' streams it shows the places only."""
    left, right = replicas
    topic = new_topic("console-follower")
    led_by(left, topic, join)
    join(right, topic)
    page = view.open(right, topic).page
    half = STREAMS // 2
    expect(view.rows("delivered here")).to_have_count(half)
    expect(view.on_strip("right-")).to_have_count(half)
    expect(view.on_strip("not here")).to_have_count(half)
    expect(view.figure("Leader")).to_have_text(re.compile("^another replicaleft-"))
    leader = told(left, topic)["summary"]["replica"]
    expect(page.locator("#streams-note")).to_have_text(
        f"{half} other streams are not here. Only the leader knows their owners: see {leader}."
    )
    expect(page.locator("#sessions-note")).to_have_text(f"Only the leader knows them: see {leader}.")
    expect(page.locator("#sessions")).to_be_hidden()
    expect(view.rows("delivered here").first.locator("[data-label=Lease]")).to_have_text(re.compile(r"^\d\ss left$"))


def test_a_group_that_this_replica_is_not_in_is_told_and_found_when_it_is(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """The first worker makes it take part; with the last one it leaves."""
    left, _ = replicas
    topic = new_topic("console-absent")
    page = view.open(left, topic).page
    absent = page.locator("#group-absent")
    expect(absent).to_contain_text("This replica is not in the group now")
    worker = join(left, topic).consumers["w"]
    expect(view.on_strip("left-")).to_have_count(STREAMS)
    expect(absent).to_be_hidden()
    worker.close()
    expect(absent).to_contain_text("This replica is not in the group now")
    expect(page.locator("#strip-card")).to_be_hidden()
    expect(view.feed).to_contain_text("this replica left the group")


def test_a_gateway_that_shares_nothing_says_which_setting_lets_it(
    view: View, start_gateway: StartGateway, pulsar: PulsarStandalone, new_topic: NewTopic, join: Join
) -> None:
    """In the list and under a group's address; one that shares and has no worker says that instead."""
    alone = start_gateway(pulsar, replica_name="alone")
    topic = new_topic("console-alone")
    join(alone, topic)
    page = view.open(alone).page
    expect(page.locator("#group-table-note")).to_contain_text("not enabled on this gateway. The setting groups_enabled")
    expect(page.locator("#groups-figures")).to_be_hidden()
    view.open(alone, topic)
    expect(page.locator("#group-absent")).to_contain_text("not enabled on this gateway. The setting groups_enabled")
    idle = start_gateway(pulsar, replica_name="idle", groups_enabled="true", groups_mode="streams")
    view.open(idle)
    expect(page.locator("#group-table-note")).to_contain_text("No worker consumes a Key_Shared subscription")
    expect(page.locator("#groups-figures")).to_contain_text(re.compile(r"idle-\w{8}"))


def altered(group: Any) -> Any:
    """An answer of the leader with a stream of each state, of 0 to 6, and the session of another replica."""
    own, holdings = group["leading"]["sessions"][0], {row["stream"]: row for row in group["streams"]}
    progress = group["leading"]["streams"]
    for stream in (1, 3, 4, 5):
        del holdings[stream]
    for stream in (4, 5):
        progress[stream]["owner"] = "other-1"
    progress[1]["owner"] = progress[3]["owner"] = None
    progress[4]["refused"] = True
    holdings[2]["holding"] = "held"
    holdings[6] |= {"upstream_state": "backing_off", "upstream_error": "ConsumerBusy: still there"}
    own["streams"] = sorted(set(own["streams"]) - {1, 3, 4, 5})
    other = {"replica": "other-1", "number": 7, "state": "updating", "workers_count": 2, "version": 9}
    other |= {"streams": [4], "streams_releasing": [5], "heard_s": 4.2}
    group["leading"]["sessions"].append(other)
    return group | {"streams": list(holdings.values())}


def answer_altered(route: Route) -> None:
    """In place of the gateway's answer."""
    route.fulfill(json=altered(route.fetch().json()))


def test_states_are_told_apart_without_their_colours(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """Each has a pattern of its own, in the legend of patterns too, and words."""
    left, _ = replicas
    topic = new_topic("console-states")
    led_by(left, topic, join)
    view.page.route("**/api/v1/groups/**", answer_altered)
    page = view.open(left, topic).page
    states = ["delivered here", "without an owner", "held, not delivered", "without an owner"]
    states += ["refused by the broker", "being released", "being opened"]
    for stream, state in enumerate(states):
        expect(view.on_strip().nth(stream)).to_have_attribute("aria-label", re.compile(f", {state}$"))
        expect(page.locator("#streams tbody tr").nth(stream).locator(".badge")).to_have_text(state)
    expect(view.rows("ConsumerBusy: still there")).to_have_count(1)
    drawn = page.locator("#strip button i").evaluate_all(PATTERNS)
    different = {drawn[stream] for stream in (0, 1, 2, 4, 5, 6)}
    assert len(different) == 6, drawn
    assert drawn[1] == drawn[3]
    meant = page.locator("#strip-looks li")
    expect(meant).to_have_text(
        [
            "leased: 10",
            "being opened: 1",
            "being released: 1",
            "held, not delivered: 1",
            "refused by the broker: 1",
            "without an owner: 2",
        ]
    )
    assert set(page.locator("#strip-looks i").evaluate_all(PATTERNS)) == different
    silent = view.sessions().filter(has_text="other-1").locator("[data-label='Last heard']")
    expect(silent).to_have_text("4 s ago")
    expect(silent).to_have_attribute("data-some", "")


PATTERNS = r"""(blocks) => blocks.map((block) => {
    const { backgroundImage, backgroundColor, borderStyle, borderColor } = getComputedStyle(block);
    const colourless = (colour) => (colour === "rgba(0, 0, 0, 0)" ? "-" : "#");
    const pattern = backgroundImage.replaceAll(/rgba?\([^)]*\)/g, colourless);
    return [pattern, borderStyle, backgroundColor === borderColor].join(" ");
})"""
"""How each is drawn, whatever the colour."""


# ---- finding one's way


def test_the_strip_is_walked_by_keyboard(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """One place in the order of tabs; arrows go by stream, and Enter to its row."""
    left, _ = replicas
    topic = new_topic("console-keys")
    led_by(left, topic, join)
    page = view.open(left, topic).page
    expect(view.on_strip("left-")).to_have_count(STREAMS)
    said = page.locator("#strip-told")
    view.on_strip().first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    expect(said).to_have_text(re.compile(r"^stream 1, slots 4,096 to 8,191, left-\w+, delivered here$"))
    page.keyboard.press("End")
    expect(said).to_have_text(re.compile("^stream 15, "))
    assert page.locator("#strip button[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    expect(page.locator("#streams tbody th").last).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(said).to_have_text(re.compile("^arrow keys"))
    view.on_strip().last.focus()
    page.keyboard.press("Home")
    expect(view.on_strip().first).to_be_focused()


def test_a_replica_is_picked_out(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """By its name in the legend; what the others have is dimmed."""
    left, right = replicas
    topic = new_topic("console-pick")
    led_by(left, topic, join)
    join(right, topic)
    page = view.open(left, topic).page
    expect(view.on_strip("right-")).to_have_count(STREAMS // 2)
    dimmed = page.locator("#strip [data-dimmed]")
    expect(dimmed).to_have_count(0)
    view.chip("right-").click()
    expect(view.chip("right-")).to_have_attribute("aria-pressed", "true")
    expect(dimmed).to_have_count(STREAMS // 2)
    expect(dimmed.first).to_have_attribute("aria-label", re.compile("left-"))
    view.chip("right-").click()
    expect(dimmed).to_have_count(0)


def test_a_group_and_its_workers_are_a_press_apart(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """In both directions; what is not looked at is not read."""
    left, _ = replicas
    topic = new_topic("console-apart")
    led_by(left, topic, join)
    page = view.open(left, topic).page
    page.get_by_role("link", name="Its workers here").click()
    expect(page.locator("#workers-count")).to_have_text("1 worker")
    expect(page.get_by_role("link", name="Subscriptions", exact=True)).to_have_attribute("aria-current", "page")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.wait_for_timeout(2_500)
    assert [path for path in asked if "/groups" in path] == []
    page.get_by_role("link", name="Its group of replicas").click()
    expect(view.on_strip("left-")).to_have_count(STREAMS)
    page.get_by_role("link", name="Producers", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exclusive producers")
    asked.clear()
    page.wait_for_timeout(2_500)
    assert [path for path in asked if "/groups" in path] == []
    assert [path for path in asked if "/exclusive-producers" in path] != []


def test_many_groups_come_by_the_hundred(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """More of them when a person asks for more; the filter is over those that came."""
    left, _ = replicas
    topic = new_topic("console-many")
    led_by(left, topic, join)
    summary = told(left, topic)["summary"]
    # Of names whose numbers are found nowhere else in a row: a topic of this run carries a process's number.
    crowd = [summary | {"topic": f"{topic}-of-{number:03}"} for number in range(101)]

    def answer(route: Route) -> None:
        first = "after=" not in route.request.url
        page = {"groups": crowd[:100] if first else crowd[100:], "next": crowd[99]["topic"] if first else None}
        route.fulfill(body=json.dumps({"replica": summary["replica"], **page}), content_type="application/json")

    view.page.route("**/api/v1/groups?**", answer)
    page = view.open(left).page
    rows = page.locator("#group-table tbody tr")
    expect(rows).to_have_count(100)
    expect(page.locator("#group-table-count")).to_have_text("100 of more than 100 groups")
    search = page.get_by_role("searchbox", name="Filter groups")
    search.fill("-of-100")
    note = page.locator("#group-table-note")
    expect(note).to_have_text("No match. The filter covers the rows shown so far.")
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(1)
    search.fill("")
    expect(rows).to_have_count(101)
    expect(page.locator("#group-table-count")).to_have_text("101 groups")
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()


def test_a_name_is_never_markup(
    view: View, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """A subscription's is a client's."""
    left, _ = replicas
    topic = new_topic("console-markup")
    join(left, topic, MARKUP)
    page = view.open(left).page
    expect(view.group(topic).locator("td").first).to_have_text(MARKUP)
    view.group(topic).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{local_name(topic)}{MARKUP}")
    expect(view.on_strip("left-")).to_have_count(STREAMS)


# ---- when it is not live, and for everybody


def test_a_gateway_that_is_gone_is_told_and_found_again(
    view: View, start_gateway: StartGateway, pulsar: PulsarStandalone, new_topic: NewTopic, join: Join
) -> None:
    """Values are greyed and their age is told; nobody has to reload, and the new process is another replica."""
    gateway = start_gateway(pulsar, replica_name="gone", groups_enabled="true", groups_mode="streams")
    topic = new_topic("console-gone")
    led_by(gateway, topic, join)
    before = told(gateway, topic)["summary"]["replica"]
    page = view.open(gateway, topic).page
    expect(view.on_strip(before)).to_have_count(STREAMS)
    gateway.stop()
    expect(page.locator("#connection")).to_have_text("disconnected")
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"Disconnected from the gateway .* Values are \d+\ss old")
    )
    assert page.locator("body").get_attribute("data-stale") is not None
    gateway.start()
    expect(view.on_strip("gone-")).to_have_count(STREAMS)
    expect(view.on_strip(before)).to_have_count(0)
    expect(view.rows("delivered here")).to_have_count(STREAMS)
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(view.feed).to_contain_text("connected again")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(
    chrome: Browser, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join, scheme: str
) -> None:
    """Contrast of all text is at least WCAG's AA, in both themes; tables have heads of rows and columns."""
    left, right = replicas
    topic = new_topic("console-readable")
    led_by(left, topic, join)
    join(right, topic)
    with fresh_page(chrome, scheme=scheme) as (page, complaints):
        view = View(page, complaints).open(left)
        expect(page.get_by_role("rowheader", name=local_name(topic))).to_be_visible()
        assert page.evaluate(CONTRASTS) == []
        for gateway in (left, right):
            view.open(gateway, topic)
            expect(view.rows("delivered here")).to_have_count(STREAMS // 2)
            expect(view.feed).to_contain_text("leases of 8 streams")
            assert page.evaluate(CONTRASTS) == []
            expect(page.get_by_role("columnheader", name="Acknowledged")).to_be_visible()
        expect(page.get_by_role("table", name="Streams").get_by_role("rowheader")).to_have_count(STREAMS // 2)
        assert complaints.errors == []


def test_a_small_screen_shows_rows_as_cards(
    chrome: Browser, replicas: tuple[KeylineGateway, KeylineGateway], new_topic: NewTopic, join: Join
) -> None:
    """Nothing has to be scrolled sideways, in any view, and each value has its name beside it."""
    left, _ = replicas
    topic = new_topic("console-small")
    led_by(left, topic, join)
    with fresh_page(chrome, NARROWEST) as (page, complaints):
        page.route("**/api/v1/groups/**", answer_altered)
        view = View(page, complaints).open(left)
        expect(view.group(topic)).to_contain_text("delivers")
        assert not page.evaluate(SIDEWAYS)
        view.group(topic).get_by_role("link").click()
        expect(view.rows("delivered here")).to_have_count(STREAMS - 6)
        assert not page.evaluate(SIDEWAYS)
        assert page.locator(".rows .badge").evaluate_all(CUT_OFF) == []
        label = view.rows("delivered here").first.locator("td").first
        assert label.evaluate("(cell) => getComputedStyle(cell, '::before').content") == '"Slots"'
        page.get_by_role("link", name="Its workers here").click()
        expect(page.locator("#workers-count")).to_have_text("1 worker")
        assert not page.evaluate(SIDEWAYS)
        page.get_by_role("link", name="Producers", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Exclusive producers")
        assert not page.evaluate(SIDEWAYS)
        assert complaints.errors == []
