"""Keeps workers that lose their ack lease again and again from keys for a time, across their reconnects.

Who is quarantined is known to all of the gateway (`proxy.core.quarantine`), because a subscription ends with its last
worker. Here is what follows for one subscription: its workers in quarantine are connected and own no slot
(`Membership`), and join when it ends. They join at once when no other worker is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from proxy.core.quarantine import QuarantineRule, WorkerName
from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.worker import Worker
    from proxy.net.subscription.membership import Membership
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import SubscriptionState

log = structlog.get_logger("keyline.subscription")


class Quarantines:
    """Of one subscription."""

    def __init__(self, state: SubscriptionState, services: Services, membership: Membership) -> None:
        """No worker has joined."""
        self._state = state
        self._quarantine = services.quarantine
        self._membership = membership
        self._timer = Alarm(state.clock)

    def lost_leases(self, workers: Sequence[Worker], now: float) -> None:
        """These lose their leases, and have not left yet."""
        settings, state = self._state.settings, self._state
        if not workers or not settings.quarantine_after:
            return
        lasts_s = settings.quarantine_ms / 1_000
        rule = QuarantineRule(settings.quarantine_after, lasts_s, state.dispatcher.ack_lease_s)
        kept = len(state.dispatcher.workers) - len(workers)
        quarantined = sum(1 for _ in self._quarantine.names_in(*state.key, now))
        for worker in workers:
            who = WorkerName(*state.key, worker.name)
            if self._quarantine.lost_lease(who, rule, now, spared=kept <= quarantined):
                quarantined += 1
                state.counters.quarantines += 1
                state.happened("worker_quarantined", worker=worker.name, lasts_s=lasts_s)
                log.warning(
                    "worker quarantined",
                    topic=state.topic,
                    subscription=state.name,
                    worker=worker.name,
                    lasts_s=lasts_s,
                )

    def look_again(self) -> None:
        """Workers have come or gone."""
        self.stop()
        ends = self._state.dispatcher.quarantined
        if ends and not self._state.ended:
            now = self._state.now()
            due_at = min(ends.values()) if self._membership.subscribers else now
            self._timer.set(max(0.0, due_at - now), self._end)

    def stop(self) -> None:
        """No quarantine is waited for any more."""
        self._timer.cancel()

    def release(self, name: str) -> None:
        """End the quarantine of a worker, connected or not; the caller lets it join."""
        self._quarantine.release(WorkerName(*self._state.key, name))

    def _end(self) -> None:
        """Of those that it is over for; of all where no other worker is left."""
        now, alone = self._state.now(), not self._membership.subscribers
        over = [name for name, at in self._state.dispatcher.quarantined.items() if alone or at <= now]
        for name in over:
            self.release(name)
            self._state.happened("quarantine_ended", worker=name)
            self._membership.readmit(name)
        self.look_again()
