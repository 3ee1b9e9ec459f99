"""The first look at a subscription that a gateway takes over: what is in open transactions comes first, or not at all.

Problem: a gateway was killed, or a replica lost its lease, while workers had acknowledged messages in transactions that
have not ended. The broker keeps such messages back and sends later ones of their keys. After an abort the older message
would come behind them. Which messages these are, the broker does not tell; how many transactions have a part in the
subscription, its admin API does.

Rule: once the gateway's first consumer is subscribed, the number is asked for, and no permits are granted while it is
not 0. Then the broker has sent nothing, and sends aborted messages first, since it reads in order what it has not sent.
Why not take messages and keep them back: they would fill the memory, and the workers get them no sooner.

Bounds: transactions end or time out at their coordinators. A subscription waits at most `takeover_wait_s`, because
workers that acknowledge past the gateway may always have a transaction open, and for a first answer `FIRST_S`; if the
admin API fails, `PATIENCE_S`, behind others twice that. Then it goes on, and that is counted: order may be lost after
an abort. So those who may consume from a subscription can delay it after a takeover, for this time and not longer.

Not for streams, which take no acknowledgements in transactions, nor without order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.core.words import counted, lasting
from proxy.net.alarm import Alarm
from proxy.net.subscription.takeover_asks import PATIENCE_S, NotTold

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Timer
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.takeover_asks import TakeoverAsks

AGAIN_S: Final = 0.5
"""Before the next question; twice as long each time, up to `AGAIN_S_MAX`."""
AGAIN_S_MAX: Final = 4.0
SETTLE_S: Final = 0.2
"""After the last transaction: a broker that aborts one is still putting its messages back."""
FIRST_S: Final = 30.0
"""So long a first answer is awaited, behind those of other subscriptions."""


class Takeover:
    """Of one subscription."""

    def __init__(self, state: SubscriptionState, asks: TakeoverAsks | None, go_on: Callable[[], None]) -> None:
        """It does not wait yet; `go_on` is called when it has waited. Without `asks` it never does."""
        self._state = state
        self._asks = asks if state.dispatcher.ordered and not state.streamed else None
        self._go_on = go_on
        self.waits = False
        """Whether nothing may be asked of the broker."""
        self.transactions = 0
        """Those that were open when the broker was asked last."""
        self._since = 0.0
        self._pause_s = AGAIN_S
        self._ask: Timer | None = None
        self._next = Alarm(state.clock)
        self._bound = Alarm(state.clock)

    @property
    def says(self) -> str:
        """What it waits for, as a clause; empty if it does not."""
        if not self.waits:
            return ""
        if not self.transactions:
            return "the gateway asks the broker whether transactions were open when it took the subscription over"
        left_s = max(0.0, self._since + self._state.settings.takeover_wait_s - self._state.now())
        transactions = f"{counted(self.transactions, 'transaction')} that {'was' if self.transactions == 1 else 'were'}"
        took = "open when it took the subscription over"
        return f"the gateway waits for {transactions} {took}, {lasting(left_s)} at most"

    def begin(self) -> None:
        """The first consumer is subscribed. Of no effect later on: what workers have done here since is known."""
        asks, self._asks = self._asks, None
        wait_s = self._state.settings.takeover_wait_s
        if asks is None or not wait_s:
            return
        self.waits = True
        self._since = self._state.now()
        self._bound.set(min(FIRST_S, wait_s), partial(self._give_up, "no answer"))
        self._look(asks)

    def stop(self) -> None:
        """It ends, or the subscription does."""
        self.waits = False
        self.transactions = 0
        if self._ask is not None:
            self._ask.cancel()
        self._next.cancel()
        self._bound.cancel()

    # ---- within

    def _look(self, asks: TakeoverAsks) -> None:
        self._ask = asks.ask(self._state.key, partial(self._answered, asks))

    def _answered(self, asks: TakeoverAsks, told: int | Exception) -> None:
        if isinstance(told, Exception):
            waited_s = self._state.now() - self._since
            if not self.transactions and (isinstance(told, NotTold) or asks.given_up or waited_s >= PATIENCE_S):
                self._give_up(str(told))
                return
        elif not told:
            if self.transactions:
                self._next.set(SETTLE_S, self._end)
            else:
                self._end()
            return
        else:
            self._count(told)
        self._next.set(self._pause_s, partial(self._look, asks))
        self._pause_s = min(2 * self._pause_s, AGAIN_S_MAX)

    def _count(self, transactions: int) -> None:
        if not self.transactions:
            self._state.happened("transactions_open", transactions_count=transactions)
            left_s = self._since + self._state.settings.takeover_wait_s - self._state.now()
            self._bound.set(max(0.0, left_s), partial(self._give_up, "takeover_wait_s"))
        self.transactions = transactions

    def _give_up(self, reason: str) -> None:
        self._state.counters.takeovers_at_risk += 1
        if self.transactions:
            self._state.happened("transactions_left_open", transactions_count=self.transactions, reason=reason)
        self._end()

    def _end(self) -> None:
        self.stop()
        self._go_on()
