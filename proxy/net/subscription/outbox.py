"""Deliveries on their way to a worker: frames for its socket.

A whole entry leaves as the broker sent it, but for the consumer id in front; a slice leaves as a smaller batch. Frames
are made only while the worker's socket takes them: what does not fit stays in the worker's outbox as references to
bytes that are held anyway, so a slow reader costs no copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.delivery_key import WIRE_ENTRY_MASK
from proxy.core.histogram import Histogram
from proxy.core.positions import ENTRY_BITS, ENTRY_MASK
from proxy.wire.errors import MetadataError
from proxy.wire.messages import message_start
from proxy.wire.metadata import strip_broker_entry_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.contract_monitor import ContractMonitor
    from proxy.core.entry import Part
    from proxy.core.worker import Worker
    from proxy.net.events import DeliveryRecorder
    from proxy.net.ports import WorkerLink
    from proxy.net.subscription.batch_contents import BatchContents
    from proxy.net.subscription.counters import Counters
    from proxy.wire.messages import Extras, MessageStart

LARGE_BYTES: Final = 8 << 10
"""Pieces of frames that are larger on average are sent as they are: to join them costs more than several calls."""

FRAMES_AT_A_TIME: Final = 128
"""Frames joined into one write before the socket is asked again whether it takes more."""

GROUP_BYTES: Final = 1 << 20
"""The write ends with the message that exceeds it: 128 large ones may be more than may be left unread at all."""

_BROKER_ENTRY_MAGIC: Final = b"\x02"


class Outbox:
    """Writes workers' outboxes to their links."""

    __slots__ = ("_contents", "_counters", "_monitor", "_now", "_recorder", "_start", "dispatch_latency")

    def __init__(
        self,
        counters: Counters,
        now: Callable[[], float],
        contents: BatchContents,
        recorder: DeliveryRecorder | None = None,
        monitor: ContractMonitor | None = None,
    ) -> None:
        """`contents` cuts batches."""
        self._monitor = monitor
        self._recorder = recorder
        self._counters = counters
        self._now = now
        self._contents = contents
        self._start: MessageStart | None = None
        """The last that was written: workers with a connection each mostly have the same consumer id."""
        self.dispatch_latency = Histogram()
        """From an entry's arrival to its being written to a worker's socket, for each delivery's first attempt."""

    def write(self, link: WorkerLink, worker: Worker, extras: Extras) -> bool:  # noqa: C901 - a call for each would cost more
        """Send what the socket takes; True if that was everything."""
        units = worker.outbox
        consumer_id = link.consumer_id
        keeps_broker_entry = link.accepts_broker_entry_metadata
        piece = self._contents.piece
        last = self._start
        start = last if last is not None and last.consumer_id == consumer_id and last.extras is extras else None
        sent = slices = 0
        while sent < len(units):
            if not link.writable:
                del units[:sent]
                self._counters.sliced_deliveries += slices
                return False
            pieces: list[bytes] = []
            group = units[sent : sent + FRAMES_AT_A_TIME]
            room = GROUP_BYTES
            for unit in group:
                if unit.key == unit.position:
                    tail = unit.tail
                    if not keeps_broker_entry and tail[1:2] == _BROKER_ENTRY_MAGIC:
                        tail = _without_broker_entry(tail)
                    entry = unit.position & ENTRY_MASK
                else:
                    batch, indexes = unit.batch, unit.indexes
                    assert batch is not None
                    assert indexes is not None
                    entry = -unit.key & WIRE_ENTRY_MASK  # as `wire_id` has it, in place
                    tail = piece(batch, indexes)
                    slices += 1
                ledger, redeliveries = unit.position >> ENTRY_BITS, unit.redeliveries
                if (
                    start is None
                    or ledger != start.ledger
                    or redeliveries != start.redeliveries
                    or not start.lowest <= entry < start.above
                ):
                    start = self._start = message_start(consumer_id, ledger, entry, redeliveries, extras)
                pieces.append(start.of(entry, len(tail)))
                pieces.append(tail)
                room -= len(tail)
                if room < 0:
                    del group[len(pieces) // 2 :]
                    break
            if sum(map(len, pieces)) < LARGE_BYTES * len(pieces):
                pieces = [b"".join(pieces)]
            for each in pieces:
                link.send(each)
            sent += len(group)
            if sent == len(units):
                link.push()  # before the books are kept: the worker reads meanwhile
            if self._monitor is not None:
                self._monitor.sent(worker, group)
            self._observe(worker, group)
        worker.outbox = []
        self._counters.sliced_deliveries += slices
        return True

    def _observe(self, worker: Worker, group: Sequence[Part]) -> None:
        """Entries that arrived in one run share their time, so they are observed together."""
        now = self._now()
        if self._recorder is not None:
            self._recorder.sent(worker, group, now)
        received_at, count = group[0].received_at, 0
        for unit in group:
            if unit.attempts == 1:
                if unit.received_at != received_at:
                    self.dispatch_latency.observe(now - received_at, count)
                    received_at, count = unit.received_at, 0
                count += 1
        self.dispatch_latency.observe(now - received_at, count)


def _without_broker_entry(tail: bytes) -> bytes:
    """The tail for a client that asked for no broker entry metadata; one whose header is damaged stays as it is.

    Such an entry was counted as unreadable when it came, and is delivered for the client to complain of. Raising here
    would close the broker's connection, at every redelivery.
    """
    try:
        return strip_broker_entry_metadata(tail)
    except MetadataError:
        return tail
