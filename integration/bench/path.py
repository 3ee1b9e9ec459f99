"""The gateway's whole path of a message in one process: real state machines, a scripted broker and scripted workers.

Problem: a drain against a real broker on a small, busy machine tells what users get, but two runs differ by a tenth,
so a slow-down of a microsecond hides in it. Here the bytes of a broker go in, the bytes for workers come out, the
workers' ACK frames go in and the broker's answers too, and only the time inside the gateway's code is counted.

Sockets, the event loop and the kernel are not in it. Everything goes through the ports as bytes, so that this file
need not change when the inside of the gateway does.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from integration.bench import frames_made
from proxy.limits import Limits
from proxy.net.broker.directory import Brokers
from proxy.net.broker.names import BrokerNames
from proxy.net.broker.settings import BrokerSettings
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.session.services import SessionServices
from proxy.net.session.session import ClientSession
from proxy.net.session.settings import SessionSettings
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.openings import Openings
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.service_url import parse_service_url
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import FrameSplitter, frame_type, parse_command, payload_start
from proxy.wire.metadata import peek

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.net.events import EventRecorder, Tracers
    from proxy.net.ports import Receiver, Timer

T = TypeVar("T")

FRAME_BYTES_MAX = 8 << 20
BROKER = "pulsar://192.0.2.1:6650"
WORKER_PERMITS = 1_000
"""The receiver queue of every official client by default."""


class StillClock:
    """A clock that stands still for timers and runs for `now`; `settle` makes the calls of this turn."""

    def __init__(self) -> None:
        """Nothing is due."""
        self._soon: deque[Callable[[], None]] = deque()

    def now(self) -> float:
        """As the port says."""
        return time.monotonic()

    def time(self) -> float:
        """As the port says."""
        return time.time()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Never made: no timer falls due within a measurement."""
        _ = delay_s, callback
        return self

    def call_soon(self, callback: Callable[[], None]) -> StillClock:
        """As the port says."""
        self._soon.append(callback)
        return self

    def cancel(self) -> None:
        """As a timer."""

    def settle(self) -> None:
        """Make what is due, and what that asks for."""
        while self._soon:
            self._soon.popleft()()


class StillBackground:
    """Carries out in the same turn: what it takes is to be measured too."""

    def __init__(self, clock: StillClock) -> None:
        """Share the clock."""
        self._clock = clock

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> StillClock:
        """As the port says."""
        return self._clock.call_soon(lambda: done(work()))


class Wire:
    """One connection as the gateway sees it: a transport that keeps what was written."""

    peer = "192.0.2.9:40000"
    peer_certificate = None
    writable = True

    def __init__(self, receiver: Receiver) -> None:
        """`receiver` is the gateway's end."""
        self.receiver = receiver
        self.written: list[bytes] = []
        self.split = FrameSplitter(FRAME_BYTES_MAX)
        receiver.opened(self)

    def write(self, data: bytes) -> None:
        """As the port says."""
        self.written.append(data)

    def take(self) -> list[bytes]:
        """Frames written since the last call."""
        data, self.written = b"".join(self.written), []
        return self.split.feed(data)

    def push(self) -> None:
        """Nothing leaves before it is taken."""

    def limit(self, seconds: float) -> None:
        """Everything leaves at once."""

    def pause_reading(self) -> None:
        """Nothing is paused: the script feeds as much as was granted."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def close(self) -> None:
        """The measurement ends with the process."""

    def abort(self) -> None:
        """See `close`."""


class ScriptedBroker:
    """Answers what the gateway asks; knows one topic."""

    def __init__(self, clock: StillClock) -> None:
        """As a `Connector`."""
        self._clock = clock
        self.wires: list[Wire] = []
        self.permits = 0
        self.consumer_id = 0
        self.consumer_wire: Wire | None = None
        self.acked = 0
        """Entries of which nothing is left to acknowledge."""

    def connect(self, address: str, receiver: Receiver) -> None:
        """As the port says."""
        _ = address
        self._clock.call_soon(lambda: self.wires.append(Wire(receiver)))

    def answers(self) -> list[tuple[Wire, bytes]]:
        """Read everything the gateway wrote to brokers; what is to be answered, on which wire."""
        out: list[tuple[Wire, bytes]] = []
        for wire in self.wires:
            replies = [reply for frame in wire.take() if (reply := self._answer(wire, frame)) is not None]
            if replies:
                out.append((wire, b"".join(replies)))
        return out

    def _answer(self, wire: Wire, frame: bytes) -> bytes | None:
        kind = frame_type(frame)
        command = parse_command(frame)
        if kind == pb.BaseCommand.ACK:
            self.acked += sum(not place.ack_set for place in command.ack.message_id)
            return frames_made.ack_response(command.ack)
        if kind == pb.BaseCommand.FLOW:
            self.permits += command.flow.messagePermits
            return None
        if kind == pb.BaseCommand.SUBSCRIBE:
            self.consumer_id, self.consumer_wire = command.subscribe.consumer_id, wire
            return frames_made.success(command.subscribe.request_id)
        if kind == pb.BaseCommand.PARTITIONED_METADATA:
            return frames_made.no_partitions(command.partitionMetadata.request_id)
        if kind == pb.BaseCommand.LOOKUP:
            return frames_made.lookup_response(command.lookupTopic.request_id, BROKER)
        return frames_made.connected() if kind == pb.BaseCommand.CONNECT else None


class GatewayPath:
    """A gateway with one subscription and its workers, ready to be fed; `spent_s` is the time inside it."""

    def __init__(
        self,
        worker_count: int = 4,
        event_recorder: EventRecorder | None = None,
        clock: StillClock | None = None,
        subscriptions: SubscriptionSettings | None = None,
        tracers: Tracers | None = None,
        broker: ScriptedBroker | None = None,
    ) -> None:
        """Connect and subscribe the workers, each on a connection of its own.

        `event_recorder` keeps the journal, `tracers` follow messages; `broker` shares the clock.
        """
        clock = self._clock = clock or StillClock()
        self.broker = broker or ScriptedBroker(clock)
        self.openings = Openings(clock, StillBackground(clock))
        directory = Subscriptions(
            Brokers(self.broker, clock, BrokerSettings((BROKER,), "bench")),
            clock,
            subscriptions or SubscriptionSettings(),
            self.openings,
        )
        directory.events.event_recorder, directory.events.tracers = event_recorder, tracers
        elections = ProducerElections(clock, directory.events, ElectionSettings())
        settings = SessionSettings((parse_service_url(BROKER),), authorize_workers=False)
        names = BrokerNames(settings.brokers, clock)
        services = self.services = SessionServices(
            self.broker, clock, directory, elections, names, settings, Limits(), directory.slices
        )
        self._services = services
        self.spent_s = 0.0
        self._workers: list[Wire] = []
        self._granted: list[int] = []
        self._entry = 0
        for _ in range(worker_count):
            self._workers.append(self.new_client())
            self._granted.append(0)
        for number, worker in enumerate(self._workers):
            subscribe = frames_made.subscribe(consumer_id=1, name=f"worker-{number}")
            self._tell([(worker, subscribe), (worker, frames_made.flow(1, WORKER_PERMITS))])

    def new_client(self) -> Wire:
        """One more connection, let in."""
        client = Wire(ClientSession(self._services, lambda _ended: None))
        self.tell(client, frames_made.connect())
        client.take()
        return client

    def tell(self, client: Wire, data: bytes) -> None:
        """Let the gateway hear this from the client, and what the broker answers to it."""
        self._tell([(client, data)])

    def pump(self, tails: list[bytes], entries_at_a_time: int) -> int:
        """Feed entries with these tails until each message was delivered and acknowledged; the messages delivered.

        So many entries arrive at a time, permits allowing, before the workers acknowledge what they have got.
        """
        counts = [_messages_in(tail) for tail in tails]
        total, delivered, fed = sum(counts), 0, 0
        while delivered < total:
            room = self._room(counts[fed : fed + entries_at_a_time])
            if room:
                self._feed(tails[fed : fed + room])
                self.broker.permits -= sum(counts[fed : fed + room])
                fed += room
            progress = self._acknowledge()
            delivered += progress
            if not (room or progress):
                self._wait()
        assert fed == len(tails), f"{delivered} messages left of {fed} entries that hold fewer"
        assert delivered == total, f"{delivered} messages left of entries that hold {total}"
        return delivered

    def _wait(self) -> None:
        """Nothing can happen now, and here nothing else will."""
        raise AssertionError(f"stuck: the broker has {self.broker.permits} permits, and workers have acknowledged all")

    def _room(self, counts: list[int]) -> int:
        """How many of the next entries, of so many messages each, the permits cover whole."""
        covered = accumulate(counts)
        return sum(1 for messages in covered if messages <= self.broker.permits)

    def _feed(self, tails: list[bytes]) -> None:
        wire = self.broker.consumer_wire
        assert wire is not None
        data = frames_made.messages(self.broker.consumer_id, self._entry, tails)
        self._entry += len(tails)
        self._tell([(wire, data)])

    def _acknowledge(self) -> int:
        """Every worker acknowledges what it got in one command and grants permits by halves, as clients do."""
        total = 0
        said: list[tuple[Wire, bytes]] = []
        for number, worker in enumerate(self._workers):
            frames = [frame for frame in worker.take() if frame_type(frame) == pb.BaseCommand.MESSAGE]
            if not frames:
                continue
            messages = sum(_messages_in(frame[payload_start(frame) :]) for frame in frames)
            self._granted[number] += messages
            data, done = self._answer(number, [parse_command(frame).message.message_id for frame in frames], messages)
            total += done
            if self._granted[number] >= WORKER_PERMITS // 2:
                data += frames_made.flow(1, self._granted[number])
                self._granted[number] = 0
            said.append((worker, data))
        self._tell(said)
        return total

    def _answer(self, worker: int, places: Sequence[pb.MessageIdData], messages: int) -> tuple[bytes, int]:
        """What a worker says to that many messages, in entries or slices at these places, and how many are done."""
        del worker
        return frames_made.ack(1, places), messages

    def _tell(self, said: list[tuple[Wire, bytes]]) -> None:
        """Let the gateway hear this, each piece in a turn of its own, and what the broker answers to it."""
        while said:
            with self.inside():
                for wire, data in said:
                    wire.receiver.received(data)
                    self._clock.settle()
            said = self.broker.answers()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count the block's time; some microseconds a call on virtual machines, so not for every piece."""
        began = time.process_time()
        yield
        self.spent_s += time.process_time() - began


def _messages_in(tail: bytes) -> int:
    """How many messages an entry or a slice of it holds."""
    return peek(tail).metadata.num_messages_in_batch
