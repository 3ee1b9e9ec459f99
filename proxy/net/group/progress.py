"""The progress of a subscription's streams at this replica, which the leader uses for the balance and stores.

One walk over the outstanding entries covers all streams, so that deliveries cost nothing. It is due at each report to
the leader; the more entries there are, the rarer it becomes, so that it never takes more than `WALKS_SHARE_MAX` of the
time. Between two walks a stream is as far as the last one found it, which is too little at worst; rates are of each
report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.core.entry import Batch
from proxy.groups.streams import StreamState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.positions import Position
    from proxy.core.stream_leases import StreamLeases
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumer, UpstreamConsumers

WALKS_SHARE_MAX: Final = 0.01
"""Of the time."""


@dataclass(slots=True)
class _Seen:
    """Of one consumer."""

    at: float
    """When its messages were counted last."""
    arrived: int
    acknowledged: Position | None = None
    pending_count: int = 0


class GroupProgress:
    """Of one subscription; remembers what it saw to tell rates."""

    def __init__(self, state: SubscriptionState, consumers: UpstreamConsumers) -> None:
        """Nothing seen yet."""
        self._state = state
        self._consumers = consumers
        self._seen: dict[UpstreamConsumer, _Seen] = {}
        self._walk_at = state.now()

    def states(self) -> Iterator[StreamState]:
        """Of every stream that is consumed here now."""
        leases = self._state.dispatcher.leases
        if leases is None:
            return
        now = self._state.now()
        before, self._seen = self._seen, {}
        for consumer in self._consumers:
            self._seen[consumer] = before.get(consumer) or _Seen(now, consumer.window.arrived)
        if now >= self._walk_at:
            self._walk(leases)
            self._walk_at = now + (self._state.now() - now) / WALKS_SHARE_MAX
        for consumer, seen in self._seen.items():
            count, seen.arrived = consumer.window.arrived - seen.arrived, consumer.window.arrived
            elapsed_s, seen.at = now - seen.at, now
            rate = count / elapsed_s if elapsed_s > 0 else 0.0
            yield StreamState(consumer.stream, seen.acknowledged, seen.pending_count, rate)

    def _walk(self, leases: StreamLeases) -> None:
        """Find the lowest position that is not acknowledged, and the messages that workers have, by stream."""
        lowest: dict[int, int] = {}
        pending: dict[int, int] = {}
        for position, entry in self._state.dispatcher.outstanding.entries.items():
            parts = entry.parts if isinstance(entry, Batch) else (entry,)
            stream = leases.stream_of(parts[0].slot)
            lowest[stream] = min(position, lowest.get(stream, position))
            pending[stream] = pending.get(stream, 0) + sum(part.count for part in parts if part.holder is not None)
        for consumer, seen in self._seen.items():
            first = lowest.get(consumer.stream)
            seen.acknowledged = consumer.receiving.last_position if first is None else first - 1
            seen.pending_count = pending.get(consumer.stream, 0)
