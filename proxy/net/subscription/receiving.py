"""Entries from the broker: whose key, which slot, one part or several.

The hot path of the gateway: for an unbatched message one metadata parse, one hash and one call of the dispatcher. A
batch is opened only to learn whether all its messages share a slot; most do, and then it travels as it came. What
cannot be read (encrypted, damaged, too large to open) goes whole to the owner of its outer key, as it would at the
broker, and is counted: its order per key inside the batch is not promised (G8).

What it would cost too much to open at once is opened in pieces, over several turns of the loop, or in the background;
all that comes behind it waits for it, see `receive_queue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from proxy.core.contract_sample import UNWATCHED
from proxy.core.entry import Part
from proxy.core.hot_keys import HotKeys, Sampling
from proxy.core.index_bits import bits_to_indexes
from proxy.core.sticky_key import murmur31
from proxy.net.subscription.acks import bits_of
from proxy.net.subscription.batch_slots import BatchSlots, Mixed
from proxy.net.subscription.intake import Intake
from proxy.net.subscription.openings import COST_BYTES, COST_ENTRY
from proxy.net.subscription.receive_queue import ReceiveQueue
from proxy.wire.by_hand import PAYS, plain_key
from proxy.wire.errors import WireError
from proxy.wire.messages import NO_EXTRAS, MessageHead
from proxy.wire.metadata import NONE_KEY, is_chunk, peek_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.contract_monitor import ContractMonitor
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.hash_ranges import HashRange
    from proxy.core.upstream_window import UpstreamWindow
    from proxy.net.events import DeliveryTracer
    from proxy.net.subscription.batch_contents import BatchContents
    from proxy.net.subscription.batch_slots import Slots
    from proxy.net.subscription.counters import Counters
    from proxy.net.subscription.openings import Openings
    from proxy.net.subscription.receive_queue import Taking

log = structlog.get_logger("keyline.subscription")


class Receiving:
    """Turns MESSAGE frames into parts and gives them to the dispatcher."""

    __slots__ = (
        "_counters",
        "_digest",
        "_dispatcher",
        "_hot",
        "_slots_at_once",
        "_inline_bytes",
        "_in_transaction",
        "_intake",
        "_monitor",
        "_look_at",
        "_now",
        "_queued",
        "_run_bytes",
        "_run_messages",
        "_run_now",
        "_sampling",
        "_slot_of",
        "_slots",
        "_spend",
        "_step_messages",
        "_tracer",
        "_true_slot_of",
        "_watched",
        "_window",
        "extras",
        "slots_of_batch",
        "last_key",
        "last_position",
        "queue",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        contents: BatchContents,
        window: UpstreamWindow,
        counters: Counters,
        now: Callable[[], float],
        peek_max_bytes: int,
        openings: Openings,
        taken: Callable[[], None],
        failed: Callable[[str], None],
        slots: HashRange | None = None,
        digest: Callable[[bytes], int] | None = None,
        tracer: DeliveryTracer | None = None,
        hot_keys: HotKeys | None = None,
        monitor: ContractMonitor | None = None,
    ) -> None:
        """`digest` is of a `DeliveryRecorder`, for `recorded`; `tracer` is for `traced`; `hot_keys` counts keys.

        `monitor` hears of entries of the slots that it watches. `taken` and `failed` are as for `ReceiveQueue`.

        `peek_max_bytes` bounds what one batch may take uncompressed; `slots` are the stream's, None for all.

        A batch with keys of other streams stays whole, since other replicas deliver those: to give their messages to
        the owners of their slots here would order them no better, and keep this stream from being handed over.
        """
        self._dispatcher = dispatcher
        self._window = window
        self._counters = counters
        self._now = now
        self._true_slot_of = dispatcher.selector.slot
        self._slot_of = self._true_slot_of if slots is None else self._slot_within
        self._slots = slots
        self._digest = digest
        self._tracer = tracer
        self._hot = HotKeys() if hot_keys is None else hot_keys
        self._sampling = Sampling()
        self._look_at = self._sampling.left
        """When so many messages came in this run, one is looked at."""
        self._in_transaction = dispatcher.in_transaction
        self._intake = Intake(dispatcher, contents, counters, monitor)
        self._monitor = monitor
        self._watched = UNWATCHED if monitor is None else monitor.watched
        """1 for each slot that is."""
        limits = openings.limits
        self._spend = openings.spend
        self._inline_bytes, self._step_messages = limits.inline_bytes, limits.step_messages
        take_at_once, take = self._taken_at_once, self._taking
        if digest is not None:
            take_at_once, take = self._taken_at_once_recorded, self._taking_recorded
        self.queue = ReceiveQueue(openings, counters, take_at_once, take, taken, failed)
        self._queued = self.queue.entries
        self.slots_of_batch = BatchSlots(counters, self._true_slot_of, peek_max_bytes, openings, slots, digest)
        self.slots_of_batch.opener = self.queue
        self._slots_at_once = self.slots_of_batch.at_once
        self._run_now = 0.0
        """When the run of entries under way began to be read, 0 between runs: one look at the clock serves it all."""
        self._run_messages = self._run_bytes = 0
        """What came in this run and the window was not told of."""
        self.last_position: int | None = None
        """Of the entry that was taken last."""
        self.last_key = NONE_KEY
        """Of the same."""
        self.extras = NO_EXTRAS
        """What the broker's frames carry that we do not look at: the same for every entry of a subscription."""

    def message(self, head: MessageHead) -> None:  # noqa: C901, PLR0912, PLR0915 - a call for each message would cost more
        """One entry."""
        if self._queued:
            self._arrive_behind(head)
            return
        _, ledger, entry, redeliveries, ack_set, tail, self.extras = head
        position = (ledger << 40) + entry
        now = self._run_now
        if not now:
            now = self._run_now = self._now()
        self._run_bytes += len(tail)
        if PAYS and not ack_set and (plain := plain_key(tail)) is not None:
            self.last_position, self.last_key = position, plain
            self._run_messages += 1
            slot = self._slot_of(murmur31(plain))
            if self._run_messages >= self._look_at:
                self._look(slot, slot, 1, now)
            if self._watched[slot]:
                self._arrived(position, slot, 1)
            self._dispatcher.receive(position, slot, 1, tail, redeliveries, now)
            return
        try:
            metadata, key, payload_start = peek_key(tail)
        except WireError as error:
            self._run_messages += 1
            self._unreadable(position, redeliveries, tail, error, now, now)
            return
        count = metadata.num_messages_in_batch
        slot = self._slot_of(murmur31(key))
        if count <= 1 and not metadata.num_chunks_from_msg and not ack_set:
            self.last_position, self.last_key = position, key
            self._run_messages += 1
            if self._run_messages >= self._look_at:
                self._look(slot, slot, 1, now)
            if self._watched[slot]:
                self._arrived(position, slot, 1)
            self._dispatcher.receive(position, slot, 1, tail, redeliveries, now)
            return
        count = max(count, 1)
        messages = _permits(ack_set) if ack_set else count
        self._run_messages += messages
        if self._in_transaction:
            self._offered(position, ack_set, now)
        chunk = is_chunk(metadata)
        if chunk or (count == 1 and not ack_set):
            self.last_position, self.last_key = position, key
            if self._run_messages >= self._look_at:
                self._look(slot, slot, 1, now)
            if chunk:
                self._intake.chunk(metadata, position, slot, redeliveries, tail, now, now)
            else:
                self._intake.single(position, slot, redeliveries, tail, now, now)
            return
        size = metadata.uncompressed_size if metadata.compression else 0
        slots: Slots = None
        if count <= self._step_messages and size <= self._inline_bytes:
            if not self._spend(self.queue, COST_ENTRY + size // COST_BYTES):
                self.queue.add(head, now, messages)
                return
            slots = self._slots_at_once(metadata, tail, payload_start, key, slot, count, entry)
        elif self.slots_of_batch.to_be_opened(metadata, count):
            self.queue.add(head, now, messages)
            return
        self.last_position, self.last_key = position, key
        if isinstance(slots, int) and not ack_set:
            if self._run_messages >= self._look_at:
                self._look(slots, slot, count, now)
            if self._watched[slots]:
                self._arrived(position, slots, count)
            self._dispatcher.receive(position, slots, count, tail, redeliveries, now)
            return
        if self._run_messages >= self._look_at:
            self._look(slots, slot, count, now)
        self._intake.several(slots, position, slot, count, redeliveries, ack_set, tail, now, now)

    def recorded(self, head: MessageHead) -> None:
        """One entry, whose parts are to know the digests of their keys: nothing leaves before the turn ends."""
        self.slots_of_batch.digests.clear()
        self.message(head)
        if not self._queued:
            self._record()

    def traced(self, head: MessageHead) -> None:
        """One entry, of which a tracer is told: it is noted before anything can happen to it."""
        assert self._tracer is not None
        self._tracer.received(head)
        if self._digest is None:
            self.message(head)
        else:
            self.recorded(head)

    def _arrived(self, position: int, slot: int, count: int) -> None:
        """An entry of a slot that is watched."""
        assert self._monitor is not None
        self._monitor.arrived(position, slot, count)

    def _look(self, slots: Slots, slot: int, count: int, now: float) -> None:
        """Some of the entry's messages are looked at, unless it was here before: brokers send entries again."""
        points = self._sampling.points(count, self._look_at - self._run_messages, now)
        self._look_at = self._run_messages + self._sampling.left
        if self.last_position in self._dispatcher.outstanding.entries:
            return
        if isinstance(slots, Mixed):
            for index, messages in points:
                self._hot.add(slots.keys[index], slots.slots[index], messages, now)
            return
        messages = sum([each for _, each in points])
        self._hot.add(self.last_key, slot if slots is None else slots, messages, now)

    def _record(self) -> None:
        """Of the entry that was taken last."""
        assert self._digest is not None
        assert self.last_position is not None
        entry = self._dispatcher.outstanding.entries.get(self.last_position)
        if entry is None:
            return
        of_batch = self.slots_of_batch.digests
        digest = tuple(of_batch) if of_batch else self._digest(self.last_key)
        if isinstance(entry, Part):
            entry.digest = digest
            return
        for part in entry.parts:
            part.digest = digest

    def end_run(self) -> None:
        """The entries that arrived together are all in."""
        self._run_now = 0.0
        if self._run_messages:
            self._window.received(self._run_messages, self._run_bytes)
            self._look_at -= self._run_messages
            self._run_messages = self._run_bytes = 0

    # ---- what waits to be opened ------------------------------------------------------------------------------

    def _arrive_behind(self, head: MessageHead) -> None:
        """One entry, while an earlier one waits."""
        tail = head.tail
        now = self._run_now
        if not now:
            now = self._run_now = self._now()
        try:
            metadata, _, _ = peek_key(tail)
            messages = max(metadata.num_messages_in_batch, 1)
            if head.ack_set:
                messages = _permits(head.ack_set)
        except WireError:
            messages = 1
        self._run_messages += messages
        self._run_bytes += len(tail)
        if self._in_transaction:
            self._offered((head.ledger << 40) + head.entry, head.ack_set, now)
        self.queue.add(head, now, messages)

    def _offered(self, position: int, ack_set: tuple[int, ...] | None, now: float) -> None:
        """As `Dispatcher.offered`, of an entry that may wait."""
        unacked = bits_of(ack_set) if ack_set else 0
        indexes = tuple(bits_to_indexes(unacked, range(unacked.bit_length()))) if ack_set else None
        self._dispatcher.offered(position, indexes, now)

    def _taken_at_once(self, head: MessageHead, arrived_at: float) -> bool:
        """Take a batch that costs little, as `message` does, if the turn has room for it: most that wait are such."""
        _, ledger, entry, redeliveries, ack_set, tail, extras = head
        try:
            metadata, key, payload_start = peek_key(tail)
        except WireError:
            return False
        count = metadata.num_messages_in_batch
        size = metadata.uncompressed_size if metadata.compression else 0
        if not 1 < count <= self._step_messages or size > self._inline_bytes:
            return False
        if not self._spend(self.queue, COST_ENTRY + size // COST_BYTES):
            return False
        position = (ledger << 40) + entry
        slot = self._slot_of(murmur31(key))
        slots = self._slots_at_once(metadata, tail, payload_start, key, slot, count, entry)
        self.extras, self.last_position, self.last_key = extras, position, key
        now = self._now()
        if self._run_messages >= self._look_at:
            self._look(slots, slot, count, now)
        self._intake.several(slots, position, slot, count, redeliveries, ack_set, tail, arrived_at, now)
        return True

    def _taken_at_once_recorded(self, head: MessageHead, arrived_at: float) -> bool:
        """As `recorded`."""
        self.slots_of_batch.digests.clear()
        taken = self._taken_at_once(head, arrived_at)
        if taken:
            self._record()
        return taken

    def _taking(self, head: MessageHead, arrived_at: float) -> Taking:
        """As `message`, in turns."""
        _, ledger, entry, redeliveries, ack_set, tail, self.extras = head
        position = (ledger << 40) + entry
        try:
            metadata, key, payload_start = peek_key(tail)
        except WireError as error:
            yield 1
            self._unreadable(position, redeliveries, tail, error, arrived_at, self._now())
            return
        count = max(metadata.num_messages_in_batch, 1)
        slot = self._slot_of(murmur31(key))
        chunk = is_chunk(metadata)
        slots: Slots = None
        if chunk or (count == 1 and not ack_set):
            yield 1
        else:
            slots = yield from self.slots_of_batch.in_turns(metadata, tail, payload_start, key, slot, count, entry)
        now = self._now()
        self.last_position, self.last_key = position, key
        if self._run_messages >= self._look_at:
            self._look(slots, slot, 1 if chunk else count, now)
        if chunk:
            self._intake.chunk(metadata, position, slot, redeliveries, tail, arrived_at, now)
        elif count == 1 and not ack_set:
            self._intake.single(position, slot, redeliveries, tail, arrived_at, now)
        else:
            self._intake.several(slots, position, slot, count, redeliveries, ack_set, tail, arrived_at, now)

    def _taking_recorded(self, head: MessageHead, arrived_at: float) -> Taking:
        """As `recorded`, in turns."""
        self.slots_of_batch.digests.clear()
        yield from self._taking(head, arrived_at)
        self._record()

    # ---- towards the dispatcher -------------------------------------------------------------------------------

    def _unreadable(
        self, position: int, redeliveries: int, tail: bytes, error: Exception, arrived_at: float, now: float
    ) -> None:
        """Damaged metadata: delivered like a message without key, as the broker does; the client will complain."""
        self._counters.unreadable_entries += 1
        log.warning("entry metadata not read", error=str(error))
        self.last_position, self.last_key = position, NONE_KEY
        self._intake.single(position, self._slot_of(murmur31(NONE_KEY)), redeliveries, tail, arrived_at, now)

    def _slot_within(self, hashed: int) -> int:
        """The slot of a key's hash; a slot outside the stream is replaced by the stream's first.

        Such an entry could not be delivered under another stream's lease, nor this stream be handed over with it here.
        """
        slot = self._true_slot_of(hashed)
        slots = self._slots
        return slot if slots is None or slots.start <= slot <= slots.end else max(slots.start, 1)


def _permits(ack_set: tuple[int, ...]) -> int:
    """How many a broker debits for a batch of which an earlier life acknowledged some: what it sends of it."""
    return max(1, bits_of(ack_set).bit_count())
