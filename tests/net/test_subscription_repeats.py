"""G4: a broker that forgot what it sent us, or what we acknowledged, is a matter between it and us."""

from __future__ import annotations

import pytest

from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, T, batch, single
from tests.net.test_subscription_acks import index_acks
from tests.net.test_subscription_upstream import holding, reconnected


def test_messages_that_a_worker_holds_are_not_sent_again() -> None:
    """The broker sends everything unacknowledged to the new consumer; the worker gets only what is new."""
    rig, worker = holding(3)
    new = reconnected(rig)
    new.deliver(*[(entry, single("k")) for entry in range(5)], redeliveries=1)
    assert worker.entries() == [3, 4]
    assert rig.statistics().subscriptions[0].dispatcher.repeated_entries == 3


def test_messages_that_wait_are_not_doubled() -> None:
    """What could not go out yet goes out once, with the broker's redelivery count if that is larger."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.deliver((0, single("k")))
    reconnected(rig).deliver((0, single("k")), redeliveries=2)
    worker.flow(5)
    assert [(item.entry, item.redeliveries) for item in worker.messages()] == [(0, 2)]


def test_acks_that_were_not_confirmed_are_sent_again() -> None:
    """The broker may never have seen them; those it confirmed are not repeated."""
    rig, worker = holding(3)
    worker.ack(0)
    rig.link.held.add(T.ACK)
    worker.ack(2)
    worker.ack(1)
    assert reconnected(rig).acked() == [(LEDGER, 1), (LEDGER, 2)]


def test_acks_given_while_we_are_away_are_sent_when_we_are_back() -> None:
    """The worker notices nothing: it acknowledges, and gets on."""
    rig, worker = holding(2)
    rig.brokers.held = True
    old, new = rig.link, rig.brokers.new_link()
    old.lose()
    rig.clock.advance(0)
    worker.ack(0)
    rig.brokers.held = False
    rig.brokers.found()
    rig.clock.settle()
    assert new.acked() == [(LEDGER, 0)]


def test_index_acks_of_batches_that_are_not_done_are_sent_again() -> None:
    """A broker that died may not have stored them; whole batches it need not be told of."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=20)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1")])), (1, batch([("k", b"0"), ("k", b"1")])))
    worker.ack(0, ack_set=[0b10])
    assert index_acks(reconnected(rig)) == [(0, 0b10)]


@pytest.mark.parametrize("confirmed", [True, False])
def test_messages_that_were_acknowledged_are_acknowledged_again_and_reach_no_worker(confirmed: bool) -> None:  # noqa: FBT001
    """A broker that was killed forgets acks, also some that it had confirmed."""
    rig, worker = holding(2)
    if not confirmed:
        rig.link.held.add(T.ACK)
    worker.ack(0, 1)
    new = reconnected(rig)
    new.acked()
    new.deliver((0, single("k")), (1, single("k")), redeliveries=1)
    assert worker.entries() == []
    assert new.acked() == [(LEDGER, 0), (LEDGER, 1)]


def test_a_consumer_closed_by_the_broker_forgets_what_was_confirmed() -> None:
    """The cursor was stored then, or moved on purpose: the broker means what it sends. Unconfirmed acks stay ours."""
    rig, worker = holding(2)
    worker.ack(0)
    rig.link.held.add(T.ACK)
    worker.ack(1)
    rig.link.held.clear()
    rig.link.close_consumer()
    rig.clock.advance(0)
    rig.link.deliver((0, single("k")), (1, single("k")))
    assert worker.entries() == [0]


def test_after_a_reconnect_what_is_acknowledged_at_the_broker_is_not_delivered() -> None:
    """Skipped, expired or cleared by an operator meanwhile: dropped from what waits, kept where a worker holds it."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=1)
    rig.link.deliver(*[(entry, single("k")) for entry in range(4)])
    assert worker.entries() == [0]
    old, new = rig.link, rig.brokers.new_link()
    new.mark_delete = (LEDGER, 2)
    old.lose()
    rig.clock.advance(0)
    worker.flow(10)
    assert worker.entries() == [3]
    worker.ack(0)
    assert new.acked() == [(LEDGER, 0)]


def test_a_mark_delete_position_before_the_first_entry_drops_nothing() -> None:
    """Entry -1 of a ledger, which the wire writes as a huge number, is before all others."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.deliver((0, single("k")))
    old, new = rig.link, rig.brokers.new_link()
    new.mark_delete = (LEDGER, -1)
    old.lose()
    rig.clock.advance(0)
    worker.flow(5)
    assert worker.entries() == [0]


def test_workers_join_and_leave_while_we_are_away() -> None:
    """The dispatcher goes on without the broker: what a leaver held goes to who stays."""
    rig, first = holding(2)
    rig.brokers.held = True
    rig.link.lose()
    second = rig.worker("b", permits=10)
    first.lose()
    assert [(item.entry, item.redeliveries) for item in second.messages()] == [(0, 1), (1, 1)]
