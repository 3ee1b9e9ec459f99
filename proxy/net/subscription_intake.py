"""Entries from the broker: whose key, which slot, one part or several.

The hot path of the gateway: for an unbatched message one metadata parse, one hash and one call of the dispatcher. A
batch is opened only to learn whether all its messages share a slot; most do, and then it travels as it came. What
cannot be read (encrypted, damaged, too large to open) goes whole to the owner of its outer key, as it would at the
broker, and is counted: its order per key inside the batch is not promised (G8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.core.entry import Chunk, Part, bits_to_indexes, by_slot
from proxy.core.slice_id import sliceable
from proxy.core.sticky_key import murmur31
from proxy.net.subscription_acks import bits_of
from proxy.net.subscription_outbox import BatchContent
from proxy.wire.batch import index_batch, single_key, uniform
from proxy.wire.errors import WireError
from proxy.wire.messages import NO_EXTRAS, MessageHead
from proxy.wire.metadata import NONE_KEY, can_peek, peek_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.hash_ranges import HashRange
    from proxy.core.upstream_window import UpstreamWindow
    from proxy.net.subscription import Counters
    from proxy.wire.pulsar_pb2 import MessageMetadata

BATCH_MESSAGES_MAX: Final = 1 << 20
"""Messages of one batch that are believed. Whoever claims more lies: they would take a worker's permits for years, and
the bits to note which of them were acknowledged hundreds of megabytes."""

log = structlog.get_logger("keyline.subscription")


class Intake:
    """Turns MESSAGE frames into parts and gives them to the dispatcher."""

    __slots__ = (
        "_batch_digests",
        "_counters",
        "_digest",
        "_dispatcher",
        "_now",
        "_peek_max_bytes",
        "_receive",
        "_run_bytes",
        "_run_messages",
        "_run_now",
        "_slot_of",
        "_slots",
        "_true_slot_of",
        "_warned",
        "_window",
        "extras",
        "last_key",
        "last_position",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        window: UpstreamWindow,
        counters: Counters,
        now: Callable[[], float],
        peek_max_bytes: int,
        slots: HashRange | None = None,
        digest: Callable[[bytes], int] | None = None,
    ) -> None:
        """`digest` is of a `DeliveryRecorder`, for `recorded`.

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
        self._run_now = 0.0
        """When the run of entries under way began to be read, 0 between runs: one look at the clock serves it all."""
        self._run_messages = self._run_bytes = 0
        """What came in this run and the window was not told of."""
        self._warned = False
        self.last_position: int | None = None
        """Of the entry that came last."""
        self.last_key = NONE_KEY
        """Of the same."""
        self.extras = NO_EXTRAS
        """What the broker's frames carry that we do not look at: the same for every entry of a subscription."""

    def message(self, head: MessageHead) -> None:
        """One entry."""
        _, ledger, entry, redeliveries, ack_set, tail, self.extras = head
        self.last_position = position = (ledger << 40) + entry
        now = self._run_now
        if not now:
            now = self._run_now = self._now()
        try:
            metadata, key, payload_start = peek_key(tail)
        except WireError as error:
            self.last_key = NONE_KEY
            self._unreadable(position, redeliveries, tail, error, now)
            return
        self.last_key = key
        count = metadata.num_messages_in_batch
        slot = self._slot_of(murmur31(key))
        if count <= 1 and not metadata.num_chunks_from_msg and not ack_set:
            self._run_messages += 1
            self._run_bytes += len(tail)
            self._receive(position, slot, 1, tail, redeliveries, now)
            return
        count = max(count, 1)
        # A broker debits what it sends of a batch, not what an earlier life acknowledged of it.
        self._run_messages += max(1, bits_of(ack_set).bit_count()) if ack_set else count
        self._run_bytes += len(tail)
        if metadata.num_chunks_from_msg > 1:
            self._chunk(metadata, position, slot, redeliveries, tail, now)
            return
        groups: dict[int, list[int] | range] | None = None
        if count > BATCH_MESSAGES_MAX:
            self._opaque(metadata, f"it claims {count} messages")
            count = BATCH_MESSAGES_MAX
        else:
            groups = self._groups(metadata, payload_start, key, slot, count, entry, tail)
        if groups is None:
            # Whole, also what an earlier life acknowledged of it: see `entry.forget_acked`.
            part = Part(position, slot, count, tail, redeliveries, now)
            part.opaque = True
            self._dispatcher.receive_part(part, now)
        elif ack_set:
            self._partly_acked(groups, position, count, redeliveries, bits_of(ack_set), tail, now)
        elif len(groups) == 1 and len(next(iter(groups.values()))) == count:
            only = next(iter(groups))
            self._receive(position, only, count, tail, redeliveries, now)
        else:
            self._counters.peeked_batches += 1
            batch = by_slot(position, tail, count, _frozen(groups), redeliveries, now)
            self._dispatcher.receive_batch(batch, now)

    def recorded(self, head: MessageHead) -> None:
        """One entry, whose parts are to know the digests of their keys: nothing leaves before the turn ends."""
        assert self._digest is not None
        of_batch = self._batch_digests
        if of_batch:
            of_batch.clear()
        self.message(head)
        assert self.last_position is not None
        entry = self._dispatcher.outstanding.entries.get(self.last_position)
        if entry is None:
            return
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

    def _groups(
        self, metadata: MessageMetadata, payload_start: int, key: bytes, slot: int, count: int, entry: int, tail: bytes
    ) -> dict[int, list[int] | range] | None:
        """Slot to the indexes of its messages; None if the batch cannot be opened or cut."""
        if not can_peek(metadata):
            self._opaque(metadata, "it is encrypted")
            return None
        try:
            content = BatchContent.open(metadata, tail, payload_start, self._peek_max_bytes)
            if uniform(content.payload, count, key):
                return {slot: range(count)}
            if not sliceable(entry, count):  # before each message is read: a few kilobytes may hold a million
                self._opaque(metadata, "its entry id or its number of messages is too large")
                return None
            singles = index_batch(content.payload, count)
        except WireError as error:
            self._opaque(metadata, str(error))
            return None
        if not any(single.has_key for single in singles):
            # Without keys there is no order to keep, and cutting would only cost.
            return {slot: range(count)}
        if self._digest is not None:
            self._batch_digests += [self._digest(single_key(single, metadata)) for single in singles]
        groups: dict[int, list[int] | range] = {}
        for index, single in enumerate(singles):
            if not single.compacted_out:
                place = self._true_slot_of(murmur31(single_key(single, metadata)))
                indexes = groups.setdefault(place, [])
                assert isinstance(indexes, list)
                indexes.append(index)
        slots = self._slots
        if slots is not None and not all(slots.start <= place <= slots.end for place in groups):
            self._opaque(metadata, "it has keys of streams that other replicas may have")
            return None
        return groups or {slot: range(count)}

    def _chunk(
        self, metadata: MessageMetadata, position: int, slot: int, redeliveries: int, tail: bytes, now: float
    ) -> None:
        part = Part(position, slot, 1, tail, redeliveries, now)
        part.chunk = Chunk(metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg)
        self._dispatcher.receive_part(part, now)

    def _partly_acked(
        self,
        groups: dict[int, list[int] | range],
        position: int,
        count: int,
        redeliveries: int,
        unacked: int,
        tail: bytes,
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
        self._dispatcher.receive_batch(by_slot(position, tail, count, _frozen(kept), redeliveries, now), now)

    def _unreadable(self, position: int, redeliveries: int, tail: bytes, error: Exception, now: float) -> None:
        """Damaged metadata: delivered like a message without key, as the broker does; the client will complain."""
        self._counters.unreadable_entries += 1
        log.warning("an entry's metadata cannot be read; it is delivered as it is", error=str(error))
        self._run_messages += 1
        self._run_bytes += len(tail)
        self._receive(position, self._slot_of(murmur31(NONE_KEY)), 1, tail, redeliveries, now)

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


def _frozen(groups: Mapping[int, Iterable[int]]) -> list[tuple[int, tuple[int, ...]]]:
    return [(slot, tuple(indexes)) for slot, indexes in groups.items()]
