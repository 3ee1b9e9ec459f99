"""Rows of the record of messages, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

EVENTS: Final = ("sent", "acked", "returned", "dropped")
WHYS: Final = ("asked_for", "given_up", "whole", "first_chunk", "chunk")
SLOTS: Final = 1 << 16
SIZE_BYTES: Final = 100
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Rows:
    """A place in each array for each row."""

    key: Numbers
    """By number; the journal has a digest of it."""
    worker: Numbers
    ledger: Numbers
    entry: Numbers
    event: Numbers
    """Places in `EVENTS`."""
    at_ns: Numbers
    sent_ns: Numbers
    received_ns: Numbers
    attempt: Numbers
    why: Numbers
    """Places in `WHYS`, or -1."""

    def where(self, wanted: NDArray[np.bool_]) -> Rows:
        """Some of them."""
        return Rows(*[getattr(self, field.name)[wanted] for field in fields(self)])

    def columns(self) -> dict[str, Any]:
        """As the journal's table has them."""
        digest = _digest(self.key)
        workers = pa.array([f"w{number}" for number in range(int(self.worker.max(initial=0)) + 1)])
        count = len(self.key)
        return {
            "at_ns": self.at_ns,
            "event": pa.DictionaryArray.from_arrays(self.event.astype(np.int32), pa.array(EVENTS)),
            "consumer": pa.DictionaryArray.from_arrays(self.worker.astype(np.int32), workers),
            "ledger": self.ledger,
            "entry": self.entry,
            "batch_index": np.full(count, -1, np.int32),
            "slot": (digest % np.uint64(SLOTS)).astype(np.int32),
            "key_digest": digest.view(np.int64),
            "key": pa.nulls(count, pa.string()),
            "attempt": self.attempt.astype(np.int32),
            "size_bytes": np.full(count, SIZE_BYTES, np.int64),
            "received_ns": self.received_ns,
            "sent_ns": self.sent_ns,
            "why": pa.DictionaryArray.from_arrays(
                pa.array(self.why.astype(np.int32), pa.int32(), mask=self.why < 0), pa.array(WHYS)
            ),
        }


def in_time(parts: Sequence[Rows]) -> Rows:
    """All of them, as time went."""
    arrays = [np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Rows)]
    order = np.argsort(np.concatenate([part.at_ns for part in parts]), kind="stable")
    return Rows(*[values[order] for values in arrays])


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Some messages at their workers, of which rows tell what happened to them."""

    key: Numbers
    worker: Numbers
    ledger: Numbers
    entry: Numbers
    received_ns: Numbers

    @staticmethod
    def slot_of(key: int) -> int:
        """That the rows of the key have."""
        return int(_digest(np.array([key]))[0] % np.uint64(SLOTS))

    def rows(
        self, event: str, at_ns: Numbers, sent_ns: Numbers, attempt: Numbers | int, why: str | None = None
    ) -> Rows:
        """One row for each."""
        return Rows(
            key=self.key,
            worker=self.worker,
            ledger=self.ledger,
            entry=self.entry,
            event=np.full(len(self.key), EVENTS.index(event), np.int64),
            at_ns=at_ns,
            sent_ns=sent_ns,
            received_ns=self.received_ns,
            attempt=np.broadcast_to(np.asarray(attempt, np.int64), self.key.shape),
            why=np.full(len(self.key), -1 if why is None else WHYS.index(why), np.int64),
        )


def _digest(key: Numbers) -> NDArray[np.uint64]:
    return (key.astype(np.uint64) + np.uint64(1)) * _MIX
