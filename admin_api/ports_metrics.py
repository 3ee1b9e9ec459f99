"""The interface of `/metrics` to the gateway: numbers, frozen at the call. `proxy.views.metrics` implements it.

Called on the gateway's event loop only. The dataclasses are the gateway's own; the tables in
`admin_api.metrics.families` select and name their attributes, and a test reads each of them from a gateway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class MetricsView(Protocol):
    """The gateway in numbers."""

    def gateway(self) -> Any:
        """Everything but its subscriptions."""

    def topics(self) -> Iterator[Any]:
        """Each topic with exclusive producers, as of the moment of its iteration."""

    def groups(self) -> Iterator[Any]:
        """Each group of this replica, in the same way."""

    def subscriptions(self) -> Iterator[Any]:
        """Each subscription; the caller may let other work run between two of them."""

    def durations(self, *, by_namespace: bool) -> Iterator[tuple[str, Any]]:
        """Histograms of each subscription that is or was here, with its namespace or ""; to be added up by that."""

    def workers(self) -> Iterator[Any]:
        """Each worker of each subscription, by name; in the same way."""
