"""Topics of former groups: removed where no replica takes their producer away, and nowhere else."""

from __future__ import annotations

import pytest

from proxy.groups.bundles import DEPLOYMENT
from proxy.groups.streams import GroupId
from proxy.net.group.sweep import FAILURES_MAX, LOOKS_MAX, GroupSweep, SweepTiming
from proxy.net.group.topic_name import group_topic_name
from proxy.net.group.topic_reader import SUBSCRIPTION
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import T, frame, success
from tests.net.gateway_rig import PlayedBroker, close_producer

NAMESPACE = "public/default"
TIMING = SweepTiming()
LOOK = TIMING.look
TOPIC = group_topic_name(NAMESPACE, GroupId("persistent://public/default/orders", "billing"))


class Rig:
    """One replica's sweep and its broker."""

    def __init__(self) -> None:
        self.broker = PlayedBroker()
        self.sweep = GroupSweep(NAMESPACE, "a", self.broker, self.broker.clock)
        self.sweep.start()

    def asked(self) -> list[pb.BaseCommand]:
        """What the broker was asked since the last look, but whether it is there."""
        return [command for command in self.broker.sent() if command.type != T.PING]

    def listed(self, *topics: str) -> list[pb.BaseCommand]:
        """The next list is asked for, and has these; what follows."""
        asked = self.next_list()
        assert (asked.namespace, asked.mode) == (NAMESPACE, pb.CommandGetTopicsOfNamespace.PERSISTENT)
        answer = pb.CommandGetTopicsOfNamespaceResponse(request_id=asked.request_id, topics=topics)
        self.broker.say(frame(type=T.GET_TOPICS_OF_NAMESPACE_RESPONSE, getTopicsOfNamespaceResponse=answer))
        return self.asked()

    def next_list(self) -> pb.CommandGetTopicsOfNamespace:
        """Nothing is asked for but a list, in time."""
        for _ in range(int(TIMING.every_s)):
            self.broker.live(1.0)
            for command in self.asked():
                assert command.type == T.GET_TOPICS_OF_NAMESPACE
                return command.getTopicsOfNamespace
        pytest.fail("no list was asked for")

    def removed(self) -> None:
        """The subscription is deleted, and the producer closed."""
        subscribe = self.broker.next(T.SUBSCRIBE).subscribe
        assert (subscribe.topic, subscribe.subscription) == (TOPIC, SUBSCRIPTION)
        self.broker.say(success(subscribe.request_id))
        self.broker.say(success(self.broker.next(T.UNSUBSCRIBE).unsubscribe.request_id))
        assert [command.type for command in self.asked()] == [T.CLOSE_PRODUCER]


@pytest.fixture
def rig() -> Rig:
    """It has not looked yet."""
    return Rig()


def test_a_topic_that_nobody_wants_is_removed(rig: Rig) -> None:
    """After a while in which nobody took its producer away; and it is not looked at again, if a broker keeps it."""
    (command,) = rig.listed("persistent://public/default/orders", group_topic_name(NAMESPACE, DEPLOYMENT), TOPIC)
    assert (command.producer.topic, command.producer.producer_access_mode) == (TOPIC, pb.Exclusive)
    rig.broker.grant(command)
    rig.broker.live(LOOK.alone_s - 1.0)
    assert rig.asked() == []
    rig.broker.clock.advance(1.0)
    rig.removed()
    assert rig.listed(TOPIC) == []


@pytest.mark.parametrize("how", ["refused", "taken away", "stood still", "stopped"])
def test_a_topic_of_a_group_with_a_member_stays(rig: Rig, how: str) -> None:
    """It has the producer, or takes it; and who knows nothing of the last moments does nothing."""
    (command,) = rig.listed(TOPIC)
    if how == "refused":
        rig.broker.refuse(command.producer.request_id)
    else:
        producer_id = rig.broker.grant(command)
        rig.broker.live(4.0)
        rig.asked()
        if how == "taken away":
            rig.broker.say(close_producer(producer_id))
        elif how == "stopped":
            rig.sweep.close()
        else:
            rig.broker.clock.oversleep(LOOK.alone_s + LOOK.late_s)
    rig.broker.live(2 * LOOK.alone_s)
    assert {command.type for command in rig.asked()} <= {T.CLOSE_PRODUCER}
    if how != "stopped":
        assert [command.type for command in rig.listed(TOPIC)] == [T.PRODUCER], "it is looked at again"


def test_few_are_looked_at_at_a_time(rig: Rig) -> None:
    """A broker may have thousands of them."""
    topics = [group_topic_name(NAMESPACE, GroupId(TOPIC, str(number))) for number in range(LOOKS_MAX + 1)]
    first = rig.listed(*topics)
    assert [command.producer.topic for command in first] == topics[:-1]
    rig.broker.refuse(first[0].producer.request_id)
    assert [command.producer.topic for command in rig.asked()] == topics[-1:]


def test_a_broker_that_does_not_list_is_asked_a_few_times(rig: Rig) -> None:
    """The gateway may not be allowed to, or the list be too long for a frame."""
    for _ in range(FAILURES_MAX):
        rig.broker.refuse(rig.next_list().request_id)
    rig.broker.live(3 * TIMING.every_s)
    assert rig.asked() == []
