"""A broker of one topic that forgets everything: enough of the protocol for an official client to produce and consume.

It listens on loopback, one thread for each connection, records every frame a client sends and answers each request with
what a real broker would say if all went well. What it delivers is set before the client subscribes.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from typing import Self

from proxy.wire import commands
from proxy.wire.frames import FrameSplitter, encode_command, frame_type, parse_command, payload_start
from proxy.wire.pulsar_pb2 import BaseCommand, CommandLookupTopicResponse, CommandPartitionedTopicMetadataResponse
from tests.wire.message_frames import message_frame

MAX_MESSAGE_BYTES = 5 << 20
MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + (10 << 10)
PROTOCOL_VERSION = 21
LEDGER = 77
READ_BYTES = 1 << 16
WAIT_S = 20.0


class TinyBroker:
    """Serves until left as a context manager."""

    def __init__(self, tails: Sequence[bytes] = (), protocol_version: int = PROTOCOL_VERSION) -> None:
        """`tails` are delivered to the first consumer that grants permits, as entries 0, 1, ... of one ledger."""
        self.frames: list[bytes] = []
        self.tails = list(tails)
        self._protocol_version = protocol_version
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Service URL for a client."""
        return f"pulsar://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """The broker, listening."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        for connection in (self._listener, *self._connections):
            connection.close()

    def wait_for(self, enough: Callable[[list[bytes]], bool]) -> list[bytes]:
        """Block until the frames received are enough, and return them. Raises TimeoutError where they never are."""
        with self._changed:
            if not self._changed.wait_for(lambda: enough(self.frames), WAIT_S):
                raise TimeoutError(f"not enough after {WAIT_S} s: types {[frame_type(frame) for frame in self.frames]}")
            return list(self.frames)

    def sent(self, kind: BaseCommand.Type) -> list[bytes]:
        """The frames of one type received so far."""
        with self._changed:
            return [frame for frame in self.frames if frame_type(frame) == kind]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        splitter = FrameSplitter(MAX_FRAME_BYTES)
        try:
            while data := connection.recv(READ_BYTES):
                for frame in splitter.feed(data):
                    answer = b"".join(self._answers(frame))
                    with self._changed:
                        self.frames.append(frame)
                        self._changed.notify_all()
                    connection.sendall(answer)
        except OSError:
            return

    def _answers(self, frame: bytes) -> list[bytes]:
        command = parse_command(frame)
        kind = command.type
        if kind == BaseCommand.CONNECT:
            return [commands.connected("tiny", self._protocol_version, MAX_MESSAGE_BYTES, None)]
        if kind == BaseCommand.PING:
            return [commands.pong()]
        if kind == BaseCommand.SEND:
            return [self._receipt(command)]
        if kind == BaseCommand.FLOW:
            tails, self.tails = self.tails, []
            consumer = command.flow.consumer_id
            return [message_frame(consumer, LEDGER, entry, 0, tail) for entry, tail in enumerate(tails)]
        if kind == BaseCommand.ACK and command.ack.HasField("request_id"):
            return [commands.ack_response(command.ack.consumer_id, command.ack)]
        if kind in _SUCCEED:
            return [commands.success(getattr(command, _SUCCEED[kind]).request_id)]
        return [encode_command(answer) for answer in self._found(command)]

    def _found(self, command: BaseCommand) -> list[BaseCommand]:
        if command.type == BaseCommand.PARTITIONED_METADATA:
            answer = BaseCommand(type=BaseCommand.PARTITIONED_METADATA_RESPONSE)
            answer.partitionMetadataResponse.request_id = command.partitionMetadata.request_id
            answer.partitionMetadataResponse.partitions = 0
            answer.partitionMetadataResponse.response = CommandPartitionedTopicMetadataResponse.Success
            return [answer]
        if command.type == BaseCommand.LOOKUP:
            answer = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE)
            answer.lookupTopicResponse.request_id = command.lookupTopic.request_id
            answer.lookupTopicResponse.brokerServiceUrl = self.url
            answer.lookupTopicResponse.response = CommandLookupTopicResponse.Connect
            answer.lookupTopicResponse.authoritative = True
            return [answer]
        if command.type == BaseCommand.PRODUCER:
            answer = BaseCommand(type=BaseCommand.PRODUCER_SUCCESS)
            answer.producer_success.request_id = command.producer.request_id
            answer.producer_success.producer_name = command.producer.producer_name or "tiny-0"
            return [answer]
        return []

    def _receipt(self, command: BaseCommand) -> bytes:
        receipt = BaseCommand(type=BaseCommand.SEND_RECEIPT)
        receipt.send_receipt.producer_id = command.send.producer_id
        receipt.send_receipt.sequence_id = command.send.sequence_id
        receipt.send_receipt.message_id.ledgerId = LEDGER
        receipt.send_receipt.message_id.entryId = len(self.sent(BaseCommand.SEND))
        return encode_command(receipt)


_SUCCEED: dict[int, str] = {
    BaseCommand.SUBSCRIBE: "subscribe",
    BaseCommand.UNSUBSCRIBE: "unsubscribe",
    BaseCommand.SEEK: "seek",
    BaseCommand.CLOSE_PRODUCER: "close_producer",
    BaseCommand.CLOSE_CONSUMER: "close_consumer",
}


def tail_of(frame: bytes) -> bytes:
    """What follows the command."""
    return frame[payload_start(frame) :]
