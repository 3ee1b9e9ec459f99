"""What the parts of a subscription count together, beside its dispatcher."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Of one subscription, since it began here."""

    acks_refused: int = 0
    ack_leases_lost: int = 0
    ack_lease_extensions: int = 0
    quarantines: int = 0
    parked_copies_refused: int = 0
    takeovers_at_risk: int = 0
    opaque_batches: int = 0
    unreadable_entries: int = 0
    mixed_batches: int = 0
    sliced_deliveries: int = 0
    background_openings: int = 0
    background_opened_bytes: int = 0
