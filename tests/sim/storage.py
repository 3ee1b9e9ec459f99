"""What brokers keep: one topic with one subscription's cursor, and how its acknowledgements can be forgotten.

The messages carry their number in the payload, counted over the whole topic, so that whoever sees one knows its place.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress
from proxy.wire.metadata import build_tail
from tests.wire.builders import Written, batch_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

LEDGER_ENTRIES = 50
"""Entries of one ledger, so that positions are more than a count."""

FIRST_LEDGER = 7
GOES_ON = 0.4
"""Where a chunked message is published in part, how often what follows is more of one."""


@dataclass
class Entry:
    """One entry of the topic."""

    ledger: int
    entry: int
    tail: bytes
    numbers: tuple[int, ...]
    """Of its messages."""
    unacked: int
    """A bit a message, as the broker stores it."""
    pending: int = 0
    """The same, of those acknowledged in transactions that the broker does not know to have ended."""
    committed: int = 0
    """The same, of those whose acknowledgement was committed: no broker forgets that, and one that loads the topic
    carries it out once more, also behind a seek."""
    kept_back: int = 0
    """The same, of those of them that were not all that was left of the entry: they are as pending."""
    redeliveries: int = 0
    redeliveries_max: int = 0
    """The most that a gateway was ever told of."""
    held: bool = False
    """Sent to a consumer that has not acknowledged it whole."""
    outer_key: str = ""
    """What the broker tells by whose the entry is."""
    opaque: bool = False
    """Nobody but a consumer can open it: it goes whole to its outer key's owner."""

    @property
    def available(self) -> int:
        """What of it a broker sends."""
        return self.unacked & ~self.pending & ~self.kept_back

    @property
    def owed(self) -> int:
        """What of it is to be acknowledged yet. The rest a broker does not send, though a seek wants it."""
        return self.unacked & ~self.kept_back

    @property
    def whole(self) -> int:
        """`unacked` of an entry nobody acknowledged anything of."""
        return (1 << len(self.numbers)) - 1

    def numbers_in(self, bits: int) -> list[int]:
        """The numbers of these of its messages."""
        return [number for place, number in enumerate(self.numbers) if bits >> place & 1]


@dataclass(eq=False)
class Chunked:
    """A message in several entries, each with a number of its own; the last of them may not be published yet."""

    key: str
    uuid: str
    total: int
    numbers: list[int] = field(default_factory=list)

    @property
    def is_published(self) -> bool:
        """Whether all of it is."""
        return len(self.numbers) == self.total


@dataclass
class Message:
    """One message, by its number."""

    key: str
    """Whose order counts; a message without a key has one of its own."""
    entry: Entry
    chunked: Chunked | None = None
    """The chunked message that it is a piece of, if it is one of several."""
    follows: int = -1
    """The piece of it before this one; -1 for the first, and for what is whole."""


@dataclass
class Storage:
    """The topic and the cursor; what every broker of the cluster sees."""

    entries: list[Entry] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    opaque_sent: int = 0
    """How often a broker sent an opaque entry."""
    unconfirmed: list[tuple[Entry, int]] = field(default_factory=list)
    """Latest acknowledgements not stored yet, oldest first, with the bits they cleared: a kill forgets them."""
    by_place: dict[tuple[int, int], Entry] = field(default_factory=dict)
    astray: set[int] = field(default_factory=set)
    """Messages not acknowledged while the subscription had a second consumer: between consumers a broker keeps the
    order of entries' outer keys only, so that for messages of mixed batches there is none."""
    _open_from: int = 0
    """All entries before this one are acknowledged whole."""
    _loaded_from: int = 0
    """Where `_open_from` was when a broker loaded the topic."""
    _pending_from: int = 0
    """Nothing is pending before this one, as far as acknowledgements have told."""
    on_acked: Callable[[Entry, int], None] = lambda _entry, _bits: None
    """Told of every acknowledgement with the bits it cleared."""

    def append(self, tail: bytes, keys: Sequence[str], outer_key: str) -> Entry:
        """Store an entry whose messages have these keys."""
        first = len(self.messages)
        ledger = FIRST_LEDGER + len(self.entries) // LEDGER_ENTRIES
        place = ledger, len(self.entries) % LEDGER_ENTRIES
        entry = Entry(*place, tail, tuple(range(first, first + len(keys))), (1 << len(keys)) - 1, outer_key=outer_key)
        self.entries.append(entry)
        self.messages += [Message(key, entry) for key in keys]
        self.by_place[place] = entry
        return entry

    def is_pending(self, number: int) -> bool:
        """Whether the message is pending in a transaction."""
        entry = self.messages[number].entry
        return bool(entry.pending >> entry.numbers.index(number) & 1)

    def open_entries(self) -> Iterable[Entry]:
        """Entries with something unacknowledged, from the first, and some behind it that have nothing."""
        while self._open_from < len(self.entries) and not self.entries[self._open_from].unacked:
            self._open_from += 1
        return self.entries[self._open_from :]

    def acknowledge(self, place: pb.MessageIdData) -> None:
        """Apply one id of an ACK."""
        entry = self.by_place.get((place.ledgerId, place.entryId))
        assert entry is not None, f"an ack of {place.ledgerId}:{place.entryId}, which is no entry"
        left = bits_of(place.ack_set)
        cleared = entry.unacked & ~left
        if cleared:
            entry.unacked &= left
            self.unconfirmed.append((entry, cleared))
            self.on_acked(entry, cleared)
        self._forget_pending(entry)

    def commit(self, entry: Entry, bits: int) -> None:
        """The transaction in which these were acknowledged is committed."""
        entry.pending &= ~bits
        entry.committed |= bits
        cleared = entry.unacked & bits
        entry.unacked &= ~bits
        entry.kept_back |= bits
        if cleared:
            self.on_acked(entry, cleared)
        self._forget_pending(entry)

    def _forget_pending(self, entry: Entry) -> None:
        """An acknowledgement of all that is left of an entry takes what is pending of it, and before the cursor.

        Before it only a seek leaves any: if another takes the cursor back, the broker sends that though its transaction
        is open. When that ends, it is acknowledged or sent again all the same (`clearIndividualPosition`).
        """
        if entry.unacked:
            return
        entry.pending = entry.kept_back = 0
        self.open_entries()
        end = self._open_from - 1
        for each in self.entries[self._pending_from : max(end, 0)]:
            each.pending = each.kept_back = 0
        self._pending_from = max(self._pending_from, end)

    def forget_transactions(self) -> None:
        """The subscription is deleted, and the log of its transactions with it."""
        for entry in self.entries:
            entry.pending = entry.kept_back = entry.committed = 0

    def store_cursor(self) -> None:
        """What was acknowledged so far stays so."""
        self.unconfirmed.clear()

    def load(self) -> None:
        """A broker serves the topic from now on: what was committed is acknowledged, whatever a seek did since."""
        for entry in self.entries:
            if entry.unacked & entry.committed:
                self.commit(entry, entry.unacked & entry.committed)
        self.open_entries()
        self._loaded_from = self._open_from

    def go_back(self) -> list[int]:
        """The cursor stands where it stood when the topic was loaded; returns the messages that were acknowledged."""
        entries = self.entries[self._loaded_from :]
        lost = [(entry, entry.whole & ~entry.unacked & ~entry.committed) for entry in entries]
        return self._take_back([(entry, bits) for entry, bits in lost if bits])

    def forget(self, dice: random.Random) -> list[int]:
        """A broker was killed: some of the latest acknowledgements are gone; returns the messages' numbers."""
        return self._take_back(self.unconfirmed[dice.randint(0, len(self.unconfirmed)) :])

    def _take_back(self, lost: list[tuple[Entry, int]]) -> list[int]:
        self.unconfirmed.clear()
        for entry, bits in lost:
            entry.unacked |= bits
        for entry in self.entries:
            entry.redeliveries = 0
        self._open_from = self._pending_from = 0
        return [number for entry, bits in lost for place, number in enumerate(entry.numbers) if bits >> place & 1]

    def move_cursor(self, index: int) -> None:
        """As a seek: what stands before entry number `index` counts as acknowledged, all else does not.

        What is pending in transactions stays so, and is not sent before their end; so does what is kept back.
        """
        for place, entry in enumerate(self.entries):
            entry.unacked = 0 if place < index else entry.whole
            entry.redeliveries = 0
        self.unconfirmed.clear()
        self._open_from = self._pending_from = 0

    def mark_delete(self) -> tuple[int, int]:
        """Ledger and entry of the last one before which everything is acknowledged; entry -1 for none."""
        done = list(itertools.takewhile(lambda entry: not entry.unacked, self.entries))
        return (done[-1].ledger, done[-1].entry) if done else (FIRST_LEDGER, -1)


def bits_of(ack_set: Iterable[int]) -> int:
    """The wire's 64-bit words, lowest first, as one number."""
    return sum((word & 0xFFFF_FFFF_FFFF_FFFF) << (64 * place) for place, word in enumerate(ack_set))


def payload_of(number: int) -> bytes:
    """A message's payload: its number, at sizes that vary."""
    return b"%d" % number + b"." * (number * 7 % 40)


def number_of(payload: bytes) -> int:
    """The number in a payload."""
    return int(payload.rstrip(b"."))


class Producer:
    """Writes entries of every kind a client makes."""

    def __init__(self, storage: Storage, dice: random.Random, keys: Sequence[str], kinds: Sequence[str]) -> None:
        """`kinds` of entries to draw from: single, keyless, key_batch, mixed_batch, opaque_batch, chunked."""
        self.apart_chance = 0.0
        """That other entries are published between two pieces of a chunked message."""
        self._begun: list[Chunked] = []
        """Messages that are published in part: there are several producers, of which each writes one at a time."""
        self._storage = storage
        self._dice = dice
        self._keys = keys
        self._kinds = kinds
        self._weights = [1 / (place + 1) for place in range(len(keys))]
        self._sequence = 0

    def publish(self) -> Entry:
        """One entry more."""
        kind = self._dice.choice(self._kinds)
        if self._begun and (kind == "chunked" or self._dice.random() < GOES_ON):
            return self._go_on(self._dice.choice(self._begun))
        first = len(self._storage.messages)
        self._sequence += 1
        if kind == "single":
            return self._single(self._key(), first)
        if kind == "keyless":
            return self._single(None, first)
        if kind == "chunked":
            return self._chunks(self._key())
        count = self._dice.choice((2, 2, 3, 5, 12))
        keys = [self._key() for _ in range(count)] if kind == "mixed_batch" else [self._key()] * count
        opaque = kind == "opaque_batch"
        entry = self._batch(keys, first, opaque=opaque)
        entry.opaque = opaque
        return entry

    def _key(self) -> str:
        return self._dice.choices(self._keys, weights=self._weights)[0]

    def _single(self, key: str | None, number: int) -> Entry:
        metadata = self._metadata()
        if key is not None:
            metadata.partition_key = key.encode()
        own = key if key is not None else f"shop-{self._sequence}"
        return self._storage.append(build_tail(metadata, payload_of(number)), [own], own)

    def _chunks(self, key: str) -> Entry:
        """A message in several entries, or its first ones; returns the last that was published."""
        message = Chunked(key, f"shop-{self._sequence}", self._dice.choice((2, 3, 5)))
        self._begun.append(message)
        return self._go_on(message)

    def _go_on(self, message: Chunked) -> Entry:
        entry = self._chunk(message)
        while not message.is_published and not (self.apart_chance and self._dice.random() < self.apart_chance):
            entry = self._chunk(message)
        if message.is_published:
            self._begun.remove(message)
        return entry

    def finish(self) -> None:
        """Publish the rest of all messages."""
        self.apart_chance = 0.0
        for message in list(self._begun):
            self._go_on(message)

    def _chunk(self, message: Chunked) -> Entry:
        metadata = self._metadata()
        metadata.partition_key = message.key.encode()
        metadata.uuid = message.uuid
        metadata.chunk_id, metadata.num_chunks_from_msg = len(message.numbers), message.total
        number = len(self._storage.messages)
        entry = self._storage.append(build_tail(metadata, payload_of(number)), [message.key], message.key)
        stored = self._storage.messages[number]
        stored.chunked, stored.follows = message, message.numbers[-1] if message.numbers else -1
        message.numbers.append(number)
        return entry

    def _batch(self, keys: Sequence[str], first: int, *, opaque: bool) -> Entry:
        metadata = self._metadata()
        metadata.partition_key = keys[0].encode()
        metadata.num_messages_in_batch = len(keys)
        numbers = range(first, first + len(keys))
        payload = batch_of(
            Written(payload_of(number), key.encode(), sequence_id=number)
            for key, number in zip(keys, numbers, strict=True)
        )
        if opaque:
            metadata.encryption_keys.add(key="theirs", value=b"secret")
        metadata.uncompressed_size = len(payload)
        codec = self._dice.choice((pb.NONE, pb.NONE, pb.LZ4, pb.ZSTD))
        if codec != pb.NONE and not opaque:
            metadata.compression = codec
            payload = compress(codec, payload)
        return self._storage.append(build_tail(metadata, payload), keys, keys[0])

    def _metadata(self) -> pb.MessageMetadata:
        return pb.MessageMetadata(producer_name=b"shop", sequence_id=self._sequence, publish_time=1)
