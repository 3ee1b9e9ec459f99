"""The producer of dead letters: publishes messages with too many redeliveries, as Pulsar's clients do.

It is an in-memory client like the worker itself, and starts with the first dead letter: a lookup, then a connection to
that broker, then the producer. A message that cannot be published is returned and delivered again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from proxy.net.alarm import Alarm
from proxy.net.broker.requests import refusal_in
from proxy.net.message_ids import unmask
from proxy.net.websocket.joining import connect_frame, metadata_frame
from proxy.net.websocket.requests import Requests
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.dead_letters import origin_properties
from proxy.wire.frames import encode_command, encode_message, frame_type, parse_command
from proxy.wire.metadata import build_tail

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.message_position import MessagePosition
    from proxy.net.websocket.pipe import Pipe, PipeClient
    from proxy.socket_request import SocketRequest

log = structlog.get_logger("keyline.websocket")

_T = pb.BaseCommand
ANSWER_S_MAX: Final = 30.0
"""Time-out of each step; as in Pulsar's clients."""
PRODUCER_ID: Final = 0
MESSAGE_BYTES_DEFAULT: Final = 5 << 20
METADATA_BYTES: Final = 64 << 10
"""Share of a broker's message limit for keys and properties."""

Done = Callable[[bool], None]


class DeadLetters:
    """One topic's producer; implements `pipe.PipeClient`."""

    def __init__(self, request: SocketRequest, dial: Callable[[PipeClient], Pipe], clock: Clock) -> None:
        """`dial` opens a connection in memory."""
        self._request = request
        self._dial = dial
        self._clock = clock
        self._topic = request.dead_letter_topic
        self._pipe: Pipe | None = None
        self._requests: Requests | None = None
        self._next: Callable[[], None] = self._ask_partitions
        """Called once connected."""
        self._ready = False
        self._producer = ""
        self._payload_bytes_max = 0
        self._waiting: deque[tuple[SocketMessage, Done]] = deque()
        self._unconfirmed: dict[int, Done] = {}
        self._sequence = count()
        self._timer = Alarm(clock)

    def put(self, message: SocketMessage, done: Done) -> None:
        """Publish a message; `done` is called once, from the loop, with whether the broker has it."""
        self._waiting.append((message, done))
        if self._pipe is None:
            self._topic = self._request.dead_letter_topic
            self._connect(self._ask_partitions)
        elif self._ready:
            self._send_waiting()

    def stop(self) -> None:
        """Stop; no callback follows."""
        self._waiting.clear()
        self._unconfirmed.clear()
        self._hang_up("the worker has gone")

    # ---- pipe.PipeClient

    def frames(self, frames: list[bytes]) -> None:
        """As the port says."""
        for frame in frames:
            kind = frame_type(frame)
            if kind == _T.PING and self._pipe is not None:
                self._pipe.send(commands.pong())
            else:
                self._command(parse_command(frame))

    def ended(self, reason: str) -> None:
        """As the port says."""
        self._fail(reason)

    def _command(self, command: pb.BaseCommand) -> None:
        if self._requests is not None and self._requests.answered(command):
            return
        if command.type == _T.CONNECTED:
            whole = command.connected.max_message_size or MESSAGE_BYTES_DEFAULT
            self._payload_bytes_max = whole - METADATA_BYTES
            self._next()
        elif command.type == _T.SEND_RECEIPT:
            self._confirmed(command.send_receipt.sequence_id, kept=True)
        elif command.type == _T.SEND_ERROR:
            log.warning("dead letter refused", topic=self._topic, reason=command.send_error.message)
            self._confirmed(command.send_error.sequence_id, kept=False)
        elif command.type in (_T.CLOSE_PRODUCER, _T.ERROR):
            self._fail(command.error.message or "the broker closed the producer")

    # ---- connecting

    def _connect(self, then: Callable[[], None], broker: str = "") -> None:
        self._next = then
        self._pipe = self._dial(self)
        self._requests = Requests(self._pipe)
        self._pipe.send(connect_frame(self._request, broker))
        self._watch()

    def _ask_partitions(self) -> None:
        self._ask(partial(metadata_frame, self._topic), self._partitions)

    def _partitions(self, answer: pb.BaseCommand) -> None:
        if answer.partitionMetadataResponse.partitions:
            self._topic += "-partition-0"  # one, so that a key's messages stay in order
        self._ask(self._lookup_frame, self._located)

    def _lookup_frame(self, request_id: int) -> bytes:
        body = pb.CommandLookupTopic(topic=self._topic, request_id=request_id)
        return encode_command(_T(type=_T.LOOKUP, lookupTopic=body))

    def _located(self, answer: pb.BaseCommand) -> None:
        self._hang_up("on to the topic's broker")
        self._connect(self._ask_producer, urlsplit(answer.lookupTopicResponse.brokerServiceUrl).netloc)

    def _ask_producer(self) -> None:
        self._ask(self._producer_frame, self._produced)

    def _producer_frame(self, request_id: int) -> bytes:
        body = pb.CommandProducer(topic=self._topic, producer_id=PRODUCER_ID, request_id=request_id)
        return encode_command(_T(type=_T.PRODUCER, producer=body))

    def _produced(self, answer: pb.BaseCommand) -> None:
        self._producer = answer.producer_success.producer_name
        self._ready = True
        self._send_waiting()

    def _ask(self, build: Callable[[int], bytes], answered: Callable[[pb.BaseCommand], None]) -> None:
        """Send a request; a refusal ends the attempt."""

        def checked(answer: pb.BaseCommand) -> None:
            refusal = refusal_in(answer)
            if refusal is not None:
                self._fail(str(refusal))
            else:
                answered(answer)

        if self._requests is not None:
            self._requests.ask(build, checked)
            self._watch()

    # ---- sending

    def _send_waiting(self) -> None:
        while self._waiting and self._pipe is not None:
            message, done = self._waiting.popleft()
            if len(message.payload) > self._payload_bytes_max:
                log.warning("oversized dead letter refused", topic=self._topic, payload_bytes=len(message.payload))
                self._clock.call_soon(partial(done, False))
                continue
            sequence = next(self._sequence)
            self._unconfirmed[sequence] = done
            self._pipe.send(self._send_frame(message, sequence))
        self._watch()

    def _send_frame(self, message: SocketMessage, sequence: int) -> bytes:
        origin = _origin(message.position)
        added = origin_properties(message.topic, self._request.subscription, origin)
        metadata = pb.MessageMetadata(
            producer_name=self._producer.encode(),
            sequence_id=sequence,
            publish_time=int(self._clock.time() * 1_000),
            properties=[pb.KeyValue(key=key, value=value) for key, value in (added | message.properties).items()],
        )
        if message.key is not None:
            metadata.partition_key = message.key
            metadata.partition_key_b64_encoded = message.key_base64
        if message.ordering_key is not None:
            metadata.ordering_key = message.ordering_key
        if message.event_time_ms:
            metadata.event_time = message.event_time_ms
        command = _T(type=_T.SEND, send=pb.CommandSend(producer_id=PRODUCER_ID, sequence_id=sequence))
        return encode_message(command.SerializeToString(), build_tail(metadata, message.payload))

    def _confirmed(self, sequence: int, *, kept: bool) -> None:
        done = self._unconfirmed.pop(sequence, None)
        if done is not None:
            done(kept)
        self._watch()

    # ---- failures

    def _watch(self) -> None:
        """Start the time-out of the pending step, if there is one."""
        self._timer.cancel()
        if self._unconfirmed or not self._ready:
            self._timer.set(ANSWER_S_MAX, self._too_late)

    def _too_late(self) -> None:
        self._fail(f"no answer in {ANSWER_S_MAX:g} s")

    def _fail(self, reason: str) -> None:
        """Return the unpublished messages, and reconnect with the next one."""
        undelivered = [*self._unconfirmed.values(), *(done for _, done in self._waiting)]
        log.log(30 if undelivered else 20, "dead letters not delivered", topic=self._topic, reason=reason,
                messages=len(undelivered))  # fmt: skip
        self._unconfirmed.clear()
        self._waiting.clear()
        self._hang_up(reason)
        for done in undelivered:
            done(False)

    def _hang_up(self, reason: str) -> None:
        self._ready = False
        self._timer.cancel()
        if self._requests is not None:
            self._requests.forget()
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.leave(reason)


def _origin(position: MessagePosition) -> str:
    """The message's entry; a slice does not know the index in the original batch."""
    entry = pb.MessageIdData(ledgerId=position.ledger, entryId=position.entry)
    unmask(entry)
    return f"{entry.ledgerId}:{entry.entryId}:{position.partition}"
