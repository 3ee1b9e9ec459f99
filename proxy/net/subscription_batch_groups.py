"""Whose the messages of a batch are: it is opened, and each message's key gives its slot.

Most batches have one key, and it is enough to know that. Of the others each message is read. What cannot be opened, or
may not be cut, is counted: it goes whole, as it would at the broker (G8).

At once, for a batch that costs little; in turns for any other, see `openings`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from proxy.core.slice_id import sliceable
from proxy.core.sticky_key import murmur31
from proxy.net.openings import COST_BYTES, COST_ENTRY
from proxy.net.subscription_outbox import BatchContent
from proxy.net.subscription_receive_queue import Decompression
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch import MIN_SINGLE_BYTES, index_batch, index_steps, single_key, uniform, uniform_steps
from proxy.wire.codecs import decompress
from proxy.wire.errors import WireError
from proxy.wire.metadata import can_peek

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from proxy.core.hash_ranges import HashRange
    from proxy.net.openings import Opener, Openings
    from proxy.net.subscription import Counters
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


class BatchGroups:
    """Finds the groups of one consumer's batches."""

    __slots__ = (
        "_counters",
        "_digest",
        "_limits",
        "_openings",
        "_peek_max_bytes",
        "_slot_of",
        "_slots",
        "_warned",
        "digests",
        "opener",
    )

    opener: Opener
    """Whose the costs are; set by who makes this."""

    def __init__(
        self,
        counters: Counters,
        slot_of: Callable[[int], int],
        peek_max_bytes: int,
        openings: Openings,
        slots: HashRange | None,
        digest: Callable[[bytes], int] | None,
    ) -> None:
        """`slot_of` gives the slot of a key's hash; the rest is as for `Intake`."""
        self._counters = counters
        self._slot_of = slot_of
        self._peek_max_bytes = peek_max_bytes
        self._openings = openings
        self._limits = openings.limits
        self._slots = slots
        self._digest = digest
        self._warned = False
        self.digests: list[int] = []
        """Of the keys of the batch that came last, if they differ; the caller empties it."""

    def to_be_opened(self, metadata: MessageMetadata, count: int) -> bool:
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

    def at_once(
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
        self._openings.spend_more(self.opener, count)
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
                place = self._slot_of(murmur31(single_key(single, metadata)))
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
            self.digests += [self._digest(single_key(single, metadata)) for single in singles]
        slots = self._slots
        if slots is not None and not all(slots.start <= place <= slots.end for place in groups):
            self._opaque(metadata, "it has keys of streams that other replicas may have")
            return None
        return groups

    def in_turns(
        self, metadata: MessageMetadata, tail: bytes, payload_start: int, key: bytes, slot: int, count: int, entry: int
    ) -> Generator[int | Decompression, bytes | Exception | None, Groups | None]:
        """As `at_once`."""
        if not self.to_be_opened(metadata, count):
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
