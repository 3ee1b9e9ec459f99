"""PIP-282: the last sent position, the two races that it was written for, and the gate for workers that join."""

from __future__ import annotations

import pytest

from proxy.core import join_gates
from proxy.core.dispatcher import OrderingMode
from proxy.core.positions import pack
from proxy.core.reposition import discard_up_to
from proxy.core.statistics import dispatcher_statistics_steps
from proxy.core.steps import finished
from proxy.core.waiting import WaitReason
from tests.core.test_dispatcher_rig import A, B, C, D, Rig

ORDERED = [OrderingMode.LAST_SENT_POSITION, OrderingMode.DRAINING_HASHES]
GATED = OrderingMode.LAST_SENT_POSITION


def shown(rig: Rig) -> tuple[str | None, str]:
    """Last sent position and individually sent positions, as the PIP prints them."""
    statistics = finished(dispatcher_statistics_steps(rig.dispatcher, rig.now))
    return statistics.last_sent_position, statistics.individually_sent_positions


def test_the_worked_example_through_the_dispatcher() -> None:
    """The same, with messages: 4, 6 and 7 have owners without permits, who grant them one by one in the PIP's order."""
    rig = Rig(free=[A], four=[B], six=[C], seven=[D])
    rig.join("free", 100)
    for name in ("four", "six", "seven"):
        rig.join(name)
    for number in range(1, 11):
        rig.entries({4: B, 6: C, 7: D}.get(number, A), number)

    assert rig.got("free") == [1, 2, 3, 5, 8, 9, 10]
    assert shown(rig) == ("1:3", "[(1:4, 1:5], (1:7, 1:10]]")
    rig.flow("seven", 1)
    assert shown(rig) == ("1:3", "[(1:4, 1:5], (1:6, 1:10]]")
    rig.flow("six", 1)
    assert shown(rig) == ("1:3", "[(1:4, 1:10]]")
    rig.flow("four", 1)
    assert shown(rig) == ("1:10", "[]")


@pytest.mark.parametrize("mode", ORDERED)
def test_issue_1_a_worker_joins_between_reading_and_sending(mode: OrderingMode) -> None:
    """[issue-1] literally: 1:7 and 1:8 were read and not sent when c3 joins; c3 gets 1:6, 1:7, 1:8 in order."""
    rig = Rig(mode, c1=[A], c2=[B], c3=[A])
    rig.join("c1", 1)
    rig.join("c2", 1000)
    rig.entries(A, 6, 7, 8)
    rig.entries(B, 9, 10, 11)
    assert rig.got("c1") == [6]
    assert rig.got("c2") == [9, 10, 11]
    assert shown(rig) == ("1:6", "[(1:8, 1:11]]")

    c3 = rig.join("c3", 1000)
    assert c3.last_sent_position_when_joining == pack(1, 6)
    assert rig.got("c3") == [], "1:7 and 1:8 wait behind 1:6, which c1 never acknowledges"
    rig.leave("c1")
    got = rig.got("c3")
    for number in (6, 7, 8):
        rig.ack("c3", number)
        got += rig.got("c3")
    assert got == [6, 7, 8]


@pytest.mark.parametrize("mode", ORDERED)
def test_issue_2_a_message_that_was_never_sent_is_replayed(mode: OrderingMode) -> None:
    """[issue-2] literally, entry by entry: c3 gets 2:1 before 2:2, although 2:2 was ready when it joined."""
    rig = Rig(mode, c1=[A], c2=[B], c3=[A])
    rig.join("c1", 1)
    rig.join("c2", 1000)
    rig.entries(A, 1)
    rig.entries(A, 2)
    assert rig.got("c1") == [1]
    assert shown(rig) == ("1:1", "[]")
    c3 = rig.join("c3", 1000)
    assert c3.last_sent_position_when_joining == pack(1, 1)
    assert rig.got("c3") == []
    rig.leave("c1")
    got = rig.got("c3")
    rig.ack("c3", 1)
    got += rig.got("c3")
    assert got == [1, 2]


def test_without_order_the_race_of_issue_1_shows() -> None:
    """The same story in unordered mode gives the PIP's wrong order: so the two tests above can fail."""
    rig = Rig(OrderingMode.UNORDERED, c1=[A], c2=[B], c3=[A])
    rig.join("c1", 1)
    rig.join("c2", 1000)
    rig.entries(A, 6, 7, 8)
    rig.join("c3", 1000)
    rig.leave("c1")
    assert rig.got("c3") == [7, 8, 6]


def test_the_gate_opens_with_the_last_ack_at_or_below_the_join_position() -> None:
    """Acks behind the join position do not open it; the last one at or below it does, in the same call."""
    rig = Rig(GATED, c1=[A, B], c2=[B])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    c2 = rig.join("c2", 10)
    assert join_gates.workers(rig.dispatcher.gated) == [c2]
    rig.entries(A, 3)
    rig.entries(B, 4)
    head = rig.dispatcher.waiting_in(B)[0]
    assert rig.dispatcher.wait_reason(B, head, rig.now) is WaitReason.JOIN_POSITION
    rig.ack("c1", 3)
    rig.ack("c1", 1)
    assert rig.got("c2") == []
    rig.ack("c1", 2)
    assert rig.got("c2") == [4]
    assert c2.join_gate is None
    assert rig.dispatcher.gated == []


def test_an_entry_keeps_the_gate_shut_until_its_last_message_is_acknowledged() -> None:
    """Acks of some keys of a mixed batch are no ack of the entry."""
    rig = Rig(GATED, c1=[A, C], c2=[B])
    rig.join("c1", 2)
    rig.mixed(1, A, C)
    assert rig.got("c1") == [1]
    rig.join("c2", 10)
    rig.entries(B, 2)
    rig.ack_all_but("c1", 1, 1)
    assert rig.got("c2") == []
    rig.ack_all_but("c1", 1)
    assert rig.got("c2") == [2]


def test_a_join_position_holds_back_slots_that_never_were_elsewhere() -> None:
    """That is PIP-282's price, which PIP-379 does away with: the same story without the gate delivers at once."""
    for mode, expected in ((GATED, []), (OrderingMode.DRAINING_HASHES, [2])):
        rig = Rig(mode, c1=[A], c2=[B])
        rig.join("c1", 10)
        rig.entries(A, 1)
        rig.join("c2", 10)
        rig.entries(B, 2)
        assert rig.got("c2") == expected


def test_a_worker_gets_what_lies_below_its_join_position() -> None:
    """Messages at or below it come back from a worker that left: the gate is not for them, and they open it."""
    rig = Rig(GATED, c1=[A], c2=[A])
    rig.join("c1", 2)
    rig.entries(A, 1, 2, 3)
    rig.join("c2", 10)
    rig.leave("c1")
    assert rig.got("c2") == [1, 2]
    rig.ack("c2", 1)
    assert rig.got("c2") == []
    rig.ack("c2", 2)
    assert rig.got("c2") == [3]


def test_workers_that_joined_one_after_the_other_are_released_in_that_order() -> None:
    """Each has its own position, and gets its messages when that one is passed, not earlier and not later."""
    rig = Rig(GATED, c1=[A], c2=[B], c3=[C], c4=[D])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.entries(A, 2)
    rig.join("c3", 10)
    rig.join("c4", 10)
    for slot, number in ((B, 3), (C, 4), (D, 5)):
        rig.entries(slot, number)
    assert [worker.name for worker in join_gates.workers(rig.dispatcher.gated)] == ["c2", "c3", "c4"]
    rig.ack("c1", 1)
    assert [rig.got(name) for name in ("c2", "c3", "c4")] == [[3], [], []]
    rig.ack("c1", 2)
    assert [rig.got(name) for name in ("c2", "c3", "c4")] == [[], [4], [5]]


def test_a_worker_that_joins_when_nothing_is_pending_has_no_gate() -> None:
    """Everything up to its position is acknowledged: there is nothing to wait for."""
    rig = Rig(GATED, c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.ack("c1", 1)
    c2 = rig.join("c2", 10)
    assert c2.last_sent_position_when_joining == pack(1, 1)
    assert c2.join_gate is None


def test_the_first_worker_has_no_join_position() -> None:
    """With nobody else there, nobody else can hold anything."""
    rig = Rig(GATED, c1=[A])
    rig.entries(A, 1)
    c1 = rig.join("c1", 10)
    assert c1.last_sent_position_when_joining is None
    assert rig.got("c1") == [1]


def test_a_batch_sent_in_part_is_not_sent() -> None:
    """An entry counts as sent when all its messages are: the rest of a cut batch lies behind the join position."""
    rig = Rig(GATED, c1=[A], c2=[A])
    rig.join("c1", 2)
    rig.entries(A, 1)
    rig.batch(2, A, 3)
    assert rig.got("c1") == [1, (2, (0,))]
    c2 = rig.join("c2", 10)
    assert c2.last_sent_position_when_joining == pack(1, 1)
    rig.ack("c1", 1)
    assert rig.got("c2") == [], "the slot drains still"
    rig.ack("c1", (2, (0,)))
    assert rig.got("c2") == [(2, (1, 2))]


def test_a_leaving_worker_takes_its_gate_with_it() -> None:
    """Later acks look for no gate that is gone."""
    rig = Rig(GATED, c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.leave("c2")
    assert rig.dispatcher.gated == []
    assert rig.ack("c1", 1)


def test_messages_an_operator_skipped_do_not_keep_a_gate_shut() -> None:
    """What is dropped below the mark-delete position is waited for no more."""
    rig = Rig(GATED, c1=[A], c2=[B])
    rig.join("c1", 1)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.join("c2", 10)
    rig.entries(B, 2)
    rig.nack("c1", 1)
    assert rig.got("c2") == []
    assert discard_up_to(rig.dispatcher, pack(1, 1), 0.0) == 1
    assert rig.got("c2") == [2]


def test_an_entry_below_the_join_position_that_arrives_late_counts() -> None:
    """The broker sends an old entry after the join: the gate waits for it too, and lets it through."""
    rig = Rig(GATED, c1=[A], c2=[A, B])
    rig.join("c1", 10)
    rig.entries(A, 5)
    rig.join("c2", 10)
    rig.entries(B, 3)
    rig.entries(B, 6)
    assert rig.got("c2") == [3]
    rig.ack("c1", 5)
    assert rig.got("c2") == []
    rig.ack("c2", 3)
    assert rig.got("c2") == [6]
