"""What a client may send, as tables: which commands there are, whose they can be, and how each is refused.

A client waits for the answer its request calls for: a lookup that is answered with ERROR hangs until its time-out,
because clients keep lookups and requests apart. So every request has one row here that says what its refusal looks
like, and no other module builds one.

Specification: Pulsar binary protocol; `ServerCnx` and `PulsarDecoder` for what a broker takes from a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.errors import FrameError
from proxy.wire.varints import varint

_T = pb.BaseCommand

UNASKED: Final = 2**64 - 1
"""The request id of unrequested answers: the broker's -1."""

BODIES: Final[dict[int, str]] = {
    kind: _T.DESCRIPTOR.fields_by_number[kind].name
    for kind in _T.Type.values()
    if kind in _T.DESCRIPTOR.fields_by_number
}
"""Command type to the name of its body."""


def command_name(kind: int) -> str:
    """Name a command type; a newer number has none."""
    return _T.Type.Name(kind) if kind in _T.Type.values() else f"command type {kind}"


def body_of(command: pb.BaseCommand) -> Any:
    """Return the body that the command's type calls for."""
    return getattr(command, BODIES[command.type])


def parse_as(kind: int, frame: bytes) -> pb.BaseCommand:
    """Parse a frame whose first bytes said `kind`. Raises `FrameError`, also when the type stands twice and differs.

    Protobuf lets the last one count; we have already decided by the first.
    """
    command = frames.parse_command(frame)
    if command.type != kind:
        what = f"a command of type {kind} and of type {command.type}"
        raise FrameError(what, f"in a frame of {len(frame)} bytes", "a command has one type")
    return command


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a request is answered with an error."""

    reply: int = _T.ERROR
    error_field: str = "error"
    message_field: str = "message"
    failed: int | None = None
    """Value of the reply's own `response` field, where it has one."""
    wire_code: int = pb.ServiceNotReady
    """What to say when the broker is gone; makes the client try again."""


_PLAIN: Final = Refusal()
_CODE: Final = ("error_code", "error_message")


def _transaction(reply: int) -> Refusal:
    # A client reconnects to its transaction coordinator on this code, and fails the transaction on any other.
    return Refusal(reply, wire_code=pb.TransactionCoordinatorNotFound)


REQUESTS: Final[dict[int, Refusal]] = {
    _T.SUBSCRIBE: _PLAIN,
    _T.PRODUCER: _PLAIN,
    _T.UNSUBSCRIBE: _PLAIN,
    _T.CLOSE_PRODUCER: _PLAIN,
    _T.CLOSE_CONSUMER: _PLAIN,
    _T.SEEK: _PLAIN,
    _T.GET_LAST_MESSAGE_ID: _PLAIN,
    _T.GET_TOPICS_OF_NAMESPACE: _PLAIN,
    _T.WATCH_TOPIC_LIST: _PLAIN,
    _T.WATCH_TOPIC_LIST_CLOSE: _PLAIN,
    _T.ACK: Refusal(_T.ACK_RESPONSE),
    _T.LOOKUP: Refusal(_T.LOOKUP_RESPONSE, failed=pb.CommandLookupTopicResponse.Failed),
    _T.PARTITIONED_METADATA: Refusal(
        _T.PARTITIONED_METADATA_RESPONSE, failed=pb.CommandPartitionedTopicMetadataResponse.Failed
    ),
    _T.CONSUMER_STATS: Refusal(_T.CONSUMER_STATS_RESPONSE, *_CODE),
    _T.GET_SCHEMA: Refusal(_T.GET_SCHEMA_RESPONSE, *_CODE),
    _T.GET_OR_CREATE_SCHEMA: Refusal(_T.GET_OR_CREATE_SCHEMA_RESPONSE, *_CODE),
    _T.TC_CLIENT_CONNECT_REQUEST: Refusal(_T.TC_CLIENT_CONNECT_RESPONSE),
    _T.NEW_TXN: _transaction(_T.NEW_TXN_RESPONSE),
    _T.ADD_PARTITION_TO_TXN: _transaction(_T.ADD_PARTITION_TO_TXN_RESPONSE),
    _T.ADD_SUBSCRIPTION_TO_TXN: _transaction(_T.ADD_SUBSCRIPTION_TO_TXN_RESPONSE),
    _T.END_TXN: _transaction(_T.END_TXN_RESPONSE),
    _T.END_TXN_ON_PARTITION: _transaction(_T.END_TXN_ON_PARTITION_RESPONSE),
    _T.END_TXN_ON_SUBSCRIPTION: _transaction(_T.END_TXN_ON_SUBSCRIPTION_RESPONSE),
}
"""Every command with a request id that a client may send, and its refusal. Scalable topics are not among them: their
answers name brokers, and CONNECTED does not offer them (see `handshake.HELD_FEATURES`)."""

REPLIES: Final = frozenset(refusal.reply for refusal in REQUESTS.values()) | {
    _T.SUCCESS,
    _T.PRODUCER_SUCCESS,
    _T.GET_LAST_MESSAGE_ID_RESPONSE,
    _T.GET_TOPICS_OF_NAMESPACE_RESPONSE,
    _T.WATCH_TOPIC_LIST_SUCCESS,
}
"""Every command of a broker that settles a request."""

CLOSURES: Final = frozenset({_T.CLOSE_PRODUCER, _T.CLOSE_CONSUMER, _T.WATCH_TOPIC_LIST_CLOSE})
"""Requests that have succeeded when the broker is gone: what they close is closed."""

DATA: Final = frozenset({_T.SEND, _T.ACK, _T.FLOW, _T.REDELIVER_UNACKNOWLEDGED_MESSAGES})
"""Commands of every message; without a worker on the connection they are forwarded unparsed."""


_OF_CONSUMERS: Final = (_T.ACK, _T.FLOW, _T.REDELIVER_UNACKNOWLEDGED_MESSAGES)
_BODY_TAGS: Final[dict[int, bytes]] = {kind: varint(kind << 3 | 2) for kind in _OF_CONSUMERS}
"""Protobuf's tag of the body of each that is sent for every few messages."""
_CONSUMER_ID_TAG: Final = 0x08
_REQUEST_ID_TAG: Final = 0x40
"""In an ACK."""
_MORE: Final = 0x80
_VARINT_BYTES_MAX: Final = 10
_VARINT_BITS_MAX: Final = 63
"""Of the bytes before the last. A client may send megabytes of which each says that there is one more."""


def peek_consumer_id(kind: int, frame: bytes) -> int | None:
    """Read whose an ACK, FLOW or REDELIVER is without parsing it; None where the id does not stand first.

    Every known client writes it there. The code that executes the command parses it: what was read here decides its
    route only. A number that is longer than protobuf has any is left to that code, too: to add up megabytes of it, byte
    by byte, would take a quarter of an hour.
    """
    tag = _BODY_TAGS[kind]
    start = frames.COMMAND_START + 2
    index = start + len(tag)
    if frame[start:index] != tag:
        return None
    try:
        longest = index + _VARINT_BYTES_MAX
        while index < longest and frame[index] >= _MORE:  # the body's length
            index += 1
        if frame[index + 1] != _CONSUMER_ID_TAG:
            return None
        index += 2
        value = shift = 0
        while (byte := frame[index]) >= _MORE:
            if shift >= _VARINT_BITS_MAX:
                return None
            value |= (byte & ~_MORE) << shift
            shift += 7
            index += 1
    except IndexError:
        return None
    return value | byte << shift


def may_ask_receipt(frame: bytes) -> bool:
    """Whether an ACK may have a request id, without parsing it: every known client writes that field last.

    True for some that have none, so that who asks must parse these. False for one that has it elsewhere.
    """
    for at in range(len(frame) - 2, len(frame) - 2 - _VARINT_BYTES_MAX, -1):  # back over the number to its tag
        if frame[at] < _MORE:
            return frame[at] == _REQUEST_ID_TAG
    return False


def error_frame(wire_code: int, message: str, request_id: int = UNASKED) -> bytes:
    """ERROR; without a request id it says why the connection is about to end."""
    return commands.error(request_id, wire_code, message)  # type: ignore[arg-type]  # a plain number will do


def refusal_frame(kind: int, body: Any, message: str, wire_code: int | None = None) -> bytes:
    """Answer a request of type `kind` with an error; the code is the row's unless given."""
    refusal = REQUESTS[kind]
    command = pb.BaseCommand(type=refusal.reply)  # type: ignore[arg-type]  # a plain number will do
    reply = body_of(command)
    reply.request_id = body.request_id
    setattr(reply, refusal.error_field, refusal.wire_code if wire_code is None else wire_code)
    setattr(reply, refusal.message_field, message)
    if refusal.failed is not None:
        reply.response = refusal.failed
    if kind == _T.ACK:
        reply.consumer_id = body.consumer_id
    return frames.encode_command(command)


def close_frame(kind: int, owner_id: int) -> bytes:
    """CLOSE_PRODUCER or CLOSE_CONSUMER as a broker sends it: the client looks the topic up and comes back."""
    close = commands.close_producer if kind == _T.CLOSE_PRODUCER else commands.close_consumer
    return close(owner_id, UNASKED)


def kept_of(command: pb.CommandSubscribe) -> pb.CommandSubscribe:
    """What is kept of a SUBSCRIBE once it is answered: who asked for what, and the hash ranges of a sticky worker.

    And its consumer's properties, which statistics show. All else has been judged, and may have megabytes. A new
    command, since protobuf frees the memory of one as a whole: a field that is cleared keeps its bytes. The command
    itself is left as it is: another may be made of it.
    """
    kept = pb.CommandSubscribe(
        topic=command.topic,
        subscription=command.subscription,
        subType=command.subType,
        consumer_id=command.consumer_id,
        request_id=command.request_id,
        consumer_name=command.consumer_name,
        metadata=command.metadata,
    )
    if command.keySharedMeta.keySharedMode == pb.STICKY:
        kept.keySharedMeta.CopyFrom(command.keySharedMeta)
    return kept
