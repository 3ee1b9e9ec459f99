"""All sessions: creates one for each accepted client, within the bounds.

A connection beyond a bound gets an error and is closed before a session is created, because memory and file descriptors
are scarce then. Counts of ended sessions are added up here, so that totals never fall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.net.relay.statistics import SessionCounters, counts
from proxy.net.server_statistics import ServerStatistics
from proxy.net.session.end_cause import EndCause
from proxy.net.session.session import ClientSession
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import error_frame

if TYPE_CHECKING:
    from proxy.net.ports import Transport
    from proxy.net.session.services import SessionServices


class RefusedConnection:
    """Receiver of a connection that may not be: says why and closes."""

    unacked = 0
    """It has nothing."""

    def __init__(self, reason: str) -> None:
        """`reason` is told to the client."""
        self._reason = reason

    def opened(self, transport: Transport) -> None:
        """Say so and close."""
        transport.write(error_frame(pb.NotAllowedError, self._reason))
        transport.close()

    def received(self, data: bytes) -> None:
        """Ignore it."""

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Nothing more is to be written."""

    def closed(self, reason: str) -> None:
        """Nothing is left to do."""


class Sessions:
    """All client sessions of this gateway. Knows no socket: `admit` gives the receiver for a new connection."""

    def __init__(self, services: SessionServices) -> None:
        """No session yet."""
        self._services = services
        self._limits = services.limits
        self._sessions: dict[ClientSession, str] = {}
        self._per_address: Counter[str] = Counter()
        """Of sessions and of those that shake hands."""
        self._handshakes = 0
        self._past = SessionCounters()
        self._ended: Counter[EndCause] = Counter()
        self._connections_total = 0
        self._refused_total = 0
        self._refused_per_address_total = 0
        self._when_empty: Callable[[], None] | None = None

    def admit(self, peer: str) -> ClientSession | RefusedConnection:
        """Give the receiver for a connection from `peer` (``host:port``): a session, or one that refuses it."""
        self._connections_total += 1
        address = address_of(peer)
        refusal = self._refusal(address)
        if refusal:
            return RefusedConnection(refusal)
        session = ClientSession(self._services, self._session_ended, self._connections_total)
        self._sessions[session] = address
        self._per_address[address] += 1
        return session

    def reserve(self, peer: str) -> bool:
        """Take a place for a connection that has to shake hands first; False if there is none.

        Nothing can be said to it before the handshake, and one that is refused gets none.
        """
        address = address_of(peer)
        if self._refusal(address):
            self._connections_total += 1
            return False
        self._handshakes += 1
        self._per_address[address] += 1
        return True

    def give_up(self, peer: str) -> None:
        """Its handshake is over: a session takes a place of its own."""
        self._handshakes -= 1
        self._leave(address_of(peer))

    def _refusal(self, address: str) -> str:
        """Why one more connection from there may not be, counted; empty if it may."""
        if len(self._sessions) + self._handshakes >= self._limits.connections_max:
            self._refused_total += 1
            return f"Reached the maximum number of connections: {self._limits.connections_max}"
        per_address_max = self._limits.connections_per_address_max
        if per_address_max and self._per_address[address] >= per_address_max:
            self._refused_per_address_total += 1
            return f"Reached the maximum number of connections from {address}: {per_address_max}"
        return ""

    def _leave(self, address: str) -> None:
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def bound(self, connections_max: int, connections_per_address_max: int) -> None:
        """Other bounds for connections from now on; those that stand stay."""
        self._limits = replace(
            self._limits, connections_max=connections_max, connections_per_address_max=connections_per_address_max
        )

    def close_all(self) -> None:
        """End every session; their clients come back to another replica."""
        for session in list(self._sessions):
            session.close()

    def when_empty(self, callback: Callable[[], None]) -> None:
        """Call once when no connection stands, or at once if none does; a later call takes the place of an earlier."""
        if self._sessions:
            self._when_empty = callback
        else:
            callback()

    def statistics(self, *, accepting: bool, handshakes_failed_total: int = 0) -> ServerStatistics:
        """Freeze the sums."""
        totals = SessionCounters()
        totals.add(self._past)
        for session in self._sessions:
            totals.add(session.counters)
        return ServerStatistics(
            accepting=accepting,
            connections=len(self._sessions),
            connections_total=self._connections_total,
            handshakes=self._handshakes,
            handshakes_failed_total=handshakes_failed_total,
            refused_total=self._refused_total,
            refused_per_address_total=self._refused_per_address_total,
            ended_total={cause.value: self._ended[cause] for cause in EndCause},
            counters=counts(totals),
        )

    def _session_ended(self, session: ClientSession) -> None:
        self._leave(self._sessions.pop(session))
        self._past.add(session.counters)
        if session.cause is not None:
            self._ended[session.cause] += 1
        if not self._sessions and self._when_empty is not None:
            callback, self._when_empty = self._when_empty, None
            callback()


def address_of(peer: str) -> str:
    """Without the port."""
    return peer.rpartition(":")[0]
