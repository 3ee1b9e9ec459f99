"""Transactions that are gone, while the broker has no permits to send again what they give back."""

from __future__ import annotations

import itertools

from proxy.net.subscription.transactions import ASK_S, AWAITED_AT_ONCE, COORDINATOR_S, RESEND_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import T, single
from tests.net.test_subscription_transactions import ack


def full(count: int = 1, *, memory_bytes: int = 1 << 20, size: int = 1) -> tuple[SubscriptionRig, Worker, str, int]:
    """A worker that waits for a key which a worker that left has in a transaction; newer messages fill the look-ahead.

    So many messages of this size are in the transaction. With the key, and the first entry that has not come.
    """
    rig = SubscriptionRig(
        look_ahead_messages_per_worker=2,
        look_ahead_messages_per_subscription=2,
        subscription_memory_bytes=memory_bytes,
    )
    first = rig.worker("a", permits=count)
    second = rig.worker("b", permits=3)
    key = rig.key_for("a")
    left = rig.link.permits() - count
    rig.link.deliver(*[(entry, single(key, b"x" * size)) for entry in range(count)])
    ack(rig, first, *range(count))
    first.lose()
    entries = itertools.count(count)
    while left := left + rig.link.permits():
        rig.link.deliver(*[(next(entries), single(key)) for _ in range(left)])
        left = 0
    assert second.entries() == []
    rig.link.refusals[T.ADD_SUBSCRIPTION_TO_TXN] = (pb.TransactionNotFound, "no such transaction")
    rig.clock.advance(COORDINATOR_S - 2 * ASK_S)
    assert rig.link.permits() == 0
    rig.clock.advance(2.5 * ASK_S)
    return rig, second, key, next(entries)


def reads(rig: SubscriptionRig) -> bool:
    """Whether what the broker sends is read now."""
    return rig.link.reading


def test_what_an_abort_gives_back_comes_though_the_look_ahead_is_full() -> None:
    """A broker without permits sends nothing; that the transaction is gone, its coordinator says."""
    rig, second, key, _ = full()
    assert rig.link.permits() == 1
    rig.link.deliver((0, single(key)), redeliveries=1)
    assert second.entries() == [0, 1, 2]


def test_permits_that_others_took_are_granted_once_more() -> None:
    """They may have been under way. Then the transaction was committed, most likely, and its key goes on."""
    rig, second, key, following = full()
    assert rig.link.permits() == 1
    rig.link.deliver((following, single(key)))
    assert rig.link.permits() == 0
    rig.clock.advance(ASK_S / 2)
    assert (rig.link.permits(), second.entries()) == (1, [])
    rig.link.deliver((following + 1, single(key)))
    rig.clock.advance(RESEND_S)
    assert second.entries() == [1, 2, 3]


def test_for_many_the_broker_has_few_permits_at_once_and_more_as_they_come() -> None:
    """What takes them instead is beyond the bounds of the look-ahead and of the memory."""
    rig, _, key, following = full(2 * AWAITED_AT_ONCE + 5)
    assert rig.link.permits() == AWAITED_AT_ONCE
    for first in (0, AWAITED_AT_ONCE):
        rig.link.deliver(*[(first + each, single(key)) for each in range(AWAITED_AT_ONCE)], redeliveries=1)
        assert rig.link.permits() == min(AWAITED_AT_ONCE, 2 * AWAITED_AT_ONCE + 5 - first - AWAITED_AT_ONCE)
    rig.link.deliver(*[(following + each, single(key)) for each in range(5)])
    assert rig.link.permits() == 0, "others took them"


def test_for_many_the_broker_has_one_permit_where_twice_the_memory_is_used() -> None:
    """Transactions that end unseen, and what takes the permits for them, would fill it."""
    rig, _, key, _ = full(AWAITED_AT_ONCE, memory_bytes=20_000, size=3_000)
    for entry in range(3):
        assert rig.link.permits() == 1
        rig.link.deliver((entry, single(key, b"x" * 3_000)), redeliveries=1)


def test_what_an_abort_gives_back_is_read_though_the_memory_is_full() -> None:
    """All that would make room waits for it; and a connection that is dead is noticed only while it is read."""
    rig = SubscriptionRig(gateway_memory_bytes=20_000, subscription_memory_bytes=20_000)
    first = rig.worker("a", permits=1)
    second = rig.worker("b", permits=9)
    key = rig.key_for("a")
    rig.link.deliver((0, single(key)))
    ack(rig, first, 0)
    first.lose()
    rig.link.deliver((1, single(key, b"x" * 30_000)))
    assert not reads(rig)
    rig.link.refusals[T.ADD_SUBSCRIPTION_TO_TXN] = (pb.TransactionNotFound, "no such transaction")
    rig.clock.advance(COORDINATOR_S + ASK_S)
    assert reads(rig)
    rig.link.deliver((0, single(key)), redeliveries=1)
    assert second.entries() == [0, 1]


def test_the_answer_to_an_acknowledgement_is_read_though_the_memory_is_full() -> None:
    """All that would make room may wait for it; and no coordinator is asked before it."""
    rig = SubscriptionRig(gateway_memory_bytes=20_000, subscription_memory_bytes=20_000)
    first = rig.worker("a", permits=1)
    second = rig.worker("b", permits=9)
    key = rig.key_for("a")
    rig.link.deliver((0, single(key)))
    rig.link.held.add(T.ACK)
    ack(rig, first, 0)
    first.lose()
    rig.link.deliver((1, single(key, b"x" * 30_000)))
    assert not reads(rig)
    rig.link.refusals[T.ADD_SUBSCRIPTION_TO_TXN] = (pb.TransactionNotFound, "no such transaction")
    rig.clock.advance(2 * ASK_S)
    assert reads(rig)
    rig.link.answer(T.ACK)
    assert not reads(rig), "until its coordinator is asked"
    rig.clock.advance(COORDINATOR_S + RESEND_S + 2 * ASK_S)
    assert second.entries() == [1]


def test_what_is_taken_for_committed_keeps_no_memory() -> None:
    """While an older message is not acknowledged, no commit past the gateway is seen; the broker has it all."""
    rig = SubscriptionRig(gateway_memory_bytes=20_000, subscription_memory_bytes=20_000)
    first = rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")), (1, single("k", b"x" * 30_000)))
    assert not reads(rig)
    ack(rig, first, 1)
    rig.link.refusals[T.ADD_SUBSCRIPTION_TO_TXN] = (pb.TransactionNotFound, "no such transaction")
    rig.clock.advance(COORDINATOR_S + RESEND_S + 3 * ASK_S)
    rig.link.deliver((2, single("k")))
    assert rig.subscriptions.summary().held_bytes < 2_000
    assert reads(rig)
    assert first.entries() == [0, 1, 2]
