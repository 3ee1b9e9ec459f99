"""What a client is told that is refused something."""

from __future__ import annotations

from typing import Final

from proxy.errors import ClientError, KeylineError
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

PASSING: Final = frozenset(
    {pb.ServiceNotReady, pb.UnknownError, pb.MetadataError, pb.PersistenceError, pb.TooManyRequests}
)
"""What a broker says of a SUBSCRIBE if the fault is its own: clients try again at these. UnknownError also when
consumers of type Exclusive come and go at once, as the probes of several replicas do (seen with 4.0.7)."""


def error_frame(request_id: int, error: Exception) -> bytes:
    """The ERROR a client gets for one of its requests."""
    return commands.error(request_id, code_of(error), str(error))


def code_of(error: Exception) -> pb.ServerError:
    """The wire's code for it."""
    code: int = error.wire_code if isinstance(error, KeylineError) else pb.UnknownError
    return code  # type: ignore[return-value]  # protobuf's stubs have no int for an enum; the wire has nothing else


def refuse_ack(command: pb.CommandAck, *, in_group: bool) -> ClientError | None:
    """Why an ACK cannot be meant for Key_Shared; None if it can.

    `in_group` for one inside a transaction of a subscription whose streams replicas share.
    """
    if command.ack_type == pb.CommandAck.Cumulative:
        return ClientError("a Key_Shared subscription takes individual acks only, not cumulative ones")
    if in_group:
        return ClientError(
            "this subscription takes no acks inside a transaction, because replicas share it by streams; acknowledge "
            "outside the transaction, or have the gateway's operator let it have one owner (groups_mode=owner, and not "
            "among streamed_subscriptions)"
        )
    return None
