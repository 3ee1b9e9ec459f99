"""One client's changes of a topic's owner that do not wait: producers that take their topic, and closes.

Both are the broker's to decide. What is seen to here is that none of them meets another there that it must not meet:
each passes its topic's turnstile, and is under way until it is answered.

Specification: `ServerCnx.handleProducer` and `handleCloseProducer`; PIP-68.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.election.statistics import ACCESS_MODES, TopicOwner
from proxy.net.relay.requests import OURS
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.net.election.election import TopicElection
    from proxy.net.election.elections import ProducerElections
    from proxy.net.ports import Clock, Transport
    from proxy.net.relay.parting import Leavings
    from proxy.net.relay.relay import Relay

_T = pb.BaseCommand

TAKERS: Final = frozenset({pb.Exclusive, pb.ExclusiveWithFencing})
"""Access modes that own a topic without waiting for it."""


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
    """A close that its client, or the gateway, waits for."""

    __slots__ = ("begun", "election", "producer_id")

    def __init__(self, election: TopicElection, body: pb.CommandCloseProducer) -> None:
        self.begun = False
        self.election = election
        self.producer_id = body.producer_id


class SessionTakers:
    """All of one connection: takers by producer id, closes by request id."""

    def __init__(
        self, relay: Relay, transport: Transport, client_version: str, elections: ProducerElections, clock: Clock
    ) -> None:
        """`transport` is the client's, `relay` its way to the broker."""
        self._relay = relay
        self._elections = elections
        self._transport = transport
        self._client_version = client_version
        self._clock = clock
        self._takers: dict[int, _Taker] = {}
        self._closing: dict[int, _Closing] = {}
        self._stopped = False

    # ---- from the client

    def election(self, producer_id: int) -> TopicElection | None:
        """Of the topic that this producer takes or has taken; None for one that does neither."""
        taker = self._takers.get(producer_id)
        return None if taker is None else taker.election

    def take(self, election: TopicElection, body: pb.CommandProducer, frame: bytes) -> None:
        """Pass one on that does not wait, when nothing that it must not meet is under way."""
        taker = self._takers[body.producer_id] = _Taker(election, body)

        def begin() -> None:
            if self._stopped or self._takers.get(body.producer_id) is not taker:
                return
            taker.begun = True
            if not self._relay.request(_T.PRODUCER, body, frame):
                self.give_up(body.producer_id)

        election.begin(taker, begin, alone=True)

    def close(self, election: TopicElection, body: pb.CommandCloseProducer, frame: bytes) -> None:
        """Pass a close on when nothing that it must not meet is under way."""
        self.closed(body)  # of a client that uses an id twice
        closing = self._closing[body.request_id] = _Closing(election, body)
        election.begin(closing, lambda: self._pass_close(body, frame), alone=False)

    @property
    def closed_ids(self) -> frozenset[int]:
        """Producers that the broker was told to close, and has not said so of."""
        return frozenset(each.producer_id for each in self._closing.values() if each.begun)

    def under_way(self) -> Iterator[int]:
        """The ids of requests that the broker has not answered, while others' changes of their topics wait for that."""
        yield from (each.request_id for each in self._takers.values() if each.begun and not each.answered)
        yield from (request_id for request_id, each in self._closing.items() if each.begun)

    def _pass_close(self, body: pb.CommandCloseProducer, frame: bytes) -> None:
        closing = self._closing.get(body.request_id)
        if self._stopped or closing is None:
            return
        closing.begun = True
        if not self._relay.request(_T.CLOSE_PRODUCER, body, frame):
            self.closed(body)

    # ---- from the broker

    def answered(self, body: pb.CommandProducer, command: pb.BaseCommand) -> None:
        """The broker's answer to a request for a producer, if that is one that takes its topic."""
        taker = self._takers.get(body.producer_id)
        if taker is None or taker.request_id != body.request_id:
            return
        taker.answered = True
        if command.type == _T.ERROR:
            self.give_up(body.producer_id)
            return
        success = command.producer_success
        owner = TopicOwner(
            producer_name=success.producer_name,
            access_mode=ACCESS_MODES[taker.mode],
            priority=None,
            topic_epoch=success.topic_epoch if success.HasField("topic_epoch") else None,
            since=self._clock.now(),
            address=self._transport.peer,
            client_version=self._client_version,
        )
        taker.election.taken(taker, owner)

    def closed(self, body: pb.CommandCloseProducer) -> None:
        """Nobody waits for this close any more."""
        closing = self._closing.pop(body.request_id, None)
        if closing is not None:
            closing.election.end(closing)

    def give_up(self, producer_id: int) -> None:
        """One that took its topic, or wanted to, does not any more."""
        taker = self._takers.pop(producer_id, None)
        if taker is not None:
            taker.election.given_up(taker)

    def broker_lost(self, leavings: Leavings) -> None:
        """What is under way is lost, and what the gateway wanted to take back; what waits for its turn still has it."""
        self._lose(
            [producer_id for producer_id, each in self._takers.items() if each.begun],
            [request_id for request_id, each in self._closing.items() if each.begun or request_id > OURS],
            leavings,
        )

    # ---- the end

    def stop(self) -> None:
        """The connection is gone: what has not begun never will. `lose` follows."""
        self._stopped = True

    def unsent(self) -> None:
        """What was begun has not left the gateway."""
        for taker in self._takers.values():
            taker.begun = False
        for closing in self._closing.values():
            closing.begun = False

    def lose(self, leavings: Leavings) -> None:
        """Tell the elections; what the broker may have is added to `leavings`."""
        self._lose(list(self._takers), list(self._closing), leavings)

    def _lose(self, takers: list[int], closing: list[int], leavings: Leavings) -> None:
        closed_ids = self.closed_ids
        lost = [(producer_id, self._takers.pop(producer_id)) for producer_id in takers]
        closes = [(request_id, self._closing.pop(request_id)) for request_id in closing]
        for producer_id, taker in lost:
            # One that is closed before it was answered will not be answered for itself.
            if taker.begun and producer_id not in closed_ids:
                # Of one that was fenced the election may be over, and another one held.
                gate = self._elections.of(taker.election.topic)
                leaving = leavings.add(gate, taker, producer_id, None if taker.answered else taker.request_id)
                if taker.mode == pb.ExclusiveWithFencing:
                    leaving.created = _fenced_late(gate)
            in_doubt = taker.mode == pb.ExclusiveWithFencing and taker.begun and not taker.answered
            taker.election.given_up(taker, in_doubt=in_doubt)
        for request_id, each in closes:
            if each.begun:
                leavings.add(each.election, each, each.producer_id, request_id)
            each.election.end(each)


def _fenced_late(election: TopicElection) -> Callable[[pb.CommandProducerSuccess], None]:
    """Its client was gone when the broker answered; whoever it fenced, at whatever replica, is fenced all the same."""

    def created(success: pb.CommandProducerSuccess) -> None:
        if success.HasField("topic_epoch"):
            election.fenced_late(success.topic_epoch)

    return created
