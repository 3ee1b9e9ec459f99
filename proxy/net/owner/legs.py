"""What one client consumes at other replicas: each consumer by the leg to its owner, one leg for each owner.

A SUBSCRIBE whose owner is not known yet waits for it, within a bound: bundles that move are somebody's again after some
ten milliseconds, or, when their owner has died, after `group_drop_s`. Then the client is told to try again, which it
does by itself and not at once.

On a connection that another replica opened (`relays` false) nothing is led on: its consumers are served here or, after
the same wait, refused. So two replicas whose tables differ for a moment never send a client round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from proxy.groups.ownership import Owner
from proxy.net.handshake import upstream_connect
from proxy.net.owner.leg import LegClient, OwnerLeg
from proxy.net.owner.owners import HERE
from proxy.net.relay.identity import OwnIdentity
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import error_frame, refusal_frame

if TYPE_CHECKING:
    from proxy.limits import Limits
    from proxy.net.owner.owners import Owners
    from proxy.net.ports import Clock, Connector, Timer

_T = pb.BaseCommand

LEGS_MAX: Final = 64
"""Owners that one client connection may be led to at a time, each by a connection."""
OWNER_S_MAX: Final = 5.0
"""How long a SUBSCRIBE waits for its owner; clients wait six times as long for an answer."""


class _Waiting:
    """A consumer whose owner is not known yet."""

    __slots__ = ("command", "frame", "here", "look", "timer")

    def __init__(
        self, command: pb.CommandSubscribe, frame: bytes, here: Callable[[], None], look: Callable[[], None]
    ) -> None:
        self.command = command
        self.frame = frame
        self.here = here
        self.look = look
        self.timer: Timer | None = None


class ClientLegs:
    """Implements `session.elsewhere.Elsewhere`, and `leg.LegsOfClient` towards its legs."""

    def __init__(
        self,
        client: LegClient,
        connect: pb.CommandConnect,
        owners: Owners,
        connector_to: Callable[[Owner], Connector] | None,
        clock: Clock,
        limits: Limits,
    ) -> None:
        """`connect` is the client's CONNECT; `connector_to` opens its legs, None where nothing is led on."""
        self._client = client
        self._identity = OwnIdentity(upstream_connect(connect))
        self._owners = owners
        self._connector_to = connector_to
        self._clock = clock
        self._limits = limits
        self._legs: dict[str, OwnerLeg] = {}
        """By replica."""
        self._consumers: dict[int, OwnerLeg | _Waiting] = {}
        self._told_writable = True

    # ---- session.elsewhere.Elsewhere

    def __contains__(self, consumer_id: int) -> bool:
        """As it says."""
        return consumer_id in self._consumers

    def __len__(self) -> int:
        """As it says."""
        return len(self._consumers)

    def ready(self, consumer_id: int) -> bool:
        """As it says."""
        where = self._consumers[consumer_id]
        return isinstance(where, OwnerLeg) and where.ready(consumer_id)

    def subscribe(self, command: pb.CommandSubscribe, frame: bytes, here: Callable[[], None]) -> None:
        """As it says. A connection has so many consumers here, too, as it may have workers."""
        consumer_id = command.consumer_id
        if len(self._consumers) >= self._limits.workers_per_connection_max:
            message = f"Connection reached max consumers limit: {self._limits.workers_per_connection_max}"
            self._client.send(error_frame(pb.ConsumerBusy, message, command.request_id))
            return
        waiting = _Waiting(command, frame, here, lambda: self._look(consumer_id))
        self._consumers[consumer_id] = waiting
        self._look(consumer_id)
        if self._consumers.get(consumer_id) is waiting:
            waiting.timer = self._clock.call_later(OWNER_S_MAX, lambda: self._give_up(waiting))
            self._owners.wait(waiting.look)

    def data(self, consumer_id: int, frame: bytes) -> None:
        """As it says; one that waits has nothing to acknowledge, and grants permits when it is answered."""
        where = self._consumers[consumer_id]
        if isinstance(where, OwnerLeg):
            where.write(frame)

    def request(self, kind: int, body: Any, frame: bytes) -> None:
        """As it says."""
        where = self._consumers[body.consumer_id]
        if isinstance(where, OwnerLeg):
            where.request(kind, body, frame)
        elif kind == _T.CLOSE_CONSUMER:
            self._forget(where)
            self._client.send(commands.success(body.request_id))
        else:
            self._client.send(refusal_frame(kind, body, "the owner of this subscription is not known yet"))

    def auth_response(self, response: pb.AuthData, frame: bytes) -> bool:
        """As it says. A client answers challenges in turn; which is whose it does not say: owners come first."""
        self._identity.renewed(response)
        for leg in self._legs.values():
            if leg.challenged:
                leg.auth_response(frame)
                return True
        return False

    def client_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """As it says."""
        for leg in self._legs.values():
            leg.client_writable(writable)

    def close(self) -> None:
        """As it says."""
        for where in list(self._consumers.values()):
            if isinstance(where, _Waiting):
                self._forget(where)
        self._consumers.clear()
        legs, self._legs = self._legs, {}
        for leg in legs.values():
            leg.close()

    # ---- leg.LegsOfClient

    def consumer_ended(self, consumer_id: int) -> None:
        """As it says."""
        self._consumers.pop(consumer_id, None)

    def leg_writable_changed(self) -> None:
        """As it says."""
        writable = all(leg.writable for leg in self._legs.values())
        if writable != self._told_writable:
            self._told_writable = writable
            self._client.elsewhere_writable(writable)

    def leg_ended(self, leg: OwnerLeg, consumers: set[int]) -> None:
        """As it says."""
        if self._legs.get(leg.owner.replica) is leg:
            del self._legs[leg.owner.replica]
        for consumer_id in consumers:
            self._consumers.pop(consumer_id, None)
        self.leg_writable_changed()

    # ---- within

    def _look(self, consumer_id: int) -> None:
        """Lead a consumer to its owner, if there is one now."""
        waiting = self._consumers.get(consumer_id)
        if not isinstance(waiting, _Waiting):
            return
        command = waiting.command
        place = self._owners.place(command.topic, command.subscription)
        if place is HERE:
            self._forget(waiting)
            waiting.here()
        elif isinstance(place, Owner) and self._connector_to is not None:
            self._forget(waiting)
            self._lead(place, waiting, self._connector_to)

    def _lead(self, owner: Owner, waiting: _Waiting, connector_to: Callable[[Owner], Connector]) -> None:
        leg = self._legs.get(owner.replica)
        if leg is None:
            if len(self._legs) >= LEGS_MAX:
                self._refuse(waiting, f"a connection is led to at most {LEGS_MAX} other replicas at a time")
                return
            leg = OwnerLeg(owner, self._client, self._identity, self._clock, self._limits, self)
            self._legs[owner.replica] = leg
            leg.open(connector_to(owner), owner.address)
        if leg.subscribe(waiting.command, waiting.frame):
            self._consumers[waiting.command.consumer_id] = leg
        else:
            self._refuse(waiting, f"too much waits for the connection to {owner.replica}")

    def _give_up(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        self._refuse(waiting, f"the owner of this subscription was not known within {OWNER_S_MAX:g} s")

    def _refuse(self, waiting: _Waiting, reason: str) -> None:
        """The client tries again."""
        self._client.send(error_frame(pb.ServiceNotReady, reason, waiting.command.request_id))

    def _forget(self, waiting: _Waiting) -> None:
        if self._consumers.get(waiting.command.consumer_id) is waiting:
            del self._consumers[waiting.command.consumer_id]
        self._owners.forget(waiting.look)
        if waiting.timer is not None:
            waiting.timer.cancel()
