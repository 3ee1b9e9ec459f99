"""One client's immediate ownership changes: producers that take their topic (Exclusive, ExclusiveWithFencing), closes.

The broker decides both. Here each change passes its topic's admission lock, so that conflicting changes do not run
together, and counts as running until it is answered.

Specification: `ServerCnx.handleProducer` and `handleCloseProducer`; PIP-68.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.election.broker_queue import AWAKE_S_MIN
from proxy.net.election.statistics import ACCESS_MODES, TopicOwner
from proxy.net.relay.requests import OWN_REQUESTS
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.net.election.election import TopicElection
    from proxy.net.election.elections import ProducerElections
    from proxy.net.ports import Clock, Transport
    from proxy.net.relay.closing import ProducersToClose
    from proxy.net.relay.relay import Relay

_T = pb.BaseCommand

IMMEDIATE_MODES: Final = frozenset({pb.Exclusive, pb.ExclusiveWithFencing})
"""Access modes that own a topic without waiting."""


class _Taking:
    """A producer that takes or has taken its topic."""

    __slots__ = ("answered", "begun", "election", "mode", "question", "request_id", "room")

    def __init__(self, election: TopicElection, body: pb.CommandProducer, room: int) -> None:
        self.answered = False
        self.begun = False
        self.election = election
        self.mode = body.producer_access_mode
        self.question: int | None = None
        """The request by which the broker is asked whether it is awake."""
        self.request_id = body.request_id
        self.room = room


class _Closing:
    """A close for which its client or the gateway waits."""

    __slots__ = ("begun", "election", "producer_id", "room")

    def __init__(self, election: TopicElection, body: pb.CommandCloseProducer, room: int) -> None:
        self.begun = False
        self.election = election
        self.producer_id = body.producer_id
        self.room = room


class OwnershipChanges:
    """The ownership changes of one connection: producers by producer id, closes by request id."""

    def __init__(
        self, relay: Relay, transport: Transport, client_version: str, elections: ProducerElections, clock: Clock
    ) -> None:
        """`transport` is the client's, `relay` its connection to the broker."""
        self._relay = relay
        self._elections = elections
        self._transport = transport
        self._client_version = client_version
        self._clock = clock
        self._takings: dict[int, _Taking] = {}
        self._closing: dict[int, _Closing] = {}
        self._questions: dict[int, Callable[[], None]] = {}
        """What waits for the broker to be awake, by the request ids of the questions to it."""
        self._stopped = False

    # ---- from the client

    def election(self, producer_id: int) -> TopicElection | None:
        """The election of the topic that this producer takes or has taken; None for other producers."""
        taking = self._takings.get(producer_id)
        return None if taking is None else taking.election

    def holds(self, producer_id: int) -> bool:
        """Whether such a producer waits to be asked for: the broker has not heard of it."""
        taking = self._takings.get(producer_id)
        return taking is not None and not taking.begun

    def drop_held(self, producer_id: int) -> bool:
        """Let go of such a producer; whether there was one."""
        held = self.holds(producer_id)
        if held:
            self.give_up(producer_id)
        return held

    def take(self, election: TopicElection, body: pb.CommandProducer, frame: bytes, room: int) -> None:
        """Pass on a producer that does not wait, when no conflicting change is running.

        `room` is the memory that was set aside for it, as for `close`, until it is passed on or given up.
        """
        taking = self._takings[body.producer_id] = _Taking(election, body, room)
        election.changes.begin(taking, lambda: self._begin(taking, body, frame), alone=True)

    def _begin(self, taking: _Taking, body: pb.CommandProducer, frame: bytes) -> None:
        if not self._is_wanted(taking, body):
            return
        if taking.election.broker_queue.in_doubt:
            self._ask_whether_awake(taking, lambda: self._awake(taking, body, frame))
            return
        self._give_room(taking)
        taking.begun = True
        if not self._relay.request(_T.PRODUCER, body, frame):
            self.give_up(body.producer_id)

    def _is_wanted(self, taking: _Taking, body: pb.CommandProducer) -> bool:
        return not self._stopped and self._takings.get(body.producer_id) is taking

    def _ask_whether_awake(self, taking: _Taking, awake: Callable[[], None]) -> None:
        """Close a producer that does not exist: any broker confirms that at once."""
        number = self._relay.own_id()
        body = pb.CommandCloseProducer(producer_id=number, request_id=number)
        if self._relay.request(_T.CLOSE_PRODUCER, body, commands.close_producer(number, number)):
            taking.question = number
            self._questions[number] = awake
        else:  # without a connection
            self._clock.call_later(AWAKE_S_MIN, awake)

    def _awake(self, taking: _Taking, body: pb.CommandProducer, frame: bytes) -> None:
        """What has begun meanwhile, by the broker itself, is waited for."""
        if self._is_wanted(taking, body):
            taking.election.broker_queue.doubt_over()
            taking.election.changes.begin_again(taking, lambda: self._begin(taking, body, frame))

    def close(self, election: TopicElection, body: pb.CommandCloseProducer, frame: bytes, room: int = 0) -> None:
        """Pass on a close when no conflicting change is running."""
        self.closed(body)  # of a client that uses an id twice
        closing = self._closing[body.request_id] = _Closing(election, body, room)
        election.changes.begin(closing, lambda: self._pass_close(body, frame), alone=False)

    def closes(self, request_id: int) -> bool:
        """Whether this is a close that came here, and is not over."""
        return request_id in self._closing

    @property
    def closed_ids(self) -> frozenset[int]:
        """Producers with a close that the broker has not answered."""
        return frozenset(each.producer_id for each in self._closing.values() if each.begun)

    def under_way(self) -> Iterator[int]:
        """The ids of unanswered requests for which other changes of their topics wait."""
        yield from (each.request_id for each in self._takings.values() if each.begun and not each.answered)
        yield from (request_id for request_id, each in self._closing.items() if each.begun)
        yield from self._questions

    def _pass_close(self, body: pb.CommandCloseProducer, frame: bytes) -> None:
        closing = self._closing.get(body.request_id)
        if self._stopped or closing is None:
            return
        closing.begun = True
        self._give_room(closing)
        if not self._relay.request(_T.CLOSE_PRODUCER, body, frame):
            self.closed(body)

    # ---- from the broker

    def answered(self, body: pb.CommandProducer, command: pb.BaseCommand) -> None:
        """The broker's answer to a producer's request, if that producer takes its topic."""
        taking = self._takings.get(body.producer_id)
        if taking is None or taking.request_id != body.request_id:
            return
        taking.answered = True
        if command.type == _T.ERROR:
            self.give_up(body.producer_id)
            return
        success = command.producer_success
        owner = TopicOwner(
            producer_name=success.producer_name,
            access_mode=ACCESS_MODES[taking.mode],
            priority=None,
            topic_epoch=success.topic_epoch if success.HasField("topic_epoch") else None,
            since=self._clock.now(),
            address=self._transport.peer,
            client_version=self._client_version,
        )
        taking.election.taken(taking, owner)

    def closed(self, body: pb.CommandCloseProducer) -> None:
        """This close is over."""
        awake = self._questions.pop(body.request_id, None)
        if awake is not None:
            self._clock.call_later(AWAKE_S_MIN, awake)
            return
        closing = self._closing.pop(body.request_id, None)
        if closing is not None:
            self._give_room(closing)
            closing.election.changes.end(closing)

    def closed_by_broker(self, producer_id: int) -> None:
        """The broker closed a producer of this id: it was not one that is still to be asked for."""
        taking = self._takings.get(producer_id)
        if taking is not None and taking.begun:
            self.give_up(producer_id)

    def give_up(self, producer_id: int) -> None:
        """A producer that took its topic, or tried to, ends."""
        taking = self._takings.pop(producer_id, None)
        if taking is not None:
            self._give_room(taking)
            if taking.question is not None:
                self._questions.pop(taking.question, None)  # which holds its request
            taking.election.given_up(taking)

    def broker_lost(self, to_close: ProducersToClose) -> None:
        """Running changes and the gateway's own closes are lost; waiting changes keep their turn."""
        for awake in self._questions.values():
            self._clock.call_later(AWAKE_S_MIN, awake)
        self._questions.clear()
        self._lose(
            [producer_id for producer_id, each in self._takings.items() if each.begun],
            [request_id for request_id, each in self._closing.items() if each.begun or request_id > OWN_REQUESTS],
            to_close,
        )

    # ---- the end

    def stop(self) -> None:
        """The connection is closed: waiting changes are cancelled. `lose` follows."""
        self._stopped = True
        self._questions.clear()

    def unsent(self) -> None:
        """The started changes were not sent to the broker."""
        for taking in self._takings.values():
            taking.begun = False
        for closing in self._closing.values():
            closing.begun = False

    def lose(self, to_close: ProducersToClose) -> None:
        """Notify the elections; changes that the broker may have are added to `to_close`."""
        self._lose(list(self._takings), list(self._closing), to_close)

    def _lose(self, takings: list[int], closing: list[int], to_close: ProducersToClose) -> None:
        closed_ids = self.closed_ids
        lost = [(producer_id, self._takings.pop(producer_id)) for producer_id in takings]
        closes = [(request_id, self._closing.pop(request_id)) for request_id in closing]
        for producer_id, taking in lost:
            self._give_room(taking)
            # One that is closed before it was answered will not be answered for itself.
            if taking.begun and producer_id not in closed_ids:
                # Of one that was fenced the election may be over, and another one held.
                election = self._elections.of(taking.election.topic)
                producer = to_close.add(
                    election.changes, taking, producer_id, None if taking.answered else taking.request_id
                )
                if taking.mode == pb.ExclusiveWithFencing:
                    producer.created = _fenced_late(election)
            in_doubt = taking.mode == pb.ExclusiveWithFencing and taking.begun and not taking.answered
            taking.election.given_up(taking, in_doubt=in_doubt)
        for request_id, each in closes:
            self._give_room(each)
            if each.begun:
                to_close.add(each.election.changes, each, each.producer_id, request_id)
            each.election.changes.end(each)

    def _give_room(self, change: _Taking | _Closing) -> None:
        """It waits here no longer; once more changes nothing."""
        room, change.room = change.room, 0
        self._elections.give_room(room)


def _fenced_late(election: TopicElection) -> Callable[[pb.CommandProducerSuccess], None]:
    """Its client had disconnected when the broker answered; an owner that it fenced anywhere is still fenced."""

    def created(success: pb.CommandProducerSuccess) -> None:
        if success.HasField("topic_epoch"):
            election.fenced_late(success.topic_epoch)

    return created
