"""How many transactions are open in subscriptions: brokers' admin API is asked, on behalf of all subscriptions here.

Problem: a gateway, or a replica after a failover, takes thousands of subscriptions over at once, and most brokers have
no transactions at all. Rules: at most `AT_ONCE` requests are under way. That brokers have none, or do not tell, is
remembered for a while and goes for all. While many wait, the coordinators are asked for the number of all open
transactions besides: none at all is the answer for everyone who waited then.

Source: `Transactions.getPendingAckStats`, `Transactions.getCoordinatorStats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import structlog

from proxy.errors import KeylineError, UpstreamUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock

Key: TypeAlias = tuple[str, str]
"""Topic and subscription."""

AT_ONCE: Final = 8
"""Requests under way."""
CROWD: Final = 64
"""From so many that wait the coordinators are asked, too. One alone does not: that costs brokers a request for each."""
CROWD_AGAIN_S: Final = 10.0
"""Not again for so long, if they had open ones or did not tell."""
WITHOUT_S: Final = 60.0
"""So long brokers are taken to have no transactions after they said so."""
SILENT_S: Final = 10.0
"""So long an admin API that does not tell is not asked again."""
PATIENCE_S: Final = 5.0
"""An admin API that has failed for so long is not waited for."""
FORGET_S: Final = 60.0
"""A failure so long ago says nothing of one now."""

log = structlog.get_logger("keyline.subscription")


class WithoutTransactions(KeylineError):
    """The brokers have no transactions: they run no coordinator."""


class NotTold(KeylineError):
    """The broker does not tell of this subscription; to ask again does not help."""


class MayNotAsk(NotTold):
    """The gateway has no access to the admin API."""


class TransactionStats(Protocol):
    """Who asks a broker.

    Each calls `answered` in a later turn, once: with a number, or with the error. `WithoutTransactions` and `MayNotAsk`
    go for all subscriptions, as does `UpstreamUnavailable` when nothing else comes for a while: the admin API cannot be
    reached, and not one broker behind it. Others go for the one.
    """

    def of_subscription(self, key: Key, answered: Callable[[int | Exception], None]) -> None:
        """How many transactions have a part in a subscription that has a consumer."""

    def of_coordinators(self, answered: Callable[[int | Exception], None]) -> None:
        """How many transactions are open at all."""


class Ask:
    """One question; implements `Timer`."""

    def __init__(self, key: Key, answered: Callable[[int | Exception], None]) -> None:
        """Not asked yet."""
        self.key = key
        self._answered: Callable[[int | Exception], None] | None = answered

    def cancel(self) -> None:
        """The answer is not wanted any more."""
        self._answered = None

    def answer(self, told: int | Exception) -> None:
        """Pass it on, once."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(told)

    @property
    def wanted(self) -> bool:
        """Whether someone waits for the answer."""
        return self._answered is not None


class TakeoverAsks:
    """Those of a gateway."""

    def __init__(self, stats: TransactionStats, clock: Clock) -> None:
        """Nothing is asked yet."""
        self._stats = stats
        self._clock = clock
        self._waiting: dict[Ask, None] = {}
        self._under_way = 0
        self._for_all: int | Exception = 0
        self._for_all_until = clock.now()
        self._failing_since: float | None = None
        self._failed_at = clock.now()
        self._asks_coordinators = False
        self._coordinators_at = clock.now()

    @property
    def given_up(self) -> bool:
        """Whether the admin API has not told anything for so long that it is not waited for."""
        since, now = self._failing_since, self._clock.now()
        return since is not None and since + PATIENCE_S <= now <= self._failed_at + FORGET_S

    def ask(self, key: Key, answered: Callable[[int | Exception], None]) -> Ask:
        """Ask how many transactions are open in a subscription; `answered` is called as `TransactionStats` says."""
        ask = Ask(key, answered)
        if self._clock.now() < self._for_all_until:
            told = self._for_all
            self._clock.call_soon(lambda: ask.answer(told))
        else:
            self._waiting[ask] = None
            self._go_on()
        return ask

    def _go_on(self) -> None:
        while self._waiting and self._under_way < AT_ONCE:
            ask = next(iter(self._waiting))
            del self._waiting[ask]
            if ask.wanted:
                self._under_way += 1
                self._stats.of_subscription(ask.key, lambda told, ask=ask: self._told(ask, told))  # type: ignore[misc]
        if len(self._waiting) >= CROWD and not self._asks_coordinators and self._coordinators_at <= self._clock.now():
            self._asks_coordinators = True
            crowd = list(self._waiting)
            self._stats.of_coordinators(lambda told: self._coordinators_told(crowd, told))

    def _told(self, ask: Ask, told: int | Exception) -> None:
        self._under_way -= 1
        if isinstance(told, WithoutTransactions):
            told = 0
            self._failing_since = None
            self._remember(0, WITHOUT_S)
        elif isinstance(told, MayNotAsk | UpstreamUnavailable):
            self._failed(told)
        else:
            self._failing_since = None
        ask.answer(told)
        self._go_on()

    def _failed(self, error: Exception) -> None:
        """No number is told. Those who wait are asked for all the same, until it has failed for long."""
        now = self._clock.now()
        if self._failing_since is None or now - self._failed_at > FORGET_S:
            self._failing_since = now
            log.warning(
                "open transactions are not known after takeovers",
                error=str(error),
                advice="give the gateway access to the admin API of broker_admin_url, or set takeover_wait_s to 0",
            )
        self._failed_at = now
        if isinstance(error, MayNotAsk) or self.given_up:
            self._remember(error, SILENT_S)

    def _remember(self, told: int | Exception, seconds: float) -> None:
        self._for_all, self._for_all_until = told, self._clock.now() + seconds
        waiting, self._waiting = self._waiting, {}
        for ask in waiting:
            ask.answer(told)

    def _coordinators_told(self, crowd: list[Ask], told: int | Exception) -> None:
        """Those who came later may have a transaction that was begun later."""
        self._asks_coordinators = False
        if told != 0:
            self._coordinators_at = self._clock.now() + CROWD_AGAIN_S
            return
        for ask in crowd:
            self._waiting.pop(ask, None)
            ask.answer(0)
        self._go_on()
