"""Seek: the cursor moves for everybody, or for nobody."""

from __future__ import annotations

from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, schema
from tests.net.subscription_rig_broker import T, batch, single
from tests.net.test_awaited_transactions import reads


def test_a_seek_disconnects_every_worker_and_then_says_success() -> None:
    """As the broker does: each consumer is closed, the asker's request is answered, clients come back by themselves."""
    rig = SubscriptionRig()
    first, second = rig.worker("a"), rig.worker("b")
    rig.link.held.add(T.SEEK)
    first.seek(12, 41)
    assert rig.link.sent(T.SEEK)[0].seek.message_id.entryId == 12
    rig.link.close_consumer()
    assert first.commands() == second.commands() == []
    rig.link.answer(T.SEEK)
    closed, success = first.commands()
    assert (closed.type, closed.close_consumer.consumer_id) == (T.CLOSE_CONSUMER, first.consumer_id)
    assert (success.type, success.success.request_id) == (T.SUCCESS, 41)
    assert second.answers() == [T.CLOSE_CONSUMER]
    assert rig.count == 0
    assert rig.link.sent(T.CLOSE_CONSUMER) == []


def test_after_a_seek_everything_is_delivered_anew() -> None:
    """Messages that were acknowledged, confirmed or not, and those pending: the broker sends them, we pass them on."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver(*[(entry, single("k")) for entry in range(4)])
    worker.ack(0, 1)
    worker.seek(0)
    again = rig.worker("a", permits=9)
    rig.link.deliver(*[(entry, single("k")) for entry in range(4)])
    assert again.entries() == [0, 1, 2, 3]


def test_a_seek_to_the_id_of_a_slice_goes_to_its_entry() -> None:
    """The broker knows the entry only."""
    rig = SubscriptionRig()
    first, second = rig.worker("a"), rig.worker("b")
    mixed = batch([(rig.key_for("a"), b"1"), (rig.key_for("b"), b"2")])
    first.flow(5)
    second.flow(5)
    rig.link.deliver((6, mixed))
    (slice_,) = first.messages()
    assert slice_.entry != 6
    first.seek(slice_.entry)
    assert rig.link.sent(T.SEEK)[0].seek.message_id.entryId == 6


def test_the_answer_to_a_seek_is_read_though_the_memory_is_full() -> None:
    """It is what would make room, where the workers hang; one that is refused changes nothing."""
    rig = SubscriptionRig(gateway_memory_bytes=20_000, subscription_memory_bytes=20_000)
    worker = rig.worker("a", permits=1)
    rig.link.deliver((0, single("k", b"x" * 30_000)))
    assert not reads(rig)
    rig.link.held.add(T.SEEK)
    worker.seek(0)
    assert reads(rig)
    rig.link.refuse(T.SEEK, pb.MetadataError, "no")
    assert not reads(rig)
    worker.seek(0)
    rig.link.answer(T.SEEK)
    assert reads(rig)
    assert worker.commands()[-1].type == T.SUCCESS


def test_a_seek_that_is_refused_is_the_askers_error_and_nobody_else_notices() -> None:
    """The consumer was not closed, so it stands: pending messages are not thrown about."""
    rig = SubscriptionRig()
    first, second = rig.worker("a", permits=5), rig.worker("b", permits=5)
    rig.link.refusals[T.SEEK] = (pb.MetadataError, "no such position")
    first.seek(5)
    assert first.error() == (pb.MetadataError, "no such position")
    assert second.commands() == []
    rig.clock.advance(60)
    assert len(rig.link.sent(T.SUBSCRIBE)) == 1


def test_a_seek_that_failed_after_it_closed_our_consumer_opens_it_again() -> None:
    """The broker disconnects before it moves the cursor; when that fails the workers go on where they were."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.held.add(T.SEEK)
    worker.seek(5)
    rig.link.close_consumer()
    rig.link.refuse(T.SEEK, pb.PersistenceError, "cursor could not be moved")
    assert worker.error()[0] == pb.PersistenceError
    rig.clock.advance(0)
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]


def test_a_seek_that_timed_out_closes_our_consumer_and_begins_anew() -> None:
    """It may be done yet: what the broker sends from now on is news, also what was confirmed before."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.deliver((0, single("k")))
    worker.ack(0)
    rig.link.held.add(T.SEEK)
    worker.seek(0)
    ear = rig.subscriptions.events.listen(lambda: None)
    rig.link.time_out(T.SEEK)
    assert worker.error()[0] == pb.ServiceNotReady
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    assert [event.kind for event in ear.take()[1]] == ["upstream_lost"]
    rig.clock.advance(0)
    worker.messages()
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]


def test_a_connection_that_is_lost_during_a_seek_is_the_askers_error_and_the_workers_stay() -> None:
    """One ERROR, one reconnect, which asks whether it is alone, and the next message arrives."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.held.add(T.SEEK)
    worker.seek(5)
    lost, _ = rig.link, rig.brokers.new_link()
    lost.lose()
    assert worker.error()[0] == pb.ServiceNotReady
    rig.clock.advance(0)
    assert rig.link.modes() == [pb.STICKY, pb.AUTO_SPLIT]
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]


def test_one_seek_at_a_time() -> None:
    """The second is told to try again; the first is answered as it should be."""
    rig = SubscriptionRig()
    first, second = rig.worker("a"), rig.worker("b")
    rig.link.held.add(T.SEEK)
    first.seek(5)
    second.seek(6)
    code, text = second.error()
    assert code == pb.ServiceNotReady
    assert "(seek)" in text
    rig.link.answer(T.SEEK)
    assert first.answers() == [T.CLOSE_CONSUMER, T.SUCCESS]


def test_the_last_worker_may_leave_during_a_seek() -> None:
    """The subscription waits for the answer, then nothing of it is left: not here, not at the broker."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.held.add(T.SEEK)
    worker.seek(5)
    worker.close(7)
    assert worker.answers() == [T.SUCCESS]
    rig.link.refuse(T.SEEK, pb.MetadataError, "no such position")
    assert worker.error()[0] == pb.MetadataError
    assert rig.count == 0
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1


def test_a_worker_that_waits_to_join_when_the_cursor_moves_is_told_to_try_again() -> None:
    """It has no consumer yet that could be closed."""
    rig = SubscriptionRig()
    worker = rig.worker("a", schema=schema("one"))
    rig.link.held |= {T.SEEK, T.SUBSCRIBE}
    waiting = rig.subscribe("b", schema=schema("two"))
    worker.seek(5)
    rig.link.answer(T.SEEK)
    assert waiting.error()[0] == pb.ServiceNotReady
    assert waiting.forgotten
