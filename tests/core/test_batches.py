"""Batches of several messages: of one key or of several, cut or whole, readable or opaque."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.core import acknowledgement
from proxy.core.cutting import cut
from proxy.core.delivery_key import delivery_key, wire_id
from proxy.core.dispatcher import OrderingMode
from proxy.core.entry import MIXED_MESSAGE_BYTES, PART_BYTES, Batch, Part
from proxy.core.index_bits import indexes_to_bits
from proxy.core.positions import entry_of, pack
from proxy.core.slice_id import SLICED_MESSAGES_MAX, original_entry
from proxy.core.stream_leases import StreamLeases
from proxy.core.waiting import BLOCKED_SLOT_BYTES
from tests.core.batches import by_slot
from tests.core.test_dispatcher_rig import LEDGER, A, B, C, D, Rig
from tests.growth import growth

if TYPE_CHECKING:
    from collections.abc import Callable


def index_acks(rig: Rig) -> dict[int, int]:
    """Entries acknowledged in part, with the bits of what is not."""
    return {entry_of(position): batch.unacked for position, batch in rig.dispatcher.outstanding.index_acks.items()}


def test_a_mixed_batch_for_one_taker_goes_whole_under_its_own_id() -> None:
    """All keys belong to one worker with permits enough: it gets the entry as the broker sent it."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 4)
    rig.mixed(1, A, B, A, B)
    assert rig.got("c1") == [1]
    assert rig.workers["c1"].permits == 0
    assert rig.ack("c1", 1)
    assert rig.acked_upstream() == [1]


def test_a_mixed_batch_for_two_takers_is_sliced_by_owner() -> None:
    """Each worker gets its own messages, together; the entry is acknowledged upstream once, with the last slice."""
    rig = Rig(c1=[A, C], c2=[B])
    rig.join("c1", 10)
    rig.join("c2", 10)
    rig.mixed(1, A, B, C, B)
    assert rig.got("c1") == [(1, (0, 2))]
    assert rig.got("c2") == [(1, (1, 3))]
    assert rig.ack("c1", (1, (0, 2)))
    assert rig.acked_upstream() == []
    assert rig.ack("c2", (1, (1, 3)))
    assert rig.acked_upstream() == [1]
    assert rig.dispatcher.outstanding.bytes_held == 0


def test_a_mixed_batch_waits_for_what_was_sent_before_its_worker_joined() -> None:
    """PIP-282: also what could leave in the moment it comes."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A, B], c2=[C, D])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.mixed(2, C, D)
    assert rig.got("c2") == []
    rig.ack("c1", 1)
    assert rig.got("c2") == [2]


def test_a_mixed_batch_does_not_overtake_one_that_waited_for_a_lease() -> None:
    """The lease is renewed, and a batch comes before anything else tells of that."""
    rig = Rig(c1=[A, B])
    leases = rig.dispatcher.leases = StreamLeases(1)
    leases.open(0)
    leases.until = 10.0
    rig.join("c1", 10)
    rig.now = 10.0
    rig.mixed(1, A, B)
    assert rig.got("c1") == []
    leases.until = 20.0
    rig.mixed(2, A, B)
    assert rig.got("c1") == [1, 2]


def test_only_the_blocked_part_of_a_mixed_batch_waits() -> None:
    """A key that drains does not hold back the batch's other keys."""
    rig = Rig(c1=[A, B], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.mixed(2, A, B)
    assert rig.got("c1") == [1, (2, (1,))]
    assert rig.got("c2") == []
    rig.ack("c1", 1)
    assert rig.got("c2") == [(2, (0,))]


def test_parts_that_waited_leave_together_again() -> None:
    """When the one owner of all of a batch's keys grants permits late, it gets the entry whole, not in slices."""
    rig = Rig(c1=[A, B, C])
    rig.join("c1")
    rig.mixed(1, A, B, C)
    rig.flow("c1", 3)
    assert rig.got("c1") == [1]


def test_a_batch_leaves_whole_behind_older_messages_of_one_of_its_keys() -> None:
    """Key B has two older messages: they go first, and then all of the batch in one piece."""
    rig = Rig(c1=[A, B])
    rig.join("c1")
    rig.entries(B, 1, 2)
    rig.mixed(3, A, B)
    rig.flow("c1", 10)
    assert rig.got("c1") == [1, 2, 3]


def test_a_backlog_of_mixed_batches_leaves_in_one_piece_for_each_worker() -> None:
    """With permits for several batches at a time, as clients grant them, few are cut: 1.2 pieces a worker at most."""
    rig = Rig(c1=[A, B], c2=[C, D])
    for name in ("c1", "c2"):
        rig.join(name)
    for number in range(100):
        rig.mixed(number, *[(A, B, C, D)[(number + place) % 4] for place in range(20)])
    sent = 0
    while rig.dispatcher.waiting_messages:
        for name in ("c1", "c2"):
            rig.flow(name, 53)
            sent += len(rig.units(name))
    assert 200 <= sent <= 240


def test_parts_that_were_blocked_join_what_waits_of_their_batch() -> None:
    """Two keys drain, one after the other: when the worker grants permits, it gets all of the batch at once."""
    rig = Rig(c1=[A, B], c2=[A, B, C])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.entries(B, 2)
    rig.join("c2")
    rig.mixed(3, A, B, C, A)
    rig.ack("c1", 1)
    rig.ack("c1", 2)
    rig.flow("c2", 10)
    assert rig.got("c2") == [3]
    held = rig.dispatcher.outstanding
    rig.ack("c2", 3)
    assert held.bytes_held == 0


def test_messages_of_a_batch_that_were_sent_unequally_often_keep_their_order() -> None:
    """They do not travel together, and one before them in the batch does not take later ones of their key along."""
    rig = Rig(c1=[A], c2=[A, B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 1)
    rig.mixed(2, A, B, B)
    assert rig.got("c2") == [(2, (1,))]
    rig.nack("c2")
    rig.flow("c2", 1)
    assert rig.got("c2") == [(2, (1,))]
    rig.ack("c1", 1)
    rig.flow("c2", 2)
    assert rig.got("c2") == [(2, (0, 2))]
    rig.nack("c2")
    rig.flow("c2", 10)
    assert rig.got("c2") == [(2, (0,)), (2, (1,)), (2, (2,))]


def test_a_mixed_delivery_that_comes_back_is_parted_among_its_keys_new_owners() -> None:
    """Half of it belongs to another worker meanwhile, which gets it at once; the rest goes to the same worker again."""
    rig = Rig(c1=[A, B], c2=[B])
    rig.join("c1", 10)
    rig.mixed(1, A, B, A, B)
    assert rig.got("c1") == [1]
    rig.join("c2", 10)
    rig.mixed(2, B, A)
    assert rig.got("c1") == [(2, (1,))]
    rig.nack("c1", 1)
    assert rig.got("c1") == [(1, (0, 2))]
    assert rig.got("c2") == [(1, (1, 3)), (2, (0,))]


def test_of_a_mixed_delivery_only_the_messages_not_acknowledged_come_back() -> None:
    """Bits of several keys: what was acknowledged is freed key by key and is sent no more."""
    rig = Rig(c1=[A, B, C])
    rig.join("c1", 10)
    rig.mixed(1, A, B, C, A, B)
    rig.got("c1")
    rig.ack_all_but("c1", 1, 1, 3)
    assert [rig.dispatcher.slots.count(slot) for slot in (A, B, C)] == [1, 1, 0]
    rig.nack("c1", 1)
    assert rig.got("c1") == [(1, (1, 3))]
    rig.ack("c1", (1, (1, 3)))
    assert rig.acked_upstream() == [1]


def test_permits_are_never_exceeded_by_a_batch_of_one_key() -> None:
    """The batch is cut where the permits end, and goes on with the next FLOW, in order."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 2)
    rig.batch(1, A, 5)
    assert rig.got("c1") == [(1, (0, 1))]
    assert worker.permits == 0
    rig.flow("c1", 1)
    assert rig.got("c1") == [(1, (2,))]
    rig.flow("c1", 100)
    assert rig.got("c1") == [(1, (3, 4))]
    assert worker.permits == 98
    assert rig.dispatcher.opaque_overshoots == 0


def test_permits_are_never_exceeded_by_a_mixed_batch() -> None:
    """The cut may go through a key's messages; what is left waits in its place."""
    rig = Rig(c1=[A, B])
    worker = rig.join("c1", 3)
    rig.mixed(1, A, B, A, B, A)
    assert rig.got("c1") == [(1, (0, 1, 2))], "in topic order"
    rig.flow("c1", 1)
    assert rig.got("c1") == [(1, (3,))]
    rig.flow("c1", 5)
    assert rig.got("c1") == [(1, (4,))]
    assert worker.permits == 4


def test_a_newer_message_waits_behind_the_rest_of_a_cut_batch() -> None:
    """Cutting keeps the key's order, also for what arrives in between."""
    rig = Rig(c1=[A])
    rig.join("c1", 1)
    rig.batch(1, A, 2)
    rig.entries(A, 2)
    assert rig.got("c1") == [(1, (0,))]
    rig.flow("c1", 2)
    assert rig.got("c1") == [(1, (1,)), 2]


def test_slices_of_one_entry_at_one_worker_have_different_ids() -> None:
    """Cut message by message, a long batch gives as many different ids, beyond message 1023 too."""
    rig = Rig(c1=[A])
    worker = rig.join("c1")
    count = 3000
    rig.batch(1, A, count)
    for _ in range(count):
        rig.flow("c1", 1)
    assert len(worker.pending) == count
    wire = [wire_id(unit.key) for unit in rig.units("c1")]
    assert len(set(wire)) == count
    assert {(ledger, original_entry(entry)) for ledger, entry in wire} == {(LEDGER, 1)}
    assert all(delivery_key(ledger, entry, 0) in worker.pending for ledger, entry in wire)


def test_the_same_messages_have_the_same_id_every_time() -> None:
    """A slice that comes back and goes out again, even to another worker, is called the same: ids are content."""
    rig = Rig(c1=[A], c2=[B], c3=[A])
    rig.join("c1", 10)
    rig.join("c2", 10)
    rig.mixed(1, A, B)
    (first,) = rig.units("c1")
    rig.nack("c1")
    (again,) = rig.units("c1")
    rig.join("c3", 10)
    rig.leave("c1")
    (moved,) = rig.units("c3")
    assert first.key == again.key == moved.key


def test_a_late_ack_of_a_slice_cut_otherwise_now_changes_nothing() -> None:
    """The slice came back and went out smaller: the ack of the larger one names nothing that is out."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 3)
    rig.join("c2", 10)
    rig.mixed(1, A, A, A, B)
    assert rig.got("c1") == [(1, (0, 1, 2))]
    rig.dispatcher.set_drained(rig.workers["c1"], True, 0.0)
    rig.nack("c1")
    rig.flow("c1", 2)
    rig.dispatcher.set_drained(rig.workers["c1"], False, 0.0)
    assert rig.got("c1") == [(1, (0, 1))]
    assert not rig.ack("c1", (1, (0, 1, 2)))
    assert not rig.ack("c1", 1)
    assert rig.workers["c1"].unacked == 2


def test_an_ack_of_one_slice_never_acks_a_neighbour() -> None:
    """Two slices of one entry at one worker are acknowledged each for itself."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 2)
    rig.batch(1, A, 4)
    rig.flow("c1", 2)
    assert rig.got("c1") == [(1, (0, 1)), (1, (2, 3))]
    rig.ack("c1", (1, (0, 1)))
    assert worker.unacked == 2
    assert rig.acked_upstream() == []
    rig.ack("c1", (1, (2, 3)))
    assert rig.acked_upstream() == [1]


def test_single_acks_of_a_whole_batch_free_it_with_the_last() -> None:
    """Acknowledged message by message, the entry goes upstream once, when none is left."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 3)
    rig.batch(1, A, 3)
    assert rig.ack_all_but("c1", 1, 0, 2)
    assert worker.unacked == 2
    assert index_acks(rig) == {1: 0b101}
    assert rig.ack_all_but("c1", 1, 2)
    assert rig.acked_upstream() == []
    assert rig.ack_all_but("c1", 1)
    assert rig.acked_upstream() == [1]
    assert index_acks(rig) == {}
    assert worker.acked_messages == 3


def test_the_same_single_ack_twice_counts_once() -> None:
    """A client repeats what it acknowledged so far with every ack_set."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 3)
    rig.batch(1, A, 3)
    rig.ack_all_but("c1", 1, 1, 2)
    rig.ack_all_but("c1", 1, 1, 2)
    assert worker.unacked == 2
    assert worker.acked_messages == 1


def test_single_acks_of_several_keys_at_one_worker_free_key_by_key() -> None:
    """Bits are the delivery's, whatever keys of it are done already: message 3 is message 3 to the end."""
    rig = Rig(c1=[A, B], c2=[A, B])
    rig.join("c1", 4)
    rig.mixed(1, A, B, A, B)
    assert rig.got("c1") == [1]
    rig.join("c2", 10)
    rig.entries(A, 2)
    rig.entries(B, 3)
    rig.ack_all_but("c1", 1, 1, 3)
    assert rig.got("c2") == [2], "key A is done"
    rig.ack_all_but("c1", 1, 1)
    assert rig.got("c2") == []
    assert rig.workers["c1"].unacked == 1
    assert index_acks(rig) == {1: 0b0010}
    rig.leave("c1")
    assert rig.got("c2") == [(1, (1,)), 3], "message 3 of the batch was acknowledged, message 1 was not"


def test_bits_of_a_slice_are_the_slices_own() -> None:
    """A client counts the messages of the smaller batch it got; upstream hears of the original ones."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.join("c2", 10)
    rig.mixed(1, A, B, A, B, A)
    assert rig.got("c1") == [(1, (0, 2, 4))]
    rig.ack_all_but("c1", (1, (0, 2, 4)), 0, 2)
    assert index_acks(rig) == {1: 0b11011}


def test_bits_beyond_the_batch_are_ignored() -> None:
    """Clients send whole words: an ack_set with bits above the last message acknowledges what it can."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.batch(1, A, 2)
    assert rig.ack_all_but("c1", 1, 40)
    assert rig.acked_upstream() == [1]


def test_after_a_crash_only_the_unacknowledged_messages_come_back() -> None:
    """Acknowledged messages of a batch are not sent again; the rest goes as a slice, to whoever owns the key now."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 4)
    rig.batch(1, A, 4)
    rig.got("c1")
    rig.ack_all_but("c1", 1, 1, 3)
    rig.join("c2", 10)
    rig.leave("c1")
    (unit,) = rig.units("c2")
    assert (unit.indexes, unit.count, unit.redeliveries) == ((1, 3), 2, 1)
    assert rig.workers["c2"].permits == 8
    assert rig.ack("c2", (1, (1, 3)))
    assert rig.acked_upstream() == [1]


def test_messages_of_an_earlier_life_are_not_delivered() -> None:
    """What the broker's ack_set says is acknowledged stays so; the ack upstream needs only the others."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 10)
    rig.mixed(1, None, A, B, None)
    assert rig.got("c1") == [(1, (1, 2))]
    assert rig.ack("c1", (1, (1, 2)))
    assert rig.acked_upstream() == [1]


def test_a_batch_of_one_group_needs_no_slice() -> None:
    """Whoever groups a batch that has one key only gets a whole entry all the same."""
    batch = by_slot(pack(LEDGER, 1), b"", 3, [(A, (0, 1, 2))], 0, 0.0)
    assert batch.parts[0].indexes is None


def test_an_opaque_entry_goes_whole_beyond_the_permits() -> None:
    """It cannot be cut, so one permit is enough to get it; the overshoot is counted and paid back first."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 1)
    rig.opaque(1, A, 5)
    rig.opaque(2, A, 5)
    assert rig.got("c1") == [1]
    assert worker.permits == -4
    assert rig.dispatcher.opaque_overshoots == 1
    rig.flow("c1", 4)
    assert rig.got("c1") == []
    rig.flow("c1", 1)
    assert rig.got("c1") == [2]


def test_an_opaque_entry_acknowledged_in_part_comes_back_whole() -> None:
    """Nobody can take single messages out of it; better a duplicate than a client that can never acknowledge."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    rig.opaque(1, A, 3)
    rig.got("c1")
    rig.ack_all_but("c1", 1, 2)
    assert worker.unacked == 1
    rig.nack("c1")
    assert rig.got("c1") == [1]
    assert worker.unacked == 3
    rig.ack_all_but("c1", 1, 0)
    assert rig.acked_upstream() == []
    rig.ack_all_but("c1", 1)
    assert rig.acked_upstream() == [1]


def test_many_messages_acknowledged_in_part_cost_no_more_for_each_than_few() -> None:
    """An encrypted batch may claim as many messages as it likes, and one ack command name every second of them."""

    def ready(count: int) -> Callable[[], None]:
        rig = Rig(w=[A])
        rig.join("w", permits=1)
        rig.opaque(1, A, count)
        every_second = int.from_bytes(b"\x55" * (count // 8), "little")

        def acknowledge() -> None:
            acknowledgement.ack_indexes(rig.dispatcher, rig.workers["w"], pack(LEDGER, 1), every_second, rig.now)
            (entry,) = rig.dispatcher.outstanding.entries.values()
            assert isinstance(entry, Batch)
            assert entry.unacked == every_second
            assert indexes_to_bits(range(0, count, 2), count) == every_second

        return acknowledge

    assert growth(ready, 1 << 15, 1 << 18) < 24  # 64, if each step took a number of all bits


def test_an_opaque_entry_of_an_earlier_life_goes_whole() -> None:
    """The same after a restart of the gateway, whatever the broker's ack_set says, and beyond the permits."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 1)
    batch = by_slot(pack(LEDGER, 1), b"", 4, [(A, (1, 3))], 0, 0.0)
    batch.parts[0].opaque = True
    rig.dispatcher.receive_batch(batch, 0.0)
    assert rig.got("c1") == [1]
    assert worker.unacked == 4
    rig.ack("c1", 1)
    assert rig.acked_upstream() == [1]


@pytest.mark.parametrize(("entry", "messages"), [(1 << 30, 5), (1, SLICED_MESSAGES_MAX + 1)])
def test_an_entry_without_room_for_a_slice_id_is_not_cut(entry: int, messages: int) -> None:
    """It goes whole, counted as an overshoot, rather than under an id that could be another's."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 2)
    rig.batch(entry, A, messages)
    assert rig.got("c1") == [entry]
    assert worker.permits == 2 - messages
    assert rig.dispatcher.opaque_overshoots == 1
    rig.ack_all_but("c1", entry, 0)
    rig.nack("c1")
    rig.flow("c1", messages)
    assert rig.got("c1") == [entry]


def test_a_mixed_batch_too_large_to_slice_goes_to_one_worker() -> None:
    """Whole, to the owner of its first message: what cannot be cut is not cut."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.join("c2", 10)
    total = SLICED_MESSAGES_MAX + 1
    batch = by_slot(pack(LEDGER, 1), b"", total, [(A, (0,)), (B, tuple(range(1, total)))], 0, 0.0)
    rig.dispatcher.receive_batch(batch, 0.0)
    assert rig.got("c1") == [1]
    assert rig.got("c2") == []
    rig.ack("c1", 1)
    assert rig.acked_upstream() == [1]


@pytest.mark.parametrize("mode", list(OrderingMode))
def test_a_batch_is_acknowledged_upstream_once_whatever_the_order_of_acks(mode: OrderingMode) -> None:
    """Three slices at three workers, acknowledged last to first: one ack upstream, after the third."""
    rig = Rig(mode, c1=[A], c2=[B], c3=[C])
    for name in ("c1", "c2", "c3"):
        rig.join(name, 10)
    rig.mixed(1, A, B, C)
    for name, index in (("c3", 2), ("c2", 1)):
        rig.ack(name, (1, (index,)))
        assert rig.acked_upstream() == []
    rig.ack("c1", (1, (0,)))
    rig.ack("c1", (1, (0,)))
    assert rig.acked_upstream() == [1]


def test_a_batch_costs_what_its_parts_cost() -> None:
    """The byte budget counts every part of an entry, not only its bytes, and gets all of it back."""
    rig = Rig(c1=[A, B, C])
    rig.join("c1")
    held = rig.dispatcher.outstanding
    rig.entries(A, 1)
    rig.entries(B, 2)
    rig.entries(C, 3)
    three = held.bytes_held
    rig.mixed(4, A, B, C)
    assert held.bytes_held - three == 100 + PART_BYTES + 3 * MIXED_MESSAGE_BYTES, "it has one taker"
    rig.batch(5, A, 2)
    whole = held.bytes_held
    rig.flow("c1", 7)
    assert held.bytes_held == whole + PART_BYTES, "the last batch was cut"
    rig.entries(D, 6)
    assert held.bytes_held == whole + 2 * PART_BYTES + 1 + BLOCKED_SLOT_BYTES, "a key without owner waits"
    rig.dispatcher.blocked[D].parts.clear()
    rig.dispatcher.forget_blocked(D)
    held.discard(pack(LEDGER, 6), PART_BYTES + 1)
    rig.flow("c1", 5)
    for unit in rig.units("c1"):
        acknowledgement.ack(rig.dispatcher, rig.workers["c1"], unit.key, 0.0)
    assert held.bytes_held == 0


def test_what_was_sent_is_counted_by_the_share_of_the_bytes() -> None:
    """A slice counts its part of the entry's bytes, so that the parts add up to the entry."""
    rig = Rig(c1=[A], c2=[B])
    first, second = rig.join("c1", 10), rig.join("c2", 10)
    rig.mixed(1, A, B, A, A)
    assert (first.sent_bytes, second.sent_bytes) == (75, 25)


def test_a_cut_takes_the_first_messages_and_shares_the_entry() -> None:
    """Both parts belong to one batch afterwards, and say which messages are theirs."""
    part = Part(pack(LEDGER, 1), A, 3, b"", 2, 0.0)
    head = cut(part, 1)
    assert isinstance(head.batch, Batch)
    assert head.batch is part.batch
    assert (head.indexes, part.indexes) == ((0,), (1, 2))
    assert (head.count, part.count, head.redeliveries) == (1, 2, 2)
    assert head.batch.parts == [part, head]
