"""Faults that a test puts into the dispatcher by hand: the contract's monitor has to find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.core import serving
from proxy.net.subscription.state import SubscriptionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from proxy.core.contract_monitor import ContractMonitor
    from proxy.core.entry import Part
    from proxy.net.subscription.services import Services


def forget_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that moves does not wait for the messages that its former owner has."""
    new_monitor = SubscriptionState._new_monitor

    def broken(state: SubscriptionState, services: Services) -> ContractMonitor | None:
        monitor = new_monitor(state, services)
        # Nor has it a policy, as where no order is asked for: with one, it would look at what is held back for ever.
        state.dispatcher.ordered = state.dispatcher.by_slot = False
        return monitor

    monkeypatch.setattr(SubscriptionState, "_new_monitor", broken)


def put_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker gives back goes behind what waits."""

    def insert_all(queue: Any, parts: Sequence[Part]) -> None:
        queue.extend(parts)

    monkeypatch.setattr(serving, "insert_all", insert_all)
