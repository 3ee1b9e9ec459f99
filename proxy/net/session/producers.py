"""One client's exclusive producers.

Waiting producers (WaitForExclusive) are handled here: their requests are held, passed on when their topic's election
decides so, and the broker's answers go to the election before the client. Producers that take the topic (Exclusive,
ExclusiveWithFencing) are handled by the broker; only their start and end are recorded. All others are relayed.

Either come after the broker's word that their client may produce there, if there are others that they could hold up
(`permission`).

A producer keeps its id and its request's id, so that the broker's last answer answers the client's only request. The
gateway's own requests on a client's connection have request ids that no client uses.

Specification: `ServerCnx.handleProducer` and `handleCloseProducer`; PIP-68 and PIP-440.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proxy.errors import ClientError, KeylineError, LimitExceeded
from proxy.net.alarm import Alarm
from proxy.net.relay.closing import ProducersToClose
from proxy.net.relay.requests import OWN_REQUESTS
from proxy.net.session.ownership_changes import IMMEDIATE_MODES, OwnershipChanges
from proxy.net.session.permission import OwnTopic, UnjudgedProducer
from proxy.net.session.waiting_producer import WaitingProducer
from proxy.producers.election import Stage
from proxy.producers.request import full_name, queue_priority, refuse_oversized
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import error_frame

if TYPE_CHECKING:
    from proxy.net.election.elections import ProducerElections
    from proxy.net.ports import Clock, Transport
    from proxy.net.relay.relay import Relay
    from proxy.net.relay.requests import Pending
    from proxy.net.session.permission import Permission

_T = pb.BaseCommand

UNREAD_S_MAX: Final = 10.0
"""How long a client that leaves its socket unread may hold up others' changes of a topic's owner, or at most twice as
long. A broker may need some seconds to load the topic."""


Admit = Callable[[pb.CommandProducer, bytes], None]


class SessionProducers:
    """All of one connection, by producer id."""

    def __init__(
        self,
        relay: Relay,
        transport: Transport,
        client_version: str,
        elections: ProducerElections,
        clock: Clock,
        stuck: Callable[[], None],
        permission: Permission | None,
    ) -> None:
        """`transport` is the client's, `relay` its way to the broker; `permission` None where none is asked for.

        `stuck` is called when others wait for an answer that the client leaves unread.
        """
        self._relay = relay
        self.transport = transport
        self.client_version = client_version
        self._elections = elections
        self.clock = clock
        self._stuck = stuck
        self._permission = permission
        self._unjudged: dict[int, UnjudgedProducer] = {}
        self._answers_timer = Alarm(clock)
        self._waiting: dict[int, WaitingProducer] = {}
        self._ownership_changes = OwnershipChanges(relay, transport, client_version, elections, clock)

    # ---- from the client

    def producer(self, body: pb.CommandProducer, frame: bytes) -> None:
        """PRODUCER, of any access mode."""
        known = self._waiting.get(body.producer_id)
        held = body.producer_id in self._unjudged or self._ownership_changes.holds(body.producer_id)
        if held or (known is not None and known.candidacy.stage not in (Stage.OWNER, Stage.GONE)):
            message = "Producer is already present on the connection"
            self.transport.write(error_frame(pb.ServiceNotReady, message, body.request_id))
        elif known is not None and known.candidacy.stage is Stage.OWNER:
            self._relay.request(_T.PRODUCER, body, frame)  # the broker answers as it did
        elif body.producer_access_mode == pb.WaitForExclusive:
            self._judge(self._wait, body, frame)
        elif (
            body.producer_access_mode in IMMEDIATE_MODES and self._ownership_changes.election(body.producer_id) is None
        ):
            self._judge(self._take, body, frame)
        else:
            self._relay.request(_T.PRODUCER, body, frame)

    def close(self, body: pb.CommandCloseProducer, frame: bytes) -> None:
        """CLOSE_PRODUCER: the broker's to answer, unless it does not know the producer or is not to say so."""
        if self._drop_unjudged(body.producer_id) or self._ownership_changes.drop_held(body.producer_id):
            self.transport.write(commands.success(body.request_id))
            return
        producer = self._waiting.get(body.producer_id)
        if producer is not None and producer.unknown_to_broker:
            self._forget(producer)
            producer.election.left(producer.candidacy, "closed by its client")
            self.transport.write(commands.success(body.request_id))
            return
        if producer is not None and producer.candidacy.stage is Stage.ASKED:
            self._hold_close(producer, body.request_id)
            return
        election = self._ownership_changes.election(body.producer_id) if producer is None else producer.election
        if election is None:
            self._relay.request(_T.CLOSE_PRODUCER, body, frame)
            return
        room = self._room_for(body, frame)
        if room is None:
            return
        # Of one that was fenced the election may be over, and another one held.
        self._ownership_changes.close(self._elections.of(election.topic), body, frame, room)
        if producer is not None and self._ownership_changes.closes(body.request_id):
            producer.closing_ids.add(body.request_id)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """A client that leaves its socket unread leaves the broker's answers unread too.

        Others' changes of the topic wait for such an answer, whether this client may have the topic or not.
        """
        if not writable:
            self._watch_answers()

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
        body = pb.CommandCloseProducer(producer_id=producer.producer_id, request_id=self._relay.own_id())
        producer.closing_ids.add(body.request_id)
        frame = commands.close_producer(producer.producer_id, body.request_id)
        self._ownership_changes.close(producer.election, body, frame)

    # ---- from the broker

    def answered(self, pending: Pending, command: pb.BaseCommand) -> bool:
        """The answer to a PRODUCER or CLOSE_PRODUCER; whether the client is to hear it."""
        body = pending.body
        producer = self._waiting.get(body.producer_id)
        if pending.kind == _T.CLOSE_PRODUCER:
            told = self._closed(body, producer)
            self._ownership_changes.closed(body)
            return told
        if producer is not None and producer.request_id == body.request_id:
            told = self._decided(producer, command)
            self._pass_held_close(producer)
            return told
        self._ownership_changes.answered(body, command)
        return True

    def closed_by_broker(self, producer_id: int) -> bool:
        """CLOSE_PRODUCER from the broker; whether the client is to hear it."""
        self._ownership_changes.closed_by_broker(producer_id)
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
        to_close = ProducersToClose()
        closed_ids = self._ownership_changes.closed_ids
        # As they are before any of it is told: what comes of one may be that another is asked for, on the way to come.
        producers = list(self._waiting.values())
        withdrawing = [each for each in producers if each.candidacy.stage is Stage.WITHDRAWING]
        others = [each for each in producers if each.candidacy.stage is not Stage.WITHDRAWING]
        lost = [each for each in others if each.sent or each.candidacy.stage is Stage.OWNER]
        for producer in producers:
            self._leave(producer, to_close, closed_ids)
        for producer in lost:
            self._forget(producer)
            self._lose(producer, "the broker is gone")
        for producer in withdrawing:
            producer.sent = False
            producer.election.withdrawn(producer.candidacy)
        self._ownership_changes.broker_lost(to_close)
        to_close.left_to_broker(self.clock)

    # ---- the end

    def unsent(self) -> None:
        """The passed requests were not sent: the broker has none of them, and no producer was fenced."""
        for producer in self._waiting.values():
            producer.sent = False
        self._ownership_changes.unsent()

    def lose(self, reason: str, to_close: ProducersToClose, *, by_broker: bool) -> None:
        """The connection is gone; `by_broker` if because the broker was, so that the client will be back.

        What the broker may have of it is added to `to_close`.
        """
        self._answers_timer.cancel()
        for producer_id in list(self._unjudged):
            self._drop_unjudged(producer_id)
        producers, self._waiting = self._waiting, {}
        closed_ids = self._ownership_changes.closed_ids
        self._ownership_changes.stop()
        # First those that must not be promoted any more.
        for producer in sorted(producers.values(), key=lambda each: each.candidacy.stage is not Stage.WAITING):
            self._elections.give_room(producer.let_go())
            self._leave(producer, to_close, closed_ids)
            if by_broker and producer.candidacy.stage is Stage.OWNER:
                producer.election.taken_by_broker(producer.candidacy, reason)
            else:
                producer.election.left(producer.candidacy, reason)
        self._ownership_changes.lose(to_close)

    # ---- within

    def _watch_answers(self) -> None:
        """One timer: what is asked for while it runs is looked at by the next."""
        if not self._answers_timer.is_set:
            unread = self._under_way()
            self._answers_timer.set(UNREAD_S_MAX, lambda: self._check_answers(unread))

    def _check_answers(self, unread: frozenset[int]) -> None:
        if unread & self._under_way():
            self._stuck()
        elif not self.transport.writable:
            self._watch_answers()

    def _under_way(self) -> frozenset[int]:
        asked = (each.request_id for each in self._waiting.values() if each.candidacy.stage is Stage.ASKED)
        return frozenset((*asked, *self._ownership_changes.under_way()))

    def _judge(self, admit: Admit, body: pb.CommandProducer, frame: bytes) -> None:
        """Admit a producer when the broker has said that its client may produce; at once where no other has to wait.

        There its own request asks the broker just as well.
        """
        try:
            refuse_oversized(body)
        except ClientError as error:
            self.transport.write(error_frame(error.wire_code, str(error), body.request_id))
            return
        if self._permission is None or not self._elections.is_wanted(full_name(body.topic)):
            admit(body, frame)
            return
        room = self._room_for(body, frame)
        if room is None:
            return

        own_topic = OwnTopic(body.topic)

        def judged(refusal: KeylineError | None) -> None:
            unjudged = self._unjudged.get(body.producer_id)
            if unjudged is None or unjudged.own_topic is not own_topic:
                return  # closed, after the answer came
            self._drop_unjudged(body.producer_id)
            if refusal is None:
                admit(body, frame)
            else:
                self.transport.write(error_frame(refusal.wire_code, str(refusal), body.request_id))

        unjudged = self._unjudged[body.producer_id] = UnjudgedProducer(own_topic, judged, room)
        self._permission.ask(unjudged.own_topic, judged)

    def _drop_unjudged(self, producer_id: int) -> bool:
        """Let it go; whether there was one."""
        unjudged = self._unjudged.pop(producer_id, None)
        if unjudged is None or self._permission is None:
            return False
        self._permission.forget(unjudged.own_topic, unjudged.judged)
        self._elections.give_room(unjudged.room)
        return True

    def _room_for(self, body: pb.CommandProducer | pb.CommandCloseProducer, frame: bytes) -> int | None:
        """Set memory aside for a request that may have to wait here; None if there is none, and the client knows."""
        try:
            return self._elections.take_room(len(frame))
        except LimitExceeded as error:
            self.transport.write(error_frame(error.wire_code, str(error), body.request_id))
            return None

    def _take(self, body: pb.CommandProducer, frame: bytes) -> None:
        room = self._room_for(body, frame)
        if room is not None:
            self._ownership_changes.take(self._elections.of(full_name(body.topic)), body, frame, room)

    def _wait(self, body: pb.CommandProducer, frame: bytes) -> None:
        try:
            priority = queue_priority(body)
        except ClientError as error:
            self.transport.write(error_frame(error.wire_code, str(error), body.request_id))
            return
        room = self._room_for(body, frame)
        if room is None:
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
        """After any answer to a close: the broker does not know the producer now.

        Another one may have its id meanwhile, of a client that did not wait for this answer.
        """
        if producer is not None and body.request_id not in producer.closing_ids:
            producer = None
        if body.request_id > OWN_REQUESTS:
            if producer is not None:
                producer.closing_ids.discard(body.request_id)
                producer.sent = False
                producer.election.withdrawn(producer.candidacy)
            return False
        if self._ownership_changes.closes(body.request_id):
            self._ownership_changes.give_up(body.producer_id)
        if producer is not None:
            self._forget(producer)
            producer.election.left(producer.candidacy, "closed by its client")
        return True

    def _hold_close(self, producer: WaitingProducer, request_id: int) -> None:
        """Until the broker has answered: one that is creating a producer may confirm a close, and create it later.

        That producer would own the topic for as long as the connection stands.
        """
        earlier, producer.held_close = producer.held_close, request_id
        if earlier is not None:
            self.transport.write(commands.success(earlier))

    def _pass_held_close(self, producer: WaitingProducer) -> None:
        request_id, producer.held_close = producer.held_close, None
        if request_id is not None:
            body = pb.CommandCloseProducer(producer_id=producer.producer_id, request_id=request_id)
            self.close(body, commands.close_producer(producer.producer_id, request_id))

    def _leave(self, producer: WaitingProducer, to_close: ProducersToClose, closed_ids: frozenset[int]) -> None:
        """Its connection is over: the broker is to take it off, also if it owns the topic only perhaps."""
        # One that is closed before it was answered will not be answered for itself.
        if producer.sent and producer.producer_id not in closed_ids:
            changes = self._elections.of(producer.election.topic).changes
            asked = producer.candidacy.stage is Stage.ASKED
            to_close.add(changes, producer.candidacy, producer.producer_id, producer.request_id if asked else None)

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
            held, producer.held_close = producer.held_close, None
            if held is not None:  # and the broker has nothing of it
                self.transport.write(commands.success(held))
