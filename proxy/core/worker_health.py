"""Is a worker well, slow, or has it stopped? Asked by people and by metrics, never on a message's way.

Problem: the commonest trouble is an application that no longer acknowledges. Its client still reads and answers pings,
so nothing fails: it only runs out of permits, as every busy worker does. Rule kept: a worker **has stopped** when it
holds messages and has acknowledged none for longer than is usual, by its own pauses and those of its peers, and at
least for `QUIET_S`. It **refuses** if it gave messages back all that time instead. It **is slow** when messages wait
for it and it acknowledges less than half of what it used to, or of what its peers do: a worker with little to do is not
slow. Each is told with numbers, so that a reader can judge.

`Checkup` has all workers of a subscription at one moment, and what waits for each of them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING, Final

from proxy.core.blocking import parts_at
from proxy.core.positions import format_position
from proxy.core.steps import in_steps
from proxy.core.waiting import WaitReason
from proxy.core.words import counted, lasting, per_second

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.steps import Steps
    from proxy.core.worker import Worker

QUIET_S: Final = 20.0
"""Shortest time without an ack that counts as a stop."""
UNKNOWN_S: Final = 60.0
"""The same where neither the worker nor any peer has acknowledged for long enough to tell what is usual."""
REFUSED_S: Final = 120.0
"""Who refused nothing for so long may have nothing to refuse; clients give messages back after a minute by default."""
PAUSES: Final = 3.0
"""So many times its longest pause, or its peers' usual one, is longer than usual."""
SLOW: Final = 0.5
"""Below this share of its own past, or of its peers' median, a worker is slow."""
OLD: Final = 5.0
"""So many times the patience, a single message is old at a worker that acknowledges others."""


class Urgency(Enum):
    """Whether a person has to do something."""

    NONE = "none"
    WATCH = "watch"
    """Not as it should be, and may end by itself."""
    ACT = "act"
    """Does not end by itself."""


class WorkerState(Enum):
    """The strongest that is true; words for people are made of the values."""

    REFUSING = "refusing"
    """It negatively acknowledges, and acknowledges nothing."""
    STOPPED_ACKNOWLEDGING = "stopped_acknowledging"
    NOT_READING = "not_reading"
    DRAINED_BY_OPERATOR = "drained_by_operator"
    SLOW = "slow"
    OLD_MESSAGE = "old_message"
    """It acknowledges, but one of its messages has been left for long."""
    UNACKED_LIMIT = "unacked_limit"
    JOIN_POSITION = "join_position"
    HANDING_OVER = "handing_over"
    BUSY = "busy"
    """Works at its usual pace, and messages wait for it."""
    READY = "ready"


URGENCY: Final = {
    WorkerState.DRAINED_BY_OPERATOR: Urgency.WATCH,
    WorkerState.REFUSING: Urgency.ACT,
    WorkerState.STOPPED_ACKNOWLEDGING: Urgency.ACT,
    WorkerState.NOT_READING: Urgency.ACT,
    WorkerState.SLOW: Urgency.WATCH,
    WorkerState.OLD_MESSAGE: Urgency.WATCH,
    WorkerState.UNACKED_LIMIT: Urgency.ACT,
    WorkerState.JOIN_POSITION: Urgency.WATCH,
    WorkerState.HANDING_OVER: Urgency.WATCH,
}
"""The others need nothing."""
STOPPED: Final = (WorkerState.STOPPED_ACKNOWLEDGING, WorkerState.NOT_READING, WorkerState.REFUSING)
"""Of these no ack is to be expected; in the order in which they are told."""


_OF_NO_WORKER: Final = frozenset(
    {
        WaitReason.UNBLOCKING_INTERVAL,
        WaitReason.RETRY_WAIT,
        WaitReason.DEAD_LETTER,
        WaitReason.PARKED,
        WaitReason.BEYOND_SHARE,
        WaitReason.NO_LEASE,
        WaitReason.PAUSED,
    }
)
"""Reasons that end without a worker's doing."""


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """One worker at one moment. Times are in seconds, rates in messages a second."""

    state: WorkerState
    urgency: Urgency
    says: str
    """A sentence with the numbers behind the state."""
    oldest_unacked: str | None
    """``ledger:entry`` of what it has held longest; None if it holds nothing."""
    oldest_unacked_s: float | None
    silent_s: float | None
    """Since it last acknowledged while it held something; None if it holds nothing and refuses nothing."""
    acked_rate: float
    """Lately: 10 to 20 s, longer where it has not acknowledged since."""
    usual_acked_rate: float | None
    """Its own over ten minutes; None before it is known."""
    peers_acked_rate: float | None
    """Median of the others that hold messages; None without any."""
    waiting_for_it: int
    """Messages that go on only if it acknowledges, asks for more or reads."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """All workers."""

    workers: Mapping[Worker, WorkerHealth]
    waiting_without_owner: int
    """Messages of slots that no worker covers."""
    before_gates: Worker | None
    """Who has what every join gate waits for; None without a gate."""

    def awaited(self, dispatcher: Dispatcher, slot: int, reason: WaitReason | None) -> Worker | None:
        """Who has to do something before the slot's next message goes out: acknowledge, ask for more, or read."""
        if reason is WaitReason.JOIN_POSITION:
            return self.before_gates
        if reason in _OF_NO_WORKER:
            return None
        holder = dispatcher.slots.holder(slot)
        return dispatcher.holder_at(holder) if holder else dispatcher.select(slot)

    def in_state(self, state: WorkerState) -> list[Worker]:
        """Workers in a state, those first for whom most waits, then those that have been silent longest."""
        found = [worker for worker, health in self.workers.items() if health.state is state]

        def weight(worker: Worker) -> tuple[int, float]:
            return self.workers[worker].waiting_for_it, self.workers[worker].silent_s or 0.0

        return sorted(found, key=weight, reverse=True)

    def most_waited_for(self) -> Worker | None:
        """The worker for which most messages wait; None if none waits for any."""
        found = max(self.workers, key=lambda worker: self.workers[worker].waiting_for_it, default=None)
        return found if found is not None and self.workers[found].waiting_for_it else None


def checkup_steps(dispatcher: Dispatcher, now: float, asked: Worker | None = None) -> Steps[Checkup]:
    """Look at all workers, and at the one `asked` for even if it leaves meanwhile.

    Walks what waits; `now` is on the clock of the dispatcher's other calls.
    """
    waiting, without_owner, before_gates = yield from _waiting_steps(dispatcher)
    here = list(dispatcher.workers.values())
    if asked is not None and dispatcher.workers.get(asked.index) is not asked:
        here.append(asked)
    usual = _Usual(here, now)
    healths: dict[Worker, WorkerHealth] = {}
    for run in in_steps(here):
        healths |= {worker: _health(worker, waiting.get(worker, 0), usual, now) for worker in run}
        yield
    return Checkup(healths, without_owner, before_gates)


def _waiting_steps(dispatcher: Dispatcher) -> Steps[tuple[dict[Worker, int], int, Worker | None]]:
    """How many messages wait for each worker, and for the want of one; and who has what join gates wait for."""
    waiting: dict[Worker, int] = {}
    without_owner = 0
    behind_gates = 0
    for worker in list(dispatcher.workers.values()):
        count = sum(part.count for part in worker.ready)
        if worker.join_gate is not None:
            behind_gates += count
        elif count:
            waiting[worker] = count
        yield
    gated = any(worker.join_gate is not None for worker in dispatcher.workers.values())
    before_gates = _gates_holder(dispatcher) if gated else None
    if behind_gates and before_gates is not None:
        waiting[before_gates] = waiting.get(before_gates, 0) + behind_gates
    for run in in_steps(list(dispatcher.blocked.items())):
        for slot, entry in run:
            count = sum(part.count for part in entry.parts)
            holder = dispatcher.workers.get(dispatcher.slots.holder(slot))
            if holder is not None:
                waiting[holder] = waiting.get(holder, 0) + count
            elif dispatcher.select(slot) is None:
                without_owner += count
        yield
    return waiting, without_owner, before_gates


def _gates_holder(dispatcher: Dispatcher) -> Worker | None:
    """Who has the first of all that is not acknowledged: every join gate waits for that.

    Where that waits itself, who has what was sent first.
    """
    entries = dispatcher.outstanding.entries
    for part in parts_at(dispatcher, min(entries)) if entries else ():
        if part.holder is not None:
            return dispatcher.holder_at(part.holder.index)
    holders = [worker for worker in dispatcher.workers.values() if worker.pending]
    return min(holders, key=lambda worker: next(iter(worker.pending.values())).sent_at, default=None)


class _Usual:
    """What is usual among workers."""

    def __init__(self, workers: Iterable[Worker], now: float) -> None:
        self._rates = {
            worker: worker.pace.lately(worker.acked_messages, now)
            for worker in workers
            if worker.pending and worker.pace.is_known(now)
        }
        self._sorted = sorted(self._rates.values())
        pauses = [worker.pace.longest_pause_s for worker in self._rates if worker.pace.usual]
        self._pause_s = median(pauses) if pauses else None

    def peers_rate(self, worker: Worker) -> float | None:
        """Median rate of the others that hold something.

        Read off the sorted rates of all, of which its own is left out: thousands of workers are asked about together.
        """
        rates, own = self._sorted, self._rates.get(worker)
        left_out = len(rates) if own is None else bisect_left(rates, own)
        count = len(rates) - (own is not None)
        if not count:
            return None
        middle = [rates[at + (at >= left_out)] for at in range((count - 1) // 2, count // 2 + 1)]
        return sum(middle) / len(middle)

    def patience_s(self, worker: Worker) -> float:
        """How long the worker may hold messages without an ack."""
        if worker.pace.notes:
            return max(QUIET_S, PAUSES * worker.pace.longest_pause_s)
        return UNKNOWN_S if self._pause_s is None else max(QUIET_S, PAUSES * self._pause_s)


def _health(worker: Worker, waiting: int, usual: _Usual, now: float) -> WorkerHealth:
    oldest = next(iter(worker.pending.values()), None)
    silent_s = None if oldest is None else max(0.0, now - max(worker.last_acked_at, oldest.sent_at))
    rate = worker.pace.lately(worker.acked_messages, now)
    peers = usual.peers_rate(worker)
    patience_s = usual.patience_s(worker)
    if _refuses(worker, patience_s, now):
        state = WorkerState.REFUSING
        silent_s = now - worker.refuses_since
    elif silent_s is not None and silent_s >= patience_s:
        state = WorkerState.STOPPED_ACKNOWLEDGING
    elif not worker.writable:
        state = WorkerState.NOT_READING
    elif worker.drained_by_operator:
        state = WorkerState.DRAINED_BY_OPERATOR
    elif waiting and oldest is not None and _is_slow(worker, rate, peers, now):
        state = WorkerState.SLOW
    elif oldest is not None and now - oldest.sent_at >= OLD * max(patience_s, UNKNOWN_S):
        state = WorkerState.OLD_MESSAGE
    else:
        state = _state_of_one_that_works(worker, waiting)
    health = WorkerHealth(
        state=state,
        urgency=URGENCY.get(state, Urgency.NONE),
        says="",
        oldest_unacked=None if oldest is None else format_position(oldest.position),
        oldest_unacked_s=None if oldest is None else now - oldest.sent_at,
        silent_s=silent_s,
        acked_rate=rate,
        usual_acked_rate=worker.pace.usual or None,
        peers_acked_rate=peers,
        waiting_for_it=waiting,
    )
    return _with_sentence(worker, health)


def _refuses(worker: Worker, patience_s: float, now: float) -> bool:
    """Whether it has given back what it got for so long, and still does."""
    since = worker.refuses_since
    still = now - worker.refused_at < REFUSED_S
    return since > worker.last_acked_at and since + patience_s <= now and still


def _is_slow(worker: Worker, rate: float, peers: float | None, now: float) -> bool:
    expected = max(worker.pace.usual, peers or 0.0)
    return worker.pace.is_known(now) and rate < SLOW * expected


def _state_of_one_that_works(worker: Worker, waiting: int) -> WorkerState:
    if worker.over_unacked:
        return WorkerState.UNACKED_LIMIT
    if worker.join_gate is not None:
        return WorkerState.JOIN_POSITION
    if worker.draining_slots:
        return WorkerState.HANDING_OVER
    return WorkerState.BUSY if waiting else WorkerState.READY


# ---- in words -------------------------------------------------------------------------------------------------


def _with_sentence(worker: Worker, health: WorkerHealth) -> WorkerHealth:
    words = f"{worker.name} {_opening(worker, health)}"
    if worker.drained_by_operator and health.state is not WorkerState.DRAINED_BY_OPERATOR:
        words += "; an operator drains it"
    if health.oldest_unacked_s is not None:
        words += f"; it holds {counted(worker.unacked, 'message')}, the oldest {health.oldest_unacked} for "
        words += lasting(health.oldest_unacked_s)
    if health.waiting_for_it:
        words += f"; {counted(health.waiting_for_it, 'message')} {_wait(health.waiting_for_it)} for it"
    return replace(health, says=words)


def _opening(worker: Worker, health: WorkerHealth) -> str:
    silent = lasting(health.silent_s or 0.0)
    match health.state:
        case WorkerState.STOPPED_ACKNOWLEDGING:
            unread = "leaves its socket unread and " if not worker.writable else ""
            never = " and never did before" if not worker.acked_messages else ""
            return f"{unread}has acknowledged nothing for {silent}{never}{_compared(health)}"
        case WorkerState.REFUSING:
            never = " and never did before" if not worker.acked_messages else ""
            return f"has refused what it got for {silent}, and acknowledged nothing{never}{_compared(health)}"
        case WorkerState.NOT_READING:
            return "leaves its socket unread: its application or its network is stuck"
        case WorkerState.SLOW:
            return f"is slow: it acknowledges {per_second(health.acked_rate)}{_compared(health)}"
        case WorkerState.OLD_MESSAGE:
            return f"acknowledges {per_second(health.acked_rate)} but has left a message unacknowledged"
        case WorkerState.UNACKED_LIMIT:
            return f"holds as many unacknowledged messages as it may ({worker.max_unacked:,})"
        case WorkerState.DRAINED_BY_OPERATOR:
            return "gets nothing new: an operator drains it"
        case WorkerState.JOIN_POSITION:
            return "has just joined and waits until all that was sent before is acknowledged (PIP-282)"
        case _:
            return f"acknowledges {per_second(health.acked_rate)}"


def _compared(health: WorkerHealth) -> str:
    """With its own past and its peers."""
    said = []
    if health.usual_acked_rate is not None:
        said.append(f"it usually does {per_second(health.usual_acked_rate)}")
    if health.peers_acked_rate is not None:
        said.append(f"the others {'now do' if said else 'do'} {per_second(health.peers_acked_rate)}")
    return f" ({', '.join(said)})" if said else ""


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"
