"""A batch that cannot be read claims as many messages as it likes, in a few bytes: none of them is looked at alone."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from proxy.core import acknowledgement, preview, transactional_acks
from proxy.core.delivery_log import LISTED_MAX, How
from proxy.core.errors import OpaqueBatchError
from proxy.core.hash_ranges import RangeMove
from proxy.core.key_policy import KeyPolicy
from proxy.core.positions import entry_of, pack
from proxy.core.steps import finished
from proxy.core.stuck import stuck_steps
from tests.core.test_dispatcher_rig import LEDGER, A, B, C, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 1_000


class CountedSlot(int):
    """A slot that counts how often it is looked up or compared."""

    looks = 0

    def __hash__(self) -> int:
        """One look."""
        CountedSlot.looks += 1
        return int.__hash__(self)

    def __eq__(self, other: object) -> bool:
        """One look."""
        CountedSlot.looks += 1
        return int.__eq__(self, other)

    def __lt__(self, other: int) -> bool:
        """One look."""
        CountedSlot.looks += 1
        return int.__lt__(self, other)


def looks(story: Callable[[Rig, int], None], count: int) -> int:
    """How often a slot is looked at while a story with a batch of so many messages is told."""
    rig = Rig(c1=[A, B], c2=[B, A], c3=[C])
    rig.join("c1")
    CountedSlot.looks = 0
    story(rig, count)
    return CountedSlot.looks


def same_for_all_counts(story: Callable[[Rig, int], None]) -> None:
    """The story costs no more where the batch claims more."""
    few = looks(story, COUNT)
    assert looks(story, 2 * COUNT) == few


def test_what_waits_is_counted_entry_by_entry() -> None:
    """Every scrape asks how many slots wait, and an operator for those that are stuck."""

    def waits(rig: Rig, count: int) -> None:
        slot = CountedSlot(A)
        for number in range(3):
            rig.opaque(number, slot, count)
        assert rig.dispatcher.waiting_by_slot() == {A: 3 * count}
        stuck = finished(stuck_steps(rig.dispatcher, 10, lambda _: None, rig.now))
        assert [(each.slot, each.waiting_messages) for each in stuck.slots] == [(A, 3 * count)]
        moves = [RangeMove(slot, slot, rig.workers["c1"], None)]
        assert finished(preview._waiting_in(rig.dispatcher, moves)) == 3 * count

    same_for_all_counts(waits)


def test_what_comes_while_a_slot_drains_is_not_looked_at_by_message() -> None:
    """Nor what comes back then, from one worker or of one that leaves."""

    def drains(rig: Rig, count: int) -> None:
        slot = CountedSlot(A)
        rig.flow("c1", 2 * count)
        rig.opaque(1, slot, count)
        rig.opaque(2, slot, count)
        assert rig.got("c1") == [1, 2]
        rig.join("c2", count)
        rig.opaque(3, slot, count)
        rig.nack("c1", 2)
        assert rig.got("c2") == []
        rig.leave("c1")
        assert rig.got("c2") == [1]

    same_for_all_counts(drains)


def test_what_lies_at_a_worker_that_does_not_read_is_not_looked_at_by_message() -> None:
    """At each join and leave it is asked whose it is now."""

    def unread(rig: Rig, count: int) -> None:
        rig.flow("c1", 2 * count)
        rig.opaque(1, CountedSlot(A), count)
        rig.dispatcher.set_writable(rig.workers["c1"], False, rig.now)
        rig.join("c3")
        rig.leave("c3")

    same_for_all_counts(unread)


def test_what_is_held_in_a_transaction_is_not_looked_at_by_message() -> None:
    """Neither when it is acknowledged in one, nor when that is aborted."""

    def aborted(rig: Rig, count: int) -> None:
        worker = rig.workers["c1"]
        rig.flow("c1", 2 * count)
        rig.opaque(1, CountedSlot(A), count)
        assert rig.got("c1") == [1]
        held = transactional_acks.hold(rig.dispatcher, worker, [(pack(LEDGER, 1), None)], (0, 1), rig.now)
        assert rig.dispatcher.in_transaction.count_of(A) == count
        transactional_acks.abort(rig.dispatcher, held, rig.now)
        assert rig.dispatcher.in_transaction.count_of(A) == 0
        assert rig.got("c1") == [1]

    same_for_all_counts(aborted)


def test_a_retry_waits_for_the_slot_and_not_for_each_message() -> None:
    """Under a policy what comes back waits."""

    def retried(rig: Rig, count: int) -> None:
        rig.dispatcher.set_policy(KeyPolicy(retry_delay_s=1.0))
        rig.flow("c1", count)
        rig.opaque(1, CountedSlot(A), count)
        assert rig.got("c1") == [1]
        rig.nack("c1", 1)
        assert list(rig.dispatcher.retries.held) == [A]

    same_for_all_counts(retried)


def test_an_ack_of_all_but_one_lists_no_messages() -> None:
    """It is thirty bytes on the wire, and the broker hears of it by bits: a byte for eight messages."""
    count = 1 << 20
    rig = Rig(c1=[A])
    rig.join("c1", count)
    rig.opaque(1, A, count)
    assert rig.got("c1") == [1]
    tracemalloc.start()
    try:
        assert rig.ack_all_but("c1", 1, 5)
        (batch,) = rig.dispatcher.outstanding.index_acks.values()
        assert batch.unacked == 1 << 5
        assert tracemalloc.get_traced_memory()[1] < count
    finally:
        tracemalloc.stop()
    assert rig.workers["c1"].unacked == 1
    assert rig.dispatcher.slots.count(A) == 1
    rig.nack("c1", 1)
    assert rig.dispatcher.slots.count(A) == 0
    assert rig.dispatcher.waiting_messages == count


def test_a_record_has_what_claims_much_as_one_that_ends_with_its_last_message() -> None:
    """Neither a partial acknowledgement nor a return lists its messages."""
    count = 1 << 20
    rig = Rig(c1=[A])
    endings = rig.dispatcher.endings = []
    rig.join("c1", 2 * count)
    rig.opaque(1, A, count).digest = 7
    assert rig.got("c1") == [1]
    tracemalloc.start()
    try:
        assert rig.ack_all_but("c1", 1, 5)
        assert endings == []
        rig.nack("c1", 1)
        assert [(how, indexes) for how, *_, indexes in endings] == [(How.ASKED_FOR, None)]
        assert rig.got("c1") == [1]
        assert rig.ack_all_but("c1", 1, 5)
        others = (1 << count) - 1 ^ 1 << 5
        assert acknowledgement.ack_indexes(rig.dispatcher, rig.workers["c1"], pack(LEDGER, 1), others, rig.now)
        assert tracemalloc.get_traced_memory()[1] < count
    finally:
        tracemalloc.stop()
    assert [(how, indexes) for how, *_, indexes in endings[1:]] == [(How.ACKED, None)]
    assert rig.dispatcher.slots.count(A) == 0


@pytest.mark.parametrize("count", [LISTED_MAX, LISTED_MAX + 1])
def test_a_record_lists_the_messages_of_smaller_batches(count: int) -> None:
    """Those that clients make, and all that can be cut."""
    rig = Rig(c1=[A, B])
    endings = rig.dispatcher.endings = []
    rig.join("c1", 3 * count)
    rig.batch(1, A, count)
    rig.opaque(2, B, count)
    assert rig.got("c1") == [1, 2]
    for number in (1, 2):
        assert rig.ack_all_but("c1", number, 5)
    rig.nack("c1", 1)
    listed = [(entry_of(part.position), len(indexes)) for _, part, *_, indexes in endings if indexes is not None]
    assert listed == [(1, count - 1), *([(2, count - 1)] if count == LISTED_MAX else []), (1, 1)]


def test_a_transaction_takes_no_single_messages_of_what_claims_much() -> None:
    """It is refused before any of them is listed."""
    count = 1 << 20
    rig = Rig(c1=[A])
    worker = rig.join("c1", count)
    rig.opaque(1, A, count)
    assert rig.got("c1") == [1]
    tracemalloc.start()
    try:
        with pytest.raises(OpaqueBatchError):
            transactional_acks.hold(rig.dispatcher, worker, [(pack(LEDGER, 1), 1 << 5)], (0, 1), rig.now)
        assert tracemalloc.get_traced_memory()[1] < count
    finally:
        tracemalloc.stop()
    assert not rig.dispatcher.in_transaction
