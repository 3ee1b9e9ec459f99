"""Acknowledgements inside transactions: what counts as held until they end, and what each end does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.core import reposition, transactional_acks
from proxy.core.dispatcher import OrderingMode
from proxy.core.errors import ConsumerAssignError, NotHeldError, OpaqueBatchError
from proxy.core.explain import SlotState, explain_slot
from proxy.core.key_policy import KeyPolicy
from proxy.core.positions import pack
from proxy.core.slots import MAX_HOLDER
from proxy.core.transactions import Held
from tests.core.test_dispatcher_rig import LEDGER, A, B, Got, Rig
from tests.growth import growth

if TYPE_CHECKING:
    from collections.abc import Callable

T1, T2 = (0, 1), (0, 2)


def hold(rig: Rig, name: str, *what: Got, transaction: tuple[int, int] = T1, unacked: int | None = None) -> list[Held]:
    """A worker acknowledges deliveries inside a transaction, which the broker confirms."""
    wanted = [(rig.key(each), unacked) for each in what]
    helds = transactional_acks.hold(rig.dispatcher, rig.workers[name], wanted, transaction, rig.now)
    for held in helds:
        held.confirmed = True
    return helds


def commit(rig: Rig, helds: list[Held]) -> None:
    """Their transaction is committed."""
    transactional_acks.commit(rig.dispatcher, helds, rig.now)


def abort(rig: Rig, helds: list[Held]) -> None:
    """Their transaction is aborted."""
    transactional_acks.abort(rig.dispatcher, helds, rig.now)


def test_a_commit_acknowledges() -> None:
    """Nothing goes upstream before it; then everything is as after an ack."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 9)
    rig.entries(A, 1)
    helds = hold(rig, "c1", 1)
    assert (worker.unacked, worker.acked_messages, rig.acked_upstream()) == (0, 0, [])
    assert rig.dispatcher.outstanding.bytes_held > 0
    commit(rig, helds)
    assert (worker.acked_messages, rig.acked_upstream()) == (1, [1])
    assert (rig.dispatcher.outstanding.bytes_held, len(rig.dispatcher.slots)) == (0, 0)
    assert not rig.dispatcher.in_transaction


def test_an_abort_delivers_again_before_what_is_newer() -> None:
    """What was held comes back at its place, in topic order, with a raised count."""
    rig = Rig(c1=[A])
    rig.join("c1", 3)
    rig.entries(A, 1, 2, 3, 4, 5)
    assert rig.got("c1") == [1, 2, 3]
    helds = hold(rig, "c1", 2, 1)
    abort(rig, helds)
    rig.flow("c1", 9)
    units = rig.units("c1")
    assert [(unit.position, unit.redeliveries) for unit in units] == [
        (pack(LEDGER, 1), 1),
        (pack(LEDGER, 2), 1),
        (pack(LEDGER, 4), 0),
        (pack(LEDGER, 5), 0),
    ]


def test_the_same_worker_goes_on_and_no_other_does() -> None:
    """A transaction may take many messages of a key; a new owner of the key waits for its end."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 9)
    rig.entries(A, 1)
    helds = hold(rig, "c1", 1)
    rig.entries(A, 2)
    assert rig.got("c1") == [1, 2]
    rig.join("c2", 9)
    rig.ack("c1", 2)
    rig.entries(A, 3)
    assert (rig.got("c1"), rig.got("c2"), rig.draining()) == ([], [], [A])
    commit(rig, helds)
    assert (rig.got("c2"), rig.draining()) == ([3], [])


def test_what_comes_back_after_a_join_goes_to_the_new_owner_before_newer_ones() -> None:
    """The former holder has nothing of the key any more."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 9)
    rig.entries(A, 1)
    helds = hold(rig, "c1", 1)
    rig.join("c2", 9)
    rig.entries(A, 2)
    abort(rig, helds)
    assert (rig.got("c1"), rig.got("c2")) == ([1], [1, 2])


def test_a_key_s_window_counts_it() -> None:
    """With a window of one, nothing of the key follows before the transaction has ended."""
    rig = Rig(c1=[A])
    rig.dispatcher.set_policy(KeyPolicy(window=1))
    rig.join("c1", 9)
    rig.entries(A, 1, 2)
    helds = hold(rig, "c1", 1)
    assert rig.got("c1") == [1]
    abort(rig, helds)
    assert rig.got("c1") == [1]
    commit(rig, hold(rig, "c1", 1))
    assert rig.got("c1") == [2]


@pytest.mark.parametrize("committed", [True, False])
def test_a_worker_that_leaves_remains_the_holder_until_the_end(committed: bool) -> None:  # noqa: FBT001 - a parameter
    """What it holds goes to others, but for what the transaction has; its index is no one else's meanwhile."""
    rig = Rig(c1=[A, B], c2=[A, B], c3=[])
    rig.join("c2", 9)
    rig.join("c1", 9)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    helds = hold(rig, "c1", 1)
    left = rig.workers["c1"]
    rig.leave("c1")
    assert rig.got("c2") == [3]
    third = rig.join("c3", 9)
    assert third.index != left.index
    assert rig.draining() == [A]
    rig.entries(A, 4)
    assert rig.got("c2") == []
    (commit if committed else abort)(rig, helds)
    assert rig.got("c2") == ([2, 4] if committed else [1, 2, 4])
    assert not rig.dispatcher.in_transaction.departed
    assert left.index in rig.dispatcher.free_indexes


def test_a_departed_worker_s_slots_that_move_again_drain_on() -> None:
    """A join after its leave finds a holder that is among the workers no more."""
    rig = Rig(c1=[A], c2=[A], c3=[A])
    rig.join("c2", 9)
    rig.join("c1", 9)
    rig.entries(A, 1)
    helds = hold(rig, "c1", 1)
    rig.leave("c1")
    rig.join("c3", 9)
    rig.entries(A, 2)
    abort(rig, helds)
    assert (rig.got("c2"), rig.got("c3")) == ([], [1, 2])


def test_the_broker_s_sending_it_again_is_an_abort() -> None:
    """It sends what no transaction has: the key's newer messages, in the same turn, come behind it."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.entries(A, 1)
    hold(rig, "c1", 1)
    assert rig.got("c1") == [1]
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1, 2]
    assert not rig.dispatcher.in_transaction


def test_what_crossed_the_acknowledgement_is_no_abort() -> None:
    """Sent before the broker confirmed it, it says nothing."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.entries(A, 1)
    (held,) = hold(rig, "c1", 1)
    held.confirmed = False
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    assert rig.dispatcher.in_transaction.messages == 1


def test_the_mark_delete_position_tells_of_commits() -> None:
    """What lies at or below it is acknowledged; the rest waits on."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.entries(A, 1, 2, 3)
    hold(rig, "c1", 1, 2, 3)
    transactional_acks.committed_up_to(rig.dispatcher, pack(LEDGER, 2), rig.now)
    assert rig.acked_upstream() == [1, 2]
    assert rig.dispatcher.in_transaction.messages == 1


def test_single_messages_of_a_batch() -> None:
    """Each in a transaction of its own; one is committed, one aborted, one acknowledged in the ordinary way."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 9)
    rig.batch(1, A, 3)
    assert rig.got("c1") == [1]
    first = hold(rig, "c1", 1, unacked=0b110)
    second = hold(rig, "c1", 1, transaction=T2, unacked=0b101)
    assert rig.ack_all_but("c1", 1, 0, 1)
    assert (worker.unacked, worker.pending, rig.acked_upstream()) == (0, {}, [])
    commit(rig, first)
    batch = rig.dispatcher.outstanding.entries[pack(LEDGER, 1)]
    assert getattr(batch, "unacked", None) == 0b010
    abort(rig, second)
    assert rig.got("c1") == [(1, (1,))]
    rig.ack("c1", (1, (1,)))
    assert rig.acked_upstream() == [1]
    assert (rig.dispatcher.outstanding.bytes_held, len(rig.dispatcher.slots)) == (0, 0)


def test_a_part_of_a_batch_that_its_worker_gives_back_leaves_out_what_is_held() -> None:
    """Only what is not in a transaction comes again."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.batch(1, A, 3)
    rig.got("c1")
    hold(rig, "c1", 1, unacked=0b101)
    rig.nack("c1")
    assert rig.got("c1") == [(1, (0, 2))]


def test_the_broker_s_ack_set_tells_which_messages_of_a_batch_were_aborted() -> None:
    """Those that it offers again; the others of the entry are held on."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.mixed(1, A, A, A)
    rig.got("c1")
    hold(rig, "c1", 1, unacked=0b110)
    hold(rig, "c1", 1, transaction=T2, unacked=0b101)
    rig.mixed(1, A, None, A)
    assert rig.got("c1") == [(1, (0,))]
    assert [held.transaction for held in rig.dispatcher.in_transaction.all()] == [T2]


def test_what_a_worker_does_not_hold_is_refused_whole() -> None:
    """Unknown, acknowledged, named twice, or in another transaction: nothing of the command is taken."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 9)
    rig.join("c2", 9)
    rig.entries(A, 1, 2, 3)
    rig.batch(4, A, 2)
    rig.ack("c1", 2)
    hold(rig, "c1", 3)
    rig.ack_all_but("c1", 4, 1)
    for name, what, unacked in (
        ("c1", (1, 2), None),
        ("c1", (1, 3), None),
        ("c1", (1, 1), None),
        ("c1", (1, 9), None),
        ("c1", (4,), 0b10),
        ("c2", (1,), None),
    ):
        with pytest.raises(NotHeldError):
            hold(rig, name, *what, unacked=unacked)
    assert rig.dispatcher.in_transaction.messages == 1
    hold(rig, "c1", 1)


def test_a_delivery_named_whole_is_what_is_left_of_it() -> None:
    """As the broker takes it, unless a transaction has some of it."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.batch(1, A, 3)
    rig.batch(2, A, 3)
    rig.ack_all_but("c1", 1, 1, 2)
    commit(rig, hold(rig, "c1", 1))
    assert rig.acked_upstream() == [1]
    hold(rig, "c1", 2, unacked=0b110)
    with pytest.raises(NotHeldError):
        hold(rig, "c1", 2, transaction=T2)


def test_a_batch_that_goes_whole_is_acknowledged_whole() -> None:
    """Else what is aborted of it could not be delivered without the rest."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.opaque(1, A, 3)
    rig.got("c1")
    with pytest.raises(OpaqueBatchError):
        hold(rig, "c1", 1, unacked=0b110)
    abort(rig, hold(rig, "c1", 1))
    assert rig.got("c1") == [1]


def test_keys_that_are_not_waited_for_any_more_go_on() -> None:
    """What the broker has not answered stays held; the rest may come again, and then is news."""
    for confirmed in (False, True):
        rig = Rig(c1=[A], c2=[A])
        rig.join("c2", 9)
        rig.join("c1", 9)
        rig.entries(A, 1)
        (held,) = hold(rig, "c1", 1)
        held.confirmed = confirmed
        rig.leave("c1")
        rig.entries(A, 2)
        assert rig.got("c2") == []
        transactional_acks.wait_no_more(rig.dispatcher, [held], rig.now)
        transactional_acks.wait_no_more(rig.dispatcher, [held], rig.now)
        assert rig.got("c2") == [2]
        assert not rig.dispatcher.in_transaction.departed
        assert bool(rig.dispatcher.in_transaction) is not confirmed
        if confirmed:
            rig.entries(A, 1)
        else:
            abort(rig, [held])
        assert rig.got("c2") == [1]
        rig.ack("c2", 1, 2)
        assert rig.acked_upstream() == [1, 2]
        assert rig.dispatcher.outstanding.bytes_held == 0


def over(rig: Rig, *helds: Held) -> None:
    """Their transactions have ended, and the broker sends nothing of them again."""
    transactional_acks.wait_no_more(rig.dispatcher, helds, rig.now)


def test_what_is_not_waited_for_takes_no_memory() -> None:
    """Transactions end unseen by the thousand while an older message is not acknowledged."""
    rig = Rig(c1=[A], c2=[B])
    worker = rig.join("c1", 9)
    rig.join("c2", 9)
    rig.entries(B, 1)
    held_bytes = rig.dispatcher.outstanding.bytes_held
    rig.entries(A, 2)
    rig.batch(3, A, 3)
    rig.opaque(4, A, 1_000_000)
    rig.flow("c1", 1_000_000)
    assert rig.got("c1") == [2, 3, 4]
    over(rig, *hold(rig, "c1", 2, 3, 4))
    outstanding = rig.dispatcher.outstanding
    assert outstanding.bytes_held == held_bytes
    assert (rig.acked_upstream(), outstanding.unconfirmed, outstanding.index_acks) == ([], set(), {})
    assert (worker.acked_messages, worker.held_in_transactions, len(rig.dispatcher.slots)) == (1_000_004, 0, 1)
    assert outstanding.open_from == pack(LEDGER, 1)
    rig.ack("c2", 1)
    assert (rig.acked_upstream(), outstanding.open_from) == ([1], pack(LEDGER, 1))
    outstanding.confirmed([pack(LEDGER, 1)])
    assert outstanding.open_from == pack(LEDGER, 2), "the cursor may stand before it"
    outstanding.acknowledged_up_to(pack(LEDGER, 4))
    assert outstanding.was_confirmed(pack(LEDGER, 4))
    rig.entries(A, 2)
    assert (rig.got("c1"), rig.acked_upstream()) == ([], [2])


def test_no_join_gate_waits_for_what_is_not_waited_for() -> None:
    """A worker that joined would stand still until an older message is acknowledged, which may wait for room."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A], c2=[B])
    rig.join("c1", 9)
    rig.entries(A, 1)
    rig.batch(2, A, 2)
    first, second = hold(rig, "c1", 1), hold(rig, "c1", 2, unacked=0b10)
    rig.join("c2", 9)
    rig.entries(B, 3)
    assert rig.got("c2") == []
    over(rig, *first, *second)
    assert rig.got("c2") == [], "of the batch a worker has something yet"
    rig.ack_all_but("c1", 2, 0)
    assert rig.got("c2") == [3]
    assert rig.dispatcher.gated == []


def test_of_a_batch_the_rest_is_acknowledged_without_what_is_not_waited_for() -> None:
    """Which comes again after all: alone, and then the entry is done."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.batch(1, A, 3)
    assert rig.got("c1") == [1]
    over(rig, *hold(rig, "c1", 1, unacked=0b110))
    outstanding = rig.dispatcher.outstanding
    assert outstanding.kept_back == {pack(LEDGER, 1): 0b001}
    rig.ack_all_but("c1", 1, 0)
    assert rig.acked_upstream() == [1]
    assert (outstanding.kept_back, outstanding.bytes_held) == ({pack(LEDGER, 1): 0b001}, 0)
    outstanding.confirmed([pack(LEDGER, 1)])
    rig.mixed(1, A, None, None)
    assert rig.got("c1") == [(1, (0,))]
    rig.ack("c1", (1, (0,)))
    assert rig.acked_upstream() == [1]
    outstanding.confirmed([pack(LEDGER, 1)])
    assert outstanding.was_confirmed(pack(LEDGER, 1))


def test_messages_of_a_batch_in_two_transactions_that_are_not_waited_for() -> None:
    """One of them was aborted: its message comes, the other stays where it is."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.mixed(1, A, A)
    rig.got("c1")
    over(rig, *hold(rig, "c1", 1, unacked=0b10), *hold(rig, "c1", 1, transaction=T2, unacked=0b01))
    outstanding = rig.dispatcher.outstanding
    assert (outstanding.bytes_held, rig.acked_upstream()) == (0, [])
    rig.mixed(1, None, A)
    assert rig.got("c1") == [(1, (1,))]
    rig.ack("c1", (1, (1,)))
    assert rig.acked_upstream() == [1]
    assert outstanding.kept_back == {pack(LEDGER, 1): 0b01}


def test_a_chunk_that_is_not_waited_for_comes_again_as_one() -> None:
    """Nothing of it was kept but its position."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.chunk(1, A, "m", 0, 1)
    assert rig.got("c1") == [1]
    over(rig, *hold(rig, "c1", 1))
    rig.chunk(1, A, "m", 0, 1)
    (unit,) = rig.units("c1")
    assert (unit.chunk is not None, unit.indexes) == (True, None)


def test_it_is_told_why_a_key_waits_and_whose_transaction_it_is() -> None:
    """Also when that worker has left."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c2", 9)
    rig.join("c1", 9)
    rig.entries(A, 1)
    helds = hold(rig, "c1", 1)
    rig.leave("c1")
    rig.entries(A, 2)
    told = explain_slot(rig.dispatcher, A, rig.now)
    assert (told.state, told.owner, told.holder) == (SlotState.IN_TRANSACTION, "c2", "c1")
    assert told.unblocks == "the transaction must end in which c1 acknowledged 1 message of the slot"
    abort(rig, helds)
    assert explain_slot(rig.dispatcher, A, rig.now).state is SlotState.FLOWING


def test_a_seek_forgets_it() -> None:
    """What ends afterwards changes nothing."""
    rig = Rig(c1=[A])
    rig.join("c1", 9)
    rig.entries(A, 1)
    helds = hold(rig, "c1", 1)
    reposition.reset(rig.dispatcher, rig.now)
    commit(rig, helds)
    assert rig.acked_upstream() == []
    rig.entries(A, 1)
    assert rig.got("c1")[-1:] == [1]


def test_those_who_left_transactions_open_are_no_more_than_a_slot_can_name() -> None:
    """One who comes, acknowledges and goes, again and again: the next is refused, and nothing has changed."""
    rig = Rig(c1=[A], c2=[B])
    worker = rig.join("c1", 9)
    departed = rig.dispatcher.in_transaction.departed
    departed.update(dict.fromkeys(range(2, MAX_HOLDER + 1), worker))
    with pytest.raises(ConsumerAssignError, match="transactions"):
        rig.join("c2", 9)
    assert rig.dispatcher.workers == {1: worker}
    departed.clear()
    rig.join("c2", 9)
    rig.entries(B, 1)
    assert rig.got("c2") == [1]


def test_the_messages_of_a_large_batch_are_held_one_by_one_at_the_price_of_so_many() -> None:
    """One entry may be held in as many pieces as it has messages, and the end of a transaction looks at each."""

    def ready(count: int) -> Callable[[], None]:
        rig = Rig(c1=[A])
        worker = rig.join("c1", count)
        rig.batch(1, A, count)
        assert len(rig.got("c1")) == 1
        whole = (1 << count) - 1
        wanted = [(pack(LEDGER, 1), whole ^ 1 << index) for index in range(count)]
        held: list[Held] = []
        for number in range(count):
            held += transactional_acks.hold(rig.dispatcher, worker, wanted[number : number + 1], (0, number), rig.now)
        assert worker.pending == {}

        def end() -> None:
            assert len(rig.dispatcher.in_transaction.take(reversed(held))) == count
            assert not rig.dispatcher.in_transaction

        return end

    assert growth(ready, 500, 4_000) < 32  # 64, if each were looked for


def test_a_chunked_message_that_comes_back_piece_by_piece_goes_to_one_worker() -> None:
    """A broker sends entry after entry: who got the beginning needs the rest, which passes the window.

    The key waited too long for the transaction's end, and so does not wait for all that comes.
    """
    rig = Rig(c1=[A], c2=[A])
    rig.dispatcher.set_policy(KeyPolicy(window=1))
    rig.join("c1", 9)
    for index in range(3):
        rig.chunk(1 + index, A, "m", index, 3)
    assert rig.got("c1") == [1, 2, 3]
    helds = hold(rig, "c1", 1, 2, 3)
    rig.leave("c1")
    rig.join("c2", 9)
    for held in helds:
        held.confirmed = False
    transactional_acks.wait_no_more(rig.dispatcher, helds, rig.now)
    for held in helds:
        abort(rig, [held])
    assert rig.got("c2") == [1, 2, 3]
    assert rig.dispatcher.chunked.workers() == []
