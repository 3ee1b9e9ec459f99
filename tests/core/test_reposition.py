"""The cursor moved under us: forget everything, or what the broker has done with."""

from __future__ import annotations

from proxy.core.dispatcher import OrderingMode
from proxy.core.positions import pack
from proxy.core.reposition import discard_up_to, reset
from tests.core.test_dispatcher_rig import A, B, Rig


def test_a_reset_forgets_every_entry_and_keeps_the_workers() -> None:
    """After a seek nothing is pending, waiting, draining or to be acknowledged, and old positions are news again."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A], c2=[A, B])
    first = rig.join("c1", 2, max_unacked=1)
    rig.entries(A, 1, 2)
    second = rig.join("c2", 5)
    rig.entries(B, 3)
    assert rig.dispatcher.gated == [second]
    assert rig.draining() == [A]
    reset(rig.dispatcher, rig.now)
    dispatcher = rig.dispatcher
    assert list(dispatcher.workers.values()) == [first, second]
    assert not dispatcher.waiting
    assert not dispatcher.gated
    assert not dispatcher.outstanding.entries
    assert dispatcher.outstanding.bytes_held == dispatcher.waiting_messages == 0
    assert len(dispatcher.slots) == len(dispatcher.draining) == 0
    assert first.unacked == first.draining_slots == 0
    assert first.open
    assert second.join_gate is None
    assert rig.got("c1") == rig.got("c2") == rig.acked_upstream() == []
    assert not rig.ack("c1", 1)
    rig.entries(A, 1)
    assert rig.got("c2") == [1]


def test_what_waits_below_the_mark_delete_position_is_dropped() -> None:
    """An operator skipped it: it is neither delivered nor acknowledged; what is above goes on."""
    rig = Rig(c1=[A, B])
    rig.join("c1")
    rig.entries(A, 1, 2)
    rig.mixed(3, A, B)
    rig.entries(A, 4)
    assert discard_up_to(rig.dispatcher, pack(1, 3), 0.0) == 4
    assert rig.dispatcher.waiting_messages == 1
    rig.flow("c1", 10)
    assert rig.got("c1") == [4]
    assert rig.acked_upstream() == []
    rig.ack("c1", 4)
    assert rig.dispatcher.outstanding.bytes_held == 0


def test_what_a_worker_holds_below_the_mark_delete_position_stays_its_own() -> None:
    """It is working on it: the key is not given to another until it is done, and its ack harms nobody."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 1)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1]
    rig.join("c2", 10)
    assert discard_up_to(rig.dispatcher, pack(1, 1), 0.0) == 0
    assert rig.got("c2") == []
    assert rig.ack("c1", 1)
    assert rig.got("c2") == [2]


def test_a_batch_half_at_a_worker_loses_its_waiting_half() -> None:
    """The entry is done with the held half's ack, which is harmless upstream."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.join("c2")
    rig.mixed(1, A, B)
    assert rig.got("c1") == [(1, (0,))]
    assert discard_up_to(rig.dispatcher, pack(1, 1), 0.0) == 1
    assert rig.ack("c1", (1, (0,)))
    assert rig.acked_upstream() == [1]
    assert rig.dispatcher.outstanding.bytes_held == 0


def test_what_is_first_after_the_drop_waits_for_its_own_reason() -> None:
    """The dropped message was allowed below the join position, the next one is not: permits do not bring it."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A, B], c2=[A])
    rig.join("c1", 2)
    rig.entries(A, 1)
    rig.entries(B, 2)
    assert rig.got("c1") == [1, 2]
    rig.join("c2")
    rig.entries(A, 3)
    rig.nack("c1", 1)
    assert discard_up_to(rig.dispatcher, pack(1, 1), 0.0) == 1
    rig.flow("c2", 5)
    assert rig.got("c2") == []
    rig.ack("c1", 2)
    assert rig.got("c2") == [3]


def test_nothing_to_drop_drops_nothing() -> None:
    """The usual case after a reconnect."""
    rig = Rig(c1=[A])
    rig.join("c1")
    rig.entries(A, 5)
    assert discard_up_to(rig.dispatcher, pack(1, 4), 0.0) == 0
    assert rig.dispatcher.waiting_messages == 1


def test_dropping_ten_thousand_of_a_hot_key_keeps_the_rest_in_order() -> None:
    """The queue is rebuilt once, not searched for each dropped message."""
    rig = Rig(c1=[A])
    rig.join("c1")
    rig.entries(A, *range(10_010))
    assert discard_up_to(rig.dispatcher, pack(1, 9_999), 0.0) == 10_000
    rig.flow("c1", 100)
    assert rig.got("c1") == list(range(10_000, 10_010))
