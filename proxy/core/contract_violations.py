"""How the contract of Key_Shared can be broken, and what the gateway keeps of it: see `proxy.core.contract_monitor`.

Apart from the monitor because events, summaries and metrics tell of violations and judge none.

Specification: design section 1; PIP-379.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """How the contract was broken."""

    TWO_WORKERS = "two_workers"
    OVERTAKEN = "overtaken"
    SENT_TWICE = "sent_twice"


KINDS: Final = tuple(kind.value for kind in Kind)
NO_VIOLATIONS: Final = dict.fromkeys(KINDS, 0)
"""By kind."""


class Violation(NamedTuple):
    """A delivery that should not have been made: of the message at `position`, to `worker`."""

    kind: Kind
    slot: int
    position: int
    batch_index: int
    """0 for a message of its own."""
    worker: str
    other_position: int
    """Of the message that forbade it."""
    other_batch_index: int
    other_worker: str
    """Who has that one; empty if it waits."""


class ContractTotals:
    """Of all subscriptions of a gateway, also of those that have ended."""

    __slots__ = ("checked_messages", "violations")

    def __init__(self) -> None:
        """Nothing was judged."""
        self.checked_messages = 0
        """Messages whose delivery was judged."""
        self.violations: dict[str, int] = dict.fromkeys(KINDS, 0)
        """By kind."""
