"""Lookups that a broker answers with "ask that other broker": followed here, on the client's behalf and credentials.

Clients could follow a redirect themselves, but the C++ client (so Python and Node) and the Java client connect to the
broker of a redirect directly, regardless of `proxy_through_service_url`, and then bypass the gateway; only Go stays.
Pulsar's own proxy follows redirects for the same reason.

A leg to a redirect's broker is kept while lookups come and closed when it was idle for a keep-alive interval: a client
that looks up a thousand partitions meets the same few brokers again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from proxy.net.alarm import Alarm
from proxy.net.relay.leg import UpstreamLeg
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import refusal_frame

if TYPE_CHECKING:
    from proxy.limits import Limits
    from proxy.net.ports import Clock, Connector
    from proxy.net.relay.identity import Identity
    from proxy.service_url import ServiceUrl

_T = pb.BaseCommand

Answered = Callable[[pb.BaseCommand], None]


class Asked(NamedTuple):
    """A lookup and its caller."""

    lookup: pb.CommandLookupTopic
    answered: Answered


class RedirectedLookups:
    """All redirect legs of one client."""

    def __init__(self, connector: Connector, clock: Clock, limits: Limits, identity: Identity) -> None:
        """`identity` is the one that the client's relay has."""
        self._connector = connector
        self._clock = clock
        self._limits = limits
        self._identity = identity
        self._legs: dict[str, _LookupLeg] = {}

    def ask(self, broker: ServiceUrl, lookup: pb.CommandLookupTopic, answered: Answered) -> None:
        """Put `lookup` to `broker`; its request id is the client's and so unique on every leg.

        `answered` gets the LOOKUP_RESPONSE: a further redirect perhaps, or a failure of our making.
        """
        leg = self._legs.get(str(broker))
        if leg is None:
            if len(self._legs) >= self._limits.redirect_connections_max:
                refuse(Asked(lookup, answered), f"lookups of this connection already ask {len(self._legs)} brokers")
                return
            leg = _LookupLeg(self, str(broker), self._identity, self._clock, self._limits)
            self._legs[str(broker)] = leg
            self._connector.connect(str(broker), leg.upstream)
        leg.ask(Asked(lookup, answered))

    def close(self) -> None:
        """The client has gone."""
        legs, self._legs = self._legs, {}
        for leg in legs.values():
            leg.close()

    def leg_ended(self, address: str, waiting: list[Asked], reason: str) -> None:
        """Drop a leg, and refuse what it did not answer."""
        self._legs.pop(address, None)
        for asked in waiting:
            refuse(asked, reason)


def refuse(asked: Asked, reason: str) -> None:
    """Answer a lookup with a failure that makes the client try again."""
    asked.answered(frames.parse_command(refusal_frame(_T.LOOKUP, asked.lookup, reason)))


class _LookupLeg:
    """Lookups on one upstream leg; implements `LegOwner`."""

    def __init__(
        self, owner: RedirectedLookups, address: str, identity: Identity, clock: Clock, limits: Limits
    ) -> None:
        self._owner = owner
        self._address = address
        self._idle_s = limits.keep_alive_s
        self._queue: deque[Asked] = deque()
        self._waiting: dict[int, Asked] = {}
        self._idle_timer = Alarm(clock)
        self.upstream = UpstreamLeg(self, identity, clock, limits)

    def ask(self, asked: Asked) -> None:
        self._idle_timer.cancel()
        if not self.upstream.ready:
            self._queue.append(asked)
            return
        self._waiting[asked.lookup.request_id] = asked
        self.upstream.write(frames.encode_command(_T(type=_T.LOOKUP, lookupTopic=asked.lookup)))

    def close(self) -> None:
        self._idle_timer.cancel()
        self.upstream.close()

    def leg_connected(self, _connected: pb.CommandConnected) -> None:
        while self._queue:
            self.ask(self._queue.popleft())

    def leg_challenged(self, _frame: bytes) -> None:
        # The client answers challenges of its own leg only; it could not tell two brokers apart.
        self.upstream.close()
        self.leg_lost("the broker asked for other credentials than the first one did", None)

    def leg_data(self, data: bytes, frame_count: int) -> None:
        """Nothing was asked for that would be answered with data."""

    def leg_command(self, command: pb.BaseCommand, _frame: bytes) -> None:
        if command.type != _T.LOOKUP_RESPONSE:
            return
        asked = self._waiting.pop(command.lookupTopicResponse.request_id, None)
        if asked is None:
            return
        if not self._waiting:
            self._idle_timer.set(self._idle_s, self._idle)
        asked.answered(command)

    def leg_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Lookups are small and bounded by the client's unanswered requests."""

    def leg_lost(self, reason: str, _refusal: pb.CommandError | None) -> None:
        self._idle_timer.cancel()
        waiting = [*self._waiting.values(), *self._queue]
        self._waiting.clear()
        self._queue.clear()
        self._owner.leg_ended(self._address, waiting, reason)

    def _idle(self) -> None:
        self.close()
        self._owner.leg_ended(self._address, [], "idle")
