"""The brokers' admin API, as far as gateways ask it: how many transactions have a part in a subscription.

The answer is true when it is made, and comes a while later. One that cannot be had is told as an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from proxy.errors import UpstreamUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.sim.machine import Process

WAY_S = 0.02
"""Mean, there and back each."""

Count: TypeAlias = "Callable[[tuple[str, str]], int | None]"
"""Of a topic and a subscription; None if that cannot be told now."""


class AdminApi:
    """Implements `TransactionStats` for one process of a gateway."""

    def __init__(self, there: Process, here: Process, dice: random.Random, count: Count) -> None:
        """`there` is the API's process, which stands still for no gateway's sake; `here` is who asks."""
        self._there = there
        self._here = here
        self._dice = dice
        self._count = count

    def of_subscription(self, key: tuple[str, str], answered: Callable[[int | Exception], None]) -> None:
        """As the protocol says."""

        def tell() -> None:
            count = self._count(key)
            told = UpstreamUnavailable("the broker is gone") if count is None else count
            self._here.call_later(self._way_s(), lambda: answered(told))

        self._there.call_later(self._way_s(), tell)

    def of_coordinators(self, answered: Callable[[int | Exception], None]) -> None:
        """As the protocol says; subscriptions are too few here for that to be asked."""
        raise AssertionError(answered)

    def _way_s(self) -> float:
        return self._dice.expovariate(1.0) * WAY_S
