"""The internal port: admits other replicas only.

A connection has some seconds to prove that it is a replica of this deployment. Until then it may send a few bytes,
which are not interpreted. Of too many such connections the one that has waited longest gives way: replicas prove
themselves in a round trip, so a stranger who only connects keeps none of them out. Then the connection is a client's,
with the address that the replica tells (`proof`), and gets a session; or it is for one question of an operator
(`questions`), or for signs of life (`pulses`).
A connection without proof is closed without an answer, which would help to guess; the reason is counted and logged
here.

Another leg of the same client says that the teller has given up the one before. What told of its end may be lost, or
late: the older leg is given up at once, else the owner would deliver into it until it is found out (`leg_looks`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from proxy.net.alarm import Alarm
from proxy.net.owner.proof import (
    HELLO_BYTES,
    LENGTH_BYTES,
    MAGIC,
    NUMBER_BYTES,
    PROOF_BYTES,
    TOLD_BYTES_MAX,
    Numbers,
    Secret,
    Told,
    UnprovenError,
    number_in,
)
from proxy.net.owner.told_transport import ToldTransport
from proxy.net.ports import Receiver
from proxy.wire import commands

if TYPE_CHECKING:
    from proxy.net.owner.pulses import Pulses
    from proxy.net.ports import Clock, Transport

UNPROVEN_MAX: Final = 1_000
"""Connections at a time that have not proven anything yet: all clients of a replica may be led to an owner at once."""
PROVE_S_MAX: Final = 5.0
"""From accepting a connection until its proof."""

_TOLD_START: Final = PROOF_BYTES + LENGTH_BYTES


class Led(Receiver, Protocol):
    """What is made for a proven connection."""

    @property
    def unacked(self) -> int:
        """Messages that the client has."""


Numbered = Callable[[], bytes]
"""Gives `NUMBER_BYTES` of unpredictable random bytes."""

log = structlog.get_logger("keyline.owner")


@dataclass(frozen=True, slots=True)
class DoorStatistics:
    """What there is to know of it."""

    unproven: int
    """Connections that have not proven anything yet."""
    proven_total: int
    """Connections of other replicas, since the start."""
    refused_total: int
    """Connections that proved nothing, in time or at all, or gave way to others."""


class ReplicaDoor:
    """Gives each connection its receiver."""

    def __init__(
        self,
        replica: str,
        secret: Secret,
        clock: Clock,
        number: Numbered,
        admit: Callable[[Told], Led],
        pulses: Pulses,
    ) -> None:
        """`admit` gives the receiver for a proven connection, from what is told; `replica` is this one's name.

        `pulses` watches the replicas whose clients are here.
        """
        self.replica = replica
        self.secret = secret
        self.clock = clock
        self.number = number
        self.admit = admit
        self._pulses = pulses
        self._unproven: dict[Knock, None] = {}
        """In the order of their arrival."""
        self._legs: dict[str, dict[Knock, None]] = {}
        """By the replica that opened them."""
        self._latest: dict[tuple[str, int], Knock] = {}
        """Of each client, by its replica and its number there."""
        self._standing_down: set[str] = set()
        """Replicas that stop; each name is of one process."""
        self._proven_total = 0
        self._refused_total = 0

    def statistics(self) -> DoorStatistics:
        """Freeze the counts."""
        return DoorStatistics(len(self._unproven), self._proven_total, self._refused_total)

    def knock(self) -> Knock:
        """A connection is opened."""
        if len(self._unproven) >= UNPROVEN_MAX:
            next(iter(self._unproven)).refuse("too many are at the door, and it has been there longest")
        knock = Knock(self)
        self._unproven[knock] = None
        return knock

    def close(self) -> None:
        """Close all connections that have not been proven."""
        for knock in list(self._unproven):
            knock.refuse("the gateway is stopping")

    def proven(self, knock: Knock, told: Told) -> bool:
        """It is a replica; whether it is a client's leg of one that is about to stop."""
        del self._unproven[knock]
        self._proven_total += 1
        if told.purpose != "client":
            return False
        self._legs.setdefault(told.teller, {})[knock] = None
        self._supersede(knock, told)
        self._pulses.watch(told.teller, knock)
        return told.teller in self._standing_down

    def stand_down(self, teller: str) -> int:
        """A replica stops: its clients get nothing more by it; how many messages they have still."""
        self._standing_down.add(teller)
        legs = self._legs.get(teller, {})
        for leg in legs:
            leg.stand_down()
        return sum(leg.unacked for leg in legs)

    def ended(self, knock: Knock, teller: str) -> None:
        """A proven connection is gone, which need not have been a client's leg."""
        self._pulses.forget(teller, knock)
        legs = self._legs.get(teller, {})
        legs.pop(knock, None)
        if not legs:
            self._legs.pop(teller, None)
        if self._latest.get((teller, knock.client)) is knock:
            del self._latest[teller, knock.client]

    def _supersede(self, knock: Knock, told: Told) -> None:
        """The client has no other leg any more."""
        if told.client:
            before = self._latest.get((told.teller, told.client))
            self._latest[told.teller, told.client] = knock
            if before is not None:
                before.give_up("the client has another leg")

    def gone(self, knock: Knock, peer: str, reason: str) -> None:
        """It has not shown to be one; once more changes nothing."""
        if knock in self._unproven:
            del self._unproven[knock]
            self._refused_total += 1
            log.warning("replica refused", peer=peer, reason=reason)


class Knock:
    """One connection. Implements `ports.Receiver`, for the client's session once that is let in."""

    def __init__(self, door: ReplicaDoor) -> None:
        """Nothing has been said."""
        self._door = door
        self._transport: Transport | None = None
        self._timer = Alarm(door.clock)
        self._received = b""
        self._numbers: Numbers | None = None
        self._over = False
        self._session: Led | None = None
        self._told_transport: ToldTransport | None = None
        self._teller = ""
        self.client = 0
        """Its number at the replica that opened this."""
        self._heard = False

    # ---- ports.Receiver

    def opened(self, transport: Transport) -> None:
        """It has some seconds."""
        self._transport = transport
        if self._over:
            transport.abort()
        else:
            self._timer.set(PROVE_S_MAX, self._too_late)

    def received(self, data: bytes) -> None:
        """A step of the proof, or the client's bytes."""
        if self._session is not None:
            self._heard = True
            self._session.received(data)
        elif not self._over:
            self._received += data
            try:
                self._go_on()
            except UnprovenError as error:
                self.refuse(str(error))

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """For the session alone."""
        if self._session is not None and self._told_transport is not None:
            self._session.writability_changed(writable and self._told_transport.writable)

    def closed(self, reason: str) -> None:
        """The replica has gone, or its client."""
        self._timer.cancel()
        if self._session is not None:
            self._session.closed(reason)
            self._door.ended(self, self._teller)
        self._door.gone(self, self._peer, reason)

    # ---- for the door

    @property
    def unacked(self) -> int:
        """Messages that its client has."""
        return 0 if self._session is None else self._session.unacked

    def stand_down(self) -> None:
        """Its client gets nothing more; once more changes nothing."""
        if self._session is not None and self._told_transport is not None:
            self._told_transport.stand_down()
            self._session.writability_changed(False)

    # ---- leg_looks.Leg

    @property
    def name(self) -> str:
        """As the port says."""
        return "" if self._told_transport is None else self._told_transport.peer

    @property
    def owes(self) -> bool:
        """As the port says: its client has messages."""
        return self.unacked > 0

    @property
    def paused(self) -> bool:
        """As the port says."""
        return self._told_transport is not None and self._told_transport.paused

    def take_heard(self) -> bool:
        """As the port says."""
        heard, self._heard = self._heard, False
        return heard

    def ping(self) -> None:
        """As the port says."""
        if self._transport is not None:
            self._transport.write(commands.ping())

    def give_up(self, reason: str) -> None:
        """As the port says: what its client has is delivered to others."""
        _ = reason
        if self._transport is not None:
            self._transport.abort()

    # ---- within

    def refuse(self, reason: str) -> None:
        """Cut it off."""
        self._over = True
        self._received = b""
        self._timer.cancel()
        self._door.gone(self, self._peer, reason)
        if self._transport is not None:
            self._transport.abort()

    @property
    def _peer(self) -> str:
        return "unknown" if self._transport is None else self._transport.peer

    def _too_late(self) -> None:
        self.refuse(f"it proved nothing in {PROVE_S_MAX:g} s")

    def _go_on(self) -> None:
        assert self._transport is not None
        if self._numbers is None:
            begun = self._received[:HELLO_BYTES]
            if not _may_become_hello(begun):
                number_in(begun)  # which says what is wrong
            if len(begun) < HELLO_BYTES:
                return
            if len(self._received) > HELLO_BYTES:
                message = "it says more before it is answered"
                raise UnprovenError(message)
            self._numbers = Numbers(number_in(begun), self._door.number())
            assert len(self._numbers.listened) == NUMBER_BYTES
            self._received = b""
            self._transport.write(self._door.secret.answer(self._numbers))
            return
        if len(self._received) < _TOLD_START:
            return
        length = int.from_bytes(self._received[PROOF_BYTES:_TOLD_START], "big")
        if length > TOLD_BYTES_MAX:
            message = f"it wants to tell {length} bytes, and at most {TOLD_BYTES_MAX} may be"
            raise UnprovenError(message)
        if len(self._received) >= _TOLD_START + length:
            self._let_in(self._transport, self._numbers, _TOLD_START + length)

    def _let_in(self, transport: Transport, numbers: Numbers, end: int) -> None:
        door = self._door
        told = door.secret.told(self._received[:PROOF_BYTES], self._received[_TOLD_START:end], numbers)
        if told.target != door.replica:
            message = f"it means replica {told.target!r}, and this is {door.replica!r}"
            raise UnprovenError(message)
        self._timer.cancel()
        self._teller, self.client = told.teller, told.client
        standing_down = door.proven(self, told)
        rest, self._received = self._received[end:], b""
        self._session = session = door.admit(told)
        self._told_transport = ToldTransport(transport, told)
        if standing_down:
            self._told_transport.stand_down()
        log.debug("replica admitted", peer=transport.peer, teller=told.teller, client=told.peer)
        session.opened(self._told_transport)
        if rest:
            session.received(rest)


def _may_become_hello(begun: bytes) -> bool:
    """Whether these bytes may be the first of a HELLO: who says anything else is not waited for."""
    return begun[: len(MAGIC)] == MAGIC[: len(begun)]
