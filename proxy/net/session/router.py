"""Routes each command of a connected client to a worker, or to the broker.

A worker's consumer id decides; everything else goes to the broker, including commands for unknown consumers: it answers
them as without a gateway (ignores FLOW and ACK, answers Success to a close, MetadataError to a seek).

Specification: Pulsar binary protocol; `ServerCnx` for what a broker does with what it did not expect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from proxy.errors import ClientError
from proxy.net.message_ids import unmask
from proxy.net.relay.requests import OWN_REQUESTS
from proxy.net.relay.statistics import SessionCounters
from proxy.net.session.end_cause import EndCause
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.by_hand import PAYS, plain_ack
from proxy.wire.client_commands import (
    DATA,
    REQUESTS,
    body_of,
    command_name,
    may_ask_receipt,
    parse_as,
    peek_consumer_id,
)
from proxy.wire.topic_names import is_of_another_domain, persistent_topic

if TYPE_CHECKING:
    from proxy.net.ports import WorkerPort
    from proxy.net.relay.relay import Relay
    from proxy.net.session.elsewhere import Elsewhere
    from proxy.net.session.producers import SessionProducers
    from proxy.net.session.workers import SessionWorkers

_T = pb.BaseCommand
_SEND: Final[int] = _T.SEND  # looked up once: protobuf searches for a name in its descriptors each time
_ACK: Final[int] = _T.ACK
_FLOW: Final[int] = _T.FLOW

PERMITS_MAX: Final = 2**31 - 1
"""The broker reads permits as a signed number and ends the connection of who sends none or fewer."""

_NOTHING: Final[frozenset[int]] = frozenset()
_SEND_ONLY: Final[frozenset[int]] = frozenset({_T.SEND})


class Violation(ClientError):
    """The client broke the protocol in a way that costs it the connection; `cause` is how that is counted."""

    def __init__(self, cause: EndCause, message: str, wire_code: int = pb.NotAllowedError) -> None:
        """`message` and `wire_code` are told to the client."""
        super().__init__(message, wire_code)
        self.cause = cause


class CommandRouter:
    """The router of one client."""

    def __init__(
        self,
        relay: Relay,
        workers: SessionWorkers,
        producers: SessionProducers,
        counters: SessionCounters,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """All ways, what is between them, and the session's counts.

        `elsewhere` has what other replicas own; None where there are none.
        """
        self._elsewhere = elsewhere
        self._relay = relay
        self._workers = workers
        self._producers = producers
        self._counters = counters
        self._all_relayed = True
        """Whether every consumer so far was the broker's."""

    def unparsed(self) -> frozenset[int]:
        """Command types that go to `Relay.forward` as they are, until any other command was taken.

        Acknowledgements of a worker may come when it is closed already, and the broker would never answer them.
        """
        if not self._relay.passes_data:
            return _NOTHING
        return DATA if self._all_relayed else _SEND_ONLY

    def take_data(self, kind: int, frame: bytes) -> None:
        """Send one of `DATA` its way: to its worker, or on to the broker. The hot path of acknowledgements."""
        if kind == _SEND:
            self._relay.send(frame)
            return
        if (self._elsewhere and self._is_elsewhere(self._elsewhere, kind, frame)) or (
            PAYS and kind == _ACK and self._acked_by_hand(frame)
        ):
            return
        command = parse_as(kind, frame)
        body: Any
        if kind == _ACK:
            body = command.ack
            if (port := self._workers.port(body.consumer_id)) is not None:
                port.ack(body)
            elif body.HasField("request_id"):
                self._ack_with_receipt(body, frame)
                return
        elif kind == _FLOW:
            body = command.flow
            if (port := self._workers.port(body.consumer_id)) is not None:
                port.flow(_permits(body))
        else:
            body = command.redeliverUnacknowledgedMessages
            if (port := self._workers.port(body.consumer_id)) is not None:
                port.redeliver(body)
        if port is None:
            self._relay.consumer_data(frame)
        else:
            self._counters.intercepted_commands_total += 1

    def _acked_by_hand(self, frame: bytes) -> bool:
        """Let a worker have an ACK without protobuf; False if it is no worker's, or not as usual."""
        read = plain_ack(frame)
        port = self._workers.port(read[0]) if read is not None else None
        if read is None or port is None:
            return False
        port.acked_whole(read[1])
        self._counters.intercepted_commands_total += 1
        return True

    def _ack_with_receipt(self, body: pb.CommandAck, frame: bytes) -> None:
        _check_id(body)
        if self._relay.consumer_ready(body.consumer_id) is None:
            self._workers.answer_no_consumer(body)
        else:
            self._relay.request(_ACK, body, frame)

    def take(self, kind: int, frame: bytes) -> None:
        """Send one command its way. Raises `Violation`, and `FrameError` for what does not parse."""
        if kind in DATA:
            self.take_data(kind, frame)
            return
        if kind not in REQUESTS:
            raise Violation(EndCause.UNKNOWN_COMMAND, f"{command_name(kind)} is not served here")
        command = parse_as(kind, frame)
        body = body_of(command)
        _check_id(body)
        to_worker = _TO_WORKER.get(kind)
        if self._elsewhere and to_worker is not None and body.consumer_id in self._elsewhere:
            self._elsewhere.request(kind, body, frame)
        elif to_worker is not None and (port := self._workers.port(body.consumer_id)) is not None:
            self._counters.intercepted_commands_total += 1
            to_worker(port, body)
        elif kind == _T.SUBSCRIBE:
            self._subscribe(command, frame)
        elif kind == _T.PRODUCER:
            self._producers.producer(body, frame)
        elif kind == _T.CLOSE_PRODUCER:
            self._producers.close(body, frame)
        elif kind == _T.LOOKUP:
            self._relay.lookup(command, frame)
        elif kind == _T.SEEK and body.HasField("message_id") and unmask(body.message_id):
            self._relay.request(kind, body, frames.encode_command(command))
        else:
            self._relay.request(kind, body, frame)

    def _subscribe(self, command: pb.BaseCommand, frame: bytes) -> None:
        """The gateway serves Key_Shared on a persistent topic; every other consumer is relayed."""
        body = command.subscribe
        topic = persistent_topic(body.topic)
        key_shared = body.subType == pb.CommandSubscribe.Key_Shared
        ours = key_shared and topic is not None
        relayed_ready = self._relay.consumer_ready(body.consumer_id)
        if body.consumer_id in self._workers:
            self._workers.answer_duplicate(body.request_id, ready=self._workers.ready(body.consumer_id))
        elif self._elsewhere and body.consumer_id in self._elsewhere:
            self._workers.answer_duplicate(body.request_id, ready=self._elsewhere.ready(body.consumer_id))
        elif ours and relayed_ready is not None:
            self._workers.answer_duplicate(body.request_id, ready=relayed_ready)
        elif ours and topic is not None:
            body.topic = topic
            self._all_relayed = False
            self._counters.intercepted_commands_total += 1
            if self._elsewhere is None:
                self._workers.subscribe(body, self._workers.deadline)
            else:
                self._lead(self._elsewhere, body, frame, self._workers.deadline)
        elif key_shared and not is_of_another_domain(body.topic):
            self._workers.refuse_topic_name(body)
        else:
            if body.HasField("start_message_id") and unmask(body.start_message_id):
                frame = frames.encode_command(command)
            self._relay.request(_T.SUBSCRIBE, body, frame)

    def _lead(self, elsewhere: Elsewhere, body: pb.CommandSubscribe, frame: bytes, until: float) -> None:
        """To its owner; and again, if the subscription moves away from here before the client is answered."""

        def lead_on() -> None:
            self._lead(elsewhere, body, frame, until)

        elsewhere.subscribe(body, frame, lambda: self._workers.subscribe(body, until, lead_on))

    @staticmethod
    def _is_elsewhere(elsewhere: Elsewhere, kind: int, frame: bytes) -> bool:
        """Whether it is for a consumer that another replica serves, where it is on its way now."""
        consumer_id = peek_consumer_id(kind, frame)
        if consumer_id is None:
            consumer_id = body_of(parse_as(kind, frame)).consumer_id
        if consumer_id not in elsewhere:
            return False
        if kind == _ACK and may_ask_receipt(frame) and (asked := parse_as(kind, frame).ack).HasField("request_id"):
            elsewhere.request(kind, asked, frame)
        else:
            elsewhere.data(consumer_id, frame)
        return True


def _check_id(body: Any) -> None:
    """Raise `Violation` for an id of the gateway's own requests: the answer would pass for a yes to one of those."""
    if body.request_id > OWN_REQUESTS:
        message = f"request id {body.request_id}: from {OWN_REQUESTS + 1} on they are the gateway's own"
        raise Violation(EndCause.BAD_REQUEST_ID, message)


def _permits(body: pb.CommandFlow) -> int:
    if not 0 < body.messagePermits <= PERMITS_MAX:
        message = (
            f"FLOW of {body.messagePermits} permits for consumer {body.consumer_id}: "
            f"from 1 to {PERMITS_MAX} may be granted at once"
        )
        raise Violation(EndCause.BAD_FLOW, message)
    return body.messagePermits


_TO_WORKER: Final[dict[int, Callable[[WorkerPort, Any], None]]] = {
    _T.CLOSE_CONSUMER: lambda port, body: port.close(body.request_id),
    _T.UNSUBSCRIBE: lambda port, body: port.unsubscribe(body),
    _T.SEEK: lambda port, body: port.seek(body),
    _T.GET_LAST_MESSAGE_ID: lambda port, body: port.get_last_message_id(body),
    _T.CONSUMER_STATS: lambda port, body: port.consumer_stats(body),
}
"""Requests that name a consumer, and go to its worker if there is one."""
