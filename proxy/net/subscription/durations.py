"""How long messages took on a subscription, and on all subscriptions of a namespace or a gateway.

What is added up must not fall while Prometheus watches: a fall looks like a restart, and `rate()` would count all that
went before once more. So what an ended subscription had counted stays in its namespace's sum until no subscription of
that namespace is left, and in the gateway's for good.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.core.histogram import EMPTY, HistogramStatistics

if TYPE_CHECKING:
    from proxy.net.subscription.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Durations:
    """Histograms of one subscription, or of several together."""

    dispatch_latency: HistogramStatistics = EMPTY
    ack_latency: HistogramStatistics = EMPTY
    hand_over_duration: HistogramStatistics = EMPTY
    blocked_time: HistogramStatistics = EMPTY

    def __add__(self, other: Durations) -> Durations:
        """Both together."""
        return Durations(
            self.dispatch_latency + other.dispatch_latency,
            self.ack_latency + other.ack_latency,
            self.hand_over_duration + other.hand_over_duration,
            self.blocked_time + other.blocked_time,
        )


def durations_of(subscription: Subscription) -> Durations:
    """Of one, at this moment; of one that has ended, for good."""
    dispatcher = subscription.state.dispatcher
    return Durations(
        subscription.outbox.dispatch_latency.statistics(),
        dispatcher.ack_latency.statistics(),
        dispatcher.hand_over_duration.statistics(),
        dispatcher.blocked_time.statistics(),
    )


class AllDurations:
    """What subscriptions that have ended had counted, and which namespaces still have some."""

    def __init__(self) -> None:
        """There was none."""
        self._ended = Durations()
        self._ended_by_namespace: dict[str, Durations] = {}
        self._subscriptions: Counter[str] = Counter()
        """By namespace; bounds what is kept."""

    def began(self, topic: str) -> None:
        """A subscription of this topic."""
        self._subscriptions[namespace_of(topic)] += 1

    def ended(self, topic: str, durations: Durations) -> None:
        """It has counted these."""
        namespace = namespace_of(topic)
        self._ended += durations
        self._subscriptions[namespace] -= 1
        if self._subscriptions[namespace]:
            before = self._ended_by_namespace.get(namespace, Durations())
            self._ended_by_namespace[namespace] = before + durations
        else:
            del self._subscriptions[namespace]
            self._ended_by_namespace.pop(namespace, None)

    def of_ended(self) -> tuple[Durations, list[tuple[str, Durations]]]:
        """All together, and those of namespaces that have subscriptions."""
        return self._ended, list(self._ended_by_namespace.items())


def namespace_of(topic: str) -> str:
    """``tenant/namespace`` of a full topic name."""
    return topic.partition("://")[2].rpartition("/")[0]
