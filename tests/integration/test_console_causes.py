"""Why does this key wait? The five answers, each in the first screen of console and command line, with a real broker.

The home page, too: what is in trouble comes first, before anything is chosen, also on a phone and with many of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

import httpx
import pulsar
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.browser import NARROW, WIDE, chromium, fresh_page, load
from tests.integration.causes_rig import CAUSES, Crew, printed
from tests.integration.clients import key_shared
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.line_boxes import units_apart

NewTopic = Callable[[str], str]
SCREEN_LINES = 24
COMMANDS = {
    "stopped_acknowledging": "keyline exclude {target} billing-2",
    "slow": "keyline preview leave {target} billing-2",
    "look_ahead_full": "keyline exclude {target} billing-2",
    "paused": "keyline resume {target}",
    "draining": "keyline pending {target} billing-1 --slot ",
}
"""The command that helps in each of the five."""
MANY = 500
BASE, TOP = 1.0, 19.0
"""Of a sparkline: nothing, and the most that it shows."""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One Chromium for all tests here."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def crews(gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic) -> Iterator[Callable[[str], Crew]]:
    """Workers of a new topic."""
    made: list[Crew] = []

    def make(state: str) -> Crew:
        made.append(Crew(gateway, client, new_topic(f"causes-{state}")))
        return made[-1]

    yield make
    for crew in made:
        crew.end()


def words(state: str) -> str:
    """As people read it."""
    return state.replace("look_ahead", "look-ahead").replace("_", " ")


def test_each_of_five_questions_is_answered_in_the_first_screen(
    chrome: Browser, gateway: KeylineGateway, crews: Callable[[str], Crew]
) -> None:
    """State, who causes it and the command that helps: at a desk, on a phone and in a terminal."""
    asked: dict[str, tuple[Crew, str]] = {}
    for state, make in CAUSES.items():
        crew = crews(state)
        asked[state] = crew, make(crew)
    # What holds for a minute only is looked at first.
    for state, (crew, key) in reversed(asked.items()):
        command = COMMANDS[state].format(target=f"{crew.topic.rpartition('/')[2]} s")
        crew.until(key, state, command)
        told = crew.explained(key)["verdict"]
        screen = printed(gateway, "explain", crew.topic, "s", "--key", key).splitlines()[:SCREEN_LINES]
        assert screen[0].startswith(f"{key} (slot ")
        assert f": {words(state)}" in screen[0]
        assert any(line.strip().startswith(command) for line in screen)
        if told["worker"] is not None:
            assert told["worker"] in screen[1]
        for size in (WIDE, NARROW):
            with fresh_page(chrome, size) as (page, complaints):
                address = urlencode({"topic": crew.topic, "subscription": "s", "key": key})
                load(page, complaints, f"{gateway.admin_url}/#{address}")
                answered(page, state, command, told["worker"])
                assert complaints.errors == []
        print(f"{state}: {' '.join(screen[:4])}")


def test_keys_that_wait_are_listed(chrome: Browser, gateway: KeylineGateway, crews: Callable[[str], Crew]) -> None:
    """Oldest first, with reason and worker, as `keyline stuck` has them; more on request; a press explains one."""
    crew = crews("stuck")
    first = CAUSES["stopped_acknowledging"](crew)
    crew.until(first, "stopped_acknowledging")
    asked = httpx.get(f"{crew.path}/stuck", params={"limit": 1_000}, trust_env=False, timeout=30).json()["slots"]
    # Others may wait for a moment, and are younger.
    oldest = [slot for slot in asked if slot["worker"] == "billing-2"]
    for size in (WIDE, NARROW):
        with fresh_page(chrome, size) as (page, complaints):
            address = urlencode({"topic": crew.topic, "subscription": "s"})
            load(page, complaints, f"{gateway.admin_url}/#{address}")
            rows = page.locator("#stuck tbody tr")
            expect(rows).to_have_count(5)
            expect(page.locator("#stuck-count")).to_contain_text("the 5 oldest shown")
            page.locator("#stuck-more").click()
            expect(rows.nth(len(oldest) - 1)).to_be_visible()
            shown = rows.locator("[data-label=Slot]").all_inner_texts()
            assert [int(text.replace(",", "")) for text in shown][: len(oldest)] == [each["slot"] for each in oldest]
            row = rows.first
            expect(row.get_by_role("rowheader")).to_have_text(oldest[0]["key"])
            expect(row.locator("[data-label=Why]")).to_have_text(words(oldest[0]["state"]))
            expect(row.locator("[data-label=Worker]")).to_have_text("billing-2")
            expect(row.locator(".badge")).to_have_text("stopped acknowledging")
            expect(row.locator(".badge")).to_have_attribute("data-tone", "bad")
            row.get_by_role("link").click()
            expect(page.locator("#key-answer .verdict")).to_contain_text(oldest[0]["key"])
            if size == NARROW:
                stays_in_sight(page)
            assert complaints.errors == []


def stays_in_sight(page: Page) -> None:
    """What grows above the answer on a phone does not push it away; who scrolls is left alone."""
    title = page.locator("#key-title")
    expect(title).to_be_in_viewport(ratio=1)
    page.evaluate("document.documentElement.style.overflowAnchor = 'none'")  # else the browser may do it itself
    title.evaluate("each => { document.getElementById('chosen').style.paddingTop = `${2 * innerHeight}px`; }")
    expect(title).to_be_in_viewport(ratio=1)
    page.evaluate("scrollTo(0, 0)")
    for _ in range(2):
        with page.expect_response(re.compile("/explain")):
            pass
    expect(title).not_to_be_in_viewport()


def answered(page: Page, state: str, command: str, worker: str | None) -> None:
    """The answer is seen without scrolling."""
    answer = page.locator("#key-answer")
    badge, code = answer.locator(".verdict .badge"), answer.locator(".command code")
    expect(badge).to_have_text(words(state))
    expect(code).to_have_text(re.compile("^" + re.escape(command)))
    expect(badge).to_be_in_viewport()
    expect(code).to_be_in_viewport()
    if worker is not None:
        says = answer.locator(".says")
        expect(says).to_contain_text(worker)
        expect(says).to_be_in_viewport()


def levels(line: Locator) -> list[float]:
    """A sparkline's numbers as they are seen: the height of each point above its box's lower edge."""
    expect(line.locator("..")).to_be_visible()
    assert line.evaluate("each => getComputedStyle(each).stroke") != "none"
    return [20 - float(point.partition(",")[2]) for point in (line.get_attribute("points") or "").split()]


def is_uneven(line: Locator) -> bool:
    """Whether it shows that something changed."""
    return len(set(levels(line))) > 1


def test_the_home_page_begins_with_what_is_in_trouble(
    chrome: Browser, gateway: KeylineGateway, crews: Callable[[str], Crew]
) -> None:
    """Before anything is chosen: state, sentence and line tell it; a well one comes later, and can be left out."""
    well, bad = crews("a-well"), crews("z-stopped")
    well.join("billing-1")
    key = CAUSES["stopped_acknowledging"](bad)
    bad.until(key, "stopped_acknowledging")
    for size in (WIDE, NARROW):
        with fresh_page(chrome, size) as (page, complaints):
            load(page, complaints, gateway.admin_url)
            page.locator("#home-filter").fill("causes-")
            rows = page.locator("#home-table tbody tr")
            expect(rows).to_have_count(2)
            expect(rows.first).to_contain_text("stopped acknowledging")
            expect(rows.first).to_contain_text("billing-2 has acknowledged nothing for")
            expect(rows.first.locator(".badge")).to_have_attribute("data-tone", "bad")
            expect(rows.first).to_be_in_viewport()
            expect(rows.last.locator(".badge")).not_to_have_attribute("data-tone", "bad")
            seen, apart = units_apart(page, "#home-table")
            assert any(words.endswith(" messages") for words in seen)
            assert apart == []
            line = rows.first.locator(".spark polyline")
            bad.send([key], 200)
            eventually(partial(is_uneven, line), "the line of what waits is no longer flat")
            assert levels(line)[0] < levels(line)[-1], "more waits than when the page was opened"
            assert max(levels(line)) == TOP
            assert set(levels(rows.last.locator(".spark polyline"))) == {BASE}, "nothing waits there"
            page.get_by_label("Only those in trouble").check()
            expect(rows).to_have_count(1)
            rows.first.get_by_role("link").click()
            expect(page.locator("#verdict")).to_contain_text("billing-2 has acknowledged nothing for")
            page.locator("#to-subscriptions").click()
            expect(rows).to_have_count(1)
            assert complaints.errors == []


def test_five_hundred_subscriptions_are_found_and_sorted(
    chrome: Browser, gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """Fifty at first; the filter and the order are over all of them. The list is the gateway's own, copied."""
    topic = new_topic("home-many")
    key_shared(client, topic, "w1")
    url = f"{gateway.admin_url}/api/v1/subscriptions?workers=false"
    answer: dict[str, Any] = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()
    (one,) = [item for item in answer["subscriptions"] if item["topic"] == topic]
    assert one["dispatcher"]["workers"] == []
    assert one["dispatcher"]["workers_count"] == 1
    many = [json.loads(json.dumps(one)) | {"topic": f"{topic}-{number}"} for number in range(MANY)]
    many[437]["dispatcher"] |= {"waiting_messages": 7, "verdict": one["dispatcher"]["verdict"] | {"urgency": "act"}}
    body = json.dumps(answer | {"subscriptions": many, "subscriptions_count": MANY})
    with fresh_page(chrome, NARROW) as (page, complaints):
        page.route("**/api/v1/subscriptions?*", lambda route: route.fulfill(body=body, content_type="application/json"))
        load(page, complaints, gateway.admin_url)
        rows = page.locator("#home-table tbody tr")
        expect(rows).to_have_count(50)
        expect(rows.first).to_contain_text(f"{topic.rpartition('/')[2]}-437")
        expect(page.locator("#home-count")).to_have_text(f"{MANY} subscriptions")
        page.locator("#home-more").click()
        expect(rows).to_have_count(100)
        page.locator("#home-filter").fill(f"{topic.rpartition('/')[2]}-499")
        expect(rows).to_have_count(1)
        expect(page.locator("#home-count")).to_have_text(f"1 of {MANY} subscriptions")
        page.locator("#home-filter").fill("")
        page.locator("#home-sort").select_option("name")
        expect(rows.first).to_contain_text(f"{topic.rpartition('/')[2]}-0")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no part is beside the screen"


def test_an_empty_gateway_says_how_to_connect_the_first_client(
    chrome: Browser, broker: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic
) -> None:
    """With its own address, and as said there, a client appears."""
    gateway = start_gateway(broker)
    with fresh_page(chrome) as (page, complaints):
        load(page, complaints, gateway.admin_url)
        expect(page.locator("#first-url")).to_have_text(gateway.service_url)
        expect(page.locator("#first-code")).to_contain_text(f'pulsar.Client("{gateway.service_url}")')
        first = pulsar.Client(page.locator("#first-url").inner_text())
        try:
            key_shared(first, new_topic("home-first"), "w1")
            expect(page.locator("#home-table tbody tr")).to_have_count(1)
            expect(page.locator("#first")).to_be_hidden()
        finally:
            first.close()


def test_names_are_read_to_their_last_character(
    chrome: Browser, gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """Pods differ in their last five; beside them are buttons that evict."""
    topic = new_topic("home-pods")
    names = [f"billing-consumer-deployment-7f9c6b5d4c-{letter}x2k9" for letter in "abc"]
    key_shared(client, topic, *names)
    for size in (WIDE, NARROW):
        with fresh_page(chrome, size) as (page, complaints):
            load(page, complaints, f"{gateway.admin_url}/#{urlencode({'topic': topic, 'subscription': 's'})}")
            for place in ("#workers .pick .name", "#legend .name"):
                shown = page.locator(place)
                expect(shown).to_have_count(len(names))
                for name in shown.all():
                    assert name.evaluate("each => each.scrollWidth <= each.clientWidth + 1 || !each.clientWidth")
                    assert name.evaluate("each => getComputedStyle(each).textOverflow") == "clip"


def test_the_api_is_shown_in_a_browser(chrome: Browser, gateway: KeylineGateway) -> None:
    """Each operation with its parameters and fields, found by words; nothing is loaded from elsewhere."""
    with fresh_page(chrome) as (page, complaints):
        load(page, complaints, f"{gateway.admin_url}/docs")
        document = httpx.get(f"{gateway.admin_url}/openapi.json", trust_env=False, timeout=30).json()
        expect(page.locator(".operation")).to_have_count(sum(map(len, document["paths"].values())))
        page.get_by_label("Filter operations").fill("stuck")
        operation = page.locator(".operation")
        expect(operation).to_have_count(1)
        operation.locator("summary").click()
        expect(operation).to_contain_text("StuckSlots")
        expect(operation).to_contain_text("waiting_messages")
        assert complaints.errors == []
        assert complaints.hosts == {gateway.admin_url.removeprefix("http://")}
