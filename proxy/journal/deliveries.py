"""The record of each message: one small struct for a delivery on the event loop, columns made of many in the thread.

The budget is 3 microseconds of CPU for a message that is delivered and acknowledged, both rows, their files included.
So nothing is looked up, converted or copied here that can be done later for ten thousand at once: a struct holds
numbers only, texts are numbered, and a delivery of many messages is one struct, from which the thread makes a row each.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from proxy.core.delivery_log import ENDED, How
from proxy.core.positions import ENTRY_BITS, ENTRY_MASK
from proxy.journal.arrow import batch_of
from proxy.journal.schema import DELIVERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.entry import Part
    from proxy.core.worker import Worker
    from proxy.journal.digest import KeyDigests

SENT: Final = 0
WHOLE: Final = len(How) + 1
"""Sent, as `SENT`: one of several messages that only go together."""
FIRST_CHUNK: Final = WHOLE + 1
"""Sent: the first chunk of a message."""
CHUNK: Final = FIRST_CHUNK + 1
"""Sent: one of its others."""
EVENTS: Final = ("sent", *(ENDED[how] for how in How), "sent", "sent", "sent")
"""Names of the events by their numbers."""
WHYS: Final = {
    How.ASKED_FOR: "asked_for",
    How.GIVEN_UP: "given_up",
    How.COMMITTED: "in_transaction",
    How.ABORTED: "in_transaction",
    WHOLE: "whole",
    FIRST_CHUNK: "first_chunk",
    CHUNK: "chunk",
}
"""What else there is to be said, by the same numbers."""
ROWS_AT_A_TIME: Final = 10_000
"""Number of structs after which they are handed in, before a second has passed."""

_ROW: Final = struct.Struct("<BIiiIIiIqqqddd")
"""A packed position may have more than 64 bits: ledgers of an old cluster have numbers beyond 2**23."""
_DTYPE: Final = np.dtype(
    [
        ("event", "<u1"),
        ("attempt", "<u4"),
        ("first", "<i4"),
        ("count", "<i4"),
        ("subscription", "<u4"),
        ("consumer", "<u4"),
        ("slot", "<i4"),
        ("size", "<u4"),
        ("ledger", "<i8"),
        ("entry", "<i8"),
        ("digest", "<i8"),
        ("at", "<f8"),
        ("received", "<f8"),
        ("sent", "<f8"),
    ],
)
_OBJECT_BYTES: Final = 48
"""What a bytes object takes beside its bytes, and its place in a list."""
STRUCT_BYTES: Final = _ROW.size + _OBJECT_BYTES

assert _DTYPE.itemsize == _ROW.size, "the struct's layout is written twice"


class Numbered:
    """Texts by number, in the order in which they came."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        """None yet."""
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int:
        """Its number."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        """By number."""
        return list(self._numbers)


class DeliveryChunk:
    """Structs of all subscriptions, as `chunk.Chunk` wants them."""

    table = DELIVERIES

    def __init__(
        self,
        run_id: str,
        structs: list[bytes],
        subscriptions: list[tuple[str, str]],
        consumers: list[str],
        keys: dict[int, bytes] | None,
        wall_minus_clock_ns: int,
    ) -> None:
        """At least one struct; `keys` by digest, if they are written themselves."""
        self.size_bytes = len(structs) * STRUCT_BYTES
        self._run_id = run_id
        self._structs = structs
        self._subscriptions = subscriptions
        self._consumers = consumers
        self._keys = keys
        self._wall_minus_clock_ns = wall_minus_clock_ns

    def counted(self) -> Mapping[str, int]:
        """Messages by event."""
        rows = self._rows()
        counts: Counter[str] = Counter()
        for number, name in enumerate(EVENTS):
            count = int(rows["count"][rows["event"] == number].sum())
            if count:
                counts[name] += count
        return counts

    def batch(self) -> pa.RecordBatch:
        """As the protocol says."""
        rows = self._rows()
        counts = rows["count"]
        sizes = rows["size"] // counts
        alone = rows["first"] < 0
        firsts = rows["first"]
        if int(counts.max()) > 1:
            ends = np.cumsum(counts)
            behind = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
            rows, sizes = np.repeat(rows, counts), np.repeat(sizes, counts)
            alone = np.repeat(alone, counts)
            firsts = rows["first"] + behind
        at_ns = _nanoseconds(rows["at"])
        topics, names = zip(*self._subscriptions, strict=True)
        digests = rows["digest"]
        keys: list[str | None] | pa.Array[Any] = pa.nulls(len(rows), pa.string())
        if self._keys is not None:
            known = self._keys
            texts = {number: key.decode(errors="backslashreplace") for number, key in known.items()}
            keys = [texts.get(number) for number in digests.tolist()]
        return batch_of(
            DELIVERIES,
            {
                "life": self._run_id,
                "topic": _taken(topics, rows["subscription"]),
                "subscription": _taken(names, rows["subscription"]),
                "at_ns": at_ns,
                "wall_ns": at_ns + self._wall_minus_clock_ns,
                "event": _taken(EVENTS, rows["event"]),
                "consumer": _taken(self._consumers, rows["consumer"]),
                "ledger": rows["ledger"],
                "entry": rows["entry"],
                "batch_index": np.where(alone, -1, firsts),
                "slot": rows["slot"],
                "key_digest": digests,
                "key": keys,
                "attempt": rows["attempt"],
                "size_bytes": sizes,
                "received_ns": _nanoseconds(rows["received"]),
                "sent_ns": _nanoseconds(rows["sent"]),
                "why": _whys(rows["event"]),
            },
        )

    def _rows(self) -> np.ndarray:
        return np.frombuffer(b"".join(self._structs), _DTYPE)


class DeliveryLog:
    """Gathers structs of all subscriptions."""

    def __init__(
        self,
        run_id: str,
        digests: KeyDigests,
        put: Callable[[DeliveryChunk], object],
        wall_minus_clock_ns: Callable[[], int],
    ) -> None:
        """Nothing gathered; `put` takes what is handed in, for the writer's thread."""
        self._run_id = run_id
        self._digests = digests
        self._put = put
        self._wall_minus_clock_ns = wall_minus_clock_ns
        self._begin()

    def hand_in(self) -> None:
        """Let the writer have what was gathered."""
        if not self.structs:
            return
        chunk = DeliveryChunk(
            self._run_id,
            self.structs,
            list(self.subscriptions),
            self.consumers.texts,
            self._digests.plain(),
            self._wall_minus_clock_ns(),
        )
        self._put(chunk)
        self._begin()

    def _begin(self) -> None:
        self.structs: list[bytes] = []
        self.subscriptions: dict[tuple[str, str], int] = {}
        self.consumers = Numbered()


class SubscriptionRecorder:
    """Implements `proxy.net.events.DeliveryRecorder`."""

    def __init__(self, key: tuple[str, str], record: DeliveryLog, digest: Callable[[bytes], int]) -> None:
        """`digest` is `KeyDigests.of`."""
        self._key = key
        self._log = record
        self.digest = digest

    def sent(self, worker: Worker, units: Sequence[Part], now: float) -> None:
        """As the port says."""
        record = self._log
        subscription = record.subscriptions.setdefault(self._key, len(record.subscriptions))
        consumer = record.consumers.of(worker.name)
        structs, pack = record.structs, _ROW.pack
        for unit in units:
            if unit.slots is None and unit.indexes is None and (digest := unit.digest).__class__ is int:
                if digest:
                    count = unit.count
                    structs.append(
                        pack(
                            SENT if unit.chunk is None and count == 1 else _sent(unit),
                            unit.attempts,
                            -1 if count == 1 else 0,
                            count,
                            subscription,
                            consumer,
                            unit.slot,
                            len(unit.tail),
                            unit.position >> ENTRY_BITS,
                            unit.position & ENTRY_MASK,
                            digest,
                            now,
                            unit.received_at,
                            unit.sent_at,
                        )
                    )
            else:
                self._several(_sent(unit), unit, None, subscription, consumer, unit.attempts, now, unit.sent_at)
        if len(structs) >= ROWS_AT_A_TIME:
            record.hand_in()

    def ended(self, endings: Sequence[Ending]) -> None:
        """As the port says."""
        record = self._log
        subscription = record.subscriptions.setdefault(self._key, len(record.subscriptions))
        structs, pack, number = record.structs, _ROW.pack, record.consumers.of
        consumer, before = 0, None
        for how, part, worker, at, sent_at, attempts, indexes in endings:
            if worker is not before:
                consumer, before = number(worker.name), worker
            digest = part.digest
            if indexes is None and part.indexes is None and part.slots is None and digest.__class__ is int:
                if digest:
                    count = part.count
                    structs.append(
                        pack(
                            how,
                            attempts,
                            -1 if count == 1 else 0,
                            count,
                            subscription,
                            consumer,
                            part.slot,
                            len(part.tail),
                            part.position >> ENTRY_BITS,
                            part.position & ENTRY_MASK,
                            digest,
                            at,
                            part.received_at,
                            sent_at,
                        )
                    )
            else:
                self._several(how, part, indexes, subscription, consumer, attempts, at, sent_at)
        if len(structs) >= ROWS_AT_A_TIME:
            record.hand_in()

    def _several(
        self,
        event: int,
        part: Part,
        indexes: Sequence[int] | None,
        subscription: int,
        consumer: int,
        attempts: int,
        at: float,
        sent_at: float,
    ) -> None:
        """A struct for each message, where they are not a whole entry of one key."""
        record, digest = self._log, part.digest
        share = part.wire_bytes // part.count
        indexes = part.message_indexes() if indexes is None else indexes
        for index, slot in zip(indexes, part.slots_of(indexes), strict=True):
            number = digest if isinstance(digest, int) else digest[index]
            if number:
                record.structs.append(
                    _ROW.pack(
                        event,
                        attempts,
                        index,
                        1,
                        subscription,
                        consumer,
                        slot,
                        share,
                        part.position >> ENTRY_BITS,
                        part.position & ENTRY_MASK,
                        number,
                        at,
                        part.received_at,
                        sent_at,
                    )
                )


def _taken(texts: Sequence[str], numbers: np.ndarray) -> pa.Array[Any]:
    """Texts by their numbers."""
    return pa.DictionaryArray.from_arrays(numbers.astype(np.int32), pa.array(texts, pa.string()))


def _whys(events: np.ndarray) -> pa.Array[Any]:
    """Null for most."""
    numbers = np.full(len(EVENTS), -1, np.int32)
    names = list(dict.fromkeys(WHYS.values()))
    numbers[list(WHYS)] = [names.index(name) for name in WHYS.values()]
    found = numbers[events]
    return pa.DictionaryArray.from_arrays(pa.array(found, mask=found < 0), pa.array(names, pa.string()))


def _sent(unit: Part) -> int:
    """The event's number."""
    if unit.chunk is not None:
        return CHUNK if unit.chunk.index else FIRST_CHUNK
    return SENT if unit.count == 1 or unit.divisible else WHOLE


def _nanoseconds(seconds: np.ndarray) -> np.ndarray:
    return np.rint(seconds * 1e9).astype(np.int64)
