"""Questions of operators that one replica passes to another, over the replicas' port.

Each has a connection of its own: the question with its length, then the answer until the connection is closed. What
they mean is up to the two ends; here they are bytes. Operators are few, so connections are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from proxy.net.ports import Clock, Transport

QUESTION_BYTES_MAX: Final = 1 << 20
"""An order has some kilobytes."""
QUESTION_S_MAX: Final = 5.0
"""From the proof until the whole question is here."""
_LENGTH_BYTES: Final = 4


class Saying(Protocol):
    """Where an answer goes."""

    def say(self, data: bytes) -> None:
        """Send the next bytes; dropped when the other end is gone."""

    def end(self) -> None:
        """It is complete."""


class Hearer(Protocol):
    """Hears an answer."""

    def heard(self, data: bytes) -> None:
        """The next bytes of it, cut anywhere."""

    def ended(self, reason: str) -> None:
        """The connection is closed; or there was none, for this reason. Called once."""


AnswerQuestion = Callable[[bytes, Saying], Callable[[], None]]
"""Begins to answer; returns what to call if the other end goes away before that is done, or after."""


class Answering:
    """The end that answers. Implements `ports.Receiver` and `Saying`."""

    unacked = 0
    """It is no client's."""

    def __init__(self, answer: AnswerQuestion, clock: Clock) -> None:
        """The other end is proven to be a replica."""
        self._answer = answer
        self._question = b""
        self._transport: Transport | None = None
        self._timer = Alarm(clock)
        self._give_up: Callable[[], None] | None = None
        self._ended = False

    def opened(self, transport: Transport) -> None:
        """Wait for the question."""
        self._transport = transport
        self._timer.set(QUESTION_S_MAX, transport.abort)

    def received(self, data: bytes) -> None:
        """The question is answered as soon as it is complete; what follows it is ignored."""
        assert self._transport is not None
        if self._give_up is not None:
            return
        self._question += data
        length = int.from_bytes(self._question[:_LENGTH_BYTES], "big")
        if length > QUESTION_BYTES_MAX:
            self._transport.abort()
        elif len(self._question) >= _LENGTH_BYTES + length:
            self._timer.cancel()
            question, self._question = self._question[_LENGTH_BYTES : _LENGTH_BYTES + length], b""
            self._give_up = self._answer(question, self)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """An answer without end is not kept for a replica that does not read it: that one asks again."""
        if not writable and not self._ended and self._transport is not None:
            self._transport.abort()

    def closed(self, reason: str) -> None:
        """The other end has the answer, or wants it no more."""
        _ = reason
        self._timer.cancel()
        if self._give_up is not None:
            self._give_up()

    def say(self, data: bytes) -> None:
        """As `Saying` says."""
        assert self._transport is not None
        self._transport.write(data)

    def end(self) -> None:
        """As `Saying` says."""
        assert self._transport is not None
        self._ended = True
        self._transport.close()


class Asking:
    """The end that asks. Implements `ports.Receiver`."""

    def __init__(self, question: bytes, hearer: Hearer) -> None:
        """Ask when the other end is proven. Raises `ValueError` for a question that is too long."""
        if len(question) > QUESTION_BYTES_MAX:
            message = f"the request has {len(question)} bytes, and at most {QUESTION_BYTES_MAX} can be passed on"
            raise ValueError(message)
        self._question = question
        self._hearer = hearer
        self._transport: Transport | None = None
        self._wanted = True

    def give_up(self) -> None:
        """The answer is not wanted any more; `Hearer.ended` is not called."""
        self._wanted = False
        if self._transport is not None:
            self._transport.abort()

    def opened(self, transport: Transport) -> None:
        """Ask, if that is still wanted."""
        self._transport = transport
        if self._wanted:
            transport.write(len(self._question).to_bytes(_LENGTH_BYTES, "big") + self._question)
        else:
            transport.abort()

    def received(self, data: bytes) -> None:
        """A part of the answer."""
        if self._wanted:
            self._hearer.heard(data)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """A question is short."""

    def closed(self, reason: str) -> None:
        """The answer is complete, or lost: the answer itself tells."""
        if self._wanted:
            self._wanted = False
            self._hearer.ended(reason)
