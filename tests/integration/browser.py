"""A real Chromium, Debian's own, and what it complained about.

Driven by Playwright, which brings no browser here: what is tested is what the machine has installed. A page's console
errors, violations of its policy, uncaught faults and every address it asked are kept, for a test to look at.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

FLAGS: Final = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
PATIENCE_MS: Final = 90_000
"""For what takes a moment, and longer on a busy machine: only a fault exhausts it."""
WIDE: Final = (1440, 900)
NARROW: Final = (420, 900)

expect.set_options(timeout=PATIENCE_MS)  # by default it is five seconds

_NETWORK_CHANGED: Final = "net::ERR_NETWORK_CHANGED"
_LOADS_MAX: Final = 10
_WITHOUT_ANSWER: Final = (
    "net::ERR_CONNECTION_",  # refused, reset, closed, aborted
    "net::ERR_SOCKET_NOT_CONNECTED",
    "net::ERR_EMPTY_RESPONSE",
    "net::ERR_INCOMPLETE_CHUNKED_ENCODING",
)
"""In all these words Chromium says that a server has gone, as it depends on the moment."""


class ChromiumMissingError(Exception):
    """There is no browser on this machine."""


@dataclass
class Complaints:
    """What pages of one context said."""

    errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    network_changed: bool = False
    """Whether Chromium gave requests up because an interface came or went, as those of containers do."""

    def watch(self, page: Page) -> None:
        """Listen to everything the page says from now on."""
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def _said(self, message: ConsoleMessage) -> None:
        if _NETWORK_CHANGED in message.text:
            self.network_changed = True
        elif message.type in {"error", "warning"}:
            self.errors.append(f"{message.type}: {message.text} at {message.location.get('url', '')}")

    def but_lost_connections(self) -> list[str]:
        """Errors, those aside that a browser itself logs for each request to a gateway that is down."""
        return [error for error in self.errors if not any(reason in error for reason in _WITHOUT_ANSWER)]


def load(page: Page, complaints: Complaints, address: str) -> None:
    """Open a page with all that it loads, once more as long as the machine's network changes meanwhile."""
    for _ in range(_LOADS_MAX):
        complaints.network_changed = False
        try:
            page.goto(address)
        except PlaywrightError as error:
            if _NETWORK_CHANGED not in str(error):
                raise
        else:
            if not complaints.network_changed:
                return
        page.goto("about:blank")  # another fragment of the same page would not load it again
    raise AssertionError(f"the machine's network changed each time that {address} was loaded")


def chromium_path() -> str:
    """Where Chromium is.

    Raises:
        ChromiumMissingError: it is not installed; the text says what to do.
    """
    path = shutil.which("chromium")
    if path is None:
        raise ChromiumMissingError(
            "the console's tests need Chromium: apt-get install -y --no-install-recommends chromium"
        )
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start one, for as many contexts as wanted."""
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def fresh_page(
    browser: Browser, size: tuple[int, int] = WIDE, scheme: Any = "light", **options: Any
) -> Iterator[tuple[Page, Complaints]]:
    """Open a page with nothing remembered, that shows nothing yet."""
    context: BrowserContext = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints = Complaints()
    complaints.watch(page)
    try:
        yield page, complaints
    finally:
        # A request that a test answers itself may be on its way when the context goes.
        page.unroute_all(behavior="ignoreErrors")
        context.close()
