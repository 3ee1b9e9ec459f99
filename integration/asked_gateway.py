"""What a gateway's admin API says, in one piece: for whatever runs one, as a process or in a container."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx


class AskedGateway:
    """Asks one gateway; whoever runs it makes `_http`, a client of its admin API."""

    _http: httpx.Client

    def statistics(self) -> dict[str, Any]:
        """Return its subscriptions with everything known of them, see `proxy.net.subscription.directory`.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        values = self._page(None)
        page = values
        while page["next"] is not None:
            page = self._page(page["next"])
            values["subscriptions"] += page["subscriptions"]
        listed = values["subscriptions"]
        values["subscriptions"] = [item for row in listed if (item := self._subscription(row)) is not None]
        return values

    def workers(self, topic: str, subscription: str) -> frozenset[str]:
        """Return the names of those that are connected to it now.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        found = self._subscription({"topic": topic, "subscription": subscription})
        workers = found["dispatcher"]["workers"] if found is not None else []
        return frozenset(worker["name"] for worker in workers)

    def _page(self, after: str | None) -> dict[str, Any]:
        query = {"limit": "1000"} | ({"after": after} if after is not None else {})
        answer = self._http.get("/api/v1/subscriptions", params=query).raise_for_status()
        values: dict[str, Any] = answer.json()
        return values

    def _subscription(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Everything about a listed one; None if it has ended since."""
        topic, name = row["topic"].removeprefix("persistent://"), quote(row["subscription"], safe="")
        answer = self._http.get(f"/api/v1/subscriptions/{topic}/{name}")
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        values: dict[str, Any] = answer.raise_for_status().json()
        return values
