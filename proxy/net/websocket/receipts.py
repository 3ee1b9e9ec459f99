"""Acknowledgements of a WebSocket's client on their way to the gateway's subscriptions, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = pb.BaseCommand
ACK_WORDS_MAX: Final = 10_000
"""Of 64 messages each, in one ACK; some 100 kB."""


def ack_of(consumer_id: int, named: Iterable[pb.MessageIdData]) -> pb.CommandAck:
    """Acknowledge these, each by itself."""
    return pb.CommandAck(consumer_id=consumer_id, ack_type=pb.CommandAck.Individual, message_id=named)


def pieces(named: Iterable[pb.MessageIdData]) -> Iterator[list[pb.MessageIdData]]:
    """Split into acknowledgements that each fit into a frame."""
    piece: list[pb.MessageIdData] = []
    words = 0
    for position in named:
        piece.append(position)
        words += len(position.ack_set)
        if words >= ACK_WORDS_MAX:
            yield piece
            piece, words = [], 0
    if piece:
        yield piece


class Receipt:
    """What the gateway's subscriptions say of one acknowledgement, partition by partition."""

    def __init__(self, awaited: int, done: Callable[[str | None], None]) -> None:
        """`done` gets the first error, when all have answered; at once if there is nothing to wait for."""
        self._awaited = awaited
        self._done = done
        self._error: str | None = None
        if not awaited:
            done(None)

    def answered(self, command: pb.BaseCommand) -> None:
        """One of them."""
        if command.type == _T.ERROR:
            self._failed(command.error.error, command.error.message)
        elif command.ackResponse.HasField("error"):
            self._failed(command.ackResponse.error, command.ackResponse.message)
        self._awaited -= 1
        if not self._awaited:
            self._done(self._error)

    def _failed(self, code: int, message: str) -> None:
        if self._error is None:
            self._error = message or pb.ServerError.Name(code)


def ack_frame(ack: pb.CommandAck, request_id: int | None = None) -> bytes:
    """The frame of an ACK, of one that is to be answered with an id."""
    if request_id is not None:
        ack.request_id = request_id
    return encode_command(_T(type=_T.ACK, ack=ack))
