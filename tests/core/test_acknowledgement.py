"""Acks and redelivery requests: whose they are, what they free, and in which order things come back."""

from __future__ import annotations

import pytest

from proxy.core.entry import PART_BYTES
from proxy.core.positions import entry_of, pack
from tests.core.test_dispatcher_rig import A, B, C, D, Rig


def test_an_ack_frees_goes_upstream_and_counts() -> None:
    """One message, one ack: pending nowhere, acknowledged upstream and unconfirmed until the broker says so."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 1)
    rig.entries(A, 1)
    rig.now = 3.0
    assert rig.ack("c1", 1)
    assert (worker.unacked, worker.acked_messages, worker.last_acked_at) == (0, 1, 3.0)
    assert worker.pending == {}
    assert rig.dispatcher.outstanding.unconfirmed == {pack(1, 1)}
    assert rig.dispatcher.outstanding.bytes_held == 0
    assert len(rig.dispatcher.slots) == 0


@pytest.mark.parametrize("at_once", [True, False])
def test_parts_that_are_done_cost_nothing(at_once: bool) -> None:  # noqa: FBT001 - a parameter
    """A batch that is taken in pieces costs most while all of them are out, however they are acknowledged."""
    rig = Rig(c1=[A])
    rig.join("c1", 2)
    rig.batch(1, A, 4)
    rig.flow("c1", 2)
    assert rig.got("c1") == [(1, (0, 1)), (1, (2, 3))]
    outstanding = rig.dispatcher.outstanding
    held = outstanding.bytes_held
    if not at_once:
        assert rig.ack_all_but("c1", (1, (0, 1)), 1)
    assert outstanding.bytes_held == held
    assert rig.ack("c1", (1, (0, 1)))
    assert outstanding.bytes_held == held - PART_BYTES
    assert rig.ack("c1", (1, (2, 3)))
    assert outstanding.bytes_held == 0


def test_an_unknown_ack_is_counted_and_changes_nothing() -> None:
    """An id that was never delivered, or is acknowledged already."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    rig.entries(A, 1)
    assert not rig.ack("c1", 7)
    assert not rig.ack_all_but("c1", 7, 0)
    rig.ack("c1", 1)
    assert not rig.ack("c1", 1)
    assert worker.acks_unknown == 3
    assert rig.acked_upstream() == [1]


def test_an_ack_does_not_bring_permits() -> None:
    """Permits come from FLOW alone."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 1)
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.ack("c1", 1)
    assert worker.permits == 0
    assert rig.got("c1") == []


def test_messages_given_back_come_again_before_newer_ones() -> None:
    """In the topic's order, with a raised count, before what waits behind them."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 4)
    rig.entries(A, 1, 2, 3, 4, 5, 6)
    assert rig.got("c1") == [1, 2, 3, 4]
    assert rig.nack("c1", 3, 1) == 2
    assert rig.got("c1") == []
    assert worker.redelivered_messages == 2
    rig.flow("c1", 3)
    units = rig.units("c1")
    assert [(unit.position, unit.redeliveries) for unit in units] == [(pack(1, 1), 1), (pack(1, 3), 1), (pack(1, 5), 0)]


def test_naming_a_message_twice_or_one_that_is_not_there_gives_back_what_there_is() -> None:
    """Requests are sets of ids, some of them late."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.got("c1")
    assert rig.nack("c1", 1, 1, 9) == 1
    assert rig.got("c1") == [1]
    assert rig.nack("c1", 9) == 0


def test_every_return_raises_the_redelivery_count() -> None:
    """So that a client's dead letter policy sees how often a message failed."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    counts = []
    for _ in range(4):
        counts += [unit.redeliveries for unit in rig.units("c1")]
        rig.nack("c1")
    assert counts == [0, 1, 2, 3]


def test_many_messages_given_back_one_by_one_are_in_order() -> None:
    """Whatever the order of the requests, and however many there are of them."""
    rig = Rig(c1=[A])
    rig.join("c1", 100)
    rig.entries(A, *range(100))
    rig.got("c1")
    rig.dispatcher.pause()
    for number in [*range(0, 100, 3), *range(99, 0, -3), *range(1, 100, 3)]:
        rig.nack("c1", number)
    rig.nack("c1")
    rig.flow("c1", 100)
    rig.dispatcher.resume(0.0)
    assert rig.got("c1") == list(range(100))


def test_what_still_lies_in_the_outbox_is_not_sent_twice() -> None:
    """A client that wants all again before the turn ends: each message is there once, and used one permit."""
    rig = Rig(c1=[A, B])
    worker = rig.join("c1", 10)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.entries(A, 2)
    rig.entries(B, 3)
    assert rig.nack("c1") == 1
    units = rig.units("c1")
    assert {(unit.position, unit.redeliveries) for unit in units} == {
        (pack(1, 1), 1),
        (pack(1, 2), 0),
        (pack(1, 3), 0),
    }
    assert worker.permits == 6
    assert worker.unacked == 3


def test_what_still_lies_in_the_outbox_does_not_overtake_what_comes_back() -> None:
    """Message 2 has not left when 1 is given back: they leave as 1, 2."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.entries(A, 2)
    rig.nack("c1", 1)
    assert rig.got("c1") == [1, 2]


def test_what_still_lies_in_the_outbox_goes_to_the_new_owner_only() -> None:
    """The slot moved in the same turn: the old owner gets nothing more of it, not even what lay ready."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.entries(A, 2)
    rig.join("c2", 10)
    rig.nack("c1")
    assert rig.got("c1") == []
    assert rig.got("c2") == [1, 2]


def test_permits_of_what_was_never_sent_serve_other_keys_at_once() -> None:
    """They come back with it: no new FLOW is needed for what waits (G6)."""
    rig = Rig(c1=[A, B], c2=[A])
    rig.join("c1", 2)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.entries(A, 2)
    rig.entries(B, 3)
    rig.join("c2", 10)
    rig.nack("c1")
    assert rig.got("c1") == [3]
    assert rig.got("c2") == [1, 2]


def test_a_late_ack_stops_a_redelivery_that_has_not_left() -> None:
    """The message was given back and lies ready to go again when its ack comes: it is done, and its permit is free."""
    rig = Rig(c1=[A, B])
    worker = rig.join("c1", 2)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.nack("c1", 1)
    rig.entries(B, 2)
    assert worker.permits == 0
    assert rig.ack("c1", 1)
    assert rig.acked_upstream() == [1]
    assert rig.got("c1") == [2]


def test_a_late_ack_of_some_messages_makes_a_redelivery_smaller() -> None:
    """The batch lies ready to go again when an ack of two of its messages comes: only the others go."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 20)
    rig.batch(1, A, 4)
    assert rig.got("c1") == [1]
    rig.nack("c1", 1)
    rig.ack_all_but("c1", 1, 0, 3)
    (unit,) = rig.units("c1")
    assert (unit.indexes, unit.redeliveries) == ((0, 3), 1)
    assert worker.unacked == 2
    assert worker.permits == 14


def test_parts_of_a_delivery_come_back_each_to_its_own_key() -> None:
    """A mixed batch given back by one worker goes on as slices when its keys have different owners by then."""
    rig = Rig(c1=[A, B], c2=[B])
    rig.join("c1", 10)
    rig.mixed(1, A, B, A)
    assert rig.got("c1") == [1]
    rig.join("c2", 10)
    assert rig.nack("c1") == 3
    assert rig.got("c1") == [(1, (0, 2))]
    assert rig.got("c2") == [(1, (1,))]


def test_what_was_sent_before_does_not_travel_with_what_was_not() -> None:
    """A delivery has one count of redeliveries on the wire, so it is true for each of its messages."""
    rig = Rig(c1=[A], c2=[B], c3=[A, B])
    rig.join("c1", 10)
    rig.join("c2")
    rig.mixed(1, A, B)
    assert rig.got("c1") == [(1, (0,))]
    rig.join("c3")
    rig.leave("c1")
    rig.flow("c3", 2)
    assert [(unit.indexes, unit.redeliveries) for unit in rig.units("c3")] == [((0,), 1), ((1,), 0)]


@pytest.mark.parametrize("others", [10, 20])
def test_a_message_that_is_asked_for_again_has_only_its_key_sent_anew(others: int) -> None:
    """A client may ask for thousands one by one: what has not left yet of other keys stays on its way."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 2 * others + 10)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.now = 1.0
    rig.entries(B, *range(10, 10 + others))
    rig.entries(A, 2)
    rig.now = 2.0
    assert rig.nack("c1", 1) == 1
    assert [entry_of(unit.position) for unit in rig.workers["c1"].outbox if unit.sent_at == rig.now] == [1, 2]
    assert rig.got("c1") == [*range(10, 10 + others), 1, 2]


def test_what_shares_a_key_with_what_is_sent_anew_stays_behind_it() -> None:
    """A batch of two keys in between hands on from one key to the other."""
    rig = Rig(c1=[A, B, C, D])
    rig.join("c1", 100)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.entries(B, 2)
    rig.entries(D, 3)
    rig.mixed(4, A, B)
    rig.mixed(5, B, C)
    rig.entries(C, 6)
    rig.entries(D, 7)
    rig.nack("c1", 1)
    assert rig.got("c1") == [2, 3, 7, 1, 4, 5, 6]
