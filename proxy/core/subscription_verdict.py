"""What is wrong with a subscription: the most urgent trouble that is true, see `verdict`."""

from __future__ import annotations

from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from proxy.core.verdict import (
    BEHIND_S,
    LONG_S,
    Verdict,
    dead_letters_wait,
    more_workers,
    not_delivering,
    of_worker,
    quarantined,
    starving,
    waits,
    without_owner,
)
from proxy.core.waiting import WaitReason
from proxy.core.words import counted, lasting
from proxy.core.worker_health import STOPPED, Urgency, WorkerState

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.verdict import Surroundings
    from proxy.core.worker import Worker
    from proxy.core.worker_health import Checkup

IDLE_S: Final = 10.0
"""Without a delivery or an ack for so long, nothing is to be delivered: at one instant nothing often is."""
QUEUES_ASKED_MAX: Final = 16
"""Queues, those of which something has waited longest, that are asked why it waits."""
_STATES_THEN: Final = (WorkerState.SLOW, WorkerState.UNACKED_LIMIT, WorkerState.DRAINED_BY_OPERATOR)
_SINCE: Final = attrgetter("waits_since")
_WAITS_WHERE: Final = {
    WaitReason.WINDOW_FULL: "its worker has as many messages of it as key_window allows",
    WaitReason.RETRY_WAIT: "its retry is not due yet (retry_delay_ms)",
    WaitReason.IN_TRANSACTION: "a transaction in which its messages were acknowledged has not ended",
    WaitReason.JOIN_POSITION: "its worker has joined and waits for what was sent before (PIP-282)",
    WaitReason.UNBLOCKING_INTERVAL: "the unblocking interval has not ended",
    WaitReason.BEYOND_SHARE: "the broker must send its messages again",
    WaitReason.NO_LEASE: "this replica has no lease for it",
}
"""Of a hash slot, for which more workers would not help."""
_TOLD_ELSEWHERE: Final = frozenset(
    {
        WaitReason.NO_OWNER,
        WaitReason.EXCLUDED,
        WaitReason.QUARANTINED,
        WaitReason.DRAINING,
        WaitReason.DEAD_LETTER,
        WaitReason.PARKED,
        WaitReason.NOT_READING,
        WaitReason.UNACKED_LIMIT,
        WaitReason.DRAINED_BY_OPERATOR,
    }
)


def subscription_verdict(dispatcher: Dispatcher, checkup: Checkup, around: Surroundings, now: float) -> Verdict:
    """Judge a whole subscription: the most urgent that is true, and of these the first."""
    verdict = not_delivering(dispatcher, around, now)
    if verdict is not None:
        return verdict
    found = [
        starving(dispatcher, checkup, around),
        *(_of_workers(dispatcher, checkup, around, state) for state in STOPPED),
        _without_owner(dispatcher, checkup, around),
        dead_letters_wait(dispatcher, around),
        *(_of_workers(dispatcher, checkup, around, state) for state in _STATES_THEN),
        quarantined(dispatcher, around) if dispatcher.quarantined else None,
        _parked(dispatcher, around),
        _handing_over(dispatcher, around, now),
        _falling_behind(dispatcher, around, now),
        _of_workers(dispatcher, checkup, around, WorkerState.OLD_MESSAGE),
    ]
    troubles = [each for each in found if each is not None]
    return max(troubles, key=_weight) if troubles else _calm(dispatcher, now)


def _weight(verdict: Verdict) -> int:
    return tuple(Urgency).index(verdict.urgency)


def _without_owner(dispatcher: Dispatcher, checkup: Checkup, around: Surroundings) -> Verdict | None:
    if not checkup.waiting_without_owner:
        return None
    says = f"No worker covers the hash slots of {counted(checkup.waiting_without_owner, 'message')}."
    return without_owner(dispatcher, around, says, "them", f"keyline stuck {around.target}")


def _parked(dispatcher: Dispatcher, around: Surroundings) -> Verdict | None:
    count = len(dispatcher.diversions.parked)
    if not count:
        return None
    says = f"{counted(count, 'hash slot')} {'is' if count == 1 else 'are'} parked; the others are delivered."
    advice = "Remove the cause, then redrive or drop what is parked. This lists it:"
    return Verdict("parked", Urgency.WATCH, None, says, advice, f"keyline parked {around.target}")


def _of_workers(dispatcher: Dispatcher, checkup: Checkup, around: Surroundings, state: WorkerState) -> Verdict | None:
    found = checkup.in_state(state)
    if not found:
        return None
    also = [worker.name for worker in found[1:]]
    return of_worker(dispatcher, found[0], checkup.workers[found[0]], around, also)


def _waits_since(messages: int, oldest_s: float) -> str:
    return f"{waits(messages)}, {'' if messages == 1 else 'the oldest '}for {lasting(oldest_s)}"


def _handing_over(dispatcher: Dispatcher, around: Surroundings, now: float) -> Verdict | None:
    if not dispatcher.draining.count:
        return None
    slots = counted(len(dispatcher.draining), "hash slot")
    waiting = [
        part for slot, entry in dispatcher.blocked.items() if slot in dispatcher.draining for part in entry.parts
    ]
    if not waiting:
        return Verdict("handing_over", Urgency.NONE, None, f"{slots} drain; nothing waits for them.", "", None)
    waited_s = now - min(part.waits_since for part in waiting)
    wait = _waits_since(sum(part.count for part in waiting), waited_s)
    says = f"{slots} moved to other workers and drain first; {wait}."
    urgency = Urgency.ACT if waited_s >= LONG_S else Urgency.WATCH
    return Verdict("handing_over", urgency, None, says, "", f"keyline stuck {around.target}")


def _falling_behind(dispatcher: Dispatcher, around: Surroundings, now: float) -> Verdict | None:
    oldest, reason = _oldest_to_be_told(dispatcher, now)
    if oldest is None:
        return None
    waited_s = now - oldest.waits_since
    wait = _waits_since(dispatcher.waiting_messages, waited_s)
    urgency = Urgency.ACT if waited_s >= LONG_S else Urgency.WATCH
    if reason in _WAITS_WHERE:
        says = f"{wait}: of hash slot {oldest.slot}, since {_WAITS_WHERE[reason]}."
        advice = "This lists all that wait, and why:"
        return Verdict("falling_behind", urgency, None, says, advice, f"keyline stuck {around.target}")
    says = f"{wait}: the workers ask for no more."
    return Verdict("falling_behind", urgency, None, says, *more_workers(dispatcher, around))


def _oldest_to_be_told(dispatcher: Dispatcher, now: float) -> tuple[Part | None, WaitReason | None]:
    """What has waited longest for a reason of which no other verdict tells, and why; None if nothing has for long."""
    queues = (queue for queue in dispatcher.waiting_queues() if queue)
    oldest = nsmallest(QUEUES_ASKED_MAX, (min(queue, key=_SINCE) for queue in queues), key=_SINCE)
    for part in oldest:
        if now - part.waits_since < BEHIND_S:
            break
        reason = dispatcher.wait_reason(part.slot, part, now)
        if reason not in _TOLD_ELSEWHERE:
            return part, reason
    return None, None


def _calm(dispatcher: Dispatcher, now: float) -> Verdict:
    if dispatcher.waiting_messages or any(_works(worker, now) for worker in dispatcher.workers.values()):
        says = "Workers get messages as fast as they ask for them."
        return Verdict("delivering", Urgency.NONE, None, says, "", None)
    return Verdict("idle", Urgency.NONE, None, "Nothing is to be delivered.", "", None)


def _works(worker: Worker, now: float) -> bool:
    """Whether it holds messages, or got or acknowledged one a moment ago."""
    if worker.unacked:
        return True
    return worker.sent_messages > 0 and now - max(worker.last_sent_at, worker.last_acked_at) < IDLE_S
