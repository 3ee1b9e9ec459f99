"""The console's view of replicas in owner mode, as a person sees it: real replicas, headless Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Page, expect

from integration.load.options import SUBSCRIPTION
from integration.standalone import PulsarStandalone
from tests.integration.browser import WIDE, chromium, fresh_page, load
from tests.integration.owner_rig import REPLICAS, WORKERS, Owned, owned_subscription

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def owned(pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """Three replicas, one of which owns the subscription."""
    with owned_subscription(pulsar, new_topic("console-owned"), tmp_path) as made:
        made.owner()
        yield made


def row(page: Page, table: str, words: str) -> list[str]:
    """What the cells of the row with these words say."""
    found = page.locator(f"#{table} tbody tr").filter(has_text=words)
    expect(found).to_have_count(1)
    return [cell.strip() for cell in found.locator("th, td").all_inner_texts()]


def test_every_replica_shows_who_leads_and_who_owns_what(owned: Owned) -> None:
    """As the admin API tells; under a group's address it says where to look."""
    owner = owned.owner()
    other = next(gateway for gateway in owned.gateways if gateway is not owner)
    told = httpx.get(f"{other.admin_url}/api/v1/deployment", trust_env=False, timeout=30).raise_for_status().json()
    (served_by,) = {item["served_by"] for item in owner.statistics()["subscriptions"]}
    with chromium() as browser, fresh_page(browser, WIDE, "light") as (page, complaints):
        load(page, complaints, f"{other.admin_url}/#groups")
        expect(page.locator("#replica-table tbody tr")).to_have_count(REPLICAS)
        for each in told["replicas"]:
            cells = row(page, "replica-table", each["replica"])
            assert cells[2] == f"{each['bundles']:,}"
            assert ("leads" in cells[1]) == (each["replica"] == told["leader"])
            assert ("this replica" in cells[1]) == (each["replica"] == told["replica"])
        cells = row(page, "owned-table", SUBSCRIPTION)
        assert cells[1:] == [SUBSCRIPTION, served_by, str(len(WORKERS))]
        expect(page.locator("#group-table")).to_be_hidden()
        expect(page.get_by_text("Groups of replicas are not enabled")).to_be_hidden()
        load(
            page,
            complaints,
            f"{other.admin_url}/#{urlencode({'groups': owned.run.topic, 'subscription': SUBSCRIPTION})}",
        )
        expect(page.locator("#group-absent")).to_contain_text("In owner mode a subscription has one owner")
