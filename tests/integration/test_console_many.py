"""The console's home page with five hundred real subscriptions: found at a glance, and the page stays quick."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pulsar as pulsar_client
import pytest
from playwright.sync_api import Browser, Page, expect

from integration.gateway import KeylineGateway
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration.browser import NARROW, WIDE, chromium, fresh_page, load
from tests.integration.raw_client import RawClient

TOPICS: Final = 5
OF_EACH: Final = 100
SHOWN: Final = 50
"""Rows at first; the others come on demand."""
HELD: Final = "team-held"
READS: Final = 3
STUCK_MS_MAX: Final = 500
LOAD_S_MAX: Final = 60_000.0
LONG_TASKS: Final = (
    "window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries()"
    ".map((entry) => entry.duration))).observe({ type: 'longtask', buffered: true })"
)

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One for all sizes."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def topics(
    gateway: KeylineGateway, client: pulsar_client.Client, new_topic: Callable[[str], str]
) -> Iterator[list[str]]:
    """With a worker at each subscription; of one more, deliveries are paused, and messages wait for it."""
    made = [new_topic(f"home-{number}") for number in range(TOPICS)]
    held = new_topic("home-held")
    with RawClient(gateway.service_url) as raw:
        for topic in (*made, held):
            raw.locate(topic)
        for number in range(TOPICS * OF_EACH):
            raw.joined(made[number // OF_EACH], f"team-{number % OF_EACH}", number + 1, consumer_name="pod")
        raw.joined(held, HELD, 0, consumer_name="pod")
        AdminClient(gateway.admin_url).ask("POST", f"{subscription_path(held, HELD)}/pause")
        producer = client.create_producer(held)
        for number in range(30):
            producer.send(b"%d" % number, partition_key=f"k{number}")
        yield made


@pytest.mark.parametrize(("size", "name"), [(WIDE, "wide"), (NARROW, "narrow")])
def test_trouble_is_first_among_five_hundred(
    chrome: Browser,
    gateway: KeylineGateway,
    topics: list[str],
    size: tuple[int, int],
    name: str,
    tmp_path: Path,
) -> None:
    """Rows by the fifty, a filter that finds one, nothing wider than the screen, at a desk and on a phone."""
    with fresh_page(chrome, size) as (page, complaints):
        page.add_init_script(LONG_TASKS)
        load(page, complaints, gateway.admin_url)
        every = f"{TOPICS * OF_EACH + 1} subscriptions"
        expect(page.locator("#home-count")).to_have_text(re.compile(every.replace(" ", r"\s")), timeout=LOAD_S_MAX)
        rows = page.locator("#home-table tbody tr")
        expect(rows).to_have_count(SHOWN)
        first = rows.first
        expect(first).to_contain_text(HELD, timeout=LOAD_S_MAX)
        expect(first.locator(".badge")).to_have_text("paused")
        page.screenshot(path=tmp_path / f"home-{name}.png")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it does not fit"
        page.get_by_role("button", name="more").click()
        expect(rows).to_have_count(2 * SHOWN)
        page.locator("#home-filter").fill(f"{topics[4].rpartition('/')[2]} team-7")
        expect(rows).to_have_count(11)  # team-7 and team-70 to team-79
        page.locator("#home-filter").fill("")
        page.locator("#home-only").check()
        expect(rows).to_have_count(1)
        page.locator("#home-only").uncheck()
        assert min(stuck_ms(page) for _ in range(READS)) < STUCK_MS_MAX
        assert complaints.but_lost_connections() == []


def stuck_ms(page: Page) -> float:
    """How long the page answers nothing at most, while it reads all of them anew a few times."""
    page.evaluate("window.long.length = 0")
    page.wait_for_timeout(3_000)
    return float(max(page.evaluate("window.long"), default=0))
