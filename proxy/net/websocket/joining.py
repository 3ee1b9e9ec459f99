"""The join of a WebSocket worker: CONNECT, the number of partitions, SUBSCRIBE to each; then the result.

The session treats it like every client: the broker checks its token and gives the number of partitions; the gateway
serves every partition's Key_Shared subscription.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from proxy.net.broker.requests import refusal_in
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from proxy.net.websocket.requests import Requests
    from proxy.socket_request import SocketRequest

PROTOCOL_VERSION: Final = 21
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
_T = pb.BaseCommand

_STATUS: Final = {
    pb.AuthenticationError: HTTPStatus.UNAUTHORIZED,
    pb.AuthorizationError: HTTPStatus.FORBIDDEN,
    pb.TopicNotFound: HTTPStatus.NOT_FOUND,
    pb.SubscriptionNotFound: HTTPStatus.NOT_FOUND,
    pb.ConsumerBusy: HTTPStatus.CONFLICT,
    pb.ConsumerAssignError: HTTPStatus.CONFLICT,
    pb.IncompatibleSchema: HTTPStatus.CONFLICT,
    pb.InvalidTopicName: HTTPStatus.BAD_REQUEST,
    pb.NotAllowedError: HTTPStatus.FORBIDDEN,
    pb.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    pb.ServiceNotReady: HTTPStatus.SERVICE_UNAVAILABLE,
    pb.TopicTerminatedError: HTTPStatus.SERVICE_UNAVAILABLE,
}


def http_status(code: int, *, connected: bool = True) -> int:
    """HTTP status of a refused upgrade, by the ServerError of a binary client."""
    if not connected and code == pb.NotAllowedError:
        return HTTPStatus.TOO_MANY_REQUESTS  # before CONNECTED it means: no room for another connection
    return _STATUS.get(code, HTTPStatus.INTERNAL_SERVER_ERROR)  # type: ignore[call-overload, no-any-return]


def connect_frame(request: SocketRequest, broker: str = "") -> bytes:
    """CONNECT with the client's token, to a broker by its ``host:port`` or to any."""
    connect = pb.CommandConnect(
        client_version=f"Keyline-WebSocket-{request.dialect}", protocol_version=PROTOCOL_VERSION
    )
    if broker:
        connect.proxy_to_broker_url = broker
    if request.token is not None:
        connect.auth_method_name = "token"
        connect.auth_data = request.token.encode()
    return encode_command(_T(type=_T.CONNECT, connect=connect))


def metadata_frame(topic: str, request_id: int) -> bytes:
    """Asks for the number of partitions."""
    body = pb.CommandPartitionedTopicMetadata(topic=topic, request_id=request_id)
    return encode_command(_T(type=_T.PARTITIONED_METADATA, partitionMetadata=body))


def partition_in(topic: str) -> int:
    """The partition number of a topic; -1 if it is not a partition."""
    number = topic.rpartition("-partition-")[2]
    return int(number) if number != topic and _PARTITION.fullmatch(number) else -1


class Joining:
    """The steps from CONNECTED to the last SUCCESS."""

    def __init__(
        self,
        request: SocketRequest,
        requests: Requests,
        joined: Callable[[list[tuple[str, int]]], None],
        refused: Callable[[int, str], None],
    ) -> None:
        """`joined` gets topic and partition of every consumer, by its id; `refused` a status and the reason."""
        self._request = request
        self._requests = requests
        self._joined = joined
        self._refused = refused
        self._topics: list[tuple[str, int]] = []
        self._missing = 0

    def connected(self) -> None:
        """The broker accepted the connection."""
        self._requests.ask(partial(metadata_frame, self._request.topic), self._partitions)

    def _partitions(self, answer: pb.BaseCommand) -> None:
        if self._refused_by(answer):
            return
        topic = self._request.topic
        self._topics = [
            (f"{topic}-partition-{number}", number) for number in range(answer.partitionMetadataResponse.partitions)
        ] or [(topic, partition_in(topic))]
        self._missing = len(self._topics)
        for consumer_id in range(len(self._topics)):
            self._requests.ask(partial(self._subscribe, consumer_id), self._answered)

    def _subscribe(self, consumer_id: int, request_id: int) -> bytes:
        request = self._request
        body = pb.CommandSubscribe(
            topic=self._topics[consumer_id][0],
            subscription=request.subscription,
            subType=pb.CommandSubscribe.Key_Shared,
            consumer_id=consumer_id,
            request_id=request_id,
            consumer_name=request.consumer_name,
            durable=request.durable,
            initialPosition=pb.CommandSubscribe.Earliest if request.earliest else pb.CommandSubscribe.Latest,
        )
        if request.priority_level is not None:
            body.priority_level = request.priority_level
        return encode_command(_T(type=_T.SUBSCRIBE, subscribe=body))

    def _answered(self, answer: pb.BaseCommand) -> None:
        if self._refused_by(answer):
            return
        self._missing -= 1
        if not self._missing:
            self._joined(self._topics)

    def _refused_by(self, answer: pb.BaseCommand) -> bool:
        refusal = refusal_in(answer)
        if refusal is not None:
            self._refused(http_status(refusal.wire_code), str(refusal))
        return refusal is not None
