"""Whether what is parked of a slot can be redriven in order, and in which."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from proxy.core.diversions import place_of
from proxy.core.positions import format_position

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def readable(order: list[Position], chunks_of: Mapping[Position, str], early_max: int) -> list[Position]:
    """The first of these that one reader hands on in this order: it gets them in that of the parking topic.

    It keeps no more than `early_max` until their turn. A seek back brings older messages, which are parked last: they
    are read first, and the others by the next reader. `chunks_of` has the uuid of each one's chunked message, or
    nothing: none is taken in part.
    """
    ranks = {position: rank for rank, position in enumerate(sorted(order))}
    highest, whole, left = 0, 0, Counter(uuid for uuid in chunks_of.values() if uuid)
    begun: set[str] = set()
    for count, position in enumerate(order):
        if not begun:
            whole = count
        if whole and ranks[position] + early_max < highest:
            return order[:whole]
        highest = max(highest, ranks[position])
        if uuid := chunks_of[position]:
            left[uuid] -= 1
            (begun.add if left[uuid] else begun.discard)(uuid)
    return order


def why_not(parked: Mapping[Position, Parked], refused: Part | None, reason: str, *, coming: bool) -> str:
    """Why this cannot be redriven in order now, and what to do; empty if it can.

    `refused` is the first message of the slot that the parking topic refuses, for a `reason`; `coming` if there are
    others that it is about to take.
    """
    if refused is not None and any(place_of(refused) < parked_place(each) for each in parked.values()):
        return overtaken(reason)
    return "" if coming else _incomplete(parked)


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
    """Chunks of messages of which an earlier chunk is gone, if the topic was read as far as they were in it.

    Not of those of which later ones are missing: these may be published yet.
    """
    gone = [chunks for chunks in _chunked(parked) if _indexes(chunks) != set(range(max(_indexes(chunks)) + 1))]
    return [position for chunks in gone for position, _ in chunks]


def _chunked(parked: Mapping[Position, Parked]) -> list[list[tuple[Position, Parked]]]:
    """Chunked messages, whole or in part: their chunks in the topic's order, each with its place in the parking topic.

    A producer may use a uuid again, for a message that begins with another chunk 0.
    """
    messages: list[list[tuple[Position, Parked]]] = []
    by_uuid: dict[str, list[tuple[Position, Parked]]] = {}
    for position in in_topic_order(parked):
        each = parked[position]
        if each.chunk is None:
            continue
        uuid, index, _ = each.chunk
        chunks = by_uuid.get(uuid)
        if chunks is None or (not index and chunks[-1][1].position != each.position):
            chunks = by_uuid[uuid] = []
            messages.append(chunks)
        chunks.append((position, each))
    return messages


def _indexes(chunks: list[tuple[Position, Parked]]) -> set[int]:
    return {each.chunk[1] for _, each in chunks if each.chunk is not None}


def _incomplete(parked: Mapping[Position, Parked]) -> str:
    """Which chunked message is parked in part only, and what to do; empty if none is.

    A worker cannot acknowledge a part: its redrive would not end.
    """
    for chunks in _chunked(parked):
        found, count = len(_indexes(chunks)), max(each.chunk[2] for _, each in chunks if each.chunk is not None)
        if found < count:
            first = format_position(chunks[0][1].position)
            return (
                f"the chunked message of which a chunk is at {first} is parked in part: {found} of its {count} chunks. "
                "Order the redrive again when the rest is parked, too. The rest never comes if it was acknowledged "
                "before a crash or skipped, or if the producer is gone. Then no client can read the message: drop "
                "what is incomplete of the slot (keyline drop --incomplete), or all of it if only later chunks are "
                "missing"
            )
    return ""
