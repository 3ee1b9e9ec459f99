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

Why topic order and not slot by slot in turns: all that a worker was to get of earlier entries has left when its part
of a batch comes to the head, so the part leaves whole, and a batch leaves in as many pieces as it has takers. No slot
starves: behind any message stand only later ones.

Longer than most files because it is the one owner: membership lives in `membership`, acknowledgement in
`acknowledgement`, both as functions of this state, and no other module writes it.

Specifications: PIP-379 (draining hashes), PIP-282 (join positions), design sections 1 and 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final

from proxy.core.chunked import ChunkedMessages
from proxy.core.delivery_totals import DeliveryTotals
from proxy.core.draining_hashes import Change, DrainingHashes
from proxy.core.entry import PART_BYTES, Batch, Part, batch_of, cut, join, may_join, slice_key, split
from proxy.core.histogram import Histogram
from proxy.core.key_policy import NO_POLICY, KeyPolicy, RetryWaits
from proxy.core.outstanding import Outstanding, size_of
from proxy.core.slots import SlotTable
from proxy.core.unblocking import Unblocking
from proxy.core.waiting import BLOCKED_SLOT_BYTES, BlockedSlot, WaitReason, insert_all

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable, Iterator, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.hash_ranges import HashRange
    from proxy.core.selectors.base import Selector
    from proxy.core.stream_leases import StreamLeases
    from proxy.core.worker import Worker


MAX_MESSAGES: Final = 1 << 62
"""More than there are of any slot."""


class OrderingMode(Enum):
    """What a subscription promises when keys move between workers."""

    DRAINING_HASHES = "draining_hashes"
    """PIP-379: only the slots in flight wait, each until its old holder is done with it."""
    LAST_SENT_POSITION = "last_sent_position"
    """PIP-282: besides, a worker that joined waits for everything that was sent before it came."""
    UNORDERED = "unordered"
    """allowOutOfOrderDelivery: a key's messages go to its owner at once, regardless of holders of earlier ones."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A slot went from one worker to another after it had drained."""

    slot: int
    holder: str
    owner: str | None
    cause: Change
    """What made it drain."""
    ended_at: float
    waiting_messages: int

    @property
    def began_at(self) -> float:
        """When it began to drain."""
        return self.cause.at


class Dispatcher:
    """State of one (topic partition, subscription)."""

    def __init__(
        self,
        selector: Selector[Worker],
        mode: OrderingMode = OrderingMode.DRAINING_HASHES,
        leases: StreamLeases | None = None,
        unblocking_interval_s: float = 0.0,
        key_policy: KeyPolicy = NO_POLICY,
    ) -> None:
        """A subscription without workers; `selector` must be empty.

        `leases` tells which slots may be delivered, and until when; None where no other replica has a part in it.
        `unblocking_interval_s` above 0: slots that have drained are released together, see `unblocking`.
        `key_policy` is of no effect without order.
        """
        self.selector = selector
        self.leases = leases
        self.mode = mode
        self.ordered = mode is not OrderingMode.UNORDERED
        self.select = selector.select
        self.workers: dict[int, Worker] = {}
        """By index, in join order."""
        self.free_indexes: list[int] = []
        """A heap of the indexes below the highest that no worker has."""
        self.outstanding = Outstanding()
        self.slots = SlotTable()
        self.draining = DrainingHashes()
        self.unblocking = Unblocking(unblocking_interval_s)
        self.retries = RetryWaits()
        self.blocked: dict[int, BlockedSlot] = {}
        """Slots of which something waits that no worker may have now."""
        self.waiting_messages = 0
        self.chunked = ChunkedMessages()
        self.touched: list[Worker] = []
        """Workers with something in their outbox, each of them: one whose socket is full stays in it."""
        self.gated: list[Worker] = []
        """Workers with a join gate, in join order."""
        self.excluded = 0
        """Workers that an operator keeps from taking part."""
        self.paused = False
        self.set_policy(key_policy)
        self.hand_overs: list[HandOver] = []
        self.endings: list[Ending] | None = None
        """The endings of deliveries, for the caller to take; None if they are not recorded."""
        self.comebacks: list[tuple[str, int]] = []
        """Workers and how many messages came back from them, for the caller to take."""
        self.draining_cleared_total = 0
        self.opaque_overshoots = 0
        """Deliveries larger than the permits because the entry could not be cut."""
        self.window_overshoots = 0
        """Deliveries larger than the key's window for the same reason."""
        self.departed = DeliveryTotals()
        """Counts of the workers that have left."""
        self.ack_latency = Histogram()
        """From each delivery to the ack of its last message."""
        self.hand_over_duration = Histogram()
        """From a membership change until the former holder of a slot that moved had nothing of it left."""
        self.blocked_time = Histogram()
        """How long what could not leave at once waited, for each delivery."""

    def set_policy(self, policy: KeyPolicy) -> None:
        """Set the policy; what waits is the caller's to place anew, see `policy_change`."""
        self.policy = policy if self.ordered else NO_POLICY
        self.window = self.policy.window
        self.by_slot = not self.policy.neutral
        """Whether each delivery is to be of one slot."""
        self._set_direct()

    def _set_direct(self) -> None:
        self.direct = not self.paused and not self.by_slot
        """Whether what comes may leave without having been queued."""

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
        if slot not in self.blocked and self.direct:
            owner = self.select(slot)
            if (
                owner is not None
                and owner.open
                and owner.permits >= count
                and not owner.ready
                and owner.join_gate is None
            ):
                holder = self.slots.holder(slot) if self.ordered else 0
                if (not holder or holder == owner.index) and (self.leases is None or self.leases.allows(slot, now)):
                    if self.ordered:
                        self.slots.hold(slot, owner.index, count)
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
        """An entry that is not plain: opaque, a chunk, or partly acknowledged in an earlier run."""
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
        """An entry whose messages may belong to several slots, in one part, as `mixed_batch` makes it."""
        part = batch.parts[0]
        if not part.divisible:
            # It goes to the owner of its first message with all its messages, also those acknowledged in an earlier
            # life: see `entry.forget_acked`.
            part.slots = part.indexes = None
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
        self._set_direct()

    def resume(self, now: float) -> None:
        """Undo `pause`."""
        self.paused = False
        self._set_direct()
        self.settle_waiting(now)
        self.serve_begun(now)

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
        """Something new waits, if only until this call ends."""
        self.waiting_messages += part.count
        found = dict.fromkeys(part.message_slots()) if self.draining.count and self.ordered else {}
        if part.slots is None:
            self.place((part,), now)
        else:
            self._place_batch(part, now)
        for slot in found:
            if slot in self.draining and slot in self.blocked:
                self.blocked[slot].blocked_attempts += 1

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
                needed_by = self._needed_by(part)
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
            ):
                insert_all(target.ready, (piece,))
                self.serve(target, now)
            else:
                self._leave_queue(piece, now)
                self._send(target, piece, now)

    def by_target(self, part: Part, *, ahead: bool = False) -> Iterable[tuple[Worker | None, Part]]:
        """The part in pieces: one for each worker that may get it, one for each slot that is blocked.

        `ahead` as for `place`.
        """
        if self.by_slot and part.count > 1 and part.divisible and (part.attempts or part.slots is not None):
            groups = self._by_slot(part, ahead=ahead)
        elif part.slots is None or part.count == 1 or not part.divisible:
            slot = part.slot
            return ((self._target(slot, part) if ahead or slot not in self.blocked else None, part),)
        else:
            groups = self._by_owner(part) or self._by_slot_target(part, ahead=ahead)
        pieces = split(part, [tuple(indexes) for _, indexes in groups])
        self.outstanding.grew(PART_BYTES * (len(pieces) - 1))
        return [(target, piece) for (target, _), piece in zip(groups, pieces, strict=True)]

    def _by_owner(self, part: Part) -> Sequence[tuple[Worker | None, list[int]]]:
        """The indexes of a batch's messages by target while no slot drains: who holds a slot owns it.

        Nothing where that is not all: a slot drains or is blocked, or has no owner or lease. All slots of an entry are
        in one stream.
        """
        if self.draining.count or self.blocked or (self.leases is not None and not self.leases.covers(part.slot)):
            return ()
        groups: defaultdict[Worker | None, list[int]] = defaultdict(list)
        owners = self.selector.select_each(part.message_slots())
        for index, owner in zip(part.message_indexes(), owners, strict=True):
            groups[owner].append(index)
        return () if None in groups else list(groups.items())

    def _by_slot(self, part: Part, *, ahead: bool) -> Sequence[tuple[Worker | None, list[int]]]:
        """The same under a policy: a group for each slot, or for each message of what a worker had already.

        For what was joined before there was a policy may stand around messages that were sent more often, and parts
        that go one by one may not.
        """
        groups: dict[int, tuple[Worker | None, list[int]]] = {}
        for index, slot in zip(part.message_indexes(), part.message_slots(), strict=True):
            group = index if part.attempts else slot
            if group in groups:
                groups[group][1].append(index)
            else:
                target = self._target(slot, part) if ahead or slot not in self.blocked else None
                groups[group] = (target, [index])
        if part.batch is None:
            self.outstanding.replace(part.position, batch_of(part))
        return list(groups.values())

    def _by_slot_target(self, part: Part, *, ahead: bool) -> Sequence[tuple[Worker | None, list[int]]]:
        """The same at any time: slots that are blocked have each a group of their own."""
        groups: dict[int, tuple[Worker | None, list[int]]] = {}
        for index, slot in zip(part.message_indexes(), part.message_slots(), strict=True):
            target = self._target(slot, part) if ahead or slot not in self.blocked else None
            group = target.index if target is not None else -slot
            if group in groups:
                groups[group][1].append(index)
            else:
                groups[group] = (target, [index])
        return list(groups.values())

    def _blocked_slot(self, slot: int) -> BlockedSlot:
        """The slot's queue, made if there is none: the caller puts something into it."""
        entry = self.blocked.get(slot)
        if entry is None:
            entry = self.blocked[slot] = BlockedSlot()
            self.outstanding.bytes_held += BLOCKED_SLOT_BYTES
        return entry

    def forget_blocked(self, slot: int) -> None:
        """Nothing of the slot is blocked any more."""
        entry = self.blocked.pop(slot)
        assert not entry.parts, "a slot was forgotten while messages of it wait"
        self.outstanding.bytes_held -= BLOCKED_SLOT_BYTES
        if self.unblocking.held:
            self.unblocking.forget(slot)
        if self.retries.held:
            self.retries.forget(slot)

    def _target(self, slot: int, head: Part) -> Worker | None:
        """Who may get the slot's head now or before long; None while it drains or is held, or has no owner or lease.

        Or its window is full.

        What concerns a worker as a whole is not asked here but where something is sent: permits, its join gate, that
        leases have run out, `paused`.
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
            if self.by_slot and (slot in self.retries.held or self._room(slot) <= 0):
                return None
        elif head.chunk is not None and self._needed_by(head) not in {None, owner}:
            # Order among messages is not asked for, but a message's own pieces stay together.
            return None
        return owner

    def _room(self, slot: int) -> int:
        """Messages of the slot that its worker may have besides those it has."""
        return self.window - self.slots.count(slot) if self.window else MAX_MESSAGES

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
        freed: list[Part] = []
        room = self._room(slot)
        while entry.parts and self._fits(entry.parts[0], room) and self._target(slot, entry.parts[0]) is not None:
            freed.append(entry.parts.popleft())
            room -= freed[-1].count
        if not entry.parts:
            self.forget_blocked(slot)
        return freed

    def settle_waiting(self, now: float, returned: Iterable[Part] = (), changed: Sequence[int] | None = None) -> None:
        """Queue all waiting and `returned` messages again, and serve all workers.

        After a change of membership, or a pause. `changed` has a 1 for each slot whose owner may be another, None for
        all of them.
        """
        moved = list(returned)
        for worker in self.workers.values():
            moved += self._misplaced(worker, changed)
        if self.by_slot:
            # What is blocked of a slot may be freed in part only, and not before what comes back of it.
            self.place(moved, now)
            moved = []
        for slot in list(self.blocked):
            moved += self._unblock(slot)
        self.place(moved, now, ahead=self.by_slot)
        for worker in self.workers.values():
            if worker.ready:
                self.serve(worker, now)

    def _misplaced(self, worker: Worker, changed: Sequence[int] | None = None) -> list[Part]:
        """Take out of a worker's ready queue what it may not have, or not all of it; `changed` as above."""
        kept: list[Part] = []
        moved: list[Part] = []
        for part in worker.ready:
            slots = (part.slot,) if part.slots is None else tuple(part.message_slots())
            if changed is not None and part.chunk is None and not any(map(changed.__getitem__, slots)):
                kept.append(part)
                continue
            belongs = all(self._target(slot, part) is worker for slot in slots)
            (kept if belongs else moved).append(part)
        if moved:
            worker.ready.clear()
            worker.ready.extend(kept)
        return moved

    def block(self, slots: HashRange, now: float) -> None:
        """Block these slots for all workers: their waiting messages are queued again. Each entry is in them whole."""
        moved: list[Part] = []
        for worker in self.workers.values():
            if any(slots.start <= part.slot <= slots.end for part in worker.ready):
                moved += self._misplaced(worker)
        self.place(moved, now)

    def waiting_queues(self) -> Iterator[Iterable[Part]]:
        """All that waits: each queue in topic order."""
        for worker in self.workers.values():
            yield worker.ready
        for entry in self.blocked.values():
            yield entry.parts

    def waiting_parts(self) -> Iterator[Part]:
        """All that waits, in no order."""
        return chain.from_iterable(self.waiting_queues())

    def waiting_in(self, slot: int) -> list[Part]:
        """Parts that wait with messages of the slot, in topic order. Walks what waits for the slot's owner."""
        entry = self.blocked.get(slot)
        owner = self.select(slot)
        own = [part for part in owner.ready if part.unacked_of(slot)] if owner is not None else []
        return [*own, *entry.parts] if entry is not None else own

    def waiting_by_slot(self) -> Counter[int]:
        """How many messages of each slot wait."""
        slots: Counter[int] = Counter()
        for part in self.waiting_parts():
            slots.update(part.message_slots())
        return slots

    # ---- sending ----------------------------------------------------------------------------------------------

    def serve(self, worker: Worker, now: float) -> None:
        """Send from the worker's ready queue while it has permits."""
        if self.leases is not None and self.leases.lapsed(now):
            return
        ready = worker.ready
        while ready and worker.open and worker.permits > 0 and not self.paused:
            gate = worker.join_gate
            if gate is not None and ready[0].position > gate.position:
                break
            part = ready.popleft()
            if self.by_slot or (ready and ready[0].position == part.position):
                taken = self._within_window(worker, part) if self.by_slot else self._with_siblings(part, ready)
                if taken is None:
                    continue
                part = taken
            if part.chunk is not None and not self.ordered and self._needed_by(part) not in {None, worker}:
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
            self._finish_begun(worker, now)

    def _within_window(self, worker: Worker, part: Part) -> Part | None:
        """As much of the former head as its slot's window has room for; the rest waits until there is more.

        An entry that only goes whole goes when nothing of its slot is at the worker.
        """
        slot = part.slot
        if part.chunk is not None and self._needed_by(part) is worker:
            return part
        blocked = self.blocked.get(slot)
        if blocked is not None and blocked.parts[0].order < part.order:
            insert_all(blocked.parts, (part,))
            freed = self._unblock(slot)
            if freed:  # it came when this stood here already: brokers send again what they have forgotten
                insert_all(worker.ready, freed)
            return None
        room = 0 if slot in self.retries.held else self._room(slot)
        if not self._fits(part, room):
            insert_all(self._blocked_slot(slot).parts, (part,))
            return None
        if part.count <= room:
            return part
        if not part.divisible:
            self.window_overshoots += 1
            return part
        head = self._cut(part, room)
        insert_all(self._blocked_slot(slot).parts, (part,))
        return head

    def _fits(self, part: Part, room: int) -> bool:
        """Whether some of the part may go where its slot has this room."""
        return room > 0 and (part.count <= room or part.divisible or room == self.window)

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
            if ahead < part.count:
                head = self._cut(part, ahead)
                insert_all(ready, (part,))
                part = head
            break
        return part

    def _leave_queue(self, part: Part, now: float) -> None:
        """What left in the moment it came passed through and did not wait."""
        self.waiting_messages -= part.count
        if now > part.waits_since:
            self.blocked_time.observe(now - part.waits_since)

    def _finish_begun(self, worker: Worker, now: float) -> None:
        """Send the rest of chunked messages that the worker has begun, before other waiting messages: see `chunked`."""
        for slot in self.chunked.slots_of(worker):
            blocked = self.blocked.get(slot)
            queues = (worker.ready, blocked.parts) if blocked is not None else (worker.ready,)
            for queue in queues:
                for part in [part for part in queue if part.slot == slot and self._needed_by(part) is worker]:
                    if worker.permits > 0 and self._needed_by(part) is worker:
                        queue.remove(part)
                        self._leave_queue(part, now)
                        self._send(worker, part, now)
            if blocked is not None:
                if not blocked.parts:
                    self.forget_blocked(slot)
                else:
                    self.settle((slot,), now)

    def _needed_by(self, part: Part) -> Worker | None:
        """Who needs the part, a chunk, to finish a message of which it holds the beginning, and may have it."""
        if self.leases is not None and not self.leases.covers(part.slot):
            return None
        if part.slot in self.retries.held:
            return None
        worker = self.chunked.needed_by(part)
        if worker is None or not self.ordered or self.slots.holder(part.slot) == worker.index:
            return worker
        return None

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

    # ---- freed slots ------------------------------------------------------------------------------------------

    def release(self, part: Part, holder: Worker, now: float) -> list[int]:
        """What is unacknowledged of the part is pending no more at its holder; see `release_messages`."""
        part.holder = None
        return self.release_messages(part, part.unacked_indexes(), holder, now)

    def release_messages(self, part: Part, indexes: Sequence[int], holder: Worker, now: float) -> list[int]:
        """These messages of the part are pending no more; returns the slots that are free now and were blocked.

        With a window, also those that have room now.

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

    def serve_begun(self, now: float) -> None:
        """The rest of chunked messages passes the ready queues: see `chunked`."""
        for worker in self.chunked.workers():
            self.serve(worker, now)

    def hold_for_retry(self, part: Part, now: float) -> None:
        """A worker gave the part back, which waits again: its slots wait as long as the policy says."""
        delay_s = self.policy.retry_after_s(part.redeliveries)
        self.retries.messages_total += part.count
        for slot in dict.fromkeys(part.message_slots()):
            self.retries.hold(slot, now + delay_s)

    def wait_reason(self, slot: int, head: Part, now: float) -> WaitReason | None:
        """Why the slot's head does not move; None if it could. The one place that tells."""
        if self.paused:
            return WaitReason.PAUSED
        if self.leases is not None and not self.leases.allows(slot, now):
            return WaitReason.NO_LEASE
        owner = self.select(slot)
        if owner is None:
            return WaitReason.EXCLUDED if self.excluded else WaitReason.NO_OWNER
        begun = self._needed_by(head)
        gate = owner.join_gate
        if begun is None and gate is not None and head.position > gate.position:
            return WaitReason.JOIN_POSITION
        target = begun or self._target(slot, head)
        if target is None or (begun is None and not self._fits(head, self._room(slot))):
            return self._why_without_target(slot, owner)
        if target.drained_by_operator and begun is None:
            return WaitReason.DRAINED_BY_OPERATOR
        if not target.writable:
            return WaitReason.NOT_READING
        if target.over_unacked and begun is None:
            return WaitReason.UNACKED_LIMIT
        return WaitReason.NO_PERMITS if target.permits <= 0 else None

    def full_windows(self) -> int:
        """Slots of which messages wait for their window. Looks at every blocked slot."""
        if not self.window:
            return 0
        return sum(not self._fits(entry.parts[0], self._room(slot)) for slot, entry in self.blocked.items())

    def _why_without_target(self, slot: int, owner: Worker) -> WaitReason:
        if slot in self.unblocking.held:
            return WaitReason.UNBLOCKING_INTERVAL
        if self.slots.holder(slot) not in {0, owner.index} or not self.by_slot:
            return WaitReason.DRAINING
        return WaitReason.RETRY_WAIT if slot in self.retries.held else WaitReason.WINDOW_FULL
