"""Keeps a subscription alive after its last worker leaves until the broker has confirmed every ack.

The last worker may leave while the broker is down, or hangs. If the subscription ended with it, acknowledged messages
would be redelivered to the next worker (G4). So it stays, without workers, until the broker has confirmed every ack:
one round trip usually, a reconnect at worst. After a bound the acks are dropped, with a line in the log; the messages
are redelivered then (G3).

A client that waits for the answer to its close waits for that round trip too, but for no outage, and for the end of no
transaction: it may be the one that ends it afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Timer
    from proxy.net.subscription.state import Lifecycle, SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers

CLOSING_S_MAX: Final = 300.0
"""Time after which unconfirmed acks are dropped."""

log = structlog.get_logger("keyline.subscription")


class Closing:
    """Holds callbacks that wait for the end of one subscription without workers."""

    def __init__(self, state: SubscriptionState, consumers: UpstreamConsumers, lifecycle: Lifecycle) -> None:
        """Not under way."""
        self._state = state
        self._consumers = consumers
        self._lifecycle = lifecycle
        self._timer: Timer | None = None
        self._waiting: list[Callable[[], None]] = []

    @property
    def under_way(self) -> bool:
        """Whether the last worker has left and the subscription has not ended."""
        return self._timer is not None

    @property
    def owes(self) -> bool:
        """Whether there are acks that the broker has not confirmed, or whose transaction has not ended."""
        return bool(self._unconfirmed or self._state.dispatcher.in_transaction) and self._consumers.stands

    @property
    def _unconfirmed(self) -> bool:
        outstanding, acks = self._state.dispatcher.outstanding, self._state.acks
        unconfirmed = outstanding.unconfirmed or outstanding.acks or outstanding.index_acks or acks.indexes_unanswered
        return bool(unconfirmed) or self._state.transactions.unanswered

    def begin(self, done: Callable[[], None] | None) -> None:
        """The last worker left; `done` is called when the broker knows it, or cannot be told now. May be repeated."""
        if done is not None:
            self.wait(done)
        if self._timer is None:
            self._timer = self._state.clock.call_later(CLOSING_S_MAX, self._too_late)
            self._state.acks.watcher = self._answered
        self.release_if_lost()
        self.still_owes()

    def wait(self, done: Callable[[], None]) -> None:
        """Call this too at the next `release`."""
        self._waiting.append(done)

    def end(self) -> None:
        """It is over: a worker joined, or the subscription ends. Waiting callers keep waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._state.acks.watcher = None

    def release(self) -> None:
        """End all waits."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()

    def release_if_lost(self) -> None:
        """The broker cannot be told now: an outage is not waited for."""
        if self._consumers.first_ready() is None:
            self.release()

    def still_owes(self) -> bool:
        """As `owes`; ends all waits where only transactions are left that have not ended."""
        owes = self.owes
        if owes and not self._unconfirmed:
            self.release()
        return owes

    def _answered(self, error: Exception | None) -> None:
        """The broker answered acks; callers that wait for the confirmation do not wait for a second attempt."""
        if error is None:
            self._state.schedule_flush()
        else:
            self.release()

    def _too_late(self) -> None:
        log.warning(
            "unconfirmed acks dropped",
            topic=self._state.topic,
            subscription=self._state.name,
            acks=len(self._state.dispatcher.outstanding.unconfirmed),
        )
        self._lifecycle.end()
