"""Acknowledgements, refusals and timeouts of the messages at a WebSocket's client.

A refused message waits for its delay and is then returned; until then the client may still acknowledge it. A message
that is neither acknowledged nor refused in time is returned as well, if the client asked for that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.net.websocket.dead_letter_publishing import DeadLetterPublishing
from proxy.net.websocket.dead_letters import DeadLetters
from proxy.net.websocket.deadlines import Deadlines
from proxy.net.websocket.in_flight import EntryKey, InFlight, entry_key
from proxy.net.websocket.message_position import WHOLE
from proxy.net.websocket.receipts import Receipt, ack_frame, ack_of, pieces
from proxy.wire import commands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.ports import Clock
    from proxy.net.websocket.deliveries import Deliveries
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.message_position import MessagePosition
    from proxy.net.websocket.permits import Permits
    from proxy.net.websocket.pipe import Pipe, PipeClient
    from proxy.net.websocket.requests import Requests
    from proxy.socket_request import SocketRequest
    from proxy.wire import pulsar_pb2 as pb


PAUSE_S: Final = 20e-6
"""After messages were given back, for each message that the client keeps: ten times of what it costs to name it."""


class Settling:
    """Settles every message at the client."""

    def __init__(
        self,
        request: SocketRequest,
        pipe: Pipe,
        requests: Requests,
        permits: Permits,
        clock: Clock,
        dial: Callable[[PipeClient], Pipe],
        deliveries: Deliveries,
    ) -> None:
        """`dial` opens a connection for dead letters; `deliveries` sends messages to the client."""
        self._pipe = pipe
        self._requests = requests
        self._permits = permits
        self._deliveries = deliveries
        self._in_flight = InFlight()
        self._given_up: set[MessagePosition] = set()
        """Refused, with their delay over: their permits are free already."""
        self._refused = Deadlines(clock, request.nack_delay_s, self._refused_long_enough, self._pause_s)
        self._forgotten = Deadlines(clock, request.ack_timeout_s or None, self._take_back, self._pause_s)
        self._unpublished = Deadlines(clock, 0.0, self._take_back, self._pause_s)
        """Dead letters that could not be published, each told of alone; and what waited for them."""
        letters = DeadLetters(request, dial, clock)
        self._dead_letters = DeadLetterPublishing(request.redeliveries_max, letters, self._taken_away, self._left_here)
        self._consumers: dict[int, int] = {}
        """By partition."""
        self._clock = clock
        self._acknowledged: dict[int, list[MessagePosition]] = {}
        """By consumer, what this turn of the loop has brought and wants no receipt: one ACK has all of it."""

    def open(self, partitions: Iterable[int]) -> None:
        """These are the consumers' partitions, in the order of their ids."""
        self._consumers = {partition: consumer_id for consumer_id, partition in enumerate(partitions)}

    def stop(self) -> None:
        """Return nothing any more: the session does."""
        self.flush()
        self._refused.stop()
        self._forgotten.stop()
        self._unpublished.stop()
        self._dead_letters.stop()

    def sent(self, message: SocketMessage, chunks: tuple[MessagePosition, ...]) -> None:
        """The client has it; an earlier unsettled delivery of it no longer counts."""
        position = message.position
        again = self._in_flight.sent(position, chunks)
        if again and not self._refused.discard(position) and position not in self._given_up:
            self._permits.settled()
        self._given_up.discard(position)
        self._forgotten.add(position)
        self._unpublished.discard(position)
        self._dead_letters.sent(message)

    def refuse(self, positions: Iterable[MessagePosition]) -> None:
        """Give these again, later. What the client does not hold is none of its business."""
        for position in positions:
            going = position in self._dead_letters or position in self._unpublished
            if position in self._in_flight and not going:
                if position not in self._refused and position not in self._given_up:
                    self._permits.settled()
                self._refused.add(position)
                self._forgotten.discard(position)

    def acknowledge(
        self, positions: Iterable[MessagePosition], told: Callable[[list[str], str | None], None] | None
    ) -> None:
        """The client acknowledges these; `told` gets those it did not hold, and an error, when the broker has answered.

        A message that is not in flight may be from an earlier connection: the acknowledgement of a whole entry is
        passed on. For a batch only the registry knows the size, and a wrong size would acknowledge other messages.
        """
        done = self._acknowledged if told is None else {}
        not_held = []
        for position in positions:
            chunks = self._done(position)
            if chunks is None:
                not_held.append(position.message_id)
            consumer_id = self._consumers.get(position.partition)
            if consumer_id is not None and (chunks is not None or position.batch_index == WHOLE):
                if told is None and not done:
                    self._clock.call_soon(self.flush)
                done.setdefault(consumer_id, []).extend((position, *(chunks or ())))
        if told is not None:
            self.flush()
            acks = _acks_of(done)
            receipt = Receipt(len(acks), partial(told, not_held))
            for ack in acks:
                self._requests.ask(partial(ack_frame, ack), receipt.answered)

    def flush(self) -> None:
        """Pass on what was acknowledged: at the end of the turn, or before what must not overtake it."""
        done, self._acknowledged = self._acknowledged, {}
        for ack in _acks_of(done):
            self._pipe.send(ack_frame(ack))

    def _done(self, position: MessagePosition) -> tuple[MessagePosition, ...] | None:
        chunks = self._in_flight.acknowledged(position)
        if chunks is not None:
            self._settle(position)
        return chunks

    def _settle(self, position: MessagePosition) -> None:
        """The client has it no longer: there is room for another, unless there was since it refused this one."""
        if not self._refused.discard(position) and position not in self._given_up:
            self._permits.settled()
        self._given_up.discard(position)
        self._forgotten.discard(position)
        self._unpublished.discard(position)
        self._dead_letters.settled(position)

    def _pause_s(self) -> float:
        """Until more is given back: to do so names all that the client keeps."""
        return len(self._in_flight) * PAUSE_S

    def _refused_long_enough(self, positions: list[MessagePosition]) -> None:
        self._given_up.update(positions)
        self._take_back(positions)

    def _take_back(self, positions: Iterable[MessagePosition]) -> None:
        rest = self._dead_letters.take(positions)
        if rest:
            self._give_back(rest)

    def _taken_away(self, position: MessagePosition) -> None:
        """It is a dead letter now: done with here."""
        self.acknowledge((position,), None)
        self._deliveries.soon()

    def _left_here(self, positions: Iterable[MessagePosition]) -> None:
        """They are to be given back, unless the client has acknowledged them meanwhile."""
        for position in positions:
            if position in self._in_flight:
                self._unpublished.add(position)

    def _give_back(self, positions: Iterable[MessagePosition]) -> None:
        """Ask for the entries of these again, and forget every message of them.

        And for all that the client has not seen: what is on its way here, from the replica that owns the subscription,
        would be delivered before those that were asked for again.
        """
        self.flush()
        again: dict[int, set[EntryKey]] = {}
        for position in positions:
            again.setdefault(position.partition, set()).add(entry_key(position))
        for partition, keys in again.items():
            consumer_id = self._consumers[partition]
            wanted = {(ledger, entry) for _, ledger, entry in keys}
            for key in keys:
                for position, chunks in self._in_flight.given_back(key):
                    self._settle(position)
                    wanted.update((chunk.ledger, chunk.entry) for chunk in chunks)
            begun, epoch = self._deliveries.start_epoch(consumer_id, keys)
            kept = self._in_flight.entries(partition) | begun
            self._pipe.send(commands.redeliver_unseen(consumer_id, sorted(wanted), sorted(kept), epoch))
        self._deliveries.soon()


def _acks_of(done: dict[int, list[MessagePosition]]) -> list[pb.CommandAck]:
    """Acknowledge these, by consumer."""
    return [
        ack_of(consumer_id, some)
        for consumer_id, positions in done.items()
        for some in pieces(position.to_acknowledge() for position in positions)
    ]
