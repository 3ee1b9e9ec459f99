"""What a subscription does before it reads: it waits for transactions that were open when it was taken over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from proxy.core.key_verdict import explained
from proxy.core.verdict import Verdict
from proxy.errors import KeylineError, UpstreamUnavailable
from proxy.net.subscription.summary import subscription_summary, surroundings_of
from proxy.net.subscription.takeover import AGAIN_S, AGAIN_S_MAX, FIRST_S, SETTLE_S
from proxy.net.subscription.takeover_asks import (
    AT_ONCE,
    CROWD,
    CROWD_AGAIN_S,
    PATIENCE_S,
    SILENT_S,
    WITHOUT_S,
    MayNotAsk,
    NotTold,
    TakeoverAsks,
    WithoutTransactions,
)
from tests.net.fakes import FakeClock
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import TOPIC, T, single

Answered = Callable[[int | Exception], None]
LOOK_S = AGAIN_S_MAX + 0.1


@dataclass
class Stats:
    """The brokers' admin API: the test answers."""

    asked: list[tuple[tuple[str, str], Answered]] = field(default_factory=list)
    coordinators: list[Answered] = field(default_factory=list)
    total: int = 0

    def of_subscription(self, key: tuple[str, str], answered: Answered) -> None:
        """As `TransactionStats` says."""
        self.total += 1
        self.asked.append((key, answered))

    def of_coordinators(self, answered: Answered) -> None:
        """As `TransactionStats` says."""
        self.coordinators.append(answered)

    def tell(self, *answers: int | Exception) -> None:
        """Answer the oldest questions."""
        for answer in answers:
            _, answered = self.asked.pop(0)
            answered(answer)


class Scene:
    """A subscription that is taken over by its first worker."""

    def __init__(self, **settings: object) -> None:
        self.rig = SubscriptionRig(**settings)
        self.stats = Stats()
        self.rig.subscriptions.services.takeovers = TakeoverAsks(self.stats, self.rig.clock)
        self.ear = self.rig.subscriptions.events.listen(lambda: None)
        self.worker = self.rig.worker("a", permits=100)

    def tell(self, answer: int | Exception) -> None:
        """Answer what was asked, and see what follows from it in this turn."""
        self.stats.tell(answer)
        self.rig.clock.settle()

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.rig.clock.advance(seconds)
        self.rig.clock.settle()

    def reads(self) -> bool:
        """Whether the broker was granted permits."""
        return bool(self.rig.link.sent(T.FLOW))

    @property
    def at_risk(self) -> int:
        """As metrics tell."""
        return subscription_summary(self.rig.subscription).takeovers_at_risk

    @property
    def verdict(self) -> Verdict:
        """What operators are told of the subscription."""
        return self.rig.statistics().subscriptions[0].dispatcher.verdict

    def happened(self) -> list[str]:
        """What events told of it."""
        return [event.kind for event in self.ear.take()[1] if event.kind.startswith("transactions_")]


def test_nothing_is_read_before_the_broker_has_answered() -> None:
    """The worker has joined; without open transactions it gets its messages in the turn of the answer."""
    scene = Scene()
    assert scene.stats.asked[0][0] == (TOPIC, "s")
    assert not scene.reads()
    assert "asks the broker whether transactions were open" in scene.verdict.says
    scene.tell(0)
    assert scene.reads()
    assert scene.verdict.state != "open_transactions"
    assert (scene.at_risk, scene.happened()) == (0, [])


def test_nothing_is_read_while_transactions_are_open() -> None:
    """It asks again, more and more rarely, and reads soon after the last has ended."""
    scene = Scene()
    scene.tell(2)
    assert scene.happened() == ["transactions_open"]
    assert subscription_summary(scene.rig.subscription).takeover_transactions == 2
    pauses = []
    for answer in (2, 1, 1, 1, 1):
        waited = 0.0
        while not scene.stats.asked:
            scene.advance(AGAIN_S)
            waited += AGAIN_S
        pauses.append(waited)
        scene.tell(answer)
        assert not scene.reads()
    assert pauses == [AGAIN_S, 2 * AGAIN_S, 4 * AGAIN_S, AGAIN_S_MAX, AGAIN_S_MAX]
    scene.advance(LOOK_S)
    scene.tell(0)
    assert not scene.reads()
    scene.advance(SETTLE_S)
    assert scene.reads()
    assert (scene.at_risk, scene.happened(), scene.verdict.state) == (0, [], "idle")


def test_an_operator_is_told_what_it_waits_for() -> None:
    """Of the subscription and of each key, with the longest it can take."""
    scene = Scene(takeover_wait_s=120)
    scene.tell(2)
    scene.advance(AGAIN_S)
    told = "waits for 2 transactions that were open when it took the subscription over, 119 s at most"
    state = scene.rig.subscription.state
    on_key = explained(state.dispatcher, 7, state.now(), surroundings_of(scene.rig.subscription)).verdict
    assert on_key is not None
    for verdict in (scene.verdict, on_key):
        assert verdict.state == "open_transactions"
        assert told in verdict.says


def test_it_is_asked_once_for_a_subscription() -> None:
    """What its workers do afterwards the gateway sees; a lost connection changes nothing of that."""
    scene = Scene()
    scene.tell(0)
    scene.rig.link.lose()
    scene.advance(60)
    scene.rig.worker("b")
    assert len(scene.rig.link.sent(T.SUBSCRIBE)) == 1
    assert scene.stats.asked == []


def test_nothing_overtakes_after_the_wait() -> None:
    """The broker sends what was aborted first, and so do we."""
    scene = Scene()
    scene.tell(1)
    scene.advance(LOOK_S)
    scene.tell(0)
    scene.advance(SETTLE_S)
    scene.rig.link.deliver((0, single("k")), (1, single("k")))
    assert scene.worker.entries() == [0, 1]


def test_a_wait_has_an_end() -> None:
    """Who acknowledges past the gateway may always have a transaction open: so it goes on, and says so."""
    scene = Scene(takeover_wait_s=60)
    scene.tell(1)
    for _ in range(14):
        scene.advance(4.1)
        if scene.stats.asked:
            scene.tell(1)
    assert not scene.reads()
    scene.advance(3)
    assert scene.reads()
    assert scene.at_risk == 1
    assert scene.happened() == ["transactions_open", "transactions_left_open"]


def test_no_answer_is_awaited_for_long() -> None:
    """As behind ten thousand others at a broker that is slow."""
    scene = Scene()
    scene.advance(FIRST_S - 1)
    assert not scene.reads()
    scene.advance(1)
    assert scene.reads()
    assert scene.at_risk == 1
    scene.tell(3)
    assert scene.verdict.state != "open_transactions"


def test_a_gateway_that_may_not_ask_goes_on() -> None:
    """At once, and counted; once there was a number, the wait goes on, whatever the errors."""
    for refusal in (MayNotAsk("403"), NotTold("400")):
        scene = Scene()
        scene.tell(refusal)
        assert (scene.reads(), scene.at_risk) == (True, 1)
    scene = Scene()
    scene.tell(1)
    for error in (KeylineError("500"), MayNotAsk("403")):
        scene.advance(LOOK_S)
        scene.tell(error)
    scene.advance(2 * LOOK_S)
    assert not scene.reads()


@pytest.mark.parametrize("error", [UpstreamUnavailable("connection refused"), KeylineError("500")])
def test_an_admin_api_that_fails_is_awaited_for_a_short_time(error: KeylineError) -> None:
    """A broker that starts answers its clients before others."""
    scene = Scene()
    waited = 0.0
    while not scene.reads():
        if scene.stats.asked:
            scene.tell(error)
        scene.advance(0.5)
        waited += 0.5
        assert waited < 2 * PATIENCE_S
    assert waited >= PATIENCE_S
    assert scene.at_risk == 1


@pytest.mark.parametrize("settings", [{"takeover_wait_s": 0}, {"ordering_mode": "unordered"}])
def test_it_is_not_asked_where_it_does_not_matter(settings: dict[str, object]) -> None:
    """Switched off, or no order is asked for."""
    scene = Scene(**settings)
    assert (scene.reads(), scene.stats.asked, scene.at_risk) == (True, [], 0)


def test_a_subscription_that_ends_waits_no_more() -> None:
    """The answer that comes then is for none of them, and the next one is asked for anew."""
    scene = Scene()
    scene.tell(1)
    scene.worker.close()
    assert scene.rig.count == 0
    scene.advance(LOOK_S)
    assert scene.stats.asked == []
    scene.rig.worker("b")
    assert len(scene.stats.asked) == 1
    scene.rig.subscription.shut()
    scene.tell(1)
    scene.advance(LOOK_S)
    assert scene.stats.asked == []


# ---- for all subscriptions of a gateway -----------------------------------------------------------------------


class Crowd:
    """Many subscriptions that are taken over at once."""

    def __init__(self, count: int) -> None:
        self.clock = FakeClock()
        self.stats = Stats()
        self.asks = TakeoverAsks(self.stats, self.clock)
        self.told: dict[str, int | Exception] = {}
        self.come(*map(str, range(count)))

    def come(self, *names: str) -> None:
        """More of them."""
        for name in names:
            self.asks.ask((TOPIC, name), lambda told, name=name: self.told.__setitem__(name, told))  # type: ignore[misc]
        self.clock.settle()


def test_few_requests_are_under_way_at_once() -> None:
    """Each answer lets the next one go, in turn; who left is not asked for."""
    crowd = Crowd(AT_ONCE + 2)
    left = crowd.asks.ask((TOPIC, "left"), lambda _told: pytest.fail("it has left"))
    left.cancel()
    crowd.come("last")
    assert len(crowd.stats.asked) == AT_ONCE
    while crowd.stats.asked:
        crowd.stats.tell(0)
        assert len(crowd.stats.asked) <= AT_ONCE
    assert list(crowd.told) == [*map(str, range(AT_ONCE + 2)), "last"]
    assert crowd.stats.total == AT_ONCE + 3
    assert crowd.stats.coordinators == []


def test_a_crowd_asks_the_coordinators() -> None:
    """Without any open transaction it goes on; those who came behind the question are asked for by themselves."""
    crowd = Crowd(AT_ONCE + CROWD)
    (answered,) = crowd.stats.coordinators
    crowd.come("late")
    answered(0)
    assert set(crowd.told) == {str(number) for number in range(AT_ONCE, AT_ONCE + CROWD)}
    crowd.stats.tell(*[1] * AT_ONCE, 0)
    assert crowd.told["late"] == 0
    assert crowd.stats.total == AT_ONCE + 1


@pytest.mark.parametrize("told", [1, KeylineError("500")])
def test_coordinators_that_have_transactions_are_not_asked_again_soon(told: int | KeylineError) -> None:
    """Then each subscription is asked for."""
    crowd = Crowd(AT_ONCE + 3 * CROWD)
    crowd.stats.coordinators.pop()(told)
    crowd.stats.tell(*[0] * CROWD)
    assert len(crowd.told) == CROWD
    assert crowd.stats.coordinators == []
    crowd.clock.advance(CROWD_AGAIN_S)
    crowd.stats.tell(0)
    assert len(crowd.stats.coordinators) == 1


def test_brokers_without_transactions_are_asked_once_in_a_while() -> None:
    """One request for all who are there, and for all who come within a minute."""
    crowd = Crowd(1_000)
    crowd.stats.tell(WithoutTransactions("off"))
    assert crowd.stats.total == AT_ONCE
    assert len(crowd.told) == 1_000 - AT_ONCE + 1
    crowd.stats.tell(*[WithoutTransactions("off")] * (AT_ONCE - 1))
    crowd.clock.advance(WITHOUT_S - 1)
    crowd.come("later")
    assert (crowd.told["later"], crowd.stats.total) == (0, AT_ONCE)
    crowd.clock.advance(2)
    crowd.come("much later")
    assert crowd.stats.total == AT_ONCE + 1
    assert set(crowd.told.values()) == {0}


def test_an_admin_api_that_does_not_tell_is_asked_rarely() -> None:
    """At once if it refuses, after a time if it cannot be reached; and it is trusted again once it answers."""
    crowd = Crowd(1)
    refused = MayNotAsk("403")
    crowd.stats.tell(refused)
    crowd.come("next")
    assert (crowd.told["next"], crowd.stats.total) == (refused, 1)
    crowd.clock.advance(SILENT_S)
    crowd.come("then")
    crowd.stats.tell(0)
    assert crowd.told["then"] == 0
    lost = UpstreamUnavailable("connection refused")
    for _ in range(2):
        crowd.come("first")
        crowd.stats.tell(lost)
        crowd.clock.advance(PATIENCE_S)
    assert crowd.asks.given_up
    crowd.come("second")
    assert (crowd.told["second"], crowd.stats.asked) == (lost, [])


def test_one_broker_that_fails_fails_those_alone_that_it_was_asked_for() -> None:
    """Behind the address of the admin API is any of them; and each subscription redirects to its own."""
    crowd = Crowd(5 * AT_ONCE)
    lost = UpstreamUnavailable("connection refused")
    for _ in range(3 * AT_ONCE):
        crowd.stats.tell(lost, 0)
        crowd.clock.advance(1.0)
        if not crowd.stats.asked:
            break
    assert crowd.stats.total == 5 * AT_ONCE
    assert list(crowd.told.values()).count(0) == 5 * AT_ONCE // 2


def test_an_admin_api_that_hangs_is_not_waited_for_by_all_in_turn() -> None:
    """The second that is not answered in time stands for the rest."""
    crowd = Crowd(5 * AT_ONCE)
    for _ in range(2):
        crowd.clock.advance(PATIENCE_S)
        crowd.stats.tell(*[UpstreamUnavailable("no answer")] * AT_ONCE)
    assert len(crowd.told) == 5 * AT_ONCE
    assert crowd.stats.total == 2 * AT_ONCE


def test_a_failure_of_long_ago_does_not_count() -> None:
    """An hour later the admin API may fail for as long as the first time."""
    crowd = Crowd(1)
    crowd.stats.tell(UpstreamUnavailable("connection refused"))
    crowd.clock.advance(3_600.0)
    crowd.come("later", "besides")
    assert not crowd.asks.given_up
    crowd.stats.tell(UpstreamUnavailable("connection refused"), 1)
    assert crowd.told["besides"] == 1
    assert not crowd.asks.given_up


def test_a_worker_is_not_part_of_the_wait() -> None:
    """One that leaves and one that comes meanwhile find the subscription as it is."""
    scene = Scene()
    scene.tell(1)
    other: Worker = scene.rig.worker("b", permits=10)
    scene.worker.close()
    assert not scene.reads()
    scene.advance(LOOK_S)
    scene.tell(0)
    scene.advance(SETTLE_S)
    scene.rig.link.deliver((0, single("k")))
    assert other.entries() == [0]
