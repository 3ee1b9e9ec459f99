"""The gateway's consumer comes back while the broker may keep its former one: it waits for that one's end (G2)."""

from __future__ import annotations

import pytest

from proxy.net.subscription.former import KEEP_ALIVE_S, MARGIN_S, Formers
from proxy.net.subscription.summary import subscription_summary
from proxy.net.subscription.upstream import ASK_BACKOFF_MS_MAX
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, TOPIC, FakeBrokerLink, T, batch, single

STANDS = pb.ConsumerBusy, "Subscription is of different type"
GONE_S = 2 * KEEP_ALIVE_S + MARGIN_S
MIXED = batch([("a", b"0"), ("b", b"1")])


def fed(*entries: bytes, **settings: object) -> tuple[SubscriptionRig, Worker]:
    """A worker that has room for more than it was sent."""
    rig = SubscriptionRig(**settings)
    worker = rig.worker("a", permits=10)
    rig.link.deliver(*enumerate(entries))
    worker.messages()
    return rig, worker


def cut_alone(rig: SubscriptionRig) -> FakeBrokerLink:
    """The connection ends here, and the broker keeps the consumer."""
    old, new = rig.link, rig.brokers.new_link()
    new.refusals[T.SUBSCRIBE] = STANDS
    old.lose()
    rig.clock.advance(0)
    return new


def test_nothing_is_read_while_the_broker_has_the_former_consumer() -> None:
    """It asks again and again whether it is alone, and says what it waits for; then it comes as one that shares."""
    rig, worker = fed(MIXED)
    link = cut_alone(rig)
    rig.clock.advance(10)
    shown = rig.statistics().subscriptions[0]
    assert shown.upstream_state == "backing_off"
    assert "the gateway's former one, whose connection was lost" in shown.upstream_error
    assert "55 s more at most" in shown.upstream_error
    assert shown.dispatcher.verdict.state == "former_consumer"
    assert "55 s more at most" in shown.dispatcher.verdict.says
    asked = link.modes()
    assert set(asked) == {pb.STICKY}
    assert len(asked) >= 10_000 / ASK_BACKOFF_MS_MAX
    link.refusals.clear()
    rig.clock.advance(ASK_BACKOFF_MS_MAX / 1_000)
    assert link.modes() == [pb.STICKY, pb.AUTO_SPLIT]
    order = [command.type for command in link.log if command.type in (T.CLOSE_CONSUMER, T.FLOW)]
    assert order == [T.CLOSE_CONSUMER, T.FLOW], "the one that asks reads nothing"
    link.deliver((0, MIXED), (1, MIXED))
    assert worker.entries() == [1], "the worker has the first"
    assert subscription_summary(rig.subscription).takeovers_at_risk == 0


def test_the_wait_has_a_bound_and_what_it_risks_is_counted() -> None:
    """Those that share the slots may be direct workers, which stay."""
    rig, _ = fed(MIXED)
    ear = rig.subscriptions.events.listen(lambda: None)
    link = cut_alone(rig)
    rig.clock.advance(GONE_S - 1)
    assert set(link.modes()) == {pb.STICKY}
    rig.clock.advance(1 + ASK_BACKOFF_MS_MAX / 1_000)
    assert link.modes()[-1] == pb.AUTO_SPLIT
    link.refusals.clear()
    rig.clock.advance(GONE_S)
    assert link.modes() == [pb.AUTO_SPLIT]
    assert link.permits() > 0
    assert subscription_summary(rig.subscription).takeovers_at_risk == 1
    assert "consumer_beside" in [event.kind for event in ear.take()[1]]


def test_a_longer_keep_alive_is_waited_for_longer() -> None:
    """Who lengthens the brokers' lengthens the gateway's."""
    rig, _ = fed(MIXED, keep_alive_s=2 * KEEP_ALIVE_S)
    link = cut_alone(rig)
    rig.clock.advance(2 * GONE_S - 2 * MARGIN_S)
    assert set(link.modes()) == {pb.STICKY}


def test_the_broker_that_closed_the_consumer_itself_is_not_asked() -> None:
    """It has none."""
    rig, _ = fed(MIXED)
    rig.link.modes()
    rig.link.close_consumer()
    rig.clock.advance(0)
    assert rig.link.modes() == [pb.AUTO_SPLIT]


def test_any_refusal_but_the_one_that_others_are_there_is_as_ever() -> None:
    """Its words are shown, and it is asked again."""
    rig, _ = fed(MIXED)
    old, new = rig.link, rig.brokers.new_link()
    new.refusals[T.SUBSCRIBE] = (pb.ServiceNotReady, "the topic is loading")
    old.lose()
    rig.clock.advance(1)
    assert "the topic is loading" in rig.statistics().subscriptions[0].upstream_error
    assert set(new.modes()) == {pb.STICKY}


@pytest.mark.parametrize(
    ("entries", "settings", "asks"),
    [
        ([single("k")], {}, True),
        ([MIXED], {}, True),
        ([MIXED], {"ordering_mode": "unordered"}, False),
        ([MIXED], {"migrating_subscriptions": (f"{TOPIC.removeprefix('persistent://')} *",)}, False),
    ],
    ids=["one key", "mixed keys", "unordered", "migrating"],
)
def test_it_asks_where_order_is_at_stake(entries: list[bytes], settings: dict[str, object], *, asks: bool) -> None:
    """Without order keys need not wait; beside direct workers the broker keeps what order there is."""
    rig, _ = fed(*entries, **settings)
    old, new = rig.link, rig.brokers.new_link()
    old.lose()
    rig.clock.advance(0)
    assert new.modes() == ([pb.STICKY] if asks else []) + [pb.AUTO_SPLIT]


def test_one_that_is_not_durable_does_not_ask() -> None:
    """The broker would forget the subscription with the former consumer."""
    rig = SubscriptionRig()
    rig.worker("a", durable=False)
    old, new = rig.link, rig.brokers.new_link()
    old.lose()
    rig.clock.advance(0)
    assert new.modes() == [pb.AUTO_SPLIT]


def test_another_life_of_the_subscription_waits_with_its_workers() -> None:
    """All workers left meanwhile: those that come get what is theirs when the former consumer is gone."""
    rig, worker = fed(MIXED)
    link = cut_alone(rig)
    worker.close()
    assert rig.count == 0
    worker.answers()
    other = rig.subscribe("b")
    rig.clock.advance(5)
    assert set(link.modes()) == {pb.STICKY}
    assert other.commands() == []
    link.refusals.clear()
    rig.clock.advance(ASK_BACKOFF_MS_MAX / 1_000)
    assert other.answers() == [T.SUCCESS]
    assert link.modes() == [pb.STICKY, pb.AUTO_SPLIT]
    assert rig.statistics().subscriptions[0].upstream_state == "ready"


@pytest.mark.parametrize("lost", [True, False])
def test_one_that_is_being_closed_may_stay(*, lost: bool) -> None:
    """Who subscribes before the broker has answered asks, and so does who comes when the connection broke."""
    rig, worker = fed(MIXED)
    rig.link.held.add(T.CLOSE_CONSUMER)
    worker.ack(0)
    worker.close()
    assert rig.count == 0
    rig.link.modes()
    old, new = rig.link, rig.brokers.new_link()
    if lost:
        old.lose()
    rig.worker("b").close()
    assert new.modes() == [pb.STICKY, pb.AUTO_SPLIT]
    rig.worker("c")
    assert new.modes() == [pb.AUTO_SPLIT], "the broker said that none was there"


def test_one_that_was_closed_is_gone() -> None:
    """So who subscribes next need not ask."""
    rig, worker = fed(MIXED)
    worker.ack(0)
    worker.close()
    assert rig.count == 0
    rig.link.modes()
    rig.worker("b")
    assert rig.link.modes() == [pb.AUTO_SPLIT]


def test_a_request_of_unknown_outcome_closes_one_that_may_stay() -> None:
    """A seek without an answer: the connection may be dead for the gateway alone."""
    rig, worker = fed(MIXED)
    rig.link.held |= {T.SEEK, T.CLOSE_CONSUMER}
    worker.seek(5)
    old, new = rig.link, rig.brokers.new_link()
    old.time_out(T.SEEK)
    rig.clock.advance(1)
    assert new.modes() == [pb.STICKY, pb.AUTO_SPLIT]


@pytest.mark.parametrize("first_life", [True, False])
def test_the_one_that_asks_may_become_the_former_one(*, first_life: bool) -> None:
    """Its connection ends before it is closed: the next one waits for that, too, with the workers."""
    rig, worker = fed(MIXED)
    link = cut_alone(rig)
    if first_life:
        worker.close()
        worker.answers()
        worker = rig.subscribe("b")
    link.refusals.clear()
    link.held.add(T.CLOSE_CONSUMER)
    rig.clock.advance(ASK_BACKOFF_MS_MAX / 1_000)
    newest = rig.brokers.new_link()
    newest.refusals[T.SUBSCRIBE] = (pb.ConsumerAssignError, "Range conflict")
    newest.modes()
    link.lose()
    rig.clock.advance(10)
    assert set(newest.modes()) == {pb.STICKY}
    assert worker.commands() == []
    assert "the gateway's former one" in rig.statistics().subscriptions[0].upstream_error
    newest.refusals.clear()
    rig.clock.advance(ASK_BACKOFF_MS_MAX / 1_000)
    assert newest.modes() == [pb.STICKY, pb.AUTO_SPLIT]


def test_nothing_is_counted_where_the_broker_never_said_that_another_is_there() -> None:
    """A topic that could not be loaded for a minute has no consumers."""
    rig, _ = fed(MIXED)
    old, new = rig.link, rig.brokers.new_link()
    new.refusals[T.SUBSCRIBE] = (pb.ServiceNotReady, "the topic is loading")
    old.lose()
    rig.clock.advance(GONE_S + 1)
    new.refusals.clear()
    rig.clock.advance(GONE_S)
    assert new.modes()[-1] == pb.AUTO_SPLIT
    assert subscription_summary(rig.subscription).takeovers_at_risk == 0


def test_a_life_that_begins_when_the_wait_has_ended_counts_what_it_risks() -> None:
    """The one before was told that another is there."""
    rig, worker = fed(MIXED)
    link = cut_alone(rig)
    rig.clock.advance(GONE_S - 1)
    worker.close()
    link.refusals.clear()
    rig.clock.advance(2)
    link.modes()
    rig.worker("b")
    assert link.modes() == [pb.AUTO_SPLIT]
    assert subscription_summary(rig.subscription).takeovers_at_risk == 1


def test_a_life_without_order_does_not_ask_for_one_that_had_it() -> None:
    """It would wait for nothing."""
    rig, worker = fed(MIXED)
    link = cut_alone(rig)
    worker.close()
    link.refusals.clear()
    link.modes()
    rig.worker("b", durable=False)
    assert link.modes() == [pb.AUTO_SPLIT]


def test_a_subscribe_without_an_answer_may_leave_one_too() -> None:
    """The broker may have carried it out before the connection ended."""
    rig, _ = fed(MIXED)
    link = cut_alone(rig)
    link.refusals.clear()
    link.held.add(T.SUBSCRIBE)
    rig.clock.advance(GONE_S - 4)
    newest = rig.brokers.new_link()
    link.lose()
    rig.clock.advance(5)
    assert newest.modes() == [pb.STICKY, pb.AUTO_SPLIT]


def test_those_that_are_waited_for_no_longer_are_forgotten() -> None:
    """Subscriptions come and go under ever new names."""
    clock = FakeClock()
    formers = Formers(clock)
    first, second = (TOPIC, "first"), (TOPIC, "second")
    formers.add(first, 10.0)
    assert formers.left_s(first) == 10.0
    clock.advance(10)
    assert formers.left_s(first) == 0.0
    assert formers.find(first) is not None, "who comes now should know what it risks"
    clock.advance(10)
    formers.add(second, 10.0)
    assert formers.find(first) is None
    assert len(formers) == 1
    formers.remove(second)
    formers.remove(second)
    assert len(formers) == 0


def test_acks_of_the_meantime_reach_the_broker_when_it_is_back() -> None:
    """A worker gets on with what it has."""
    rig, worker = fed(MIXED)
    link = cut_alone(rig)
    worker.ack(0)
    rig.clock.advance(5)
    assert link.acked() == []
    link.refusals.clear()
    rig.clock.advance(ASK_BACKOFF_MS_MAX / 1_000)
    assert link.acked() == [(LEDGER, 0)]
