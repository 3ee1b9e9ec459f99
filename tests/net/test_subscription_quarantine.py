"""Quarantine on the wire: a worker that loses its ack lease again and again is connected, and gets nothing for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.core.explain import SlotState, explain_slot
from proxy.core.verdict import Verdict
from proxy.net.subscription.membership import Membership
from proxy.net.subscription.summary import subscription_summary
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import T, single
from tests.net.test_subscription_keys import asking

if TYPE_CHECKING:
    from tests.net.subscription_rig import Worker

PERMITS = 99
ONCE = {"ack_lease_ms": 2_000, "quarantine_after": 1, "quarantine_ms": 30_000}
KEYS = 12


def hung(rig: SubscriptionRig) -> tuple[Worker, Worker]:
    """Workers a and b with messages of many keys; a has lost its lease, and b acknowledges all that comes."""
    a, b = rig.worker("a", permits=PERMITS), rig.worker("b", permits=PERMITS)
    offer(rig)
    assert a.entries()
    b.ack(*b.entries())
    rig.clock.advance(2.0)
    assert a.answers() == [T.CLOSE_CONSUMER]
    b.ack(*b.entries())
    return a, b


def offer(rig: SubscriptionRig, first: int = 0) -> None:
    """New messages of many keys."""
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(first, first + KEYS)))


def kinds(rig: SubscriptionRig) -> list[tuple[str, str | None]]:
    """Events about quarantine, with the worker."""
    events = rig.subscriptions.events.listen(lambda: None, after=0).take()[1]
    return [(event.kind, event.facts["worker"]) for event in events if "quarantine" in event.kind]


def test_a_quarantined_worker_gets_no_keys_until_it_is_over() -> None:
    """Across its reconnects, by its name; then it takes its share, without being told again that it is subscribed."""
    rig = SubscriptionRig(**ONCE)
    _, b = hung(rig)
    again = rig.worker("a", permits=PERMITS)
    offer(rig, KEYS)
    assert again.entries() == []
    assert b.entries() == list(range(KEYS, 2 * KEYS))
    b.ack(*range(KEYS, 2 * KEYS))
    again.close()
    again.answers()
    third = rig.worker("a", permits=PERMITS)
    rig.clock.advance(29.999)
    offer(rig, 2 * KEYS)
    assert third.entries() == []
    b.ack(*b.entries())
    rig.clock.advance(0.001)
    offer(rig, 3 * KEYS)
    assert third.entries()
    assert third.answers() == []
    assert kinds(rig) == [("worker_quarantined", "a"), ("quarantine_ended", "a")]


def test_it_takes_as_many_lost_leases_as_the_policy_says() -> None:
    """Until then the client comes again and gets its keys."""
    rig = SubscriptionRig(**{**ONCE, "quarantine_after": 2})
    _, b = hung(rig)
    again = rig.worker("a", permits=PERMITS)
    offer(rig, KEYS)
    assert again.entries()
    b.ack(*b.entries())
    rig.clock.advance(2.0)
    assert again.answers() == [T.CLOSE_CONSUMER]
    b.ack(*b.entries())
    third = rig.worker("a", permits=PERMITS)
    offer(rig, 2 * KEYS)
    assert third.entries() == []


def test_the_only_worker_is_not_quarantined() -> None:
    """Nor any of several that lose their leases all at once: the cause is elsewhere."""
    rig = SubscriptionRig(**ONCE)
    worker = rig.worker("a", permits=PERMITS)
    rig.link.deliver((0, single("k")))
    rig.clock.advance(2.0)
    assert worker.answers() == [T.CLOSE_CONSUMER]
    again = rig.worker("a", permits=PERMITS)
    rig.link.deliver((0, single("k")))
    assert again.entries() == [0]
    rig = SubscriptionRig(**ONCE)
    workers = [rig.worker(name, permits=PERMITS) for name in "abcd"]
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(4 * KEYS)))
    assert all(worker.entries() for worker in workers)
    rig.clock.advance(2.0)
    assert kinds(rig) == []
    assert rig.count == 0


def test_no_more_than_half_are_quarantined() -> None:
    """Of four of which three hang at once, one: no more than keep their leases."""
    rig = SubscriptionRig(**ONCE)
    *hanging, good = [rig.worker(name, permits=PERMITS) for name in "abcd"]
    offer(rig)
    assert all(worker.entries() for worker in hanging)
    good.ack(*good.entries())
    rig.clock.advance(2.0)
    assert kinds(rig) == [("worker_quarantined", "a")]


def test_when_the_others_leave_the_quarantined_work() -> None:
    """Late is better than never."""
    rig = SubscriptionRig(**ONCE)
    _, b = hung(rig)
    again = rig.worker("a", permits=PERMITS)
    b.close()
    rig.clock.advance(0.0)
    rig.link.deliver((KEYS, single("k")))
    assert again.entries() == [KEYS]


def test_an_operator_ends_a_quarantine() -> None:
    """As an exclusion; and excludes a worker that is in one, which then stays out when that is over."""
    rig = SubscriptionRig(**ONCE)
    hung(rig)
    again = rig.worker("a", permits=PERMITS)
    assert rig.subscription.orders.exclude("a", excluded=True) == 0
    rig.clock.advance(60.0)
    offer(rig, KEYS)
    assert again.entries() == []
    dispatcher = rig.subscription.state.dispatcher
    assert (dispatcher.excluded, dispatcher.quarantined) == (1, {})
    rig.subscription.orders.exclude("a", excluded=False)
    rig.clock.settle()
    offer(rig, 2 * KEYS)
    assert again.entries()
    rig = SubscriptionRig(**ONCE)
    hung(rig)
    again = rig.worker("a", permits=PERMITS)
    rig.subscription.orders.exclude("a", excluded=False)
    rig.clock.settle()
    offer(rig, KEYS)
    assert again.entries()


def test_it_is_told_everywhere() -> None:
    """Statistics, metrics, verdict, and why a key waits for which only a quarantined worker would be there."""
    rig = SubscriptionRig(**ONCE)
    _, b = hung(rig)
    rig.worker("a", permits=PERMITS)
    told: Any = rig.statistics().subscriptions[0]
    assert told.quarantines == 1
    verdict: Verdict = told.dispatcher.verdict
    assert (verdict.state, verdict.worker) == ("quarantined", "a")
    assert verdict.says.startswith("a lost its ack lease too often, and gets no keys for a time")
    assert verdict.command is not None
    assert verdict.command.endswith(" a --undo")
    summary = subscription_summary(rig.subscription)
    assert (summary.quarantines, summary.dispatcher.quarantined_workers) == (1, 1)
    b.lose()
    found = explain_slot(rig.subscription.state.dispatcher, 5, rig.clock.now())
    assert found.unblocks.startswith("nothing waits; before a next message can go, a worker must join, or come out of")
    assert SlotState.QUARANTINED.value == "quarantined"


def test_a_quarantine_is_over_with_the_policy_that_it_was_for() -> None:
    """A worker asked for one of a day and has gone: the others must not stand idle for it when they come again."""
    rig = SubscriptionRig()
    asked = asking(ack_lease_ms=2_000, quarantine_after=1, quarantine_ms=86_400_000)
    first = rig.worker("first", metadata=asked)
    _, b = hung(rig)
    assert kinds(rig) == [("worker_quarantined", "a")]
    first.lose()
    b.close()
    assert rig.count == 0
    a, b = rig.worker("a", permits=PERMITS), rig.worker("b", permits=PERMITS)
    offer(rig, KEYS)
    assert a.entries()
    assert b.entries()


def test_thousands_that_go_at_once_are_counted_once() -> None:
    """All of one name, by one connection that closes: to count them for each would stop the gateway for seconds."""
    rig = SubscriptionRig(**ONCE)
    hung(rig)
    many = [rig.worker("a") for _ in range(50)]
    told = subscription_summary(rig.subscription).dispatcher
    assert (told.quarantined_workers, len(rig.subscription.membership.excluded)) == (1, 50)
    counts = 0
    count = Membership.count_shut_out

    def counted(membership: Membership) -> None:
        nonlocal counts
        counts += 1
        count(membership)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Membership, "count_shut_out", counted)
        for worker in many:
            worker.port.lost("gone")
        rig.clock.settle()
    assert counts == 1
    assert subscription_summary(rig.subscription).dispatcher.quarantined_workers == 0
