"""One client's producers that want a topic for themselves alone.

Those that wait for it (WaitForExclusive) are taken here: their requests are held, passed on when their topic's
election says so, and the broker's answers told to it before their client hears them. Those that take it (Exclusive,
ExclusiveWithFencing) are the broker's; only their coming and going is noted. All others pass unseen.

A producer keeps its id and its request's id all the time, so that the broker's last word answers the client's only
question. What the gateway itself asks on a client's connection has request ids that no client uses.

Specification: `ServerCnx.handleProducer` and `handleCloseProducer`; PIP-68 and PIP-440.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.errors import ClientError, LimitExceeded
from proxy.net.producer_statistics import ACCESS_MODES, TopicOwner
from proxy.net.relay_requests import OURS
from proxy.net.session_commands import error_frame, parse_as
from proxy.net.session_topic import persistent_topic
from proxy.producers.election import Stage
from proxy.producers.request import queue_priority, without_waiting
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.ports import Clock, Transport
    from proxy.net.producer_chronicle import Candidacy
    from proxy.net.producer_election import TopicElection
    from proxy.net.producer_elections import ProducerElections
    from proxy.net.relay import Relay
    from proxy.net.relay_requests import Pending

_T = pb.BaseCommand

TAKERS: Final = frozenset({pb.Exclusive, pb.ExclusiveWithFencing})
"""Access modes that own a topic without waiting for it."""


class WaitingProducer:
    """One that waits or owns; implements `producer_chronicle.Candidate`."""

    __slots__ = (
        "_frame",
        "_session",
        "arrived_at",
        "candidacy",
        "election",
        "name",
        "priority",
        "producer_id",
        "request_id",
        "room",
        "sent",
        "topic_epoch",
    )

    candidacy: Candidacy

    def __init__(
        self, session: SessionProducers, election: TopicElection, body: pb.CommandProducer, frame: bytes, priority: int
    ) -> None:
        """As its client asked for it in `frame`."""
        self._session = session
        self._frame = frame
        self.election = election
        self.name = body.producer_name
        self.priority = priority
        self.producer_id = body.producer_id
        self.request_id = body.request_id
        self.topic_epoch = body.topic_epoch if body.HasField("topic_epoch") else None
        self.arrived_at = session.clock.now()
        self.room = 0
        self.sent = False
        """Its request is at the broker, and not taken back."""

    @property
    def address(self) -> str:
        """As the port says."""
        return self._session.transport.peer

    @property
    def client_version(self) -> str:
        """As the port says."""
        return self._session.client_version

    def let_go(self) -> int:
        """It waits no longer and will not again: drop its request, and give the memory that was set aside for it."""
        room, self.room = self.room, 0
        self._frame = b""
        return room

    def ask(self) -> None:
        """As the port says."""
        body = parse_as(_T.PRODUCER, self._frame).producer
        frame = self._frame if self.topic_epoch is None else without_waiting(body)
        self._session.ask(self, body, frame)

    def withdraw(self) -> None:
        """As the port says."""
        self._session.withdraw(self)

    def tell_queued(self) -> None:
        """As the port says."""
        success = pb.CommandProducerSuccess(
            request_id=self.request_id, producer_name=self.name, last_sequence_id=-1, producer_ready=False
        )
        command = _T(type=_T.PRODUCER_SUCCESS, producer_success=success)
        self._session.transport.write(frames.encode_command(command))

    def tell_refused(self, error: int, message: str) -> None:
        """As the port says."""
        self._session.refuse(self, error, message)


class _Taker:
    """One that takes its topic, or has."""

    __slots__ = ("answered", "begun", "election", "mode", "request_id")

    def __init__(self, election: TopicElection, body: pb.CommandProducer) -> None:
        self.answered = False
        self.begun = False
        self.election = election
        self.mode = body.producer_access_mode
        self.request_id = body.request_id


class _Closing:
    """A close that its client waits for."""

    __slots__ = ("begun", "election")

    def __init__(self, election: TopicElection) -> None:
        self.begun = False
        self.election = election


class SessionProducers:
    """All of one connection, by producer id."""

    def __init__(
        self, relay: Relay, transport: Transport, client_version: str, elections: ProducerElections, clock: Clock
    ) -> None:
        """`transport` is the client's, `relay` its way to the broker."""
        self._relay = relay
        self.transport = transport
        self.client_version = client_version
        self._elections = elections
        self.clock = clock
        self._waiting: dict[int, WaitingProducer] = {}
        self._takers: dict[int, _Taker] = {}
        self._closing: dict[int, _Closing] = {}
        """Closes that the client waits for, by their requests."""
        self._own_requests = OURS

    # ---- from the client

    def producer(self, body: pb.CommandProducer, frame: bytes) -> None:
        """PRODUCER, of any access mode."""
        known = self._waiting.get(body.producer_id)
        if known is not None and known.candidacy.stage not in (Stage.OWNER, Stage.GONE):
            message = "Producer is already present on the connection"
            self.transport.write(error_frame(pb.ServiceNotReady, message, body.request_id))
        elif known is not None and known.candidacy.stage is Stage.OWNER:
            self._relay.request(_T.PRODUCER, body, frame)  # the broker answers as it did
        elif body.producer_access_mode == pb.WaitForExclusive:
            self._wait(body, frame)
        elif body.producer_access_mode in TAKERS and body.producer_id not in self._takers:
            self._take(body, frame)
        else:
            self._relay.request(_T.PRODUCER, body, frame)

    def close(self, body: pb.CommandCloseProducer, frame: bytes) -> None:
        """CLOSE_PRODUCER: the broker's to answer, unless it does not know the producer or is not to say so."""
        producer = self._waiting.get(body.producer_id)
        if producer is not None and producer.candidacy.stage in (Stage.WAITING, Stage.WITHDRAWING):
            self._forget(producer)
            producer.election.left(producer.candidacy, "closed by its client")
            self.transport.write(commands.success(body.request_id))
            return
        holder = producer or self._takers.get(body.producer_id)
        if holder is None:
            self._relay.request(_T.CLOSE_PRODUCER, body, frame)
            return
        self._end_closing(body.request_id)  # of a client that uses an id twice
        # Of one that was fenced the election may be over, and another one held.
        self._begin_close(self._elections.of(holder.election.topic), body, frame)

    def _take(self, body: pb.CommandProducer, frame: bytes) -> None:
        """Pass one on that does not wait, when nothing that it must not meet is under way."""
        taker = self._takers[body.producer_id] = _Taker(self._elections.of(full_name(body.topic)), body)

        def begin() -> None:
            taker.begun = True
            wanted = self._takers.get(body.producer_id) is taker
            if wanted and not self._relay.request(_T.PRODUCER, body, frame):
                self._give_up(body.producer_id)

        taker.election.begin(taker, begin, alone=True)

    def _begin_close(self, election: TopicElection, body: pb.CommandCloseProducer, frame: bytes) -> None:
        """Pass a close on when nothing that it must not meet is under way."""
        closing = self._closing[body.request_id] = _Closing(election)
        election.begin(closing, lambda: self._pass_close(body, frame), alone=False)

    def _pass_close(self, body: pb.CommandCloseProducer, frame: bytes) -> None:
        closing = self._closing.get(body.request_id)
        if closing is None:
            return
        closing.begun = True
        if not self._relay.request(_T.CLOSE_PRODUCER, body, frame):
            self._end_closing(body.request_id)

    # ---- for its elections

    def ask(self, producer: WaitingProducer, body: pb.CommandProducer, frame: bytes) -> None:
        """Pass a producer's request on; one that finds no room has been refused already."""
        producer.sent = True
        if not self._relay.request(_T.PRODUCER, body, frame):
            self._forget(producer)
            producer.election.left(producer.candidacy, "too many requests of its connection are unanswered")

    def refuse(self, producer: WaitingProducer, error: int, message: str) -> None:
        """Answer a producer's request with an error."""
        self._forget(producer)
        self.transport.write(error_frame(error, message, producer.request_id))

    def withdraw(self, producer: WaitingProducer) -> None:
        """Close a producer at the broker."""
        self._own_requests += 1
        body = pb.CommandCloseProducer(producer_id=producer.producer_id, request_id=self._own_requests)
        frame = frames.encode_command(_T(type=_T.CLOSE_PRODUCER, close_producer=body))
        self._begin_close(producer.election, body, frame)

    # ---- from the broker

    def answered(self, pending: Pending, command: pb.BaseCommand) -> bool:
        """The answer to a PRODUCER or CLOSE_PRODUCER; whether the client is to hear it."""
        body = pending.body
        producer = self._waiting.get(body.producer_id)
        if pending.kind == _T.CLOSE_PRODUCER:
            return self._closed(body, producer)
        if producer is not None and producer.request_id == body.request_id:
            return self._decided(producer, command)
        taker = self._takers.get(body.producer_id)
        if taker is not None and taker.request_id == body.request_id:
            self._taken(body.producer_id, taker, command)
        return True

    def closed_by_broker(self, producer_id: int) -> bool:
        """CLOSE_PRODUCER from the broker; whether the client is to hear it."""
        self._give_up(producer_id)
        producer = self._waiting.get(producer_id)
        if producer is None or producer.candidacy.stage is Stage.WAITING:
            return True
        if producer.candidacy.stage is Stage.WITHDRAWING:  # what was asked for; the answer follows
            return False
        self._forget(producer)
        producer.election.taken_by_broker(producer.candidacy, "closed by the broker")
        return True

    def broker_lost(self) -> None:
        """The broker is gone and the connection stays; the client was told of all that was open or asked for there."""
        for producer in list(self._waiting.values()):
            stage = producer.candidacy.stage
            if stage is Stage.WITHDRAWING:
                producer.sent = False
                producer.election.withdrawn(producer.candidacy)
            elif stage is Stage.OWNER or producer.sent:
                self._forget(producer)
                self._lose(producer, "the broker is gone")
        self._give_up_begun()

    # ---- the end

    def lose(self, reason: str, *, by_broker: bool) -> None:
        """The connection is gone; `by_broker` if because the broker was, so that the client will be back."""
        producers, self._waiting = self._waiting, {}
        # None of these is found any more, so that nothing begins that has waited for its turn.
        closing, self._closing = self._closing, {}
        takers, self._takers = self._takers, {}
        # Those first that nobody must be asked for any more.
        for producer in sorted(producers.values(), key=lambda each: each.candidacy.stage is not Stage.WAITING):
            self._elections.give_room(producer.let_go())
            if by_broker and producer.candidacy.stage is Stage.OWNER:
                producer.election.taken_by_broker(producer.candidacy, reason)
            else:
                producer.election.left(producer.candidacy, reason)
        _give_up(closing.values(), takers.values())

    # ---- within

    def _wait(self, body: pb.CommandProducer, frame: bytes) -> None:
        try:
            priority = queue_priority(body)
            room = self._elections.take_room(len(frame))
        except (ClientError, LimitExceeded) as error:
            self.transport.write(error_frame(error.wire_code, str(error), body.request_id))
            return
        producer = WaitingProducer(self, self._elections.of(full_name(body.topic)), body, frame, priority)
        producer.room = room
        self._waiting[producer.producer_id] = producer
        producer.election.arrive(producer)

    def _decided(self, producer: WaitingProducer, command: pb.BaseCommand) -> bool:
        election, candidacy = producer.election, producer.candidacy
        if command.type == _T.ERROR:
            producer.sent = False
            told = election.refused(candidacy, command.error.error, command.error.message)
            if told:
                self._forget(producer)
            return told
        success = command.producer_success
        if not success.producer_ready:
            election.queued(candidacy, success)
            return False
        told = election.granted(candidacy, success)
        if told:
            self._elections.give_room(producer.let_go())
        return told

    def _closed(self, body: pb.CommandCloseProducer, producer: WaitingProducer | None) -> bool:
        """Whatever the broker says of a close: it does not know the producer now."""
        self._end_closing(body.request_id)
        if body.request_id > OURS:
            if producer is not None:
                producer.sent = False
                producer.election.withdrawn(producer.candidacy)
            return False
        self._give_up(body.producer_id)
        if producer is not None:
            self._forget(producer)
            producer.election.left(producer.candidacy, "closed by its client")
        return True

    def _taken(self, producer_id: int, taker: _Taker, command: pb.BaseCommand) -> None:
        taker.answered = True
        if command.type == _T.ERROR:
            self._give_up(producer_id)
            return
        success = command.producer_success
        owner = TopicOwner(
            producer_name=success.producer_name,
            access_mode=ACCESS_MODES[taker.mode],
            priority=None,
            topic_epoch=success.topic_epoch if success.HasField("topic_epoch") else None,
            since=self.clock.now(),
            address=self.transport.peer,
            client_version=self.client_version,
        )
        taker.election.taken(taker, owner)

    def _give_up(self, producer_id: int) -> None:
        """One that took its topic, or wanted to, does not any more."""
        taker = self._takers.pop(producer_id, None)
        if taker is not None:
            taker.election.given_up(taker)

    def _give_up_begun(self) -> None:
        """Those that take, and closes, as far as they are under way; what waits for its turn still has it.

        What the gateway wanted to take back is gone with the broker.
        """
        closing = {number: each for number, each in self._closing.items() if each.begun or number > OURS}
        takers = {producer_id: each for producer_id, each in self._takers.items() if each.begun}
        for request_id in closing:
            del self._closing[request_id]
        for producer_id in takers:
            del self._takers[producer_id]
        _give_up(closing.values(), takers.values())

    def _end_closing(self, request_id: int) -> None:
        closing = self._closing.pop(request_id, None)
        if closing is not None:
            closing.election.end(closing)

    @staticmethod
    def _lose(producer: WaitingProducer, reason: str) -> None:
        """Its broker is gone, its client is not."""
        if producer.candidacy.stage is Stage.OWNER:
            producer.election.taken_by_broker(producer.candidacy, reason)
        else:
            producer.election.refused(producer.candidacy, pb.ServiceNotReady, reason)

    def _forget(self, producer: WaitingProducer) -> None:
        if self._waiting.get(producer.producer_id) is producer:
            del self._waiting[producer.producer_id]
            self._elections.give_room(producer.let_go())


def _give_up(closing: Iterable[_Closing], takers: Iterable[_Taker]) -> None:
    for each in closing:
        each.election.end(each)
    for taker in takers:
        in_doubt = taker.mode == pb.ExclusiveWithFencing and taker.begun and not taker.answered
        taker.election.given_up(taker, in_doubt=in_doubt)


def full_name(topic: str) -> str:
    """The name by which all producers of a topic meet."""
    return persistent_topic(topic) or topic
