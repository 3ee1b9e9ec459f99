"""Which workers keep a subscription's messages from being worked on: the verdict in numbers, for metrics and alerts.

A scrape asks it of every subscription. Where nothing has waited or been held for long there is no worker to blame, and
that is seen without looking at each worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.core.steps import finished
from proxy.core.verdict import Surroundings, starving
from proxy.core.worker_health import QUIET_S, STOPPED, WorkerState, checkup_steps

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher

BLAMED_MAX: Final = 10
"""Workers of a subscription that are named, one of a name, who fills the look-ahead first; the count is whole."""


@dataclass(frozen=True, slots=True)
class BlamedWorker:
    """One, by its name."""

    name: str
    stopped: bool
    """Whether it has stopped acknowledging, or reading; else it is slow, or fills the look-ahead."""
    silent_s: float
    """Since it last acknowledged while it held something."""
    unacked_messages: int
    waiting_messages: int
    """Those that wait for it."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Of one subscription."""

    workers: tuple[BlamedWorker, ...]
    stopped_workers: int
    starved: bool
    """Whether workers get nothing because what waits for another has filled the look-ahead, or the memory."""


NO_BLAME: Final = Blame((), 0, starved=False)


def blame(dispatcher: Dispatcher, around: Surroundings, now: float) -> Blame:
    """Find them. Walks what waits, if something has been held or has waited for `QUIET_S`."""
    if not _lasts(dispatcher, now):
        return NO_BLAME
    checkup = finished(checkup_steps(dispatcher, now))
    hungry = starving(dispatcher, checkup, around)
    stopped = [worker for state in STOPPED for worker in checkup.in_state(state)]
    blamed = [*stopped, *checkup.in_state(WorkerState.SLOW)]
    filler = checkup.most_waited_for() if hungry is not None else None
    if filler is not None:
        blamed.insert(0, filler)
    named = {worker.name: worker for worker in reversed(blamed)}
    return Blame(
        tuple(
            BlamedWorker(
                name=worker.name,
                stopped=worker in stopped,
                silent_s=checkup.workers[worker].silent_s or 0.0,
                unacked_messages=worker.unacked,
                waiting_messages=checkup.workers[worker].waiting_for_it,
            )
            for worker in list(reversed(named.values()))[:BLAMED_MAX]
        ),
        len(stopped),
        starved=hungry is not None,
    )


def _lasts(dispatcher: Dispatcher, now: float) -> bool:
    """Whether for long a worker has held or refused something, or something has waited; or one reads nothing."""
    due = now - QUIET_S
    for worker in dispatcher.workers.values():
        first = next(iter(worker.pending.values()), None)
        if not worker.writable or (first is not None and first.sent_at <= due):
            return True
        if worker.last_acked_at < worker.refuses_since <= due:
            return True
    return dispatcher.waiting_messages > 0 and any(part.waits_since <= due for part in dispatcher.waiting_parts())
