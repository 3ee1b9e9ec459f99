"""Open connections to brokers, by broker.

Each broker gets a fixed number of connections, opened on demand and used in turn; requests for a connection that is
being opened wait for it. A lost connection leaves the pool before its users are notified, so none of them gets it
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.errors import KeylineError, UpstreamUnavailable
from proxy.net.broker.connection import BrokerConnection
from proxy.net.broker.settings import BrokerSettings, BrokerTarget
from proxy.net.broker.statistics import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.net.broker.lookup import GotConnection
    from proxy.net.ports import Clock, Connector


class BrokerPool:
    """Owner of every connection of the gateway's own."""

    def __init__(self, connector: Connector, clock: Clock, settings: BrokerSettings) -> None:
        """Open nothing yet."""
        self._connector = connector
        self._clock = clock
        self._settings = settings
        self._connections: dict[BrokerTarget, list[BrokerConnection | None]] = {}
        self._turn: dict[BrokerTarget, int] = {}
        self._waiting: dict[BrokerConnection, list[GotConnection]] = {}
        self._closed_because: str | None = None
        self._when_gone: Callable[[], None] = _nothing

    def acquire(self, target: BrokerTarget, got: GotConnection) -> None:
        """Hand over a connected connection, at once if one stands, or why there is none."""
        if self._closed_because is not None:
            got(UpstreamUnavailable(self._closed_because))
            return
        places = self._connections.setdefault(target, [None] * self._settings.connections_per_broker)
        turn = self._turn.get(target, 0)
        self._turn[target] = (turn + 1) % len(places)
        connection = places[turn]
        if connection is None:
            connection = BrokerConnection(target, self._settings, self._clock, self._ready, self._ended)
            places[turn] = connection
            self._waiting[connection] = [got]
            self._connector.connect(target.service_url, connection)
        elif connection.state is State.READY:
            got(connection)
        else:
            self._waiting[connection].append(got)

    def states(self) -> Iterator[State]:
        """Of every connection that stands or is being opened."""
        return (place.state for places in self._connections.values() for place in places if place is not None)

    def close(self, reason: str, gone: Callable[[], None]) -> None:
        """Close all, and refuse from now on; `gone` is called when the last is closed, perhaps at once."""
        self._closed_because = reason
        if not self._connections:
            gone()
            return
        self._when_gone = gone
        for connection in [connection for places in self._connections.values() for connection in places]:
            if connection is not None:
                connection.close(reason)

    def _ready(self, connection: BrokerConnection) -> None:
        for got in self._waiting.pop(connection, []):
            got(connection)

    def _ended(self, connection: BrokerConnection, error: KeylineError) -> None:
        places = self._connections[connection.target]
        places[places.index(connection)] = None
        if not any(places):
            del self._connections[connection.target], self._turn[connection.target]
        for got in self._waiting.pop(connection, []):
            got(error)
        if not self._connections:
            when_gone, self._when_gone = self._when_gone, _nothing
            when_gone()


def _nothing() -> None:
    """No callback for the last close is set."""
