"""How a replica learns who owns what: from the last record on, and again after every loss."""

from __future__ import annotations

from proxy.groups.bundles import DEPLOYMENT
from proxy.groups.encoding import encode
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import SessionId, Version
from proxy.net.owner.tail import BEHIND_S_MAX, RETRY_S, OwnerTail
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import T, success
from tests.net.gateway_rig import PlayedBroker, close_consumer, delivery, last_message

TOPIC = "persistent://public/default/keyline-group-of-all"
NOWHERE = (1 << 64) - 1


class Rig:
    """The topic's reader and its broker."""

    def __init__(self) -> None:
        self.broker = PlayedBroker()
        self.learned: list[GroupMemory] = []
        self.tail = OwnerTail(TOPIC, "a-1", self.broker, self.broker.clock, self.learned.append)
        self.tail.open()

    def begin(self, last_entry: int) -> pb.CommandSubscribe:
        """Say what the last record is, and take the reader in that begins there."""
        asking = self.broker.next(T.SUBSCRIBE).subscribe
        self.broker.say(success(asking.request_id))
        asked = self.broker.next(T.GET_LAST_MESSAGE_ID)
        self.broker.say(last_message(asked.getLastMessageId.request_id, 7, last_entry))
        closed, subscribed = self.broker.sent()
        assert (closed.type, subscribed.type) == (T.CLOSE_CONSUMER, T.SUBSCRIBE)
        assert closed.close_consumer.consumer_id == asking.consumer_id
        assert asking.subscription != subscribed.subscribe.subscription, "a name of one that is closing"
        self.broker.say(success(closed.close_consumer.request_id))
        self.broker.say(success(subscribed.subscribe.request_id))
        assert self.broker.next(T.FLOW).flow.messagePermits > 0
        return subscribed.subscribe


def record(epoch: int) -> GroupMemory:
    """Of a leader."""
    return GroupMemory(epoch, "a-1", 1, 1_024, ((5, SessionId("a-1", 1)),), addresses=(("a-1", "pulsar://a:6670"),))


def test_it_begins_at_the_last_record() -> None:
    """Whatever is before it: a long topic is not read again."""
    rig = Rig()
    subscribe = rig.begin(last_entry=4)
    assert (subscribe.start_message_id.ledgerId, subscribe.start_message_id.entryId) == (7, 3)
    assert not subscribe.durable
    assert subscribe.subType == pb.CommandSubscribe.Exclusive
    rig.broker.say(delivery(subscribe.consumer_id, 4, encode(record(1), DEPLOYMENT)))
    rig.broker.say(delivery(subscribe.consumer_id, 5, encode(record(2), DEPLOYMENT)))
    assert rig.learned == [record(1), record(2)]


def test_a_topic_without_records_is_read_from_its_beginning() -> None:
    """The first record is not missed, whenever it comes."""
    rig = Rig()
    subscribe = rig.begin(last_entry=-1)
    assert (subscribe.start_message_id.ledgerId, subscribe.start_message_id.entryId) == (NOWHERE, NOWHERE)
    rig.broker.say(delivery(subscribe.consumer_id, 0, encode(record(1), DEPLOYMENT)))
    assert rig.learned == [record(1)]


def test_what_cannot_be_read_is_passed_over() -> None:
    """A newer release may write what this one does not know."""
    rig = Rig()
    subscribe = rig.begin(last_entry=4)
    rig.broker.say(delivery(subscribe.consumer_id, 4, b"{}"))
    rig.broker.say(delivery(subscribe.consumer_id, 5, encode(record(2), DEPLOYMENT)))
    assert rig.learned == [record(2)]


def test_a_reader_that_is_lost_begins_anew() -> None:
    """From the last record there is then: what was written meanwhile is in it."""
    rig = Rig()
    first = rig.begin(last_entry=4)
    rig.broker.say(close_consumer(first.consumer_id))
    rig.broker.clock.advance(RETRY_S)
    second = rig.begin(last_entry=9)
    assert second.start_message_id.entryId == 8
    rig.broker.say(delivery(second.consumer_id, 9, encode(record(3), DEPLOYMENT)))
    assert rig.learned == [record(3)]


def test_a_reader_that_is_closed_stays_closed() -> None:
    """Also one that was about to begin anew."""
    rig = Rig()
    first = rig.begin(last_entry=4)
    rig.broker.say(close_consumer(first.consumer_id))
    rig.tail.close()
    rig.broker.clock.advance(2 * RETRY_S)
    assert rig.broker.sent() == []


def test_a_reader_that_is_told_less_than_the_session_begins_anew() -> None:
    """A broker may tell of a record much later, or never; it was in the topic before the session knew."""
    rig = Rig()
    rig.begin(last_entry=-1)
    rig.tail.expect(Version(1, 1))
    rig.broker.clock.advance(BEHIND_S_MAX)
    closed, subscribed = rig.broker.sent()
    assert (closed.type, subscribed.type) == (T.CLOSE_CONSUMER, T.SUBSCRIBE)
    rig.broker.say(success(subscribed.subscribe.request_id))
    asked = rig.broker.next(T.GET_LAST_MESSAGE_ID)
    rig.broker.say(last_message(asked.getLastMessageId.request_id, 7, 0))
    _, again = rig.broker.sent()
    rig.broker.say(success(again.subscribe.request_id))
    rig.broker.say(delivery(again.subscribe.consumer_id, 0, encode(record(1), DEPLOYMENT)))
    assert rig.learned == [record(1)]
    rig.broker.sent()
    rig.broker.clock.advance(2 * BEHIND_S_MAX)
    assert rig.broker.sent() == []


def test_a_record_that_comes_in_time_leaves_the_reader_alone() -> None:
    """It was on its way; what was read already is not waited for."""
    rig = Rig()
    subscribe = rig.begin(last_entry=4)
    rig.tail.expect(Version(2, 1))
    rig.broker.say(delivery(subscribe.consumer_id, 4, encode(record(2), DEPLOYMENT)))
    rig.tail.expect(Version(1, 9))
    rig.broker.clock.advance(2 * BEHIND_S_MAX)
    assert rig.broker.sent() == []
