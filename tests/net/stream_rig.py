"""A subscription that a group of replicas shares, between fakes: the test is the one who holds the leases, too.

The hash space is cut in `STREAMS` streams, as a group's leader would cut it.
"""

from __future__ import annotations

import itertools

from proxy.core.sticky_key import murmur31, range_slot
from proxy.groups.streams import hash_range
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import FakeBrokerLink, T

STREAMS = 4


class StreamEar:
    """Implements `StreamListener`; keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []
        self.errors: list[Exception] = []

    def stream_opened(self, stream: int) -> None:
        """As the protocol says."""
        self.heard.append(("opened", stream))

    def stream_refused(self, stream: int, error: Exception) -> None:
        """As the protocol says."""
        self.heard.append(("refused", stream))
        self.errors.append(error)

    def stream_lost(self, stream: int, reason: str) -> None:
        """As the protocol says."""
        assert reason
        self.heard.append(("lost", stream))

    def take(self) -> list[tuple[str, int]]:
        """What it heard since the last look."""
        taken, self.heard = self.heard, []
        return taken


class GroupRig(SubscriptionRig):
    """Subscriptions of a group; nobody is here yet."""

    streamed = True


class StreamRig(GroupRig):
    """One worker and some streams."""

    def __init__(self, *streams: int, permits: int = 0, **settings: object) -> None:
        super().__init__(**settings)
        self.ear = StreamEar()
        self.first = self.worker("a", permits)
        for stream in streams:
            self.open(stream)
        assert self.ear.take() == [("opened", stream) for stream in streams]

    def open(self, stream: int) -> None:
        """The lease of a stream came."""
        slots = hash_range(stream, STREAMS)
        self.subscription.open_stream(stream, slots.start, slots.end, self.ear)
        self.clock.settle()

    def close(self, stream: int) -> list[int]:
        """It goes; the stream stands in the result once it is closed at the broker."""
        closed: list[int] = []
        self.subscription.close_stream(stream, lambda: closed.append(stream))
        self.clock.settle()
        return closed

    def consumer_id(self, stream: int) -> int:
        """Of the stream's consumer, on its connection."""
        consumer = self.subscription.consumers.get(stream)
        assert consumer is not None
        return consumer.upstream.consumer_id

    def deliver(self, stream: int, *entries: tuple[int, bytes], link: FakeBrokerLink | None = None) -> None:
        """Entries by the stream's consumer."""
        (link or self.link).deliver(*entries, to=self.consumer_id(stream))

    def granted(self, stream: int) -> int:
        """Permits of the stream's consumer, in all."""
        flows = [command.flow for command in self.link.sent(T.FLOW)]
        return sum(flow.messagePermits for flow in flows if flow.consumer_id == self.consumer_id(stream))


def key_in(stream: int, nth: int = 0) -> str:
    """The `nth` made-up key of a stream."""
    slots = hash_range(stream, STREAMS)
    keys = (f"key-{number}" for number in itertools.count())
    found = (key for key in keys if slots.start <= range_slot(murmur31(key.encode())) <= slots.end)
    return next(itertools.islice(found, nth, None))


def subscribes(link: FakeBrokerLink) -> list[pb.CommandSubscribe]:
    """SUBSCRIBEs of our consumers, probes aside."""
    found = [command.subscribe for command in link.sent(T.SUBSCRIBE)]
    return [command for command in found if command.subType == pb.CommandSubscribe.Key_Shared]


def payloads(worker: Worker) -> list[bytes]:
    """What its application saw since the last look."""
    return [payload for item in worker.messages() for payload in item.payloads]
