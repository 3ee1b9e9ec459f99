"""Opens entries and delivers their messages to the client, a few in each turn of the event loop.

Opening entries and writing messages takes time, so received entries are queued first. One entry is open at a time, once
there is room for its messages, which are read one by one. A large one may be dropped while the client has no room (see
`openings`); then it is opened again, and read on from where it was.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.websocket.chunks import Chunks
from proxy.net.websocket.in_flight import EntryKey, entry_key
from proxy.net.websocket.link import CloseCode
from proxy.net.websocket.message_position import WHOLE, MessagePosition
from proxy.net.websocket.opening import (
    Reading,
    TooLargeError,
    UnreadableError,
    open_entry,
    opened_bytes,
    plain_payload,
    read_entry,
)
from proxy.net.websocket.receipts import ack_frame, ack_of
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.messages import epoch_mark, parse_message

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from proxy.net.ports import Clock
    from proxy.net.subscription.openings import BackgroundOpening, Openings
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.opening import Entry
    from proxy.net.websocket.permits import Permits
    from proxy.net.websocket.pipe import Pipe
    from proxy.socket_request import SocketRequest
    from proxy.wire.messages import MessageHead

log = structlog.get_logger("keyline.websocket")

STEPS_PER_TURN: Final = 32
"""Entries opened and messages delivered."""
BYTES_PER_TURN: Final = 256 << 10


@dataclass(slots=True)
class _InDelivery:
    """An entry with messages to deliver."""

    consumer_id: int
    entry: Entry
    chunks: tuple[MessagePosition, ...]
    """The positions of a chunked message's chunks except the last."""
    payload: bytes
    """As it came, of all chunks if it has some."""
    permits_left: int
    """Permits of messages that have not been delivered."""
    messages: Iterator[SocketMessage | MessagePosition] | None = None
    """None while it is not open."""
    reading: Reading = field(default_factory=Reading)
    touched: bool = False
    """Whether any message has been delivered."""
    in_background: BackgroundOpening | None = None
    """Its share of the gateway's memory for payloads that are decompressed in the background."""

    def drop(self) -> None:
        """It is open no more."""
        self.messages = None
        if self.in_background is not None:
            self.in_background.release()
            self.in_background = None


class Deliveries:
    """All entries and messages in delivery to one client."""

    def __init__(
        self,
        request: SocketRequest,
        pipe: Pipe,
        permits: Permits,
        clock: Clock,
        openings: Openings,
        deliver: Callable[[SocketMessage, tuple[MessagePosition, ...]], int],
        failed: Callable[[int, str], None],
    ) -> None:
        """`deliver` gets each message when there is room, with the positions of its chunks except the last.

        It returns the approximate number of bytes. `failed` gets a close code and a reason when delivery must end.
        """
        self._request = request
        self._pipe = pipe
        self._permits = permits
        self._clock = clock
        self._openings = openings
        self._deliver = deliver
        self._failed = failed
        self._topics: Sequence[tuple[str, int]] = ()
        self._epochs: list[int] = []
        self._marks: list[bytes] = []
        """By consumer, how what was sent in its epoch can be told from what was sent before it."""
        self._chunks = Chunks(clock, self._discard_chunks)
        self._frames: deque[bytes] = deque()
        self._current: _InDelivery | None = None
        self._held_back_told = False
        self._due = False

    def open(self, topics: Sequence[tuple[str, int]]) -> None:
        """These are the consumers' topics and partitions, in the order of their ids. Permits are granted now."""
        self._topics = topics
        self._epochs = [0] * len(topics)
        self._marks = [b""] * len(topics)
        self.soon()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._frames.clear()
        self._forget_current()
        self._topics = ()
        self._chunks.stop()

    def came(self, frame: bytes) -> None:
        """A MESSAGE."""
        self._frames.append(frame)
        self.soon()

    def start_epoch(self, consumer_id: int, entries: Container[EntryKey]) -> tuple[set[tuple[int, int]], int]:
        """Drop these entries, and the consumer's whose delivery has not started, those on their way here included.

        Otherwise later messages of a key would come before those that are returned. Gives ledger and entry of what goes
        on being delivered, and the number of the epoch in which the dropped ones come again.
        """
        self._chunks.forget(self._topics[consumer_id][1])
        epoch = self._epochs[consumer_id] = self._epochs[consumer_id] + 1
        self._marks[consumer_id] = epoch_mark(epoch)
        current = self._current
        if current is None or current.consumer_id != consumer_id:
            return set(), epoch
        if entry_key(current.entry.position) in entries or not current.touched:
            self._close_current()
            return set(), epoch
        return {(each.ledger, each.entry) for each in (current.entry.position, *current.chunks)}, epoch

    def soon(self) -> None:
        """Called when there may be work: room, messages, permits to grant."""
        if not self._due and self._topics:
            self._due = True
            self._clock.call_soon(self._turn)

    # ---- turns

    def _turn(self) -> None:
        self._due = False
        try:
            self._work()
        except TooLargeError as error:
            self._failed(CloseCode.TOO_BIG, str(error))
        except Exception:
            log.exception("websocket failed", peer=self._request.peer)
            self._failed(CloseCode.INTERNAL, "internal error; see the gateway's log")

    def _work(self) -> None:
        steps, left_bytes = STEPS_PER_TURN, BYTES_PER_TURN
        while self._topics and steps and left_bytes > 0:
            took = self._step()
            if took is None:
                self._keep()
                break
            steps -= 1
            left_bytes -= took
        else:
            self.soon()
        if not self._topics:
            return
        for consumer_id, permits in self._permits.to_grant():
            self._pipe.send(commands.flow(consumer_id, permits))

    def _step(self) -> int | None:
        """Returns the approximate number of bytes opened in this turn or delivered; None if nothing may be done."""
        current = self._current
        if current is None:
            if not self._frames:
                return None
            current = self._read(self._frames.popleft())
            if current is None:
                return 0
        if self._permits.room <= 0 or not self._pipe.writable:
            return None
        if current.messages is not None:
            return self._next_of(current, current.messages)
        return self._open(current) if current.in_background is None else None

    def _keep(self) -> None:
        """What is open waits for the client, and no others wait for that."""
        current = self._current
        if current is not None and current.messages is not None and current.in_background is not None:
            current.in_background.keep(current.drop)

    def _next_of(self, current: _InDelivery, messages: Iterator[SocketMessage | MessagePosition]) -> int:
        """Deliver an entry's next message, or finish the entry; returns the approximate number of bytes."""
        consumer_id = current.consumer_id
        try:
            message = next(messages, None)
        except UnreadableError as error:
            self._unreadable(current, error)
            return 0
        if message is None:
            self._close_current()
            return 0
        if isinstance(message, MessagePosition):
            self._acknowledge(consumer_id, [message])
            return 0
        current.touched = True
        current.permits_left -= 1
        self._permits.sent(consumer_id)
        if not current.reading.messages:  # it was no batch
            self._close_current()
        return self._deliver(message, current.chunks)

    def _close_current(self) -> None:
        current = self._forget_current()
        if current is not None:
            self._permits.used(current.consumer_id, current.permits_left)

    def _forget_current(self) -> _InDelivery | None:
        current, self._current = self._current, None
        if current is not None:
            current.drop()
        return current

    def _permits_of(self, head: MessageHead) -> int:
        try:
            return read_entry(head, *self._topics[head.consumer_id]).messages
        except UnreadableError:
            return 1

    # ---- entries

    def _read(self, frame: bytes) -> _InDelivery | None:
        """Start an entry, if it is to be delivered."""
        head = parse_message(frame)
        consumer_id = head.consumer_id
        if not head.extras.message.endswith(self._marks[consumer_id]):
            self._permits.used(consumer_id, self._permits_of(head))
            return None
        try:
            entry = read_entry(head, *self._topics[consumer_id])
        except UnreadableError as error:
            self._permits.used(consumer_id, 1)
            position = MessagePosition(self._topics[consumer_id][1], head.ledger, head.entry, WHOLE, 0)
            self._discard(consumer_id, [position], str(error), error.why)
            return None
        chunks: tuple[MessagePosition, ...] = ()
        payload: bytes | None = entry.payload
        if entry.encrypted and self._request.encrypted != "CONSUME":
            self._keep_from_client(entry, consumer_id)
            payload = None
        elif entry.chunk:
            whole = self._chunks.add(entry)
            payload, chunks = (None, ()) if whole is None else whole
        if payload is None:
            self._permits.used(consumer_id, entry.messages)
            return None
        current = self._current = _InDelivery(consumer_id, entry, chunks, payload, entry.messages)
        return current

    def _open(self, current: _InDelivery) -> int:
        """At once, or in the background if the result is large, so that the event loop is not blocked."""
        entry, payload = current.entry, current.payload
        size = opened_bytes(entry)
        if size > self._openings.limits.inline_bytes:
            work = partial(plain_payload, entry, payload)
            current.in_background = self._openings.open_in_background(size, work, partial(self._decompressed, current))
            return 0
        try:
            current.messages = open_entry(entry, plain_payload(entry, payload), current.reading)
        except UnreadableError as error:
            self._unreadable(current, error)
        return size

    def _decompressed(self, current: _InDelivery, result: bytes | Exception) -> None:
        if isinstance(result, UnreadableError):
            self._unreadable(current, result)
        elif isinstance(result, Exception):
            log.error("websocket failed", peer=self._request.peer, exc_info=result)
            self._failed(CloseCode.INTERNAL, "internal error; see the gateway's log")
        else:
            current.messages = open_entry(current.entry, result, current.reading)
        self.soon()

    def _unreadable(self, current: _InDelivery, error: UnreadableError) -> None:
        self._discard(current.consumer_id, (*current.chunks, current.entry.position), str(error), error.why)
        self._close_current()

    def _keep_from_client(self, entry: Entry, consumer_id: int) -> None:
        """For a client that takes no encrypted messages: acknowledge them if it wants that, or withhold them."""
        if self._request.encrypted == "DISCARD":
            self._discard(consumer_id, [entry.position], "encrypted", pb.CommandAck.DecryptionError)
        elif not self._held_back_told:
            self._held_back_told = True
            log.warning("encrypted messages withheld", peer=self._request.peer, topic=entry.topic)

    def _discard_chunks(self, positions: list[MessagePosition], why: str) -> None:
        for consumer_id, (_, partition) in enumerate(self._topics):
            of_it = [position for position in positions if position.partition == partition]
            if of_it:
                self._discard(consumer_id, of_it, why, pb.CommandAck.BatchDeSerializeError)

    def _discard(
        self, consumer_id: int, positions: Iterable[MessagePosition], reason: str, why: pb.CommandAck.ValidationError
    ) -> None:
        """Acknowledge entries that no client could read, as Pulsar's clients do."""
        named = list(positions)
        entries = [f"{position.ledger}:{position.entry}" for position in named]
        log.warning("unreadable message discarded", peer=self._request.peer, entries=entries, reason=reason)
        self._acknowledge(consumer_id, named, why)

    def _acknowledge(
        self, consumer_id: int, positions: list[MessagePosition], why: pb.CommandAck.ValidationError | None = None
    ) -> None:
        ack = ack_of(consumer_id, (position.to_acknowledge() for position in positions))
        if why is not None:
            ack.validation_error = why
        self._pipe.send(ack_frame(ack))
