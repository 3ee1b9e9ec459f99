"""Tells of deliveries that broke the contract: to the log and to those who watch.

One line and one event for each kind and second of a subscription, with the first violation and how many there were: a
gateway that delivers wrongly may do so with every message. The metrics count them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from proxy.core.positions import format_position

if TYPE_CHECKING:
    from proxy.core.contract_monitor import ContractMonitor
    from proxy.core.contract_violations import Violation
    from proxy.net.subscription.state import SubscriptionState

APART_S: Final = 1.0
"""Between two tellings of one kind."""

log = structlog.get_logger("keyline.contract")


class ContractAlarm:
    """Of one subscription."""

    def __init__(self, state: SubscriptionState, monitor: ContractMonitor) -> None:
        """Nothing happened."""
        self._state = state
        self._monitor = monitor
        self._told: dict[str, int] = {}
        """Of each kind, how many violations were told of."""
        self._quiet_until: dict[str, float] = {}

    def ring(self) -> None:
        """Tell of what the monitor found, the first of each kind; it keeps none of them."""
        if not self._monitor.news:
            return
        news, self._monitor.news = self._monitor.news, []
        now = self._state.now()
        for violation in news:
            kind = violation.kind.value
            if now >= self._quiet_until.get(kind, now):
                self._quiet_until[kind] = now + APART_S
                self._tell(violation, self._monitor.violations[kind] - self._told.get(kind, 0))
                self._told[kind] = self._monitor.violations[kind]

    def _tell(self, violation: Violation, count: int) -> None:
        state = self._state
        facts: dict[str, Any] = {
            "violation": violation.kind.value,
            "violations_count": count,
            "slot": violation.slot,
            "message": _named(violation.position, violation.batch_index),
            "worker": violation.worker,
            "other_message": _named(violation.other_position, violation.other_batch_index),
            "other_worker": violation.other_worker,
        }
        state.events.happened("contract_violated", state.key, concerned=(violation.other_worker or None,), **facts)
        log.error("contract violated", topic=state.topic, subscription=state.name, **facts)


def _named(position: int, batch_index: int) -> str:
    """``ledger:entry:index``, as Pulsar prints the id of a message in a batch."""
    return f"{format_position(position)}:{batch_index}"
