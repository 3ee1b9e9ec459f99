"""What `/metrics` may know of the gateway: numbers, frozen when asked for. `proxy.views.metrics` gives them.

Called on the gateway's event loop only. The dataclasses are the gateway's own; which of their attributes are shown, and
under what names, is told by the tables in `admin_api.metrics.families`, and a test reads each of them from a gateway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class MetricsView(Protocol):
    """The gateway in numbers."""

    def gateway(self) -> Any:
        """Everything but its subscriptions."""

    def topics(self) -> Iterator[Any]:
        """Each topic that somebody wants for itself alone, as of the moment it is asked for."""

    def groups(self) -> Iterator[Any]:
        """Each group that this replica takes part in, in the same way."""

    def subscriptions(self) -> Iterator[Any]:
        """Each subscription; whoever asks for these one by one lets others run in between."""

    def consumers(self) -> Iterator[Any]:
        """Each consumer of each subscription, by name; in the same way."""
