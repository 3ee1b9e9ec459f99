"""What the admin API may know of the gateway: this, and nothing else.

Everything is a snapshot, a frozen dataclass made for the asker, so no route can change the gateway or be surprised
by it. `proxy.app` gives the implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class GatewayView(Protocol):
    """The gateway, read-only. Called on the gateway's event loop only."""

    def not_ready_because(self) -> Sequence[str]:
        """Every reason why no client should be sent here now, in words; none if it is ready."""

    def subscriptions(self) -> Any:
        """All Key_Shared subscriptions: a frozen dataclass of plain values, tuples, enums and such dataclasses."""
