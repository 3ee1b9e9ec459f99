"""Whether what is parked of a slot can be redriven in order, and in which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.diversions import place_of
from proxy.core.positions import format_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.core.entry import Part
    from proxy.core.positions import Position
    from proxy.wire.parked import Parked


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


def _incomplete(parked: Iterable[Parked]) -> str:
    """Which chunked message is parked in part only, and what to do; empty if none is.

    A worker cannot acknowledge a part: its redrive would not end.
    """
    found: dict[str, tuple[Parked, set[int]]] = {}
    for each in parked:
        if each.chunk is not None:
            found.setdefault(each.chunk[0], (each, set()))[1].add(each.chunk[1])
    for first, chunks in found.values():
        assert first.chunk is not None
        _, _, count = first.chunk
        if len(chunks) < count:
            return (
                f"the chunked message that begins at {format_position(first.position)} is parked in part: "
                f"{len(chunks)} of its {count} chunks. Order the redrive again when the rest is parked, too; if its "
                "producer is gone, the rest never comes and no client can read the message: drop what is parked of the "
                "slot"
            )
    return ""
