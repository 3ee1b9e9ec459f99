"""A WebSocket worker between two fake ends: the test is the session, the socket and the clock.

Entries are real MESSAGE frames, their metadata and payloads built with protobuf alone.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from proxy.net.subscription.acks import bits_of
from proxy.net.subscription.openings import OpeningLimits, Openings
from proxy.net.websocket.message_position import WHOLE, MessagePosition
from proxy.net.websocket.sockets import WorkerSockets
from proxy.socket_request import SocketRequest
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.errors import WireError
from proxy.wire.frames import FrameSplitter, parse_command
from proxy.wire.messages import NO_EXTRAS, in_epoch
from proxy.wire.metadata import build_tail, peek
from tests.net.fakes import FakeBackground, FakeClock
from tests.net.session_rig import connected, encode
from tests.wire.message_frames import message_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.net.ports import Transport
    from proxy.net.websocket.link import Frame

T = pb.BaseCommand
TOPIC = "persistent://public/default/orders"
PEER = "192.0.2.9:51000"
LEDGER = 7
MAX_FRAME_BYTES = 5 * 1024 * 1024 + 10 * 1024
PUBLISHED_MS = 1_700_000_000_880
UNNUMBERED = 2**64 - 1
"""The request id of an ERROR that answers no request."""


# ---- entries


def metadata(**fields: object) -> pb.MessageMetadata:
    """An entry's metadata with its required fields."""
    required: dict[str, object] = {"producer_name": b"shop", "sequence_id": 3, "publish_time": PUBLISHED_MS}
    return pb.MessageMetadata(**(required | fields))  # type: ignore[arg-type]  # any field of it


def single(payload: bytes = b"payload", **fields: object) -> bytes:
    """The tail of an unbatched message, with a key unless told otherwise."""
    return build_tail(metadata(**({"partition_key": b"k"} | fields)), payload)


def messages_in(tail: bytes) -> int:
    """How many messages an entry has; 1 if that cannot be read."""
    try:
        return max(peek(tail).metadata.num_messages_in_batch, 1)
    except WireError:
        return 1


def member(payload: bytes, **fields: object) -> bytes:
    """One message of a batch."""
    values: dict[str, object] = {"payload_size": len(payload), "partition_key": b"k"} | fields
    head = pb.SingleMessageMetadata(**values).SerializeToString()  # type: ignore[arg-type]  # any field of it
    return len(head).to_bytes(4, "big") + head + payload


def batch(*members: bytes, **fields: object) -> bytes:
    """The tail of a batch of what `member` made."""
    return build_tail(metadata(num_messages_in_batch=len(members), **fields), b"".join(members))


def numbered(count: int) -> bytes:
    """The tail of a batch whose payloads are 0, 1, 2 and so on."""
    return batch(*(member(str(number).encode()) for number in range(count)))


def chunk(number: int, of: int, payload: bytes, uuid: str = "u", **fields: object) -> bytes:
    """The tail of one chunk of a message."""
    return single(payload, uuid=uuid, chunk_id=number, num_chunks_from_msg=of, **fields)


def id_of(entry: int, index: int = WHOLE, size: int = 0, partition: int = -1) -> str:
    """The id under which a client gets a message."""
    return MessagePosition(partition, LEDGER, entry, index, size).message_id


# ---- what a session answers


def partitions(request_id: int, count: int) -> bytes:
    """A topic has so many."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        partitions=count, request_id=request_id, response=pb.CommandPartitionedTopicMetadataResponse.Success
    )
    return encode(T.PARTITIONED_METADATA_RESPONSE, body)


def no_partitions(request_id: int, code: pb.ServerError, text: str) -> bytes:
    """A topic's partitions are not told."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id, response=pb.CommandPartitionedTopicMetadataResponse.Failed, error=code, message=text
    )
    return encode(T.PARTITIONED_METADATA_RESPONSE, body)


def end_of_topic(consumer_id: int) -> bytes:
    """Everything there will ever be was read."""
    return encode(T.REACHED_END_OF_TOPIC, pb.CommandReachedEndOfTopic(consumer_id=consumer_id))


# ---- the two ends


class FakeSocket:
    """Writes down what its worker tells it."""

    def __init__(self) -> None:
        self.accepts = 0
        self.refusals: list[tuple[int, str]] = []
        self.frames: list[Frame] = []
        self.closes: list[tuple[int, str]] = []

    def accept(self) -> None:
        """As the port says."""
        assert not self.ended
        self.accepts += 1

    def refuse(self, status: int, detail: str) -> None:
        """As the port says."""
        assert not self.ended
        assert not self.accepts, "refused after it was accepted"
        self.refusals.append((status, detail))

    def send(self, frame: Frame) -> None:
        """As the port says."""
        assert not self.ended
        assert self.accepts, "sent before it was accepted"
        self.frames.append(frame)

    def close(self, code: int, reason: str) -> None:
        """As the port says."""
        assert not self.ended
        assert self.accepts, "closed before it was accepted"
        self.closes.append((code, reason))

    @property
    def ended(self) -> bool:
        """Whether nothing may come any more."""
        return bool(self.refusals or self.closes)


class FakeSession:
    """The session's end of the pipe: reads commands, sums up permits, answers nothing by itself."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.commands: list[pb.BaseCommand] = []
        self.latest = b""
        """The last frame, as it came."""
        self.granted: Counter[int] = Counter()
        self.epochs: Counter[int] = Counter()
        self._pending: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """By consumer and entry, the bits of the messages that are not acknowledged."""
        self.writability: list[bool] = []
        self.ends: list[str] = []
        self._splitter = FrameSplitter(MAX_FRAME_BYTES)

    def opened(self, transport: Transport) -> None:
        """As the port says."""
        assert self.transport is None
        self.transport = transport

    def received(self, data: bytes) -> None:
        """As the port says."""
        assert not self.ends, "bytes behind the end"
        for frame in self._splitter.feed(data):
            self.latest = frame
            command = parse_command(frame)
            if command.type == T.ACK:
                self._acknowledge(command.ack)
            if command.type == T.FLOW:
                self.granted[command.flow.consumer_id] += command.flow.messagePermits
            else:
                self.commands.append(command)

    def sends(self, consumer_id: int, entry: int, count: int) -> None:
        """So many messages of an entry are with the worker now."""
        self._pending[consumer_id][entry] = (1 << count) - 1

    def gives_again(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> list[int]:
        """Entries that are pending and not kept; what is sent from now on is of the command's epoch."""
        assert command.consumer_epoch == self.epochs[command.consumer_id] + 1
        self.epochs[command.consumer_id] += 1
        pending = self._pending[command.consumer_id]
        kept = {place.entryId for place in command.message_ids if not place.ack_set}
        wanted = {place.entryId for place in command.message_ids if place.ack_set}
        assert kept | wanted <= pending.keys()
        assert wanted
        again = sorted(pending.keys() - kept)
        for entry in again:
            del pending[entry]
        return again

    def _acknowledge(self, command: pb.CommandAck) -> None:
        pending = self._pending[command.consumer_id]
        for place in command.message_id:
            if place.entryId in pending:
                pending[place.entryId] &= bits_of(place.ack_set) if place.ack_set else 0
                if not pending[place.entryId]:
                    del pending[place.entryId]

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """As the port says."""
        self.writability.append(writable)

    def closed(self, reason: str) -> None:
        """As the port says."""
        self.ends.append(reason)


class WebsocketRig:
    """One worker and all its fakes."""

    def __init__(
        self,
        *,
        closed_because: str | None = None,
        limits: OpeningLimits | None = None,
        beside: WebsocketRig | None = None,
        **wishes: Any,
    ) -> None:
        """Stand where the pipe is open and CONNECT was sent; `wishes` are fields of the request.

        `beside` is another worker of the same gateway.
        """
        self.clock: FakeClock = FakeClock() if beside is None else beside.clock
        self.socket = FakeSocket()
        self.session = FakeSession()
        self.more: list[FakeSession] = []
        """Of connections beside the worker's own, for dead letters."""
        self.admitted: list[str] = []
        values: dict[str, Any] = {
            "dialect": "v1",
            "topic": TOPIC,
            "subscription": "s",
            "peer": PEER,
            "nack_delay_s": 10.0,
        }
        self.request = SocketRequest(**(values | wishes))
        self.background: FakeBackground = FakeBackground(self.clock) if beside is None else beside.background
        self.openings: Openings = Openings(self.clock, self.background, limits) if beside is None else beside.openings
        openings = self.openings
        sockets = WorkerSockets(self._admit, lambda: closed_because, self.clock, openings, lambda _, key: len(key))
        self.worker = sockets.open(self.request, self.socket)
        self.clock.settle()

    def _admit(self, peer: str) -> FakeSession:
        self.admitted.append(peer)
        if len(self.admitted) == 1:
            return self.session
        self.more.append(FakeSession())
        return self.more[-1]

    # ---- as the session

    def tell(self, *frames: bytes) -> None:
        """Write frames to the worker."""
        assert self.session.transport is not None
        for frame in frames:
            self.session.transport.write(frame)
        self.clock.settle()

    def hang_up(self) -> None:
        """Close the session's end."""
        assert self.session.transport is not None
        self.session.transport.close()
        self.clock.settle()

    def take(self) -> list[pb.BaseCommand]:
        """What the worker said since the last look, permits apart."""
        taken, self.session.commands = self.session.commands, []
        return taken

    def take_acks(self) -> list[pb.CommandAck]:
        """What was acknowledged since the last look, if nothing else was said."""
        taken = self.take()
        assert [command.type for command in taken] == [T.ACK] * len(taken)
        return [command.ack for command in taken]

    def take_redelivers(self) -> list[tuple[int, list[int]]]:
        """Consumer and entries that are given again since the last look, if nothing else was said."""
        taken = self.take()
        assert [command.type for command in taken] == [T.REDELIVER_UNACKNOWLEDGED_MESSAGES] * len(taken)
        bodies = [command.redeliverUnacknowledgedMessages for command in taken]
        return [(body.consumer_id, self.session.gives_again(body)) for body in bodies]

    def ask_partitions(self) -> int:
        """Take CONNECT, answer it, and give the id of the request that follows."""
        assert [command.type for command in self.take()] == [T.CONNECT]
        self.tell(connected())
        (command,) = self.take()
        assert command.partitionMetadata.topic == TOPIC
        return command.partitionMetadata.request_id

    def subscribes(self, count: int = 0) -> list[pb.CommandSubscribe]:
        """Go on to where all partitions were asked to be subscribed to."""
        self.tell(partitions(self.ask_partitions(), count))
        return [command.subscribe for command in self.take()]

    def join(self, count: int = 0) -> WebsocketRig:
        """Let it join, and forget what was said for that."""
        self.tell(*(commands.success(body.request_id) for body in self.subscribes(count)))
        assert self.socket.accepts == 1
        self.socket.frames.clear()
        return self

    def deliver(
        self, entry: int, tail: bytes, consumer_id: int = 0, *, tries: int = 0, ack_set: Sequence[int] = ()
    ) -> None:
        """Send an entry."""
        epoch = self.session.epochs[consumer_id]
        extras = in_epoch(NO_EXTRAS, epoch) if epoch else NO_EXTRAS
        self.session.sends(consumer_id, entry, messages_in(tail))
        self.tell(message_frame(consumer_id, LEDGER, entry, tries, tail, ack_set, extras))

    # ---- as the client

    def say(self, **words: object) -> None:
        """Say something in JSON."""
        self.worker.received(json.dumps(words))
        self.clock.settle()

    def ack(self, *ids: str, request_id: int | None = None) -> None:
        """Acknowledge in v1's words."""
        more = {} if request_id is None else {"requestId": request_id}
        self.say(type="ack", messageIds=ids, **more)

    def nack(self, *ids: str) -> None:
        """Refuse in v1's words."""
        self.say(type="nack", messageIds=ids)

    def heard(self) -> list[dict[str, Any]]:
        """What came since the last look, in text frames."""
        taken, self.socket.frames = self.socket.frames, []
        return [json.loads(frame) for frame in taken]

    def got(self) -> list[tuple[str, bytes]]:
        """Ids and payloads of the messages since the last look, if nothing else came."""
        return [(said["messageId"], b64decode(said["payload"])) for said in self.heard()]

    def got_ids(self) -> list[str]:
        """Ids of the messages since the last look."""
        return [message_id for message_id, _ in self.got()]
