"""What replicas tell each other of producers that wait: on Pulsar's own topics, and what elections make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from proxy.net.election.back_off import UNAVAILABLE_S_MAX
from proxy.net.election.broker_queue import PROMOTION_S_MAX
from proxy.net.election.rivals import EXPIRY_CHECK_S, NOT_READY_S, ProducerRivals, rivals_topic
from proxy.net.mail.group_mail import PulsarSharedMail
from proxy.producers.announcement import Announcement, BestWaiting, TopicNews, decode, encode
from proxy.producers.announcer import DAMPING_S, REPEAT_S
from proxy.producers.election import YIELDS_MAX
from proxy.producers.rivals import EXPIRY_S
from proxy.producers.standing import Place, Standing
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import success
from tests.net.gateway_rig import PlayedBroker, delivery
from tests.net.producer_rig import (
    EXCLUSIVE,
    FENCE,
    TOPIC,
    Exchange,
    ProducerRig,
    answers,
    asked,
    close,
    error,
    not_ready,
    ready,
    taken_off,
    want,
)
from tests.net.session_rig import T
from tests.net.session_rig import success as closed

if TYPE_CHECKING:
    from tests.net.session_rig import SessionRig

ALL = "non-persistent://public/default/keyline-producers-all"
GRACE_S = 3.0
PATIENCE_S = EXPIRY_S + GRACE_S
FORGOTTEN_S = EXPIRY_S + EXPIRY_CHECK_S


def said(number: int, priority: int | None, *, owned: bool = False, replica: str = "z", topic: str = TOPIC) -> bytes:
    """What another replica says."""
    best = None if priority is None else BestWaiting(priority, returning=False, waited_s=0.0)
    return encode(Announcement(replica, number, (TopicNews(topic, owned, best),)))


# ---- on Pulsar


class PulsarRig:
    """One replica and its broker."""

    def __init__(self) -> None:
        self.broker = PlayedBroker()
        self.clock = self.broker.clock
        self.topic = rivals_topic("public/default")
        self.rivals = ProducerRivals("a-1", PulsarSharedMail(self.topic, "a-1", self.broker, self.clock), self.clock)
        self.heard: list[str] = []
        self.rivals.heard = self.heard.append
        self.consumer_id = 0

    def started(self) -> PulsarRig:
        """It hears, and may speak."""
        self.rivals.start()
        for command in self.broker.sent():
            if command.type == T.SUBSCRIBE:
                self.consumer_id = command.subscribe.consumer_id
                self.broker.say(success(command.subscribe.request_id))
            else:
                self.broker.grant(command)
        self.broker.sent()
        return self

    def messages(self) -> int:
        """Count messages sent since the last look."""
        return sum(command.type == T.SEND for command in self.broker.sent())


def place(priority: int) -> Place:
    """One waits here."""
    return Place(Standing(newcomer=True, negated_priority=-priority, since=0.0, replica="a-1"), owned=False)


def test_all_replicas_share_one_topic() -> None:
    """Each with a subscription and a producer of its own; nothing is asked for before the start."""
    rig = PulsarRig()
    rig.rivals.tell("t", place(1))
    rig.clock.advance(10)
    assert rig.broker.sent() == []
    rig.rivals.start()
    commands = rig.broker.sent()
    (subscribe,) = [each.subscribe for each in commands if each.type == T.SUBSCRIBE]
    (producer,) = [each.producer for each in commands if each.type == T.PRODUCER]
    assert (subscribe.topic, subscribe.subscription, subscribe.durable) == (ALL, "a-1-1", False)
    assert (producer.topic, producer.producer_access_mode) == (ALL, pb.Shared)


def test_changes_are_said_soon_and_everything_again_and_again() -> None:
    """Many changes in one message; at the end, once, that nobody waits here any more."""
    rig = PulsarRig().started()
    for number in range(9):
        rig.rivals.tell(str(number), place(1))
    assert rig.messages() == 0
    rig.clock.advance(DAMPING_S)
    assert rig.messages() == 1
    rig.rivals.tell("9", place(1))
    rig.clock.advance(DAMPING_S)
    assert rig.messages() == 1, "a change does not wait for what is said again"
    rig.clock.advance(REPEAT_S)
    assert rig.messages() == 2
    rig.rivals.stop()
    commands = rig.broker.sent()
    assert [each.type for each in commands if each.type in (T.SEND, T.CLOSE_PRODUCER)] == [T.SEND, T.CLOSE_PRODUCER]
    rig.clock.advance(10)
    assert rig.messages() == 0


def test_what_cannot_be_sent_is_not_kept() -> None:
    """It would be old when it is heard: it is said as it is then."""
    rig = PulsarRig()
    rig.rivals.start()
    asked = next(each for each in rig.broker.sent() if each.type == T.PRODUCER)
    for priority in range(50):
        rig.rivals.tell("t", place(priority))
        rig.clock.advance(0.1)
    rig.broker.grant(asked)
    rig.clock.advance(NOT_READY_S)
    assert rig.messages() == 1


def test_others_are_heard_and_forgotten() -> None:
    """What is no announcement is counted, and logged once."""
    rig = PulsarRig().started()
    with capture_logs() as logs:
        rig.broker.say(*[delivery(rig.consumer_id, entry, b"hello") for entry in range(3)])
    assert [line["log_level"] for line in logs] == ["warning"]
    assert (rig.rivals.ignored_total, rig.rivals.known_count) == (3, 0)
    rig.broker.say(delivery(rig.consumer_id, 3, said(1, 5)), delivery(rig.consumer_id, 4, said(1, 5, replica="a-1")))
    best = rig.rivals.place(TOPIC).best
    assert best is not None
    assert (rig.heard, best.priority, best.replica, rig.rivals.known_count) == ([TOPIC], 5, "z", 1)
    rig.clock.advance(FORGOTTEN_S)
    assert (rig.heard, rig.rivals.known_count) == ([TOPIC, TOPIC], 0)


# ---- elections


class ElectionRig(ProducerRig):
    """One replica's, with clients; the test is the others."""

    def __init__(self, clients: int) -> None:
        self.exchange = Exchange()
        super().__init__(clients, exchange=self.exchange)
        self.numbers = 0

    def hear(self, priority: int | None, *, owned: bool = False) -> None:
        """Another replica says so."""
        self.numbers += 1
        self.exchange.say(said(self.numbers, priority, owned=owned))

    def keep_hearing(self, seconds: float, priority: int, *, owned: bool = False) -> None:
        """Again and again."""
        for _ in range(int(seconds / REPEAT_S)):
            self.clock.advance(REPEAT_S)
            self.hear(priority, owned=owned)

    def told(self) -> list[TopicNews]:
        """What this replica has said since the last look."""
        self.clock.advance(DAMPING_S)
        return [news for data in self.exchange.take("r1") for news in decode(data).topics]


@pytest.fixture
def rig() -> ElectionRig:
    """Three clients of one replica."""
    return ElectionRig(3)


def parked(rig: ElectionRig, client: SessionRig, priority: int) -> None:
    """Let one wait at the broker."""
    client.client.deliver(want(1, priority))
    assert asked(client) == [("PRODUCER", 1)]
    client.broker.deliver(not_ready(1))
    assert answers(client) == [(1, "queued")]
    rig.kinds()


def test_the_best_is_announced_and_the_owner_only_where_somebody_waits(rig: ElectionRig) -> None:
    """Each change; at last that nobody waits any more."""
    owner, first, second = rig.clients
    rig.owner(owner)
    assert rig.told() == []
    first.client.deliver(want(1, 3))
    second.client.deliver(want(1, 7))
    (news,) = rig.told()
    assert (news.owned, news.best and news.best.priority) == (True, 7)
    second.client.deliver(close(2))
    (news,) = rig.told()
    assert news.best is not None
    assert news.best.priority == 3
    first.client.lose()
    assert rig.told() == [TopicNews(TOPIC, owned=False, best=None)]
    rig.hear(1)
    assert rig.told() == [TopicNews(TOPIC, owned=True, best=None, epoch=0)]


def test_nobody_is_asked_for_while_a_better_one_waits_elsewhere(rig: ElectionRig) -> None:
    """It waits and is shown to; when the rival is forgotten it is asked for."""
    rig.hear(5)
    client = rig.clients[0]
    client.client.deliver(want(1, 3))
    assert (asked(client), answers(client)) == ([], [(1, "queued")])
    summary = rig.page().summary
    assert summary.outranked
    assert summary.rival is not None
    assert (summary.rival.replica, summary.rival.priority) == ("z", 5)
    rig.clock.advance(FORGOTTEN_S)
    assert asked(client) == [("PRODUCER", 1)]
    assert rig.page().summary.rival is None


def test_an_equal_that_came_later_elsewhere_is_no_reason_to_wait(rig: ElectionRig) -> None:
    """Of equals the first is first."""
    client = rig.clients[0]
    client.client.deliver(want(1, 5))
    rig.clock.advance(1)
    rig.hear(5)
    client.broker.deliver(not_ready(1) + ready(1))
    assert answers(client) == [(1, "queued"), (1, "ready")]


def test_one_that_waited_at_the_broker_gives_its_turn_away(rig: ElectionRig) -> None:
    """Silently; it is counted and told as an event, and asked for when the rival has gone."""
    client = rig.clients[0]
    parked(rig, client, 1)
    rig.hear(5)
    client.broker.deliver(ready(1))
    ((kind, request_id),) = asked(client)
    assert kind == "CLOSE_PRODUCER"
    client.broker.deliver(closed(request_id))
    assert (answers(client), asked(client)) == ([], [])
    assert rig.kinds() == ["producer_yielded"]
    assert rig.page().summary.counters.yields_total == rig.elections.summary().counters.yields_total == 1
    rig.hear(None)
    assert asked(client) == [("PRODUCER", 1)]
    client.broker.deliver(ready(1, epoch=2))
    assert answers(client) == [(1, "ready")]


def test_one_that_the_broker_takes_at_once_keeps_the_topic(rig: ElectionRig) -> None:
    """It was asked for in its own turn."""
    client = rig.clients[0]
    client.client.deliver(want(1, 1))
    rig.hear(5)
    client.broker.deliver(ready(1))
    assert answers(client) == [(1, "ready")]


def test_turns_are_given_away_a_few_times_at_most(rig: ElectionRig) -> None:
    """Whatever others go on to say."""
    client = rig.clients[0]
    parked(rig, client, 1)
    for _ in range(YIELDS_MAX):
        rig.hear(5)
        client.broker.deliver(ready(1))
        ((kind, request_id),) = asked(client)
        assert kind == "CLOSE_PRODUCER"
        client.broker.deliver(closed(request_id))
        rig.hear(None)
        assert asked(client) == [("PRODUCER", 1)]
        client.broker.deliver(not_ready(1))
    rig.hear(5)
    client.broker.deliver(ready(1))
    assert answers(client) == [(1, "ready")]


def test_patience_ends_where_nobody_comes_to_own_the_topic(rig: ElectionRig) -> None:
    """Whatever keeps the better one: its broker has forgotten it, perhaps."""
    client = rig.clients[0]
    rig.hear(5)
    client.client.deliver(want(1, 3))
    rig.keep_hearing(PATIENCE_S - REPEAT_S, 5)
    assert asked(client) == []
    rig.keep_hearing(2 * REPEAT_S, 5)
    assert asked(client) == [("PRODUCER", 1)]


def test_patience_has_no_end_while_an_owner_is_known(rig: ElectionRig) -> None:
    """Here or at another replica; there is nothing to be had, and who waits at the broker might cost an epoch."""
    client = rig.clients[0]
    rig.hear(5, owned=True)
    client.client.deliver(want(1, 3))
    rig.keep_hearing(5 * PATIENCE_S, 5, owned=True)
    assert asked(client) == []
    assert rig.page().summary.vacant_s == 0
    rig.keep_hearing(PATIENCE_S + REPEAT_S, 5)
    assert asked(client) == [("PRODUCER", 1)]


def test_a_taker_of_ours_is_an_owner_too(rig: ElectionRig) -> None:
    """Others are told while they wait, and when it leaves."""
    taker = rig.clients[0]
    taker.client.deliver(want(1, mode=EXCLUSIVE))
    taker.broker.deliver(ready(1))
    rig.hear(5)
    assert rig.told() == [TopicNews(TOPIC, owned=True, best=None, epoch=0)]
    taker.client.lose()
    assert rig.told() == [TopicNews(TOPIC, owned=False, best=None)]


def test_the_best_is_announced_while_it_is_held(rig: ElectionRig) -> None:
    """A moment of trouble here is none in which another is to be first elsewhere."""
    failing, best, _ = rig.clients
    failing.client.deliver(want(1, 9))
    best.client.deliver(want(1, 7))
    failing.broker.deliver(error(1, pb.ServiceNotReady))
    assert rig.page().summary.held == "all"
    news = rig.told()[-1]
    assert news.best is not None
    assert news.best.priority == 7
    assert PATIENCE_S > UNAVAILABLE_S_MAX, "nobody loses patience with it"


class TwoReplicas:
    """Two gateways that hear each other."""

    def __init__(self) -> None:
        self.exchange = Exchange()
        self.first = ProducerRig(2, exchange=self.exchange)
        self.second = ProducerRig(1, exchange=self.exchange, replica="r2", clock=self.first.clock)

    def hear(self, *, lost: bool = False) -> None:
        """All that was said arrives, or nothing of it."""
        self.first.clock.advance(DAMPING_S)
        for replica, under_way in self.exchange.under_way.items():
            while under_way:
                if lost:
                    under_way.clear()
                else:
                    self.exchange.deliver(replica)

    def fenced(self, *, lost: bool) -> None:
        """One fences at the second the owner of the first, and leaves again."""
        fencer = self.second.clients[0]
        fencer.client.deliver(want(1, mode=FENCE))
        fencer.broker.deliver(ready(1, name="fencer", epoch=1))
        self.hear(lost=lost)
        fencer.client.deliver(close(2))
        fencer.broker.deliver(closed(2))
        self.hear(lost=lost)


def test_one_that_waits_at_a_broker_that_closed_the_topic_is_asked_for_anew() -> None:
    """A broker tells the first that waits and forgets the others: replicas tell each other."""
    both = TwoReplicas()
    low, high = both.first, both.second
    for rig, priority in ((low, 1), (high, 9)):
        rig.clients[0].client.deliver(want(1, priority))
        rig.clients[0].broker.deliver(not_ready(1))
        both.hear()
        assert asked(rig.clients[0]) == [("PRODUCER", 1)]
    low.clients[0].broker.deliver(error(1, pb.ServiceNotReady))
    both.hear()
    ((kind, request_id),) = asked(high.clients[0])
    assert kind == "CLOSE_PRODUCER"
    high.clients[0].broker.deliver(closed(request_id))
    assert asked(high.clients[0]) == [("PRODUCER", 1)]
    high.clients[0].broker.deliver(ready(1, epoch=2))
    assert answers(high.clients[0]) == [(1, "queued"), (1, "ready")]


@pytest.mark.parametrize("lost", [False, True])
def test_an_owner_that_was_fenced_through_another_replica_owns_nothing(*, lost: bool) -> None:
    """The broker does not tell it; who waits is asked for, also if the news was lost at first."""
    both = TwoReplicas()
    both.first.owner(both.first.clients[0])
    both.fenced(lost=lost)
    waiter = both.first.clients[1]
    waiter.client.deliver(want(20))
    both.hear()
    if lost:
        assert answers(waiter) == [(20, "queued")]
        both.hear()
    assert asked(waiter) == [("PRODUCER", 20)]
    assert both.first.elections.summary().counters.fencings_total == 1
    waiter.broker.deliver(ready(20, name="waiter", epoch=2))
    both.first.kinds()
    both.hear()
    assert both.first.elections.summary().owners_count == 1, "an epoch that is older says nothing of it"


def test_an_owner_is_fenced_by_one_whose_client_was_gone_before_the_answer() -> None:
    """Its gateway hears the answer still, and says so."""
    both = TwoReplicas()
    owner, waiter = both.first.clients
    both.first.owner(owner)
    fencer = both.second.clients[0]
    fencer.client.deliver(want(1, mode=FENCE))
    fencer.client.lose()
    fencer.broker.deliver(ready(1, name="fencer", epoch=1))
    assert taken_off(fencer) == [1]
    both.hear()
    waiter.client.deliver(want(20))
    assert asked(waiter) == [("PRODUCER", 20)]


def test_one_that_is_taken_back_while_somebody_fences_waits_on() -> None:
    """The broker refuses all that wait there; the close that follows is answered as ever."""
    both = TwoReplicas()
    waiter = both.second.clients[0]
    waiter.client.deliver(want(20))
    waiter.broker.deliver(not_ready(20))
    both.first.owner(both.first.clients[0])
    both.first.clients[1].client.deliver(want(11))
    both.hear()
    both.first.clients[0].broker.deliver(close(1))
    both.hear()
    (_, (kind, request_id)) = asked(waiter)
    assert kind == "CLOSE_PRODUCER"
    waiter.broker.deliver(error(20, pb.ProducerFenced) + closed(request_id))
    assert answers(waiter) == [(20, "queued")]
    assert asked(waiter) == [("PRODUCER", 20)]
    waiter.broker.deliver(ready(20, epoch=3))
    assert answers(waiter) == [(20, "ready")]


def test_what_was_fenced_long_before_says_nothing_of_an_owner() -> None:
    """A topic that was deleted and made anew counts its epochs anew."""
    both = TwoReplicas()
    both.fenced(lost=False)
    both.first.clock.advance(60)
    both.first.owner(both.first.clients[0])
    both.second.clients[0].client.deliver(want(30))
    both.first.clients[1].client.deliver(want(20))
    for _ in range(3):
        both.hear()
    assert both.first.elections.summary().owners_count == 1
    assert ("PRODUCER", 20) not in asked(both.first.clients[1])


@pytest.mark.parametrize("told", [False, True])
def test_one_that_is_taken_back_while_it_is_to_be_promoted_stops_nobody(*, told: bool) -> None:
    """Somebody fences behind its promotion, and its close waits behind that; the broker may tell it of the unload."""
    both = TwoReplicas()
    waiter, fencer = both.first.clients
    owner = both.first.client()
    owner.client.deliver(want(1, mode=EXCLUSIVE))
    owner.broker.deliver(ready(1))
    waiter.client.deliver(want(20))
    waiter.broker.deliver(not_ready(20))
    owner.client.deliver(close(2))
    owner.broker.deliver(closed(2))
    fencer.client.deliver(want(40, mode=FENCE))
    election = both.first.elections.find(TOPIC)
    assert election is not None
    election.closed_elsewhere()
    assert asked(fencer) == []
    if told:
        waiter.broker.deliver(error(20, pb.ServiceNotReady))
    else:
        both.first.clock.advance(PROMOTION_S_MAX)
        both.first.show_awake(fencer)
    assert asked(fencer) == [("PRODUCER", 40)]
    fencer.broker.deliver(ready(40, epoch=5))
    assert [kind for kind, _ in asked(waiter)] == ["PRODUCER", "CLOSE_PRODUCER"]


def taken_back(rig: ProducerRig) -> int:
    """The first client's producer waits at the broker and is taken back for the second's; the request of its close."""
    waiter, better = rig.clients
    waiter.client.deliver(want(10))
    waiter.broker.deliver(not_ready(10))
    better.client.deliver(want(20, 2))
    waiter.take_all()
    rig.elections.of(TOPIC).closed_elsewhere()
    ((_, withdrawal),) = asked(waiter)
    return withdrawal


@pytest.mark.parametrize("confirmed", [True, False])
def test_one_that_is_taken_back_from_the_brokers_queue_waits_on_when_the_broker_goes(*, confirmed: bool) -> None:
    """Its request had no last answer: that it is refused would be wrong, and its client's next try would be refused."""
    rig = ProducerRig(2, exchange=Exchange())
    waiter, better = rig.clients
    waiter.worker()
    withdrawal = taken_back(rig)
    if confirmed:
        waiter.broker.deliver(closed(withdrawal))
    waiter.broker.lose()
    assert answers(waiter) == []
    better.client.lose()
    waiter.reopen()
    assert asked(waiter) == [("PRODUCER", 10)]
    waiter.broker.deliver(ready(10))
    assert answers(waiter) == [(10, "ready")]


def test_an_answer_behind_the_close_of_one_that_was_taken_back_is_not_its_client_s() -> None:
    """The broker's threads may overtake each other; a client that took it for its turn would send in vain."""
    rig = ProducerRig(2, exchange=Exchange())
    waiter = rig.clients[0]
    withdrawal = taken_back(rig)
    waiter.broker.deliver(closed(withdrawal) + ready(10))
    assert answers(waiter) == []
    assert [item.stage for item in rig.page().waiting] == ["asked", "waiting"]


def test_a_taker_that_was_fenced_through_another_replica_owns_nothing() -> None:
    """One that did not wait."""
    both = TwoReplicas()
    taker, waiter = both.first.clients
    taker.client.deliver(want(10, mode=EXCLUSIVE))
    taker.broker.deliver(ready(10, epoch=0))
    both.fenced(lost=False)
    assert both.first.elections.summary().owners_count == 0
    waiter.client.deliver(want(20))
    assert asked(waiter) == [("PRODUCER", 20)]


def test_an_owner_that_the_broker_closed_is_told_of(rig: ElectionRig) -> None:
    """Its gateway knows of the unload, whoever waits elsewhere."""
    owner = rig.clients[0]
    rig.owner(owner)
    rig.hear(5)
    assert [news.closures for news in rig.told()] == [0]
    owner.broker.lose()
    assert [(news.owned, news.closures) for news in rig.told()] == [(False, 1)]


def test_a_gateway_that_stops_says_that_nobody_waits() -> None:
    """Before it goes, and nothing afterwards; nobody is asked for any more."""
    rig = ElectionRig(2)
    rig.hear(5)
    rig.clients[0].client.deliver(want(1, 3))
    rig.told()
    rig.elections.close()
    assert rig.told() == [TopicNews(TOPIC, owned=False, best=None)]
    rig.clients[1].client.deliver(want(1, 7))
    rig.clock.advance(2 * PATIENCE_S)
    assert (rig.told(), asked(rig.clients[0]), asked(rig.clients[1])) == ([], [], [])


def test_nothing_is_left_when_nobody_wants_the_topic(rig: ElectionRig) -> None:
    """No election, no timer that asks for anybody, nothing to say."""
    rig.hear(5)
    rig.clients[0].client.deliver(want(1, 3))
    rig.clients[0].client.lose()
    assert rig.elections.summary().topics_count == 0
    rig.clock.advance(2 * PATIENCE_S)
    rig.told()
    rig.clock.advance(10 * REPEAT_S)
    assert rig.told() == []
    assert rig.elections.summary().rivals_count == 0
