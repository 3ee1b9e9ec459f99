"""A group's streams: parts of a subscription's hash space, and how far each has been consumed.

A stream is what one replica holds at a time. All keys of a slot are in one stream, so a key is at one replica.

Source: EIP-0028, "General Idea"; design section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.core.hash_ranges import HashRange
from proxy.core.positions import Position
from proxy.core.stream_leases import stream_slots

STREAMS_DEFAULT: Final = 16
STREAMS_MAX: Final = 1_024
"""More would leave a stream fewer than 64 slots, and a broker as many consumers of one subscription."""


class GroupId(NamedTuple):
    """What is shared: one subscription of one topic, or of one partition of it."""

    topic: str
    subscription: str


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a session says of a stream that it consumes, or has."""

    stream: int
    """From 0."""
    acknowledged: Position | None = None
    """Everything of the stream up to here is acknowledged; None where nothing is known."""
    pending_count: int = 0
    """Messages that workers have and did not acknowledge."""
    rate: float = 0.0
    """Messages a second."""
    finished: bool = False
    """The session has nothing of it any more, and will not have: it may be leased to others."""
    refused: bool = False
    """The broker still refuses it, because another consumer has it."""


def hash_range(stream: int, streams_count: int) -> HashRange:
    """Slots of a stream, both ends included. Raises ValueError for a stream that there is not."""
    if not 1 <= streams_count <= STREAMS_MAX:
        message = f"{streams_count} streams: there should be from 1 to {STREAMS_MAX}"
        raise ValueError(message)
    if not 0 <= stream < streams_count:
        message = f"stream {stream}: it should be from 0 to {streams_count - 1}"
        raise ValueError(message)
    return stream_slots(stream, streams_count)
