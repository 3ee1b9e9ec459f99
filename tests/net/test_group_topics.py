"""What operators see and order of the groups' topics: a broker says who needs them, and nothing else is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.errors import Conflict, KeylineError, NotFound, UpstreamUnavailable
from proxy.groups.bundles import DEPLOYMENT
from proxy.groups.streams import GroupId
from proxy.net.events import Events
from proxy.net.group.topic_look import LookTiming
from proxy.net.group.topic_name import group_topic_name
from proxy.net.group.topic_reader import SUBSCRIPTION
from proxy.net.group.topics import LOOKS_MAX, REMOVALS_MAX, GroupTopics, GroupTopicsPage
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import T, frame, success
from tests.net.gateway_rig import PlayedBroker, close_producer

if TYPE_CHECKING:
    from proxy.net.events import Event

NAMESPACE = "public/default"
TIMING = LookTiming()
ORDERS = "persistent://public/default/orders"
FORMER, LIVING, *OTHERS = (group_topic_name(NAMESPACE, GroupId(ORDERS, f"s-{number}")) for number in range(30))
OWNERS = group_topic_name(NAMESPACE, DEPLOYMENT)
INBOX = f"non-persistent://{NAMESPACE}/keyline-groups-a-1"


class Rig:
    """One replica's, and its broker."""

    def __init__(self) -> None:
        self.broker = PlayedBroker()
        self.events = Events(self.broker.clock.now)
        self.topics = GroupTopics(NAMESPACE, self.broker, self.broker.clock, self.events)
        self.pages: list[GroupTopicsPage | KeylineError] = []
        self.removals: list[KeylineError | None] = []

    def asked(self) -> list[pb.BaseCommand]:
        """What the broker was asked since the last look, but whether it is there."""
        return [command for command in self.broker.sent() if command.type != T.PING]

    def answer_list(self, *topics: str) -> None:
        """It is asked for a list, which has these."""
        (command,) = self.asked()
        asked = command.getTopicsOfNamespace
        answer = pb.CommandGetTopicsOfNamespaceResponse(request_id=asked.request_id, topics=topics)
        self.broker.say(frame(type=T.GET_TOPICS_OF_NAMESPACE_RESPONSE, getTopicsOfNamespaceResponse=answer))

    def begin_page(self, *topics: str, after: str | None = None, limit: int = 100) -> None:
        """As far as the looks."""
        self.topics.page(after, limit, self.pages.append)
        self.answer_list(*topics)
        self.answer_list(INBOX)

    def begin_removal(self, topic: str = FORMER, by: str = "alice") -> pb.BaseCommand:
        """As far as the look."""
        self.topics.remove(topic, by, self.removals.append)
        self.answer_list(FORMER, LIVING)
        (command,) = self.asked()
        assert (command.producer.topic, command.producer.producer_access_mode) == (topic, pb.Exclusive)
        return command

    def told(self) -> list[Event]:
        """All events."""
        return self.events.listen(lambda: None, 0).take()[1]


@pytest.fixture
def rig() -> Rig:
    """Nothing is asked yet."""
    return Rig()


def test_a_list_says_of_each_topic_why_it_is_in_use(rig: Rig) -> None:
    """What a broker grants is given back at once: the group may be between two leaders."""
    rig.begin_page(ORDERS, FORMER, LIVING, OWNERS)
    former, living = rig.asked()
    assert [command.producer.producer_access_mode for command in (former, living)] == [pb.Exclusive] * 2
    producer_id = rig.broker.grant(former)
    (closed,) = rig.asked()
    assert (closed.type, closed.close_producer.producer_id) == (T.CLOSE_PRODUCER, producer_id)
    assert not rig.pages
    rig.broker.refuse(living.producer.request_id, "it has an exclusive producer")
    (page,) = rig.pages
    assert isinstance(page, GroupTopicsPage)
    assert {each.topic: (each.kind, each.in_use_because is None) for each in page.topics} == {
        FORMER: ("group", True),
        LIVING: ("group", False),
        OWNERS: ("deployment", False),
        INBOX: ("mail", False),
    }
    (reason,) = (each.in_use_because for each in page.topics if each.topic == LIVING)
    assert reason is not None
    assert "it has an exclusive producer" in reason
    assert page.next is None
    assert not rig.told()


def test_a_list_comes_in_pages_and_looks_at_few_topics_at_a_time(rig: Rig) -> None:
    """By name; topics of other pages are not looked at."""
    names = sorted(OTHERS)
    rig.begin_page(*OTHERS, limit=LOOKS_MAX + 2)
    looks = rig.asked()
    assert len(looks) == LOOKS_MAX
    while looks:
        rig.broker.refuse(looks.pop().producer.request_id)
        looks += rig.asked()
    (page,) = rig.pages
    assert isinstance(page, GroupTopicsPage)
    listed = [each.topic for each in page.topics]
    assert listed == [INBOX, *names][: LOOKS_MAX + 2]
    assert page.next == listed[-1]
    rig.begin_page(*OTHERS, after=page.next)
    rest = [command.producer.topic for command in rig.asked()]
    assert sorted(rest) == names[LOOKS_MAX + 1 :]


def test_one_list_is_made_at_a_time(rig: Rig) -> None:
    """Each costs the brokers requests; when it is done, or there is none, the next one is."""
    rig.topics.page(None, 10, rig.pages.append)
    with pytest.raises(Conflict, match="being made"):
        rig.topics.page(None, 10, rig.pages.append)
    (command,) = rig.asked()
    rig.broker.refuse(command.getTopicsOfNamespace.request_id, "not authorized")
    (error,) = rig.pages
    assert isinstance(error, UpstreamUnavailable)
    assert "not authorized" in str(error)
    rig.begin_page()
    assert isinstance(rig.pages[-1], GroupTopicsPage)


def test_the_topic_of_a_former_group_is_removed_and_who_ordered_it_is_told(rig: Rig) -> None:
    """After half a minute in which no replica takes its producer."""
    rig.broker.grant(rig.begin_removal())
    rig.broker.live(TIMING.alone_s - 1.0)
    assert rig.asked() == []
    rig.broker.clock.advance(1.0)
    subscribe = rig.broker.next(T.SUBSCRIBE).subscribe
    assert (subscribe.topic, subscribe.subscription) == (FORMER, SUBSCRIPTION)
    rig.broker.say(success(subscribe.request_id))
    rig.broker.say(success(rig.broker.next(T.UNSUBSCRIBE).unsubscribe.request_id))
    assert rig.removals == [None]
    (event,) = rig.told()
    assert (event.kind, event.topic) == ("operator_order", FORMER)
    assert event.facts == {"order": "remove topic", "by": "alice"}
    rig.asked()
    rig.begin_removal()  # once more: its broker may not have deleted it


@pytest.mark.parametrize("how", ["refused", "taken away", "stood still"])
def test_the_topic_of_a_living_group_stays_and_the_reason_is_told(rig: Rig, how: str) -> None:
    """Nothing of it is deleted, and there is no event."""
    command = rig.begin_removal(LIVING)
    if how == "refused":
        rig.broker.refuse(command.producer.request_id, "it has an exclusive producer")
    else:
        producer_id = rig.broker.grant(command)
        rig.broker.live(4.0)
        if how == "taken away":
            rig.broker.say(close_producer(producer_id))
        else:
            rig.broker.clock.oversleep(TIMING.alone_s + TIMING.late_s)
            rig.broker.live(1.0)
    (error,) = rig.removals
    assert isinstance(error, Conflict)
    assert f"{LIVING} is not removed" in str(error)
    assert how != "refused" or "it has an exclusive producer" in str(error)
    rig.broker.live(2 * TIMING.alone_s)
    assert {asked.type for asked in rig.asked()} <= {T.CLOSE_PRODUCER}
    assert not rig.told()


@pytest.mark.parametrize(
    ("topic", "error", "reason"),
    [
        (OWNERS, Conflict, "orders of operators"),
        (INBOX, Conflict, "stores nothing"),
        (ORDERS, NotFound, "no group's topic"),
        ("persistent://other/namespace/keyline-group-x", NotFound, "no group's topic"),
        ("keyline-group-x", NotFound, "no group's topic"),
    ],
)
def test_only_topics_of_groups_are_removed(rig: Rig, topic: str, error: type[KeylineError], reason: str) -> None:
    """An order is no way to any other topic, with the gateway's permissions; the broker is not even asked."""
    with pytest.raises(error, match=reason):
        rig.topics.remove(topic, "mallory", rig.removals.append)
    assert rig.asked() == []


def test_a_topic_that_is_not_there_is_not_made_in_order_to_remove_it(rig: Rig) -> None:
    """A broker makes a topic for who asks for its producer."""
    rig.topics.remove(OTHERS[0], "alice", rig.removals.append)
    rig.answer_list(FORMER, LIVING)
    (error,) = rig.removals
    assert isinstance(error, NotFound)
    assert rig.asked() == []


def test_removals_are_bounded_and_each_topic_has_one(rig: Rig) -> None:
    """Who orders too much hears so."""
    rig.begin_removal()
    with pytest.raises(Conflict, match="already"):
        rig.topics.remove(FORMER, "bob", rig.removals.append)
    for topic in OTHERS[: REMOVALS_MAX - 1]:
        rig.topics.remove(topic, "bob", rig.removals.append)
    with pytest.raises(Conflict, match="order this when one of them is"):
        rig.topics.remove(LIVING, "bob", rig.removals.append)


def test_a_gateway_that_stops_answers_and_removes_nothing(rig: Rig) -> None:
    """What it holds it lets go."""
    rig.broker.grant(rig.begin_removal())
    rig.topics.page(None, 10, rig.pages.append)
    rig.answer_list(LIVING)
    rig.topics.close()
    assert [type(each) for each in (*rig.removals, *rig.pages)] == [UpstreamUnavailable] * 2
    rig.broker.live(2 * TIMING.alone_s)
    assert T.SUBSCRIBE not in {command.type for command in rig.asked()}
