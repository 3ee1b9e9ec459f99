"""A small synchronous Pulsar client that sends exactly what it is told, right or wrong, and hides no answer.

Official clients keep their users from breaking the protocol; a server has to stand those that don't. One object is one
connection. Frames are built and read with `proxy.wire`; anything may be sent as raw bytes too.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail

if TYPE_CHECKING:
    from types import TracebackType

T = pb.BaseCommand
TIMEOUT_S = 90.0
"""For answers that take milliseconds, or the time in which a broker that was killed finds its ledgers again."""
MAX_FRAME_BYTES = 16 << 20
PIECE_BYTES = 1 << 16

Places = Iterable[pb.MessageIdData]
INDIVIDUAL = pb.CommandAck.Individual
CUMULATIVE = pb.CommandAck.Cumulative

KEY_SHARED = pb.CommandSubscribe.Key_Shared
EXCLUSIVE = pb.CommandSubscribe.Exclusive


class ConnectionEndedError(Exception):
    """The server closed the connection."""


class Message(NamedTuple):
    """One MESSAGE."""

    command: pb.CommandMessage
    tail: bytes

    @property
    def place(self) -> pb.MessageIdData:
        """Its id."""
        return self.command.message_id


def frame(kind: int, body: Any = None) -> bytes:
    """Frame a command of type `kind` around its body."""
    command = T(type=kind)  # type: ignore[arg-type]
    if body is not None:
        getattr(command, T.DESCRIPTOR.fields_by_number[kind].name).CopyFrom(body)
    return frames.encode_command(command)


class RawClient:
    """One connection; use it as a context manager. Heartbeats are answered while it reads."""

    def __init__(self, service_url: str, *, connect: bool = True) -> None:
        """Open a connection, and say CONNECT unless told not to."""
        host, _, port = service_url.removeprefix("pulsar://").partition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.socket.settimeout(TIMEOUT_S)
        self.pushed: list[pb.BaseCommand] = []
        """What the server sent unasked, messages aside."""
        self.wait_stored: Callable[[], None] = lambda: None
        """Returns when the broker has stored what was acknowledged; set by who can ask it."""
        self._messages: deque[Message] = deque()
        self._splitter = frames.FrameSplitter(MAX_FRAME_BYTES)
        self._frames: deque[bytes] = deque()
        self._requests = itertools.count(1)
        if connect:
            self.send(frame(T.CONNECT, pb.CommandConnect(client_version="raw", protocol_version=21)))
            self._expect(T.CONNECTED)

    def __enter__(self) -> Self:
        """It is connected already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Drop the connection without a word."""
        self.socket.close()

    # ---- frames

    def send(self, data: bytes) -> None:
        """Send any bytes.

        Raises:
            ConnectionEndedError: nobody takes them.
        """
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise ConnectionEndedError(str(error)) from error

    def read(self) -> pb.BaseCommand:
        """Return the next command that is no MESSAGE and no PING; messages are kept for `messages`.

        Raises:
            ConnectionEndedError: there is none, the connection was closed.
            TimeoutError: nothing came, or nothing but those.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            command = self._next()
            if command is not None:
                return command
        raise TimeoutError(f"no answer within {TIMEOUT_S:g} s")

    def received(self) -> list[pb.BaseCommand]:
        """Read the socket once, and return what is whole then; none if it was a PING, a MESSAGE, or part of a frame.

        Raises:
            ConnectionEndedError: the connection was closed.
            TimeoutError: nothing came.
        """
        if not self._frames:
            self._receive()
        commands = (self._next() for _ in range(len(self._frames)))
        return [command for command in commands if command is not None]

    def ended(self) -> list[pb.BaseCommand]:
        """Read until the server closes the connection, and return what it said before.

        Raises:
            TimeoutError: it did not close it.
        """
        said = []
        while True:
            try:
                said.append(self.read())
            except ConnectionEndedError:
                return said

    def _next(self) -> pb.BaseCommand | None:
        while not self._frames:
            self._receive()
        received = self._frames.popleft()
        command = frames.parse_command(received)
        if command.type == T.MESSAGE:
            self._messages.append(Message(command.message, received[frames.payload_start(received) :]))
            return None
        if command.type == T.PING:
            self.send(frame(T.PONG, pb.CommandPong()))
            return None
        return command

    def _receive(self) -> None:
        try:
            data = self.socket.recv(PIECE_BYTES)
        except ConnectionError as error:
            raise ConnectionEndedError(str(error)) from error
        if not data:
            raise ConnectionEndedError("closed by the server")
        self._frames.extend(self._splitter.feed(data))

    def _expect(self, kind: int) -> pb.BaseCommand:
        command = self.read()
        assert command.type == kind, command
        return command

    # ---- requests

    def ask(self, kind: int, body: Any) -> pb.BaseCommand:
        """Send a request under a new id and return its answer; what comes unasked meanwhile lands in `pushed`."""
        body.request_id = request_id = next(self._requests)
        self.send(frame(kind, body))
        while True:
            answer = self.read()
            inner = getattr(answer, T.DESCRIPTOR.fields_by_number[answer.type].name)
            if getattr(inner, "request_id", None) == request_id and answer.type != T.CLOSE_CONSUMER:
                return answer
            self.pushed.append(answer)

    def locate(self, topic: str) -> Self:
        """Look a topic up, as a server demands before it serves the topic."""
        answer = self.ask(T.LOOKUP, pb.CommandLookupTopic(topic=topic))
        assert answer.lookupTopicResponse.response == pb.CommandLookupTopicResponse.Connect, answer
        return self

    def subscribe(self, topic: str, subscription: str = "s", consumer_id: int = 1, **fields: Any) -> pb.BaseCommand:
        """SUBSCRIBE, Key_Shared from the earliest message unless told otherwise; returns the answer."""
        values: dict[str, Any] = {"subType": KEY_SHARED, "initialPosition": pb.CommandSubscribe.Earliest, **fields}
        body = pb.CommandSubscribe(
            topic=topic, subscription=subscription, consumer_id=consumer_id, request_id=0, **values
        )
        return self.ask(T.SUBSCRIBE, body)

    def joined(self, topic: str, subscription: str = "s", consumer_id: int = 1, **fields: Any) -> Self:
        """Subscribe, and be let in."""
        answer = self.subscribe(topic, subscription, consumer_id, **fields)
        assert answer.type == T.SUCCESS, answer
        return self

    def flow(self, permits: int, consumer_id: int = 1) -> None:
        """FLOW."""
        self.send(frame(T.FLOW, pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits)))

    def ack(
        self, places: Iterable[pb.MessageIdData], consumer_id: int = 1, kind: int = pb.CommandAck.Individual
    ) -> None:
        """ACK without a receipt."""
        body = pb.CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=list(places))  # type: ignore[arg-type]
        self.send(frame(T.ACK, body))

    def ack_confirmed(self, places: Places, consumer_id: int = 1, kind: int = INDIVIDUAL) -> pb.CommandAckResponse:
        """ACK with a request id; returns the receipt."""
        body = pb.CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=list(places))  # type: ignore[arg-type]
        answer = self.ask(T.ACK, body)
        assert answer.type == T.ACK_RESPONSE, answer
        return answer.ackResponse

    def messages(self, count: int) -> list[Message]:
        """Return the next `count` messages; commands that come meanwhile land in `pushed`.

        Raises:
            TimeoutError: they did not come, though the server goes on sending PING.
        """
        until = time.monotonic() + TIMEOUT_S
        while len(self._messages) < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self._messages)} of {count} messages in {TIMEOUT_S:g} s")
            command = self._next()
            if command is not None:
                self.pushed.append(command)
        return [self._messages.popleft() for _ in range(count)]

    @property
    def held(self) -> list[Message]:
        """Messages that came and were not taken."""
        return list(self._messages)

    def ping(self) -> list[Message]:
        """Return all messages that the server sent before it answers a PING."""
        self.send(frame(T.PING, pb.CommandPing()))
        while True:
            command = self.read()
            if command.type == T.PONG:
                taken = list(self._messages)
                self._messages.clear()
                return taken
            self.pushed.append(command)

    # ---- producing

    def produce(
        self, topic: str, messages: Iterable[tuple[str | None, bytes]], producer_id: int = 1, **metadata_of_each: Any
    ) -> list[pb.MessageIdData]:
        """Publish unbatched (key, payload) one by one; returns their ids."""
        answer = self.ask(T.PRODUCER, pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=0))
        assert answer.type == T.PRODUCER_SUCCESS, answer
        name = answer.producer_success.producer_name.encode()
        places = []
        for number, (key, payload) in enumerate(messages):
            metadata = pb.MessageMetadata(producer_name=name, sequence_id=number, publish_time=1, **metadata_of_each)
            if key is not None:
                metadata.partition_key = key.encode()
            command = T(type=T.SEND)
            command.send.producer_id, command.send.sequence_id = producer_id, number
            self.send(frames.encode_message(command.SerializeToString(), build_tail(metadata, payload)))
            receipt = self._expect(T.SEND_RECEIPT).send_receipt
            assert receipt.sequence_id == number
            places.append(receipt.message_id)
        self.ask(T.CLOSE_PRODUCER, pb.CommandCloseProducer(producer_id=producer_id, request_id=0))
        return places
