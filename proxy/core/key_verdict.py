"""Why does this key wait? The verdict on one slot: what its explanation finds, and the health of who keeps it so.

Adding a reason to wait: give its `SlotState` a row in `SLOTS`. One without is told by its name and by the explanation's
own sentence, as something to watch.
"""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.explain import SlotExplanation, SlotState, explain_slot
from proxy.core.steps import finished
from proxy.core.verdict import (
    BEHIND_S,
    LONG_S,
    Surroundings,
    Verdict,
    dead_letters_wait,
    more_workers,
    not_delivering,
    of_worker,
    paused,
    starving,
    without_owner,
)
from proxy.core.waiting import WaitReason
from proxy.core.words import counted
from proxy.core.worker_health import Urgency, WorkerState, checkup_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker
    from proxy.core.worker_health import Checkup, WorkerHealth

BRIEF_S: Final = 10.0
"""What has waited for less is nothing to watch."""
_TROUBLED: Final = frozenset(
    {
        WorkerState.REFUSING,
        WorkerState.STOPPED_ACKNOWLEDGING,
        WorkerState.NOT_READING,
        WorkerState.SLOW,
        WorkerState.OLD_MESSAGE,
    }
)


class _Case(NamedTuple):
    """What a verdict is made of."""

    dispatcher: Dispatcher
    told: SlotExplanation
    around: Surroundings
    checkup: Checkup
    worker: Worker | None
    """Who has to do something next, by the explanation."""
    health: WorkerHealth | None
    """Its."""
    now: float

    def verdict(self, says: str, advice: str = "", command: str | None = None) -> Verdict:
        """Under the explanation's state; the longer it waits, the more urgent."""
        waited_s = self.told.waiting_age_s or 0.0
        urgency = Urgency.NONE if waited_s < BRIEF_S else Urgency.WATCH if waited_s < LONG_S else Urgency.ACT
        name = None if self.worker is None else self.worker.name
        return Verdict(self.told.state.value, urgency, name, says, advice, command)


def explained(dispatcher: Dispatcher, slot: int, now: float, around: Surroundings) -> SlotExplanation:
    """Explain a slot, with the verdict. Walks all that waits, besides what `explain_slot` walks. Raises as that."""
    told = explain_slot(dispatcher, slot, now, upstream_backlog=around.behind)
    checkup = finished(checkup_steps(dispatcher, now))
    worker = _who(dispatcher, checkup, told)
    health = None if worker is None else checkup.workers.get(worker)
    case = _Case(dispatcher, told, around, checkup, worker, health, now)
    return replace(told, verdict=SLOTS.get(told.state, _other)(case))


def _who(dispatcher: Dispatcher, checkup: Checkup, told: SlotExplanation) -> Worker | None:
    reason = None if told.state in {SlotState.FLOWING, SlotState.UPSTREAM_BEHIND} else WaitReason(told.state.value)
    return checkup.awaited(dispatcher, told.slot, reason)


def _flowing(case: _Case) -> Verdict:
    """Nothing of it waits here; its messages may be at a worker that has stopped, or cannot come."""
    if case.dispatcher.paused:
        return paused(case.around)
    if case.told.unacked_messages and case.worker is not None and case.health is not None:
        if case.health.state in _TROUBLED:
            return _troubled(case, f"Nothing of it waits, but {_unacked(case)} at {case.worker.name}. ")
        return case.verdict(f"{_unacked(case)} at {case.worker.name}; nothing else waits.")
    return (
        not_delivering(case.dispatcher, case.around, case.now)
        or starving(case.dispatcher, case.checkup, case.around)
        or _nothing_here(case)
    )


def _nothing_here(case: _Case) -> Verdict:
    if case.told.state is SlotState.UPSTREAM_BEHIND:
        return case.verdict("None of its messages is here; the broker has some that the gateway has not read yet.")
    return case.verdict("Nothing of it waits.")


def _unacked(case: _Case) -> str:
    count = case.told.unacked_messages
    return f"{counted(count, 'message')} of it {'is' if count == 1 else 'are'}"


def _troubled(case: _Case, before: str = "") -> Verdict:
    """The worker's own trouble is the cause."""
    assert case.worker is not None
    assert case.health is not None
    verdict = of_worker(case.dispatcher, case.worker, case.health, case.around)
    return replace(verdict, says=before + verdict.says)


def _at_worker(case: _Case) -> Verdict:
    """It waits for one worker: because that has a trouble, or has much to do."""
    if case.worker is None or case.health is None:
        return _other(case)
    if case.health.state in _TROUBLED or case.told.state in {SlotState.UNACKED_LIMIT, SlotState.DRAINED_BY_OPERATOR}:
        return _troubled(case)
    says = f"{case.worker.name} has as many messages as it asked for. {case.health.says}."
    if (case.told.waiting_age_s or 0.0) < BEHIND_S:
        return case.verdict(says)
    advice, command = more_workers(case.dispatcher, case.around)
    return case.verdict(says, f"It works as usual. {advice}", command)


def _window(case: _Case) -> Verdict:
    """Its owner has as many messages of it as may be at a worker at once."""
    if case.worker is None or case.health is None:
        return _other(case)
    says = f"{_unacked(case)} at {case.worker.name}, as many as key_window allows. "
    if case.health.state in _TROUBLED:
        return _troubled(case, says)
    return case.verdict(f"{says}{case.health.says}.")


def _draining(case: _Case) -> Verdict:
    """The slot moved, and its former owner has messages of it still."""
    if case.worker is None or case.health is None:
        return _other(case)
    says = (
        f"Its hash slot moved to {case.told.owner}, and {_unacked(case)} still at {case.worker.name}: these go first. "
    )
    if case.health.state in _TROUBLED:
        return _troubled(case, says)
    command = f"keyline pending {case.around.target} {quote(case.worker.name)} --slot {case.told.slot}"
    return case.verdict(f"{says}{case.health.says}.", "It ends by itself. This shows what is left:", command)


def _gated(case: _Case) -> Verdict:
    """Its owner has joined lately."""
    entries = counted(case.told.join_position_entries, "entry", "entries")
    says = f"{case.told.owner} has joined and gets nothing before {entries} sent earlier are acknowledged (PIP-282). "
    if case.worker is None or case.health is None:
        return case.verdict(says.rstrip())
    if case.health.state in _TROUBLED:
        return _troubled(case, says)
    command = f"keyline pending {case.around.target} {quote(case.worker.name)}"
    return case.verdict(f"{says}{case.health.says}.", "It ends by itself. This shows what is left:", command)


def _without_owner(case: _Case) -> Verdict:
    says = f"No worker covers hash slot {case.told.slot}."
    return without_owner(case.dispatcher, case.around, says, "it", f"keyline stats {case.around.target}")


def _no_lease(case: _Case) -> Verdict:
    says = "Another replica delivers it, or none does; this one has no lease for it."
    return case.verdict(says, "Look who has it:", case.around.lease_command)


def _dead_letter(case: _Case) -> Verdict:
    return dead_letters_wait(case.dispatcher, case.around) or _other(case)


def _parked(case: _Case) -> Verdict:
    waits = dead_letters_wait(case.dispatcher, case.around)
    if waits is not None and case.dispatcher.diversions.held[case.told.slot]:
        return waits
    if case.told.slot in case.dispatcher.diversions.taken_out:
        return _taken_out(case)
    says = f"A message of hash slot {case.told.slot} has used its attempts, so the slot is parked."
    advice = (
        "Remove the cause, then deliver what is parked (keyline redrive), or delete it (keyline drop). This lists it:"
    )
    return case.verdict(says, advice, f"keyline parked {case.around.target}")


def _taken_out(case: _Case) -> Verdict:
    """An operator has ordered a redrive or a drop, which may wait for a worker."""
    dispatcher, slot = case.dispatcher, case.told.slot
    says = f"What is parked of hash slot {slot} is being redriven, or dropped."
    advice = "It ends by itself. This shows what is left:"
    if not case.told.unacked_messages:
        if dispatcher.diversions.trouble:
            says = f"{says} The parking topic has a trouble: {dispatcher.diversions.trouble}."
            return case.verdict(says, *case.around.diversion_advice)
        return case.verdict(says, advice, f"keyline parked {case.around.target}")
    worker = dispatcher.holder_at(dispatcher.slots.holder(slot))
    case = case._replace(worker=worker, health=case.checkup.workers.get(worker))
    says = f"{says} {_unacked(case)} at {worker.name}, which must acknowledge or give back what it has. "
    if case.health is not None and case.health.state in _TROUBLED:
        return _troubled(case, says)
    return case.verdict(says.rstrip(), advice, f"keyline pending {case.around.target} {quote(worker.name)}")


def _paused(case: _Case) -> Verdict:
    return paused(case.around)


def _other(case: _Case) -> Verdict:
    return case.verdict(f"{case.told.unblocks[:1].upper()}{case.told.unblocks[1:]}.")


SLOTS: Final[dict[SlotState, Callable[[_Case], Verdict]]] = {
    SlotState.FLOWING: _flowing,
    SlotState.UPSTREAM_BEHIND: _flowing,
    SlotState.NO_OWNER: _without_owner,
    SlotState.EXCLUDED: _without_owner,
    SlotState.QUARANTINED: _without_owner,
    SlotState.DRAINING: _draining,
    SlotState.WINDOW_FULL: _window,
    SlotState.IN_TRANSACTION: _other,
    SlotState.RETRY_WAIT: _other,
    SlotState.DEAD_LETTER: _dead_letter,
    SlotState.PARKED: _parked,
    SlotState.UNBLOCKING_INTERVAL: _other,
    SlotState.BEYOND_SHARE: _other,
    SlotState.NO_PERMITS: _at_worker,
    SlotState.NOT_READING: _at_worker,
    SlotState.UNACKED_LIMIT: _at_worker,
    SlotState.DRAINED_BY_OPERATOR: _at_worker,
    SlotState.JOIN_POSITION: _gated,
    SlotState.NO_LEASE: _no_lease,
    SlotState.PAUSED: _paused,
}
"""What is said of each state."""
