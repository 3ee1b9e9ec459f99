"""Acknowledgements, refusals and timeouts of the messages at a WebSocket's client.

A refused message waits for its delay and is then returned; until then the client may still acknowledge it. A message
that is neither acknowledged nor refused in time is returned as well, if the client asked for that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from proxy.net.websocket.dead_letter_publishing import DeadLetterPublishing
from proxy.net.websocket.dead_letters import DeadLetters
from proxy.net.websocket.deadlines import Deadlines
from proxy.net.websocket.in_flight import EntryKey, InFlight, entry_key
from proxy.net.websocket.places import WHOLE
from proxy.net.websocket.receipts import Receipt, ack_frame, ack_of, pieces
from proxy.wire import commands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.ports import Clock
    from proxy.net.websocket.deliveries import Deliveries
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.permits import Permits
    from proxy.net.websocket.pipe import Pipe, PipeClient
    from proxy.net.websocket.places import Place
    from proxy.net.websocket.requests import Requests
    from proxy.socket_request import SocketRequest
    from proxy.wire import pulsar_pb2 as pb


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
        self._given_up: set[Place] = set()
        """Refused, with their delay over: their permits are free already."""
        self._refused = Deadlines(clock, request.nack_delay_s, self._refused_long_enough)
        self._forgotten = Deadlines(clock, request.ack_timeout_s or None, self._take_back)
        letters = DeadLetters(request, dial, clock)
        self._dead_letters = DeadLetterPublishing(request.redeliveries_max, letters, self._taken_away, self._give_back)
        self._consumers: dict[int, int] = {}
        """By partition."""

    def open(self, partitions: Iterable[int]) -> None:
        """These are the consumers' partitions, in the order of their ids."""
        self._consumers = {partition: consumer_id for consumer_id, partition in enumerate(partitions)}

    def stop(self) -> None:
        """Return nothing any more: the session does."""
        self._refused.stop()
        self._forgotten.stop()
        self._dead_letters.stop()

    def sent(self, message: SocketMessage, chunks: tuple[Place, ...]) -> None:
        """The client has it; an earlier unsettled delivery of it no longer counts."""
        place = message.place
        if place in self._in_flight and not self._refused.discard(place) and place not in self._given_up:
            self._permits.settled()
        self._in_flight.sent(place, chunks)
        self._forgotten.add(place)
        self._dead_letters.sent(message)

    def refuse(self, places: Iterable[Place]) -> None:
        """Give these again, later. What the client does not hold is none of its business."""
        for place in places:
            if place in self._in_flight and place not in self._dead_letters:
                if place not in self._refused:
                    self._permits.settled()
                self._refused.add(place)
                self._forgotten.discard(place)

    def acknowledge(self, places: Iterable[Place], told: Callable[[list[str], str | None], None] | None) -> None:
        """The client acknowledges these; `told` gets those it did not hold, and an error, when the broker has answered.

        A message that is not in flight may be from an earlier connection: the acknowledgement of a whole entry is
        passed on. For a batch only the registry knows the size, and a wrong size would acknowledge other messages.
        """
        ids: dict[int, list[pb.MessageIdData]] = {}
        not_held = []
        for place in places:
            chunks = self._done(place)
            if chunks is None:
                not_held.append(place.message_id)
            consumer_id = self._consumers.get(place.partition)
            if consumer_id is not None and (chunks is not None or place.batch_index == WHOLE):
                ids.setdefault(consumer_id, []).extend(each.to_acknowledge() for each in (place, *(chunks or ())))
        acks = [ack_of(consumer_id, some) for consumer_id, named in ids.items() for some in pieces(named)]
        receipt = Receipt(len(acks), partial(told, not_held)) if told is not None else None
        for ack in acks:
            if receipt is None:
                self._pipe.send(ack_frame(ack))
            else:
                self._requests.ask(partial(ack_frame, ack), receipt.answered)

    def _done(self, place: Place) -> tuple[Place, ...] | None:
        chunks = self._in_flight.acknowledged(place)
        if chunks is not None:
            self._settle(place)
        return chunks

    def _settle(self, place: Place) -> None:
        """The client has it no longer: there is room for another, unless there was since it refused this one."""
        if not self._refused.discard(place) and place not in self._given_up:
            self._permits.settled()
        self._given_up.discard(place)
        self._forgotten.discard(place)
        self._dead_letters.settled(place)

    def _refused_long_enough(self, places: list[Place]) -> None:
        self._given_up.update(places)
        self._take_back(places)

    def _take_back(self, places: Iterable[Place]) -> None:
        rest = self._dead_letters.take(places)
        if rest:
            self._give_back(rest)

    def _taken_away(self, place: Place) -> None:
        """It is a dead letter now: done with here."""
        self.acknowledge((place,), None)
        self._deliveries.soon()

    def _give_back(self, places: Iterable[Place]) -> None:
        """Ask for the entries of these again, and forget every message of them.

        In step with the session: a message that is on its way here while we ask would be delivered before those that
        were asked for again.
        """
        self._pipe.in_step(partial(self._ask_again, list(places)))

    def _ask_again(self, places: Iterable[Place]) -> None:
        again: dict[int, set[EntryKey]] = {}
        for place in places:
            again.setdefault(self._consumers[place.partition], set()).add(entry_key(place))
        for consumer_id, keys in again.items():
            entries = self._deliveries.take_back(consumer_id, keys)
            for key in keys:
                for place, chunks in self._in_flight.given_back(key):
                    self._settle(place)
                    entries.update((each.ledger, each.entry) for each in (place, *chunks))
            if entries:
                self._pipe.send(commands.redeliver(consumer_id, sorted(entries)))
        self._deliveries.soon()
