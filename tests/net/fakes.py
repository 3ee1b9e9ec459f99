"""Fakes of the ports, for every state machine in `proxy.net`: stepped time, recorded bytes, no loop and no socket.

They keep the ports' rule: nothing calls back from inside one of the ports' own methods. What is due is made by
`FakeClock.settle` (this loop turn) and `FakeClock.advance` (later).
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.ports import Receiver, WorkerLink

T = TypeVar("T")

ORIGIN_S = 86_400.25
"""Where the fake monotonic clock starts: not 0, so that an elapsed time taken for a moment shows."""


class FakeTimer:
    """A due call; `cancelled` and `made` are there for tests to look at."""

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        """`due_s` is a moment of the fake clock."""
        self.due_s = due_s
        self.callback = callback
        self.cancelled = False
        self.made = False

    def cancel(self) -> None:
        """As the port says."""
        self.cancelled = True

    def fire(self) -> None:
        """Make the call unless it was cancelled."""
        if not self.cancelled:
            self.made = True
            self.callback()


class FakeClock:
    """Time that moves only when told; calls due at one moment are made in the order they were asked for."""

    def __init__(self) -> None:
        """Start at `ORIGIN_S`."""
        self._now_s = ORIGIN_S
        self._order = itertools.count()
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._soon: deque[FakeTimer] = deque()

    def now(self) -> float:
        """As the port says."""
        return self._now_s

    def time(self) -> float:
        """As the port says; far from `now`, so that mixing them up shows."""
        return 1_700_000_000.0 + self._now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        """As the port says."""
        assert delay_s >= 0
        timer = FakeTimer(self._now_s + delay_s, callback)
        heapq.heappush(self._timers, (timer.due_s, next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> FakeTimer:
        """As the port says."""
        timer = FakeTimer(self._now_s, callback)
        self._soon.append(timer)
        return timer

    def settle(self, turns_max: int = 10_000) -> None:
        """Make every call that is due now, and those they ask for, until there is none."""
        for _ in range(turns_max):
            if not self._soon:
                return
            self._soon.popleft().fire()
        message = f"still busy after {turns_max} calls in one moment"
        raise AssertionError(message)

    def turn(self) -> bool:
        """Make the calls that are due now and not those they ask for; whether there were any."""
        due, self._soon = self._soon, deque()
        for timer in due:
            timer.fire()
        return bool(due)

    def advance(self, seconds: float) -> None:
        """Move time on, stopping at each timer on the way."""
        self._advance_to(self._now_s + seconds)

    def advance_to_next(self, end_s: float) -> None:
        """Move time on to the next timer and make what is due then, or to `end_s` if no timer is due before."""
        self.settle()
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        due_s = max(self._timers[0][0], self._now_s) if self._timers else end_s
        self._advance_to(min(due_s, end_s))

    def _advance_to(self, end_s: float) -> None:
        self.settle()
        while self._timers and self._timers[0][0] <= end_s:
            due_s, _, timer = heapq.heappop(self._timers)
            self._now_s = max(self._now_s, due_s)
            timer.fire()
            self.settle()
        self._now_s = end_s

    def oversleep(self, seconds: float) -> None:
        """Move time on and make no call, as for a process that was stopped; what is due is made by `advance`."""
        self._now_s += seconds

    @property
    def waiting(self) -> int:
        """Timers neither made nor cancelled."""
        return sum(not timer.cancelled for _, _, timer in self._timers)


class FakeErrand(Generic[T]):
    """A piece of work that was asked for; the test carries it out."""

    def __init__(self, clock: FakeClock, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """`done` is called in a turn of its own."""
        self._clock = clock
        self._work = work
        self._done = done
        self.cancelled = False

    def cancel(self) -> None:
        """As the port says."""
        self.cancelled = True

    def carry_out(self) -> None:
        """Do it, and tell the one who asked."""
        result: T | Exception
        try:
            result = self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            result = error
        self._clock.call_soon(lambda: None if self.cancelled else self._done(result))
        self._clock.settle()


class FakeBackground:
    """Carries out at once, in the next turn, unless the test holds the work back to do it itself, in any order."""

    def __init__(self, clock: FakeClock) -> None:
        """Share the test's clock."""
        self._clock = clock
        self.held = False
        self.errands: list[FakeErrand[Any]] = []
        """Those that are held back, in the order they were asked for."""

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> FakeErrand[T]:
        """As the port says."""
        errand = FakeErrand(self._clock, work, done)
        if self.held:
            self.errands.append(errand)
        else:
            self._clock.call_soon(errand.carry_out)
        return errand

    def carry_out(self, index: int = 0) -> None:
        """Do one of those that are held back."""
        self.errands.pop(index).carry_out()


class FakeTransport:
    """One end of a connection whose other end is the test."""

    def __init__(self, clock: FakeClock, receiver: Receiver, peer: str = "192.0.2.1:50000") -> None:
        """`receiver` is the state machine under test; call `open` to begin."""
        self._clock = clock
        self._receiver = receiver
        self._peer = peer
        self._writable = True
        self._held: list[bytes] = []
        self._told_closed = False
        self.written = bytearray()
        self.writes = 0
        self.reading = True
        self.closing = False
        self.aborted = False
        self.close_reason: str | None = None
        self.peer_certificate: bytes | None = None
        """As the port says; the test sets it before `open`."""
        self.takes_last_bytes = True
        """False for a peer that reads nothing more, so that `close` never gets to its end."""

    @property
    def peer(self) -> str:
        """As the port says."""
        return self._peer

    @property
    def writable(self) -> bool:
        """As the port says; the test sets it with `set_writable`."""
        return self._writable

    def write(self, data: bytes) -> None:
        """As the port says."""
        assert isinstance(data, bytes | bytearray | memoryview)
        if not self.closing:
            self.written += data
            self.writes += 1

    def push(self) -> None:
        """As the port says; nothing is gathered here."""

    def limit(self, seconds: float) -> None:
        """As the port says; nobody stands still within a turn here."""

    def pause_reading(self) -> None:
        """As the port says."""
        self.reading = False

    def resume_reading(self) -> None:
        """As the port says; what the test delivered meanwhile comes now."""
        if not self.reading:
            self.reading = True
            self._clock.call_soon(self._deliver_held)

    def close(self) -> None:
        """As the port says."""
        if not self.closing:
            self.closing = True
            if self.takes_last_bytes:
                self._clock.call_soon(lambda: self.lose("closed by us"))

    def abort(self) -> None:
        """As the port says."""
        self.aborted = True
        self.closing = True
        self._clock.call_soon(lambda: self.lose("closed by us"))

    # What the test, as the peer, does.

    def open(self) -> None:
        """The connection stands."""
        self._receiver.opened(self)

    def deliver(self, data: bytes) -> None:
        """Bytes come from the peer; kept back while reading is paused, dropped after the end."""
        if self._told_closed:
            return
        if self.reading and not self._held:
            self._receiver.received(data)
        else:
            self._held.append(data)
        self._clock.settle()

    def set_writable(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """The peer began or ceased to leave too much unread."""
        self._writable = writable
        self._receiver.writability_changed(writable)
        self._clock.settle()

    def lose(self, reason: str = "connection reset by peer") -> None:
        """The connection ends."""
        self.closing = True
        if not self._told_closed:
            self._told_closed = True
            self.close_reason = reason
            self._receiver.closed(reason)
            self._clock.settle()

    def take(self) -> bytes:
        """What was written since the last call."""
        data = bytes(self.written)
        self.written.clear()
        return data

    def _deliver_held(self) -> None:
        while self.reading and self._held and not self._told_closed:
            self._receiver.received(self._held.pop(0))


@dataclass
class Attempt:
    """One call of `FakeConnector.connect`; the test decides how it ends."""

    address: str
    receiver: Receiver
    clock: FakeClock
    transport: FakeTransport | None = None
    decided: bool = False

    def accept(self) -> FakeTransport:
        """The connection stands."""
        assert not self.decided
        self.decided = True
        self.transport = FakeTransport(self.clock, self.receiver, self.address.partition("://")[2])
        self.transport.open()
        self.clock.settle()
        return self.transport

    def refuse(self, reason: str = "connection refused") -> None:
        """There is no connection."""
        assert not self.decided
        self.decided = True
        self.receiver.closed(reason)
        self.clock.settle()


class FakeConnector:
    """Keeps every attempt for the test to accept or refuse."""

    def __init__(self, clock: FakeClock) -> None:
        """Share the test's clock."""
        self._clock = clock
        self.attempts: list[Attempt] = []

    def connect(self, address: str, receiver: Receiver) -> None:
        """As the port says; nothing happens until the test decides."""
        self.attempts.append(Attempt(address, receiver, self._clock))

    @property
    def last(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[-1]


@dataclass
class FakeWorkerPort:
    """Writes down what its session brings; answers nothing unless the test sends through `link`."""

    link: WorkerLink
    command: pb.CommandSubscribe
    calls: list[tuple[str, object]] = field(default_factory=list)
    broker_away: bool = False
    unacked: int = 0
    early_permits: int = 0

    def flow(self, permits: int) -> None:
        """As the port says."""
        self.calls.append(("flow", permits))

    def ack(self, command: pb.CommandAck) -> None:
        """As the port says."""
        self.calls.append(("ack", command))

    def acked_whole(self, ids: list[int]) -> None:
        """As the port says; noted as the command that it was."""
        places = [pb.MessageIdData(ledgerId=ids[at], entryId=ids[at + 1]) for at in range(0, len(ids), 2)]
        consumer_id = self.command.consumer_id
        self.ack(pb.CommandAck(consumer_id=consumer_id, ack_type=pb.CommandAck.Individual, message_id=places))

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """As the port says."""
        self.calls.append(("redeliver", command))

    def close(self, request_id: int) -> None:
        """As the port says."""
        self.calls.append(("close", request_id))

    def unsubscribe(self, command: pb.CommandUnsubscribe) -> None:
        """As the port says."""
        self.calls.append(("unsubscribe", command))

    def seek(self, command: pb.CommandSeek) -> None:
        """As the port says."""
        self.calls.append(("seek", command))

    def get_last_message_id(self, command: pb.CommandGetLastMessageId) -> None:
        """As the port says."""
        self.calls.append(("get_last_message_id", command))

    def consumer_stats(self, command: pb.CommandConsumerStats) -> None:
        """As the port says."""
        self.calls.append(("consumer_stats", command))

    def lost(self, reason: str) -> None:
        """As the port says."""
        self.calls.append(("lost", reason))

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """As the port says."""
        self.calls.append(("writability_changed", writable))


class FakeDirectory:
    """Gives every subscriber a port that only takes notes."""

    def __init__(self) -> None:
        """Nobody subscribed yet."""
        self.workers: list[FakeWorkerPort] = []
        self.transactions: list[tuple[tuple[int, int], bool]] = []
        """Ids of those that have ended, and whether they were committed."""

    def subscribe(self, link: WorkerLink, command: pb.CommandSubscribe) -> FakeWorkerPort:
        """As the port says; the answer is the test's to send."""
        port = FakeWorkerPort(link, command)
        self.workers.append(port)
        return port

    def transaction_ended(self, transaction: tuple[int, int], *, committed: bool) -> None:
        """As the port says."""
        self.transactions.append((transaction, committed))
