"""A group's topic: the election, its memory, and everything that makes the producer doubtful."""

from __future__ import annotations

import pytest

from proxy.groups.encoding import RECORD_KEY, encode
from proxy.groups.memory import GroupMemory
from proxy.net.group.topic import (
    FENCED_S,
    RETRY_S,
    STAND_BACK_S,
    STORE_S_MAX,
    TIDY_RECORDS,
    TIDY_S,
    TOUCH_S,
    PulsarGroupTopic,
)
from proxy.net.group.topic_reader import READ_S_MAX, SUBSCRIPTION
from proxy.net.group.topic_removal import REMOVE_S_MAX
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command, parse_command
from tests.net.broker_fakes import T, success
from tests.net.gateway_rig import PlayedBroker, close_consumer, close_producer, delivery, last_message, receipt

TOPIC = "persistent://public/default/orders-group-shared"


class Listener:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.memory: GroupMemory | None = None

    def granted(self) -> None:
        """As the port says."""
        self.journal.append("granted")

    def lost(self) -> None:
        """As the port says."""
        self.journal.append("lost")

    def stored(self) -> None:
        """As the port says."""
        self.journal.append("stored")

    def read(self, memory: GroupMemory) -> None:
        """As the port says."""
        self.journal.append("read")
        self.memory = memory


class Rig:
    """A topic and its broker."""

    def __init__(self) -> None:
        self.broker = PlayedBroker()
        self.listener = Listener()
        self.topic = PulsarGroupTopic(TOPIC, self.broker, self.broker.clock, self.listener)

    def held(self) -> int:
        """Contend, and be granted; the producer's id."""
        self.topic.contend()
        return self.broker.grant(self.broker.next(T.PRODUCER))

    def reading(self) -> int:
        """Begin to read, and have the consumer; its id."""
        self.topic.read()
        subscribe = self.broker.next(T.SUBSCRIBE).subscribe
        assert (subscribe.durable, subscribe.initialPosition) == (True, pb.CommandSubscribe.Earliest)
        self.broker.say(success(subscribe.request_id))
        return subscribe.consumer_id

    def live(self, seconds: float) -> None:
        """The broker answers pings meanwhile."""
        for _ in range(int(seconds // 10)):
            self.broker.clock.advance(10.0)
            self.broker.say(encode_command(pb.BaseCommand(type=T.PONG, pong=pb.CommandPong())))

    def tell_last(self, entry: int) -> None:
        """Answer what the last message is."""
        flow, asked = self.broker.sent()
        assert (flow.type, asked.type) == (T.FLOW, T.GET_LAST_MESSAGE_ID)
        self.broker.say(last_message(asked.getLastMessageId.request_id, 7, entry))


@pytest.fixture
def rig() -> Rig:
    """Nobody contends yet."""
    return Rig()


def test_it_waits_in_the_brokers_line(rig: Rig) -> None:
    """Once, however often it is asked to."""
    rig.topic.contend()
    rig.topic.contend()
    asked = rig.broker.next(T.PRODUCER)
    assert asked.producer.producer_access_mode == pb.WaitForExclusive
    rig.broker.grant(asked)
    assert rig.listener.journal == ["granted"]


def test_a_refusal_is_tried_again(rig: Rig) -> None:
    """Until it is closed."""
    rig.topic.contend()
    rig.broker.refuse(rig.broker.next(T.PRODUCER).producer.request_id)
    rig.topic.contend()
    assert rig.broker.sent() == []
    rig.broker.clock.advance(RETRY_S)
    rig.broker.refuse(rig.broker.next(T.PRODUCER).producer.request_id)
    rig.topic.close()
    rig.broker.clock.advance(RETRY_S)
    assert rig.broker.sent() == []
    assert rig.listener.journal == []


def test_records_are_stored_under_their_key(rig: Rig) -> None:
    """So that compaction keeps the last of each kind."""
    producer_id = rig.held()
    rig.topic.store(GroupMemory(1, "a"))
    rig.broker.clock.settle()
    frame = rig.broker.bench.transport.take()
    assert parse_command(frame).send.producer_id == producer_id
    assert RECORD_KEY.encode() in frame
    assert encode(GroupMemory(1, "a")) in frame
    rig.broker.say(receipt(producer_id, 0))
    assert rig.listener.journal == ["granted", "stored"]
    rig.broker.clock.advance(2 * STORE_S_MAX)
    assert rig.listener.journal == ["granted", "stored"]


def test_a_record_that_is_not_stored_in_time_is_a_loss(rig: Rig) -> None:
    """Whether it was stored nobody knows; a later receipt changes nothing."""
    producer_id = rig.held()
    rig.topic.store(GroupMemory(1, "a"))
    rig.broker.sent()
    rig.broker.clock.advance(STORE_S_MAX)
    assert rig.broker.next(T.CLOSE_PRODUCER).close_producer.producer_id == producer_id
    rig.broker.say(receipt(producer_id, 0))
    assert rig.listener.journal == ["granted", "lost"]


def test_a_lost_producer_is_told_once_and_not_made_again(rig: Rig) -> None:
    """Whoever wants it contends again."""
    producer_id = rig.held()
    rig.broker.say(close_producer(producer_id))
    rig.broker.clock.advance(10.0)
    assert rig.broker.sent() == []
    assert rig.listener.journal == ["granted", "lost"]
    rig.topic.contend()
    rig.broker.grant(rig.broker.next(T.PRODUCER))
    assert rig.listener.journal == ["granted", "lost", "granted"]


def test_one_that_comes_too_late_is_given_away(rig: Rig) -> None:
    """A waiter cannot be taken back; wanted again meanwhile, it stands where it stood."""
    rig.topic.contend()
    asked = rig.broker.next(T.PRODUCER)
    rig.topic.close()
    rig.topic.contend()
    assert rig.broker.sent() == []
    rig.topic.close()
    producer_id = rig.broker.grant(asked)
    assert rig.broker.next(T.CLOSE_PRODUCER).close_producer.producer_id == producer_id
    assert rig.listener.journal == []


def test_one_that_was_overtaken_lets_others_have_their_turn(rig: Rig) -> None:
    """It closes its producer, and waits in the broker's line again later, unless it is no longer wanted."""
    for wanted in (False, True):
        rig.held()
        rig.topic.close()
        rig.topic.contend_later()
        rig.topic.contend_later()
        rig.broker.sent()
        rig.broker.clock.advance(STAND_BACK_S - 0.1)
        assert rig.broker.sent() == []
        if not wanted:
            rig.topic.close()
        rig.broker.clock.advance(STAND_BACK_S)
        assert [command.type for command in rig.broker.sent()] == [T.PRODUCER] * wanted


def test_insisting(rig: Rig) -> None:
    """Asked with Exclusive, beside the one that waits: a no changes nothing, a yes is the producer."""
    rig.topic.contend()
    waiting = rig.broker.next(T.PRODUCER)
    rig.topic.insist()
    rig.topic.insist()
    asked = rig.broker.next(T.PRODUCER)
    assert asked.producer.producer_access_mode == pb.Exclusive
    rig.broker.refuse(asked.producer.request_id)
    assert rig.listener.journal == []
    rig.topic.insist()
    rig.broker.grant(rig.broker.next(T.PRODUCER))
    assert rig.listener.journal == ["granted"]
    late = rig.broker.grant(waiting)  # the broker had not forgotten after all
    assert rig.broker.next(T.CLOSE_PRODUCER).close_producer.producer_id == late
    assert rig.listener.journal == ["granted"]


def test_fencing(rig: Rig) -> None:
    """Asked with the mode that takes the producer away; who waited is refused by the broker, and waits no more."""
    rig.topic.contend()
    waiting = rig.broker.next(T.PRODUCER)
    rig.topic.fence()
    rig.topic.fence()
    asked = rig.broker.next(T.PRODUCER)
    assert asked.producer.producer_access_mode == pb.ExclusiveWithFencing
    assert rig.broker.sent() == []
    rig.broker.refuse(waiting.producer.request_id)
    rig.broker.grant(asked)
    assert rig.listener.journal == ["granted"]
    rig.broker.clock.advance(2 * RETRY_S)
    assert rig.broker.sent() == [], "it waits for what it has"


def test_a_leader_that_was_fenced_just_now_is_not_fenced_again(rig: Rig) -> None:
    """The broker refuses all who wait at that moment, which is how the others hear of it."""
    rig.topic.contend()
    rig.broker.refuse(rig.broker.next(T.PRODUCER).producer.request_id)
    rig.topic.fence()
    assert rig.broker.sent() == []
    rig.broker.clock.advance(FENCED_S)
    rig.broker.sent()
    rig.topic.fence()
    assert rig.broker.next(T.PRODUCER).producer.producer_access_mode == pb.ExclusiveWithFencing


def test_nothing_is_fenced_by_who_does_not_want_to_lead(rig: Rig) -> None:
    """Or who leads already."""
    rig.topic.fence()
    assert rig.broker.sent() == []
    rig.held()
    rig.broker.sent()
    rig.topic.fence()
    assert rig.broker.sent() == []


def test_an_empty_topic_is_read(rig: Rig) -> None:
    """Nothing is waited for."""
    rig.held()
    rig.reading()
    rig.tell_last(-1)
    assert rig.listener.journal == ["granted", "read"]
    milliseconds = int(rig.broker.clock.time() * 1_000)
    assert rig.listener.memory == GroupMemory(milliseconds), "a group that comes back has later epochs than before"


@pytest.mark.parametrize("how", ["done", "refused", "unanswered", "lost"])
def test_a_topic_that_is_no_longer_needed_is_removed(rig: Rig, how: str) -> None:
    """What keeps its last record is deleted while the producer is held; that is closed, whatever comes of it."""
    removed: list[bool] = []
    producer_id = rig.held()
    rig.topic.remove(lambda: removed.append(True))
    asked = rig.broker.next(T.SUBSCRIBE).subscribe
    assert (asked.subscription, asked.durable) == (SUBSCRIPTION, True)
    if how == "done":
        rig.broker.say(success(asked.request_id))
        assert not removed
        unsubscribe = rig.broker.next(T.UNSUBSCRIBE).unsubscribe
        assert unsubscribe.consumer_id == asked.consumer_id
        rig.broker.say(success(unsubscribe.request_id))
    elif how == "refused":
        rig.broker.refuse(asked.request_id, "somebody consumes it")
    elif how == "unanswered":
        rig.broker.clock.advance(REMOVE_S_MAX)
    else:
        rig.broker.say(close_producer(producer_id))
    assert removed == [True]
    closed = [command.close_producer.producer_id for command in rig.broker.sent() if command.type == T.CLOSE_PRODUCER]
    assert closed == ([] if how == "lost" else [producer_id])
    rig.broker.clock.advance(2 * REMOVE_S_MAX)
    assert removed == [True]


def test_who_does_not_hold_the_producer_removes_nothing(rig: Rig) -> None:
    """Another may lead, and need the topic."""
    removed: list[bool] = []
    rig.topic.remove(lambda: removed.append(True))
    assert not removed, "not from within"
    rig.broker.clock.settle()
    assert (removed, rig.broker.sent()) == ([True], [])


def test_one_that_is_stopped_meanwhile_says_nothing(rig: Rig) -> None:
    """As at the end of a process that is in a hurry."""
    removed: list[bool] = []
    rig.held()
    rig.topic.remove(lambda: removed.append(True))
    rig.topic.stop()
    rig.broker.clock.advance(2 * REMOVE_S_MAX)
    assert not removed


def test_everything_is_read_and_what_is_no_record_passed_over(rig: Rig) -> None:
    """Up to the last message, in whatever order the two answers come."""
    rig.held()
    consumer_id = rig.reading()
    rig.broker.say(delivery(consumer_id, 0, encode(GroupMemory(3, "c"))), delivery(consumer_id, 1, b"what?"))
    rig.tell_last(2)
    assert rig.listener.journal == ["granted"]
    rig.broker.say(delivery(consumer_id, 2, encode(GroupMemory(4, "d"))))
    assert rig.listener.journal == ["granted", "read"]
    assert rig.listener.memory == GroupMemory(epoch=4, leader="d")


def test_what_a_newer_record_has_made_superfluous_may_go(rig: Rig) -> None:
    """The last one is never acknowledged, or the broker would delete it."""
    rig.held()
    consumer_id = rig.reading()
    rig.tell_last(2)
    rig.broker.say(delivery(consumer_id, 0, encode(GroupMemory(3, "c"))), delivery(consumer_id, 1, b"what?"))
    assert rig.broker.sent() == []
    rig.broker.say(delivery(consumer_id, 2, encode(GroupMemory(4, "d"))))
    acked, closed = rig.broker.sent()
    (place,) = acked.ack.message_id
    assert (place.ledgerId, place.entryId) == (7, 0)
    assert closed.close_consumer.consumer_id == consumer_id
    rig.broker.say(delivery(consumer_id, 3, encode(GroupMemory(3, "c"))))
    assert rig.broker.sent() == []


@pytest.mark.parametrize("how", ["read", "closed", "refused"])
def test_who_leads_tidies_the_topic_now_and_then(rig: Rig, how: str) -> None:
    """By time, and after many records; that it cannot is no loss, and is tried again as much later."""
    producer_id = rig.held()
    rig.reading()
    rig.tell_last(-1)
    rig.broker.sent()
    for number in range(TIDY_RECORDS):
        rig.topic.store(GroupMemory(1, "a"))
        rig.broker.sent()
        rig.broker.say(receipt(producer_id, number))
    for _ in range(2):
        subscribe = rig.broker.next(T.SUBSCRIBE).subscribe
        if how == "refused":
            rig.broker.refuse(subscribe.request_id)
        else:
            rig.broker.say(success(subscribe.request_id))
            rig.tell_last(1)
            rig.broker.say(delivery(subscribe.consumer_id, 0, encode(GroupMemory(1, "a"))))
            if how == "closed":
                rig.broker.say(close_consumer(subscribe.consumer_id))
            else:
                rig.broker.say(delivery(subscribe.consumer_id, 1, encode(GroupMemory(2, "a"))))
                assert [command.type for command in rig.broker.sent()] == [T.ACK, T.CLOSE_CONSUMER]
        assert rig.broker.sent() == []
        rig.live(TOUCH_S)
    assert set(rig.listener.journal) == {"granted", "read", "stored"}


def test_a_record_is_tidied_away_soon(rig: Rig) -> None:
    """Once after however many."""
    producer_id = rig.held()
    rig.reading()
    rig.tell_last(-1)
    rig.broker.sent()
    for number in range(3):
        rig.topic.store(GroupMemory(1, "a"))
        rig.broker.sent()
        rig.broker.say(receipt(producer_id, number))
    rig.broker.clock.advance(TIDY_S - 1.0)
    assert [command.type for command in rig.broker.sent() if command.type != T.PING] == []
    rig.broker.clock.advance(2.0)
    assert [command.type for command in rig.broker.sent() if command.type != T.PING] == [T.SUBSCRIBE]


@pytest.mark.parametrize("how", ["late", "closed", "refused"])
def test_a_topic_that_cannot_be_read_is_a_loss(rig: Rig, how: str) -> None:
    """Who does not know what was before may not lead."""
    rig.held()
    if how == "refused":
        rig.topic.read()
        rig.broker.refuse(rig.broker.next(T.SUBSCRIBE).subscribe.request_id)
    else:
        consumer_id = rig.reading()
        rig.tell_last(2)
        if how == "closed":
            rig.broker.say(close_consumer(consumer_id))
        else:
            rig.broker.clock.advance(READ_S_MAX)
    assert rig.listener.journal == ["granted", "lost"]


def test_stopped_it_hears_nothing_more(rig: Rig) -> None:
    """In the middle of everything."""
    producer_id = rig.held()
    consumer_id = rig.reading()
    rig.topic.store(GroupMemory(1, "a"))
    rig.topic.stop()
    rig.broker.sent()
    rig.broker.say(receipt(producer_id, 0), delivery(consumer_id, 0, b""))
    rig.broker.clock.advance(60.0)
    assert rig.listener.journal == ["granted"]
