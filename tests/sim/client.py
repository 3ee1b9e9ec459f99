"""Made-up clients with one Key_Shared consumer, which come back when they lose it or their connection."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from proxy.net.ports import Transport
    from tests.sim.machine import Event, Process
    from tests.sim.network import Network

T = pb.BaseCommand
FRAME_BYTES_MAX = 8 << 20
COME_BACK_S = 0.3
OPERATION_S = 30.0
"""After so long without an answer to its SUBSCRIBE a client closes the consumer and tries again."""
KEEP_ALIVE_S = 30.0
FIRST_REFUSED_ID = (1 << 63) + 1
"""The first request id that a gateway takes for its own: a client that has counted so far is cut off."""


def key_shared(topic: str, subscription: str, name: str) -> pb.CommandSubscribe:
    """How a worker of this name subscribes, unless it wants something of its own."""
    return pb.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=pb.CommandSubscribe.Key_Shared,
        consumer_id=1,
        request_id=1,
        consumer_name=name,
        initialPosition=pb.CommandSubscribe.Earliest,
    )


class Client:
    """One process with one consumer. Implements `ports.Receiver`."""

    def __init__(
        self,
        process: Process,
        network: Network,
        dice: random.Random,
        subscribe: pb.CommandSubscribe,
        addresses: Sequence[str],
    ) -> None:
        """`subscribe` has the consumer's name and options; it connects to any of the addresses."""
        self.process = process
        self.name = subscribe.consumer_name
        self.closed_for_good = False
        self.unanswered: set[int] = set()
        self._network = network
        self._dice = dice
        self._addresses = addresses
        self._subscribe = pb.CommandSubscribe()
        self._subscribe.CopyFrom(subscribe)
        self._consumer_id = subscribe.consumer_id
        self._feed = frames.FrameSplitter(FRAME_BYTES_MAX).feed
        self._transport: Transport | None = None
        self._joined = False
        self._request_id = subscribe.request_id - 1
        self._life = 0
        """Counts consumers, so that what was planned for an earlier one is told apart."""
        self._reading = True
        self._timer: Event | None = None
        self._heard = True
        self._unsubscribing: int | None = None
        """Request that deletes the subscription."""
        self.deleted = False
        """Whether it was told that this was done."""
        self._leaves = False
        """Whether it is done then, too."""
        process.call_soon(self._connect)

    # ---- what the world does to it

    def close(self) -> None:
        """The application closes its consumer and is done."""
        self.closed_for_good = True
        if self._joined:
            self._joined = False
            self._life += 1
            self._send(commands.close_consumer(self._consumer_id, self._new_request()))
        elif self._transport is not None:
            self._transport.abort()  # before it has joined there is nothing to close politely

    def stop_reading(self) -> None:
        """Leave the socket unread, or read again."""
        if self._transport is not None:
            self._reading = not self._reading
            if self._reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def read_again(self) -> None:
        """Whatever happened, it reads its socket."""
        if not self._reading:
            self.stop_reading()

    def seek(self, ledger: int, entry: int) -> None:
        """Move the subscription."""
        if self._joined:
            command = pb.CommandSeek(consumer_id=self._consumer_id, request_id=self._new_request())
            command.message_id.ledgerId, command.message_id.entryId = ledger, entry
            self._send(frames.encode_command(pb.BaseCommand(type=T.SEEK, seek=command)))

    def unsubscribe(self, *, force: bool, leave: bool) -> None:
        """Delete the subscription, also under others with `force`; then leave, or come again."""
        if self._joined:
            self._leaves, self.deleted = leave, False
            self._unsubscribing = self._new_request()
            body = pb.CommandUnsubscribe(consumer_id=self._consumer_id, request_id=self._unsubscribing, force=force)
            self._send(frames.encode_command(pb.BaseCommand(type=T.UNSUBSCRIBE, unsubscribe=body)))

    @property
    def moved(self) -> bool:
        """Whether it comes to a choice of gateways, and not to the broker itself."""
        return len(self._addresses) > 1

    @property
    def joined(self) -> bool:
        """Whether its consumer stands, as far as it knows."""
        return self._joined

    # ---- ports.Receiver

    def opened(self, transport: Transport) -> None:
        """As the port says."""
        self._transport = transport
        self._feed = frames.FrameSplitter(FRAME_BYTES_MAX).feed
        self._reading = True
        connect = pb.CommandConnect(client_version="sim", protocol_version=21)
        transport.write(frames.encode_command(pb.BaseCommand(type=T.CONNECT, connect=connect)))
        self._heard = True
        self._timer = self.process.call_later(KEEP_ALIVE_S, self._keep_alive)

    def received(self, data: bytes) -> None:
        """As the port says."""
        self._heard = True
        for frame in self._feed(data):
            kind = frames.frame_type(frame)
            if kind == T.MESSAGE:
                self._message(frame)
            else:
                self._command(frames.parse_command(frame))

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """As the port says; what it sends is small."""

    def closed(self, reason: str) -> None:
        """As the port says."""
        _ = reason
        self._transport = None
        self._lose_consumer()
        self.unanswered.clear()
        self._unsubscribing = None
        if self._timer is not None:
            self._timer.cancel()
        if not self.closed_for_good:
            self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._connect)

    # ---- its client

    def _connect(self) -> None:
        if self._transport is None and not self.closed_for_good:
            several = len(self._addresses) > 1
            address = self._dice.choice(self._addresses) if several else self._addresses[0]
            self._network.connect(self.process, address, self)

    def _command(self, command: pb.BaseCommand) -> None:
        if command.type == T.CONNECTED:
            self._join()
        elif command.type == T.PING:
            self._send(commands.pong())
        elif command.type == T.CLOSE_CONSUMER:
            self._lose_consumer()
            self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._join)
        elif command.type == T.SUCCESS:
            self.unanswered.discard(command.success.request_id)
            if command.success.request_id == self._subscribe.request_id and not self._joined:
                self._joined = True
                self._has_joined()
            elif command.success.request_id == self._unsubscribing:
                self._deleted()
        elif command.type == T.ACK_RESPONSE:
            self.unanswered.discard(command.ackResponse.request_id)
        elif command.type == T.GET_LAST_MESSAGE_ID_RESPONSE:
            self.unanswered.discard(command.getLastMessageIdResponse.request_id)
        elif command.type == T.ERROR:
            self._refused(command.error)

    def _deleted(self) -> None:
        self._unsubscribing = None
        self.deleted, self.closed_for_good = True, self._leaves
        self._lose_consumer()
        self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._join)

    def _refused(self, error: pb.CommandError) -> None:
        self.unanswered.discard(error.request_id)
        if error.request_id == self._unsubscribing:
            self._unsubscribing = None
        if error.request_id == self._subscribe.request_id and not self._joined:
            self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._join)

    def _join(self) -> None:
        if self._transport is not None and not self._joined and not self.closed_for_good:
            self._subscribe.request_id = self._new_request()
            self._send(frames.encode_command(pb.BaseCommand(type=T.SUBSCRIBE, subscribe=self._subscribe)))
            self.process.call_later(OPERATION_S, partial(self._not_answered, self._transport, self._request_id))

    def _not_answered(self, transport: Transport, request_id: int) -> None:
        """Unless it was."""
        if self._transport is transport and request_id in self.unanswered:
            self.unanswered.discard(request_id)
            self._send(commands.close_consumer(self._consumer_id, self._new_request()))
            self._join()

    def _lose_consumer(self) -> None:
        self._joined = False
        self._life += 1

    def _keep_alive(self) -> None:
        if self._transport is None:
            return
        if not self._heard and self._reading:
            self._transport.abort()
            return
        self._heard = False
        self._send(commands.ping())
        self._timer = self.process.call_later(KEEP_ALIVE_S, self._keep_alive)

    def _new_request(self) -> int:
        # No client goes on from a refused id for ever: it is made anew, and counts from 0.
        again = self._request_id == FIRST_REFUSED_ID
        self._request_id = 0 if again else (self._request_id + 1) % (1 << 64)
        self.unanswered.add(self._request_id)
        return self._request_id

    def _send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def _flow(self, permits: int) -> None:
        self._send(commands.flow(self._consumer_id, permits))

    # ---- what an application does

    def _has_joined(self) -> None:
        """Its consumer stands."""

    def _message(self, frame: bytes) -> None:
        """A MESSAGE has come."""
