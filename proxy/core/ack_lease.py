"""How long a worker may hold a message: its ack lease.

Problem: a client whose application hangs stays connected, and its keys wait for as long as it hangs. Rule kept: a
worker that has held a delivery for the lease, and has neither acknowledged it whole nor asked for more time, is to lose
its consumer. What it held and the slots that it owned go to others in the same turn (`membership`), as when any worker
leaves: a slot has one holder at every moment, the messages keep their places, and an ack that comes late counts for
nothing, since acks count for the holder alone (`acknowledgement`).

Why the whole consumer, and not the messages that are late alone: its client has later messages of these keys in its
queue. Only a consumer that is closed forgets them, so only then may others have the keys.

A lease begins when a delivery is sent. What is pending at a worker stands in the order in which it was sent, so its
first is the one that is asked for, and no message pays for the lease. A chunked message has that of its last chunk: no
worker can acknowledge the others before it has come, and if it never comes (its producer died) the client gives them up
by itself, after a minute by default. A lease on them would take every worker's keys in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.worker import Worker


def extend(dispatcher: Dispatcher, worker: Worker, now: float) -> bool:
    """The worker asks for more time: the leases of all that it holds begin anew. False where none runs."""
    if not dispatcher.ack_lease_s or not worker.pending:
        return False
    worker.lease_extended_at = now
    return True


def held_longest(worker: Worker) -> Part | None:
    """The delivery that the worker has had longest of those that have a lease."""
    return next((part for part in worker.pending.values() if part.chunk is None or part.chunk.is_last), None)


def lease_end(dispatcher: Dispatcher, worker: Worker) -> float | None:
    """When the worker loses what it holds, in monotonic seconds; None where no lease runs."""
    oldest = held_longest(worker) if dispatcher.ack_lease_s else None
    return None if oldest is None else max(oldest.sent_at, worker.lease_extended_at) + dispatcher.ack_lease_s


def overdue(dispatcher: Dispatcher, now: float) -> list[Worker]:
    """Workers whose lease has ended, in join order; the caller lets them leave."""
    ends = ((worker, lease_end(dispatcher, worker)) for worker in dispatcher.workers.values())
    return [worker for worker, end in ends if end is not None and end <= now]


def next_look(dispatcher: Dispatcher, now: float) -> float | None:
    """When to call `overdue` again: no lease ends before, new ones included. None without leases or workers.

    What is sent later ends later than a lease from now.
    """
    if not dispatcher.ack_lease_s or not dispatcher.workers:
        return None
    latest = now + dispatcher.ack_lease_s
    ends = (lease_end(dispatcher, worker) for worker in dispatcher.workers.values())
    return min((end for end in ends if end is not None), default=latest)
