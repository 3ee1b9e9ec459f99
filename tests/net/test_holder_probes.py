"""What is asked of the broker about a suspected replica's consumers."""

from __future__ import annotations

from functools import partial

import pytest

from proxy.groups.memory import GroupMemory
from proxy.groups.messages import ReplicaSilent, SessionId
from proxy.net.group.holder_probes import AGAIN_S, PROBES_MAX, HolderProbes
from proxy.net.group.member import GroupMember
from proxy.net.subscription.sentinel import SUFFIX
from proxy.wire import pulsar_pb2 as pb
from tests.groups.rig import GROUP
from tests.net.assignment_rig import TIMING
from tests.net.broker_fakes import T, error, success
from tests.net.gateway_rig import PlayedBroker
from tests.net.member_rig import OwnMail, OwnStreams, OwnTopic

Key = tuple[str, str]
KEY = ("persistent://public/default/orders", "billing")


class Rig:
    """A replica that suspects an owner."""

    def __init__(self, *migrating: str) -> None:
        self.broker = PlayedBroker()
        self.probes = HolderProbes("a-1", self.broker, self.broker.clock, migrating)

    def suspect(self, *keys: Key) -> None:
        """Its clients consume these there, and nothing is heard of it."""
        for key in keys:
            self.probes.begun("b-1", key)
        self.probes.suspect("b-1")

    def asked(self) -> pb.CommandSubscribe:
        """The SUBSCRIBE that the broker gets."""
        return self.broker.next(T.SUBSCRIBE).subscribe


def test_the_broker_is_asked_for_the_whole_of_the_slots_and_gives_no_message() -> None:
    """Beside a consumer that is alive that is refused; nothing of the subscription is changed by it."""
    rig = Rig()
    rig.suspect(KEY)
    asked = rig.asked()
    assert (asked.topic, asked.subscription, asked.subType) == (*KEY, pb.CommandSubscribe.Key_Shared)
    assert [(span.start, span.end) for span in asked.keySharedMeta.hashRanges] == [(0, 65_535)]
    assert asked.keySharedMeta.keySharedMode == pb.STICKY
    assert asked.durable
    assert not asked.force_topic_creation
    assert not asked.HasField("start_message_id")
    rig.broker.say(error(asked.request_id, pb.ConsumerAssignError, "no"))
    assert rig.broker.sent() == []


def test_one_that_is_let_in_leaves_at_once() -> None:
    """The place is the next owner's; no permit was granted."""
    rig = Rig()
    rig.suspect(KEY)
    asked = rig.asked()
    rig.broker.say(success(asked.request_id))
    (closed,) = rig.broker.sent()
    assert (closed.type, closed.close_consumer.consumer_id) == (T.CLOSE_CONSUMER, asked.consumer_id)


@pytest.mark.parametrize("pattern", ["orders billing", "* billing-keyline-owner"])
def test_of_a_subscription_that_direct_workers_share_the_sentinels_place_is_asked_for(pattern: str) -> None:
    """Beside its owner's own consumer any other has a place, so that the broker would not look."""
    rig = Rig(pattern)
    rig.suspect(KEY)
    asked = rig.asked()
    shared = pattern == "orders billing"
    assert (asked.topic, asked.subscription) == (KEY[0], KEY[1] + SUFFIX if shared else KEY[1])
    assert asked.subType == (pb.CommandSubscribe.Exclusive if shared else pb.CommandSubscribe.Key_Shared)
    assert asked.durable == (not shared)


def test_a_subscription_is_not_asked_for_again_and_again() -> None:
    """Every client's leg to the owner says so, at each look."""
    rig = Rig()
    rig.suspect(KEY)
    rig.suspect(KEY)
    rig.broker.say(error(rig.asked().request_id, pb.ConsumerAssignError, "no"))
    rig.broker.clock.advance(AGAIN_S - 0.1)
    rig.suspect(KEY)
    assert rig.broker.sent() == []
    rig.broker.clock.advance(0.2)
    rig.suspect(KEY)
    assert rig.asked().subscription == KEY[1]


def test_a_subscription_is_not_asked_for_while_the_broker_looks() -> None:
    """That takes it longer than the pause between two questions."""
    rig = Rig()
    rig.suspect(KEY)
    asked = rig.asked()
    rig.broker.clock.advance(AGAIN_S + 0.1)
    rig.suspect(KEY)
    assert rig.broker.sent() == []
    rig.broker.say(error(asked.request_id, pb.ConsumerAssignError, "no"))
    rig.suspect(KEY)
    assert rig.asked().subscription == KEY[1]


def test_probes_are_few_at_a_time() -> None:
    """An owner may have thousands of subscriptions, on a few connections."""
    rig = Rig()
    rig.suspect(*((KEY[0], f"s-{number}") for number in range(2 * PROBES_MAX)))
    assert len(rig.broker.sent()) == PROBES_MAX


def test_what_is_consumed_there_no_more_is_not_probed() -> None:
    """Nor what is consumed at others."""
    rig = Rig()
    for _ in range(2):
        rig.probes.begun("b-1", KEY)
    rig.probes.ended("b-1", KEY)
    rig.probes.suspect("c-1")
    assert rig.broker.sent() == []
    rig.probes.ended("b-1", KEY)
    rig.probes.suspect("b-1")
    assert rig.broker.sent() == []


class GroupRig(Rig):
    """A replica with a session in a group of four streams, of which another one has two."""

    def __init__(self) -> None:
        super().__init__()
        self.here, self.there = SessionId("here-1", 1), SessionId("there-1", 1)
        mail = OwnMail()
        clock = self.broker.clock
        self.member = mail.member = GroupMember(GROUP, self.here, 4, TIMING, clock, mail, lambda: None)
        self.member.replica_silent = partial(self.probes.suspect_in, self.member)
        self.member.join(OwnTopic(), OwnStreams(), 1)

    def lead(self) -> None:
        """After a leader that had leased all streams."""
        owners = ((0, self.here), (1, self.there), (2, self.there), (3, self.here))
        self.member.granted()
        self.member.read(GroupMemory(3, "there-1", 9, 4, owners))
        self.member.stored()


def test_the_broker_is_asked_for_each_stream_of_a_replica_that_its_leader_does_not_hear() -> None:
    """For no other: those of the replica that is heard would be refused, and tell nothing of the silent one."""
    rig = GroupRig()
    rig.lead()
    assert rig.broker.sent() == []
    rig.broker.clock.advance(TIMING.renew_s)
    asked = [command.subscribe for command in rig.broker.sent()]
    assert {(each.topic, each.subscription) for each in asked} == {(GROUP.topic, GROUP.subscription)}
    slots = [(span.start, span.end) for each in asked for span in each.keySharedMeta.hashRanges]
    assert slots == [(16_384, 32_767), (32_768, 49_151)]
    assert all(each.keySharedMeta.keySharedMode == pb.STICKY for each in asked)


def test_who_does_not_lead_a_group_asks_for_none_of_its_streams() -> None:
    """It does not know who has which."""
    rig = GroupRig()
    rig.member.hear(ReplicaSilent(GROUP, rig.there.replica))
    assert rig.broker.sent() == []
