"""Pictures of answers for the documentation: why a key waits, which keys do, the API's page, a report.

Each trouble is a real one, of official clients at a real broker. What a terminal shows of the same is printed.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pulsar
from playwright.sync_api import Browser, expect

from integration.gateway import KeylineGateway
from integration.journals.make import make
from integration.journals.plan import Plan
from tests.integration.browser import fresh_page, load
from tests.integration.causes_rig import CAUSES, Crew, printed
from tests.integration.pictures import keep

FIRST_SCREEN: Final = (1440, 560)
REPORT: Final = (1200, 900)
TOPICS: Final = {
    "stopped_acknowledging": "orders",
    "slow": "payments",
    "look_ahead_full": "invoices",
    "paused": "returns",
    "draining": "shipments",
}
"""A topic for each trouble."""
PLAN: Final = Plan(
    messages=6_000, keys=200, workers=4, gateways=2, rate_per_s=20, returned_share=0.02, faults=1, epoch_messages=1_500
)
"""Five minutes of a journal, with a violation of each kind."""


def take_answers(browser: Browser, gateway: KeylineGateway, client: pulsar.Client) -> None:
    """All pictures that need a gateway, one without subscriptions."""
    with ExitStack() as ends:
        asked: dict[str, tuple[Crew, str]] = {}
        for state, trouble in CAUSES.items():
            crew = Crew(gateway, client, f"persistent://public/default/{TOPICS[state]}")
            ends.callback(crew.end)
            asked[state] = crew, trouble(crew)
        for state, (crew, key) in reversed(asked.items()):  # what holds for a minute only comes first
            crew.until(key, state)
            take_answer(browser, gateway, crew.topic, key, f"why-{state.replace('_', '-')}.png")
            print(printed(gateway, "explain", TOPICS[state], "s", "--key", key))
        take_stuck(browser, gateway, asked["stopped_acknowledging"][0].topic)
        print(printed(gateway, "stuck", TOPICS["stopped_acknowledging"], "s", "--limit", "5"))
        take_api(browser, gateway)


def take_answer(browser: Browser, gateway: KeylineGateway, topic: str, key: str, name: str) -> None:
    """The first screen of a key that waits."""
    with fresh_page(browser, FIRST_SCREEN, "light") as (page, complaints):
        load(page, complaints, f"{gateway.admin_url}/#{urlencode({'topic': topic, 'subscription': 's', 'key': key})}")
        expect(page.locator("#key-answer .verdict")).to_be_in_viewport()
        page.wait_for_timeout(5_000)  # until rates are told
        keep(page, complaints, name)


def take_stuck(browser: Browser, gateway: KeylineGateway, topic: str) -> None:
    """The list of keys that wait."""
    with fresh_page(browser, FIRST_SCREEN, "light") as (page, complaints):
        load(page, complaints, f"{gateway.admin_url}/#{urlencode({'topic': topic, 'subscription': 's'})}")
        expect(page.locator("#stuck tbody tr")).to_have_count(5)
        keep(page.locator("#stuck-card"), complaints, "console-stuck-light.png")


def take_api(browser: Browser, gateway: KeylineGateway) -> None:
    """The API's page."""
    with fresh_page(browser, FIRST_SCREEN, "light") as (page, complaints):
        load(page, complaints, f"{gateway.admin_url}/docs")
        page.get_by_label("Filter operations").fill("stuck")
        page.locator(".operation summary").click()
        keep(page, complaints, "api-docs.png")


def take_report(browser: Browser, place: Path) -> None:
    """The beginning of a report on a journal with violations."""
    make(PLAN, place / "journal")
    command = [sys.executable, "-m", "proxy.cli", "report", str(place / "journal"), "--out", str(place / "report")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    print(done.stdout)
    (written,) = (place / "report").glob("*.html")
    with fresh_page(browser, REPORT, "light") as (page, complaints):
        page.goto(written.as_uri())
        keep(page, complaints, "report.png")
