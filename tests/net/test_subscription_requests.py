"""Requests that the broker answers for a worker: unsubscribe, seek, last message id; and those we answer ourselves."""

from __future__ import annotations

import pytest

from proxy.errors import ClientError
from proxy.net.subscription import requests
from proxy.net.subscription.refusals import code_of
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, schema
from tests.net.subscription_rig_broker import LEDGER, T, single

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


def test_a_worker_may_not_unsubscribe_while_an_excluded_one_is_connected() -> None:
    """It gets no keys, and has a consumer all the same."""
    rig = SubscriptionRig()
    first = rig.worker("a")
    rig.worker("b")
    rig.subscription.orders.exclude("b", excluded=True)
    rig.worker("b")
    first.unsubscribe()
    code, text = first.error()
    assert code == pb.MetadataError
    assert text.startswith("Unconnected or shared consumer attempting to unsubscribe")
    assert rig.link.sent(T.UNSUBSCRIBE) == []


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


def test_one_on_its_way_in_does_not_bring_back_what_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client may; a refusal that the gateway takes for passing would have it try again by itself."""
    rig = SubscriptionRig()
    first = rig.worker("a")
    rig.link.held.add(T.SUBSCRIBE)
    joining = rig.subscribe("b", schema=schema("b"))
    refusals: list[Exception] = []
    monkeypatch.setattr(joining, "refuse", refusals.append)
    first.unsubscribe(force=True)
    assert first.answers() == [T.SUCCESS]
    (error,) = refusals
    assert (type(error), code_of(error)) == (ClientError, pb.ServiceNotReady)


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


def test_only_so_many_wait_for_the_last_message_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks without an end would fill a connection that all subscriptions share; answers make room."""
    monkeypatch.setattr(requests, "LAST_IDS_ASKED_MAX", 2)
    rig = SubscriptionRig()
    first, second = rig.worker("a"), rig.worker("b")
    rig.link.held.add(T.GET_LAST_MESSAGE_ID)
    rig.link.taken(T.GET_LAST_MESSAGE_ID)
    first.ask_last_message_id(51)
    second.ask_last_message_id(52)
    first.ask_last_message_id(53)
    code, text = first.error()
    assert code == pb.TooManyRequests
    assert "2 requests of this subscription for the last message id wait for an answer" in text
    assert len(rig.link.taken(T.GET_LAST_MESSAGE_ID)) == 2
    rig.link.refuse(T.GET_LAST_MESSAGE_ID, pb.MetadataError, "ledger is gone")
    assert first.error() == (pb.MetadataError, "ledger is gone")
    first.ask_last_message_id(54)
    assert len(rig.link.taken(T.GET_LAST_MESSAGE_ID)) == 1


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
