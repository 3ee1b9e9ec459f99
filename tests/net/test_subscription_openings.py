"""Batches that cost much to open: beside the loop or in later turns, in order, and forgotten with their consumer."""

from __future__ import annotations

import pytest

from proxy.core.dispatcher import Dispatcher
from proxy.net.subscription.openings import OpeningLimits
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress
from proxy.wire.messages import parse_message
from proxy.wire.metadata import build_tail, peek
from tests.interpreted import interpreted_only
from tests.net.fakes import FakeBackground
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, T, batch, frame_of_entry, single

LARGE = b"\0" * (300 << 10)
"""More than is decompressed on the loop."""


def packed(tail: bytes, codec: pb.CompressionType = pb.ZSTD, **fields: int) -> bytes:
    """The same entry, compressed; `fields` are what its metadata claims besides."""
    metadata, _, start = peek(tail)
    changed = pb.MessageMetadata()
    changed.CopyFrom(metadata)
    changed.compression = codec
    for name, value in fields.items():
        setattr(changed, name, value)
    return build_tail(changed, compress(codec, tail[start:]))


def bomb(*keys: str, codec: pb.CompressionType = pb.ZSTD) -> bytes:
    """A small entry that opens to `LARGE` and more, its messages numbered from 0."""
    messages: list[tuple[str | None, bytes]] = [(key, b"%d" % number) for number, key in enumerate(keys)]
    return packed(batch([*messages, (keys[0], LARGE)]), codec)


def held() -> tuple[SubscriptionRig, FakeBackground, Worker]:
    """A rig whose background work the test carries out, and a worker with permits."""
    rig = SubscriptionRig()
    rig.background.held = True
    return rig, rig.background, rig.worker("a", permits=100)


def test_what_opens_to_much_is_decompressed_beside_the_loop_and_what_comes_later_waits_behind_it() -> None:
    """Whose its messages are is not known before, so nothing may overtake it (G2)."""
    rig, background, worker = held()
    rig.link.deliver((0, single("k")), (1, bomb("k", "other")), (2, single("k")), (3, batch([("x", b"")] * 2)))
    assert worker.entries() == [0]
    assert len(background.errands) == 1
    rig.link.deliver((4, single("y")))
    assert worker.entries() == []
    background.carry_out()
    payloads = [payload for message in worker.messages() for payload in message.payloads]
    assert payloads == [b"0", b"1", LARGE, b"x", b"", b"", b"x"]
    assert background.errands == []


@pytest.mark.parametrize("mixed", [False, True])
def test_what_opens_to_more_than_a_client_takes_is_never_cut(mixed: bool) -> None:  # noqa: FBT001 - parametrized
    """A slice leaves uncompressed: the client would end its connection, and the next worker's client its own."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=1)
    tail = packed(batch([("k", b"\0" * (6 << 20)), ("other" if mixed else "k", b"")]))
    rig.link.deliver((0, tail), (1, single("k")))
    (message,) = worker.messages()
    assert message.tail == tail
    assert rig.statistics().subscriptions[0].opaque_batches == mixed
    worker.flow(1)
    assert worker.entries() == []
    worker.flow(1)
    assert worker.entries() == [1]


def test_other_subscriptions_go_on_while_a_batch_is_opened() -> None:
    """They share the loop and nothing else."""
    rig, background, worker = held()
    other = rig.worker("b", permits=9, subscription="other")
    first, second = list(rig.link.consumers)
    rig.link.deliver((0, bomb("k", "x")), to=first)
    rig.link.deliver((0, single("k")), (1, batch([("k", b""), ("x", b"")])), to=second)
    assert [len(message.messages) for message in other.messages()] == [1, 2]
    background.carry_out()
    assert sum(len(message.messages) for message in worker.messages()) == 3


def test_payloads_of_several_subscriptions_may_be_ready_in_any_order() -> None:
    """Each waits for its own; at most two are here at a time, and the third begins when one has been looked at."""
    rig, background, worker = held()
    others = [rig.worker(name, permits=9, subscription=name) for name in ("b", "c")]
    for consumer_id in list(rig.link.consumers):
        rig.link.deliver((0, bomb("k", "x")), (1, single("k")), to=consumer_id)
    assert len(background.errands) == 2
    background.carry_out(1)
    assert (len(worker.messages()), len(others[0].messages()), len(others[1].messages())) == (0, 2, 0)
    assert len(background.errands) == 2
    background.carry_out(1)
    background.carry_out(0)
    assert (len(worker.messages()), len(others[0].messages()), len(others[1].messages())) == (2, 0, 2)


def test_what_waits_counts_for_the_window_and_for_memory() -> None:
    """Else a producer of such batches could make the gateway read without end (G7)."""
    rig, background, worker = held()
    rig.link.permits()
    before = rig.subscriptions.summary().held_bytes
    tail = single("k", b"x" * 1_000)
    rig.link.deliver((0, bomb("k", "x")), *((number, tail) for number in range(1, 80)))
    waiting = rig.subscriptions.summary().held_bytes - before
    assert waiting > 79 * 1_000 + len(LARGE)
    assert rig.subscription.consumers.queued_messages == 82
    background.carry_out()
    assert rig.subscription.consumers.queued_messages == rig.subscription.consumers.queued_bytes == 0
    worker.ack(*worker.messages())
    assert rig.subscriptions.summary().held_bytes == 0


def test_no_more_is_asked_for_than_may_wait() -> None:
    """Messages behind a batch that is being opened are read ahead like any others."""
    rig = SubscriptionRig(look_ahead_messages_per_worker=50)
    rig.background.held = True
    rig.worker("a", permits=10)
    assert rig.link.permits() == 50
    rig.link.deliver((0, bomb("k", "x")), *((number, single("k")) for number in range(1, 48)))
    assert rig.link.permits() == 10
    rig.background.carry_out()
    assert rig.link.permits() == 0


@pytest.mark.parametrize("how", ["connection", "broker", "failed"])
def test_what_waits_is_forgotten_with_its_consumer_and_comes_again(how: str) -> None:
    """Nothing is delivered twice, and a payload that is ready too late is nobody's."""
    rig, background, worker = held()
    rig.link.deliver((0, single("k")), (1, bomb("k", "x")), (2, single("k")))
    (late,) = background.errands
    if how == "connection":
        old, _ = rig.link, rig.brokers.new_link()
        old.lose()
    elif how == "broker":
        rig.link.close_consumer()
    else:
        rig.subscription.consumers.first_ready().receiving.queue._fail()  # type: ignore[union-attr]
        rig.clock.settle()
    rig.clock.advance(1)
    assert rig.subscription.consumers.queued_messages == 0
    late.carry_out()
    assert worker.entries() == [0]
    background.errands.clear()
    rig.link.deliver((0, single("k")), (1, bomb("k", "x")), (2, single("k")))
    background.carry_out()
    assert [len(message.messages) for message in worker.messages()] == [3, 1]


def test_a_seek_forgets_what_waits_to_be_opened() -> None:
    """It was before the new position, or it comes again."""
    rig, background, worker = held()
    rig.link.deliver((5, bomb("k", "x")), (6, single("k")))
    (late,) = background.errands
    worker.seek(0)
    late.carry_out()
    assert worker.messages() == []
    assert rig.subscriptions.summary().held_bytes == 0


def test_the_last_worker_leaves_what_waits_to_the_broker() -> None:
    """Nothing of it was acknowledged, so the broker has it still."""
    rig, background, worker = held()
    rig.link.deliver((0, bomb("k", "x")), (1, single("k")))
    worker.close()
    background.carry_out()
    assert worker.messages() == []
    assert rig.subscriptions.summary().held_bytes == 0
    assert rig.link.acked() == []


def test_one_turn_opens_so_much_and_the_rest_follows_in_later_turns() -> None:
    """A read may hold thousands of small batches; in between, others are served."""
    rig = SubscriptionRig()
    rig.openings.limits = OpeningLimits(share_cost=20, turn_cost=1_000)
    worker = rig.worker("a", permits=1_000)
    link = rig.link
    (consumer_id,) = link.consumers
    consumer = link.consumers[consumer_id]
    for number in range(50):
        consumer.message(parse_message(frame_of_entry(consumer_id, number, batch([("k", b""), ("x", b"")] * 5))))
    consumer.messages_end()
    assert len(worker.messages()) == 2
    turns = 0
    while rig.subscription.consumers.queued_messages:
        assert rig.clock.turn()
        turns += 1
    assert turns == pytest.approx(24, abs=1)
    assert sum(len(message.messages) for message in worker.messages()) == 480


@pytest.mark.parametrize("kind", ["mixed", "one key", "no key", "damaged"])
def test_a_batch_of_many_messages_is_looked_at_in_pieces_with_the_same_result(kind: str) -> None:
    """What is known of it does not depend on how many turns that took."""
    keys: list[str | None] = ["a", "b", "c"]
    if kind in {"one key", "no key"}:
        keys = ["a" if kind == "one key" else None] * 3
    tail = batch([(keys[number % 3], b"%d" % number) for number in range(100)])
    if kind == "damaged":
        tail += b"!"
    seen: list[tuple[object, int]] = []
    for step in (7, 2_048):
        rig = SubscriptionRig()
        rig.openings.limits = OpeningLimits(step_messages=step)
        first, second = rig.worker("a", permits=1_000), rig.worker("b", permits=1_000)
        rig.link.deliver((0, tail), (1, single("a")))
        got = [[(message.entry, message.messages) for message in worker.messages()] for worker in (first, second)]
        seen.append((got, rig.statistics().subscriptions[0].opaque_batches))
    assert seen[0] == seen[1]
    assert seen[0][1] == (kind == "damaged")


@interpreted_only
def test_a_fault_while_an_entry_is_taken_costs_its_consumer_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it costs the connection if it shows at once: the broker sends everything again."""
    rig, background, worker = held()
    rig.link.deliver((0, bomb("k", "x")))
    with monkeypatch.context() as broken:
        broken.setattr(Dispatcher, "receive_batch", None)
        background.carry_out()
        rig.clock.advance(1)
    assert len(rig.link.sent(T.SUBSCRIBE)) == 2
    rig.link.deliver((0, bomb("k", "x")))
    background.carry_out()
    (message,) = worker.messages()
    worker.ack(message)
    assert rig.link.acked() == [(LEDGER, 0)]
