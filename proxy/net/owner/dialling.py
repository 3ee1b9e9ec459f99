"""Connections to other replicas' internal ports, each proven before anything of a client's is said on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.alarm import Alarm
from proxy.net.owner.door import PROVE_S_MAX
from proxy.net.owner.proof import ANSWER_BYTES, Secret, UnprovenError, hello

if TYPE_CHECKING:
    from proxy.net.owner.door import Numbered
    from proxy.net.owner.proof import Told
    from proxy.net.owner.standstill import Standstill
    from proxy.net.ports import Clock, Connector, Receiver, Transport

ANSWER_S_MAX: Final = PROVE_S_MAX
"""From a connection that stands until the other replica's proof."""

log = structlog.get_logger("keyline.owner")


class ReplicaDialler:
    """Of one replica, to all others."""

    def __init__(
        self, connector: Connector, secret: Secret, clock: Clock, number: Numbered, standstill: Standstill
    ) -> None:
        """`connector` opens bare connections to replicas, with TLS where that is spoken between them."""
        self._standstill = standstill
        self._connector = connector
        self._secret = secret
        self._clock = clock
        self._number = number

    def dial(self, address: str, told: Told, receiver: Receiver) -> None:
        """Connect, prove and hand over; `receiver` is opened when both ends are proven, or closed.

        `told` is what the other replica hears of the client, or of what the connection is for.
        """
        number = self._number()
        dialling = _Dialling(self._secret, self._clock, number, told, receiver, self._standstill)
        self._connector.connect(address, dialling)


class _Dialling:
    """One connection, for its receiver once both ends are proven."""

    def __init__(
        self, secret: Secret, clock: Clock, number: bytes, told: Told, receiver: Receiver, standstill: Standstill
    ) -> None:
        self._standstill = standstill
        self._secret = secret
        self._number = number
        self._told = told
        self._receiver = receiver
        self._proven = False
        self._answer = b""
        self._failure = ""
        self._transport: Transport | None = None
        self._timer = Alarm(clock)

    def opened(self, transport: Transport) -> None:
        """Begin."""
        self._transport = transport
        self._timer.set(ANSWER_S_MAX, self._too_late)
        transport.write(hello(self._number))

    def received(self, data: bytes) -> None:
        """The other's proof, and then what it has for the client."""
        if self._proven:
            if self._standstill.was_none():
                self._receiver.received(data)
        elif not self._failure:
            self._answer += data
            if len(self._answer) >= ANSWER_BYTES:
                self._prove()

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """For the receiver alone."""
        if self._proven:
            self._receiver.writability_changed(writable)

    def closed(self, reason: str) -> None:
        """It is over, or there was none."""
        self._timer.cancel()
        self._standstill.forget(self._stood_still)
        self._receiver.closed(self._failure or reason)

    def _prove(self) -> None:
        assert self._transport is not None
        try:
            preamble = self._secret.preamble(self._answer[:ANSWER_BYTES], self._number, self._told)
        except UnprovenError as error:
            self._fail(str(error))
            return
        rest, self._answer = self._answer[ANSWER_BYTES:], b""
        self._timer.cancel()
        self._proven = True
        self._standstill.watch(self._stood_still)
        self._transport.write(preamble)
        self._receiver.opened(self._transport)
        if rest:
            self._receiver.received(rest)

    def _stood_still(self) -> None:
        assert self._transport is not None
        self._failure = "the replica at the client's side stood still"
        self._transport.abort()

    def _too_late(self) -> None:
        self._fail(f"the replica proved nothing in {ANSWER_S_MAX:g} s")

    def _fail(self, reason: str) -> None:
        assert self._transport is not None
        self._failure = reason
        self._timer.cancel()
        log.warning("replica not proven", peer=self._transport.peer, target=self._told.target, reason=reason)
        self._transport.abort()
