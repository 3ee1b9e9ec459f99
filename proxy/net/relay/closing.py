"""Closes a client's connection to its broker, without conflicts between its exclusive producers and others.

A broker removes the producers of a closed connection at some later time, without a notification. So exclusive
producers, owners and waiting ones, are closed one by one while the connection is open, each when its topic allows it,
and everything else at once; the connection is closed when the broker has confirmed all of them. A producer with an
unanswered request is closed after its answer: a broker that is creating a producer may confirm a close in between, and
create it all the same.

If the broker can no longer be asked, the gateway waits for a fixed time.

Specification: `ServerCnx.handleCloseProducer` and `channelInactive`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.net.alarm import Alarm
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock
    from proxy.net.relay.leg import UpstreamLeg

_T = pb.BaseCommand

BROKEN_S: Final = 0.2
"""How long a broker may need to take off what it has from a connection that broke. On a host with six times too much to
do it was too short once: one epoch was given twice. A longer one holds up all that want a topic behind a fencer."""
CLOSE_ANSWER_S_MAX: Final = 2.0
"""How long a broker may need for its next answer to a close; then the connection goes all the same."""
TURN_S_MAX: Final = 30.0
"""How long a close may wait for its turn: to break the connection would put it beside what it is to wait for."""


class TopicGate(Protocol):
    """Serialises ownership changes of a topic (`producers.admission_lock`)."""

    def begin(self, token: object, begin: Callable[[], None], *, alone: bool) -> None:
        """Call `begin` when that change may be under way."""

    def join(self, token: object) -> None:
        """That change is under way."""

    def take_over(self, token: object, former: object) -> bool:
        """That change is under way instead of a former one; False if that one is not, or another is alone."""

    def end(self, token: object) -> None:
        """It is over."""


class ProducerToClose:
    """One producer, or one close of a producer, that a client leaves at its broker."""

    __slots__ = ("_gate", "admitted", "created", "on_admitted", "producer_id", "request_id")

    def __init__(self, gate: TopicGate, former: object, producer_id: int, request_id: int | None) -> None:
        """Take the place of what was under way for it, or wait for a turn to close it."""
        self._gate = gate
        self.producer_id = producer_id
        self.request_id = request_id
        """Of its creation or its close, if the broker has not answered that."""
        self.created: Callable[[pb.CommandProducerSuccess], None] | None = None
        """Who is to hear the broker's late answer to its creation."""
        self.on_admitted: Callable[[ProducerToClose], None] | None = None
        self.admitted = gate.take_over(self, former)
        if not self.admitted:
            gate.begin(self, self._admit, alone=False)

    def _admit(self) -> None:
        self.admitted = True
        if self.on_admitted is not None:
            self.on_admitted(self)

    def over(self) -> None:
        """The broker has nothing of it any more."""
        self._gate.end(self)

    def left_to_broker(self, clock: Clock) -> None:
        """The broker removes it by itself, which cannot be delayed; it is over some time later."""
        gate, token = self._gate, object()
        self.on_admitted = None
        if not gate.take_over(token, self):
            gate.join(token)
            gate.end(self)
        clock.call_later(BROKEN_S, lambda: gate.end(token))


class ProducersToClose:
    """All of one client."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.all: list[ProducerToClose] = []

    def add(self, gate: TopicGate, former: object, producer_id: int, request_id: int | None = None) -> ProducerToClose:
        """One more; see `ProducerToClose`. `former` is by what its topic's gate knows what was under way for it."""
        producer = ProducerToClose(gate, former, producer_id, request_id)
        self.all.append(producer)
        return producer

    @property
    def producer_ids(self) -> frozenset[int]:
        """Of all."""
        return frozenset(each.producer_id for each in self.all)

    def left_to_broker(self, clock: Clock) -> None:
        """As for each."""
        to_close, self.all = self.all, []
        for each in to_close:
            each.left_to_broker(clock)


class RelayClosing:
    """Implements `LegOwner` for a leg whose client has gone."""

    def __init__(self, leg: UpstreamLeg, to_close: ProducersToClose, clock: Clock, own_id: Callable[[], int]) -> None:
        """Take over a leg that is ready; `own_id` gives ids that no request of the client has."""
        self._leg: UpstreamLeg | None = leg
        self._to_close = to_close
        self._clock = clock
        self._own_id = own_id
        self._waiting: dict[int, ProducerToClose] = {}
        """For an answer, by request."""
        self._timer = Alarm(clock)

    def begin(self) -> None:
        """Close what may be closed."""
        assert self._leg is not None
        self._leg.owned_by(self)
        self._leg.resume_reading()
        for each in self._to_close.all:
            if each.request_id is not None:
                self._waiting[each.request_id] = each
            elif each.admitted:
                self._close(each)
            else:
                each.on_admitted = self._admitted
        self._wait()

    # ---- LegOwner

    def leg_connected(self, _connected: pb.CommandConnected) -> None:
        """It was before."""

    def leg_challenged(self, _frame: bytes) -> None:
        """No client can answer; the broker closes the connection for that, but later."""

    def leg_data(self, _data: bytes, _frame_count: int) -> None:
        """No client is left to read it."""

    def leg_command(self, command: pb.BaseCommand, _frame: bytes) -> None:
        """An answer to what is waited for, or to anything else."""
        if command.type == _T.PRODUCER_SUCCESS:
            created = self._waiting.pop(command.producer_success.request_id, None)
            if created is not None:
                self._admitted(created)
                if created.created is not None:
                    created.created(command.producer_success)
        elif command.type == _T.SUCCESS:
            self._answered(command.success.request_id)
        elif command.type == _T.ERROR:
            self._answered(command.error.request_id)

    def leg_writable(self, _writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Hardly anything is written."""

    def leg_lost(self, _reason: str, _refusal: pb.CommandError | None) -> None:
        """The broker takes off the rest as it does where a client breaks."""
        self._leg = None
        self._end()

    # ---- within

    def _admitted(self, producer: ProducerToClose) -> None:
        self._close(producer)
        self._wait()

    def _close(self, producer: ProducerToClose) -> None:
        assert self._leg is not None
        request_id = self._own_id()
        self._waiting[request_id] = producer
        self._leg.write(commands.close_producer(producer.producer_id, request_id))

    def _wait(self) -> None:
        """For the next answer, or for the next turn."""
        self._timer.set(CLOSE_ANSWER_S_MAX if self._waiting else TURN_S_MAX, self._end)

    def _answered(self, request_id: int) -> None:
        """It is closed, or was refused: gone either way."""
        producer = self._waiting.pop(request_id, None)
        if producer is None:
            return
        self._to_close.all.remove(producer)
        producer.over()
        if self._to_close.all:
            self._wait()
        else:
            self._end()

    def _end(self) -> None:
        self._timer.cancel()
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.close()
        self._waiting.clear()
        self._to_close.left_to_broker(self._clock)
