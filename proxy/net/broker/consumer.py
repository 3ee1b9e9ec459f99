"""A consumer of the gateway's own small messages: created once, lost once, as in `producer`.

Specification: Pulsar binary protocol, "Consumer".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.positions import is_packable, pack, unpack
from proxy.errors import UpstreamUnavailable, broker_code
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.errors import MetadataError
from proxy.wire.frames import encode_command
from proxy.wire.metadata import peek, verify_checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory, BrokerLink
    from proxy.wire.messages import MessageHead

PERMITS: Final = 1_000
"""Messages that may be on their way; half of them are granted again when they have come."""
FLOW_MAX: Final = (1 << 31) - 1
"""Most permits of one FLOW: a broker reads them as a signed number, and closes the connection at a negative one."""


class ConsumerOwner(Protocol):
    """The owner of a consumer. It is called from the loop, never from inside a method of the consumer."""

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """Messages follow."""

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """A message, empty where the broker's frame was damaged."""

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """It could not be made, or is no more. The last that is heard of it."""


class GatewayConsumer:
    """Implements `ports.UpstreamConsumer`."""

    def __init__(
        self,
        subscribe: pb.CommandSubscribe,
        brokers: BrokerDirectory,
        owner: ConsumerOwner,
        *,
        fetches: bool = True,
        whole: bool = False,
        permits: int = PERMITS,
    ) -> None:
        """`subscribe` without its ids; `open` begins. One that does not fetch is there for its requests.

        With `whole` the owner gets what stands before the payload, too. `permits` messages may be on their way.
        """
        self._fetches = fetches
        self._whole = whole
        self._permits_most = permits
        self._subscribe = subscribe
        self._brokers = brokers
        self._owner = owner
        self._link: BrokerLink | None = None
        self._id = 0
        self._ready = self._over = False
        self.error_code: int | None = None
        """The broker's `ServerError`, if that is why it was lost."""
        self._permits = 0

    def open(self) -> GatewayConsumer:
        """Begin; `ConsumerOwner.consumer_ready` or `consumer_lost` follows, unless it is closed before."""
        self._brokers.locate(self._subscribe.topic, self._located)
        return self

    def ask_last(self, answered: Callable[[Position | None], None]) -> None:
        """Ask for the position of the topic's last message, only while ready; None for a topic without any."""
        assert self._link is not None

        def replied(reply: pb.BaseCommand | Exception) -> None:
            if self._over:
                return
            if isinstance(reply, Exception):
                self.close()
                self._owner.consumer_lost(self, str(reply))
                return
            last = reply.getLastMessageIdResponse.last_message_id
            # A topic without messages says entry -1, which is unsigned here.
            answered(pack(last.ledgerId, last.entryId) if is_packable(last.ledgerId, last.entryId) else None)

        self._link.request(lambda request_id: commands.get_last_message_id(self._id, request_id), replied)

    def seek(self, seek: pb.CommandSeek, answered: Callable[[str | None], None]) -> None:
        """Move the subscription's cursor, only while ready; a broker closes its consumers before it answers.

        `answered` hears what was wrong, None if nothing. `seek` comes without its ids.
        """
        seek.consumer_id = self._id

        def frame(request_id: int) -> bytes:
            seek.request_id = request_id
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=seek))

        self._ask(frame, answered)

    def unsubscribe(self, answered: Callable[[str | None], None]) -> None:
        """Delete the subscription, only while ready, and be over; `answered` hears what was wrong, None if nothing."""
        assert self._link is not None
        self._over = True
        self._link.drop_consumer(self._id)
        self._ask(lambda request_id: commands.unsubscribe(self._id, request_id), answered)

    def fetch(self, *, fetches: bool) -> None:
        """Stop asking for messages, only while ready, or go on; those that are on their way come."""
        self._fetches = fetches
        self._grant()

    def acknowledge(self, positions: Sequence[Position], answered: Callable[[str | None], None]) -> None:
        """Acknowledge these, only while ready; `answered` hears what was wrong, None if nothing."""
        ids = [unpack(position) for position in positions]
        self._ask(lambda request_id: commands.ack(self._id, ids, request_id), answered)

    def acknowledge_up_to(self, position: Position) -> None:
        """Acknowledge everything up to there, only while ready; the broker does not answer, and may not have heard."""
        assert self._link is not None
        self._link.send(commands.ack_up_to(self._id, *unpack(position)))

    def close(self) -> None:
        """It is wanted no more, and its owner hears nothing more."""
        if not self._over and self._link is not None:
            close_at(self._link, self._id)
        self._over = True

    # ---- ports.UpstreamConsumer

    def message(self, head: MessageHead) -> None:
        """As the port says."""
        if self._over:
            return
        self._permits -= _messages(head.tail) if self._whole else 1
        self._grant()
        self._owner.consumer_received(
            self, pack(head.ledger, head.entry), head.tail if self._whole else _payload(head.tail)
        )

    def messages_end(self) -> None:
        """Each was passed on as it came."""

    def closed_by_broker(self, reason: str) -> None:
        """As the port says."""
        self._lose(reason)

    def connection_lost(self, reason: str) -> None:
        """As the port says; one that is asked for hears it through its request."""
        if self._ready:
            self._lose(reason)

    def reached_end_of_topic(self) -> None:
        """Reported as a loss: no more messages will arrive."""
        self.close()
        self.error_code = pb.TopicTerminatedError
        self._owner.consumer_lost(self, "the topic is terminated")

    # ---- within

    def _located(self, link: BrokerLink | Exception) -> None:
        if self._over:
            return
        if isinstance(link, Exception):
            self._fail(link)
            return
        self._link = link
        self._id = link.new_consumer(self)
        link.request(self._subscribe_frame, self._answered)

    def _subscribe_frame(self, request_id: int) -> bytes:
        self._subscribe.consumer_id = self._id
        self._subscribe.request_id = request_id
        return encode_command(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=self._subscribe))

    def _answered(self, reply: pb.BaseCommand | Exception) -> None:
        if self._over:
            return
        if isinstance(reply, Exception):
            if isinstance(reply, UpstreamUnavailable):
                assert self._link is not None
                close_at(self._link, self._id)  # the broker may carry it out yet
            self._fail(reply)
            return
        self._ready = True
        self._grant()
        self._owner.consumer_ready(self)

    def _ask(self, build: Callable[[int], bytes], answered: Callable[[str | None], None]) -> None:
        assert self._link is not None
        self._link.request(build, lambda reply: answered(str(reply) if isinstance(reply, Exception) else None))

    def _grant(self) -> None:
        most = self._permits_most
        if self._fetches and self._permits <= most // 2:
            assert self._link is not None
            while self._permits < most:
                piece = min(most - self._permits, FLOW_MAX)
                self._link.send(commands.flow(self._id, piece))
                self._permits += piece

    def _fail(self, error: Exception) -> None:
        self.error_code = broker_code(error)
        self._lose(str(error))

    def _lose(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        if self._link is not None:
            self._link.drop_consumer(self._id)
        self._owner.consumer_lost(self, reason)


def _messages(tail: bytes) -> int:
    """As many as the broker debits."""
    try:
        return max(peek(tail).metadata.num_messages_in_batch, 1)
    except MetadataError:
        return 1


def _payload(tail: bytes) -> bytes:
    try:
        return tail[peek(tail).payload_start :] if verify_checksum(tail) else b""
    except MetadataError:
        return b""


def close_at(
    link: BrokerLink,
    consumer_id: int,
    done: Callable[[], None] | None = None,
    closed: Callable[[], None] | None = None,
) -> None:
    """Close a consumer at the broker and route nothing to it; `done` when that is answered, or can never be.

    `closed` is called before that when the broker has answered; if it does not, it may keep the consumer.

    Where nothing is read now, `done` is called before the answer, which may come too late for a hand-over: the broker
    carries out what it is sent in order, acks before the close, and lets no next owner in before that.
    """
    link.drop_consumer(consumer_id)
    waits = link.reading

    def answered(reply: pb.BaseCommand | Exception) -> None:
        if closed is not None and not isinstance(reply, UpstreamUnavailable):
            closed()
        if done is not None and waits:
            done()

    link.request(lambda request_id: commands.close_consumer(consumer_id, request_id), answered)
    if done is not None and not waits:
        done()
