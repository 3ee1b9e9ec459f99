"""The content of a made journal, and what a correct report must find in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FAULTS: Final = ("overlap", "inversion", "never_acked", "never_delivered", "repeated")
"""Kinds of violations that can be planted, by the audit's names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How it is made; the same plan makes the same rows."""

    messages: int
    """Without the planted ones. Each has two rows, and four if it comes back once."""
    keys: int = 10_000
    workers: int = 16
    gateways: int = 1
    """Replicas with a share of the keys each, and a clock of its own."""
    rate_per_s: int = 5_000
    returned_share: float = 0.01
    """Messages that their worker gives back once."""
    faults: int = 0
    """Planted ones of each kind."""
    policy_faults: int = 0
    """Planted ones of each kind of key policy, in a subscription of their own at the first gateway."""
    epoch_messages: int = 200_000
    """Until some keys go to other workers."""
    file_messages: int = 500_000
    """In one file of each gateway, unless the hour ends."""
    begin_s: int = 1_800_000_000
    """By the wall clock, since 1970."""
    seed: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be made."""
        for name in ("messages", "keys", "workers", "gateways", "rate_per_s", "epoch_messages", "file_messages"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, and should be at least 1")
        if self.workers < 2 and self.faults:  # noqa: PLR2004 - a pair
            raise ValueError("planted faults need two workers")
        if not 0 <= self.returned_share <= 1:
            raise ValueError(f"returned_share is {self.returned_share}, and should be from 0 to 1")


@dataclass(slots=True)
class Known:
    """What there is in a made journal."""

    messages: int = 0
    deliveries: int = 0
    acked: int = 0
    returned: int = 0
    rows: int = 0
    """Of the record of messages."""
    keys: int = 0
    hand_overs: int = 0
    hand_over_ns: int = 0
    """All of them in a row."""
    violations: dict[str, int] = field(default_factory=dict)
