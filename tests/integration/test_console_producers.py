"""The console's view of exclusive producers in a real Chromium, over a real gateway and broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration import browser as browsers
from tests.integration.browser import Complaints, chromium, fresh_page, load
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import FENCE, Scene, TopicClient
from tests.integration.test_console import CONTRASTS, MARKUP, NewTopic


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One browser for all of them. Playwright keeps a loop in this thread, so it must end with the module."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def gateway(pulsar: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeylineGateway]:
    """One that keeps no topic for an owner it may not have seen: who comes first owns it."""
    directory, settings = tmp_path_factory.mktemp("console"), {"producer_return_grace_s": "0"}
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, directory, settings=settings) as shared:
        yield shared


@pytest.fixture
def scene(pulsar: PulsarStandalone, gateway: KeylineGateway, new_topic: NewTopic) -> Iterator[Scene]:
    """A topic that nobody has asked for yet."""
    with ExitStack() as clients:
        yield Scene(pulsar, gateway, new_topic("console-producers"), clients)


@dataclass
class View:
    """The page."""

    page: Page
    complaints: Complaints

    def open(self, gateway: KeylineGateway, topic: str | None = None) -> View:
        """At the list, or at a topic, by its address."""
        of_one = "" if topic is None else f"={quote(topic)}"
        load(self.page, self.complaints, f"{gateway.admin_url}/#producers{of_one}")
        return self

    def topic(self, topic: str) -> Locator:
        """A topic's row in the list."""
        return self.page.locator("#elections tbody tr").filter(has_text=local_name(topic))

    def owner(self, fact: str) -> Locator:
        """What the owner's card tells under this term."""
        return self.page.locator("#owner-facts > div").filter(has=self.page.get_by_text(fact, exact=True)).locator("dd")

    def queue(self) -> list[tuple[str, ...]]:
        """Turn, priority, name and stage of those that wait, as they stand."""
        rows = self.page.get_by_role("table", name="Producers that wait").get_by_role("row").all()
        return [tuple(row.locator("th, td").all_inner_texts()[:4]) for row in rows[1:]]

    @property
    def feed(self) -> Locator:
        """What happened."""
        return self.page.locator("#election-feed")


@pytest.fixture
def view(chrome: Browser, gateway: KeylineGateway) -> Iterator[View]:
    """A page that must not complain, nor ask anybody but loopback."""
    with fresh_page(chrome) as (page, complaints):
        yield View(page, complaints)
        # A topic that nobody wants any more is answered with 404, which a browser logs by itself.
        assert [text for text in complaints.but_lost_connections() if "status of 404" not in text] == []
        assert {host.partition(":")[0] for host in complaints.hosts} == {urlsplit(gateway.admin_url).hostname}


def local_name(topic: str) -> str:
    """What a person calls it."""
    return topic.rpartition("/")[2]


def owner_and_queue(scene: Scene) -> tuple[TopicClient, TopicClient]:
    """`first` owns the topic, `high` is before `low` in the queue, and a nameless one between; gives first and high."""
    owner = scene.ours()
    owner.owns(3, name="first")
    scene.ours().waits(1, name="low")
    high = scene.ours().waits(9, name="high")
    scene.ours().waits(5)
    return owner, high


# ---- what is seen


def test_a_person_comes_from_the_list_to_a_topics_owner_and_queue(
    view: View, gateway: KeylineGateway, scene: Scene
) -> None:
    """In the order of promotion; the address leads there again, and back leads to the list, to where one was."""
    owner_and_queue(scene)
    page = view.page
    load(page, view.complaints, gateway.admin_url)
    page.get_by_role("link", name="Producers", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exclusive producers")
    cells = view.topic(scene.topic).locator("td")
    expect(cells.first).to_have_text("first")
    expect(cells.nth(1)).to_have_text("3")
    expect(cells.nth(2)).to_have_text("0")
    expect(cells.nth(4)).to_have_text("3")
    view.topic(scene.topic).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(view.owner("Name")).to_have_text("first")
    expect(view.owner("Priority")).to_have_text("3")
    expect(view.owner("Access mode")).to_have_text("exclusive, having waited")
    expect(view.owner("Address")).to_have_text(re.compile(r"^127\.0\.0\.1:\d+$"))
    waits = "waits at the gateway"
    assert view.queue() == [("1", "9", "high", waits), ("2", "5", "not named yet", waits), ("3", "1", "low", waits)]
    address = page.url
    page.go_back()
    expect(view.topic(scene.topic).get_by_role("link")).to_be_focused()
    page.goto("about:blank")
    page.goto(address)
    expect(view.owner("Name")).to_have_text("first")
    assert page.title() == f"{local_name(scene.topic)}, producers \u2013 Keyline"


def test_a_promotion_is_seen_as_it_happens(view: View, gateway: KeylineGateway, scene: Scene) -> None:
    """The owner goes: the best of the queue is shown as the owner, in the queue no more, and both are told of."""
    owner, high = owner_and_queue(scene)
    page = view.open(gateway, scene.topic).page
    expect(view.owner("Name")).to_have_text("first")
    page.evaluate("window.notReloaded = true")
    owner.leaves()
    assert high.promoted() == 1
    expect(view.owner("Name")).to_have_text("high")
    expect(view.owner("Epoch")).to_have_text("1")
    expect(page.locator("#queue-count")).to_have_text("2 producers")
    assert [row[1] for row in view.queue()] == ["5", "1"]
    expect(view.feed).to_contain_text("first no longer owns the topic: closed by its client")
    expect(view.feed).to_contain_text(
        re.compile(r"high became the owner, priority 9, epoch 1, from .*; 2\sothers still wait")
    )
    assert page.evaluate("window.notReloaded")


def test_one_that_takes_the_topic_is_told_from_one_that_waited(
    view: View, gateway: KeylineGateway, scene: Scene
) -> None:
    """It has no priority, and the fencing is counted; those that wait go on."""
    owner_and_queue(scene)
    page = view.open(gateway, scene.topic).page
    expect(view.owner("Name")).to_have_text("first")
    scene.ours().owns(mode=FENCE, name="taker")
    expect(view.owner("Name")).to_have_text("taker")
    expect(view.owner("Access mode")).to_have_text("exclusive, fencing others off")
    expect(view.owner("Priority")).to_have_text("none, it did not wait")
    expect(page.locator("#election-figures > div").filter(has_text="Fencings").locator("b")).to_have_text("1")
    expect(view.feed).to_contain_text(re.compile("taker at .* took the topic without waiting"))


def test_an_owner_that_is_connected_elsewhere_is_no_vacancy(view: View, gateway: KeylineGateway, scene: Scene) -> None:
    """The broker says that somebody has the topic; who, it does not say."""
    scene.direct().owns()
    scene.ours().waits(2)
    page = view.open(gateway).page
    expect(view.topic(scene.topic).locator("td").first).to_have_text("connected elsewhere")
    view.topic(scene.topic).get_by_role("link").click()
    expect(page.locator("#owner-none")).to_contain_text("not connected to this gateway owns the topic")
    eventually(lambda: [row[3] for row in view.queue()] == ["waits at the broker"], "it to wait at the broker")


def test_a_topic_that_nobody_wants_any_more_is_told_and_found_again(
    view: View, gateway: KeylineGateway, scene: Scene
) -> None:
    """The page stays, with what happened, and shows the next owner when there is one."""
    owner = scene.ours()
    owner.owns(name="first")
    page = view.open(gateway, scene.topic).page
    expect(view.owner("Name")).to_have_text("first")
    owner.leaves()
    expect(page.locator("#election-absent")).to_contain_text("No producer at this gateway owns the topic")
    expect(page.locator("#owner-card")).to_be_hidden()
    expect(view.feed).to_contain_text("first no longer owns the topic")
    scene.ours().owns(name="second")
    expect(view.owner("Name")).to_have_text("second")


# ---- finding one's way


def test_topics_are_filtered_by_name(view: View, gateway: KeylineGateway, scene: Scene, new_topic: NewTopic) -> None:
    """Only the rows: the figures are of all."""
    other = Scene(scene.broker, gateway, new_topic("elsewhere"), scene.clients)
    for each in (scene, other):
        each.ours().owns()
    page = view.open(gateway).page
    expect(view.topic(scene.topic)).to_be_visible()
    page.get_by_role("searchbox", name="Filter topics").fill(local_name(other.topic).upper())
    expect(view.topic(scene.topic)).to_have_count(0)
    expect(view.topic(other.topic)).to_be_visible()
    expect(page.locator("#elections-count")).to_have_text(re.compile("^1 of"))
    page.get_by_role("searchbox", name="Filter topics").fill("no such topic")
    expect(page.locator("#elections-note")).to_contain_text("No match.")


def test_many_topics_come_by_the_hundred(view: View, gateway: KeylineGateway, scene: Scene) -> None:
    """More of them when a person asks for more; those that were asked for stay, reading after reading."""
    crowd = scene.ours()
    for number in range(101):
        crowd.topic = f"{scene.topic}-{number:03}"
        crowd.locate(crowd.topic).owns(producer_id=10 + number)
    page = view.open(gateway).page
    rows = page.locator("#elections tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("searchbox", name="Filter topics").fill(f"{local_name(scene.topic)}-100")
    expect(page.locator("#elections-note")).to_contain_text("The filter covers the rows shown so far.")
    page.get_by_role("searchbox", name="Filter topics").fill("")
    more = page.get_by_role("button", name="Show more")
    more.click()
    expect(rows).to_have_count(101)
    expect(more).to_be_hidden()
    crowd.leaves(producer_id=10)
    expect(rows).to_have_count(100)
    expect(view.topic(f"{scene.topic}-100")).to_be_visible()


def test_a_long_queue_is_seen_by_the_hundred(view: View, gateway: KeylineGateway, scene: Scene) -> None:
    """The gateway is asked for what is looked at only."""
    scene.ours().owns()
    crowd = scene.ours()
    for number in range(105):
        crowd.waits(-number, producer_id=10 + number)
    page = view.open(gateway, scene.topic).page
    expect(page.locator("#queue-place")).to_have_text("1 to 100 of 105")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#queue-place")).to_have_text("101 to 105 of 105")
    assert [row[:2] for row in view.queue()] == [(str(number + 1), str(-number)) for number in range(100, 105)]
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    for number in range(100, 105):
        crowd.leaves(producer_id=10 + number)
    expect(page.locator("#queue-count")).to_have_text("100 producers")
    assert len(view.queue()) == 100
    expect(page.locator("#queue-pager")).to_be_hidden()


def test_the_two_views_are_a_press_apart(view: View, gateway: KeylineGateway, scene: Scene) -> None:
    """Each link leads to one and tells which it is; what is not looked at is not read."""
    scene.ours().owns()
    page = view.open(gateway).page
    expect(view.topic(scene.topic)).to_be_visible()
    producers, subscriptions = (
        page.get_by_role("link", name=name, exact=True) for name in ("Producers", "Subscriptions")
    )
    expect(producers).to_have_attribute("aria-current", "page")
    subscriptions.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Subscriptions")
    expect(subscriptions).to_have_attribute("aria-current", "page")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.wait_for_timeout(2_500)
    assert [path for path in asked if "exclusive-producers" in path] == []
    page.go_back()
    expect(view.topic(scene.topic)).to_be_visible()


def test_a_name_is_never_markup(view: View, gateway: KeylineGateway, scene: Scene) -> None:
    """It is a client's."""
    owner = scene.ours()
    owner.owns(name=MARKUP)
    scene.ours().waits(1, name=f"waiting {MARKUP}")
    view.open(gateway, scene.topic)
    expect(view.owner("Name")).to_have_text(MARKUP)
    assert view.queue()[0][2] == f"waiting {MARKUP}"
    owner.leaves()
    expect(view.feed).to_contain_text(f"waiting {MARKUP} became the owner")


# ---- when it is not live, and for everybody


def test_a_gateway_that_is_gone_is_told_and_found_again(view: View, gateway: KeylineGateway, scene: Scene) -> None:
    """Values are greyed and their age is told; nobody has to reload."""
    scene.ours().owns(name="before")
    page = view.open(gateway, scene.topic).page
    expect(view.owner("Name")).to_have_text("before")
    gateway.stop()
    expect(page.locator("#connection")).to_have_text("disconnected")
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"Disconnected from the gateway .* Values are \d+\ss old")
    )
    assert page.locator("body").get_attribute("data-stale") is not None
    gateway.start()
    scene.ours().owns(name="after")
    expect(view.owner("Name")).to_have_text("after")
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(view.feed).to_contain_text("connected again")


def test_a_gateway_that_another_part_of_the_page_reaches_is_not_told_as_back(
    view: View, gateway: KeylineGateway, scene: Scene
) -> None:
    """The list of subscriptions is read by the clock, whatever is looked at; the page tells how its own view fares."""
    scene.ours().owns(name="owner")
    page = view.open(gateway, scene.topic).page
    expect(view.owner("Name")).to_have_text("owner")
    of_this_view = re.compile(r"/api/v1/(exclusive-producers|events)")
    page.route(of_this_view, lambda route: route.abort("connectionrefused"))
    expect(page.locator("#connection")).to_have_text("disconnected")
    for _ in range(2):
        with page.expect_response(re.compile(r"/api/v1/subscriptions\?")):
            pass
        expect(page.locator("#connection")).to_have_text("disconnected")
    page.unroute(of_this_view)
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(view.feed).to_contain_text("connected again; the page is reloaded")
    told = [line for line in view.feed.locator("li").all_inner_texts() if "connected" in line]
    assert len(told) == 2, told
    assert "disconnected from the gateway" in told[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(chrome: Browser, gateway: KeylineGateway, scene: Scene, scheme: str) -> None:
    """Contrast of all text is at least WCAG's AA, in both themes; tables have heads of rows and columns."""
    owner_and_queue(scene)
    with fresh_page(chrome, scheme=scheme) as (page, complaints):
        view = View(page, complaints).open(gateway)
        expect(view.topic(scene.topic)).to_be_visible()
        assert page.evaluate(CONTRASTS) == []
        expect(page.get_by_role("rowheader", name=local_name(scene.topic))).to_be_visible()
        view.topic(scene.topic).get_by_role("link").click()
        expect(view.feed).to_contain_text("first became the owner")
        assert page.evaluate(CONTRASTS) == []
        expect(page.get_by_role("columnheader", name="Priority")).to_be_visible()
        assert complaints.errors == []


def test_a_small_screen_shows_rows_as_cards(chrome: Browser, gateway: KeylineGateway, scene: Scene) -> None:
    """Nothing has to be scrolled sideways, and the way back to subscriptions is there."""
    owner_and_queue(scene)
    with fresh_page(chrome, browsers.NARROW) as (page, complaints):
        view = View(page, complaints).open(gateway)
        expect(view.topic(scene.topic)).to_contain_text("first")
        assert page.evaluate("document.documentElement.scrollWidth") == browsers.NARROW[0]
        view.topic(scene.topic).get_by_role("link").click()
        expect(view.owner("Name")).to_have_text("first")
        assert page.evaluate("document.documentElement.scrollWidth") == browsers.NARROW[0]
        page.get_by_role("link", name="Subscriptions", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Subscriptions")
        assert page.evaluate("document.documentElement.scrollWidth") == browsers.NARROW[0]
        assert complaints.errors == []
