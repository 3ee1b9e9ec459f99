"""Entries on their way into the dispatcher, when their key and slots are known: as parts, or as batches of several.

Also where the contract's monitor hears of them, but for single messages, which `receiving` hands on itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.entry import Chunk, Part, mixed_batch
from proxy.core.index_bits import bits_to_indexes
from proxy.net.subscription.acks import bits_of
from proxy.net.subscription.batch_slots import BATCH_MESSAGES_MAX, Mixed
from proxy.wire.metadata import uuid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.contract_monitor import ContractMonitor
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Batch
    from proxy.net.subscription.batch_contents import BatchContents
    from proxy.net.subscription.batch_slots import Slots
    from proxy.net.subscription.counters import Counters
    from proxy.wire.pulsar_pb2 import MessageMetadata


class Intake:
    """Of one consumer at the broker."""

    __slots__ = ("_contents", "_counters", "_dispatcher", "_monitor")

    def __init__(
        self, dispatcher: Dispatcher, contents: BatchContents, counters: Counters, monitor: ContractMonitor | None
    ) -> None:
        """`monitor` hears of entries of the slots that it watches."""
        self._dispatcher = dispatcher
        self._contents = contents
        self._counters = counters
        self._monitor = monitor

    def single(self, position: int, slot: int, redeliveries: int, tail: bytes, arrived_at: float, now: float) -> None:
        """One message that had to wait, or that cannot be read."""
        self._arrived(position, slot, 1)
        self._dispatcher.receive_part(Part(position, slot, 1, tail, redeliveries, arrived_at), now)

    def several(
        self,
        slots: Slots,
        position: int,
        slot: int,
        count: int,
        redeliveries: int,
        ack_set: tuple[int, ...] | None,
        tail: bytes,
        arrived_at: float,
        now: float,
    ) -> None:
        """One of several messages, or partly acknowledged: `slots` as found in it, and `slot` of its own key."""
        if slots is None:
            # Whole, also what an earlier life acknowledged of it: see `cutting.forget_acked`.
            part = Part(position, slot, min(count, BATCH_MESSAGES_MAX), tail, redeliveries, arrived_at)
            part.opaque = True
            self._arrived(position, slot, part.count)
            self._dispatcher.receive_part(part, now, _kept_back(bits_of(ack_set), part.count) if ack_set else 0)
        elif ack_set:
            self._partly_acked(slots, position, count, redeliveries, bits_of(ack_set), tail, arrived_at, now)
        elif isinstance(slots, Mixed):
            self._counters.mixed_batches += 1
            self._mixed(slots, slots.wanted, position, redeliveries, tail, arrived_at, now, 0)
        else:
            self._arrived(position, slots, count)
            self._dispatcher.receive_part(Part(position, slots, count, tail, redeliveries, arrived_at), now)

    def _mixed(
        self,
        slots: Mixed,
        wanted: tuple[int, ...] | None,
        position: int,
        redeliveries: int,
        tail: bytes,
        arrived_at: float,
        now: float,
        kept_back: int,
    ) -> None:
        batch = mixed_batch(position, tail, slots.slots, redeliveries, arrived_at, wanted)
        self._contents.keep(batch, slots.opened)
        self._received_batch(batch, slots.slots, wanted, now, kept_back)

    def chunk(
        self,
        metadata: MessageMetadata,
        position: int,
        slot: int,
        redeliveries: int,
        tail: bytes,
        arrived_at: float,
        now: float,
    ) -> None:
        """A piece of a larger message."""
        part = Part(position, slot, 1, tail, redeliveries, arrived_at)
        part.chunk = Chunk(uuid_of(metadata), metadata.chunk_id, metadata.num_chunks_from_msg)
        self._arrived(position, slot, 1)
        self._dispatcher.receive_part(part, now)

    def _partly_acked(
        self,
        slots: Mixed | int,
        position: int,
        count: int,
        redeliveries: int,
        unacked: int,
        tail: bytes,
        arrived_at: float,
        now: float,
    ) -> None:
        """An entry without some of its messages, which are acknowledged or in a transaction: see `kept_back`."""
        kept_back = _kept_back(unacked, count)
        left = tuple(bits_to_indexes(unacked & ((1 << count) - 1), range(count)))
        if isinstance(slots, Mixed) and slots.wanted is not None:
            left = tuple(sorted(set(left).intersection(slots.wanted)))
        if not left:
            self._dispatcher.receive_nothing(position, kept_back)
        elif isinstance(slots, Mixed):
            self._mixed(slots, left, position, redeliveries, tail, arrived_at, now, kept_back)
        else:
            of_each = [slots] * count
            batch = mixed_batch(position, tail, of_each, redeliveries, arrived_at, left)
            self._received_batch(batch, of_each, left, now, kept_back)

    def _received_batch(
        self, batch: Batch, slots: Sequence[int], wanted: tuple[int, ...] | None, now: float, kept_back: int
    ) -> None:
        """`slots` of all its messages; `wanted` are the indexes of those that are to be delivered, None for all."""
        if self._monitor is not None and batch.parts[0].divisible:
            self._monitor.arrived_batch(batch.position, slots, wanted)
        self._dispatcher.receive_batch(batch, now, kept_back)

    def _arrived(self, position: int, slot: int, count: int) -> None:
        """An entry whose messages have one slot."""
        if self._monitor is not None and self._monitor.watched[slot]:
            self._monitor.arrived(position, slot, count)


def _kept_back(unacked: int, count: int) -> int:
    """The messages of so many that an ack set leaves out, as bits."""
    return ~unacked & ((1 << count) - 1)
