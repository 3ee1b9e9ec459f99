"""How many subscriptions and workers there may be, and how many were turned away.

A subscription costs memory also when nothing is sent: its ring of hash points, its consumer at the broker. So there is
a bound for each kind, and one more is told so in the broker's own words and codes: ConsumerBusy for a worker too many
(`PersistentDispatcherMultipleConsumers.addConsumer`), NotAllowedError for a subscription too many
(`PersistentTopic.internalSubscribe`).

A worker takes its place with its SUBSCRIBE, not when it has joined: a crowd that comes at once waits for the broker
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.errors import ClientError
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.subscription.settings import SubscriptionSettings


class Places:
    """The one who counts workers and those that found no place."""

    def __init__(self, settings: SubscriptionSettings) -> None:
        """Nobody is here."""
        self._settings = settings
        self.workers = 0
        """Workers that are here, joined or joining."""
        self.workers_turned_away_total = 0
        self.workers_per_subscription_turned_away_total = 0
        self.subscriptions_turned_away_total = 0

    def check(self, subscriptions: int, workers_of_subscription: int | None) -> None:
        """Let one more worker in; `workers_of_subscription` is None where it would be the first of a new subscription.

        Raises:
            ClientError: a bound is reached; that was counted.
        """
        settings = self._settings
        if self.workers >= settings.workers_max:
            self.workers_turned_away_total += 1
            raise ClientError(f"Gateway reached max consumers limit: {settings.workers_max}", pb.ConsumerBusy)
        if workers_of_subscription is None:
            if subscriptions >= settings.subscriptions_max:
                self.subscriptions_turned_away_total += 1
                raise ClientError(f"Exceed the maximum number of subscriptions here: {settings.subscriptions_max}")
        elif 0 < settings.workers_per_subscription_max <= workers_of_subscription:
            self.workers_per_subscription_turned_away_total += 1
            raise ClientError(
                f"Subscription reached max consumers limit: {settings.workers_per_subscription_max}", pb.ConsumerBusy
            )

    def worker_came(self) -> None:
        """A worker begins to join."""
        self.workers += 1

    def worker_left(self) -> None:
        """A worker has left, or never came in."""
        assert self.workers > 0
        self.workers -= 1
