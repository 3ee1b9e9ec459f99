"""What the simulator's checkers keep of the gateway's edge: connections, workers' consumers, and what these hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import decompress
from proxy.wire.metadata import peek
from tests.sim.storage import number_of
from tests.wire.batches import index_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.sim.connection import End
    from tests.sim.storage import Chunked, Entry, Storage

T = pb.BaseCommand
FRAME_BYTES_MAX = 8 << 20
PAYLOAD_BYTES_MAX = 1 << 20


class Violation(AssertionError):
    """A guarantee was broken; the text begins with its name."""


@dataclass(eq=False)
class Seat:
    """A worker's consumer as the gateway's edge shows it."""

    name: str
    end: End
    consumer_id: int
    request_id: int
    joined: bool = False
    granted: int = 0
    received: int = 0
    held: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Message id to the numbers in it, in the order delivered, -1 where acknowledged."""
    returned: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """The same, of what it asked for again last."""
    sent_at: dict[tuple[int, int], float] = field(default_factory=dict)
    """When each of them was written; not of chunked messages' chunks, but for their last ones."""
    extended_at: float = 0.0
    """When it last asked for more time to acknowledge."""

    @property
    def permits(self) -> int:
        """Messages it may still get."""
        return self.granted - self.received


@dataclass
class Connection:
    """A client's connection, and the frames in both directions."""

    seats: dict[int, Seat] = field(default_factory=dict)
    incoming: frames.FrameSplitter = field(default_factory=lambda: frames.FrameSplitter(FRAME_BYTES_MAX))
    receipts: dict[int, list[Entry]] = field(default_factory=dict)
    """Request id of an ack to the entries it made complete."""
    acked: dict[int, list[int]] = field(default_factory=dict)
    """And to the messages that it acknowledged."""
    deletions: dict[int, Seat] = field(default_factory=dict)
    """Request id of an unsubscribe to who asked."""
    outgoing: frames.FrameSplitter = field(default_factory=lambda: frames.FrameSplitter(FRAME_BYTES_MAX))


class Holdings:
    """Which worker holds what, and what is acknowledged, as far as frames tell."""

    def __init__(self, storage: Storage, now: Callable[[], float]) -> None:
        self._storage = storage
        self._now = now
        self.connections: dict[End, Connection] = {}
        self.holder: dict[int, Seat] = {}
        self.by_key: dict[str, set[int]] = {}
        """Key to its messages that are held."""
        self._had_piece: dict[int, Seat] = {}
        """Of a piece of a chunked message, who got it last."""
        self.freed_at: dict[str, float] = {}
        """Key to when a worker last acknowledged, gave back or left behind a message of it."""
        self.acked: set[int] = set()
        """Messages that some worker acknowledged, in whichever life."""
        self._acked_ever: set[int] = set()
        """The same, also before a seek."""
        self.meant: set[int] = set()
        """Messages that a worker meant to acknowledge, whatever ids it used; the workers tell."""
        self._open: dict[str, list[int]] = {}
        """Key to its messages that were never acknowledged, ascending."""
        self._known = 0

    def seats(self) -> Iterator[Seat]:
        """All that the gateway knows of."""
        return (seat for connection in self.connections.values() for seat in connection.seats.values())

    def opened(self, end: End) -> None:
        """A client connected."""
        self.connections[end] = Connection()

    def _hold(self, seat: Seat, number: int) -> None:
        """The worker got it."""
        self.holder[number] = seat
        message = self._storage.messages[number]
        self.by_key.setdefault(message.key, set()).add(number)
        if message.chunked is not None:
            self._had_piece[number] = seat

    def _take_from(self, seat: Seat, place: tuple[int, int], taken: set[int]) -> None:
        """The worker holds these messages of a delivery no more."""
        numbers = seat.held.get(place, [])
        for index, number in enumerate(numbers):
            if number in taken:
                numbers[index] = -1
                self._free(number)
        if numbers and all(number < 0 for number in numbers):
            del seat.held[place]
            seat.sent_at.pop(place, None)

    def _free(self, number: int) -> None:
        del self.holder[number]
        key = self._storage.messages[number].key
        self.by_key[key].discard(number)
        self.freed_at[key] = self._now()

    def _release(self, seat: Seat, place: tuple[int, int]) -> None:
        seat.sent_at.pop(place, None)
        for number in seat.held.pop(place, ()):
            if number >= 0:
                self._free(number)

    # ---- chunked messages

    def goes_further(self, number: int) -> bool:
        """Whether it is a piece of a chunked message, and not the last."""
        message = self._storage.messages[number].chunked
        return message is not None and not (message.is_published and message.numbers[-1] == number)

    def _goes_on(self, seat: Seat, number: int) -> bool:
        """Whether the worker has an earlier piece of the same chunked message."""
        return any(piece < number and self.holder.get(piece) is seat for piece in self.pieces_of(number))

    def _goes_on_at(self, seat: Seat, number: int) -> bool:
        """Whether it continues a chunked message that the worker has begun.

        The rest goes to who has the beginning even while other messages wait before it: it is part of a message that
        this worker had before, and can acknowledge only when it is whole. One that gives a message up acknowledges the
        beginning, and may get the rest before the gateway reads that.
        """
        before = [piece for piece in self.pieces_of(number) if piece < number]
        had = any(self._had_piece.get(piece) is seat for piece in before)
        return had and all(piece in self.acked or self.holder.get(piece) is seat for piece in before)

    def pieces_of(self, number: int) -> Sequence[int]:
        """All published pieces of the message that it is a piece of; itself alone, if it is whole."""
        message = self._storage.messages[number].chunked
        return (number,) if message is None else message.numbers

    def message_of(self, number: int) -> Chunked | None:
        """The chunked message that it is a piece of."""
        return self._storage.messages[number].chunked

    def has_whole(self, seat: Seat, number: int) -> bool:
        """Whether the worker has all of the message that it is a piece of."""
        message = self._storage.messages[number].chunked
        return message is None or len(self.pieces_at(seat, number)) == message.total

    def pieces_at(self, seat: Seat, number: int) -> list[int]:
        """Those of them that the worker has."""
        return [each for each in self.pieces_of(number) if self.holder.get(each) is seat]

    def _check_pieces(self, seat: Seat, number: int) -> None:
        """No other worker has a piece of the message."""
        for other in self.pieces_of(number):
            if self.holder.get(other, seat) is not seat:
                raise Violation(f"chunks: {number} for {seat.name}, piece {other} is at {self.holder[other].name}")

    def _give_back(self, seat: Seat, place: tuple[int, int]) -> list[int]:
        """The worker wants a delivery again: of a piece all that it has of the message; returns what that was then."""
        numbers = [number for number in seat.held.get(place, ()) if number >= 0]
        pieces = [
            piece for number in numbers if len(self.pieces_of(number)) > 1 for piece in self.pieces_at(seat, number)
        ]
        entries = [self._storage.messages[piece].entry for piece in pieces]
        for given_back in {place, *((entry.ledger, entry.entry) for entry in entries)}:
            if given_back in seat.held:
                seat.returned[given_back] = list(seat.held[given_back])
            self._release(seat, given_back)
        return pieces

    # ---- what is done

    def was_acked(self, number: int) -> bool:
        """Whether a worker acknowledged the message, and meant to."""
        return number in self._acked_ever and number in self.meant

    def open_of(self, key: str) -> list[int]:
        """Messages of the key that no worker has acknowledged, ascending."""
        messages = self._storage.messages
        for number in range(self._known, len(messages)):
            if number not in self.acked:
                self._open.setdefault(messages[number].key, []).append(number)
        self._known = len(messages)
        return self._open.get(key, [])

    def no_longer_open(self, number: int) -> None:
        """Nothing newer has to wait for the message."""
        self.open_of("")  # so that what was published meanwhile is known
        if number not in self.acked:
            self._open[self._storage.messages[number].key].remove(number)
            self.acked.add(number)


ABOUT_CONSUMER: dict[int, str] = {
    T.FLOW: "flow",
    T.GET_LAST_MESSAGE_ID: "getLastMessageId",
    T.ACK: "ack",
    T.CLOSE_CONSUMER: "close_consumer",
    T.UNSUBSCRIBE: "unsubscribe",
    T.REDELIVER_UNACKNOWLEDGED_MESSAGES: "redeliverUnacknowledgedMessages",
}
"""Commands about one, to the name of their body."""


def numbers_in(tail: bytes) -> tuple[list[int], bool]:
    """Numbers of the messages of an entry or a slice, and whether the gateway could not open it."""
    metadata, _, start = peek(tail)
    payload = tail[start:]
    if metadata.compression:
        payload = decompress(metadata.compression, payload, metadata.uncompressed_size, PAYLOAD_BYTES_MAX)
    if not metadata.HasField("num_messages_in_batch"):
        return [number_of(payload)], False
    numbers = []
    for single in index_batch(payload, metadata.num_messages_in_batch):
        metadata_bytes = int.from_bytes(payload[single.start : single.start + 4], "big")
        numbers.append(number_of(payload[single.start + 4 + metadata_bytes : single.end]))
    return numbers, bool(metadata.encryption_keys)
