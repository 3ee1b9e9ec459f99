"""Ack leases on the wire: who asks for one, what a worker that holds too long is told, and how it gets more time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.core import ack_lease
from proxy.net.subscription.ack_leases import GRACE_S, LATE_S
from proxy.net.subscription.membership import Membership
from proxy.net.subscription.order_book import LimitsWanted
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, T, single
from tests.net.test_subscription_keys import asking

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.net.events import Event

LEASE = {"ack_lease_ms": 2_000}
KEYS = 12
PERMITS = 99


def held_by_two(rig: SubscriptionRig, **first: Any) -> tuple[Any, Any, list[int]]:
    """Workers a and b with messages of many keys, and what a holds; b has acknowledged all it had."""
    a, b = rig.worker("a", permits=PERMITS, **first), rig.worker("b", permits=PERMITS)
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(KEYS)))
    held = a.entries()
    b.ack(*b.entries())
    assert 0 < len(held) < KEYS
    return a, b, held


def events(rig: SubscriptionRig) -> list[Event]:
    """All that are kept."""
    return rig.subscriptions.events.listen(lambda: None, after=0).take()[1]


@pytest.mark.parametrize(
    ("settings", "first"),
    [(LEASE, {}), ({"key_policies": ("* s ack_lease_ms=2000",)}, {}), ({}, {"metadata": asking(ack_lease_ms=2_000)})],
)
def test_what_a_worker_holds_too_long_goes_to_others(settings: dict[str, Any], first: dict[str, Any]) -> None:
    """Its consumer is closed, as by a broker; the others have its messages in the same moment, and not before."""
    rig = SubscriptionRig(**settings)
    a, b, held = held_by_two(rig, **first)
    rig.clock.advance(1.999)
    assert b.entries() == []
    assert a.answers() == []
    rig.clock.advance(0.001)
    assert a.answers() == [T.CLOSE_CONSUMER]
    assert b.entries() == held
    told = rig.statistics().subscriptions[0]
    assert told.ack_leases_lost == 1
    (lost,) = [event for event in events(rig) if event.kind == "ack_lease_lost"]
    assert lost.facts["worker"] == "a"
    assert lost.facts["messages"] == len(held)
    assert lost.facts["position"] == f"{LEDGER}:{held[0]}"
    assert lost.facts["held_s"] == pytest.approx(2.0)
    assert [event.facts["reason"] for event in events(rig) if event.kind == "worker_left"] == ["its ack lease ended"]


def test_late_acks_count_for_nothing() -> None:
    """Of the former consumer, and of the one that its client opens next; the new holder's count."""
    rig = SubscriptionRig(**LEASE)
    a, b, held = held_by_two(rig)
    rig.clock.advance(2.0)
    assert rig.link.acked()
    a.ack(*held)
    again = rig.worker("a", permits=PERMITS)
    again.ack(*held)
    assert rig.link.acked() == []
    assert b.entries() == held
    b.ack(*held)
    assert sorted(rig.link.acked()) == [(LEDGER, entry) for entry in held]


def test_asking_for_the_last_message_id_gives_more_time() -> None:
    """The broker answers it, and all that the consumer holds has a lease from now."""
    rig = SubscriptionRig(**LEASE)
    a, b, held = held_by_two(rig)
    for _ in range(5):
        rig.clock.advance(1.5)
        a.ask_last_message_id()
    assert a.answers() == [T.GET_LAST_MESSAGE_ID_RESPONSE] * 5
    rig.clock.advance(1.999)
    assert b.entries() == []
    rig.clock.advance(0.001)
    assert b.entries() == held
    assert rig.statistics().subscriptions[0].ack_lease_extensions == 5


def test_more_time_is_given_though_the_broker_cannot_be_asked() -> None:
    """The worker gets the error, and keeps its messages."""
    rig = SubscriptionRig(**LEASE)
    a, b, _ = held_by_two(rig)
    rig.clock.advance(1.5)
    rig.link.lose()
    a.ask_last_message_id()
    assert a.answers() == [T.ERROR]
    rig.clock.advance(1.0)
    assert a.answers() == []
    assert b.entries() == []


def test_there_is_one_timer_however_much_is_held() -> None:
    """And none without a lease, or when nobody is left."""
    rig = SubscriptionRig()
    held_by_two(rig)
    without = rig.clock.waiting
    rig = SubscriptionRig(**LEASE)
    a, b, held = held_by_two(rig)
    assert rig.clock.waiting == without + 1
    a.ack(*held)
    a.close()
    b.close()
    assert rig.count == 0
    rig.clock.advance(10.0)
    assert rig.clock.waiting == 0


def test_several_that_hold_too_long_get_nothing_of_each_other() -> None:
    """They leave together: what they held waits, and goes to who comes next, at the first attempt after theirs."""
    rig = SubscriptionRig(**LEASE)
    a, b = rig.worker("a", permits=PERMITS), rig.worker("b", permits=PERMITS)
    c = rig.worker("c")
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(KEYS)))
    held = sorted(a.entries() + b.entries())
    rig.clock.advance(2.0)
    assert (a.entries(), b.entries()) == ([], [])
    c.flow(PERMITS)
    came = c.messages()
    assert [message.entry for message in came if message.redeliveries == 1] == held
    assert [message.entry for message in came] == list(range(KEYS))
    rig.clock.advance(1.0)
    assert c.answers() == []


def test_who_has_lost_its_lease_gets_nothing_until_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """One leaves in each turn: no other that was told so gets what that one held, which comes again once, not more."""
    rig = SubscriptionRig(**LEASE)
    monkeypatch.setattr(rig.subscriptions.slices, "_slice_s", 0.0)
    late = [rig.worker(f"late-{number}", permits=PERMITS) for number in range(4)]
    well = rig.worker("well")
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(4 * KEYS)))
    held = sorted(entry for each in late for entry in each.entries())
    leaving: list[int] = []
    given: list[object] = []
    lose_some = Membership._lose_some

    def step(membership: Membership, end: float) -> bool:
        more = lose_some(membership, end)
        leaving.append(len(membership._lost))
        given.extend(part for subscriber, _ in membership._lost for part in subscriber.worker.outbox)  # type: ignore[union-attr]
        return more

    monkeypatch.setattr(Membership, "_lose_some", step)
    rig.clock.advance(2.0)
    assert leaving == [3, 2, 1, 0]
    assert given == []
    assert [(each.answers(), each.messages()) for each in late] == [([T.CLOSE_CONSUMER], [])] * 4
    well.flow(PERMITS)
    came = well.messages()
    assert [each.entry for each in came] == list(range(4 * KEYS))
    assert [each.entry for each in came if each.redeliveries] == held
    assert {each.redeliveries for each in came} == {0, 1}


def test_what_was_to_leave_with_the_turn_is_not_sent_to_a_consumer_that_ended_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when its permission is revoked: its connection stays. It was never sent, so it is no redelivery elsewhere."""
    rig = SubscriptionRig()
    monkeypatch.setattr(rig.subscriptions.slices, "_slice_s", 0.0)
    a, b = rig.worker("a"), rig.worker("b", permits=PERMITS)
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(KEYS)))
    before = b.entries()
    a.port.flow(PERMITS)
    a.port.lost("its permission was revoked")
    rig.clock.settle()
    assert a.messages() == []
    came = b.messages()
    assert sorted(before + [each.entry for each in came]) == list(range(KEYS))
    assert {each.redeliveries for each in came} == {0}


def test_a_lease_is_lost_once_however_long_its_worker_takes_to_leave() -> None:
    """Thousands leave in slices: a look in between must not count for a quarantine once more."""
    rig = SubscriptionRig(**LEASE)
    a, b, held = held_by_two(rig)
    other = rig.worker("c")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Membership, "_begin_losing", lambda _: None)
        rig.clock.advance(3.0)
    assert a.answers() == [T.CLOSE_CONSUMER]
    assert rig.statistics().subscriptions[0].ack_leases_lost == 1
    other.lose()
    rig.clock.settle()
    assert b.entries() == held


def test_the_last_worker_that_loses_its_lease_ends_the_subscription() -> None:
    """As with its departure; the broker has what it held."""
    rig = SubscriptionRig(**LEASE)
    worker = rig.worker("a", permits=PERMITS)
    rig.link.deliver((0, single("k")))
    rig.clock.advance(2.0)
    assert worker.answers() == [T.CLOSE_CONSUMER]
    assert rig.count == 0


def test_a_gateway_that_stood_still_takes_nothing_away_at_once() -> None:
    """What workers sent meanwhile is unread then: it counts if it is read soon."""
    rig = SubscriptionRig(**LEASE)
    a, b, held = held_by_two(rig)
    rig.clock.oversleep(2.0 + LATE_S + 0.1)
    rig.clock.advance(0.0)
    assert a.answers() == []
    rig.worker("c").close()
    rig.clock.advance(0.1)
    a.ack(*held)
    rig.clock.advance(GRACE_S)
    assert a.answers() == []
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(KEYS, 2 * KEYS)))
    assert a.entries()
    rig.clock.oversleep(60.0)
    rig.clock.advance(GRACE_S)
    assert a.answers() == [T.CLOSE_CONSUMER], "one that is not heard then loses it"
    assert b.entries()


def test_an_operator_changes_the_lease() -> None:
    """A shorter one ends what is held already, a longer one saves it, none is none."""
    rig = SubscriptionRig()
    a, b, held = held_by_two(rig)
    rig.clock.advance(1.0)
    rig.subscription.orders.change_limits(LimitsWanted(ack_lease_ms=3_000))
    rig.clock.advance(1.0)
    rig.subscription.orders.change_limits(LimitsWanted(ack_lease_ms=5_000))
    rig.clock.advance(2.0)
    rig.subscription.orders.change_limits(LimitsWanted())
    rig.clock.advance(60.0)
    assert a.answers() == []
    rig.subscription.orders.change_limits(LimitsWanted(ack_lease_ms=1_000))
    rig.clock.advance(0.0)
    assert a.answers() == [T.CLOSE_CONSUMER]
    assert b.entries() == held


def test_a_lease_that_the_configuration_brings_later_holds_at_once() -> None:
    """For what is held already, too."""
    rig = SubscriptionRig()
    a, b, held = held_by_two(rig)
    rig.subscription.orders.reconfigure(SubscriptionSettings(ack_lease_ms=2_000))
    rig.clock.advance(2.0)
    assert a.answers() == [T.CLOSE_CONSUMER]
    assert b.entries() == held


def test_looks_are_so_far_apart_that_they_cost_little() -> None:
    """A client chooses the lease: one of a millisecond makes no thousand looks a second."""
    rig = SubscriptionRig(ack_lease_ms=1)
    worker = rig.worker("a", permits=PERMITS)
    looks = 0
    overdue = ack_lease.overdue

    def counted(dispatcher: Dispatcher, now: float) -> list[Any]:
        nonlocal looks
        looks += 1
        return overdue(dispatcher, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ack_lease, "overdue", counted)
        rig.clock.advance(1.0)
    assert looks == pytest.approx(20, abs=1)
    rig.link.deliver((0, single("k")))
    rig.clock.advance(0.05)
    assert worker.answers() == [T.CLOSE_CONSUMER]


def test_without_order_there_is_no_lease() -> None:
    """No key waits for a worker there; and who asks for one is told so."""
    rig = SubscriptionRig(**LEASE)
    worker = rig.worker("a", permits=PERMITS, keySharedMeta=pb.KeySharedMeta(allowOutOfOrderDelivery=True))
    rig.link.deliver((0, single("k")))
    rig.clock.advance(60.0)
    assert worker.answers() == []


@pytest.mark.parametrize("value", ["-1", "soon", "86400001"])
def test_a_lease_that_is_none_is_refused(value: str) -> None:
    """With its bounds."""
    rig = SubscriptionRig()
    code, text = rig.subscribe("a", metadata=asking(ack_lease_ms=value)).error()
    assert code == pb.NotAllowedError
    assert "from 0 to 86,400,000" in text
