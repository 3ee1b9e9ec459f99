"""Reads a gateway's admin API, for gateways that run as a process or in a container."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE: Final = {"here": "true"}
"""Asks a replica for what it serves itself."""
FRESH: Final = httpx.Limits(max_keepalive_connections=0)
"""No connection is kept: a gateway that hung closes it when it goes on, in the moment of a request perhaps."""


class AskedGateway:
    """Asks one gateway; the subclass that runs it makes `_http`, a client of its admin API."""

    _http: httpx.Client

    def statistics(self) -> dict[str, Any]:
        """Return its own subscriptions with everything known of them, see `proxy.net.subscription.directory`.

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
        """Return the names of those that it serves now itself.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        found = self._subscription({"topic": topic, "subscription": subscription})
        workers = found["dispatcher"]["workers"] if found is not None else []
        return frozenset(worker["name"] for worker in workers)

    def served(self, topic: str, subscription: str) -> dict[str, Any] | None:
        """Return everything about a subscription, whichever replica serves it; None if none does.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        return self._subscription({"topic": topic, "subscription": subscription}, {})

    def deployment(self) -> dict[str, Any]:
        """Return what it knows of all replicas in owner mode.

        Raises:
            httpx.HTTPError: it does not answer, or has no part in one.
        """
        values: dict[str, Any] = self._http.get("/api/v1/deployment").raise_for_status().json()
        return values

    def _page(self, after: str | None) -> dict[str, Any]:
        query = {"limit": "1000", **HERE} | ({"after": after} if after is not None else {})
        answer = self._http.get("/api/v1/subscriptions", params=query).raise_for_status()
        values: dict[str, Any] = answer.json()
        return values

    def _subscription(self, row: dict[str, Any], where: Mapping[str, str] = HERE) -> dict[str, Any] | None:
        """Everything about a listed one; None if it has ended since."""
        topic, name = row["topic"].removeprefix("persistent://"), quote(row["subscription"], safe="")
        answer = self._http.get(f"/api/v1/subscriptions/{topic}/{name}", params=where)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        values: dict[str, Any] = answer.raise_for_status().json()
        return values
