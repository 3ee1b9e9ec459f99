"""Requests on a broker connection that wait for their answer, and what counts as one.

Pulsar answers a request by an id the asker chose, in one of a dozen reply commands; each says "no" in its own way
(ERROR, an error field, a lookup type). This table turns them all into one thing: the reply, or an `UpstreamError`.

All requests of a connection share one time-out, so they fall due in the order they were made: a dict is the queue,
and one coarse timer looks at its head.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.net.handshake import FRAME_PADDING_BYTES
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.ports import Transport

Answered = Callable[["pb.BaseCommand | Exception"], None]

_Type = pb.BaseCommand

REPLY_FIELDS: dict[int, str] = {
    _Type.SUCCESS: "success",
    _Type.ERROR: "error",
    _Type.PRODUCER_SUCCESS: "producer_success",
    _Type.LOOKUP_RESPONSE: "lookupTopicResponse",
    _Type.PARTITIONED_METADATA_RESPONSE: "partitionMetadataResponse",
    _Type.ACK_RESPONSE: "ackResponse",
    _Type.CONSUMER_STATS_RESPONSE: "consumerStatsResponse",
    _Type.GET_LAST_MESSAGE_ID_RESPONSE: "getLastMessageIdResponse",
    _Type.GET_TOPICS_OF_NAMESPACE_RESPONSE: "getTopicsOfNamespaceResponse",
    _Type.GET_SCHEMA_RESPONSE: "getSchemaResponse",
    _Type.GET_OR_CREATE_SCHEMA_RESPONSE: "getOrCreateSchemaResponse",
    _Type.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: "addSubscriptionToTxnResponse",
}
"""Reply command -> its field in BaseCommand; every one of them has a `request_id`."""

_ERROR_FIELDS: dict[int, tuple[str, str]] = {
    _Type.ERROR: ("error", "message"),
    _Type.LOOKUP_RESPONSE: ("error", "message"),
    _Type.PARTITIONED_METADATA_RESPONSE: ("error", "message"),
    _Type.ACK_RESPONSE: ("error", "message"),
    _Type.CONSUMER_STATS_RESPONSE: ("error_code", "error_message"),
    _Type.GET_SCHEMA_RESPONSE: ("error_code", "error_message"),
    _Type.GET_OR_CREATE_SCHEMA_RESPONSE: ("error_code", "error_message"),
    _Type.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: ("error", "message"),
}
"""Reply command -> the fields that carry the broker's refusal.

UnknownError is 0, the default of the enum, so presence of the field counts and never its value.
"""


def request_id_of(reply: pb.BaseCommand) -> int:
    """Which request a reply answers; only for commands in `REPLY_FIELDS`."""
    request_id: int = getattr(reply, REPLY_FIELDS[reply.type]).request_id
    return request_id


def refusal_in(command: pb.BaseCommand) -> UpstreamError | None:
    """Read the broker's "no" out of a reply, if it is one."""
    names = _ERROR_FIELDS.get(command.type)
    if names is None:
        return None
    reply: Any = getattr(command, REPLY_FIELDS[command.type])
    code_field, message_field = names
    if not (reply.HasField(code_field) or _is_failed(command)):
        return None
    code = getattr(reply, code_field)
    message = getattr(reply, message_field) or f"the broker answered {pb.ServerError.Name(code)} without a message"
    return UpstreamError(message, code)


def _is_failed(command: pb.BaseCommand) -> bool:
    """Whether a lookup or metadata answer is a failure by its type, regardless of its error field."""
    if command.type == _Type.LOOKUP_RESPONSE:
        return command.lookupTopicResponse.response == pb.CommandLookupTopicResponse.Failed
    if command.type == _Type.PARTITIONED_METADATA_RESPONSE:
        return command.partitionMetadataResponse.response == pb.CommandPartitionedTopicMetadataResponse.Failed
    return False


class Requests:
    """The requests of one connection that wait. Ids rise from 1 and are never used twice."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s` holds for each request."""
        self._timeout_s = timeout_s
        self._next_id = 1
        self._waiting: dict[int, tuple[float, Answered]] = {}
        self._queued: dict[int, Answered] = {}
        """Producers that wait for their turn at the broker, without a time-out."""

    def send(
        self,
        transport: Transport,
        max_message_bytes: int,
        build: Callable[[int], bytes],
        now: float,
        answered: Answered,
    ) -> UpstreamError | None:
        """Send `build(request_id)` and remember who waits for the answer.

        A frame beyond the broker's limit is not sent: the broker would end the connection for it, under all who share
        it. Then what the asker is to be told is returned, and nothing waits.
        """
        request_id = self._next_id
        self._next_id = request_id + 1
        frame = build(request_id)
        longest = max_message_bytes + FRAME_PADDING_BYTES
        if len(frame) > longest:
            message = (
                f"a request of {len(frame)} bytes: the topic's broker takes {longest} (its maxMessageSize and 10 KiB)"
            )
            return UpstreamError(message, pb.NotAllowedError)
        self._waiting[request_id] = (now + self._timeout_s, answered)
        transport.write(frame)
        return None

    def resolve(self, request_id: int, command: pb.BaseCommand) -> bool:
        """Pass a reply to its request; False if no request waits for it."""
        waiting = self._waiting.pop(request_id, None)
        answered = self._queued.pop(request_id, None) if waiting is None else waiting[1]
        if answered is None:
            return False
        if command.type == _Type.PRODUCER_SUCCESS and not command.producer_success.producer_ready:
            self._queued[request_id] = answered
        else:
            answered(refusal_in(command) or command)
        return True

    def expire(self, now: float, broker: str) -> None:
        """Answer those that waited too long.

        Found in one pass: asked for its first item after each that was taken, a dict passes all former ones again.
        """
        due = takewhile(lambda item: item[1][0] <= now, self._waiting.items())
        for request_id in [request_id for request_id, _ in due]:
            waiting = self._waiting.pop(request_id, None)
            if waiting is not None:  # an answer before it may have ended it
                waiting[1](UpstreamUnavailable(f"{broker} did not answer within {self._timeout_s:g} s"))

    def take_all(self) -> list[Answered]:
        """Forget everything that waits; who asked, in the order they did."""
        waiting, self._waiting = self._waiting, {}
        queued, self._queued = self._queued, {}
        asked = {request_id: answered for request_id, (_, answered) in waiting.items()} | queued
        return [asked[request_id] for request_id in sorted(asked)]
