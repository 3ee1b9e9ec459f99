"""Whose the messages of a batch are: it is opened, and each message's key gives its slot.

Most batches have one key, and it is enough to know that. Of the others each message is read. What cannot be opened, or
may not be cut, is counted: it goes whole, as it would at the broker (G8).

At once, for a batch that costs little; in turns for any other, see `openings`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import structlog

from proxy.core.entry import of_one_slot
from proxy.core.slice_id import sliceable
from proxy.core.sticky_key import murmur31_each
from proxy.net.subscription.openings import COST_BYTES, COST_ENTRY
from proxy.net.subscription.receive_queue import Decompression
from proxy.wire.batch import MIN_SINGLE_BYTES, uniform, uniform_steps
from proxy.wire.batch_reader import BatchReader
from proxy.wire.codecs import decompress, opened_payload
from proxy.wire.errors import WireError
from proxy.wire.metadata import can_peek
from proxy.wire.opened_batch import OpenedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from proxy.core.hash_ranges import HashRange
    from proxy.net.subscription.counters import Counters
    from proxy.net.subscription.openings import Opener, Openings
    from proxy.wire.pulsar_pb2 import MessageMetadata

BATCH_MESSAGES_MAX: Final = 1 << 20
"""Messages of one batch that are believed. A larger claim is invalid: it would take a worker's permits for years, and
the bits to note which of them were acknowledged hundreds of megabytes."""


class Mixed(NamedTuple):
    """A batch whose messages have several slots."""

    slots: list[int]
    """Of each message, by index."""
    wanted: tuple[int, ...] | None
    """Which messages are to be delivered, ascending: not those that compaction has removed. None means all."""
    opened: OpenedBatch
    """To cut it."""
    keys: list[bytes]
    """Of each message; not kept."""


Slots: TypeAlias = "Mixed | int | None"
"""The slots of a batch's messages: the one that all have, several, or None for a batch that can only go whole."""

CUT_BYTES_MAX: Final = 5 << 20
"""Uncompressed bytes of a compressed batch that may be cut. Slices leave uncompressed, and clients end a connection on
which more comes in one frame: the brokers' default for a message's size, and so of every client."""

log = structlog.get_logger("keyline.subscription")


class BatchSlots:
    """Finds the slots of one consumer's batches."""

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
        """`slot_of` gives the slot of a key's hash; the rest is as for `Receiving`."""
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
    ) -> Slots:
        """Find them; `key` and `slot` are the entry's own, `count` its number of messages, `entry` its id."""
        if not can_peek(metadata):
            self._opaque(metadata, "it is encrypted")
            return None
        size, limit = metadata.uncompressed_size, self._peek_max_bytes
        try:
            payload = opened_payload(tail, payload_start, metadata.compression, size, limit)
            return self._find(metadata, payload_start, payload, key, slot, count, entry)
        except WireError as error:
            self._opaque(metadata, str(error))
            return None

    def _find(
        self,
        metadata: MessageMetadata,
        payload_start: int,
        payload: bytes,
        key: bytes,
        slot: int,
        count: int,
        entry: int,
    ) -> Slots:
        """Of an opened batch. Raises `WireError`."""
        reader = BatchReader(metadata, payload, count)
        if not _begins_with_two_keys(reader) and uniform(payload, count, key):
            return None if _expands(metadata, payload) else slot
        if not self._may_cut(metadata, payload, entry, count):  # before each message is read
            return None
        self._openings.spend_more(self.opener, count)
        reader.read(count)
        slots = list(map(self._slot_of, murmur31_each(reader.keys)))
        return self._checked(reader, slots, metadata, payload_start, payload, slot)

    def _may_cut(self, metadata: MessageMetadata, payload: bytes, entry: int, count: int) -> bool:
        """Whether a batch of several keys may be cut; else it is counted."""
        if not sliceable(entry, count):
            self._opaque(metadata, "its entry id or its number of messages is too large")
        elif _expands(metadata, payload):
            self._opaque(metadata, f"its {len(payload)} bytes are too many for a client")
        else:
            return True
        return False

    def _checked(
        self,
        reader: BatchReader,
        slots: list[int],
        metadata: MessageMetadata,
        payload_start: int,
        payload: bytes,
        slot: int,
    ) -> Slots:
        """What was found, unless the batch may not be cut so, or need not be."""
        wanted: tuple[int, ...] | None = None
        if reader.compacted:
            gone = set(reader.compacted)
            wanted = tuple(index for index in range(len(slots)) if index not in gone)
        if not reader.keyed or wanted == ():
            # Without keys there is no order to keep, and cutting would only cost.
            return slot
        if self._digest is not None:
            self.digests += [self._digest(key) for key in reader.keys]
        within = self._slots
        if within is not None:
            of_these = slots if wanted is None else [slots[index] for index in wanted]
            if not all(within.start <= each <= within.end for each in of_these):
                self._opaque(metadata, "it has keys of streams that other replicas may have")
                return None
        if wanted is None and of_one_slot(slots):
            return slots[0]
        return Mixed(slots, wanted, OpenedBatch(metadata, payload_start, payload, reader), reader.keys)

    def in_turns(
        self, metadata: MessageMetadata, tail: bytes, payload_start: int, key: bytes, slot: int, count: int, entry: int
    ) -> Generator[int | Decompression, bytes | Exception | None, Slots]:
        """As `at_once`."""
        if not self.to_be_opened(metadata, count):
            yield 1
            return None
        try:
            payload = yield from self._opened_in_turns(metadata, tail, payload_start)
            step = self._limits.step_messages
            if count <= step:
                return self._find(metadata, payload_start, payload, key, slot, count, entry)
            if (yield from self._is_uniform(payload, key, count)):
                return None if _expands(metadata, payload) else slot
            if not self._may_cut(metadata, payload, entry, count):
                return None
            reader = BatchReader(metadata, payload, count)
            slots: list[int] = []
            while len(slots) < count:
                yield step
                reader.read(step)
                yield step
                slots += map(self._slot_of, murmur31_each(reader.keys[len(slots) :]))
        except WireError as error:
            self._opaque(metadata, str(error))
            return None
        return self._checked(reader, slots, metadata, payload_start, payload, slot)

    def _opened_in_turns(
        self, metadata: MessageMetadata, tail: bytes, payload_start: int
    ) -> Generator[int | Decompression, bytes | Exception | None, bytes]:
        """Give the uncompressed payload. Raises `WireError`."""
        size = metadata.uncompressed_size if metadata.compression else 0
        if size <= self._limits.inline_bytes:
            yield COST_ENTRY + size // COST_BYTES
            return opened_payload(tail, payload_start, metadata.compression, size, self._peek_max_bytes)
        payload_seen = memoryview(tail)[payload_start:]
        work = partial(decompress, metadata.compression, payload_seen, size, self._peek_max_bytes)
        opened = yield Decompression(size, work)
        if isinstance(opened, Exception):
            raise opened
        assert opened is not None
        return opened

    def _is_uniform(self, payload: bytes, key: bytes, count: int) -> Generator[int, None, bool]:
        steps = uniform_steps(payload, count, key, self._limits.step_messages)
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
                "opaque batch delivered whole",
                detail="order per key holds only if the producer batches by key; further ones are only counted",
                why=why,
                producer=metadata.producer_name,
            )


def _begins_with_two_keys(reader: BatchReader) -> bool:
    """Whether the first two messages tell already that the batch has several keys: so most do that have.

    Of messages that must be read by protobuf it is not known here: without keys, they would differ all the same.
    """
    reader.read(2)
    return reader.usual and reader.keys[0] != reader.keys[-1]


def _expands(metadata: MessageMetadata, payload: bytes) -> bool:
    """Whether slices of it could be larger than clients take, so that it can only go as it came."""
    return bool(metadata.compression) and len(payload) > CUT_BYTES_MAX
