"""Joins and leaves of workers: moved slots, draining slots and waiting messages.

Functions of a dispatcher's state. A join or leave changes who owns which slots, and nothing else; draining follows
from it. Two things must happen in the same turn: everything that waits of slots whose owner changed stands in its new
owner's ready queue (a lazy move on the old owner's next grant would lose the wake-up of an idle new owner), and every
slot in flight inside the ranges that moved is marked as draining, or as returned to its owner.

Specifications: PIP-379 rules 1, 4 and 6; PIP-282 for the join position.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from proxy.core import join_gates
from proxy.core.acknowledgement import forget_limit, take_back
from proxy.core.attempts import tried_by
from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.draining_hashes import Change
from proxy.core.errors import ConsumerAssignError
from proxy.core.last_sent_position import last_sent_position
from proxy.core.slots import MAX_HOLDER, SLOT_COUNT
from proxy.core.worker import sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.entry import Part
    from proxy.core.hash_ranges import RangeMove
    from proxy.core.worker import Worker


class Changes:
    """Workers that join and leave at one moment, one after another; what waits is settled once, by `settle`.

    Between the first change and `settle` nothing may be sent: messages wait in the ready queues of owners of before.
    Why not settle each: what waits may be tens of thousands of messages, and so may be those who come.
    """

    __slots__ = ("_changed", "_dispatcher", "_last_sent", "_returned", "now")

    def __init__(self, dispatcher: Dispatcher, now: float) -> None:
        """Nothing has changed."""
        self._dispatcher = dispatcher
        self.now = now
        """The moment of all of them."""
        self._last_sent: int | None = None
        """The join position, computed once while no worker leaves."""
        self._changed = bytearray(SLOT_COUNT)
        """1 for each slot that went from one owner to another."""
        self._returned: list[Part] = []
        """What waited for those who left, or was pending at them."""

    def join(self, worker: Worker) -> list[RangeMove[Worker]]:
        """The worker takes its share of the slots.

        Raises:
            ConsumerAssignError: the selector or the slots' table has no place for it; nothing changed.
        """
        dispatcher = self._dispatcher
        if self._returned:  # it counts for the join position
            self.settle()
        _check_index(dispatcher)
        moves = dispatcher.selector.add(worker)
        others = bool(dispatcher.workers)
        worker.index = _take_index(dispatcher)
        worker.joined_at = self.now
        dispatcher.workers[worker.index] = worker
        if others:
            if self._last_sent is None:
                self._last_sent = _join_position(dispatcher)
            if self._last_sent is not None:
                self._gate(worker, self._last_sent)
        self._move(moves, Change(self.now, worker.name, joined=True))
        return moves

    def leave(self, worker: Worker, *, closed: bool = False) -> list[RangeMove[Worker]]:
        """The worker is gone: its slots go to others, its unacknowledged messages wait for them at their places.

        `closed` if its consumer was closed in good order, see `attempts`. Once more changes nothing: a close and a
        lost connection may both tell of it.
        """
        dispatcher = self._dispatcher
        if dispatcher.workers.get(worker.index) is not worker:
            return []
        self._last_sent = None
        moves = dispatcher.selector.remove(worker)
        del dispatcher.workers[worker.index]
        if worker.held_in_transactions:
            dispatcher.in_transaction.departed[worker.index] = worker
        else:
            heapq.heappush(dispatcher.free_indexes, worker.index)
        self._returned += worker.ready
        worker.ready.clear()
        join_gates.remove(dispatcher.gated, worker)
        tried = tried_by(worker, closed=closed)
        units = list(worker.pending.values())
        worker.pending.clear()
        self._returned += take_back(dispatcher, worker, units, self.now, tried=tried)
        dispatcher.departed = sum_of((dispatcher.departed, worker.totals))
        worker.outbox.clear()
        dispatcher.chunked.forget_worker(worker)
        assert worker.unacked == 0
        assert worker.draining_slots == 0 or worker.held_in_transactions
        self._move(moves, Change(self.now, worker.name, joined=False))
        return moves

    def settle(self) -> None:
        """Put what waits where it belongs now, and send what may go."""
        returned, self._returned = self._returned, []
        self._dispatcher.settle_waiting(self.now, returned, self._changed)
        self._changed = bytearray(SLOT_COUNT)

    def _move(self, moves: Sequence[RangeMove[Worker]], change: Change) -> None:
        self._take_unsent()
        changed = self._changed
        for move in moves:
            changed[move.start : move.end + 1] = b"\1" * (move.end - move.start + 1)
        _move(self._dispatcher, moves, change)

    def _take_unsent(self) -> None:
        """Take back what lies in the outbox of a worker that does not read and has lost slots of it.

        It was never sent, but would keep those slots from their new owner for as long as that one does not read. All of
        the outbox is returned, so that nothing in it overtakes the messages that wait again.
        """
        dispatcher = self._dispatcher
        for worker in dispatcher.touched:
            if worker.outbox and not worker.writable and any(_lost(dispatcher, worker, part) for part in worker.outbox):
                units = [part for part in worker.outbox if worker.pending.pop(part.key, None) is not None]
                self._returned += take_back(dispatcher, worker, units, self.now)
                forget_limit(worker)  # it may have nothing left whose ack would do so
                self._last_sent = None

    def _gate(self, worker: Worker, last_sent: int) -> None:
        """Note the join position, and in its own mode hold the worker to it (PIP-282)."""
        dispatcher = self._dispatcher
        worker.last_sent_position_when_joining = last_sent
        if dispatcher.mode is OrderingMode.LAST_SENT_POSITION:
            join_gates.add(dispatcher.gated, worker, last_sent, dispatcher.outstanding.entries)


def join(dispatcher: Dispatcher, worker: Worker, now: float) -> list[RangeMove[Worker]]:
    """Let one worker join; see `Changes.join`."""
    changes = Changes(dispatcher, now)
    moves = changes.join(worker)
    changes.settle()
    return moves


def leave(dispatcher: Dispatcher, worker: Worker, now: float, *, closed: bool = False) -> list[RangeMove[Worker]]:
    """Let one worker leave; see `Changes.leave`."""
    changes = Changes(dispatcher, now)
    moves = changes.leave(worker, closed=closed)
    changes.settle()
    return moves


def _join_position(dispatcher: Dispatcher) -> int | None:
    # Of each queue, which is in topic order, the first will do: many thousand messages may wait.
    firsts = (next((part for part in queue if not part.attempts), None) for queue in dispatcher.waiting_queues())
    return last_sent_position(dispatcher.outstanding.highest, (part.position for part in firsts if part is not None))


def _lost(dispatcher: Dispatcher, worker: Worker, part: Part) -> bool:
    """Whether the part has a slot that is not the worker's any more."""
    return any(dispatcher.select(slot) is not worker for slot in part.unacked_slots())


def _indexes_taken(dispatcher: Dispatcher) -> int:
    return len(dispatcher.workers) + len(dispatcher.in_transaction.departed)


def _check_index(dispatcher: Dispatcher) -> None:
    """Raise `ConsumerAssignError` if no index is free: one who comes and goes may leave transactions without end."""
    if _indexes_taken(dispatcher) >= MAX_HOLDER:
        message = f"{MAX_HOLDER} workers are here, or have left transactions open; try again when some have ended"
        raise ConsumerAssignError(message)


def _take_index(dispatcher: Dispatcher) -> int:
    """Give the lowest free index; 0 means no holder."""
    free = dispatcher.free_indexes
    index = heapq.heappop(free) if free else _indexes_taken(dispatcher) + 1
    assert index <= MAX_HOLDER, "more workers on one subscription than a slot's holder can name"
    return index


def _move(dispatcher: Dispatcher, moves: Iterable[RangeMove[Worker]], cause: Change) -> None:
    """Mark what drains, and what ceased to because it returned to its owner."""
    if not dispatcher.ordered:
        return
    draining = dispatcher.draining
    change = draining.new_change(cause)
    for move in moves:
        owner = move.after.index if move.after is not None else 0
        held: dict[int, list[int]] = {}
        for slot, holder, _ in dispatcher.slots.in_range(move.start, move.end):
            slots = held.get(holder)
            if slots is None:
                held[holder] = [slot]
            else:
                slots.append(slot)
        for slot in held.pop(owner, ()):
            if draining.end(slot) is not None:
                dispatcher.drain_ended(dispatcher.workers[owner])
        for holder, slots in held.items():
            dispatcher.holder_at(holder).draining_slots += draining.begin(slots, change)
    draining.end_of_change(change)
