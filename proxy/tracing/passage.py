"""What is noted of a sampled entry while it is here. Plain values: the entry's bytes are not kept alive for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.tracing.contexts import Context

STEPS_MAX: Final = 100
"""Deliveries and waits noted of one entry: one that no worker can process comes back for ever."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Messages that were sent now."""

    worker: str
    attempt: int
    messages: int
    slot: int
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Messages that a worker had."""

    worker: str
    attempt: int
    messages: int
    since: float
    until: float
    ended: str
    """``acked``, ``returned`` or ``dropped``."""


@dataclass(slots=True)
class Passage:
    """One entry. Moments are seconds on the gateway's clock."""

    topic: str
    subscription: str
    ledger: int
    entry: int
    size_bytes: int
    redeliveries: int
    received_at: float
    contexts: tuple[Context, ...]
    ended_at: float = 0.0
    ended: str = ""
    """As of the last hold; ``left`` where its end was not seen."""
    reasons: list[tuple[float, str]] = field(default_factory=list)
    """Since when it has waited for what; no reason ("") once it waits for nothing."""
    waits: list[Wait] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    def waits_for(self, reason: str, now: float) -> None:
        """It does, as far as is seen now."""
        last = self.reasons[-1][1] if self.reasons else ""
        if reason != last and len(self.reasons) < STEPS_MAX:
            self.reasons.append((now, reason))

    def sent(self, wait: Wait) -> None:
        """Some of it, or all, was sent."""
        if len(self.waits) < STEPS_MAX:
            self.waits.append(wait)

    def held(self, hold: Hold) -> None:
        """A delivery has ended."""
        self.ended = hold.ended
        if len(self.holds) < STEPS_MAX:
            self.holds.append(hold)
