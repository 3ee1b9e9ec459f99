"""Logging in to the console of a real gateway in a real browser, and the commands with a token."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jwt
import pytest
from playwright.sync_api import Browser, Page, expect

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.browser import Complaints, chromium, fresh_page, load

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Guarded(NamedTuple):
    """A gateway that asks who asks, and the secret of its tokens."""

    gateway: KeylineGateway
    secret: bytes

    def token(self, name: str) -> str:
        """Of somebody."""
        return jwt.encode({"sub": name}, self.secret, algorithm="HS256")


@pytest.fixture
def guarded(pulsar: PulsarStandalone, tmp_path: Path) -> Iterator[Guarded]:
    """One with a viewer and an operator."""
    secret = secrets.token_bytes(32)
    key = tmp_path / "secret.key"
    key.write_bytes(secret)
    settings = {"admin_token_secret_file": str(key), "admin_viewers": "vera", "admin_operators": "otto"}
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, tmp_path, settings=settings) as gateway:
        yield Guarded(gateway, secret)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """The system's."""
    with chromium() as browser:
        yield browser


def test_a_person_logs_in_sees_the_console_and_logs_out(chrome: Browser, guarded: Guarded, tmp_path: Path) -> None:
    """A wrong token is told on the page; a login that ends while the page is open leads back to it."""
    with fresh_page(chrome) as (page, complaints):
        log_in_and_out(page, complaints, guarded, tmp_path)
        assert [error for error in complaints.errors if "401" not in error] == []


def log_in_and_out(page: Page, complaints: Complaints, guarded: Guarded, tmp_path: Path) -> None:
    """As a person would."""
    load(page, complaints, f"{guarded.gateway.admin_url}/")
    page.get_by_label("Token").fill("rubbish")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("the token is not valid")
    page.screenshot(path=tmp_path / "login.png")
    load(page, complaints, f"{guarded.gateway.admin_url}/")
    page.get_by_label("Token").fill(guarded.token("vera"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("vera, viewer")).to_be_visible()
    expect(page.get_by_role("heading", name="Subscriptions", level=1)).to_be_visible()
    page.screenshot(path=tmp_path / "console.png")
    assert "keyline_token" not in page.evaluate("document.cookie"), "no script can read it"
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.get_by_label("Token").fill(guarded.token("otto"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("otto, operator")).to_be_visible()
    page.context.clear_cookies()
    expect(page.get_by_label("Token")).to_be_visible()


def command(guarded: Guarded, *arguments: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command as an operator types it."""
    environment = {**os.environ, "KEYLINE_ADMIN_URL": guarded.gateway.admin_url}
    if token is not None:
        environment["KEYLINE_ADMIN_TOKEN"] = token
    program = str(Path(sys.executable).with_name("keyline"))
    return subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_commands_bring_a_token(guarded: Guarded) -> None:
    """Of the environment; who has none, or may not, is told so in a line."""
    assert command(guarded, "stats", token=guarded.token("vera")).returncode == 0
    nobody = command(guarded, "stats")
    assert (nobody.returncode, nobody.stderr.count("\n")) == (1, 1)
    assert "authentication required" in nobody.stderr
    viewer = command(guarded, "pause", "orders", "billing", token=guarded.token("vera"))
    assert "vera has the role viewer, and this needs operator" in viewer.stderr
    operator = command(guarded, "pause", "orders", "billing", token=guarded.token("otto"))
    assert "operator" not in operator.stderr, "it is refused for another reason: there is no such subscription"
    log = guarded.gateway.log.read_text()
    assert guarded.token("vera") not in log
    assert "admin request refused" in log
