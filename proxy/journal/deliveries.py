"""The record of each message: one small struct for a delivery on the event loop, columns made of many in the thread.

The budget is 3 microseconds of CPU for a message that is delivered and acknowledged, both rows, their files included.
So nothing is looked up, converted or copied here that can be done later for ten thousand at once: a struct holds
numbers only, texts are numbered, and a delivery of many messages is one struct, from which the thread makes a row each.

A client chooses how many messages a batch has, or claims to have. So rows are counted, not structs, and a batch that
cannot be cut and has very many has one row (`as_one`); what it claims is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.delivery_log import LISTED_MAX, as_one
from proxy.core.positions import ENTRY_BITS, ENTRY_MASK
from proxy.journal.delivery_chunk import CHUNK, FIRST_CHUNK, ROW, SENT, WHOLE, DeliveryChunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.entry import Part
    from proxy.core.worker import Worker
    from proxy.journal.digest import KeyDigests

ROWS_AT_A_TIME: Final = 10_000
"""Number of rows after which they are handed in, before a second has passed.

The thread makes as many at once, and those of the entry that comes last: 32,768 at most, see `as_one`.
"""


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
        self.unlisted = 0
        """Messages without rows of their own, as their producers count them, each time that they were sent."""
        self._begin()

    def hand_in(self) -> None:
        """Let the writer have what was gathered."""
        if not self.structs:
            return
        chunk = DeliveryChunk(
            self._run_id,
            self.structs,
            self.rows,
            list(self.subscriptions),
            self.consumers.texts,
            self._digests.plain(),
            self._wall_minus_clock_ns(),
        )
        self._put(chunk)
        self._begin()

    def _begin(self) -> None:
        self.structs: list[bytes] = []
        self.rows = 0
        """How many they are for."""
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
        left = iter(units)
        while self._take_sent(worker, left, now):
            self._log.hand_in()

    def _take_sent(self, worker: Worker, units: Iterator[Part], now: float) -> bool:
        """Take units until there is enough to be handed in; False if that is not so when all are taken."""
        record = self._log
        subscription = record.subscriptions.setdefault(self._key, len(record.subscriptions))
        consumer = record.consumers.of(worker.name)
        structs, pack, rows = record.structs, ROW.pack, record.rows
        for unit in units:
            count = unit.count
            if (
                count <= LISTED_MAX
                and unit.slots is None
                and unit.indexes is None
                and (digest := unit.digest).__class__ is int
            ):
                if digest:
                    rows += count
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
                rows += self._several(_sent(unit), unit, None, subscription, consumer, unit.attempts, now, unit.sent_at)
                if as_one(unit) and unit.digest:
                    record.unlisted += count
            if rows >= ROWS_AT_A_TIME:
                break
        record.rows = rows
        return rows >= ROWS_AT_A_TIME

    def ended(self, endings: Sequence[Ending]) -> None:
        """As the port says."""
        left = iter(endings)
        while self._take_ended(left):
            self._log.hand_in()

    def _take_ended(self, endings: Iterator[Ending]) -> bool:
        """As `_take_sent`."""
        record = self._log
        subscription = record.subscriptions.setdefault(self._key, len(record.subscriptions))
        structs, pack, number, rows = record.structs, ROW.pack, record.consumers.of, record.rows
        consumer, before = 0, None
        for how, part, worker, at, sent_at, attempts, indexes in endings:
            if worker is not before:
                consumer, before = number(worker.name), worker
            digest, count = part.digest, part.count
            if (
                indexes is None
                and count <= LISTED_MAX
                and part.indexes is None
                and part.slots is None
                and digest.__class__ is int
            ):
                if digest:
                    rows += count
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
                rows += self._several(how, part, indexes, subscription, consumer, attempts, at, sent_at)
            if rows >= ROWS_AT_A_TIME:
                break
        record.rows = rows
        return rows >= ROWS_AT_A_TIME

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
    ) -> int:
        """Structs for what is not simply a whole entry of one key; returns for how many rows."""
        append, pack, rows = self._log.structs.append, ROW.pack, 0
        for first, count, slot, size, digest in _runs(part, indexes):
            if digest:
                rows += count
                append(
                    pack(
                        event,
                        attempts,
                        first,
                        count,
                        subscription,
                        consumer,
                        slot,
                        size,
                        part.position >> ENTRY_BITS,
                        part.position & ENTRY_MASK,
                        digest,
                        at,
                        part.received_at,
                        sent_at,
                    )
                )
        return rows


def _runs(part: Part, indexes: Sequence[int] | None) -> Iterator[tuple[int, int, int, int, int]]:
    """What has a struct of its own: first index, number of messages, slot, bytes, digest."""
    digest = part.digest
    if as_one(part):
        assert isinstance(digest, int)
        yield -1, 1, part.slot, part.wire_bytes, digest
        return
    share = part.wire_bytes // part.count
    alone = part.total == 1  # and has no index, also where a client acknowledges it by one
    indexes = part.message_indexes() if indexes is None else indexes
    if isinstance(indexes, range) and part.slots is None and isinstance(digest, int):  # a whole entry of one key
        yield -1 if alone else 0, len(indexes), part.slot, share * len(indexes), digest
        return
    for index, slot in zip(indexes, part.slots_of(indexes), strict=True):
        yield -1 if alone else index, 1, slot, share, digest if isinstance(digest, int) else digest[index]


def _sent(unit: Part) -> int:
    """The event's number."""
    if unit.chunk is not None:
        return CHUNK if unit.chunk.index else FIRST_CHUNK
    return SENT if unit.count == 1 or unit.divisible else WHOLE
