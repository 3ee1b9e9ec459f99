"""A producer that waits for its topic, or owns it, as its topic's election sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.producers.election import Stage
from proxy.producers.request import without_waiting
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import parse_as

if TYPE_CHECKING:
    from proxy.net.election.audit_log import Candidacy
    from proxy.net.election.election import TopicElection
    from proxy.net.ports import Clock, Transport

_T = pb.BaseCommand


class Requests(Protocol):
    """What a producer knows of its client's connection, and asks of it."""

    clock: Clock
    transport: Transport
    client_version: str

    def ask(self, producer: WaitingProducer, body: pb.CommandProducer, frame: bytes) -> None:
        """Pass its request on to the broker."""

    def refuse(self, producer: WaitingProducer, error: int, message: str) -> None:
        """Answer its request with an error."""

    def withdraw(self, producer: WaitingProducer) -> None:
        """Close it at the broker."""


class WaitingProducer:
    """One that waits or owns; implements `audit_log.Candidate`."""

    __slots__ = (
        "_frame",
        "_session",
        "arrived_at",
        "candidacy",
        "closing_ids",
        "election",
        "held_close",
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
        self, session: Requests, election: TopicElection, body: pb.CommandProducer, frame: bytes, priority: int
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
        self.closing_ids: set[int] = set()
        """The requests of its closes that were passed on, its client's and the gateway's own."""
        self.held_close: int | None = None
        """The request of its client's CLOSE_PRODUCER that waits for the broker's answer to the creation."""

    @property
    def unknown_to_broker(self) -> bool:
        """Whether the broker has nothing of it, or is about to have nothing: the gateway asked it to close it."""
        stage = self.candidacy.stage
        return stage in (Stage.WAITING, Stage.WITHDRAWING) or (stage is Stage.ASKED and not self.sent)

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
