"""Entries that the broker sends without some of their messages: what is acknowledged of them, and what may come."""

from __future__ import annotations

import pytest

from proxy.core import transactional_acks
from proxy.core.entry import Part
from proxy.core.key_policy import KeyPolicy
from proxy.core.outstanding import CONFIRMED_PARTS_MAX, Outstanding
from proxy.core.positions import pack
from proxy.core.reposition import discard_up_to, least_mark_delete
from tests.core.batches import by_slot
from tests.core.test_dispatcher_rig import LEDGER, A, B, Got, Rig
from tests.core.test_outstanding import add, complete

ONE = pack(LEDGER, 1)


def confirm(rig: Rig) -> list[int]:
    """The broker has all acks that are to be sent, which are told."""
    sent = rig.acked_upstream()
    rig.dispatcher.outstanding.confirmed([pack(LEDGER, number) for number in sent])
    return sent


def confirmed_but_for_the_first(*slots: int) -> Rig:
    """Two workers, one for each slot; all but the first message of an entry with these slots is acknowledged."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 9)
    rig.join("c2", 9)
    rig.mixed(1, None, *slots)
    for name in ("c1", "c2"):
        got = rig.got(name)
        if got:
            rig.ack(name, *got)
    assert rig.dispatcher.outstanding.bits_kept_back(ONE) == 0b1
    assert confirm(rig) == [1]
    return rig


def test_what_is_kept_back_is_not_acknowledged_with_the_rest() -> None:
    """It may be in a transaction of an earlier life, which is aborted."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.mixed(1, None, A, A)
    outstanding = rig.dispatcher.outstanding
    rig.ack_all_but("c1", (1, (1, 2)), 1)
    (batch,) = outstanding.index_acks.values()
    assert outstanding.unacked_of(batch) == 0b101
    rig.ack("c1", (1, (1, 2)))
    assert rig.acked_upstream() == [1]
    assert outstanding.kept_back == {ONE: 0b001}


def test_what_a_transaction_gives_back_is_delivered_and_then_all_is_acknowledged() -> None:
    """Though the acknowledgement of the others was confirmed."""
    rig = confirmed_but_for_the_first(A, A)
    rig.mixed(1, A, None, None)
    assert rig.got("c1") == [(1, (0,))]
    assert rig.dispatcher.outstanding.bits_kept_back(ONE) == 0
    rig.ack("c1", (1, (0,)))
    assert confirm(rig) == [1]
    assert rig.dispatcher.outstanding.was_confirmed(ONE)


def test_it_may_come_in_the_whole_entry() -> None:
    """As from a broker that forgot the acknowledgement of the others: these do not come a second time."""
    rig = confirmed_but_for_the_first(A, A)
    rig.batch(1, A, 3)
    assert rig.got("c1") == [(1, (0,))]
    rig = confirmed_but_for_the_first(A, B)
    rig.mixed(1, A, A, B)
    assert (rig.got("c1"), rig.got("c2")) == ([(1, (0,))], [])


def test_it_joins_what_is_here_of_the_entry() -> None:
    """A worker holds the others still: the entry is done when both are, and not sooner."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.mixed(1, None, A, A)
    assert rig.got("c1") == [(1, (1, 2))]
    held = rig.dispatcher.outstanding.bytes_held
    rig.mixed(1, A, A, A)
    assert rig.got("c1") == [(1, (0,))]
    assert rig.dispatcher.outstanding.bytes_held > held
    rig.ack("c1", (1, (1, 2)))
    assert rig.acked_upstream() == []
    rig.ack("c1", (1, (0,)))
    assert rig.acked_upstream() == [1]
    assert rig.dispatcher.outstanding.bytes_held == 0


@pytest.mark.parametrize("slots", [(B, A, A), (A, B, B), (A, A, B)])
def test_each_message_goes_to_its_own_slot_s_worker(slots: tuple[int, ...]) -> None:
    """Also where those that came first had one slot, of which nothing more was kept than that."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1")
    rig.join("c2")
    rig.mixed(1, None, *slots[1:])
    rig.mixed(1, *slots)
    rig.flow("c1", 9)
    rig.flow("c2", 9)
    got = {index for what in rig.got("c1") if isinstance(what, tuple) for index in what[1]}
    assert got == {index for index, slot in enumerate(slots) if slot == A}
    got = {index for what in rig.got("c2") if isinstance(what, tuple) for index in what[1]}
    assert got == {index for index, slot in enumerate(slots) if slot == B}
    assert rig.dispatcher.waiting_messages == 0


def test_it_waits_before_newer_ones_of_its_slot() -> None:
    """Those that have left it cannot come before."""
    rig = Rig(c1=[A])
    rig.join("c1", 1)
    rig.mixed(1, None, A)
    rig.entries(A, 2)
    rig.mixed(1, A, A)
    assert rig.got("c1") == [(1, (1,))]
    rig.flow("c1", 9)
    assert rig.got("c1") == [(1, (0,)), 2]


@pytest.mark.parametrize("window", [2, 5])
def test_it_goes_round_what_is_here_of_its_key(window: int) -> None:
    """Messages of a key that come on both sides of one that waits do not pass it together."""
    rig = Rig(c1=[A, B])
    rig.dispatcher.set_policy(KeyPolicy(window=window))
    rig.join("c1")
    rig.mixed(1, None, A, None, B, None)
    rig.mixed(1, A, A, A, B, A)
    rig.flow("c1", 9)
    indexes: list[int] = []
    while got := [what for what in rig.got("c1") if isinstance(what, tuple)]:
        indexes += [index for _, those in got for index in those if index != 3]
        rig.ack("c1", *got)
    assert indexes == [0, 1, 2, 4]


def test_an_entry_of_which_nothing_is_to_be_delivered_is_acknowledged_as_far_as_it_came() -> None:
    """Compacted away, for example; what a transaction gives back of it is not acknowledged on the way."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    outstanding = rig.dispatcher.outstanding
    rig.dispatcher.receive_nothing(ONE, 0b01)
    assert (outstanding.acks, outstanding.kept_back) == ([ONE], {ONE: 0b01})
    rig.mixed(1, A, None)
    assert (rig.acked_upstream(), outstanding.unconfirmed) == ([], set())
    assert rig.got("c1") == [(1, (0,))]


def test_it_goes_where_the_head_of_what_is_blocked_could_not() -> None:
    """A batch that cannot be cut waits until its key's window is empty; an older message that comes now need not."""
    rig = Rig(c1=[A])
    rig.dispatcher.set_policy(KeyPolicy(window=2))
    rig.join("c1", 9)
    rig.mixed(1, None, A)
    rig.opaque(2, A, 2)
    assert rig.got("c1") == [(1, (1,))]
    rig.mixed(1, A, A)
    assert rig.got("c1") == [(1, (0,))]


def test_a_plain_message_that_comes_late_goes_where_the_head_of_what_is_blocked_could_not() -> None:
    """It was kept back whole, so that nothing is known of it before."""
    rig = Rig(c1=[A])
    rig.dispatcher.set_policy(KeyPolicy(window=2))
    rig.join("c1", 9)
    rig.entries(A, 2)
    rig.opaque(3, A, 2)
    assert rig.got("c1") == [2]
    rig.entries(A, 1)
    assert rig.got("c1") == [1]


def test_what_is_still_kept_back_changes_nothing() -> None:
    """The entry is sent again without it: the acknowledgement goes again, without it."""
    rig = confirmed_but_for_the_first(A, A)
    rig.mixed(1, None, A, A)
    assert (rig.got("c1"), rig.acked_upstream()) == ([], [1])
    assert rig.dispatcher.outstanding.kept_back == {ONE: 0b1}


def test_an_acknowledgement_that_was_not_sent_is_taken_back() -> None:
    """Or the entry would be acknowledged with what has just come."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.mixed(1, None, A)
    rig.ack("c1", *rig.got("c1"))
    rig.mixed(1, A, None)
    assert rig.acked_upstream() == []
    assert rig.dispatcher.outstanding.unconfirmed == set()
    assert rig.got("c1") == [(1, (0,))]


def test_an_entry_that_cannot_be_cut_goes_whole_and_is_acknowledged_whole() -> None:
    """Workers have then acknowledged what was kept back, too."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.opaque(1, A, 3)
    rig.ack("c1", 1)
    assert rig.dispatcher.outstanding.kept_back == {}


def test_the_cursor_may_stand_before_an_entry_that_is_acknowledged_in_part() -> None:
    """It was not moved there."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.entries(A, 0)
    rig.ack("c1", 0)
    rig.mixed(1, None, A)
    rig.ack("c1", (1, (1,)))
    rig.entries(A, 2)
    rig.ack("c1", 2)
    confirm(rig)
    assert least_mark_delete(rig.dispatcher.outstanding) == pack(LEDGER, 0)
    rig.dispatcher.outstanding.acknowledged_up_to(ONE)
    assert least_mark_delete(rig.dispatcher.outstanding) == pack(LEDGER, 2)
    assert rig.dispatcher.outstanding.was_confirmed(ONE)


def test_what_an_operator_skips_is_not_kept_back() -> None:
    """It never comes."""
    rig = Rig(c1=[A])
    rig.join("c1")
    rig.mixed(1, None, A)
    discard_up_to(rig.dispatcher, ONE, 0.0)
    assert rig.dispatcher.outstanding.kept_back == {}


def test_after_a_close_by_the_broker_it_means_what_it_sends() -> None:
    """Unless it lost what it had confirmed."""
    rig = confirmed_but_for_the_first(A, A)
    outstanding = rig.dispatcher.outstanding
    outstanding.shelve_confirmed()
    assert outstanding.bits_kept_back(ONE) == 0
    outstanding.unshelve_confirmed()
    assert outstanding.bits_kept_back(ONE) == 1
    outstanding.shelve_confirmed()
    rig.mixed(1, None, A, A)
    assert rig.got("c1") == [(1, (1, 2))]


def left_to_the_broker(rig: Rig, what: Got, unacked: int | None) -> None:
    """c1 acknowledged an entry, or some of it, in a transaction whose end is not seen in time."""
    wanted = [(rig.key(what), unacked)]
    helds = transactional_acks.hold(rig.dispatcher, rig.workers["c1"], wanted, (0, 1), rig.now)
    for held in helds:
        held.confirmed = True
    transactional_acks.wait_no_more(rig.dispatcher, helds, rig.now)


@pytest.mark.parametrize("rest_is_acked", [False, True])
def test_an_entry_that_waited_to_be_opened_tells_nothing_of_a_later_transaction(rest_is_acked: bool) -> None:  # noqa: FBT001
    """The broker sent it before: the transaction may be committed since, and its message came a second time (G4)."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.batch(1, A, 2)
    assert rig.got("c1") == [1]
    waits = by_slot(ONE, b"x" * 100, 2, [(A, (0, 1))], 1, 1.0)
    rig.now = 2.0
    left_to_the_broker(rig, 1, 0b10)
    if rest_is_acked:
        rig.ack("c1", 1)
    assert confirm(rig) == ([1] if rest_is_acked else [])
    rig.now = 3.0
    rig.dispatcher.receive_batch(waits, rig.now)
    assert rig.got("c1") == []
    assert rig.dispatcher.outstanding.bits_kept_back(ONE) == 0b01
    rig.mixed(1, A, None)
    assert rig.got("c1") == [(1, (0,))], "what comes later tells that it was aborted"


def test_an_entry_that_was_left_whole_while_it_waited_to_be_opened_does_not_come_back() -> None:
    """Nor is it acknowledged: its transaction may be aborted yet."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    waits = Part(ONE, A, 1, b"1", 1, 1.0)
    rig.now = 2.0
    left_to_the_broker(rig, 1, None)
    rig.now = 3.0
    rig.dispatcher.receive_part(waits, rig.now)
    assert (rig.got("c1"), rig.acked_upstream()) == ([], [])
    rig.entries(A, 1)
    assert rig.got("c1") == [1], "what comes later tells that it was aborted"


def test_the_others_of_an_entry_that_waited_to_be_opened_come() -> None:
    """A transaction of an earlier life was aborted: one of them is given back. Nothing is lost (G3)."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.mixed(1, None, A, A)
    assert rig.got("c1") == [(1, (1, 2))]
    waits = by_slot(ONE, b"x" * 100, 3, [(A, (0, 1, 2))], 1, 1.0)
    rig.now = 2.0
    left_to_the_broker(rig, (1, (1, 2)), 0b10)
    rig.ack("c1", (1, (1, 2)))
    assert confirm(rig) == [1]
    rig.dispatcher.receive_batch(waits, rig.now)
    assert rig.got("c1") == [(1, (0,))]


def test_of_an_entry_that_is_forgotten_all_comes_but_what_was_left_to_the_broker() -> None:
    """An entry that waited to be opened until no one knew any more what had been acknowledged of it."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.batch(1, A, 3)
    assert rig.got("c1") == [1]
    waits = by_slot(ONE, b"x" * 100, 3, [(A, (0, 1, 2))], 1, 1.0)
    rig.now = 2.0
    left_to_the_broker(rig, 1, 0b101)
    rig.ack("c1", 1)
    assert confirm(rig) == [1]
    outstanding = rig.dispatcher.outstanding
    for position in range(ONE + 1, ONE + 1 + CONFIRMED_PARTS_MAX):
        add(outstanding, position)
        outstanding.keep_back(position, 1)
        complete(outstanding, position)
        outstanding.confirmed([position])
    assert outstanding.bits_kept_back(ONE) == 0
    rig.dispatcher.receive_batch(waits, rig.now)
    assert rig.got("c1") == [(1, (0, 2))]


def test_no_more_than_so_many_are_remembered() -> None:
    """What is forgotten is news when it comes: nothing is lost."""
    outstanding = Outstanding()
    for position in range(CONFIRMED_PARTS_MAX + 1):
        add(outstanding, position)
        outstanding.keep_back(position, 1)
        complete(outstanding, position)
        outstanding.confirmed([position])
    assert [outstanding.bits_kept_back(each) for each in (0, 1)] == [0, 1]
    assert not outstanding.is_repeat(0, 0)
    assert outstanding.is_repeat(1, 0)


def test_with_nothing_consumed_here_nothing_is_remembered() -> None:
    """What its next owner leaves over is news."""
    rig = confirmed_but_for_the_first(A, A)
    rig.mixed(1, None, A, A)
    rig.dispatcher.outstanding.forget_acknowledged()
    assert rig.dispatcher.outstanding.bits_kept_back(ONE) == 0


def test_what_a_broker_forgot_of_an_entry_that_is_here_is_acknowledged_again() -> None:
    """The rest is in a transaction that is committed unseen: nothing else would have it acknowledged."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 9)
    rig.batch(1, A, 2)
    assert rig.got("c1") == [1]
    transactional_acks.hold(rig.dispatcher, worker, [(ONE, 0b10)], (0, 1), rig.now)
    rig.ack_all_but("c1", 1, 0)
    outstanding = rig.dispatcher.outstanding
    assert [outstanding.unacked_of(batch) for batch in outstanding.index_acks.values()] == [0b01]
    outstanding.index_acks.clear()
    rig.mixed(1, None, A)
    assert [outstanding.unacked_of(batch) for batch in outstanding.index_acks.values()] == [0b01]


def test_what_a_broker_forgot_of_an_entry_that_was_done_is_acknowledged_again() -> None:
    """At once, and not with what comes: that may be in a transaction that is committed unseen."""
    rig = confirmed_but_for_the_first(A, A)
    rig.mixed(1, A, A, A)
    outstanding = rig.dispatcher.outstanding
    assert [outstanding.unacked_of(batch) for batch in outstanding.index_acks.values()] == [0b001]
