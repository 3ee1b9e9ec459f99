"""What is noted of sampled entries, in a gateway whose clients, broker and clock are the test's."""

from __future__ import annotations

import pytest

from proxy.net.subscription.subscription import Subscription
from proxy.tracing.contexts import CONTEXTS_MAX, Context, contexts_of
from proxy.tracing.passage import STEPS_MAX, Passage
from proxy.tracing.tracer import LOOK_S, LOOKS_ABSENT, PASSAGES_MAX, Tracing
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress
from proxy.wire.metadata import build_encoded_tail, build_tail
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, TOPIC, batch, single

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203332-01"


def properties(**values: str) -> list[pb.KeyValue]:
    """As a producer's instrumentation writes them."""
    return [pb.KeyValue(key=key, value=value) for key, value in values.items()]


class Traced(SubscriptionRig):
    """Subscriptions whose entries are followed."""

    def __init__(self, ratio: float = 1.0, **settings: object) -> None:
        super().__init__(**settings)
        self.passages: list[Passage] = []
        self.tracing = Tracing(ratio, self.clock, self.passages.append)
        self.subscriptions.events.tracers = self.tracing


def test_a_message_is_followed_from_its_arrival_to_its_acknowledgement() -> None:
    """Each moment is that of the clock; the passage is handed on when it is over."""
    rig = Traced()
    worker = rig.worker("a", permits=1)
    arrived = rig.clock.now()
    rig.link.deliver((7, single("k", properties=properties(traceparent=PARENT, tracestate="shop=1"))))
    rig.clock.advance(3)
    assert rig.passages == []
    worker.ack(7)
    (passage,) = rig.passages
    assert (passage.topic, passage.subscription, passage.ledger, passage.entry) == (TOPIC, "s", LEDGER, 7)
    assert passage.contexts == (Context(PARENT, "shop=1"),)
    assert (passage.received_at, passage.ended_at, passage.ended) == (arrived, arrived + 3, "acked")
    (wait,) = passage.waits
    assert (wait.worker, wait.attempt, wait.messages, wait.since, wait.until) == ("a", 1, 1, arrived, arrived)
    (hold,) = passage.holds
    assert (hold.worker, hold.since, hold.until, hold.ended) == ("a", arrived, arrived + 3, "acked")
    assert passage.reasons == []
    assert rig.tracing.passages == 0


def test_what_a_message_waited_for_is_noted_when_it_changes() -> None:
    """First its key drained, then its new owner had no permits."""
    rig = Traced()
    first = rig.worker("a", permits=10)
    keys = [f"key-{number}" for number in range(40)]
    rig.link.deliver(*[(entry, single(key)) for entry, key in enumerate(keys[:10])])
    second = rig.worker("b")
    moved = next(n for n in range(10) if keys[n] == rig.key_for("b"))
    arrived = rig.clock.now()
    rig.link.deliver((50, single(keys[moved])))
    rig.clock.advance(2)
    first.ack(moved)
    rig.clock.advance(2)
    second.flow(1)
    second.ack(50)
    passage = rig.passages[-1]
    assert passage.entry == 50
    assert [reason for _, reason in passage.reasons] == ["draining", "no_permits"]
    assert passage.reasons[0][0] == arrived
    assert arrived + 2 <= passage.reasons[1][0] <= arrived + 2 + LOOK_S
    assert (passage.waits[0].since, passage.waits[0].until) == (arrived, arrived + 4)


def test_a_message_that_comes_back_is_followed_on() -> None:
    """Two deliveries and two waits in one passage, however often it comes back, up to a bound."""
    rig = Traced()
    worker = rig.worker("a", permits=1_000)
    rig.link.deliver((1, single("k")))
    rig.clock.advance(1)
    worker.redeliver(1)
    rig.clock.advance(1)
    worker.ack(1)
    (passage,) = rig.passages
    assert [(hold.attempt, hold.ended) for hold in passage.holds] == [(1, "returned"), (2, "acked")]
    assert [wait.attempt for wait in passage.waits] == [1, 2]
    rig.link.deliver((2, single("k")))
    for _ in range(STEPS_MAX + 5):
        worker.redeliver(2)
    worker.ack(2)
    assert len(rig.passages[-1].holds) == len(rig.passages[-1].waits) == STEPS_MAX
    assert rig.passages[-1].ended == "acked"


def test_a_batch_for_two_workers_is_one_passage() -> None:
    """It ends with its last acknowledgement."""
    rig = Traced()
    first, second = rig.worker("a", permits=10), rig.worker("b", permits=10)
    rig.link.deliver((1, batch([(rig.key_for("a"), b"0"), (rig.key_for("b"), b"1")])))
    ids = [(item.ledger, item.entry) for worker in (first, second) for item in worker.messages()]
    assert len(ids) == 2
    for worker, (_, entry) in zip((first, second), ids, strict=True):
        assert rig.passages == []
        worker.ack(entry)
    (passage,) = rig.passages
    assert sorted(hold.worker for hold in passage.holds) == ["a", "b"]
    assert sum(wait.messages for wait in passage.waits) == 2


def test_the_sample_is_chosen_by_entry_id() -> None:
    """A share of all, the same in every gateway and at every attempt."""

    def chosen(ratio: float) -> set[int]:
        rig = Traced(ratio)
        worker = rig.worker("a", permits=1_000)
        rig.link.deliver(*[(entry, single("k")) for entry in range(1_000)])
        worker.ack(*range(1_000))
        return {passage.entry for passage in rig.passages}

    assert chosen(0) == set()
    tenth = chosen(0.1)
    assert 95 <= len(tenth) <= 105
    assert chosen(0.1) == tenth
    assert chosen(0.01) < tenth
    assert len(chosen(1)) == 1_000


def test_so_many_entries_are_followed_at_once() -> None:
    """Others of the sample are counted; places become free again."""
    rig = Traced()
    worker = rig.worker("a", permits=PASSAGES_MAX + 10)
    rig.link.deliver(*[(entry, single("k")) for entry in range(PASSAGES_MAX + 10)])
    assert rig.tracing.passages == PASSAGES_MAX
    assert rig.tracing.too_many_total == 10
    worker.ack(*range(PASSAGES_MAX + 10))
    assert rig.tracing.passages == 0
    assert len(rig.passages) == PASSAGES_MAX


def test_what_is_not_seen_to_end_is_let_go() -> None:
    """An entry that went back with a lost connection, and all that is here when the subscription ends."""
    rig = Traced()
    worker = rig.worker("a", permits=1)
    rig.link.deliver((1, single("k")), (2, single("k")))
    rig.subscription.state.dispatcher.outstanding.entries.pop((LEDGER << 40) + 2)
    rig.clock.advance(LOOK_S * (LOOKS_ABSENT + 1))
    assert [(passage.entry, passage.ended) for passage in rig.passages] == [(2, "left")]
    worker.lose()
    assert [(passage.entry, passage.ended) for passage in rig.passages][1:] == [(1, "left")]
    assert rig.tracing.passages == 0


def test_untraced_subscriptions_have_nothing_of_it_on_their_path() -> None:
    """Off, the entry's way is the function that it was."""
    rig = SubscriptionRig()
    rig.worker("a")
    state: Subscription = rig.subscription
    assert state.state.recorder is None
    assert state.state.dispatcher.endings is None
    (consumer,) = state.consumers
    assert consumer.message.__func__ is type(consumer.receiving).message  # type: ignore[attr-defined]


# ---- producers' contexts ---------------------------------------------------------------------------------------------


def batch_with(parents: list[str], compression: int = 0) -> bytes:
    """A batch whose messages have these contexts."""
    pieces = []
    for parent in parents:
        single_metadata = pb.SingleMessageMetadata(payload_size=1, properties=properties(traceparent=parent))
        encoded = single_metadata.SerializeToString()
        pieces += [len(encoded).to_bytes(4, "big"), encoded, b"x"]
    payload = b"".join(pieces)
    metadata = pb.MessageMetadata(producer_name=b"shop", sequence_id=7, publish_time=1)
    metadata.num_messages_in_batch = len(parents)
    metadata.uncompressed_size = len(payload)
    if compression:
        metadata.compression = compression  # type: ignore[assignment]
        payload = compress(compression, payload)
    return build_tail(metadata, payload)


@pytest.mark.parametrize("compression", [0, 1, 2, 3])
def test_contexts_of_a_batch_are_those_of_its_messages(compression: int) -> None:
    """Each once, also of a compressed one; of a large batch those of the first messages."""
    assert contexts_of(batch_with([PARENT, OTHER, PARENT], compression)) == (Context(PARENT, ""), Context(OTHER, ""))
    many = [f"00-{number:032x}-b7ad6b7169203331-01" for number in range(1, 100)]
    assert len(contexts_of(batch_with(many, compression))) == CONTEXTS_MAX


@pytest.mark.parametrize(("name", "left"), [("traceparent", ()), ("tracestate", (Context(PARENT, ""),))])
def test_a_property_that_is_no_text_is_no_context(name: str, left: tuple[Context, ...]) -> None:
    """Protobuf gives it as bytes: the exporter failed on it, and lost all that was to go with it."""
    written = {"traceparent": PARENT, "tracestate": "shop=1"}
    metadata = pb.MessageMetadata(producer_name=b"p", sequence_id=1, publish_time=1, properties=properties(**written))
    text = written[name].encode()
    garbled = metadata.SerializeToString().replace(text, b"\xff" * len(text))
    assert contexts_of(build_encoded_tail(garbled, b"x")) == left


def test_what_is_no_context_or_cannot_be_read_is_none() -> None:
    """Whatever a producer writes, the gateway goes on."""
    for parent in ("", "x", PARENT + "-more", "0" * 100_000):
        assert contexts_of(single("k", properties=properties(traceparent=parent))) == ()
    assert (
        contexts_of(single("k", properties=properties(traceparent=PARENT, tracestate="x" * 1_000)))[0].tracestate == ""
    )
    assert contexts_of(b"") == contexts_of(b"\x0e\x01 damaged") == ()
    whole = batch_with([PARENT, OTHER], 1)
    for end in range(len(whole)):
        contexts_of(whole[:end])
    encrypted = pb.MessageMetadata.FromString(b"")
    encrypted.CopyFrom(pb.MessageMetadata(producer_name=b"p", sequence_id=1, publish_time=1, num_messages_in_batch=2))
    encrypted.encryption_keys.add(key="k", value=b"v")
    assert contexts_of(build_tail(encrypted, b"secret")) == ()
