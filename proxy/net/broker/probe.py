"""Checks periodically whether the brokers can be reached, for the readiness check.

A check succeeds with an open connection, so it costs nothing in the normal case, and lookups can use the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from proxy.errors import KeylineError
    from proxy.net.broker.directory import Brokers
    from proxy.net.ports import Clock, Timer

INTERVAL_S = 2.0
"""Pause between an answer and the next question."""

log = structlog.get_logger("keyline.brokers")


class BrokerProbe:
    """Asks `Brokers.check` over and over; keeps the last answer."""

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        """Ask nothing before `start`."""
        self._brokers = brokers
        self._clock = clock
        self._timer: Timer | None = None
        self._stopped = False
        self.unreachable_because: str | None = "no broker was reached yet"
        """Why not, in words; None while the last answer was good."""

    def start(self) -> None:
        """Ask for the first time."""
        self._ask()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _ask(self) -> None:
        if not self._stopped:
            self._brokers.check(self._answered)

    def _answered(self, error: KeylineError | None) -> None:
        if self._stopped:
            return
        reason = str(error) if error is not None else None
        if reason != self.unreachable_because:
            if reason is None:
                log.info("brokers reached")
            else:
                log.warning("brokers not reached", reason=reason)
        self.unreachable_because = reason
        self._timer = self._clock.call_later(INTERVAL_S, self._ask)
