"""Entries from the broker: whose key, which slot, one part or several.

The hot path of the gateway: for an unbatched message one metadata parse, one hash and one call of the dispatcher. A
batch is opened only to learn whether all its messages share a slot; most do, and then it travels as it came. What
cannot be read (encrypted, damaged, too large to open) goes whole to the owner of its outer key, as it would at the
broker, and is counted: its order per key inside the batch is not promised (G8).

What it would cost too much to open at once is opened in pieces, over several turns of the loop, or in the background;
all that comes behind it waits for it, see `subscription_receive_queue`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from proxy.core.entry import Chunk, Part, bits_to_indexes, by_slot
from proxy.core.slice_id import sliceable
from proxy.core.sticky_key import murmur31
from proxy.net.openings import COST_BYTES, COST_ENTRY
from proxy.net.subscription_acks import bits_of
from proxy.net.subscription_outbox import BatchContent
from proxy.net.subscription_receive_queue import Decompression, ReceiveQueue
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch import MIN_SINGLE_BYTES, index_batch, index_steps, single_key, uniform, uniform_steps
from proxy.wire.codecs import decompress
from proxy.wire.errors import WireError
from proxy.wire.messages import NO_EXTRAS, MessageHead
from proxy.wire.metadata import NONE_KEY, can_peek, peek_key

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.hash_ranges import HashRange
    from proxy.core.upstream_window import UpstreamWindow
    from proxy.net.openings import Openings
    from proxy.net.subscription import Counters
    from proxy.net.subscription_receive_queue import Taking
    from proxy.wire.batch import Single
    from proxy.wire.pulsar_pb2 import MessageMetadata

BATCH_MESSAGES_MAX: Final = 1 << 20
"""Messages of one batch that are believed. Whoever claims more lies: they would take a worker's permits for years, and
the bits to note which of them were acknowledged hundreds of megabytes."""

Groups: TypeAlias = dict[int, "list[int] | range"]
"""Slot to the indexes of its messages."""

CUT_BYTES_MAX: Final = 5 << 20
"""Uncompressed bytes of a compressed batch that may be cut. Slices leave uncompressed, and clients end a connection on
which more comes in one frame: the brokers' default for a message's size, and so of every client."""

log = structlog.get_logger("keyline.subscription")


class Intake:
    """Turns MESSAGE frames into parts and gives them to the dispatcher."""

    __slots__ = (
        "_batch_digests",
        "_counters",
        "_digest",
        "_dispatcher",
        "_inline_bytes",
        "_limits",
        "_now",
        "_openings",
        "_peek_max_bytes",
        "_queued",
        "_receive",
        "_run_bytes",
        "_run_messages",
        "_run_now",
        "_slot_of",
        "_slots",
        "_spend",
        "_step_messages",
        "_true_slot_of",
        "_warned",
        "_window",
        "extras",
        "last_key",
        "last_position",
        "queue",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        window: UpstreamWindow,
        counters: Counters,
        now: Callable[[], float],
        peek_max_bytes: int,
        openings: Openings,
        taken: Callable[[], None],
        failed: Callable[[str], None],
        slots: HashRange | None = None,
        digest: Callable[[bytes], int] | None = None,
    ) -> None:
        """`digest` is of a `DeliveryRecorder`, for `recorded`.

        `taken` and `failed` are as for `ReceiveQueue`.

        `peek_max_bytes` bounds what one batch may take uncompressed; `slots` are the stream's, None for all.

        A batch with keys of other streams stays whole, since other replicas deliver those: to give their messages to
        the owners of their slots here would order them no better, and keep this stream from being handed over.
        """
        self._dispatcher = dispatcher
        self._window = window
        self._counters = counters
        self._now = now
        self._peek_max_bytes = peek_max_bytes
        self._true_slot_of = dispatcher.selector.slot
        self._slot_of = self._true_slot_of if slots is None else self._slot_within
        self._slots = slots
        self._digest = digest
        self._batch_digests: list[int] = []
        """Of the keys of the batch that came last, if they differ."""
        self._receive = dispatcher.receive
        self._limits = limits = openings.limits
        self._openings = openings
        self._spend = openings.spend
        self._inline_bytes, self._step_messages = limits.inline_bytes, limits.step_messages
        self.queue = ReceiveQueue(
            openings, counters, self._taking if digest is None else self._taking_recorded, taken, failed
        )
        self._queued = self.queue.entries
        self._run_now = 0.0
        """When the run of entries under way began to be read, 0 between runs: one look at the clock serves it all."""
        self._run_messages = self._run_bytes = 0
        """What came in this run and the window was not told of."""
        self._warned = False
        self.last_position: int | None = None
        """Of the entry that was taken last."""
        self.last_key = NONE_KEY
        """Of the same."""
        self.extras = NO_EXTRAS
        """What the broker's frames carry that we do not look at: the same for every entry of a subscription."""

    def message(self, head: MessageHead) -> None:
        """One entry."""
        if self._queued:
            self._arrive_behind(head)
            return
        _, ledger, entry, redeliveries, ack_set, tail, self.extras = head
        position = (ledger << 40) + entry
        now = self._run_now
        if not now:
            now = self._run_now = self._now()
        try:
            metadata, key, payload_start = peek_key(tail)
        except WireError as error:
            self._run_messages += 1
            self._run_bytes += len(tail)
            self._unreadable(position, redeliveries, tail, error, now, now)
            return
        count = metadata.num_messages_in_batch
        slot = self._slot_of(murmur31(key))
        if count <= 1 and not metadata.num_chunks_from_msg and not ack_set:
            self.last_position, self.last_key = position, key
            self._run_messages += 1
            self._run_bytes += len(tail)
            self._receive(position, slot, 1, tail, redeliveries, now)
            return
        count = max(count, 1)
        messages = _permits(ack_set) if ack_set else count
        self._run_messages += messages
        self._run_bytes += len(tail)
        if metadata.num_chunks_from_msg > 1:
            self.last_position, self.last_key = position, key
            self._chunk(metadata, position, slot, redeliveries, tail, now, now)
            return
        size = metadata.uncompressed_size if metadata.compression else 0
        groups: Groups | None = None
        if count <= self._step_messages and size <= self._inline_bytes:
            if not self._spend(self.queue, COST_ENTRY + size // COST_BYTES):
                self.queue.add(head, now, messages)
                return
            groups = self._groups(metadata, tail, payload_start, key, slot, count, entry)
        elif self._is_to_be_opened(metadata, count):
            self.queue.add(head, now, messages)
            return
        self.last_position, self.last_key = position, key
        self._several(groups, position, slot, count, redeliveries, ack_set, tail, now, now)

    def recorded(self, head: MessageHead) -> None:
        """One entry, whose parts are to know the digests of their keys: nothing leaves before the turn ends."""
        self._batch_digests.clear()
        self.message(head)
        if not self._queued:
            self._record()

    def _record(self) -> None:
        """Of the entry that was taken last."""
        assert self._digest is not None
        assert self.last_position is not None
        entry = self._dispatcher.outstanding.entries.get(self.last_position)
        if entry is None:
            return
        of_batch = self._batch_digests
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
        self.queue.add(head, now, messages)

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
        chunk = metadata.num_chunks_from_msg > 1
        groups: Groups | None = None
        if chunk or (count == 1 and not ack_set):
            yield 1
        else:
            groups = yield from self._groups_in_turns(metadata, tail, payload_start, key, slot, count, entry)
        now = self._now()
        self.last_position, self.last_key = position, key
        if chunk:
            self._chunk(metadata, position, slot, redeliveries, tail, arrived_at, now)
        elif count == 1 and not ack_set:
            self._dispatcher.receive_part(Part(position, slot, 1, tail, redeliveries, arrived_at), now)
        else:
            self._several(groups, position, slot, count, redeliveries, ack_set, tail, arrived_at, now)

    def _taking_recorded(self, head: MessageHead, arrived_at: float) -> Taking:
        """As `recorded`, in turns."""
        self._batch_digests.clear()
        yield from self._taking(head, arrived_at)
        self._record()

    def _groups_in_turns(
        self, metadata: MessageMetadata, tail: bytes, payload_start: int, key: bytes, slot: int, count: int, entry: int
    ) -> Generator[int | Decompression, bytes | Exception | None, Groups | None]:
        """As `_groups`."""
        if not self._is_to_be_opened(metadata, count):
            yield 1
            return None
        size, limits = metadata.uncompressed_size if metadata.compression else 0, self._limits
        try:
            if size > limits.inline_bytes:
                payload = memoryview(tail)[payload_start:]
                work = partial(decompress, metadata.compression, payload, size, self._peek_max_bytes)
                opened = yield Decompression(size, work)
                if isinstance(opened, Exception):
                    raise opened
                assert opened is not None
                content = BatchContent(metadata, opened)
            else:
                yield COST_ENTRY + size // COST_BYTES
                content = BatchContent.open(metadata, tail, payload_start, self._peek_max_bytes)
            if count <= limits.step_messages:
                return self._groups_in(content, key, slot, count, entry)
            if (yield from self._is_uniform(content, key, count)):
                return None if _expands(content) else {slot: range(count)}
            if not self._may_cut(content, entry, count):
                return None
            singles: list[Single] = []
            for _ in index_steps(content.payload, count, limits.step_messages, singles):
                yield limits.step_messages
        except WireError as error:
            self._opaque(metadata, str(error))
            return None
        groups: Groups = {}
        for start in range(0, count, limits.step_messages):
            yield limits.step_messages
            self._add_groups(groups, singles, metadata, start, start + limits.step_messages)
        return self._checked(groups, singles, metadata, slot)

    def _is_uniform(self, content: BatchContent, key: bytes, count: int) -> Generator[int, None, bool]:
        steps = uniform_steps(content.payload, count, key, self._limits.step_messages)
        while True:
            yield self._limits.step_messages
            try:
                next(steps)
            except StopIteration as stop:
                return bool(stop.value)

    # ---- batches ----------------------------------------------------------------------------------------------

    def _is_to_be_opened(self, metadata: MessageMetadata, count: int) -> bool:
        """Whether a batch may hold what its metadata claims, as far as that can be told; else it is counted."""
        size = metadata.uncompressed_size
        if not can_peek(metadata):
            self._opaque(metadata, "it is encrypted")
        elif count > BATCH_MESSAGES_MAX:
            self._opaque(metadata, f"it claims {count} messages")
        elif metadata.compression and not MIN_SINGLE_BYTES * count <= size <= self._peek_max_bytes:
            self._opaque(metadata, f"it claims {count} messages in {size} bytes")
        else:
            return True
        return False

    def _groups(
        self, metadata: MessageMetadata, tail: bytes, payload_start: int, key: bytes, slot: int, count: int, entry: int
    ) -> Groups | None:
        """Where the messages of a batch belong; None if it can only go whole."""
        if not can_peek(metadata):
            self._opaque(metadata, "it is encrypted")
            return None
        try:
            content = BatchContent.open(metadata, tail, payload_start, self._peek_max_bytes)
            return self._groups_in(content, key, slot, count, entry)
        except WireError as error:
            self._opaque(metadata, str(error))
            return None

    def _groups_in(self, content: BatchContent, key: bytes, slot: int, count: int, entry: int) -> Groups | None:
        """Of an opened batch. Raises `WireError`."""
        if uniform(content.payload, count, key):
            return None if _expands(content) else {slot: range(count)}
        if not self._may_cut(content, entry, count):  # before each message is read
            return None
        self._openings.spend_more(self.queue, count)
        singles = index_batch(content.payload, count)
        groups: Groups = {}
        self._add_groups(groups, singles, content.metadata, 0, count)
        return self._checked(groups, singles, content.metadata, slot)

    def _may_cut(self, content: BatchContent, entry: int, count: int) -> bool:
        """Whether a batch of several keys may be cut; else it is counted."""
        if not sliceable(entry, count):
            self._opaque(content.metadata, "its entry id or its number of messages is too large")
        elif _expands(content):
            self._opaque(content.metadata, f"its {len(content.payload)} bytes are too many for a client")
        else:
            return True
        return False

    def _add_groups(
        self, groups: Groups, singles: Sequence[Single], metadata: MessageMetadata, start: int, end: int
    ) -> None:
        """Put some of a batch's messages where they belong."""
        for index, single in enumerate(singles[start:end], start):
            if not single.compacted_out:
                place = self._true_slot_of(murmur31(single_key(single, metadata)))
                indexes = groups.setdefault(place, [])
                assert isinstance(indexes, list)
                indexes.append(index)

    def _checked(
        self, groups: Groups, singles: Sequence[Single], metadata: MessageMetadata, slot: int
    ) -> Groups | None:
        """The same if the batch may be cut so, or need not be."""
        count = len(singles)
        if not groups or not any(single.has_key for single in singles):
            # Without keys there is no order to keep, and cutting would only cost.
            return {slot: range(count)}
        if self._digest is not None:
            self._batch_digests += [self._digest(single_key(single, metadata)) for single in singles]
        slots = self._slots
        if slots is not None and not all(slots.start <= place <= slots.end for place in groups):
            self._opaque(metadata, "it has keys of streams that other replicas may have")
            return None
        return groups

    def _several(
        self,
        groups: Groups | None,
        position: int,
        slot: int,
        count: int,
        redeliveries: int,
        ack_set: tuple[int, ...] | None,
        tail: bytes,
        arrived_at: float,
        now: float,
    ) -> None:
        """An entry of several messages, or partly acknowledged: in as many parts as it has groups."""
        if groups is None:
            # Whole, also what an earlier life acknowledged of it: see `entry.forget_acked`.
            part = Part(position, slot, min(count, BATCH_MESSAGES_MAX), tail, redeliveries, arrived_at)
            part.opaque = True
            self._dispatcher.receive_part(part, now)
        elif ack_set:
            self._partly_acked(groups, position, count, redeliveries, bits_of(ack_set), tail, arrived_at, now)
        elif len(groups) == 1 and len(next(iter(groups.values()))) == count:
            only = next(iter(groups))
            if arrived_at == now:
                self._receive(position, only, count, tail, redeliveries, now)
            else:
                self._dispatcher.receive_part(Part(position, only, count, tail, redeliveries, arrived_at), now)
        else:
            self._counters.peeked_batches += 1
            batch = by_slot(position, tail, count, _frozen(groups), redeliveries, arrived_at)
            self._dispatcher.receive_batch(batch, now)

    def _chunk(
        self,
        metadata: MessageMetadata,
        position: int,
        slot: int,
        redeliveries: int,
        tail: bytes,
        arrived_at: float,
        now: float,
    ) -> None:
        part = Part(position, slot, 1, tail, redeliveries, arrived_at)
        part.chunk = Chunk(metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg)
        self._dispatcher.receive_part(part, now)

    def _partly_acked(
        self,
        groups: Groups,
        position: int,
        count: int,
        redeliveries: int,
        unacked: int,
        tail: bytes,
        arrived_at: float,
        now: float,
    ) -> None:
        """An entry of which an earlier life acknowledged some messages already."""
        left = set(bits_to_indexes(unacked & ((1 << count) - 1), range(count)))
        kept = {place: [index for index in indexes if index in left] for place, indexes in groups.items()}
        kept = {place: indexes for place, indexes in kept.items() if indexes}
        if not kept:
            self._dispatcher.outstanding.acks.append(position)
            self._dispatcher.outstanding.unconfirmed.add(position)
            return
        self._dispatcher.receive_batch(by_slot(position, tail, count, _frozen(kept), redeliveries, arrived_at), now)

    def _unreadable(
        self, position: int, redeliveries: int, tail: bytes, error: Exception, arrived_at: float, now: float
    ) -> None:
        """Damaged metadata: delivered like a message without key, as the broker does; the client will complain."""
        self._counters.unreadable_entries += 1
        log.warning("an entry's metadata cannot be read; it is delivered as it is", error=str(error))
        self.last_position, self.last_key = position, NONE_KEY
        slot = self._slot_of(murmur31(NONE_KEY))
        self._dispatcher.receive_part(Part(position, slot, 1, tail, redeliveries, arrived_at), now)

    def _slot_within(self, hashed: int) -> int:
        """The slot of a key's hash; one that is not the stream's, whatever the broker thought, goes with its first.

        Such an entry could not be delivered under another stream's lease, nor this stream be handed over with it here.
        """
        slot = self._true_slot_of(hashed)
        slots = self._slots
        return slot if slots is None or slots.start <= slot <= slots.end else max(slots.start, 1)

    def _opaque(self, metadata: MessageMetadata, why: str) -> None:
        self._counters.opaque_batches += 1
        if not self._warned:
            self._warned = True
            log.warning(
                "a batch cannot be opened, so it is delivered whole to the owner of its first key; order per key "
                "holds only if the producer batches by key; further ones are only counted",
                why=why,
                producer=metadata.producer_name,
            )


def _expands(content: BatchContent) -> bool:
    """Whether slices of it could be larger than clients take, so that it can only go as it came."""
    return content.metadata.compression != pb.NONE and len(content.payload) > CUT_BYTES_MAX


def _permits(ack_set: tuple[int, ...]) -> int:
    """How many a broker debits for a batch of which an earlier life acknowledged some: what it sends of it."""
    return max(1, bits_of(ack_set).bit_count())


def _frozen(groups: Mapping[int, Iterable[int]]) -> list[tuple[int, tuple[int, ...]]]:
    return [(slot, tuple(indexes)) for slot, indexes in groups.items()]
