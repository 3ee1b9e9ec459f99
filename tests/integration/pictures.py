"""Where pictures for the documentation go, and what each must be."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from playwright.sync_api import Locator, Page

from tests.integration.browser import Complaints

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"


def keep(what: Page | Locator, complaints: Complaints, name: str) -> None:
    """Write it, if the page is well."""
    what.screenshot(path=IMAGES / name)
    assert complaints.errors == [], complaints.errors
    print(f"wrote {IMAGES / name}")
