"""What is wrong with a subscription, or with one key of it, who causes it, and which command helps.

One answer for all who ask: explain, the console, the command line and metrics show the same state and sentence. The
state is the strongest trouble that is true; where a worker causes it, its health says how (`worker_health`). Verdicts
on one key are in `key_verdict`.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

from proxy.core.words import counted, lasting, listed
from proxy.core.worker_health import Urgency, WorkerState

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker
    from proxy.core.worker_health import Checkup, WorkerHealth

BEHIND_S: Final = 30.0
"""A wait from which a subscription falls behind."""
LONG_S: Final = 300.0
"""A wait that an operator should end."""
IDLE_S: Final = 10.0
"""Without a delivery or an ack for so long, nothing is to be delivered: at one instant nothing often is."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the dispatcher does not know of its subscription."""

    target: str = "TOPIC SUBSCRIPTION"
    """The arguments that name it on a command line."""
    upstream: str = "ready"
    """State of the gateway's consumer at the broker."""
    upstream_error: str = ""
    behind: bool = False
    """Whether the broker may have messages that it was not asked for."""
    look_ahead_messages: int = 0
    """Messages that may wait; 0 where it is not known."""
    more_look_ahead: str = ""
    """The limit that bounds them, and twice its value: ``NAME=VALUE``."""
    memory_bytes: int = 0
    """Bytes that may be held; likewise."""
    lease: str = ""
    """``no_lease`` or ``standby`` where a group keeps deliveries from this replica."""
    takeover: str = ""
    """What the gateway waits for before it reads anything since it took the subscription over; a clause."""
    diversion_topic: str = "another topic"
    """Where messages that have used their attempts go."""
    diversion_advice: tuple[str, str | None] = "Look whether it can be reached, and the gateway may use it.", None
    """Who should do what when it does not take them, and the command that helps."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer."""

    state: str
    """Lower-case words with underscores."""
    urgency: Urgency
    worker: str | None
    """Who causes it; None if it is no worker."""
    says: str
    """What is wrong, in sentences."""
    advice: str
    """Who should do what; empty if nothing needs to be done."""
    command: str | None
    """What helps, for a shell."""


def subscription_verdict(dispatcher: Dispatcher, checkup: Checkup, around: Surroundings, now: float) -> Verdict:
    """Judge a whole subscription."""
    verdict = _not_delivering(dispatcher, around) or starving(dispatcher, checkup, around)
    verdict = verdict or _of_workers(checkup, around, (WorkerState.STOPPED_ACKNOWLEDGING, WorkerState.NOT_READING))
    if verdict is None and checkup.waiting_without_owner:
        waiting = counted(checkup.waiting_without_owner, "message")
        says = f"No worker covers the hash slots of {waiting}."
        advice = "Start a worker that covers them: with sticky ranges, workers choose their own."
        verdict = Verdict("no_owner", Urgency.ACT, None, says, advice, f"keyline stats {around.target}")
    verdict = verdict or _of_workers(
        checkup, around, (WorkerState.SLOW, WorkerState.UNACKED_LIMIT, WorkerState.DRAINED_BY_OPERATOR)
    )
    if verdict is None and dispatcher.quarantined:
        verdict = quarantined(dispatcher, around)
    return verdict or _parked(dispatcher, around) or _moving(dispatcher, checkup, around, now)


def _parked(dispatcher: Dispatcher, around: Surroundings) -> Verdict | None:
    count = len(dispatcher.diversions.parked)
    if not count:
        return None
    says = f"{counted(count, 'hash slot')} {'is' if count == 1 else 'are'} parked; the others are delivered."
    advice = "Remove the cause, then redrive or drop what is parked. This lists it:"
    return Verdict("parked", Urgency.WATCH, None, says, advice, f"keyline parked {around.target}")


def _not_delivering(dispatcher: Dispatcher, around: Surroundings) -> Verdict | None:
    if dispatcher.paused:
        return paused(around)
    if around.upstream != "ready":
        why = f": {around.upstream_error}" if around.upstream_error else ""
        says = f"The gateway's consumer at the broker is not ready ({around.upstream.replace('_', ' ')}){why}."
        advice = "Look whether the broker is reachable and lets the gateway consume."
        return Verdict("broker_not_ready", Urgency.ACT, None, says, advice, None)
    if around.lease == "no_lease":
        says = "This replica has no lease for the subscription, so it delivers nothing."
        return Verdict("no_lease", Urgency.ACT, None, says, "Look who leads.", f"keyline groups {around.target}")
    if around.lease:
        says = "Other replicas deliver all streams of the subscription; this one stands by."
        return Verdict(around.lease, Urgency.NONE, None, says, "", None)
    if around.takeover:
        return takeover(around)
    if not dispatcher.workers and dispatcher.quarantined:
        return quarantined(dispatcher, around)
    if not dispatcher.workers and dispatcher.excluded:
        says = "An operator excludes all workers that are connected: nothing is delivered."
        command = f"keyline exclude {around.target} WORKER --undo"
        return Verdict("excluded", Urgency.ACT, None, says, "Start another worker, or readmit one:", command)
    if not dispatcher.workers:
        return Verdict("no_workers", Urgency.ACT, None, "No worker has joined.", "Start one.", None)
    return dead_letters_wait(dispatcher, around)


def diverted_slots(dispatcher: Dispatcher) -> int:
    """Slots that wait until the dead letter or parking topic has one of their messages."""
    return sum(1 for parts in dispatcher.diversions.held.values() if parts)


def dead_letters_wait(dispatcher: Dispatcher, around: Surroundings) -> Verdict | None:
    """Keys wait because the topic of what was given up does not take it; None if none does, as far as is known."""
    diversions = dispatcher.diversions
    count = diverted_slots(dispatcher)
    if not diversions.trouble or not count:
        return None
    waits = "hash slot waits" if count == 1 else "hash slots wait"
    whose = "its" if count == 1 else "their"
    says = (
        f"{count:,} {waits} for {around.diversion_topic}, which does not take {whose} messages: {diversions.trouble}. "
        "Nothing is lost."
    )
    return Verdict("dead_letter", Urgency.ACT, None, says, *around.diversion_advice)


def quarantined(dispatcher: Dispatcher, around: Surroundings) -> Verdict:
    """Workers are here and get nothing, because they lost their ack lease too often."""
    names = sorted(dispatcher.quarantined)
    says = f"{listed(names)} lost {'their' if len(names) > 1 else 'its'} ack lease too often, and get"
    says += f"{'' if len(names) > 1 else 's'} no keys for a time (quarantine_ms)."
    advice = f"Look what keeps {names[0]} from acknowledging; this gives it keys again at once:"
    command = f"keyline exclude {around.target} {quote(names[0])} --undo"
    return Verdict("quarantined", Urgency.WATCH, names[0], says, advice, command)


def takeover(around: Surroundings) -> Verdict:
    """Nothing is read yet, because what is in open transactions may have to be delivered first."""
    says = f"Nothing is delivered yet: {around.takeover}."
    advice = "Commit or abort the transactions, or wait for their time-outs."
    return Verdict("open_transactions", Urgency.WATCH, None, says, advice, None)


def paused(around: Surroundings) -> Verdict:
    """Nothing is delivered, by order."""
    says = "An operator paused the subscription, or the gateway is shutting down: nothing is delivered."
    return Verdict("paused", Urgency.WATCH, None, says, "Resume it:", f"keyline resume {around.target}")


# ---- one worker keeps messages from all -----------------------------------------------------------------------


def starving(dispatcher: Dispatcher, checkup: Checkup, around: Surroundings) -> Verdict | None:
    """The gateway reads nothing more, though some worker would take more: who fills it? None if it reads."""
    state, what, larger = _filled(dispatcher, around)
    hungry = [worker for worker in dispatcher.workers.values() if _is_hungry(worker)]
    if not state or not hungry:
        return None
    culprit = checkup.most_waited_for()
    if culprit is None:
        return None
    health = checkup.workers[culprit]
    starved = counted(len(hungry), "worker")
    says = (
        f"{what} is full: {counted(health.waiting_for_it, 'message')} of {dispatcher.waiting_messages:,} that wait are "
        f"for {culprit.name}, and {starved} {'gets' if len(hungry) == 1 else 'get'} nothing, whatever the broker has "
        f"for them. {health.says}."
    )
    if health.state in {WorkerState.STOPPED_ACKNOWLEDGING, WorkerState.NOT_READING}:
        advice, command = _help(health.state, culprit, around)
    else:
        advice = f"Look what keeps {culprit.name}, or let the gateway read further ahead:"
        command = f"keyline limits {around.target} --set {larger}"
    return Verdict(state, Urgency.ACT, culprit.name, says, advice, command)


def _filled(dispatcher: Dispatcher, around: Surroundings) -> tuple[str, str, str]:
    """What is full: its state, its name in a sentence, and a larger limit; empty if nothing is."""
    if not around.behind:
        return "", "", ""
    if 0 < around.look_ahead_messages <= dispatcher.waiting_messages - dispatcher.free_permits():
        what = f"The look-ahead of {counted(around.look_ahead_messages, 'message')}"
        return "look_ahead_full", what, around.more_look_ahead
    if 0 < around.memory_bytes <= dispatcher.outstanding.bytes_held:
        what = f"The subscription's memory of {around.memory_bytes / (1 << 20):.0f} MiB"
        return "memory_full", what, f"subscription_memory_bytes={2 * around.memory_bytes}"
    return "", "", ""


def _is_hungry(worker: Worker) -> bool:
    return worker.open and worker.permits > 0 and not worker.ready


# ---- workers --------------------------------------------------------------------------------------------------


def _of_workers(checkup: Checkup, around: Surroundings, states: tuple[WorkerState, ...]) -> Verdict | None:
    for state in states:
        found = checkup.in_state(state)
        if found:
            return of_worker(found[0], checkup.workers[found[0]], around, also=[worker.name for worker in found[1:]])
    return None


def of_worker(worker: Worker, health: WorkerHealth, around: Surroundings, also: list[str] | None = None) -> Verdict:
    """A worker's trouble; `also` are the names of others that have the same."""
    advice, command = _help(health.state, worker, around)
    more = f" The same holds for {listed(also)}." if also else ""
    says = f"{health.says}.{more}"
    return Verdict(health.state.value, health.urgency, worker.name, says, advice, command)


def _help(state: WorkerState, worker: Worker, around: Surroundings) -> tuple[str, str | None]:
    """Advice and a command."""
    name = quote(worker.name)
    match state:
        case WorkerState.STOPPED_ACKNOWLEDGING | WorkerState.NOT_READING:
            return (
                f"Restart {worker.name}: its client is connected, its application hangs. Until then this gives its "
                "keys, and what it holds, to other workers; --undo readmits it:"
            ), f"keyline exclude {around.target} {name}"
        case WorkerState.SLOW:
            return (
                f"Look at {worker.name}'s machine and what it works on; this shows what would move if it left:"
            ), f"keyline preview leave {around.target} {name}"
        case WorkerState.UNACKED_LIMIT:
            return (
                f"{worker.name} must acknowledge; this shows what it holds:"
            ), f"keyline pending {around.target} {name}"
        case WorkerState.DRAINED_BY_OPERATOR:
            return (
                f"Stop {worker.name} when it holds nothing more, or let it have new messages again:"
            ), f"keyline drain {around.target} {name} --undo"
        case _:
            return "", f"keyline pending {around.target} {name}"


# ---- what moves, if not as fast as it might -------------------------------------------------------------------


def _waits(messages: int, oldest_s: float) -> str:
    if messages == 1:
        return f"1 message waits, for {lasting(oldest_s)}"
    return f"{messages:,} messages wait, the oldest for {lasting(oldest_s)}"


def _moving(dispatcher: Dispatcher, checkup: Checkup, around: Surroundings, now: float) -> Verdict:
    waiting = dispatcher.waiting_messages
    since = min((part.waits_since for part in dispatcher.waiting_parts()), default=now)
    waited_s = now - since
    if dispatcher.draining.count and waiting:
        slots = counted(len(dispatcher.draining), "hash slot")
        says = f"{slots} moved to other workers and drain first; {_waits(waiting, waited_s)}."
        urgency = Urgency.ACT if waited_s >= LONG_S else Urgency.WATCH
        return Verdict("handing_over", urgency, None, says, "", f"keyline stuck {around.target}")
    if waited_s >= BEHIND_S:
        says = f"{_waits(waiting, waited_s)}: the workers ask for no more."
        advice = "Add workers, or wait for the backlog to end. This shows what a new one would take:"
        urgency = Urgency.ACT if waited_s >= LONG_S else Urgency.WATCH
        command = f"keyline preview join {around.target} new-worker"
        return Verdict("falling_behind", urgency, None, says, advice, command)
    old = checkup.in_state(WorkerState.OLD_MESSAGE)
    if old:
        return of_worker(old[0], checkup.workers[old[0]], around)
    if dispatcher.draining.count:
        slots = counted(len(dispatcher.draining), "hash slot")
        return Verdict("handing_over", Urgency.NONE, None, f"{slots} drain; nothing waits for them.", "", None)
    if not waiting and not any(_works(worker, now) for worker in dispatcher.workers.values()):
        return Verdict("idle", Urgency.NONE, None, "Nothing is to be delivered.", "", None)
    return Verdict("delivering", Urgency.NONE, None, "Workers get messages as fast as they ask for them.", "", None)


def _works(worker: Worker, now: float) -> bool:
    """Whether it holds messages, or got or acknowledged one a moment ago."""
    if worker.unacked:
        return True
    return worker.sent_messages > 0 and now - max(worker.last_sent_at, worker.last_acked_at) < IDLE_S
