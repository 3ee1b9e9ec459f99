"""The admin API's answers, over a view that is only data."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from admin_api.app import admin_app


class Mode(enum.Enum):
    """As the gateway's snapshots have them."""

    STICKY = "sticky"


@dataclass(frozen=True, slots=True)
class Inner:
    """A worker, say."""

    name: str
    position: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Any frozen dataclass will do."""

    mode: Mode
    workers: tuple[Inner, ...]
    counts: dict[str, int]


@dataclass
class View:
    """A gateway made of two fields."""

    reasons: list[str] = field(default_factory=list)
    snapshot: Any = None

    def not_ready_because(self) -> Sequence[str]:
        """As the port says."""
        return self.reasons

    def subscriptions(self) -> Any:
        """As the port says."""
        return self.snapshot


def get(view: View, path: str, method: str = "GET") -> httpx.Response:
    """Ask the app in-process."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=admin_app(view, "1.2.3"))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.request(method, path)

    return asyncio.run(ask())


def test_livez_is_live_even_when_not_ready() -> None:
    """A broker that is down is no reason to restart the gateway."""
    answer = get(View(reasons=["broker: down"]), "/livez")
    assert (answer.status_code, answer.json()) == (200, {"live": True})


def test_readyz_is_200_without_a_reason_against_it() -> None:
    """And says so in its body as well."""
    answer = get(View(), "/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})


def test_readyz_is_503_with_every_reason() -> None:
    """An operator reads why without a log."""
    answer = get(View(reasons=["draining", "broker: down"]), "/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "reasons": ["draining", "broker: down"]}


def test_subscriptions_are_the_snapshot_as_json() -> None:
    """Nested dataclasses, tuples, enums and dicts, without a schema for each."""
    snapshot = Snapshot(Mode.STICKY, (Inner("a", (7, 1)), Inner("ü", None)), {"acks": 3})
    answer = get(View(snapshot=snapshot), "/api/v1/subscriptions")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "mode": "sticky",
        "workers": [{"name": "a", "position": [7, 1]}, {"name": "ü", "position": None}],
        "counts": {"acks": 3},
    }


def test_nothing_can_be_changed() -> None:
    """The view is read-only, and so are the routes."""
    for path in ("/livez", "/readyz", "/api/v1/subscriptions"):
        assert get(View(), path, "POST").status_code == 405


def test_the_schema_is_published_and_no_page_loads_scripts_from_elsewhere() -> None:
    """FastAPI's documentation pages would."""
    schema = get(View(), "/openapi.json").json()
    assert schema["info"] == {"title": "Keyline", "version": "1.2.3"}
    assert {"/livez", "/readyz", "/api/v1/subscriptions"} <= set(schema["paths"])
    assert get(View(), "/docs").status_code == 404
    assert get(View(), "/redoc").status_code == 404
