"""What waits, is placed and is sent: the third layer of the dispatcher, see `dispatcher_tables`.

Why topic order and not slot by slot in turns: all that a worker was to get of earlier entries has left when its part
of a batch comes to the head, so the part leaves whole, and a batch leaves in as many pieces as it has takers. No slot
starves: behind any message stand only later ones.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from proxy.core.cutting import cut, join, may_join
from proxy.core.delivery_key import slice_key
from proxy.core.entry import PART_BYTES, Part
from proxy.core.targets import Targets
from proxy.core.waiting import ahead_of_siblings, insert_all

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Container, Iterable, Sequence

    from proxy.core.waiting import BlockedSlot
    from proxy.core.worker import Worker

ASKED_AHEAD: Final = 64
"""Messages of a slot that has begun to move again which are asked for before they are needed."""


class Serving(Targets):
    """Queues of what waits, in topic order, and what leaves them."""

    __slots__ = ()

    def place(self, parts: Iterable[Part], now: float, *, ahead: bool = False) -> None:
        """Queue parts by their slots, each at its place, and serve the workers concerned.

        They count as waiting already. `ahead` if they were the first of what is blocked of their slots.
        """
        ready: dict[int, tuple[Worker, list[Part]]] = {}
        begun: list[Worker] = []
        for part in parts:
            for target, piece in self.by_target(part, ahead=ahead):
                if target is None:
                    insert_all(self._blocked_slot(piece.slot).parts, (piece,))
                elif target.index in ready:
                    ready[target.index][1].append(piece)
                else:
                    ready[target.index] = (target, [piece])
            if part.chunk is not None:
                needed_by = self.needed_by(part)
                begun += [needed_by] if needed_by is not None else []
        for target, pieces in ready.values():
            insert_all(target.ready, pieces)
        for target, _ in ready.values():
            self.serve(target, now)
        for target in begun:
            self.serve(target, now)

    def _place_batch(self, part: Part, now: float) -> None:
        """As `place`, for a new batch of several slots: each piece has another target, and most leave at once."""
        held_back = not self.direct or (self.leases is not None and self.leases.lapsed(now))
        for target, piece in self.by_target(part):
            if target is None:
                insert_all(self._blocked_slot(piece.slot).parts, (piece,))
            elif (
                target.ready
                or not target.open
                or target.permits < piece.count
                or target.join_gate is not None
                or held_back
                or not piece.tail  # an abort gave it back to an entry whose bytes only the broker has
            ):
                insert_all(target.ready, (piece,))
                self.serve(target, now)
            else:
                self._leave_queue(piece, now)
                self._send(target, piece, now)

    def settle(self, slots: Iterable[int], now: float) -> None:
        """What is blocked of these slots waits for its target, if it has one now, and goes out if it can."""
        freed: list[Part] = []
        for slot in slots:
            freed += self._unblock(slot)
        if freed:
            self.place(freed, now, ahead=True)

    def _unblock(self, slot: int) -> list[Part]:
        entry = self.blocked.get(slot)
        if entry is None:
            return []
        if slot in self.diversions.parked:
            self.diversions.dirty[slot] = None
        freed: list[Part] = []
        room = self._room(slot)
        spilled = self.outstanding.spill.sizes
        while entry.parts:
            head = entry.parts[0]
            if not self._fits(head, room):
                break
            target = self._target(slot, head)
            if target is None or (spilled and self._lacks(head) and self._is_awaited(head, target)):
                break
            freed.append(entry.parts.popleft())
            room -= head.count
        if not entry.parts:
            self.forget_blocked(slot)
        elif spilled and freed and self._lacks(entry.parts[0]):
            self._ask_for(entry.parts, ASKED_AHEAD)
        return freed

    def _is_awaited(self, head: Part, target: Worker) -> bool:
        """Whether a slot's head that could leave at once, had it its bytes, is asked for: others pass it meanwhile."""
        at_once = target.open and target.permits > 0 and not target.ready
        return at_once and self._ask_for((head,), head.count)

    def _ask_for(self, queue: Iterable[Part], messages: int) -> bool:
        """Have the broker asked for what it alone has of the next so many messages; False if it cannot be for all."""
        for part in queue:
            if messages <= 0:
                break
            messages -= part.count
            if self._lacks(part) and not self.outstanding.spill.ask(part.position, part.total):
                return False
        return True

    def settle_waiting(self, now: float, returned: Iterable[Part] = (), changed: Sequence[int] | None = None) -> None:
        """Queue all waiting and `returned` messages again, and serve all workers.

        After a change of membership, or a pause. `changed` has a 1 for each slot whose owner may be another, None for
        all of them.
        """
        moved = list(returned)
        for worker in self.workers.values():
            moved += self._misplaced(worker, changed)
        in_part = self.by_slot or bool(self.outstanding.spill.sizes)
        if in_part:
            # What is blocked of a slot may be freed in part only, and not before what comes back of it.
            self.place(moved, now)
            moved = []
        for slot in list(self.blocked):
            moved += self._unblock(slot)
        self.place(moved, now, ahead=in_part)
        for worker in self.workers.values():
            if worker.ready:
                self.serve(worker, now)

    def _misplaced(self, worker: Worker, changed: Sequence[int] | None = None) -> list[Part]:
        """Take out of a worker's ready queue what it may not have, or not all of it; `changed` as above."""
        kept: list[Part] = []
        moved: list[Part] = []
        for part in worker.ready:
            slots = part.distinct_slots()
            if changed is not None and part.chunk is None and not any(map(changed.__getitem__, slots)):
                kept.append(part)
                continue
            belongs = all(self._target(slot, part) is worker for slot in slots)
            (kept if belongs else moved).append(part)
        if moved:
            worker.ready.clear()
            worker.ready.extend(kept)
        return moved

    # ---- sending ----------------------------------------------------------------------------------------------

    def serve(self, worker: Worker, now: float) -> None:  # noqa: C901 - a call for each message would cost more
        """Send from the worker's ready queue while it has permits."""
        if self.leases is not None and self.leases.lapsed(now):
            return
        if self.chunked and self.blocked and worker.permits > 0 and worker.writable and not self.paused:
            self._finish_begun(worker, now, queued=False)
        ready = worker.ready
        while ready and worker.open and worker.permits > 0 and not self.paused:
            gate = worker.join_gate
            if gate is not None and ready[0].position > gate.position and not ready[0].foreign:
                break
            part = ready.popleft()
            if self.by_slot or (ready and ready[0].position == part.position):
                taken = self._within_window(worker, part) if self.by_slot else self._with_siblings(part, ready)
                if taken is None:
                    continue
                part = taken
            if not part.tail and part.position in self.outstanding.spill.sizes:
                insert_all(ready, (part,))
                self._ask_for(ready, worker.permits)
                break
            if part.chunk is not None and not self.ordered and self.needed_by(part) not in {None, worker}:
                # It is a piece of what another has begun meanwhile.
                insert_all(self._blocked_slot(part.slot).parts, (part,))
                continue
            if part.count > worker.permits and part.divisible:
                head = self._cut(part, worker.permits)
                insert_all(ready, (part,))
                part = head
            # `_leave_queue`, in place: a call for each message that leaves would cost more than it does.
            self.waiting_messages -= part.count
            if now > part.waits_since:
                self.blocked_time.observe(now - part.waits_since)
            self._send(worker, part, now)
        if self.chunked and worker.permits > 0 and worker.writable and not self.paused:
            self._finish_begun(worker, now, queued=True)

    def _within_window(self, worker: Worker, part: Part) -> Part | None:
        """As much of the former head as its slot's window has room for; the rest waits until there is more.

        An entry that only goes whole goes when nothing of its slot is at the worker.
        """
        slot = part.slot
        blocked = self.blocked.get(slot)
        needed = part.chunk is not None and self.needed_by(part) is worker
        if blocked is not None and blocked.parts[0].order < part.order:
            insert_all(blocked.parts, (part,))
            freed = self._unblock(slot)
            first = self._take_needed(worker, slot) if needed else None
            if not freed:
                return first
            # It came when this stood here already: brokers send again what they have forgotten.
            insert_all(worker.ready, freed if first is None else [*freed, first])
            return None
        if needed:
            return part
        if part.count > 1 and part.batch is not None and part.divisible:
            part = self._ahead_of_siblings(worker, part, blocked)
        room = 0 if slot in self.retries.held or self.diversions.holds(slot, part) else self._room(slot)
        if not self._fits(part, room):
            insert_all(self._blocked_slot(slot).parts, (part,))
            return None
        if part.count <= room:
            return part
        if not part.divisible:
            self.window_overshoots += not self._lacks(part)
            return part
        head = self._cut(part, room)
        insert_all(self._blocked_slot(slot).parts, (part,))
        return head

    def _ahead_of_siblings(self, worker: Worker, part: Part, blocked: BlockedSlot | None) -> Part:
        """The former head as far as nothing else that waits of its entry and slot stands between its messages.

        What a broker has forgotten of an entry comes again, between what is here of it.
        """
        ahead, ready = part.count, worker.ready
        if ready and ready[0].batch is part.batch:
            ahead = ahead_of_siblings(part, ready)
        if blocked is not None and blocked.parts[0].batch is part.batch:
            ahead = min(ahead, ahead_of_siblings(part, blocked.parts))
        return self._first_of(part, ahead, ready)

    def _take_needed(self, worker: Worker, slot: int) -> Part | None:
        """The first blocked chunk of the slot that the worker needs: it passes what is blocked."""
        blocked = self.blocked.get(slot)
        for part in () if blocked is None else blocked.parts:
            if part.chunk is not None and self.needed_by(part) is worker:
                assert blocked is not None
                blocked.parts.remove(part)
                if not blocked.parts:
                    self.forget_blocked(slot)
                return part
        return None

    def _with_siblings(self, part: Part, ready: deque[Part]) -> Part:
        """The former head, with what waits behind it of the same entry: it was taken apart when not all could go.

        What was sent more often, or less, goes alone, and before later messages of the entry: they may have its key.
        """
        while ready and ready[0].position == part.position:
            following = ready[0]
            if may_join(part, following):
                join(part, ready.popleft())
                self.outstanding.grew(-PART_BYTES)
                continue
            ahead = bisect_left(part.message_indexes(), following.message_indexes()[0])
            return self._first_of(part, ahead, ready)
        return part

    def _first_of(self, part: Part, size: int, ready: deque[Part]) -> Part:
        """The first messages of a former head; the others, if there are more, are queued again."""
        if size == part.count:
            return part
        head = self._cut(part, size)
        insert_all(ready, (part,))
        return head

    def _leave_queue(self, part: Part, now: float) -> None:
        """What left in the moment it came passed through and did not wait."""
        self.waiting_messages -= part.count
        if now > part.waits_since:
            self.blocked_time.observe(now - part.waits_since)

    def _finish_begun(self, worker: Worker, now: float, *, queued: bool) -> None:
        """Send the rest of chunked messages that the worker has begun: see `chunked`.

        Without what is `queued` for it: of what is blocked, exactly the chunks that are next. They go before the queue,
        which may never be empty. What is queued has its turn there, or comes after it if permits are left.
        """
        begun = self.chunked.slots_of(worker)
        if not begun:
            return
        ready = _chunks_by_slot(worker, begun) if queued else {}
        few, many = (begun, self.blocked) if len(begun) < len(self.blocked) else (self.blocked, begun)
        sent: dict[int, None] = {}
        for slot in [*ready, *(slot for slot in few if slot in many and slot not in ready)]:
            blocked = self.blocked.get(slot)
            waiting = [(worker.ready, part) for part in ready.get(slot, ())]
            if blocked is not None:
                waiting += [(blocked.parts, part) for part in blocked.parts if part.chunk is not None]
                waiting.sort(key=_order)  # under a window earlier ones are blocked than stand in the queue
            for queue, part in waiting:
                if worker.permits > 0 and self.needed_by(part) is worker and (queued or self.chunked.is_next(part)):
                    if self._lacks(part):
                        self._ask_for((part,), part.count)
                        break
                    queue.remove(part)
                    self._leave_queue(part, now)
                    self._send(worker, part, now)
                    sent[slot] = None
            if blocked is not None and not blocked.parts:
                self.forget_blocked(slot)
        # Only after progress: settling serves this worker again, which leads here again.
        self.settle(sent, now)

    def serve_begun(self, now: float) -> None:
        """The rest of chunked messages passes the ready queues: see `chunked`."""
        for worker in self.chunked.workers():
            self.serve(worker, now)

    def _cut(self, part: Part, size: int) -> Part:
        """Take the first `size` messages off a waiting part, and account for one part more."""
        batch = part.batch
        head = cut(part, size)
        assert head.batch is not None
        if batch is None:
            self.outstanding.replace(part.position, head.batch)
        else:
            self.outstanding.grew(PART_BYTES)
        return head

    def _send(self, worker: Worker, part: Part, now: float) -> None:
        if self.ordered:
            if part.slots is None:
                self.slots.hold(part.slot, worker.index, part.count)
            else:
                self.slots.hold_each(part.message_slots(), worker.index)
        part.holder = worker
        if part.chunk is not None:
            self.chunked.sent(worker, part)
        count = part.count
        if count > worker.permits:
            self.opaque_overshoots += 1
        indexes = part.indexes
        key = part.key = part.position if indexes is None else slice_key(part.position, indexes)
        assert key not in worker.pending, "the same messages are pending twice"
        part.sent_at = now
        part.attempts += 1
        worker.permits -= count
        worker.unacked += count
        worker.sent_messages += count
        worker.sent_bytes += len(part.tail) if indexes is None else part.wire_bytes
        worker.last_sent_at = now
        if worker.max_unacked and worker.unacked >= worker.max_unacked:
            worker.over_unacked = True
            worker.open = False
        worker.pending[key] = part
        if worker.outbox:
            worker.outbox.append(part)
        else:
            self._to_outbox(worker, part)

    def _to_outbox(self, worker: Worker, part: Part) -> None:
        """The first part in an outbox that was empty."""
        self.touched.append(worker)
        if not worker.first_sent_at:
            worker.first_sent_at = worker.last_sent_at
        worker.outbox.append(part)

    def undo_post(self, worker: Worker, part: Part) -> None:
        """The part was taken out of the outbox again: it used no permits. It is still pending."""
        worker.permits += part.count
        worker.sent_messages -= part.count
        worker.sent_bytes -= part.wire_bytes

    def take_touched(self) -> list[Worker]:
        """Workers whose outbox is to be sent now; each outbox is the caller's to empty."""
        touched = self.touched
        self.touched = []
        return touched


def _order(waiting: tuple[deque[Part], Part]) -> tuple[int, int]:
    return waiting[1].order


def _chunks_by_slot(worker: Worker, slots: Container[int]) -> dict[int, list[Part]]:
    """Chunks in the worker's queue that are of these slots: one look through it, and not one for each slot."""
    found: dict[int, list[Part]] = {}
    for part in worker.ready:
        if part.chunk is not None and part.slot in slots:
            found.setdefault(part.slot, []).append(part)
    return found
