"""A producer of the gateway's own: created once, lost once.

Its owner decides whether and when to create another, because only the owner knows the meaning of the loss: for an
outbox a retry, for a group's leader the end of its leadership.

One that goes on for another has its name. A broker that did not notice the loss may have bytes of the other still to
read, and would store them between those of this one; it refuses a name until the producer that has it is gone.

Why not the official client: it repairs a broken connection by itself, cannot stop waiting for a topic, does not report
that its producer was lost, and (3.13) has ended the whole process with an uncaught C++ exception (`bad_weak_ptr`) while
clients with pending requests were shut down. A gateway carries the messages of all clients and must not crash of that.

Specification: Pulsar binary protocol, "Producer".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from proxy.errors import UpstreamUnavailable, broker_code
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.dead_letters import Published, tail_of
from proxy.wire.frames import encode_command
from proxy.wire.metadata import is_chunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.errors import UpstreamError
    from proxy.net.ports import BrokerDirectory, BrokerLink, Clock


class ProducerOwner(Protocol):
    """The owner of a producer. It is called from the loop, never from inside a method of the producer."""

    def producer_ready(self, producer: GatewayProducer) -> None:
        """It may send; for one that waits for an exclusive topic this may take for ever."""

    def producer_stored(self, producer: GatewayProducer, sequence_id: int) -> None:
        """The broker has this message."""

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """It could not be made, or is no more, or a message was refused. The last that is heard of it."""


class State(Enum):
    """Where a producer stands."""

    NEW = "new"
    LOCATING = "locating"
    ASKING = "asking"
    READY = "ready"
    OVER = "over"


class GatewayProducer:
    """Implements `ports.UpstreamProducer`."""

    def __init__(
        self,
        topic: str,
        access_mode: pb.ProducerAccessMode,
        brokers: BrokerDirectory,
        clock: Clock,
        owner: ProducerOwner,
        refused: Callable[[int, str], None] | None = None,
        former: GatewayProducer | None = None,
    ) -> None:
        """`open` begins. It goes on for `former`, which was lost: nothing of that is stored behind anything of this.

        `refused` hears the sequence id of a message that the broker did not take, and why: the producer goes on.
        Without it a refused message is the producer's end.
        """
        self.topic = topic
        self.state = State.NEW
        self._access_mode = access_mode
        self._brokers = brokers
        self._clock = clock
        self._owner = owner
        self._refused = refused
        self._unwanted = False
        self._link: BrokerLink | None = None
        self._id = 0
        self.name: str = "" if former is None else former.name
        """As the broker gave it, once ready."""
        self.next_sequence_id: int = 0 if former is None else former.next_sequence_id
        """Of a name none is used twice: a broker that removes duplicates would take the second for one."""
        self.error_code: int | None = None
        """The broker's `ServerError` for what it refused last; None if it refused nothing."""

    def open(self) -> GatewayProducer:
        """Begin; `ProducerOwner.producer_ready` or `producer_lost` follows, unless it is closed before."""
        assert self.state is State.NEW, self.state
        self.state = State.LOCATING
        self._brokers.locate(self.topic, self._located)
        return self

    def send(self, payload: bytes, key: str = "") -> int:
        """Publish, only while ready; the message's sequence id, which `producer_stored` names."""
        metadata = pb.MessageMetadata()
        if key:
            metadata.partition_key = key.encode()
        return self.publish(Published(metadata, payload))

    def publish(self, message: Published) -> int:
        """As `send`, with what the metadata has; producer, sequence id and time in it are replaced."""
        assert self.state is State.READY, self.state
        assert self._link is not None
        sequence_id = self.next_sequence_id
        self.next_sequence_id += 1
        tail = tail_of(message, self.name.encode(), sequence_id, int(self._clock.time() * 1_000))
        count, chunk = message.metadata.num_messages_in_batch, is_chunk(message.metadata)
        self._link.send(commands.send(self._id, sequence_id, tail, count, chunk=chunk))
        return sequence_id

    @property
    def max_message_bytes(self) -> int:
        """The broker's limit of a message, only while ready."""
        assert self._link is not None
        return self._link.max_message_bytes

    def close(self) -> None:
        """It is wanted no more, and its owner hears nothing more.

        One that is still asked for is closed when the broker gives it: a broker gives a closed one its turn all the
        same, and to close a request that it has not answered is to guess.
        """
        self._unwanted = True
        if self.state is State.READY:
            self._close_at_broker()
        if self.state is not State.ASKING:
            self.state = State.OVER

    # ---- ports.UpstreamProducer

    def stored(self, sequence_id: int) -> None:
        """As the port says."""
        self._owner.producer_stored(self, sequence_id)

    def not_stored(self, sequence_id: int, error: UpstreamError) -> None:
        """As the port says."""
        self.error_code = error.wire_code
        if self._refused is not None:
            self._refused(sequence_id, str(error))
            return
        # What a leader or an outbox sends is of one kind: all later messages will be refused as well.
        self._close_at_broker()
        self._lose(f"message {sequence_id} was refused: {error}")

    def closed_by_broker(self, reason: str) -> None:
        """As the port says."""
        self._lose(reason)

    def connection_lost(self, reason: str) -> None:
        """As the port says; one that is asked for hears it through its request."""
        if self.state is State.READY:
            self._lose(reason)

    # ---- within

    def _located(self, link: BrokerLink | Exception) -> None:
        if self.state is not State.LOCATING:
            return
        if isinstance(link, Exception):
            self._fail(link)
            return
        self.state = State.ASKING
        self._link = link
        self._id = link.new_producer(self)
        link.request(self._producer_frame, self._answered)

    def _producer_frame(self, request_id: int) -> bytes:
        command = pb.CommandProducer(
            topic=self.topic,
            producer_id=self._id,
            request_id=request_id,
            producer_access_mode=self._access_mode,
            producer_name=self.name or None,
            user_provided_producer_name=False,
        )
        return encode_command(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=command))

    def _answered(self, reply: pb.BaseCommand | Exception) -> None:
        if isinstance(reply, UpstreamUnavailable) or (self.state is State.OVER and not isinstance(reply, Exception)):
            self._close_at_broker()  # the broker may still create it: a producer without an owner would hold the topic
        if self.state is State.OVER:
            return
        if isinstance(reply, Exception):
            self._fail(reply)
            return
        self.state = State.READY
        self.name = reply.producer_success.producer_name
        if self._unwanted:
            self.close()
        else:
            self._owner.producer_ready(self)

    def _close_at_broker(self) -> None:
        assert self._link is not None
        self._link.drop_producer(self._id)
        self._link.request(lambda request_id: commands.close_producer(self._id, request_id), _ignore)

    def _fail(self, error: Exception) -> None:
        self.error_code = broker_code(error)
        self._lose(str(error))

    def _lose(self, reason: str) -> None:
        if self.state is State.OVER:
            return
        self.state = State.OVER
        if self._link is not None:
            self._link.drop_producer(self._id)
        if not self._unwanted:
            self._owner.producer_lost(self, reason)


def _ignore(_reply: pb.BaseCommand | Exception) -> None:
    """Whether the broker confirms a close makes no difference."""
