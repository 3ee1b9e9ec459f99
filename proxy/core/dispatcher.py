"""The only owner of a Key_Shared subscription's state: which message goes to which worker, and when.

A pure value: every method takes plain arguments and `now` (monotonic seconds) and leaves what is to be sent in the
outboxes of the workers in `touched`, what is to be acknowledged in `outstanding.acks`. The caller empties both in the
same loop turn, so nothing waits for a timer (G6).

The rule, whole: a slot's messages go out in topic order to its *target*. The target is the slot's owner (selector),
unless another worker still holds messages of the slot; then there is none and the slot waits (it *drains*, PIP-379).
Three tables follow from it: `slots` (holder and pending count), `waiting` (parts in order, per slot), and each
worker's `ready` queue (slots that only its permits hold back). Every event touches the slots it concerns and no other:
an ack that frees a slot settles that slot; a FLOW serves that worker's ready queue, one slot after the other, one
delivery each; a join or leave settles what waits and marks what is in flight inside the ranges that moved.

Longer than most files because it is the one owner: membership lives in `membership`, acknowledgement in
`acknowledgement`, both as functions of this state, and no other module writes it.

Specifications: PIP-379 (draining hashes), PIP-282 (join positions), design sections 1 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from proxy.core.chunked import ChunkedMessages
from proxy.core.delivery_totals import DeliveryTotals
from proxy.core.draining_hashes import DrainingHashes
from proxy.core.entry import PART_BYTES, Batch, Delivery, Part, cut, slice_key
from proxy.core.histogram import Histogram
from proxy.core.outstanding import Outstanding, size_of
from proxy.core.slots import SlotTable
from proxy.core.unblocking import Unblocking
from proxy.core.waiting import WAITING_SLOT_BYTES, WaitingSlot, WaitReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.selectors.base import Selector
    from proxy.core.stream_leases import StreamLeases
    from proxy.core.worker import Worker


class OrderingMode(Enum):
    """What a subscription promises when keys move between workers."""

    DRAINING_HASHES = "draining_hashes"
    """PIP-379: only the hashes in flight wait, each until its old holder is done with it."""
    LAST_SENT_POSITION = "last_sent_position"
    """PIP-282: besides, a worker that joined waits for everything that was sent before it came."""
    UNORDERED = "unordered"
    """allowOutOfOrderDelivery: a key's messages go to its owner at once, whoever holds earlier ones."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A slot went from one worker to another after it had drained."""

    slot: int
    holder: str
    owner: str | None
    began_at: float
    ended_at: float
    waiting_messages: int


class Dispatcher:
    """State of one (topic partition, subscription)."""

    def __init__(
        self,
        selector: Selector[Worker],
        mode: OrderingMode = OrderingMode.DRAINING_HASHES,
        leases: StreamLeases | None = None,
        unblocking_interval_s: float = 0.0,
    ) -> None:
        """A subscription without workers; `selector` must be empty.

        `leases` tells which slots may be delivered, and until when; None where no other replica has a part in it.
        `unblocking_interval_s` above 0: slots that have drained are released together, see `unblocking`.
        """
        self.selector = selector
        self.leases = leases
        self.mode = mode
        self.ordered = mode is not OrderingMode.UNORDERED
        self.select = selector.select
        self.workers: dict[int, Worker] = {}
        """By index, in join order."""
        self.outstanding = Outstanding()
        self.slots = SlotTable()
        self.draining = DrainingHashes()
        self.unblocking = Unblocking(unblocking_interval_s)
        self.waiting: dict[int, WaitingSlot] = {}
        self.waiting_messages = 0
        self.chunked = ChunkedMessages()
        self.touched: list[Worker] = []
        """Workers with something in their outbox."""
        self.gated: list[Worker] = []
        """Workers with a join gate, in join order."""
        self.paused = False
        self.hand_overs: list[HandOver] = []
        self.endings: list[Ending] | None = None
        """How deliveries ended, for the caller to take; None where nobody wants to know."""
        self.comebacks: list[tuple[str, int]] = []
        """Workers and how many messages came back from them, for the caller to take."""
        self.draining_cleared_total = 0
        self.opaque_overshoots = 0
        """Deliveries larger than the permits because the entry could not be cut."""
        self.departed = DeliveryTotals()
        """Counts of the workers that have left."""
        self.ack_latency = Histogram()
        """From each delivery to the ack of its last message."""
        self.hand_over_duration = Histogram()
        """From a membership change until the former holder of a slot that moved had nothing of it left."""
        self.blocked_time = Histogram()
        """How long slots had something waiting: from the first that had to wait until the last of it was sent."""

    # ---- entries from the broker ------------------------------------------------------------------------------

    def receive(self, position: int, slot: int, count: int, tail: bytes, redeliveries: int, now: float) -> None:
        """An entry whose messages all belong to one slot."""
        outstanding = self.outstanding
        if position <= outstanding.highest and outstanding.is_repeat(position, redeliveries):
            return
        part = Part(position, slot, count, tail, redeliveries, now)
        outstanding.add(position, part, len(tail) + PART_BYTES)
        if self.gated:
            self._count_behind_gates(position)
        if slot not in self.waiting and not self.paused:
            owner = self.select(slot)
            if owner is not None and owner.open and owner.permits >= count and owner.join_gate is None:
                holder = self.slots.holder(slot) if self.ordered else 0
                if (not holder or holder == owner.index) and (self.leases is None or self.leases.allows(slot, now)):
                    if self.ordered:
                        self.slots.hold(slot, owner.index)
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
        self._wait(part, now)

    def receive_part(self, part: Part, now: float) -> None:
        """An entry that is not plain: opaque, a chunk, or partly acknowledged in an earlier life."""
        outstanding = self.outstanding
        position = part.position
        if position <= outstanding.highest and outstanding.is_repeat(position, part.redeliveries):
            return
        entry = part.batch or part
        outstanding.add(position, entry, size_of(entry))
        if self.gated:
            self._count_behind_gates(position)
        self._wait(part, now)

    def receive_batch(self, batch: Batch, now: float) -> None:
        """An entry whose messages belong to several slots; `batch.parts` holds a part for each."""
        outstanding = self.outstanding
        position = batch.position
        if not batch.parts[0].divisible:
            self._receive_undivided(batch, now)
            return
        if position <= outstanding.highest and outstanding.is_repeat(position, batch.parts[0].redeliveries):
            return
        outstanding.add(position, batch, batch.bytes_held)
        if self.gated:
            self._count_behind_gates(position)
        stopped = self.paused or self.lapsed(now)
        takers: dict[int, tuple[Worker, list[Part]]] = {}
        held_back: list[Part] = []
        for part in batch.parts:
            target = None if part.slot in self.waiting else self._target(part.slot, part)
            if target is None or not target.open or target.permits <= 0 or stopped:
                held_back.append(part)
            else:
                takers.setdefault(target.index, (target, []))[1].append(part)
        for target, parts in takers.values():
            held_back += self._send_group(target, parts, now)
        for part in held_back:
            self._wait(part, now)

    def _receive_undivided(self, batch: Batch, now: float) -> None:
        """An entry that can only be delivered whole goes to the owner of its first part.

        With all its messages, also those acknowledged in an earlier life: see `entry.forget_acked`.
        """
        part = batch.parts[0]
        del batch.parts[1:]
        batch.open_parts = 1
        part.indexes = None
        part.count = batch.total
        self.receive_part(part, now)

    def _count_behind_gates(self, position: int) -> None:
        for worker in self.gated:
            gate = worker.join_gate
            if gate is not None and position <= gate.position:
                gate.outstanding += 1

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

    def resume(self, now: float) -> None:
        """Undo `pause`."""
        self.paused = False
        self.settle_waiting(now)
        for worker in self.chunked.workers():
            self.serve(worker, now)

    def lapsed(self, now: float) -> bool:
        """Whether nothing may be delivered for want of a lease that lasts."""
        return self.leases is not None and self.leases.lapsed(now)

    @property
    def draining_begun_total(self) -> int:
        """Slots that have begun to drain."""
        return len(self.draining) + self.draining_cleared_total

    def free_permits(self) -> int:
        """Messages that the workers would take at once."""
        return sum(worker.permits for worker in self.workers.values() if worker.open and worker.permits > 0)

    # ---- waiting ----------------------------------------------------------------------------------------------

    def _wait(self, part: Part, now: float) -> None:
        slot = part.slot
        entry = self.waiting_slot(slot, now)
        entry.insert(part)
        self.waiting_messages += part.count
        if self.ordered and slot in self.draining:
            entry.blocked_attempts += 1
        if entry.parts[0] is part:
            target = self._settle(slot, entry)
            if target is not None:
                self.serve(target, now)
        if part.chunk is not None:
            begun = self._needed_by(part)
            if begun is not None:
                self.serve(begun, now)

    def waiting_slot(self, slot: int, now: float) -> WaitingSlot:
        """The slot's queue, made if there is none: the caller puts something into it."""
        entry = self.waiting.get(slot)
        if entry is None:
            entry = self.waiting[slot] = WaitingSlot(now)
            self.outstanding.bytes_held += WAITING_SLOT_BYTES
        return entry

    def forget_waiting(self, slot: int) -> None:
        """Nothing of the slot waits any more."""
        entry = self.waiting.pop(slot)
        assert not entry.parts, "a slot was forgotten while messages of it wait"
        self.outstanding.bytes_held -= WAITING_SLOT_BYTES
        if self.unblocking.held:
            self.unblocking.forget(slot)
        if entry.home is not None:
            entry.home.ready.pop(slot, None)
            entry.home = None

    def _target(self, slot: int, head: Part) -> Worker | None:
        """Who may get the slot's head now, permits aside; None while it drains or is held, or has no owner or lease.

        That leases have run out is not asked here but where something is sent, like `paused`.
        """
        if self.leases is not None and not self.leases.covers(slot):
            return None
        owner = self.select(slot)
        if self.ordered:
            holder = self.slots.holder(slot)
            if holder and (owner is None or holder != owner.index):
                return None
            if slot in self.unblocking.held:
                return None
        elif head.chunk is not None and self._needed_by(head) not in {None, owner}:
            # Order among messages is not asked for, but a message's own pieces stay together.
            return None
        if owner is not None and owner.join_gate is not None and head.position > owner.join_gate.position:
            return None
        return owner

    def _settle(self, slot: int, entry: WaitingSlot) -> Worker | None:
        """Put the slot into the ready queue of its target, and out of any other's; returns the target."""
        target = self._target(slot, entry.parts[0])
        home = entry.home
        if home is not target:
            if home is not None:
                home.ready.pop(slot, None)
            entry.home = target
        if target is not None:
            target.ready[slot] = entry
        return target

    def settle_slots(self, slots: Iterable[int], now: float) -> None:
        """Settle these waiting slots and serve whom that concerns."""
        targets: dict[int, Worker] = {}
        for slot in slots:
            entry = self.waiting.get(slot)
            if entry is not None:
                target = self._settle(slot, entry)
                if target is not None:
                    targets[target.index] = target
        for target in targets.values():
            self.serve(target, now)

    def settle_waiting(self, now: float) -> None:
        """Settle everything that waits: after a pause, and after a change of membership."""
        self.settle_slots(list(self.waiting), now)

    # ---- sending ----------------------------------------------------------------------------------------------

    def serve(self, worker: Worker, now: float) -> None:
        """Send from the worker's ready queue while it has permits, one delivery a slot and round."""
        if self.leases is not None and self.leases.lapsed(now):
            return
        ready = worker.ready
        while ready and worker.open and worker.permits > 0 and not self.paused:
            slot, entry = ready.popitem(last=False)
            part = entry.parts[0]
            if part.batch is not None and part.batch.open_parts > 1:
                self._send_siblings(worker, slot, entry, now)
                continue
            size = part.count
            if size > worker.permits and part.divisible:
                head = self._cut(part, worker.permits)
                self.waiting_messages -= head.count
                self._hold_and_post(worker, head, now)
                ready[slot] = entry
                break
            entry.parts.popleft()
            self.waiting_messages -= size
            self._hold_and_post(worker, part, now)
            self._requeue(worker, slot, entry, now)
        if self.chunked and worker.permits > 0 and worker.writable and not self.paused:
            self._finish_begun(worker, now)

    def _finish_begun(self, worker: Worker, now: float) -> None:
        """Send the rest of chunked messages that the worker has begun, whatever waits before it: see `chunked`."""
        for slot in self.chunked.slots_of(worker):
            entry = self.waiting.get(slot)
            needed = [part for part in entry.parts if self._needed_by(part) is worker] if entry is not None else ()
            if entry is None or not needed:
                continue
            for part in needed:
                if worker.permits > 0 and self._needed_by(part) is worker:
                    entry.parts.remove(part)
                    self.waiting_messages -= part.count
                    self._hold_and_post(worker, part, now)
            if not entry.parts:
                self._end_wait(slot, entry, now)
            elif entry.home is None or self._target(slot, entry.parts[0]) is not entry.home:
                self.settle_slots((slot,), now)

    def _needed_by(self, part: Part) -> Worker | None:
        """Who needs the part, a chunk, to finish a message of which it holds the beginning, and may have it."""
        if self.leases is not None and not self.leases.covers(part.slot):
            return None
        worker = self.chunked.needed_by(part)
        if worker is None or not self.ordered or self.slots.holder(part.slot) == worker.index:
            return worker
        return None

    def _end_wait(self, slot: int, entry: WaitingSlot, now: float) -> None:
        """The last of what waited has left. What left in the moment it came passed through and was not blocked."""
        if now > entry.since:
            self.blocked_time.observe(now - entry.since)
        self.forget_waiting(slot)

    def _requeue(self, worker: Worker, slot: int, entry: WaitingSlot, now: float) -> None:
        """After a slot's head left: on to its next, if it has one."""
        if not entry.parts:
            self._end_wait(slot, entry, now)
        elif worker.join_gate is None and not self.chunked:
            worker.ready[slot] = entry
        else:
            # Behind a join gate, or if it is a piece of what another has begun, the next may not follow.
            self._settle(slot, entry)

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

    def _send_siblings(self, worker: Worker, slot: int, entry: WaitingSlot, now: float) -> None:
        """Send the slot's head together with all parts of its batch that could go to the worker now."""
        head = entry.parts[0]
        assert head.batch is not None
        worker.ready[slot] = entry
        group: list[Part] = []
        for part in head.batch.parts:
            place = self.waiting.get(part.slot)
            if part.holder is None and place is not None and place.parts[0] is part and place.home is worker:
                group.append(part)
        for part in group:
            place = self.waiting[part.slot]
            place.parts.popleft()
            self.waiting_messages -= part.count
            worker.ready.pop(part.slot, None)
            self._requeue(worker, part.slot, place, now)
        for part in self._send_group(worker, group, now):
            self._wait(part, now)

    def _send_group(self, worker: Worker, parts: Sequence[Part], now: float) -> list[Part]:
        """Send parts of one batch as one delivery, as many messages as permits allow; returns what is left over."""
        taken: list[Part] = []
        left: list[Part] = []
        room = worker.permits
        for part in sorted(parts, key=_by_order):
            if not room:
                left.append(part)
                continue
            fitting = part
            if part.count > room:
                fitting = self._cut(part, room)
                left.append(part)
            taken.append(fitting)
            room -= fitting.count
        if len(taken) == 1:
            self._hold_and_post(worker, taken[0], now)
        elif taken:
            self._post_delivery(worker, Delivery(taken, worker), now)
        return left

    def _post_delivery(self, worker: Worker, delivery: Delivery, now: float) -> None:
        for part in delivery.parts:
            if self.ordered:
                self.slots.hold(part.slot, worker.index)
            part.holder = worker
            part.sent_at = now
            part.attempts += 1
        delivery.sent_at = now
        delivery.attempts = max(part.attempts for part in delivery.parts)
        self._debit(worker, delivery.count, delivery.wire_bytes, now)
        assert delivery.key not in worker.pending, "the same messages are pending twice"
        worker.pending[delivery.key] = delivery
        self._to_outbox(worker, delivery)

    def _hold_and_post(self, worker: Worker, part: Part, now: float) -> None:
        if self.ordered:
            self.slots.hold(part.slot, worker.index)
        part.holder = worker
        if part.chunk is not None:
            self.chunked.sent(worker, part)
        if part.count > worker.permits:
            self.opaque_overshoots += 1
        key = part.key = slice_key(part.position, part.indexes)
        assert key not in worker.pending, "the same messages are pending twice"
        self._post(worker, part, key, part.count, part.wire_bytes, now)

    def _post(self, worker: Worker, part: Part, key: int, count: int, size: int, now: float) -> None:
        """Debit the worker and put the part into its outbox; its slot is held already."""
        part.sent_at = now
        part.attempts += 1
        self._debit(worker, count, size, now)
        worker.pending[key] = part
        self._to_outbox(worker, part)

    def _debit(self, worker: Worker, count: int, size: int, now: float) -> None:
        worker.permits -= count
        worker.unacked += count
        worker.sent_messages += count
        worker.sent_bytes += size
        worker.last_sent_at = now
        if worker.max_unacked and worker.unacked >= worker.max_unacked:
            worker.over_unacked = True
            worker.open = False

    def _to_outbox(self, worker: Worker, unit: Part | Delivery) -> None:
        if not worker.outbox:
            self.touched.append(worker)
            if not worker.first_sent_at:
                worker.first_sent_at = worker.last_sent_at
        worker.outbox.append(unit)

    def undo_post(self, worker: Worker, unit: Part | Delivery) -> None:
        """The unit was taken out of the outbox again: it used no permits. It is still pending."""
        worker.permits += unit.count
        worker.sent_messages -= unit.count
        worker.sent_bytes -= unit.wire_bytes

    def take_touched(self) -> list[Worker]:
        """Workers whose outbox is to be sent now; each outbox is the caller's to empty."""
        touched = self.touched
        self.touched = []
        return touched

    # ---- freed slots ------------------------------------------------------------------------------------------

    def release(self, part: Part, holder: Worker, now: float) -> bool:
        """The part is pending no more at its holder; True if that freed its slot."""
        part.holder = None
        if not self.ordered:
            return False
        slot = part.slot
        if self.slots.release(slot):
            return False
        if slot in self.draining:
            self.end_drain(slot, holder, now)
        return True

    def drain_ended(self, holder: Worker) -> None:
        """One slot of the holder drains no more: nothing of it is pending, or it belongs to the holder again."""
        holder.draining_slots -= 1
        holder.draining_cleared += 1
        self.draining_cleared_total += 1

    def end_drain(self, slot: int, holder: Worker, now: float) -> None:
        """Nothing of the slot is pending at its former owner any more."""
        began = self.draining.end(slot)
        assert began is not None
        self.drain_ended(holder)
        owner = self.select(slot)
        entry = self.waiting.get(slot)
        waiting = 0
        if entry is not None:
            waiting = sum(part.count for part in entry.parts)
            entry.blocked_attempts = 0
            self.unblocking.hold(slot, now)
        self.hand_over_duration.observe(now - began)
        self.hand_overs.append(HandOver(slot, holder.name, owner.name if owner else None, began, now, waiting))

    def settle_freed(self, slot: int, now: float) -> None:
        """A slot has become free: its next message goes out in this turn, unless it is held (`unblocking`)."""
        entry = self.waiting.get(slot)
        if entry is not None and entry.home is None:
            target = self._settle(slot, entry)
            if target is not None:
                self.serve(target, now)

    def unblock(self, now: float) -> None:
        """Release the slots that came free within the interval, if that is over; call it at `unblocking.due_at`."""
        self.settle_slots(self.unblocking.release(now), now)

    def wait_reason(self, slot: int, head: Part, now: float) -> WaitReason | None:
        """Why the slot's head does not move; None if it could. The one place that tells."""
        if self.paused:
            return WaitReason.PAUSED
        if self.leases is not None and not self.leases.allows(slot, now):
            return WaitReason.NO_LEASE
        owner = self.select(slot)
        if owner is None:
            return WaitReason.NO_OWNER
        begun = self._needed_by(head)
        target = begun or self._target(slot, head)
        if target is None:
            gate = owner.join_gate
            if gate is not None and head.position > gate.position:
                return WaitReason.JOIN_POSITION
            return WaitReason.UNBLOCKING_INTERVAL if slot in self.unblocking.held else WaitReason.DRAINING
        if target.drained_by_operator and begun is None:
            return WaitReason.DRAINED_BY_OPERATOR
        if not target.writable:
            return WaitReason.NOT_READING
        if target.over_unacked and begun is None:
            return WaitReason.UNACKED_LIMIT
        return WaitReason.NO_PERMITS if target.permits <= 0 else None


def _by_order(part: Part) -> tuple[int, int]:
    return part.order
