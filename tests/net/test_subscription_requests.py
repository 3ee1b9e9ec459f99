"""Requests that the broker answers for a worker: unsubscribe, seek, last message id; and those we answer ourselves."""

from __future__ import annotations

from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, schema
from tests.net.subscription_rig_broker import LEDGER, T, batch, single

# ---- unsubscribe -----------------------------------------------------------------------------------------------------


def test_the_last_worker_deletes_the_subscription() -> None:
    """Our consumer asks in its own name; the worker gets its Success and neither side closes anything."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    consumer_id = rig.link.sent(T.SUBSCRIBE)[0].subscribe.consumer_id
    worker.unsubscribe(31)
    (asked,) = rig.link.sent(T.UNSUBSCRIBE)
    assert asked.unsubscribe.consumer_id == consumer_id
    (answer,) = worker.commands()
    assert (answer.type, answer.success.request_id) == (T.SUCCESS, 31)
    assert worker.forgotten
    assert rig.count == 0
    assert rig.link.sent(T.CLOSE_CONSUMER) == []
    assert rig.link.consumers == {}


def test_acks_leave_before_the_unsubscribe() -> None:
    """Nothing that was acknowledged is overtaken by the end."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.deliver((0, single("k")))
    worker.port.ack(pb.CommandAck(consumer_id=1, message_id=[pb.MessageIdData(ledgerId=LEDGER, entryId=0)]))
    worker.unsubscribe()
    kinds = [command.type for command in rig.link.log]
    assert kinds.index(T.ACK) < kinds.index(T.UNSUBSCRIBE)


def test_a_worker_may_not_unsubscribe_while_others_are_connected() -> None:
    """The broker's code and its own words, without asking it; both workers stay."""
    rig = SubscriptionRig()
    first = rig.worker("a")
    rig.worker("b")
    first.unsubscribe()
    code, text = first.error()
    assert code == pb.MetadataError
    assert text.startswith("Unconnected or shared consumer attempting to unsubscribe")
    assert rig.link.sent(T.UNSUBSCRIBE) == []
    assert rig.statistics().subscriptions[0].dispatcher.workers[0].name == "a"


def test_a_forced_unsubscribe_closes_the_others() -> None:
    """As at the broker: they are disconnected, and come back to a new subscription if they want."""
    rig = SubscriptionRig()
    first, second = rig.worker("a"), rig.worker("b")
    first.unsubscribe(force=True)
    assert rig.link.sent(T.UNSUBSCRIBE)[0].unsubscribe.force
    assert first.answers() == [T.SUCCESS]
    assert second.answers() == [T.CLOSE_CONSUMER]
    assert rig.count == 0


def test_a_worker_that_joined_while_the_subscription_was_deleted_is_closed() -> None:
    """It was told Success for a subscription that is no more; left alone it would wait for messages for ever."""
    rig = SubscriptionRig()
    first = rig.worker("a")
    rig.link.held.add(T.UNSUBSCRIBE)
    first.unsubscribe()
    second = rig.worker("b")
    rig.link.answer(T.UNSUBSCRIBE)
    assert first.answers() == [T.SUCCESS]
    assert second.answers() == [T.CLOSE_CONSUMER]
    assert second.forgotten
    assert rig.count == 0


def test_an_unsubscribe_that_the_broker_refuses_changes_nothing() -> None:
    """When direct consumers share the subscription: its words go to the worker, our consumer stays."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.refusals[T.UNSUBSCRIBE] = (pb.MetadataError, "Unconnected or shared consumer")
    worker.unsubscribe()
    assert worker.error() == (pb.MetadataError, "Unconnected or shared consumer")
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]
    assert rig.brokers.locates == 1


def test_after_an_unsubscribe_that_failed_our_consumer_is_made_anew() -> None:
    """The broker removes the consumer before it tries to delete, and says nothing of it when that fails."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.refusals[T.UNSUBSCRIBE] = (pb.PersistenceError, "metadata store is away")
    worker.unsubscribe()
    assert worker.error()[0] == pb.PersistenceError
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    rig.clock.advance(0)
    assert len(rig.link.sent(T.SUBSCRIBE)) == 2
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]


def test_a_consumer_that_is_closed_during_an_unsubscribe_is_not_opened_again_before_the_answer() -> None:
    """To subscribe at once would make the subscription anew that was just deleted."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.held.add(T.UNSUBSCRIBE)
    worker.unsubscribe()
    rig.link.close_consumer()
    rig.clock.advance(60)
    assert len(rig.link.sent(T.SUBSCRIBE)) == 1
    rig.link.answer(T.UNSUBSCRIBE)
    rig.clock.advance(60)
    assert len(rig.link.sent(T.SUBSCRIBE)) == 1
    assert worker.answers() == [T.SUCCESS]


def test_the_asker_may_be_lost_before_the_answer() -> None:
    """The subscription is deleted all the same, and nothing is written to a link that is gone."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.held.add(T.UNSUBSCRIBE)
    worker.unsubscribe()
    worker.lose()
    rig.link.answer(T.UNSUBSCRIBE)
    assert worker.commands() == []
    assert rig.count == 0
    assert rig.link.consumers == {}


# ---- seek ------------------------------------------------------------------------------------------------------------


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
    rig.link.time_out(T.SEEK)
    assert worker.error()[0] == pb.ServiceNotReady
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    rig.clock.advance(0)
    worker.messages()
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]


def test_a_connection_that_is_lost_during_a_seek_is_the_askers_error_and_the_workers_stay() -> None:
    """One ERROR, one reconnect, and the next message arrives."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.held.add(T.SEEK)
    worker.seek(5)
    lost, _ = rig.link, rig.brokers.new_link()
    lost.lose()
    assert worker.error()[0] == pb.ServiceNotReady
    rig.clock.advance(0)
    assert len(rig.link.sent(T.SUBSCRIBE)) == 1
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


# ---- last message id, consumer stats, end of topic -------------------------------------------------------------------


def test_the_last_message_id_is_the_brokers_under_the_askers_request_id() -> None:
    """Asked with our consumer, answered to the client's request."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    worker.ask_last_message_id(51)
    (answer,) = worker.commands()
    assert answer.type == T.GET_LAST_MESSAGE_ID_RESPONSE
    assert answer.getLastMessageIdResponse.request_id == 51
    assert answer.getLastMessageIdResponse.last_message_id.entryId == 99
    consumer_id = rig.link.sent(T.SUBSCRIBE)[0].subscribe.consumer_id
    assert rig.link.sent(T.GET_LAST_MESSAGE_ID)[0].getLastMessageId.consumer_id == consumer_id


def test_an_error_for_the_last_message_id_is_passed_on() -> None:
    """The broker's code and words."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.refusals[T.GET_LAST_MESSAGE_ID] = (pb.MetadataError, "ledger is gone")
    worker.ask_last_message_id(51)
    assert worker.error() == (pb.MetadataError, "ledger is gone")


def test_requests_while_we_reconnect_are_told_to_try_again() -> None:
    """There is no consumer at the broker to ask with."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.brokers.held = True
    rig.link.lose()
    worker.ask_last_message_id()
    assert worker.error()[0] == pb.ServiceNotReady
    worker.seek(1)
    assert worker.error()[0] == pb.ServiceNotReady
    worker.unsubscribe()
    assert worker.error()[0] == pb.ServiceNotReady


def test_consumer_stats_are_the_workers_own() -> None:
    """Permits, unacknowledged messages and address as this gateway knows them, under the client's request id."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.deliver((0, single("k")), (1, single("k")))
    worker.ack(0)
    stats = worker.ask_stats(61)
    assert stats.request_id == 61
    assert (stats.consumerName, stats.type, stats.address) == ("a", "Key_Shared", worker.peer)
    assert (stats.availablePermits, stats.unackedMessages) == (3, 1)
    assert not stats.blockedConsumerOnUnackedMsgs


def test_the_end_of_a_terminated_topic_reaches_every_worker_and_those_that_join_later() -> None:
    """Each under its own consumer id; the broker tells it to our consumer once only."""
    rig = SubscriptionRig()
    first, second = rig.worker("a"), rig.worker("b")
    (consumer,) = rig.link.consumers.values()
    consumer.reached_end_of_topic()
    late = rig.subscribe("c")
    for worker, expected in ((first, []), (second, []), (late, [T.SUCCESS])):
        *before, end = worker.commands()
        assert [command.type for command in before] == expected
        assert (end.type, end.reachedEndOfTopic.consumer_id) == (T.REACHED_END_OF_TOPIC, worker.consumer_id)
