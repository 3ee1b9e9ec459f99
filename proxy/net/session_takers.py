"""One client's changes of a topic's owner that do not wait: producers that take their topic, and closes.

Both are the broker's to decide. What is seen to here is that none of them meets another there that it must not meet:
each passes its topic's turnstile, and is under way until it is answered.

Specification: `ServerCnx.handleProducer` and `handleCloseProducer`; PIP-68.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.producer_statistics import ACCESS_MODES, TopicOwner
from proxy.net.relay_requests import OURS
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.ports import Clock, Transport
    from proxy.net.producer_election import TopicElection
    from proxy.net.relay import Relay

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

    __slots__ = ("begun", "election")

    def __init__(self, election: TopicElection) -> None:
        self.begun = False
        self.election = election


class SessionTakers:
    """All of one connection: takers by producer id, closes by request id."""

    def __init__(self, relay: Relay, transport: Transport, client_version: str, clock: Clock) -> None:
        """`transport` is the client's, `relay` its way to the broker."""
        self._relay = relay
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
        closing = self._closing[body.request_id] = _Closing(election)
        election.begin(closing, lambda: self._pass_close(body, frame), alone=False)

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

    def broker_lost(self) -> None:
        """What is under way is lost, and what the gateway wanted to take back; what waits for its turn still has it."""
        closing = {number: each for number, each in self._closing.items() if each.begun or number > OURS}
        takers = {producer_id: each for producer_id, each in self._takers.items() if each.begun}
        for request_id in closing:
            del self._closing[request_id]
        for producer_id in takers:
            del self._takers[producer_id]
        _lose(closing.values(), takers.values())

    # ---- the end

    def stop(self) -> None:
        """The connection is gone: what has not begun never will. `lose` follows."""
        self._stopped = True

    def lose(self) -> None:
        """Tell the elections."""
        _lose(self._closing.values(), self._takers.values())
        self._closing.clear()
        self._takers.clear()


def _lose(closing: Iterable[_Closing], takers: Iterable[_Taker]) -> None:
    for taker in takers:
        if taker.begun:
            taker.election.broken()
        in_doubt = taker.mode == pb.ExclusiveWithFencing and taker.begun and not taker.answered
        taker.election.given_up(taker, in_doubt=in_doubt)
    for each in closing:
        if each.begun:
            each.election.broken()
        each.election.end(each)
