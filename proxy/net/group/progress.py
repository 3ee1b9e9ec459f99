"""The progress of a subscription's streams at this replica, which the leader uses for the balance and stores.

One walk over the outstanding entries covers all streams. It runs once per heartbeat, so that deliveries cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.entry import Batch
from proxy.groups.streams import StreamState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.stream_leases import StreamLeases
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers


class GroupProgress:
    """Of one subscription; remembers what it saw to tell rates."""

    def __init__(self, state: SubscriptionState, consumers: UpstreamConsumers) -> None:
        """Nothing seen yet."""
        self._state = state
        self._consumers = consumers
        self._seen: dict[int, tuple[float, int]] = {}
        """When, and how many messages had come by then, by stream."""

    def states(self) -> Iterator[StreamState]:
        """Of every stream that is consumed here now."""
        leases = self._state.dispatcher.leases
        if leases is None:
            return
        lowest, pending = self._walk(leases)
        now = self._state.now()
        consumers = list(self._consumers)
        self._seen = {
            consumer.stream: self._seen.get(consumer.stream, (now, consumer.window.arrived)) for consumer in consumers
        }
        for consumer in consumers:
            stream = consumer.stream
            before, count = self._seen[stream]
            self._seen[stream] = (now, consumer.window.arrived)
            rate = (consumer.window.arrived - count) / (now - before) if now > before else 0.0
            first = lowest.get(stream)
            acknowledged = consumer.receiving.last_position if first is None else first - 1
            yield StreamState(stream, acknowledged, pending.get(stream, 0), rate)

    def _walk(self, leases: StreamLeases) -> tuple[dict[int, int], dict[int, int]]:
        """The lowest position that is not acknowledged, and the messages that workers have, by stream."""
        lowest: dict[int, int] = {}
        pending: dict[int, int] = {}
        for position, entry in self._state.dispatcher.outstanding.entries.items():
            parts = entry.parts if isinstance(entry, Batch) else (entry,)
            stream = leases.stream_of(parts[0].slot)
            lowest[stream] = min(position, lowest.get(stream, position))
            pending[stream] = pending.get(stream, 0) + sum(part.count for part in parts if part.holder is not None)
        return lowest, pending
