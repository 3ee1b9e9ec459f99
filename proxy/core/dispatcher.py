"""The only owner of a Key_Shared subscription's state: which message goes to which worker, and when.

A pure value: every method takes plain arguments and `now` (monotonic seconds) and leaves what is to be sent in the
outboxes of the workers in `touched`, what is to be acknowledged in `outstanding.acks`. The caller empties both in the
same loop turn, so nothing waits for a timer (G6).

The rule, whole: a slot's messages go out in topic order to its *target*. The target is the slot's owner (selector),
unless another worker still holds messages of the slot; then there is none and the slot waits (it *drains*, PIP-379).
Three tables follow from it: `slots` (holder and pending count), each worker's `ready` queue (what has it as target
and waits for its permits, in topic order), and `blocked` (what has no target, in topic order, per slot). Every event
touches what it concerns and nothing else: an ack that frees a slot gives what is blocked of it to its owner; a FLOW
serves that worker's ready queue; a join or leave queues waiting messages again and marks slots in flight inside the
ranges that moved.

A policy per key (`key_policy`) adds two reasons for a slot to have no target: its window is full, or it waits for a
retry. Under one, batches are cut by slot as they come, and a slot's messages that are beyond its window stand in
`blocked` behind those that its worker may have.

It is one owner in four layers: `dispatcher_tables`, `targets`, `serving`, and on top of them this file, what comes
from the broker and from workers. Membership lives in `membership`, acknowledgement in `acknowledgement`, both as
functions of this state, and no other module writes it.

Specifications: PIP-379 (draining hashes), PIP-282 (join positions), design sections 1 and 3.
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

from proxy.core import join_gates, kept_back
from proxy.core.dispatcher_tables import HandOver, OrderingMode
from proxy.core.entry import PART_BYTES, Batch, Part
from proxy.core.outstanding import ALL_KEPT_BACK, size_of
from proxy.core.recall import recalled
from proxy.core.serving import Serving
from proxy.core.spilling import fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.hash_ranges import HashRange
    from proxy.core.transactions import Held
    from proxy.core.worker import Worker

__all__ = ["Dispatcher", "HandOver", "OrderingMode"]


class Dispatcher(Serving):
    """State of one (topic partition, subscription), and all that happens to it."""

    __slots__ = ()

    # ---- entries from the broker ------------------------------------------------------------------------------

    def receive(self, position: int, slot: int, count: int, tail: bytes, redeliveries: int, now: float) -> None:
        """An entry whose messages all belong to one slot."""
        outstanding = self.outstanding
        if position <= outstanding.highest and self._repeats(position, slot, count, tail, redeliveries, now):
            return
        part = Part(position, slot, count, tail, redeliveries, now)
        outstanding.add(position, part, len(tail) + PART_BYTES)
        if self.gated:
            join_gates.came(self.gated, position)
        if slot not in self.blocked and (self.direct or (not self.window and self._may_pass(slot))):
            owner = self.select(slot)
            if (
                owner is not None
                and owner.open
                and owner.permits >= count
                and not owner.ready
                and owner.join_gate is None
            ):
                leased = self.leases is None or self.leases.allows(slot, now)
                if leased and (not self.ordered or self.slots.take(slot, owner.index, count)):
                    part.holder = owner
                    # `_post`, in place: the calls cost more than what they do.
                    part.sent_at = now
                    part.attempts = 1
                    owner.permits -= count
                    owner.unacked += count
                    owner.sent_messages += count
                    owner.sent_bytes += len(tail)
                    owner.last_sent_at = now
                    if owner.max_unacked and owner.unacked >= owner.max_unacked:
                        owner.over_unacked = True
                        owner.open = False
                    owner.pending[position] = part
                    if owner.outbox:
                        owner.outbox.append(part)
                    else:
                        self._to_outbox(owner, part)
                    return
        if position < outstanding.highest:
            self._wait_late(part, now)
        else:
            self._wait(part, now)

    def _may_pass(self, slot: int) -> bool:
        """Whether what comes of a slot that is not blocked may leave without having been queued, beside a policy.

        One without a window has nothing against it, unless the slot is parked, or what was parked is redriven, or
        there are attempts of an earlier life.
        """
        return not (self.paused or slot in self.diversions.held or self.diversions.knows_some)

    def _repeats(self, position: int, slot: int, count: int, tail: bytes, redeliveries: int, now: float) -> bool:
        """Whether an entry was here before; then what it brings is taken."""
        outstanding = self.outstanding
        if outstanding.bits_kept_back(position):
            self.offered(position, None, now)
            self.receive_part(Part(position, slot, count, tail, redeliveries, now), now)
            return True
        if not outstanding.is_repeat(position, redeliveries):
            return False
        self.offered(position, None, now)
        fill(self, position, tail, now)
        return True

    def offered(self, position: int, indexes: Sequence[int] | None, now: float) -> None:
        """An entry that is not plain has come, with these of its messages, or with all if None: `receive_part` follows.

        Not always at once: it may have to be opened first. What it tells of transactions, it tells of those before it
        came, and meanwhile a worker may have acknowledged some of it in another.
        """
        if position in self.in_transaction:
            self.in_transaction.offered_again(self, position, indexes, now)

    def receive_part(self, part: Part, now: float, kept_back_bits: int = 0) -> None:
        """An entry that is not plain: opaque, a chunk, or without the messages that the broker keeps back.

        See `offered`, and `kept_back`.
        """
        outstanding = self.outstanding
        position = part.position
        if position <= outstanding.highest:
            left = outstanding.left_since(position, part.received_at)
            rest = not left or kept_back.leave_out(part, left)
            kept_back_bits |= left
            before = outstanding.bits_kept_back(position)
            news = kept_back.news_of(part, before, kept_back_bits) if before else 0
            if news and position not in outstanding.entries:
                outstanding.reopen(position)
                kept_back.reduce_to(part, news)
                kept_back_bits &= before
                outstanding.keep_back(position, 0)
                if part.batch is not None and before != ALL_KEPT_BACK:  # the others, which a broker may have forgotten
                    outstanding.index_acks[position] = part.batch
            elif outstanding.is_repeat(position, part.redeliveries) or not rest:
                fill(self, position, part.tail, now)
                if news:
                    outstanding.keep_back(position, before & kept_back_bits)
                    self._wait_late(kept_back.join(outstanding, part, news), now)
                return
        if kept_back_bits and part.divisible:
            outstanding.keep_back(position, kept_back_bits)
        entry = part.batch or part
        outstanding.add(position, entry, size_of(entry))
        if self.gated:
            join_gates.came(self.gated, position)
        if part.chunk is not None and self.diversions.follows(part):
            self.diversions.add(part)
        if position < outstanding.highest:
            self._wait_late(part, now)
        else:
            self._wait(part, now)

    def receive_nothing(self, position: int, kept_back_bits: int) -> None:
        """An entry of which nothing is to be delivered; the broker keeps these of its messages back."""
        if position not in self.outstanding.entries:
            self.outstanding.acknowledge_but(position, kept_back_bits)

    def receive_batch(self, batch: Batch, now: float, kept_back_bits: int = 0) -> None:
        """An entry whose messages may belong to several slots, in one part, as `mixed_batch` makes it."""
        part = batch.parts[0]
        if not part.divisible:
            # It goes to the owner of its first message with all its messages, also those acknowledged in an earlier
            # life: see `cutting.forget_acked`.
            part.slots = part.indexes = None
            part.count = batch.total
        self.receive_part(part, now, kept_back_bits)

    def _wait(self, part: Part, now: float) -> None:
        """Something new waits, if only until this call ends."""
        self.waiting_messages += part.count
        found = part.distinct_slots() if self.draining.count and self.ordered else ()
        if self.diversions.knows_some:
            self._place_known(part, now)
        elif part.slots is None:
            self.place((part,), now)
        else:
            self._place_batch(part, now)
        if found:
            for slot in found:
                if slot in self.draining and slot in self.blocked:
                    self.blocked[slot].blocked_attempts += 1

    def _place_known(self, part: Part, now: float) -> None:
        """As `place`, of something new of which something may be known: it is redriven, or of an earlier life."""
        diversions = self.diversions
        if part.position in diversions.fed:
            diversions.make_way(part, now)
        self.place(recalled(self, part), now)

    def _wait_late(self, part: Part, now: float) -> None:
        """As `_wait`, of what is older than what may be blocked of its slots: the new head may be able to go."""
        slots = [slot for slot in part.distinct_slots() if slot in self.blocked]
        self._wait(part, now)
        self.settle(slots, now)

    # ---- permits ----------------------------------------------------------------------------------------------

    def flow(self, worker: Worker, permits: int, now: float) -> None:
        """The worker granted `permits` more messages."""
        worker.permits += permits
        worker.last_flow_at = now
        if worker.ready or self.chunked:
            self.serve(worker, now)

    def set_writable(self, worker: Worker, writable: bool, now: float) -> None:  # noqa: FBT001 - one bit of news
        """The worker's socket filled up or emptied."""
        worker.writable = writable
        if worker.reconsider() or (writable and self.chunked):
            self.serve(worker, now)

    def set_drained(self, worker: Worker, drained: bool, now: float) -> None:  # noqa: FBT001 - one bit of news
        """An operator keeps new messages from the worker, or lets them again."""
        worker.drained_by_operator = drained
        if worker.reconsider():
            self.serve(worker, now)

    def pause(self) -> None:
        """Deliver nothing until `resume`."""
        self.paused = True
        self._set_direct()

    def resume(self, now: float) -> None:
        """Undo `pause`."""
        self.paused = False
        self._set_direct()
        self.settle_waiting(now)
        self.serve_begun(now)

    # ---- freed slots ------------------------------------------------------------------------------------------

    def release(self, part: Part, holder: Worker, now: float) -> list[int]:
        """What is unacknowledged of the part is pending no more at its holder; see `release_messages`."""
        part.holder = None
        indexes = part.unacked_indexes() if part.slots is not None else range(part.remaining)
        return self.release_messages(part, indexes, holder, now)

    def release_messages(self, part: Part, indexes: Sequence[int], holder: Worker, now: float) -> list[int]:
        """These messages of the part are pending no more; returns the slots that are free now and were blocked.

        With a window, also those that have room now. Messages of one slot are only counted.

        The caller settles them.
        """
        if not self.ordered:
            return []
        if part.slots is None:
            if self.slots.release(part.slot, len(indexes)) and not self.window:
                return []
            slots: Iterable[int] = (part.slot,)
        else:
            self.slots.release_each(part.slots_of(indexes))
            if not self.draining.count and not self.blocked:
                return []
            slots = dict.fromkeys(part.slots_of(indexes))
        free: list[int] = []
        for slot in slots:
            if not self.slots.holder(slot):
                if slot in self.draining:
                    self.end_drain(slot, holder, now)
                if slot in self.blocked:
                    free.append(slot)
            elif self.window and slot in self.blocked:
                free.append(slot)
        return free

    def holder_at(self, index: int) -> Worker:
        """The worker that holds slots under this index: it is here, or has left in the middle of a transaction."""
        return self.workers.get(index) or self.in_transaction.departed[index]

    def release_held(self, held: Held, now: float) -> list[int]:
        """The slots of what is held in a transaction do not wait for it any more; as `release_messages`."""
        if held.released:
            return []
        self.in_transaction.release(held)
        worker = held.worker
        free = self.release(held.part, worker, now)
        worker.held_in_transactions -= 1
        if not worker.held_in_transactions and self.in_transaction.departed.pop(worker.index, None) is not None:
            heappush(self.free_indexes, worker.index)
        return free

    def drain_ended(self, holder: Worker) -> None:
        """One slot of the holder drains no more: nothing of it is pending, or it belongs to the holder again."""
        holder.draining_slots -= 1
        holder.draining_cleared += 1
        self.draining_cleared_total += 1

    def end_drain(self, slot: int, holder: Worker, now: float) -> None:
        """Nothing of the slot is pending at its former owner any more."""
        cause = self.draining.end(slot)
        assert cause is not None
        self.drain_ended(holder)
        owner = self.select(slot)
        entry = self.blocked.get(slot)
        waiting = 0
        if entry is not None:
            waiting = sum(part.count for part in entry.parts)
            entry.blocked_attempts = 0
            self.unblocking.hold(slot, now)
        self.hand_over_duration.observe(now - cause.at)
        self.hand_overs.append(HandOver(slot, holder.name, owner.name if owner else None, cause, now, waiting))

    def block(self, slots: HashRange, now: float) -> None:
        """Block these slots for all workers: their waiting messages are queued again. Each entry is in them whole."""
        moved: list[Part] = []
        for worker in self.workers.values():
            if any(slots.start <= part.slot <= slots.end for part in worker.ready):
                moved += self._misplaced(worker)
        self.place(moved, now)

    @property
    def due_at(self) -> float | None:
        """When `unblock` is to be called; None if nothing waits for a time."""
        interval, retry = self.unblocking.due_at, self.retries.due_at
        return retry if interval is None else interval if retry is None else min(interval, retry)

    def unblock(self, now: float) -> None:
        """Release the slots that came free within the interval, if that is over, and those whose retry is due."""
        self.settle(self.unblocking.release(now), now)
        if self.retries.held:
            self.settle(self.retries.release(now), now)
            self.serve_begun(now)

    def hold_for_retry(self, part: Part, now: float) -> None:
        """A worker gave the part back, which waits again: its slots wait as long as the policy says."""
        delay_s = self.policy.retry_after_s(part.redeliveries)
        self.retries.messages_total += part.count
        for slot in part.distinct_slots():
            self.retries.hold(slot, now + delay_s)
