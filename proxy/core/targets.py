"""Whom a waiting message may go to, and why it may not: the second layer of the dispatcher, see `dispatcher_tables`.

A slot's messages go to its *target*: the slot's owner (selector), unless another worker still holds messages of the
slot, or a policy, a lease or an interval holds the slot back; then there is none. What has no target stands in
`blocked`. `wait_reason` tells the same in words, so the two stand together.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from proxy.core.cutting import batch_of, split
from proxy.core.dispatcher_tables import DispatcherTables
from proxy.core.entry import PART_BYTES, Part
from proxy.core.waiting import BLOCKED_SLOT_BYTES, BlockedSlot, WaitReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.worker import Worker


MAX_MESSAGES: Final = 1 << 62
"""More than there are of any slot."""


class Targets(DispatcherTables):
    """The tables, and who may get what."""

    __slots__ = ()

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
            if slot in self.unblocking.held or (slot in self.diversions.held and self.diversions.holds(slot, head)):
                return None
            if self.by_slot and (slot in self.retries.held or self._room(slot) <= 0):
                return None
        elif head.chunk is not None and self.needed_by(head) not in {None, owner}:
            # Order among messages is not asked for, but a message's own pieces stay together.
            return None
        return owner

    def _room(self, slot: int) -> int:
        """Messages of the slot that its worker may have besides those it has."""
        return self.window - self.slots.count(slot) if self.window else MAX_MESSAGES

    def _fits(self, part: Part, room: int) -> bool:
        """Whether some of the part may go where its slot has this room."""
        return room > 0 and (part.count <= room or part.divisible or room == self.window)

    def needed_by(self, part: Part) -> Worker | None:
        """Who needs the part, a chunk, to finish a message of which it holds the beginning, and may have it.

        The message was begun before what its slot waits for came back (a retry, a dead letter, a key that is parked),
        like all else that the worker has of the slot. Without its rest it would be lost: clients acknowledge what they
        have of a message that does not become whole in time.
        """
        worker = self.chunked.needed_by(part)
        if worker is None or (self.leases is not None and not self.leases.covers(part.slot)):
            return None
        if self.ordered and self.slots.holder(part.slot) != worker.index:
            return None
        if self.chunked.is_returned(part):
            waits = part.slot in self.retries.held or self.diversions.holds(part.slot, part)
        else:
            waits = self.diversions.has(part)
        return None if waits else worker

    # ---- blocked slots ----------------------------------------------------------------------------------------

    def _blocked_slot(self, slot: int) -> BlockedSlot:
        """The slot's queue, made if there is none: the caller puts something into it."""
        entry = self.blocked.get(slot)
        if entry is None:
            entry = self.blocked[slot] = BlockedSlot()
            self.outstanding.bytes_held += BLOCKED_SLOT_BYTES
        if slot in self.diversions.parked:
            self.diversions.dirty[slot] = None
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

    def full_windows(self) -> int:
        """Slots of which messages wait for their window. Looks at every blocked slot."""
        if not self.window:
            return 0
        return sum(not self._fits(entry.parts[0], self._room(slot)) for slot, entry in self.blocked.items())

    # ---- reasons ----------------------------------------------------------------------------------------------

    def wait_reason(self, slot: int, head: Part, now: float) -> WaitReason | None:
        """Why the slot's head does not move; None if it could. The one place that tells."""
        if self.paused:
            return WaitReason.PAUSED
        if self.leases is not None and not self.leases.allows(slot, now):
            return WaitReason.NO_LEASE
        owner = self.select(slot)
        if owner is None:
            return self._why_without_owner()
        begun = self.needed_by(head)
        gate = owner.join_gate
        if begun is None and gate is not None and head.position > gate.position and not head.foreign:
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
        if target.permits <= 0:
            return WaitReason.NO_PERMITS
        return WaitReason.BEYOND_SHARE if self._lacks(head) else None

    def _why_without_owner(self) -> WaitReason:
        if self.quarantined:
            return WaitReason.QUARANTINED
        return WaitReason.EXCLUDED if self.excluded else WaitReason.NO_OWNER

    def _why_without_target(self, slot: int, owner: Worker) -> WaitReason:
        if slot in self.diversions.held:
            return WaitReason.PARKED if slot in self.diversions.parked else WaitReason.DEAD_LETTER
        if slot in self.unblocking.held:
            return WaitReason.UNBLOCKING_INTERVAL
        if 0 < self.in_transaction.count_of(slot) == self.slots.count(slot):
            return WaitReason.IN_TRANSACTION
        if self.slots.holder(slot) not in {0, owner.index} or not self.by_slot:
            return WaitReason.DRAINING
        return WaitReason.RETRY_WAIT if slot in self.retries.held else WaitReason.WINDOW_FULL
