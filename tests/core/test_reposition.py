"""The cursor moved under us: forget everything, or what the broker has done with."""

from __future__ import annotations

import pytest

from proxy.core import join_gates
from proxy.core.dispatcher import OrderingMode
from proxy.core.outstanding import CONFIRMED_FOLD_AT, Outstanding
from proxy.core.positions import pack
from proxy.core.reposition import discard_up_to, least_mark_delete, reset, was_moved
from tests.core.test_dispatcher_rig import A, B, Rig


def test_a_reset_forgets_every_entry_and_keeps_the_workers() -> None:
    """After a seek nothing is pending, waiting, draining or to be acknowledged, and old positions are news again."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A], c2=[A, B])
    first = rig.join("c1", 2, max_unacked=1)
    rig.entries(A, 1, 2)
    second = rig.join("c2", 5)
    rig.entries(B, 3)
    assert join_gates.workers(rig.dispatcher.gated) == [second]
    assert rig.draining() == [A]
    reset(rig.dispatcher, rig.now)
    dispatcher = rig.dispatcher
    assert list(dispatcher.workers.values()) == [first, second]
    assert not list(dispatcher.waiting_parts())
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


def acknowledged(*confirmed: int, unconfirmed: int = 0) -> Rig:
    """Entries 1 to 9 at a worker, which acknowledged some of them."""
    rig = Rig(c1=[A])
    rig.join("c1", 20)
    rig.entries(A, *range(1, 10))
    rig.got("c1")
    rig.ack("c1", *confirmed, *([unconfirmed] if unconfirmed else []))
    rig.dispatcher.outstanding.confirmed(pack(1, entry) for entry in confirmed)
    return rig


def test_the_cursor_stands_at_least_before_the_first_that_is_not_confirmed() -> None:
    """An ack that the broker did not answer may have reached it, or not; islands above do not count."""
    assert least_mark_delete(Rig(c1=[A]).dispatcher.outstanding) is None
    assert least_mark_delete(acknowledged(5).dispatcher.outstanding) is None
    assert least_mark_delete(acknowledged(1, 2, 3, 5, 6).dispatcher.outstanding) == pack(1, 3)
    assert least_mark_delete(acknowledged(1, 2, 4, unconfirmed=3).dispatcher.outstanding) == pack(1, 2)
    assert least_mark_delete(acknowledged(*range(1, 10)).dispatcher.outstanding) == pack(1, 9)


def test_confirmed_positions_count_wherever_they_are_kept() -> None:
    """Folded into ranges, or fresh, whichever is higher."""
    outstanding = Outstanding()
    outstanding.highest = pack(1, 0)
    folded = [pack(0, entry) for entry in range(CONFIRMED_FOLD_AT)]
    outstanding.unconfirmed.update(folded)
    outstanding.confirmed(folded)
    assert least_mark_delete(outstanding) == folded[-1]
    fresh = pack(1, 0)
    outstanding.unconfirmed.add(fresh)
    outstanding.confirmed([fresh])
    assert least_mark_delete(outstanding) == fresh
    assert outstanding.last_confirmed_below(fresh) == folded[-1]


@pytest.mark.parametrize(
    ("mark_delete", "moved"),
    [(-1, True), (2, True), (3, False), (4, True), (6, True), (8, True), (9, False), (20, False)],
)
def test_a_cursor_that_stands_elsewhere_was_moved(mark_delete: int, moved: bool) -> None:  # noqa: FBT001
    """1 to 3, 5 and 6 are confirmed. Behind everything that is known nothing comes again."""
    outstanding = acknowledged(1, 2, 3, 5, 6).dispatcher.outstanding
    assert was_moved(outstanding, pack(1, mark_delete), least_mark_delete(outstanding)) == moved


def test_a_cursor_may_stand_further_than_is_known() -> None:
    """The broker had heard the ack that it did not answer."""
    outstanding = acknowledged(1, 2, 4, unconfirmed=3).dispatcher.outstanding
    assert not was_moved(outstanding, pack(1, 4), least_mark_delete(outstanding))
