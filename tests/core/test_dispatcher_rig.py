"""A rig for telling a subscription's story in a few words, and the proof that it tells it truly.

Workers are called by name, entries by number, and what a worker got is read from its outbox, as it would leave for its
socket. Owners are stubbed: a worker that joins takes the slots that the story gives it, and when it leaves they go
back to whoever had them before. So a story can say what a specification's text says: "the selector returns c3 now".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from proxy.core import acknowledgement, membership
from proxy.core.delivery_key import slice_key
from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.entry import Chunk, Part
from proxy.core.hash_ranges import HashRange, RangeMove
from proxy.core.positions import entry_of, pack
from proxy.core.worker import Worker
from tests.core.batches import by_slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LEDGER = 1

A, B, C, D = 100, 200, 300, 400
"""Slots of four keys."""

Got: TypeAlias = "int | tuple[int, tuple[int, ...]]"
"""A whole entry by its number, or (number, indexes) of a slice."""


class Owners:
    """A selector whose owners the story dictates."""

    range_size = 65_536

    def __init__(self, claims: Mapping[str, Sequence[int]]) -> None:
        """Slots that each worker, by name, takes when it joins."""
        self._claims = claims
        self._claimants: dict[int, list[Worker]] = {}

    def slot(self, murmur31: int) -> int:
        """Stories name slots, not keys."""
        raise NotImplementedError

    def add(self, worker: Worker) -> list[RangeMove[Worker]]:
        """Its claims are its own from now on."""
        moves = []
        for slot in sorted(self._claims[worker.name]):
            before = self.select(slot)
            self._claimants.setdefault(slot, []).append(worker)
            moves.append(RangeMove(slot, slot, before, worker))
        return moves

    def remove(self, worker: Worker) -> list[RangeMove[Worker]]:
        """Back to the claimant before it."""
        moves = []
        for slot, claimants in sorted(self._claimants.items()):
            before = self.select(slot)
            claimants[:] = [claimant for claimant in claimants if claimant is not worker]
            if before is worker:
                moves.append(RangeMove(slot, slot, worker, self.select(slot)))
        return moves

    def select(self, slot: int) -> Worker | None:
        """The latest claimant that is here."""
        claimants = self._claimants.get(slot)
        return claimants[-1] if claimants else None

    def select_each(self, slots: Iterable[int]) -> Iterator[Worker | None]:
        """One by one."""
        return map(self.select, slots)

    def ranges(self, worker: Worker) -> list[HashRange]:
        """Of single slots."""
        return [HashRange(slot, slot) for slot in sorted(self._claimants) if self.select(slot) is worker]

    def assignment(self) -> list[tuple[HashRange, Worker]]:
        """Of single slots."""
        owners = [(HashRange(slot, slot), self.select(slot)) for slot in sorted(self._claimants)]
        return [(piece, owner) for piece, owner in owners if owner is not None]

    def copy(self) -> Owners:
        """No story previews a join."""
        raise NotImplementedError


class Rig:
    """A dispatcher and its workers by name."""

    def __init__(self, mode: OrderingMode = OrderingMode.DRAINING_HASHES, **claims: Sequence[int]) -> None:
        """Who takes which slots on joining."""
        self.dispatcher = Dispatcher(Owners(claims), mode)
        self.workers: dict[str, Worker] = {}
        self.now = 0.0

    def join(self, name: str, permits: int = 0, *, max_unacked: int = 0) -> Worker:
        """A worker joins, and grants permits."""
        worker = self.workers[name] = Worker(name, max_unacked=max_unacked)
        membership.join(self.dispatcher, worker, self.now)
        if permits:
            self.flow(name, permits)
        return worker

    def leave(self, name: str, *, closed: bool = False) -> None:
        """A worker leaves: its connection is lost, or it closes its consumer."""
        membership.leave(self.dispatcher, self.workers[name], self.now, closed=closed)

    def flow(self, name: str, permits: int) -> None:
        """A worker grants permits."""
        self.dispatcher.flow(self.workers[name], permits, self.now)

    def entries(self, slot: int, *numbers: int) -> None:
        """Unbatched messages of one key arrive."""
        for number in numbers:
            self.dispatcher.receive(pack(LEDGER, number), slot, 1, b"%d" % number, 0, self.now)

    def batch(self, number: int, slot: int, count: int) -> None:
        """A batch of one key arrives."""
        self.dispatcher.receive(pack(LEDGER, number), slot, count, b"x" * 100, 0, self.now)

    def mixed(self, number: int, *slots: int | None) -> None:
        """A batch arrives whose messages have these slots; None is kept back by the broker."""
        groups: dict[int, tuple[int, ...]] = {}
        for index, slot in enumerate(slots):
            if slot is not None:
                groups[slot] = (*groups.get(slot, ()), index)
        batch = by_slot(pack(LEDGER, number), b"x" * 100, len(slots), groups.items(), 0, self.now)
        offered = [index for index, slot in enumerate(slots) if slot is not None]
        self.dispatcher.offered(pack(LEDGER, number), offered, self.now)
        kept_back = sum(1 << index for index, slot in enumerate(slots) if slot is None)
        self.dispatcher.receive_batch(batch, self.now, kept_back)

    def opaque(self, number: int, slot: int, count: int) -> Part:
        """A batch arrives that cannot be read."""
        part = Part(pack(LEDGER, number), slot, count, b"x" * 100, 0, self.now)
        part.opaque = True
        self.dispatcher.offered(part.position, None, self.now)
        self.dispatcher.receive_part(part, self.now)
        return part

    def chunk(self, number: int, slot: int, uuid: str, index: int, total: int) -> None:
        """One chunk of a chunked message arrives."""
        part = Part(pack(LEDGER, number), slot, 1, b"chunk", 0, self.now)
        part.chunk = Chunk(uuid, index, total)
        self.dispatcher.offered(part.position, None, self.now)
        self.dispatcher.receive_part(part, self.now)

    def units(self, name: str) -> list[Part]:
        """What leaves for a worker."""
        worker = self.workers[name]
        units, worker.outbox = worker.outbox, []
        return units

    def got(self, name: str) -> list[Got]:
        """What leaves for a worker, by numbers."""
        return [
            entry_of(u.position) if u.indexes is None else (entry_of(u.position), u.indexes) for u in self.units(name)
        ]

    def key(self, what: Got) -> int:
        """Pending key of a delivery."""
        number, indexes = (what, None) if isinstance(what, int) else what
        return slice_key(pack(LEDGER, number), indexes)

    def ack(self, name: str, *what: Got) -> bool:
        """A worker acknowledges deliveries; whether the last was its."""
        return [acknowledgement.ack(self.dispatcher, self.workers[name], self.key(w), self.now) for w in what][-1]

    def ack_all_but(self, name: str, what: Got, *unacked: int) -> bool:
        """A worker acknowledges a delivery but for the messages at these places of it."""
        bits = sum(1 << place for place in unacked)
        return acknowledgement.ack_indexes(self.dispatcher, self.workers[name], self.key(what), bits, self.now)

    def nack(self, name: str, *what: Got) -> int:
        """A worker wants deliveries again; all of them if none is named."""
        keys = [self.key(w) for w in what] if what else None
        return acknowledgement.redeliver(self.dispatcher, self.workers[name], keys, self.now)

    def acked_upstream(self) -> list[int]:
        """Entries acknowledged upstream since the last time."""
        outstanding = self.dispatcher.outstanding
        acks, outstanding.acks = outstanding.acks, []
        return [entry_of(position) for position in acks]

    def draining(self) -> list[int]:
        """Slots that drain."""
        return list(self.dispatcher.draining.slots())


def test_owners_follow_the_claims_of_whoever_is_there() -> None:
    """The latest claimant owns a slot; when it leaves the slot goes back, and the moves say so."""
    owners = Owners({"c1": [A, B], "c2": [A]})
    first, second = Worker("c1"), Worker("c2")
    assert owners.add(first) == [RangeMove(A, A, None, first), RangeMove(B, B, None, first)]
    assert owners.add(second) == [RangeMove(A, A, first, second)]
    assert owners.select(A) is second
    assert owners.ranges(first) == [HashRange(B, B)]
    assert owners.remove(first) == [RangeMove(B, B, first, None)]
    assert owners.remove(second) == [RangeMove(A, A, second, None)]
    assert owners.select(A) is None


def test_the_rig_shows_what_leaves_once() -> None:
    """What a worker got is told once, whole entries by number and slices by number and indexes."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.join("c2", 10)
    rig.entries(A, 1)
    rig.mixed(2, A, B, A)
    assert rig.got("c1") == [1, (2, (0, 2))]
    assert rig.got("c1") == []
    assert rig.got("c2") == [(2, (1,))]
    assert rig.ack("c1", 1)
    assert rig.acked_upstream() == [1]
