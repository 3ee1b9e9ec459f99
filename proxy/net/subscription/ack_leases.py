"""Takes keys away from workers whose ack lease has ended, by one timer of the subscription.

A gateway that stood still (a suspended machine, a long stall) finds every lease over when it wakes, and the acks that
came meanwhile unread. So a timer that goes off late takes nothing away: workers get `GRACE_S` to be heard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.core import ack_lease
from proxy.core.positions import format_position
from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from proxy.core.worker import Worker
    from proxy.net.subscription.membership import Membership
    from proxy.net.subscription.quarantines import Quarantines
    from proxy.net.subscription.state import SubscriptionState

LATE_S: Final = 0.5
"""A timer that is so late tells of a gateway that stood still."""
GRACE_S: Final = 1.0
"""How long what was sent meanwhile may take to be read."""
APART_SHARE: Final = 0.05
APART_S_MIN: Final = 0.05
APART_S_MAX: Final = 1.0
"""Looks are so far apart, as a share of the lease and at least and at most: each looks at every worker, and clients
choose the lease. So one ends that much later at most."""
REASON: Final = "its ack lease ended"

log = structlog.get_logger("keyline.subscription")


def apart_s(lease_s: float) -> float:
    """How far two looks are apart at least."""
    return min(max(APART_SHARE * lease_s, APART_S_MIN), APART_S_MAX)


class AckLeases:
    """Of one subscription's workers."""

    def __init__(self, state: SubscriptionState, membership: Membership, quarantines: Quarantines) -> None:
        """No worker has joined."""
        self._state = state
        self._membership = membership
        self._quarantines = quarantines
        self._timer = Alarm(state.clock)
        self._due_at = 0.0
        self._earliest = 0.0
        """No look is due before, also when workers come or go."""

    def look_again(self) -> None:
        """Workers have come or gone, or the lease is another one."""
        now = self._state.now()
        due_at = None if self._state.ended else ack_lease.next_look(self._state.dispatcher, now)
        if due_at is None:
            self.stop()
        elif not self._timer.is_set or max(due_at, self._earliest) < self._due_at:
            self._set(max(due_at, now, self._earliest), now)

    def stop(self) -> None:
        """No lease is looked at any more."""
        self._timer.cancel()

    def _set(self, due_at: float, now: float) -> None:
        self._due_at = due_at
        self._timer.set(due_at - now, self._look)

    def _look(self) -> None:
        now = self._state.now()
        if now - self._due_at > LATE_S:
            self._earliest = now + GRACE_S
            self._set(self._earliest, now)
            return
        workers = [
            worker
            for worker in ack_lease.overdue(self._state.dispatcher, now)
            if not self._membership.subscribers[worker.index].ended  # else it is on its way out, and counted
        ]
        for worker in workers:
            self._tell(worker, now)
        self._earliest = now + apart_s(self._state.dispatcher.ack_lease_s)
        self._quarantines.lost_leases(workers, now)
        self._membership.close_each(workers, REASON)
        self.look_again()

    def _tell(self, worker: Worker, now: float) -> None:
        state = self._state
        state.counters.ack_leases_lost += 1
        oldest = ack_lease.held_longest(worker)
        assert oldest is not None
        facts = {
            "worker": worker.name,
            "messages": worker.unacked,
            "position": format_position(oldest.position),
            "held_s": now - oldest.sent_at,
        }
        state.happened("ack_lease_lost", **facts)
        log.warning("worker lost its ack lease", topic=state.topic, subscription=state.name, **facts)
