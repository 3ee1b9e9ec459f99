"""What is wrong with a subscription, or with one key of it, who causes it, and which command helps.

One answer for all who ask: explain, the console, the command line and metrics show the same state and sentence. The
troubles that both may have are here; where a worker causes one, its health says how (`worker_health`). Verdicts on a
subscription are in `subscription_verdict`, those on one key in `key_verdict`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Final

from proxy.core.words import counted, listed
from proxy.core.worker_health import STOPPED, Urgency, WorkerState

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker
    from proxy.core.worker_health import Checkup, WorkerHealth

MIB: Final = 1 << 20
BEHIND_S: Final = 30.0
"""A wait from which a key or a subscription falls behind."""
LONG_S: Final = 300.0
"""A wait that an operator should end."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the dispatcher does not know of its subscription."""

    target: str = "TOPIC SUBSCRIPTION"
    """The arguments that name it on a command line."""
    upstream: str = "ready"
    """State of the gateway's consumer at the broker."""
    upstream_error: str = ""
    former: bool = False
    """Whether it waits for the end of another one, perhaps its former one; the error says how long."""
    behind: bool = False
    """Whether the broker may have messages that it was not asked for."""
    look_ahead_messages: int = 0
    """Messages that may wait; 0 where it is not known."""
    more_look_ahead: str = ""
    """The limit that bounds them, and twice its value: ``NAME=VALUE``."""
    memory_bytes: int = 0
    """Bytes that the subscription may hold, where those left are too few for one message more; else 0."""
    more_memory: str = ""
    """A larger limit of them, as `more_look_ahead`; empty where none can be set."""
    gateway_bytes: int = 0
    """Bytes that all subscriptions may hold together, where they do and so nothing more is read; else 0."""
    lease: str = ""
    """``no_lease`` or ``standby`` where a group keeps deliveries from this replica."""
    lease_command: str = "keyline replicas"
    """What shows which replica has the lease."""
    excluded: tuple[str, ...] = ()
    """Names of connected workers that an operator excludes."""
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


def without_owner(dispatcher: Dispatcher, around: Surroundings, says: str, them: str, command: str) -> Verdict:
    """Why no worker covers what `says` names, and `them` means: one may be kept out."""
    if dispatcher.quarantined:
        verdict = quarantined(dispatcher, around)
        return replace(verdict, urgency=Urgency.ACT, says=f"{says} {verdict.says}")
    if dispatcher.excluded:
        return excluded(around, f"{says} An operator excludes {_excluded_names(around)}.")
    advice = f"Start a worker that covers {them}: with sticky ranges, workers choose their own."
    return Verdict("no_owner", Urgency.ACT, None, says, advice, command)


def excluded(around: Surroundings, says: str) -> Verdict:
    """Workers are here that an operator keeps from everything."""
    name = quote(around.excluded[0]) if around.excluded else "WORKER"
    command = f"keyline exclude {around.target} {name} --undo"
    return Verdict("excluded", Urgency.ACT, None, says, "Start another worker, or readmit one:", command)


def _excluded_names(around: Surroundings) -> str:
    return listed(list(around.excluded)) if around.excluded else "some"


def former(around: Surroundings) -> Verdict:
    """The gateway lost its connection to the broker, which keeps a consumer beside which order would be lost."""
    says = f"Nothing is delivered: {around.upstream_error}."
    advice = "It goes on by itself. While direct workers move, put the subscription into migrating_subscriptions."
    return Verdict("former_consumer", Urgency.WATCH, None, says, advice, None)


def not_delivering(dispatcher: Dispatcher, around: Surroundings, now: float) -> Verdict | None:
    """Why nothing at all is delivered; None if there is no such reason."""
    if dispatcher.paused:
        return paused(around)
    if around.upstream != "ready" and around.former:
        return former(around)
    if around.upstream != "ready":
        why = f": {around.upstream_error}" if around.upstream_error else ""
        says = f"The gateway's consumer at the broker is not ready ({around.upstream.replace('_', ' ')}){why}."
        advice = "Look whether the broker is reachable and lets the gateway consume."
        return Verdict("broker_not_ready", Urgency.ACT, None, says, advice, None)
    if around.lease == "no_lease" or (not around.lease and dispatcher.lapsed(now)):
        says = "This replica has no lease for the subscription, so it delivers nothing."
        return Verdict("no_lease", Urgency.ACT, None, says, "Look who leads, and who has it.", around.lease_command)
    if around.lease:
        says = "Other replicas deliver all streams of the subscription; this one stands by."
        return Verdict(around.lease, Urgency.NONE, None, says, "", None)
    if around.takeover:
        return takeover(around)
    if dispatcher.workers:
        return None
    if dispatcher.quarantined:
        return quarantined(dispatcher, around)
    if dispatcher.excluded:
        return excluded(around, "An operator excludes all workers that are connected: nothing is delivered.")
    return Verdict("no_workers", Urgency.ACT, None, "No worker has joined.", "Start one.", None)


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
    hungry = sum(_is_hungry(worker) for worker in dispatcher.workers.values())
    if not hungry:
        return None
    gets = f"{counted(hungry, 'worker')} {'gets' if hungry == 1 else 'get'} nothing, whatever the broker has for them"
    state, what, larger = _filled(dispatcher, around)
    if not state:
        return _gateway_full(around, gets)
    culprit = checkup.most_waited_for()
    if culprit is None:
        says = f"{what} is full: {waits(dispatcher.waiting_messages)}, for none of the workers, and {gets}."
        advice = "This lists what waits, and why:"
        return Verdict(state, Urgency.ACT, None, says, advice, f"keyline stuck {around.target}")
    health = checkup.workers[culprit]
    says = (
        f"{what} is full: {counted(health.waiting_for_it, 'message')} of {dispatcher.waiting_messages:,} that wait are "
        f"for {culprit.name}, and {gets}. {health.says}."
    )
    if health.state in STOPPED:
        advice, command = _help(dispatcher, health.state, culprit, around)
    elif larger:
        advice = f"Look what keeps {culprit.name}, or let the gateway read further ahead:"
        command = f"keyline limits {around.target} --set {larger}"
    else:
        advice = f"Look what keeps {culprit.name}; this shows what it holds:"
        command = f"keyline pending {around.target} {quote(culprit.name)}"
    return Verdict(state, Urgency.ACT, culprit.name, says, advice, command)


def _gateway_full(around: Surroundings, gets: str) -> Verdict | None:
    if not around.gateway_bytes:
        return None
    says = (
        f"All subscriptions together hold the {around.gateway_bytes / MIB:.0f} MiB that this gateway may hold, so it "
        f"reads nothing more: {gets}."
    )
    advice = "Look which of them have workers that do not acknowledge, or raise gateway_memory_bytes. This lists all:"
    return Verdict("gateway_memory_full", Urgency.ACT, None, says, advice, "keyline stats")


def _filled(dispatcher: Dispatcher, around: Surroundings) -> tuple[str, str, str]:
    """What is full: its state, its name in a sentence, and a larger limit; empty if nothing is."""
    if not around.behind:
        return "", "", ""
    if 0 < around.look_ahead_messages <= dispatcher.waiting_messages - dispatcher.free_permits():
        what = f"The look-ahead of {counted(around.look_ahead_messages, 'message')}"
        return "look_ahead_full", what, around.more_look_ahead
    if around.memory_bytes:
        what = f"The subscription's memory of {around.memory_bytes / MIB:.0f} MiB"
        return "memory_full", what, around.more_memory
    return "", "", ""


def _is_hungry(worker: Worker) -> bool:
    return worker.open and worker.permits > 0 and not worker.ready


# ---- workers --------------------------------------------------------------------------------------------------


def of_worker(
    dispatcher: Dispatcher, worker: Worker, health: WorkerHealth, around: Surroundings, also: list[str] | None = None
) -> Verdict:
    """A worker's trouble; `also` are the names of others that have the same."""
    advice, command = _help(dispatcher, health.state, worker, around)
    more = f" The same holds for {listed(also)}." if also else ""
    says = f"{health.says}.{more}"
    return Verdict(health.state.value, health.urgency, worker.name, says, advice, command)


def _help(dispatcher: Dispatcher, state: WorkerState, worker: Worker, around: Surroundings) -> tuple[str, str | None]:
    """Advice and a command."""
    name = quote(worker.name)
    match state:
        case WorkerState.STOPPED_ACKNOWLEDGING | WorkerState.NOT_READING | WorkerState.REFUSING:
            if state is WorkerState.REFUSING:
                first = f"Look at {worker.name}'s log: what it tries fails."
                then = "If the others succeed, this gives its keys to them"
            else:
                first = f"Restart {worker.name}: its client is connected, its application hangs."
                then = "Until then this gives its keys, and what it holds, to other workers"
            if worker.sticky_ranges or len(dispatcher.workers) == 1:  # no other worker would take over
                return f"{first} This shows what it holds:", f"keyline pending {around.target} {name}"
            return f"{first} {then}; --undo readmits it:", f"keyline exclude {around.target} {name}"
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


def more_workers(dispatcher: Dispatcher, around: Surroundings) -> tuple[str, str | None]:
    """Advice and a command where workers have as much to do as they can; those with sticky ranges choose their own."""
    if any(worker.sticky_ranges for worker in dispatcher.workers.values()):
        return "Divide the ranges of hash slots among more workers, or wait for the backlog to end.", None
    advice = "Add workers, or wait for the backlog to end. This shows what a new one would take:"
    return advice, f"keyline preview join {around.target} new-worker"


def waits(messages: int) -> str:
    """So many of them do."""
    return "1 message waits" if messages == 1 else f"{messages:,} messages wait"
