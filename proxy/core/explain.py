"""Why does a hash slot's next message wait?

What the dispatcher decided is asked of it (`Dispatcher.wait_reason`) and not decided again; what is added here is who
keeps it so, and with which deliveries. Everything is read at one moment and nothing is changed.

Why not keep these answers ready: they are asked for by people, and would cost every message. Cost of asking: what waits
in the slot and for its owner, and at most one worker's pending acks, walked until the slot's own are found. For a join
position (PIP-282) also the entries outstanding, for a chunked message what waits in its slot. Never all workers'
pending acks.

Specifications: PIP-379 (draining hashes), PIP-282 (join positions), design section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core import join_gates
from proxy.core.ack_lease import lease_end
from proxy.core.blocking import before_gate, oldest_of, parts_at, pending_of
from proxy.core.entry import Part, topic_order
from proxy.core.positions import format_position
from proxy.core.sticky_key import RANGE_SLOT_COUNT
from proxy.core.waiting import WaitReason
from proxy.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from proxy.core.blocking import BlockingDelivery, PendingOfSlot
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.verdict import Verdict
    from proxy.core.worker import JoinGate, Worker


class SlotState(Enum):
    """What a slot's next message does: a `WaitReason`, or one of two states in which nothing waits for a reason."""

    FLOWING = "flowing"
    """Nothing waits, or what does could go at once."""
    UPSTREAM_BEHIND = "upstream_behind"
    """Nothing of the slot is here, and the broker has a backlog that was not read yet."""
    NO_OWNER = WaitReason.NO_OWNER.value
    EXCLUDED = WaitReason.EXCLUDED.value
    QUARANTINED = WaitReason.QUARANTINED.value
    DRAINING = WaitReason.DRAINING.value
    IN_TRANSACTION = WaitReason.IN_TRANSACTION.value
    UNBLOCKING_INTERVAL = WaitReason.UNBLOCKING_INTERVAL.value
    WINDOW_FULL = WaitReason.WINDOW_FULL.value
    RETRY_WAIT = WaitReason.RETRY_WAIT.value
    DEAD_LETTER = WaitReason.DEAD_LETTER.value
    PARKED = WaitReason.PARKED.value
    """Also while nothing waits: the slot's next message goes to the parking topic."""
    BEYOND_SHARE = WaitReason.BEYOND_SHARE.value
    NO_PERMITS = WaitReason.NO_PERMITS.value
    NOT_READING = WaitReason.NOT_READING.value
    UNACKED_LIMIT = WaitReason.UNACKED_LIMIT.value
    JOIN_POSITION = WaitReason.JOIN_POSITION.value
    DRAINED_BY_OPERATOR = WaitReason.DRAINED_BY_OPERATOR.value
    NO_LEASE = WaitReason.NO_LEASE.value
    """Also while nothing waits: the slot's next message comes to another replica, and is not told of here."""
    PAUSED = WaitReason.PAUSED.value


@dataclass(frozen=True, slots=True)
class WaitingHead:
    """The first message, or batch of messages, that waits in the slot."""

    position: str
    """``ledger:entry``."""
    messages: int
    age_s: float
    """Since the broker sent it to us."""
    attempts: int
    """How often it was sent to a worker."""
    redeliveries: int


@dataclass(frozen=True, slots=True)
class SlotExplanation:
    """A slot at one moment. Ages are in seconds."""

    slot: int
    owner: str | None
    holder: str | None
    """The worker with unacknowledged messages of the slot; None if there is none, and in unordered mode, with several.
    """
    state: SlotState
    waiting_messages: int
    waiting_age_s: float | None
    """Since what has waited longest of the slot came, or came back from a worker; None if nothing waits."""
    pending_acks: int
    """Deliveries with messages of the slot, at the holder; without order, at the worker that is next to get some."""
    unacked_messages: int
    """The slot's messages in them that are not acknowledged."""
    head: WaitingHead | None
    """None if nothing waits."""
    join_position: str | None
    """PIP-282: what must be acknowledged first, up to and with it, where the state is `JOIN_POSITION`."""
    join_position_entries: int
    """Entries at or below the join position that are not acknowledged, 0 in any other state."""
    blocking: tuple[BlockingDelivery, ...]
    """What must go first, at most `BLOCKING_LISTED_MAX`: before a join position in topic order, else as sent."""
    released_in_s: float | None
    """Until it is released, where the state is `UNBLOCKING_INTERVAL` or `RETRY_WAIT`."""
    ack_lease_ends_in_s: float | None
    """Until the holder loses the slot and all else that it has, unless it acts; None where no ack lease runs."""
    unblocks: str
    """One sentence: who must do what."""
    verdict: Verdict | None = None
    """Who causes it, and what helps; None where it was not asked for."""


class _Findings(NamedTuple):
    """Why a slot's head waits, or its next message would, and what that hangs on."""

    reason: WaitReason | None
    slot: int
    owner: Worker | None
    taker: Worker | None
    """Who holds the slot; else who would get its next message."""
    pending: PendingOfSlot
    """Of the slot, at the taker."""
    gate: JoinGate | None
    """The owner's, if that is the reason."""
    gate_entries: int
    """How many keep it shut."""
    blocking: tuple[BlockingDelivery, ...]
    unfinished: str
    """What a chunked message wants that the blocking worker has begun: it cannot acknowledge it before. Or nothing."""
    lease_left_s: float | None
    """Until the taker loses what it holds, if it holds some and an ack lease runs."""
    awaited: str
    """What must happen, if the reason is one that no worker and no operator ends. Or nothing."""


_TIMED: Final = frozenset({WaitReason.UNBLOCKING_INTERVAL, WaitReason.RETRY_WAIT})
"""Reasons that end by themselves."""
_JOINING: Final[dict[WaitReason | None, str]] = {
    WaitReason.EXCLUDED: "join or be readmitted by an operator",
    WaitReason.QUARANTINED: "join, or come out of its quarantine,",
}
"""What a worker must do where a slot has no owner."""


def explain_slot(dispatcher: Dispatcher, slot: int, now: float, *, upstream_backlog: bool = False) -> SlotExplanation:
    """Say whether the slot flows, or what its next message waits for. Changes nothing.

    `now` is in seconds, on the clock of the dispatcher's other calls. `upstream_backlog` tells that the broker has
    entries of the subscription that were not sent to us: a slot of which nothing is here may then be behind
    (`SlotState.UPSTREAM_BEHIND`).

    Raises:
        ValueError: there is no such slot.
    """
    if not 0 <= slot < RANGE_SLOT_COUNT:
        raise ValueError(f"not a hash slot: {slot}; expected 0 to {RANGE_SLOT_COUNT - 1}")
    waiting = dispatcher.waiting_in(slot)
    # Where nothing waits, the reason is that of a message yet to come: the sentence tells of it, the state does not.
    head = waiting[0] if waiting else Part(dispatcher.outstanding.highest + 1, slot, 1, b"", 0, now)
    found = _find(dispatcher, slot, head, now)
    gate = found.gate if waiting else None
    state = _state(found, waits=bool(waiting), upstream_backlog=upstream_backlog)
    holder_index = dispatcher.slots.holder(slot)
    holder = dispatcher.holder_at(holder_index) if holder_index else None
    return SlotExplanation(
        slot=slot,
        owner=found.owner.name if found.owner is not None else None,
        holder=holder.name if holder is not None else None,
        state=state,
        waiting_messages=sum(part.unacked_of(slot) for part in waiting),
        waiting_age_s=now - min(part.waits_since for part in waiting) if waiting else None,
        pending_acks=found.pending.deliveries,
        unacked_messages=found.pending.messages,
        head=_shown_head(head, slot, now) if waiting else None,
        join_position=format_position(gate.position) if gate is not None else None,
        join_position_entries=found.gate_entries if gate is not None else 0,
        blocking=found.blocking if waiting else (),
        released_in_s=_released_in_s(dispatcher, slot, now) if waiting and found.reason in _TIMED else None,
        ack_lease_ends_in_s=_lease_left_s(dispatcher, holder, now),
        unblocks=_sentence(found) if waiting else _sentence_for_next(state, found),
    )


def _find(dispatcher: Dispatcher, slot: int, head: Part, now: float) -> _Findings:
    reason = dispatcher.wait_reason(slot, head, now)
    owner = dispatcher.select(slot)
    taker = dispatcher.workers.get(dispatcher.slots.holder(slot)) or owner
    if not dispatcher.ordered:
        # Order among messages is not asked for, but who has begun a chunked message gets the rest of it.
        taker = dispatcher.chunked.needed_by(head) or owner
    pending = pending_of(dispatcher, slot, taker, now)
    gate = owner.join_gate if owner is not None and reason is WaitReason.JOIN_POSITION else None
    gate_entries = join_gates.outstanding_up_to(dispatcher.gated, gate) if gate is not None else 0
    blocking: tuple[BlockingDelivery, ...] = ()
    unfinished = ""
    if gate is not None:
        blocking = before_gate(dispatcher, gate_entries, now)
        unfinished = _unfinished_before_gate(dispatcher)
    elif reason in {WaitReason.DRAINING, WaitReason.WINDOW_FULL} and taker is not None:
        blocking = pending.oldest
        unfinished = _unfinished(dispatcher, taker, (slot,))
    elif reason in {WaitReason.UNACKED_LIMIT, WaitReason.NO_PERMITS} and taker is not None:
        blocking = oldest_of(taker, now)
        unfinished = _unfinished(dispatcher, taker, dispatcher.chunked.slots_of(taker))
    awaited = _awaited(dispatcher, reason, slot, taker, now)
    lease_left_s = _lease_left_s(dispatcher, taker, now)
    return _Findings(
        reason, slot, owner, taker, pending, gate, gate_entries, blocking, unfinished, lease_left_s, awaited
    )


def _awaited(dispatcher: Dispatcher, reason: WaitReason | None, slot: int, taker: Worker | None, now: float) -> str:
    """What must happen, if no worker and no operator ends it; or nothing."""
    if reason is WaitReason.NO_LEASE:
        return _lease_wanted(dispatcher, slot)
    if reason is WaitReason.DEAD_LETTER:
        return _receipt_wanted(dispatcher, slot)
    if reason is WaitReason.IN_TRANSACTION:
        messages = counted(dispatcher.in_transaction.count_of(slot), "message")
        name = dispatcher.holder_at(dispatcher.slots.holder(slot)).name
        return f"the transaction must end in which {name} acknowledged {messages} of the slot"
    if reason is WaitReason.PARKED:
        return _redrive_wanted(dispatcher, slot)
    if reason is WaitReason.BEYOND_SHARE:
        return "the broker must send it again, which it was asked for: it lay beyond its share of the look-ahead"
    if reason in _TIMED and taker is not None:
        then = "the interval ends" if reason is WaitReason.UNBLOCKING_INTERVAL else "the delay of its retry ends"
        return f"nothing: it goes to {taker.name} in {_released_in_s(dispatcher, slot, now):.3f} s, when {then}"
    return ""


def _state(found: _Findings, *, waits: bool, upstream_backlog: bool) -> SlotState:
    if waits or found.reason in {WaitReason.NO_LEASE, WaitReason.PARKED}:
        return SlotState(found.reason.value) if found.reason is not None else SlotState.FLOWING
    behind = upstream_backlog and not found.pending.deliveries
    return SlotState.UPSTREAM_BEHIND if behind else SlotState.FLOWING


def _shown_head(head: Part, slot: int, now: float) -> WaitingHead:
    return WaitingHead(
        position=format_position(head.position),
        messages=head.unacked_of(slot),
        age_s=now - head.received_at,
        attempts=head.attempts,
        redeliveries=head.redeliveries,
    )


# ---- chunked messages that cannot be acknowledged yet ---------------------------------------------------------


def _unfinished_before_gate(dispatcher: Dispatcher) -> str:
    """For the oldest entry, which is the one the sentence names."""
    oldest = parts_at(dispatcher, min(dispatcher.outstanding.entries))[0]
    worker = None if oldest.holder is None else dispatcher.workers.get(oldest.holder.index)
    return "" if worker is None else _unfinished(dispatcher, worker, (oldest.slot,))


def _unfinished(dispatcher: Dispatcher, worker: Worker, slots: Collection[int]) -> str:
    """What the worker lacks to finish a chunked message that it has begun in one of the slots; empty if nothing."""
    chunked = dispatcher.chunked
    begun = {slot for slot in slots if slot in chunked.slots_of(worker)} if chunked else set()
    if not begun:
        return ""
    if not any(part.slot in begun and chunked.needed_by(part) is worker for part in dispatcher.waiting_parts()):
        return f"; the rest of a chunked message that {worker.name} has begun has not come from the broker yet"
    if not worker.writable:
        return f"; {worker.name} must read its socket to get the rest of a chunked message that it has begun"
    if worker.permits <= 0:
        permits = counted(1 - worker.permits, "permit")
        return f"; {worker.name} must grant at least {permits} to get the rest of a chunked message that it has begun"
    return ""


# ---- what must happen -----------------------------------------------------------------------------------------


def _sentence(found: _Findings) -> str:
    """Who must do what."""
    owner, taker = found.owner, found.taker
    if found.reason is WaitReason.PAUSED:
        return "an operator must resume the subscription, unless the gateway is shutting down"
    if found.awaited:
        return found.awaited
    if found.reason is WaitReason.NO_OWNER or owner is None or taker is None:
        how = _JOINING.get(found.reason, "join")
        return f"a worker must {how} that covers slot {found.slot}"
    match found.reason:
        case WaitReason.JOIN_POSITION:
            return _sentence_for_gate(owner, found)
        case WaitReason.DRAINING | WaitReason.WINDOW_FULL:
            return _sentence_for_drain(taker, found)
        case WaitReason.NO_PERMITS:
            return f"{taker.name} must grant at least {counted(1 - taker.permits, 'permit')}"
        case WaitReason.NOT_READING:
            return f"{taker.name} must read its socket"
        case WaitReason.UNACKED_LIMIT:
            return _sentence_for_limit(taker, found)
        case WaitReason.DRAINED_BY_OPERATOR:
            return f"an operator must let {taker.name} have new messages again, or {taker.name} must leave"
        case _:
            return f"nothing: it goes to {taker.name} at once"


def _released_in_s(dispatcher: Dispatcher, slot: int, now: float) -> float:
    due_at = dispatcher.unblocking.due_at if slot in dispatcher.unblocking.held else dispatcher.retries.held[slot]
    assert due_at is not None
    return max(0.0, due_at - now)


def _receipt_wanted(dispatcher: Dispatcher, slot: int) -> str:
    """Of the first message on its way."""
    diversions = dispatcher.diversions
    first = min(diversions.held[slot].values(), key=topic_order)
    trouble = f"; it does not: {diversions.trouble}" if diversions.trouble else ""
    tries = counted(first.attempts_used, "attempt")
    return f"the dead letter topic must take {format_position(first.position)}, which had {tries}{trouble}"


def _lease_left_s(dispatcher: Dispatcher, worker: Worker | None, now: float) -> float | None:
    end = None if worker is None else lease_end(dispatcher, worker)
    return None if end is None else max(0.0, end - now)


def _redrive_wanted(dispatcher: Dispatcher, slot: int) -> str:
    diversions = dispatcher.diversions
    if slot in diversions.taken_out:
        trouble = f"; the parking topic has a trouble: {diversions.trouble}" if diversions.trouble else ""
        return f"what is parked of the slot must be acknowledged first: it is being redriven, or dropped{trouble}"
    trouble = f"; the parking topic does not take it: {diversions.trouble}" if diversions.trouble else ""
    return f"an operator must redrive or drop what is parked of the slot; this goes behind it{trouble}"


def _lease_wanted(dispatcher: Dispatcher, slot: int) -> str:
    leases = dispatcher.leases
    assert leases is not None
    stream = leases.stream_of(slot)
    start, end = leases.range_of(stream)
    if leases.is_open(stream):
        return f"the group's leader must renew this replica's lease of stream {stream} (slots {start} to {end})"
    return f"the group's leader must lease stream {stream} (slots {start} to {end}) to this replica"


def _sentence_for_gate(owner: Worker, found: _Findings) -> str:
    assert found.gate is not None
    return (
        f"{counted(found.gate_entries, 'entry', 'entries')} up to {format_position(found.gate.position)}, the "
        f"join position of {owner.name}, must be acknowledged{_the_oldest(found.blocking)}{found.unfinished}"
    )


def _sentence_for_drain(holder: Worker, found: _Findings) -> str:
    unread = "" if holder.writable else f"{holder.name} must read its socket, and then "
    messages = counted(found.pending.messages, "message")
    if found.reason is WaitReason.WINDOW_FULL:
        messages = f"one of {messages}"  # as many as its window has room for
    return (
        f"{unread}{holder.name} must acknowledge or give back {messages} of the slot, or leave"
        f"{_the_oldest(found.blocking)}{found.unfinished}{_else_taken_away(found)}"
    )


def _else_taken_away(found: _Findings) -> str:
    if found.lease_left_s is None:
        return ""
    return f"; else it loses them in {found.lease_left_s:.1f} s, unless it extends its ack lease"


def _sentence_for_limit(worker: Worker, found: _Findings) -> str:
    above = worker.unacked - worker.max_unacked // 2
    return (
        f"{worker.name} must acknowledge or give back {above} of its {counted(worker.unacked, 'message')} "
        f"(its limit is {worker.max_unacked}){_the_oldest(found.blocking)}{found.unfinished}"
        f"{_else_taken_away(found)}"
    )


def _sentence_for_next(state: SlotState, found: _Findings) -> str:
    """Of a message that is not here."""
    if state is SlotState.UPSTREAM_BEHIND:
        opening = "the gateway must read on in the broker's backlog, where the slot's next message may lie"
    else:
        opening = "nothing waits"
    if found.reason is None:
        return opening
    return f"{opening}; before a next message can go, {_sentence(found)}"


def _the_oldest(blocking: Sequence[BlockingDelivery]) -> str:
    if not blocking:
        return ""
    first = blocking[0]
    if first.holder is None or first.sent_age_s is None:
        return f", the oldest {first.position}, which waits itself in slot {first.slot}"
    return f", the oldest {first.position} sent {first.sent_age_s:.1f} s ago to {first.holder}"
