"""Signs of life of the other replicas that legs lead to, or come from: one connection for each two of them.

Problem: what a replica consumes that hangs, or is cut off, has to be given to others within seconds, and a
connection on which nothing happens does not show it. To ask on each leg costs messages and CPU by the number of
workers' connections. Rule: two replicas with legs between them keep one more connection, on which each asks the other
after an interval of silence. Of one that was silent for two all legs are given up, in either direction. A network may
forget a single leg; that is `leg_looks`.

A replica that leads clients dials; where both do, one connection serves both. A connection that is lost, or cannot be
had, is a silence like any other: it is dialled again until that has lasted too long.

Where a network was cut for about two intervals, one replica may have given all legs up and the other none: what ends a
connection was lost. So a replica that loses the connection for signs of life, or gets another one beside it, asks on
each leg (`LegLooks.ask_all`): the other's system resets those that it does not know any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.alarm import Alarm
from proxy.net.heartbeat import Heartbeat
from proxy.net.owner.leg_looks import LegLooks
from proxy.net.owner.proof import Told

if TYPE_CHECKING:
    from proxy.net.owner.leg_looks import Leg
    from proxy.net.ports import Clock, Receiver, Transport

ASKS: Final = b"?"
ANSWERS: Final = b"!"
LOOKS: Final = b"L"
"""Begins the name of a leg, which ends with a line."""
NAME_BYTES_MAX: Final = 256
"""More is no client's address."""
REDIAL_S: Final = 0.5
"""From the loss of a connection to the next attempt."""

Dial = Callable[[str, Told, "Receiver"], None]
"""Connects to an address, as `dialling.ReplicaDialler.dial`."""

log = structlog.get_logger("keyline.owner")


class Pulses:
    """Of one replica, towards all others."""

    def __init__(
        self, replica: str, clock: Clock, interval_s: float, dial: Dial, suspected: Callable[[str], None]
    ) -> None:
        """`replica` is this one's name; a silence of `interval_s` is asked about.

        `suspected` is told of a replica again and again while it has not answered.
        """
        self.lost: Callable[[str], None] = _nothing
        """Hears of each replica that was silent for too long."""
        self.found: Callable[[str], None] = _nothing
        """And of each that was reached."""
        self.replica = replica
        self.clock = clock
        self.interval_s = interval_s
        self.dial = dial
        self.suspected = suspected
        self._pairs: dict[str, _Pair] = {}

    def watch(self, replica: str, leg: Leg, address: str = "") -> None:
        """There is a leg there, or from there; with an address it is dialled."""
        self._pair(replica).add(leg, address)

    def forget(self, replica: str, leg: Leg) -> None:
        """It is over; harmless once more."""
        pair = self._pairs.get(replica)
        if pair is not None:
            pair.remove(leg)

    @property
    def reached(self) -> tuple[str, ...]:
        """Replicas that have shown a sign of life just now."""
        return tuple(sorted(replica for replica, pair in self._pairs.items() if pair.reached))

    def accept(self, replica: str) -> PulseConnection:
        """The receiver of a connection that a replica has opened for this."""
        return PulseConnection(self._pair(replica))

    def ended(self, pair: _Pair) -> None:
        """Nothing is between us and the other any more."""
        if self._pairs.get(pair.replica) is pair:
            del self._pairs[pair.replica]

    def _pair(self, replica: str) -> _Pair:
        pair = self._pairs.get(replica)
        if pair is None:
            pair = self._pairs[replica] = _Pair(self, replica)
        return pair


class _Pair:
    """This replica and another one."""

    def __init__(self, pulses: Pulses, replica: str) -> None:
        self.replica = replica
        self._pulses = pulses
        self._address = ""
        self._legs = LegLooks(pulses.clock, pulses.interval_s, self._name)
        self._connections: dict[PulseConnection, Transport] = {}
        self._dialled: PulseConnection | None = None
        """The connection that this replica makes, or has made."""
        self._redial = Alarm(pulses.clock)
        self._heartbeat = Heartbeat(
            pulses.clock,
            pulses.interval_s,
            ping=self._ask,
            dead=self._silent,
            paused=bool,
            suspected=self._suspect,
        )
        self._heartbeat.start()

    @property
    def reached(self) -> bool:
        """Whether the other has answered, as far as it was asked."""
        return bool(self._connections) and not self._heartbeat.suspects

    def add(self, leg: Leg, address: str) -> None:
        """Watch one more."""
        self._legs.add(leg)
        self._address = address or self._address
        self._consider_dialling()

    def remove(self, leg: Leg) -> None:
        """One less; the last one ends what was dialled here."""
        self._legs.remove(leg)
        if not self._legs:
            self._redial.cancel()
            if self._dialled is not None:
                self._dialled.close()
            self._consider_end()

    # ---- for its connections

    def opened(self, connection: PulseConnection, transport: Transport) -> None:
        """Both ends are proven, which is a sign of life."""
        if self._connections:
            self._legs.ask_all()  # the other has lost the one before
        self._connections[connection] = transport
        self._heartbeat.heard()
        self._pulses.found(self.replica)

    def heard(self) -> None:
        """Bytes came."""
        self._heartbeat.heard()

    def asked(self, name: str) -> None:
        """The other has heard nothing on this leg."""
        self._legs.asked(name)

    def closed(self, connection: PulseConnection) -> None:
        """It is gone."""
        if self._connections.pop(connection, None) is not None:
            self._legs.ask_all()
        if self._dialled is connection:
            self._dialled = None
        if self._legs:
            self._redial.set(REDIAL_S, self._consider_dialling)
        else:
            self._consider_end()

    # ---- within

    def _consider_dialling(self) -> None:
        self._redial.cancel()
        if not self._address or self._dialled is not None or self._connections:
            return
        pulses = self._pulses
        self._dialled = PulseConnection(self)
        pulses.dial(self._address, Told(self.replica, pulses.replica, pulses.replica, purpose="pulse"), self._dialled)

    def _ask(self) -> None:
        for transport in self._connections.values():
            transport.write(ASKS)

    def _name(self, leg: str) -> None:
        for transport in self._connections.values():
            transport.write(LOOKS + leg.encode() + b"\n")

    def _suspect(self) -> None:
        if self._legs:  # else a connection is on its way that is not needed any more
            self._pulses.suspected(self.replica)

    def _silent(self) -> None:
        reason = f"the replica was silent for {2 * self._pulses.interval_s:g} s"
        legs = self._legs.take_all()
        log.warning("replica silent", replica=self.replica, legs_given_up=len(legs))
        connections, self._connections = self._connections, {}
        if self._dialled is not None:
            self._dialled.close()  # it may be on its way still
        self._end()
        for transport in connections.values():
            transport.abort()
        if legs:
            self._pulses.lost(self.replica)
        for leg in legs:
            leg.give_up(reason)

    def _consider_end(self) -> None:
        if not self._legs and not self._connections and self._dialled is None:
            self._end()

    def _end(self) -> None:
        self._redial.cancel()
        self._heartbeat.stop()
        self._pulses.ended(self)


class PulseConnection:
    """Implements `ports.Receiver`, and `door.Led`, at either end."""

    unacked = 0
    """It is no client's."""

    def __init__(self, pair: _Pair) -> None:
        """Not open yet."""
        self._pair = pair
        self._transport: Transport | None = None
        self._wanted = True
        self._unread = b""

    def close(self) -> None:
        """It is needed no more."""
        self._wanted = False
        if self._transport is not None:
            self._transport.close()

    def opened(self, transport: Transport) -> None:
        """Both ends are proven."""
        self._transport = transport
        if self._wanted:
            self._pair.opened(self, transport)
        else:
            transport.close()

    def received(self, data: bytes) -> None:
        """Answer what the other asks, once for all that came together."""
        self._pair.heard()
        assert self._transport is not None
        *lines, rest = (self._unread + data).split(b"\n")
        rest, looks, name = rest.partition(LOOKS)
        self._unread = looks + name
        asked = ASKS in rest
        for line in lines:
            before, looks, name = line.partition(LOOKS)
            asked = asked or ASKS in before
            if looks:
                self._pair.asked(name.decode(errors="replace"))
        if asked:
            self._transport.write(ANSWERS)
        if len(self._unread) > NAME_BYTES_MAX:
            self._transport.abort()

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """A byte now and then."""

    def closed(self, reason: str) -> None:
        """It is gone, or there was none."""
        _ = reason
        self._pair.closed(self)


def _nothing(_replica: str) -> None:
    """Ignores the news."""
