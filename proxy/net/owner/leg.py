"""One client's connection to one owner: its consumers there, what they wait for, and what becomes of them.

Frames pass as bytes both ways. What is looked at is what begins or ends a consumer or answers a request, so that the
client is told of everything that it would wait for when the owner has gone: then each of its consumers there is closed,
as by a broker that unloads a topic, and the client subscribes again, by which time the owner is another.

A client's CLOSE_CONSUMER ends a consumer here at once, as at a gateway alone; the owner's answer is for the client. A
SUBSCRIBE behind it makes another consumer with the same id, which nothing ends that was asked of the former one. The
owner does not answer the SUBSCRIBE of one that was closed before that, unless the answer was on its way.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from proxy.errors import LimitExceeded
from proxy.net.alarm import Alarm
from proxy.net.owner.asked import Asked, AskedConsumer, AskedRequests
from proxy.net.owner.leaving import LeavingLeg
from proxy.net.relay.leg import UpstreamLeg
from proxy.net.subscription.refusals import PASSING
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import UNASKED, body_of, close_frame, refusal_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.groups.ownership import Owner
    from proxy.limits import Limits
    from proxy.net.owner.asked import RequestRoom
    from proxy.net.ports import Clock, ElsewhereClient, Receiver
    from proxy.net.relay.identity import Identity

_T = pb.BaseCommand

UNUSED_S_MAX: Final = 10.0
"""How long a leg without consumers stays: one that subscribes again finds it. While answers are owed, twice as long."""
UNUSED: Final = "nothing is consumed there"
SLOW: Final = f"it did not answer in {2 * UNUSED_S_MAX:g} s"
FULL: Final = "too much waits for the connection to it"


class LegsOfClient(Protocol):
    """Who opened the leg."""

    def consumer_ended(self, consumer_id: int) -> None:
        """It is at the owner no more; the client knows, or is told in the same turn."""

    def subscribed(self, consumer_id: int) -> None:
        """It stands at the owner; the client is told in the same turn."""

    def subscribe_refused(self, consumer_id: int, code: int) -> bool:
        """The owner, or its broker, cannot serve it now; whether another is asked, and the client told nothing."""

    def leg_connected(self, leg: OwnerLeg) -> None:
        """The owner has let the client in."""

    def leg_refused(self, leg: OwnerLeg, refusal: pb.CommandError) -> bool:
        """The owner does not let the client in; whether what waits for it waits for another try."""

    def leg_writable_changed(self) -> None:
        """The owner began or ceased to leave too much unread."""

    def leg_ended(self, leg: OwnerLeg) -> None:
        """It is lost, or was unused for long; `consumer_ended` follows for each that it had."""


class OwnerLeg:
    """Implements `relay.leg.LegOwner`."""

    def __init__(
        self,
        owner: Owner,
        client: ElsewhereClient,
        identity: Identity,
        clock: Clock,
        limits: Limits,
        legs: LegsOfClient,
        name: str,
        room: RequestRoom,
        credentials_version: int = 0,
    ) -> None:
        """`open` begins; `legs` is told what becomes of it and of its consumers; `name` is the client's address.

        `room` is for the requests of all legs of the client; `credentials_version` is for `legs` alone.
        """
        self.owner = owner
        self.name = name
        self._client = client
        self._clock = clock
        self._queued_bytes_max = limits.queued_while_connecting_bytes
        self._legs = legs
        leg = self._leg = UpstreamLeg(self, identity, clock, limits)
        leg.client_asked = lambda: client.check_liveness(lambda: leg.write(commands.client_lives()))
        self._consumers: dict[int, AskedConsumer] = {}
        """By their ids."""
        self._closing: dict[int, AskedConsumer] = {}
        """The latest of each id whose CLOSE_CONSUMER has no answer."""
        self._room = room
        self._asked = AskedRequests(room)
        self._queued: list[bytes] = []
        self._queued_bytes = 0
        self._unused = Alarm(clock)
        self.writable = True
        """Whether the owner takes what is sent."""
        self.challenged = False
        """Whether the owner waits for credentials of the client's."""
        self.unreached = False
        """Whether it was lost without a word of the owner's."""
        self.credentials_version = credentials_version
        self._heard = self._ended = False
        self._tried_again = False

    def open(self, dial: Callable[[Receiver], None]) -> None:
        """Connect."""
        if not self._client.writable:
            self._leg.pause_reading()
        dial(self._leg)

    @property
    def connected(self) -> bool:
        """Whether the owner has let the client in."""
        return self._leg.ready

    @property
    def owes(self) -> bool:
        """As `leg_looks.Leg` says."""
        return self._leg.ready and len(self._asked) > 0

    @property
    def paused(self) -> bool:
        """As `leg_looks.Leg` says."""
        return self._leg.paused

    def take_heard(self) -> bool:
        """As `leg_looks.Leg` says."""
        return self._leg.take_heard()

    def ping(self) -> None:
        """As `leg_looks.Leg` says."""
        if self._leg.ready:
            self._leg.ping()

    def closes(self, consumer_id: int) -> bool:
        """Whether messages may come that are for a closed consumer of this id, which had an answer to its SUBSCRIBE."""
        closing = self._closing.get(consumer_id)
        return closing is not None and closing.ready

    def subscribe(self, command: pb.CommandSubscribe, frame: bytes) -> bool:
        """One more consumer; False if there is no room for its request."""
        refusal = self._no_room(len(frame))
        if refusal is None and (self._leg.ready or self._queued_bytes + len(frame) <= self._queued_bytes_max):
            self._consumers[command.consumer_id] = AskedConsumer(command.request_id)
            self._unused.cancel()
            self.request(_T.SUBSCRIBE, command, frame)
            return True
        self._consider_use()  # it may have been opened for this one
        return False

    def request(self, kind: int, body: Any, frame: bytes) -> None:
        """Pass on what will be answered; it is refused if too much has no answer, as it is towards the broker."""
        size_bytes = len(frame)
        if kind == _T.ACK:
            body = pb.CommandAck(consumer_id=body.consumer_id, request_id=body.request_id)  # it may name many messages
            size_bytes = 0
        refusal = self._no_room(size_bytes)
        if refusal is not None and kind != _T.CLOSE_CONSUMER:
            self._client.send(refusal_frame(kind, body, str(refusal), refusal.wire_code))
            return
        consumer = self._consumers[body.consumer_id]
        self._asked.add(body.request_id, Asked(kind, body, consumer, size_bytes))
        if kind == _T.ACK:
            self._leg.expect_ack_receipts(True)
        elif kind == _T.CLOSE_CONSUMER:
            self._closing[body.consumer_id] = consumer
            self._forget(body.consumer_id)
        if refusal is not None or not self._pass_on(frame):
            # A CLOSE_CONSUMER that is left out would leave a consumer that the client knows nothing of. What waits here
            # has begun nothing yet: each is answered, or asked anew.
            self.give_up(FULL)

    def _no_room(self, size_bytes: int) -> LimitExceeded | None:
        """Why one more request of this size is too much, if it is."""
        try:
            self._room.check(size_bytes)
        except LimitExceeded as error:
            return error
        return None

    def data(self, frame: bytes) -> None:
        """Pass on what has no answer: permits, acknowledgements.

        Where that has no room the consumers end, so that the client hears of it: it is asked for nothing in its place.
        """
        if not self._pass_on(frame):
            self._leg.close()
            self._lost(FULL, pb.CommandError(error=pb.TooManyRequests))

    def news(self, frame: bytes) -> None:
        """Pass on what the owner also finds out by itself, if there is room."""
        self._pass_on(frame)

    def _pass_on(self, frame: bytes) -> bool:
        """What comes before the owner has let the client in waits for that; False if there is no room for it."""
        if self._leg.ready:
            self._leg.write(frame)
            return True
        if self._queued_bytes + len(frame) > self._queued_bytes_max:
            return False
        self._queued.append(frame)
        self._queued_bytes += len(frame)
        return True

    def auth_response(self, frame: bytes) -> None:
        """The client's answer to the owner's challenge, also before it is let in."""
        self.challenged = False
        self._leg.write(frame)

    def client_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Read from the owner only what the client takes."""
        if writable:
            self._leg.resume_reading()
        else:
            self._leg.pause_reading()

    def close(self) -> None:
        """The client has disconnected; without a callback."""
        self._unused.cancel()
        if self._leg.ready and (self._consumers or self._closing):
            LeavingLeg(self._leg, self._clock)
        else:
            self._leg.close()

    def give_up(self, reason: str) -> None:
        """The owner has nothing of the client any more, and may not be able to say so."""
        self._leg.close()
        self._lost(reason, None)

    # ---- LegOwner

    def leg_connected(self, connected: pb.CommandConnected) -> None:
        """The owner has let the client in."""
        _ = connected  # what the client may do, its own broker has told it
        self._heard = True
        self._legs.leg_connected(self)
        queued, self._queued, self._queued_bytes = self._queued, [], 0
        if queued:
            self._leg.write(b"".join(queued))

    def leg_challenged(self, frame: bytes) -> None:
        """Only the client can answer."""
        self.challenged = True
        self._client.send(frame)

    def leg_data(self, data: bytes, frame_count: int) -> None:
        """Pass on: messages, most of all."""
        _ = frame_count
        self._client.send(data)

    def leg_command(self, command: pb.BaseCommand, frame: bytes) -> None:
        """Take note of what begins and ends, and pass it on."""
        if command.type == _T.CLOSE_CONSUMER:
            consumer_id = command.close_consumer.consumer_id
            if consumer_id not in self._consumers or self._is_closing_former(consumer_id):
                return  # of one that the client has closed: it may have another of that id, at another owner perhaps
            self._forget(consumer_id)
        else:
            request_id = body_of(command).request_id
            if request_id == UNASKED:
                return  # why the owner ends the connection, which is not this client's
            asked = self._asked.take(request_id)
            if asked is not None and asked.kind == _T.ACK and not self._asked.receipts:
                self._leg.expect_ack_receipts(False)
            code = command.error.error
            if command.type == _T.ERROR and code in PASSING and self._asks_another(asked, code):
                self._consider_use()
                return
            self._answered(asked, failed=command.type == _T.ERROR)
        self._client.send(frame)

    def leg_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Let the client's side pause or go on."""
        self.writable = writable
        self._legs.leg_writable_changed()

    def leg_lost(self, reason: str, refusal: pb.CommandError | None) -> None:
        """Tell the client of everything that it has lost, and of everything that it waits for."""
        self.unreached = not self._heard and refusal is None
        self._tried_again = refusal is not None and self._legs.leg_refused(self, refusal)
        full = refusal is not None and refusal.error == pb.NotAllowedError  # of connections: it may have room soon
        self._lost(reason, None if full else refusal)

    # ---- within

    def _lost(self, reason: str, refusal: pb.CommandError | None) -> None:
        """Tell the client, in slices if it is much; until it knows all, nothing that it says is looked at."""
        if self._ended:
            return
        self._ended = True
        self._unused.cancel()
        self._legs.leg_ended(self)
        code = pb.ServiceNotReady if refusal is None else refusal.error
        message = f"the owner of this subscription, {self.owner.replica}: {reason}"
        self._client.do_first(partial(self._tell, self._ends(message, code)))

    def _tell(self, frames: Iterator[bytes], end: float) -> bool:
        """A step: send the next of these; whether some are left."""
        told, more = [], False
        for frame in frames:
            told.append(frame)
            more = self._clock.now() >= end
            if more:
                break
        if any(told):
            self._client.send(b"".join(told))
        return more

    def _ends(self, message: str, code: int) -> Iterator[bytes]:
        """End everything here; yield what the client is told of each, which may be nothing."""
        leads = code == pb.ServiceNotReady or self._tried_again
        for request_id in list(self._asked):
            asked = self._asked.take(request_id)
            if asked is None or (leads and self._asks_another(asked)):
                yield b""
            elif asked.kind == _T.CLOSE_CONSUMER:
                yield commands.success(request_id)
            else:
                yield refusal_frame(asked.kind, asked.body, message, code)
        for consumer_id in list(self._consumers):
            self._legs.consumer_ended(consumer_id)
            ready = self._consumers.pop(consumer_id).ready
            yield close_frame(_T.CLOSE_CONSUMER, consumer_id) if ready else b""

    def _asks_another(self, asked: Asked | None, code: int = pb.ServiceNotReady) -> bool:
        """Whether a SUBSCRIBE that was refused is another owner's to answer; then this one has it no more."""
        if asked is None or asked.kind != _T.SUBSCRIBE:
            return False
        consumer_id = asked.body.consumer_id
        if consumer_id not in self._consumers or not self._legs.subscribe_refused(consumer_id, code):
            return False
        del self._consumers[consumer_id]
        return True

    def _answered(self, asked: Asked | None, *, failed: bool) -> None:
        if asked is None:
            return
        consumer_id, consumer = asked.body.consumer_id, asked.consumer
        if asked.kind == _T.CLOSE_CONSUMER:
            if self._closing.get(consumer_id) is consumer:
                del self._closing[consumer_id]
        elif self._consumers.get(consumer_id) is not consumer:
            return  # it is closed, and what has its id now is another
        elif asked.kind == _T.SUBSCRIBE and not failed:
            consumer.ready = True
            self._legs.subscribed(consumer_id)
        elif asked.kind == _T.SUBSCRIBE or (asked.kind == _T.UNSUBSCRIBE and not failed):
            self._forget(consumer_id)

    def _is_closing_former(self, consumer_id: int) -> bool:
        """Whether a CLOSE_CONSUMER of the owner's has met the client's own, with a SUBSCRIBE of that id behind it."""
        return not self._consumers[consumer_id].ready and consumer_id in self._closing

    def _forget(self, consumer_id: int) -> None:
        consumer = self._consumers.pop(consumer_id, None)
        if consumer is None:
            return
        asked = self._asked.get(consumer.request_id)
        if asked is not None and asked.kind == _T.SUBSCRIBE and asked.consumer is consumer:
            self._asked.take(consumer.request_id)
        self._legs.consumer_ended(consumer_id)
        self._consider_use()

    def _consider_use(self) -> None:
        if not self._consumers and not self._unused.is_set:
            self._unused.set(UNUSED_S_MAX, self._not_used)

    def _not_used(self) -> None:
        if self._asked:  # the owner's broker may be slow: what it says as long again is the client's to hear
            self._unused.set(UNUSED_S_MAX, lambda: self.give_up(SLOW))
        else:
            self.give_up(UNUSED)
