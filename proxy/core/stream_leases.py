"""Which streams of a subscription this replica may deliver, and until when.

Problem: several replicas serve one subscription, each for some streams of its hash space, and a key must be at one of
them only. Rule kept: a message goes out only while its stream is open here and the leases have not run out. Streams
cut the slots 0..65535 as the group's leader cuts them: stream s of n has s*65536//n up to (s+1)*65536//n - 1.

Why one end for all streams: a session renews all its leases with one message, so they end together. Why no event closes
them at that end: a late one (a timer, a stalled loop) would allow deliveries meanwhile; a comparison with `now` at each
delivery cannot be late.

This is a table that is asked. What opening and closing do to what waits is in `streams_here`.

Source: EIP-0028, "General Idea" and "Session Side"; design section 5.
"""

from __future__ import annotations

from math import inf
from typing import Final

from proxy.core.hash_ranges import HashRange
from proxy.core.sticky_key import RANGE_SLOT_COUNT

_SLOT_BITS: Final = RANGE_SLOT_COUNT.bit_length() - 1


def stream_slots(stream: int, streams_count: int) -> HashRange:
    """Slots of a stream, both ends included: the one place that tells how a hash space is cut."""
    assert 0 <= stream < streams_count, stream
    start = stream * RANGE_SLOT_COUNT // streams_count
    return HashRange(start, (stream + 1) * RANGE_SLOT_COUNT // streams_count - 1)


class StreamLeases:
    """The streams of one subscription, those that are open here, and the end of their leases."""

    __slots__ = ("_open", "send_s", "streams_count", "until")

    def __init__(self, streams_count: int, send_s: float = 0.0) -> None:
        """`streams_count` streams, from 1 to one for each slot; none is open, and the leases have run out.

        `send_s`: for so long after `until` what was dispatched before may still be on its way to a worker's connection.
        """
        assert 1 <= streams_count <= RANGE_SLOT_COUNT, streams_count
        self.streams_count = streams_count
        self.send_s = send_s
        self.until = -inf
        """Monotonic seconds; nothing may be delivered at this moment or later."""
        self._open: set[int] = set()

    @property
    def end(self) -> float:
        """When the leases themselves end: by then what was delivered must have left."""
        return self.until + self.send_s

    def stream_of(self, slot: int) -> int:
        """Return the stream that has the slot, 0..65535."""
        assert 0 <= slot < RANGE_SLOT_COUNT, slot
        return ((slot + 1) * self.streams_count - 1) >> _SLOT_BITS

    def range_of(self, stream: int) -> HashRange:
        """Return the slots of a stream, both ends included."""
        return stream_slots(stream, self.streams_count)

    def is_open(self, stream: int) -> bool:
        """Whether this replica has a lease on the stream, which may have run out."""
        assert 0 <= stream < self.streams_count, stream
        return stream in self._open

    def open(self, stream: int) -> None:
        """This replica has a lease on the stream; once more changes nothing."""
        assert 0 <= stream < self.streams_count, stream
        self._open.add(stream)

    def close(self, stream: int) -> None:
        """It has none; once more changes nothing."""
        assert 0 <= stream < self.streams_count, stream
        self._open.discard(stream)

    def covers(self, slot: int) -> bool:
        """Whether the slot's stream is open, `until` aside."""
        return self.stream_of(slot) in self._open

    def lapsed(self, now: float) -> bool:
        """Whether the leases have run out."""
        return now >= self.until

    def allows(self, slot: int, now: float) -> bool:
        """Whether messages of the slot may be delivered at `now`, in monotonic seconds."""
        return now < self.until and self.stream_of(slot) in self._open
