"""What is parked of a subscription, for those who ask."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.core.positions import format_position

if TYPE_CHECKING:
    from proxy.net.subscription.parking import ParkingLot

KEYS_LISTED_MAX: Final = 10
KEYS_LOOKED_AT_MAX: Final = 1_000
"""Messages of a slot whose keys are looked at."""


@dataclass(frozen=True, slots=True)
class ParkedSlot:
    """One slot that is parked."""

    slot: int
    state: str
    """``parked``, ``redriving`` or ``dropping``."""
    messages: int
    """In the parking topic."""
    keys: tuple[str, ...]
    """Of the first messages, each once."""
    attempts: int
    """Of the first message, when it was parked."""
    first_published_ms: int | None
    """When its producer published it, since the epoch; None if none has arrived there yet."""


@dataclass(frozen=True, slots=True)
class ParkedSlots:
    """All of a subscription."""

    parking_topic: str | None
    """None where nothing is parked ever: `park_after` is 0."""
    parked_slots: int
    parked_messages: int
    trouble: str
    """Why the parking topic does not take what is to go there; empty if it does."""
    slots: tuple[ParkedSlot, ...]


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """One message in the parking topic."""

    position: str
    """In the original topic, ``ledger:entry``."""
    batch_index: int | None
    parked_position: str
    """In the parking topic."""
    key: str
    attempts: int
    published_ms: int
    size_bytes: int


def parked_slots(lot: ParkingLot | None, trouble: str, limit: int) -> ParkedSlots:
    """Slots in their order, the first `limit` of them."""
    if lot is None:
        return ParkedSlots(None, 0, 0, "", ())
    slots = sorted(lot.parked_slots)
    shown = tuple(_shown(lot, slot) for slot in slots[:limit])
    return ParkedSlots(lot.topic, len(slots), lot.log.count, trouble, shown)


def parked_messages(lot: ParkingLot | None, slot: int, limit: int) -> tuple[ParkedMessage, ...]:
    """A slot's messages in order, the first `limit` of them."""
    found = {} if lot is None else lot.log.slots.get(slot, {})
    return tuple(
        ParkedMessage(
            format_position(parked.position),
            parked.place,
            format_position(at),
            parked.key,
            parked.attempts,
            parked.publish_time_ms,
            parked.size,
        )
        for at, parked in islice(found.items(), limit)
    )


def _shown(lot: ParkingLot, slot: int) -> ParkedSlot:
    found = lot.log.slots.get(slot, {})
    first = next(iter(found.values()), None)
    keys = dict.fromkeys(each.key for each in islice(found.values(), KEYS_LOOKED_AT_MAX))
    return ParkedSlot(
        slot,
        lot.state_of(slot),
        len(found),
        tuple(islice(keys, KEYS_LISTED_MAX)),
        0 if first is None else first.attempts,
        None if first is None else first.publish_time_ms,
    )
