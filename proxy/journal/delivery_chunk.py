"""What the record of each message hands to the writer's thread: structs, from which a row for each message is made.

A struct holds numbers only, and is for one message, or for all of a batch of one key.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from proxy.core.delivery_log import ENDED, How
from proxy.journal.arrow import batch_of
from proxy.journal.schema import DELIVERIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SENT: Final = 0
WHOLE: Final = len(How) + 1
"""Sent, as `SENT`: one of several messages that only go together, or all of them as one."""
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

ROW: Final = struct.Struct("<BIiiIIiIqqqddd")
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
STRUCT_BYTES: Final = ROW.size + _OBJECT_BYTES
ROW_BYTES: Final = 8
"""What a row counts beside its struct. It takes no memory while it waits, but the thread's time: so at most 8 million
wait in 64 MiB, some seconds' work. If each counted as much as a struct, bursts of batches would be dropped."""

assert _DTYPE.itemsize == ROW.size, "the struct's layout is written twice"


class DeliveryChunk:
    """Structs of all subscriptions, as `chunk.Chunk` wants them."""

    table = DELIVERIES

    def __init__(
        self,
        run_id: str,
        structs: list[bytes],
        rows: int,
        subscriptions: list[tuple[str, str]],
        consumers: list[str],
        keys: dict[int, bytes] | None,
        wall_minus_clock_ns: int,
    ) -> None:
        """At least one struct, all of them for so many `rows`; `keys` by digest, if they are written themselves."""
        self.size_bytes = len(structs) * STRUCT_BYTES + rows * ROW_BYTES
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


def _nanoseconds(seconds: np.ndarray) -> np.ndarray:
    return np.rint(seconds * 1e9).astype(np.int64)
