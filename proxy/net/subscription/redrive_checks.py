"""Whether what is parked of a slot can be redriven in order, and in which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.diversions import place_of
from proxy.core.positions import format_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.core.entry import Part
    from proxy.core.positions import Position
    from proxy.wire.parked import Parked


STILL_COMES: Final = (
    "some of the slot is on its way, or at a worker, or the topic was not read so far since the gateway began: it is "
    "not known yet what is parked in part. Order it again in some seconds, not during a redrive"
)


def in_topic_order(parked: Mapping[Position, Parked]) -> list[Position]:
    """Where the messages are in the parking topic, in the order in which they were in the original one.

    That is the same, but for what was refused there once, or was brought again by a seek.
    """
    return sorted(parked, key=lambda position: parked_place(parked[position]))


def why_not(parked: Mapping[Position, Parked], refused: Part | None, reason: str, *, coming: bool) -> str:
    """Why this cannot be redriven in order now, and what to do; empty if it can.

    `refused` is the first message of the slot that the parking topic refuses, for a `reason`; `coming` if there are
    others that it is about to take.
    """
    if refused is not None and any(place_of(refused) < parked_place(each) for each in parked.values()):
        return overtaken(reason)
    return "" if coming else _incomplete(parked.values())


def overtaken(reason: str) -> str:
    """What is said where a message cannot be parked for a reason, and later ones of its slot are parked."""
    return (
        f"a message of the slot is not parked, and later ones are: {reason}. Let the parking topic take it, and order "
        "the redrive again; or drop what is parked of the slot"
    )


def parked_place(parked: Parked) -> tuple[int, int]:
    """As `place_of` a part."""
    return parked.position, -1 if parked.place is None else parked.place


def incomplete(parked: Mapping[Position, Parked]) -> list[Position]:
    """Chunks of messages that are parked in part only."""
    uuids = _in_part(parked.values())
    return [position for position, each in parked.items() if each.chunk is not None and each.chunk[0] in uuids]


def _in_part(parked: Iterable[Parked]) -> dict[str, dict[int, Parked]]:
    """Chunked messages that are, by uuid: chunks by their indexes."""
    found: dict[str, dict[int, Parked]] = {}
    for each in parked:
        if each.chunk is not None:
            found.setdefault(each.chunk[0], {}).setdefault(each.chunk[1], each)
    return {uuid: chunks for uuid, chunks in found.items() if len(chunks) < _count_of(chunks)}


def _count_of(chunks: Mapping[int, Parked]) -> int:
    return max(each.chunk[2] for each in chunks.values() if each.chunk is not None)


def _incomplete(parked: Iterable[Parked]) -> str:
    """Which chunked message is parked in part only, and what to do; empty if none is.

    A worker cannot acknowledge a part: its redrive would not end.
    """
    for chunks in _in_part(parked).values():
        first = format_position(min(each.position for each in chunks.values()))
        return (
            f"the chunked message of which a chunk is at {first} is parked in part: {len(chunks)} of its "
            f"{_count_of(chunks)} chunks. Order the redrive again when the rest is parked, too. The rest never comes "
            "if it was acknowledged before a crash or skipped, or if the producer is gone. Then no client can "
            "read the message: drop what is incomplete of the slot (keyline drop --incomplete)"
        )
    return ""
