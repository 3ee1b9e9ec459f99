"""From entries to messages at the client, a few in one turn of the loop.

Opening entries and writing messages takes its time, so what comes is put aside at first, and nothing is opened while
messages wait that the client has no room for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from proxy.net.websocket.chunks import Chunks
from proxy.net.websocket.opening import UnreadableError, open_entry, read_entry
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command
from proxy.wire.messages import parse_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.net.ports import Clock
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.opening import Entry
    from proxy.net.websocket.permits import Permits
    from proxy.net.websocket.pipe import Pipe
    from proxy.net.websocket.places import Place
    from proxy.socket_request import SocketRequest

log = structlog.get_logger("keyline.websocket")

_T = pb.BaseCommand
MESSAGES_PER_TURN: Final = 32


class Waiting(NamedTuple):
    """A message for which the client has had no room yet."""

    consumer_id: int
    message: SocketMessage
    chunks: tuple[Place, ...]
    """Places of its chunks but the last."""


class Deliveries:
    """Everything on its way to one client."""

    def __init__(
        self,
        request: SocketRequest,
        pipe: Pipe,
        permits: Permits,
        clock: Clock,
        deliver: Callable[[SocketMessage, tuple[Place, ...]], None],
    ) -> None:
        """`deliver` gets each message when there is room, with the places of its chunks but the last."""
        self._request = request
        self._pipe = pipe
        self._permits = permits
        self._clock = clock
        self._deliver = deliver
        self._topics: Sequence[tuple[str, int]] = ()
        self._chunks = Chunks()
        self._frames: deque[bytes] = deque()
        self._waiting: deque[Waiting] = deque()
        self._due = False

    def open(self, topics: Sequence[tuple[str, int]]) -> None:
        """These are the consumers' topics and partitions, in the order of their ids. Permits are granted now."""
        self._topics = topics
        self.soon()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._frames.clear()
        self._waiting.clear()
        self._topics = ()

    def came(self, frame: bytes) -> None:
        """A MESSAGE."""
        self._frames.append(frame)
        self.soon()

    def soon(self) -> None:
        """There may be something to do: room, messages, permits to grant."""
        if not self._due and self._topics:
            self._due = True
            self._clock.call_soon(self._turn)

    @property
    def _can_deliver(self) -> bool:
        return bool(self._waiting) and self._permits.room > 0 and self._pipe.writable

    def _turn(self) -> None:
        self._due = False
        if not self._topics:
            return
        if not self._waiting and self._frames:
            self._open(self._frames.popleft())
        left = MESSAGES_PER_TURN
        while left and self._can_deliver:
            waiting = self._waiting.popleft()
            self._permits.sent(waiting.consumer_id)
            self._deliver(waiting.message, waiting.chunks)
            left -= 1
            if not self._waiting and self._frames:
                self._open(self._frames.popleft())
        for consumer_id, permits in self._permits.to_grant():
            self._pipe.send(commands.flow(consumer_id, permits))
        if self._can_deliver or (self._frames and not self._waiting):
            self.soon()

    def _open(self, frame: bytes) -> None:
        head = parse_message(frame)
        consumer_id = head.consumer_id
        topic, partition = self._topics[consumer_id]
        try:
            entry = read_entry(head, topic, partition)
        except UnreadableError as error:
            self._permits.used(consumer_id, 1)
            self._discard(consumer_id, pb.MessageIdData(ledgerId=head.ledger, entryId=head.entry), error)
            return
        messages: list[SocketMessage] = []
        chunks: tuple[Place, ...] = ()
        try:
            payload, chunks = self._payload(entry)
            messages = [] if payload is None else open_entry(entry, payload)
        except UnreadableError as error:
            for place in (*chunks, entry.place):
                self._discard(consumer_id, place.to_acknowledge(), error)
        self._permits.used(consumer_id, entry.messages - len(messages))
        self._waiting.extend(Waiting(consumer_id, message, chunks) for message in messages)

    def _payload(self, entry: Entry) -> tuple[bytes | None, tuple[Place, ...]]:
        """What to open now, if anything, and the places of earlier chunks. Raises `UnreadableError`."""
        if entry.encrypted and self._request.encrypted != "CONSUME":
            if self._request.encrypted == "DISCARD":
                raise UnreadableError("encrypted", pb.CommandAck.DecryptionError)
            log.warning("encrypted message held back", peer=self._request.peer, topic=entry.topic)
            return None, ()
        if not entry.chunk:
            return entry.payload, ()
        whole = self._chunks.add(entry)
        return (None, ()) if whole is None else (whole[0], tuple(whole[1]))

    def _discard(self, consumer_id: int, place: pb.MessageIdData, error: UnreadableError) -> None:
        """Acknowledge what no client could read, as Pulsar's clients do."""
        log.warning("unreadable message discarded", peer=self._request.peer, entry=str(place), reason=str(error))
        ack = pb.CommandAck(
            consumer_id=consumer_id,
            ack_type=pb.CommandAck.Individual,
            message_id=[place],
            validation_error=error.why,
        )
        self._pipe.send(encode_command(_T(type=_T.ACK, ack=ack)))
