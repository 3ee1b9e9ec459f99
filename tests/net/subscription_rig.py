"""Key_Shared subscriptions between fakes: the test is every worker, the broker and the clock.

Everything crosses as the bytes it has on the wire: entries are built as frames and parsed, deliveries are read back
out of what a worker's socket got.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from proxy.core.steps import finished
from proxy.core.sticky_key import murmur31
from proxy.errors import OwnedElsewhere
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.openings import Openings
from proxy.net.subscription.refusals import error_frame
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.net.subscription.subscription import Subscription
from proxy.views.subscriptions import SubscriptionsStatistics, subscriptions_statistics_steps
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import decompress
from proxy.wire.messages import parse_message
from proxy.wire.metadata import peek
from tests.net.fakes import FakeBackground, FakeClock
from tests.net.subscription_rig_broker import LEDGER, TOPIC, FakeBrokerLink, FakeBrokers, T
from tests.wire.batches import index_batch

if TYPE_CHECKING:
    from proxy.net.ports import Step, WorkerPort

MAX_FRAME_BYTES = 16 << 20


class Delivered(NamedTuple):
    """One MESSAGE as a worker's client reads it."""

    ledger: int
    entry: int
    redeliveries: int
    ack_set: tuple[int, ...]
    messages: tuple[tuple[str, bytes], ...]
    """(key, payload) of each message in it; a payload that cannot be read stands alone with its outer key."""
    tail: bytes
    epoch: int = 0

    @property
    def payloads(self) -> list[bytes]:
        """What the application would see."""
        return [payload for _, payload in self.messages]


class Worker:
    """A client's consumer: implements `ports.WorkerLink`, and sends commands as a client would."""

    def __init__(self, rig: SubscriptionRig, consumer_id: int) -> None:
        self._rig = rig
        self.consumer_id = consumer_id
        self.request_id = consumer_id + 1_000
        """Of its SUBSCRIBE."""
        self.peer = f"192.0.2.7:{40_000 + consumer_id}"
        self.client_version = "Pulsar-CPP-v3.7.0"
        self.accepts_broker_entry_metadata = False
        self.writable = True
        self.room: int | None = None
        """Writes after which the socket is full; None for any number."""
        self.forgotten = False
        self.leads_on = False
        """Whether its SUBSCRIBE can be led to another replica."""
        self.led_on = False
        self.limits: list[float] = []
        """Within how many seconds what was sent had to leave, each time."""
        self.vanished = False
        """Whether its host has, so that it gives no sign of life."""
        self.asked_for_life: list[Callable[[], None]] = []
        """Who waits for one."""
        self.gone = False
        self.writes = 0
        self._splitter = frames.FrameSplitter(MAX_FRAME_BYTES)
        self._delivered: list[Delivered] = []
        self._commands: list[pb.BaseCommand] = []
        self.port: WorkerPort

    # ports.WorkerLink

    def subscribed(self) -> None:
        """As the port says."""
        self.send(commands.success(self.request_id))

    def refuse(self, error: Exception) -> None:
        """As the port says."""
        assert not self.gone
        self.led_on = self.leads_on and isinstance(error, OwnedElsewhere)
        if not self.led_on:
            self.send(error_frame(self.request_id, error))
            self.forgotten = True

    def send(self, frame: bytes) -> None:
        """As the port says."""
        assert not self.gone, "a frame for a client whose connection is gone"
        self.writes += 1
        self._rig.sendings.append(f"{self.consumer_id} written")
        if self.room is not None:
            self.room -= 1
            self.writable = self.room > 0
        for piece in self._splitter.feed(frame):
            if frames.frame_type(piece) == T.MESSAGE:
                self._delivered.append(self._read(piece))
            else:
                self._commands.append(frames.parse_command(piece))

    def push(self) -> None:
        """As the port says."""
        self._rig.sendings.append(f"{self.consumer_id} pushed")

    def limit(self, seconds: float) -> None:
        """As the port says."""
        self.limits.append(seconds)

    def first(self, step: Step) -> None:
        """As the port says, for a client that sends nothing more."""
        self._rig.subscriptions.slices.do(step)

    def forget(self) -> None:
        """As the port says."""
        assert not self.gone
        self.forgotten = True

    def check_liveness(self, alive: Callable[[], None]) -> None:
        """As the port says."""
        if self.vanished:
            self.asked_for_life.append(alive)
        else:
            alive()

    # what its client sees

    def messages(self) -> list[Delivered]:
        """Messages since the last look."""
        taken, self._delivered = self._delivered, []
        return taken

    def entries(self) -> list[int]:
        """Entry ids of the messages since the last look."""
        return [item.entry for item in self.messages()]

    def commands(self) -> list[pb.BaseCommand]:
        """Everything but messages since the last look."""
        taken, self._commands = self._commands, []
        return taken

    def answers(self) -> list[int]:
        """Types of the commands since the last look."""
        return [command.type for command in self.commands()]

    def error(self) -> tuple[int, str]:
        """The one ERROR since the last look, as (code, text)."""
        (command,) = self.commands()
        assert command.type == T.ERROR, command
        return command.error.error, command.error.message

    def receipt(self) -> pb.CommandAckResponse:
        """The one ACK_RESPONSE since the last look."""
        (command,) = self.commands()
        assert command.type == T.ACK_RESPONSE, command
        return command.ackResponse

    # what its client does; each in a turn of its own

    def flow(self, permits: int) -> None:
        """FLOW."""
        self.port.flow(permits)
        self._rig.clock.settle()

    def ack(self, *items: Delivered | int, request_id: int | None = None, ack_set: Iterable[int] = ()) -> None:
        """ACK of deliveries, or of entries of `LEDGER`."""
        command = pb.CommandAck(consumer_id=self.consumer_id, ack_type=pb.CommandAck.Individual)
        for item in items:
            place = command.message_id.add()
            place.ledgerId, place.entryId = (LEDGER, item) if isinstance(item, int) else (item.ledger, item.entry)
            place.ack_set.extend(ack_set)
        if request_id is not None:
            command.request_id = request_id
        self.port.ack(command)
        self._rig.clock.settle()

    def redeliver(self, *items: Delivered | int, kept: Iterable[int] = (), epoch: int = 0) -> None:
        """REDELIVER of some deliveries, or of all; with an epoch, of all but the entries `kept`."""
        command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self.consumer_id)
        for item in items:
            place = command.message_ids.add()
            place.ledgerId, place.entryId = (LEDGER, item) if isinstance(item, int) else (item.ledger, item.entry)
            if epoch:
                place.ack_set.append(-1)
        for entry in kept:
            command.message_ids.add(ledgerId=LEDGER, entryId=entry)
        if epoch:
            command.consumer_epoch = epoch
        self.port.redeliver(command)
        self._rig.clock.settle()

    def close(self, request_id: int = 900) -> None:
        """CLOSE_CONSUMER."""
        self.port.close(request_id)
        self._rig.clock.settle()

    def unsubscribe(self, request_id: int = 901, *, force: bool = False) -> None:
        """UNSUBSCRIBE."""
        command = pb.CommandUnsubscribe(consumer_id=self.consumer_id, request_id=request_id)
        if force:
            command.force = True
        self.port.unsubscribe(command)
        self._rig.clock.settle()

    def seek(self, entry: int, request_id: int = 902) -> None:
        """SEEK to an entry of `LEDGER`."""
        place = pb.MessageIdData(ledgerId=LEDGER, entryId=entry)
        self.port.seek(pb.CommandSeek(consumer_id=self.consumer_id, request_id=request_id, message_id=place))
        self._rig.clock.settle()

    def ask_last_message_id(self, request_id: int = 903) -> None:
        """GET_LAST_MESSAGE_ID."""
        self.port.get_last_message_id(pb.CommandGetLastMessageId(consumer_id=self.consumer_id, request_id=request_id))
        self._rig.clock.settle()

    def ask_stats(self, request_id: int = 904) -> pb.CommandConsumerStatsResponse:
        """CONSUMER_STATS, and its answer."""
        self.port.consumer_stats(pb.CommandConsumerStats(consumer_id=self.consumer_id, request_id=request_id))
        (answer,) = self.commands()
        assert answer.type == T.CONSUMER_STATS_RESPONSE
        return answer.consumerStatsResponse

    def lose(self) -> None:
        """The client's connection is gone."""
        self.gone = True
        self.port.lost("connection reset by peer")
        self._rig.clock.settle()

    def stop_reading(self) -> None:
        """The client leaves its socket unread."""
        self.writable = False
        self.port.writability_changed(writable=False)
        self._rig.clock.settle()

    def read_again(self) -> None:
        """The client's socket emptied."""
        self.writable, self.room = True, None
        self.port.writability_changed(writable=True)
        self._rig.clock.settle()

    def _read(self, frame: bytes) -> Delivered:
        head = parse_message(frame)
        assert head.consumer_id == self.consumer_id
        return Delivered(
            head.ledger,
            head.entry,
            head.redelivery_count,
            head.ack_set or (),
            _messages_in(head.tail),
            head.tail,
            frames.parse_command(frame).message.consumer_epoch,
        )


def _messages_in(tail: bytes) -> tuple[tuple[str, bytes], ...]:
    try:
        metadata, _, start = peek(tail)
        payload = tail[start:]
        if metadata.encryption_keys or not metadata.HasField("num_messages_in_batch"):
            return ((metadata.partition_key.decode(), payload),)
        if metadata.compression:
            payload = decompress(metadata.compression, payload, metadata.uncompressed_size, MAX_FRAME_BYTES)
        found = []
        for item in index_batch(payload, metadata.num_messages_in_batch):
            size = int.from_bytes(payload[item.start : item.start + 4], "big")
            found.append(((item.partition_key or b"").decode(), payload[item.start + 4 + size : item.end]))
        return tuple(found)
    except ValueError:
        return (("", tail),)


class Streamed:
    """The subscriptions of a rig that a group of replicas shares."""

    def __init__(self, rig: SubscriptionRig) -> None:
        self._rig = rig

    def __contains__(self, key: object) -> bool:
        """By what the rig says when it is asked."""
        assert isinstance(key, tuple)
        return self._rig.streamed or key[1] in self._rig.streamed_names


class SubscriptionRig:
    """A gateway's subscriptions with everything around them made up."""

    streamed: ClassVar[bool] = False
    """Whether a group of replicas shares the subscriptions."""

    def __init__(self, **settings: object) -> None:
        self.clock = FakeClock()
        self.brokers = FakeBrokers(self.clock)
        configured = SubscriptionSettings(**{"contract_monitor_one_in": 1, **settings})  # type: ignore[arg-type]
        self.background = FakeBackground(self.clock)
        self.openings = Openings(self.clock, self.background)
        self.streamed_names: set[str] = set()
        """Subscriptions of which that is so where it is not so of all."""
        self.subscriptions = Subscriptions(self.brokers, self.clock, configured, self.openings, Streamed(self))
        self._consumer_ids = itertools.count(1)
        self.alarms = self.subscriptions.events.listen(
            self._alarm, wanted=lambda each: each.kind == "contract_violated"
        )
        self.sendings: list[str] = []
        """What workers were written, and when it was pushed to them, by their consumer ids."""
        self.is_broken = False
        """Whether the contract is to be broken: else the monitor, which judges all keys, may never ring."""

    def _alarm(self) -> None:
        assert self.is_broken, self.alarms.take()

    @property
    def link(self) -> FakeBrokerLink:
        """The newest connection to the broker."""
        return self.brokers.link

    @property
    def subscription(self) -> Subscription:
        """The one subscription there is."""
        (found,) = self.subscriptions._subscriptions.values()
        return found

    @property
    def count(self) -> int:
        """How many subscriptions live."""
        return len(self.subscriptions._subscriptions)

    def statistics(self) -> SubscriptionsStatistics:
        """As operators see it."""
        return finished(subscriptions_statistics_steps(self.subscriptions, None, None, None, 1_000))

    def subscribe(self, name: str = "", *, settle: bool = True, **fields: object) -> Worker:
        """SUBSCRIBE of a worker; with `settle` False not even this loop turn ends."""
        worker = Worker(self, next(self._consumer_ids))
        values: dict[str, object] = {"topic": TOPIC, "subscription": "s", **fields}
        command = pb.CommandSubscribe(
            subType=pb.CommandSubscribe.Key_Shared,
            consumer_id=worker.consumer_id,
            request_id=worker.request_id,
            **values,  # type: ignore[arg-type]
        )
        if name:
            command.consumer_name = name
        worker.port = self.subscriptions.subscribe(worker, command)
        if settle:
            self.clock.settle()
        return worker

    def worker(self, name: str = "", permits: int = 0, **fields: object) -> Worker:
        """A worker that joined, with its Success taken and some permits granted."""
        worker = self.subscribe(name, **fields)  # type: ignore[arg-type]
        (answer,) = worker.commands()
        assert answer.type == T.SUCCESS, answer
        assert answer.success.request_id == worker.request_id
        if permits:
            worker.flow(permits)
        return worker

    def key_for(self, name: str, nth: int = 0) -> str:
        """The `nth` made-up key whose slot belongs to the worker of this name now."""
        dispatcher = self.subscription.state.dispatcher
        found = (
            key
            for key in (f"key-{number}" for number in itertools.count())
            if (owner := dispatcher.select(dispatcher.selector.slot(murmur31(key.encode())))) is not None
            and owner.name == name
        )
        return next(itertools.islice(found, nth, None))


def schema(name: str, kind: int = pb.Schema.Json) -> pb.Schema:
    """A schema that differs by its name."""
    return pb.Schema(name=name, schema_data=name.encode(), type=kind)  # type: ignore[arg-type]


def sticky(*ranges: tuple[int, int]) -> pb.KeySharedMeta:
    """Sticky ranges, both ends inclusive."""
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY)
    for start, end in ranges:
        meta.hashRanges.add(start=start, end=end)
    return meta
