"""Attempts over the lives of a subscription: workers that are lost or close, one after another or each alone."""

from __future__ import annotations

import pytest

from proxy.core.earlier_attempts import KEPT_S
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, single
from tests.net.test_subscription_dead_letters import GRAVE, receipt

ATTEMPTS = 3


def lone(rig: SubscriptionRig, *, entries: int = 2) -> tuple[Worker, list[int]]:
    """The only worker comes, and the broker sends all that is not acknowledged; what the worker gets."""
    worker = rig.worker("a", permits=50)
    rig.link.deliver(*[(entry, single("k", b"%d" % entry)) for entry in range(entries)])
    return worker, worker.entries()


def lives(rig: SubscriptionRig, end: str) -> int:
    """How often a lone worker gets the first entry, at which it ends each time."""
    for life in range(10):
        worker, got = lone(rig)
        if 0 not in got:
            return life
        getattr(worker, end)()
        assert rig.count == 0, "the subscription has ended with it"
        rig.clock.advance(10)
    raise AssertionError("it went round for ever")


@pytest.mark.parametrize(("end", "deliveries"), [("lose", ATTEMPTS), ("close", ATTEMPTS + 1)])
def test_a_message_at_which_a_lone_worker_ends_goes_to_the_dead_letters(end: str, deliveries: int) -> None:
    """The subscription ends with it each time; the message goes when the next one comes, and its key goes on."""
    rig = SubscriptionRig(dead_letter_after=ATTEMPTS)
    assert lives(rig, end) == deliveries
    assert rig.brokers.others[-1] == GRAVE
    assert len(rig.link.published) == 1
    receipt(rig)
    assert rig.link.acked() == [(LEDGER, 0)]
    (worker,) = rig.subscription.subscribers.values()
    assert worker.unacked == 1, "what lay behind it"


def test_workers_that_close_one_after_another_leave_nothing_for_the_dead_letters() -> None:
    """The messages wander to those that remain, each of which closes soon."""
    rig = SubscriptionRig(dead_letter_after=1)
    workers = [rig.worker(f"w{number}", permits=50) for number in range(10)]
    rig.link.deliver(*[(entry, single(f"k{entry % 7}")) for entry in range(20)])
    for worker in workers[:-1]:
        worker.close()
        rig.clock.advance(1)
    assert len(workers[-1].entries()) == 20
    assert not rig.subscription.state.dispatcher.diversions.held
    assert rig.link.published == []


def test_a_worker_that_an_operator_evicts_uses_no_attempt() -> None:
    """It has done nothing; one whose connection is lost with the message in its hands has."""
    rig = SubscriptionRig(dead_letter_after=1)
    evicted, second, third = (rig.worker(name, permits=50) for name in "abc")
    key = rig.key_for("a")
    rig.link.deliver((0, single(key)))
    rig.subscription.orders.evict("a")
    rig.clock.settle()
    assert not rig.subscription.state.dispatcher.diversions.held
    (holder,) = (each for each in (second, third) if each.entries())
    holder.lose()
    assert len(rig.link.published) == 1
    assert evicted.forgotten


def test_a_subscription_that_is_deleted_or_moved_gives_all_attempts_anew() -> None:
    """The messages are wanted again."""
    for ask in ("unsubscribe", "seek"):
        rig = SubscriptionRig(dead_letter_after=2)
        for _ in range(2):
            worker, got = lone(rig)
            assert got == [0, 1]
            worker.lose()
            worker = rig.worker("a", permits=0)
            if ask == "seek":
                worker.seek(0)
            else:
                worker.unsubscribe()
        assert not rig.subscriptions.services.earlier_attempts


def test_attempts_are_known_for_an_hour() -> None:
    """A worker that comes later begins anew."""
    rig = SubscriptionRig(dead_letter_after=2)
    for _ in range(3):
        worker, got = lone(rig)
        assert got == [0, 1]
        worker.lose()
        rig.clock.advance(KEPT_S)


def test_without_a_policy_nothing_is_known_of_a_subscription_that_has_ended() -> None:
    """It costs nothing then."""
    rig = SubscriptionRig()
    worker, _ = lone(rig)
    worker.lose()
    assert not rig.subscriptions.services.earlier_attempts
