"""What is beyond its share waits without bytes, told as stories: who goes on, what is asked for, in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.core import spilling, transactional_acks
from proxy.core.dispatcher import OrderingMode
from proxy.core.entry import PART_BYTES
from proxy.core.key_policy import KeyPolicy
from proxy.core.positions import entry_of, pack
from proxy.core.spill import ASKED_BYTES_MAX, ASKED_MESSAGES_MAX, SPILLED_BYTES, Spill
from proxy.core.waiting import WaitReason
from tests.core.test_dispatcher_rig import LEDGER, A, B, C, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.transactions import Held

LOOK_AHEAD = 80
BUDGET_BYTES = 1 << 20
SHARE = KeyPolicy(share=0.05)
"""Four messages of the look-ahead."""


def rig_of(policy: KeyPolicy = SHARE, **claims: list[int]) -> Rig:
    """A subscription under the policy; nobody is there yet."""
    rig = Rig(OrderingMode.DRAINING_HASHES, **claims)
    rig.dispatcher.set_policy(policy)
    return rig


def end_turn(rig: Rig) -> list[int]:
    """What is asked for at the end of a turn, by number."""
    spilling.spill(rig.dispatcher, LOOK_AHEAD, BUDGET_BYTES, rig.now)
    return [entry_of(position) for position in spilling.take_wants(rig.dispatcher, rig.now)]


def send_again(rig: Rig, slot: int, *numbers: int, redeliveries: int = 1) -> None:
    """The broker answers."""
    for number in numbers:
        rig.dispatcher.receive(pack(LEDGER, number), slot, 1, b"%d" % number, redeliveries, rig.now)


def a_hung_worker() -> Rig:
    """c1 has one message of key A and takes no more; c2 takes everything of key B."""
    rig = rig_of(c1=[A, C], c2=[B])
    rig.join("c1", 1)
    rig.join("c2", 500)
    rig.entries(A, *range(100))
    assert rig.got("c1") == [0]
    return rig


def test_what_waits_for_a_hung_worker_leaves_the_look_ahead_to_the_others() -> None:
    """Its queue keeps its part with bytes, from the head; the rest counts no more."""
    rig = a_hung_worker()
    assert end_turn(rig) == []
    dispatcher = rig.dispatcher
    here = [entry_of(part.position) for part in dispatcher.waiting_parts() if part.tail]
    assert here == list(range(1, 16)), "three eighths of the look-ahead, for two workers"
    assert dispatcher.waiting_messages - dispatcher.outstanding.spill.messages == len(here)
    assert dispatcher.outstanding.bytes_held == 100 * PART_BYTES + sum(len(b"%d" % number) for number in range(16))


def test_it_comes_again_in_order_and_once_when_the_worker_goes_on() -> None:
    """It is asked for at once, leaves when it is there, and bears the count of redeliveries that clients caused."""
    rig = a_hung_worker()
    end_turn(rig)
    rig.flow("c1", 30)
    assert rig.got("c1") == list(range(1, 16))
    assert end_turn(rig) == list(range(16, 31))
    rig.entries(B, 200)
    assert rig.got("c2") == [200], "others pass"
    send_again(rig, A, 17)
    assert rig.got("c1") == []
    send_again(rig, A, 16, 18)
    units = rig.units("c1")
    assert [entry_of(unit.position) for unit in units] == [16, 17, 18]
    assert [unit.redeliveries for unit in units] == [0, 0, 0]
    send_again(rig, A, 16)
    assert rig.got("c1") == []


def test_a_redelivery_that_a_client_caused_is_counted() -> None:
    """Only what the gateway asked for is subtracted."""
    rig = a_hung_worker()
    end_turn(rig)
    rig.flow("c1", 16)
    rig.got("c1")
    assert end_turn(rig) == [16]
    send_again(rig, A, 16, redeliveries=3)
    assert [unit.redeliveries for unit in rig.units("c1")] == [2]


def test_a_stuck_key_keeps_its_share_and_moves_again_by_itself() -> None:
    """Its other messages are asked for ahead of their turn; nothing of it is overtaken, and its worker goes on."""
    rig = rig_of(KeyPolicy(window=1, share=0.05), c1=[A, B])
    rig.join("c1", 500)
    rig.entries(A, *range(100))
    assert rig.got("c1") == [0]
    end_turn(rig)
    assert [entry_of(part.position) for part in rig.dispatcher.waiting_in(A) if part.tail] == [1, 2, 3, 4]
    for number in range(1, 5):
        rig.ack("c1", number - 1)
        assert rig.got("c1") == [number]
    asked = end_turn(rig)
    assert asked == list(range(5, 69))
    rig.ack("c1", 4)
    assert rig.dispatcher.wait_reason(A, rig.dispatcher.waiting_in(A)[0], rig.now) is WaitReason.BEYOND_SHARE
    rig.entries(B, 200)
    assert rig.got("c1") == [200]
    send_again(rig, A, *asked)
    assert rig.got("c1") == [5]


def keys_in_turn() -> Rig:
    """c1 has one message of each of twenty keys, and three of each wait behind it; c2 has a key of its own."""
    keys = [A + number for number in range(20)]
    rig = rig_of(KeyPolicy(window=1, share=0.05), c1=keys, c2=[B])
    rig.join("c1", 500)
    rig.join("c2", 500)
    for place in range(80):
        rig.entries(keys[place % 20], place)
    assert rig.got("c1") == list(range(20))
    return rig


def test_keys_that_move_are_not_read_twice() -> None:
    """They fill the look-ahead, and a worker has nothing; but it is their turn before long."""
    rig = keys_in_turn()
    end_turn(rig)
    assert not rig.dispatcher.outstanding.spill.sizes
    for number in range(60):
        rig.ack("c1", number)
        assert rig.got("c1") == [number + 20]
        assert end_turn(rig) == []


def test_keys_at_a_worker_that_stands_still_make_room_for_others() -> None:
    """Each keeps an even part: one message of these twenty, of which three wait."""
    rig = keys_in_turn()
    end_turn(rig)
    spill = rig.dispatcher.outstanding.spill
    rig.now += spilling.STILL_S
    end_turn(rig)
    assert not spill.sizes, "nothing was added, and it was not asked to look again"
    assert spill.spared
    spill.look_again()
    end_turn(rig)
    assert sorted(map(entry_of, spill.sizes)) == list(range(40, 80))
    assert not spill.spared


def test_a_key_moves_with_the_worker_that_holds_it() -> None:
    """What its next owner does meanwhile says nothing of it."""
    keys = [A + number for number in range(20)]
    rig = rig_of(KeyPolicy(window=1, share=0.05), c1=keys, c2=[*keys, B])
    rig.join("c1", 500)
    for number, key in enumerate(keys):
        rig.entries(key, number)
    assert rig.got("c1") == list(range(20))
    rig.now += spilling.STILL_S
    rig.join("c2", 500)
    rig.entries(B, 20)
    assert rig.got("c2") == [20]
    for place in range(80):
        rig.entries(keys[place % 20], 100 + place)
    end_turn(rig)
    spill = rig.dispatcher.outstanding.spill
    assert sorted(map(entry_of, spill.sizes)) == list(range(120, 180))
    assert spill.spared, "c2 moves"


def test_a_message_that_comes_late_does_not_wait_for_the_bytes_of_newer_ones() -> None:
    """As after an abort: it has its own, and what is asked for stands behind it."""
    rig = rig_of(c1=[A], c2=[B], c3=[A])
    rig.join("c1", 1)
    rig.join("c2", 500)
    rig.entries(A, 0)
    assert rig.got("c1") == [0]
    rig.join("c3", 500)
    rig.entries(A, *range(2, 100))
    end_turn(rig)
    rig.ack("c1", 0)
    assert rig.got("c3") == [2, 3, 4, 5]
    assert end_turn(rig)[:2] == [6, 7]
    rig.entries(A, 1)
    assert rig.got("c3") == [1]


def test_a_long_queue_behind_a_chunk_that_only_the_broker_has_stays_a_queue() -> None:
    """It is not gone through by calls in calls: nothing of it can leave before the chunk is here."""
    rig = rig_of(KeyPolicy(window=3, share=0.05), c1=[A], c2=[B])
    rig.join("c1", 3)
    rig.join("c2", 500)
    rig.entries(A, 1, 2)
    rig.chunk(3, A, "m", 0, 2)
    rig.entries(A, 4)
    rig.chunk(5, A, "m", 1, 2)
    rig.entries(A, *range(6, 1_000))
    assert rig.got("c1") == [1, 2, 3]
    for part in (*rig.dispatcher.waiting_parts(), *rig.workers["c1"].pending.values()):
        if entry_of(part.position) != 4:  # the head always stays
            spilling.drop(rig.dispatcher, part)
    rig.nack("c1", 1)
    rig.flow("c1", 1_000)
    assert rig.got("c1") == []
    asked = [entry_of(position) for position in spilling.take_wants(rig.dispatcher, rig.now)]
    assert asked[:2] == [5, 1]
    for number in (1, 5):
        send_again(rig, A, number)
        assert rig.got("c1") == [number]


@pytest.mark.parametrize("policy", [KeyPolicy(), KeyPolicy(window=1)])
def test_nothing_loses_its_bytes_without_a_share(policy: KeyPolicy) -> None:
    """By default nothing is fetched twice."""
    rig = rig_of(policy, c1=[A], c2=[B])
    rig.join("c1", 1)
    rig.join("c2", 500)
    rig.entries(A, *range(100))
    rig.got("c1")
    if rig.dispatcher.policy.share:
        end_turn(rig)
    assert not rig.dispatcher.outstanding.spill.times


def test_nothing_loses_its_bytes_while_all_workers_have_enough() -> None:
    """To read on would help none of them."""
    rig = rig_of(c1=[A], c2=[B])
    rig.join("c1", 1)
    rig.join("c2", 1)
    rig.entries(A, *range(100))
    rig.entries(B, 100, 101)
    end_turn(rig)
    assert not rig.dispatcher.outstanding.spill.times


def test_a_batch_of_many_keys_is_fetched_whole_and_what_waits_of_it_goes() -> None:
    """Its other messages are at a worker, or acknowledged: they do not come a second time."""
    rig = rig_of(c1=[A], c2=[B])
    rig.join("c1", 1)
    rig.join("c2", 500)
    rig.entries(A, *range(70))
    rig.got("c1")
    rig.mixed(80, A, B, A, B)
    rig.mixed(81, A, B)
    assert rig.got("c2") == [(80, (1, 3)), (81, (1,))]
    rig.ack("c2", (80, (1, 3)))
    end_turn(rig)
    assert pack(LEDGER, 80) in rig.dispatcher.outstanding.spill.sizes
    rig.flow("c1", 200)
    rig.got("c1")
    asked = end_turn(rig)
    assert asked[-2:] == [80, 81]
    send_again(rig, A, *asked[:-2])
    rig.got("c1")
    rig.mixed(80, A, B, A, B)
    assert rig.got("c1") == [(80, (0, 2))]
    rig.mixed(81, A, B)
    assert rig.got("c1") == [(81, (0,))]
    assert rig.got("c2") == []
    rig.ack("c1", (80, (0, 2)))
    assert rig.dispatcher.outstanding.acks[-1] == pack(LEDGER, 80)


def test_a_worker_that_leaves_hands_over_what_only_the_broker_has() -> None:
    """In the same order."""
    rig = a_hung_worker()
    end_turn(rig)
    rig.leave("c1")
    rig.join("c1", 500)
    got = rig.got("c1")
    while asked := end_turn(rig):
        send_again(rig, A, *asked)
        got += rig.got("c1")
    assert got == list(range(100))


def test_large_messages_at_a_hung_worker_leave_the_bytes_to_the_others() -> None:
    """Only what comes back is fetched again."""
    rig = rig_of(c1=[A], c2=[B])
    rig.join("c1", 100)
    rig.join("c2", 500)
    for number in range(30):
        rig.dispatcher.receive(pack(LEDGER, number), A, 1, b"x" * 50_000, 0, rig.now)
    assert rig.got("c1") == list(range(30))
    end_turn(rig)
    spill, held = rig.dispatcher.outstanding.spill, rig.dispatcher.outstanding.bytes_counted
    assert held < BUDGET_BYTES // 4
    assert spill.messages == 0, "none of them waits"
    rig.leave("c1")
    assert spill.messages == len(spill.sizes) == 27
    rig.join("c1", 100)
    assert rig.got("c1") == [0, 1, 2]
    assert end_turn(rig) == list(range(3, 30))


def test_what_is_left_without_bytes_is_bounded_also_where_much_is_let_go_at_once() -> None:
    """Its places count apart, up to what the subscription may hold: more of them would hide what is read besides."""
    dispatcher = a_hung_worker().dispatcher
    spilling.spill(dispatcher, LOOK_AHEAD, 10 * SPILLED_BYTES, 0.0)
    assert dispatcher.outstanding.spill.messages == 11


def test_what_is_asked_for_at_a_time_is_bounded() -> None:
    """It comes whether there is room or not. One entry may always be asked for."""
    spill = Spill()
    for position in range(5):
        spill.dropped(position, ASKED_BYTES_MAX // 3)
    assert [spill.ask(position, 1) for position in range(4)] == [True, True, True, False]
    assert spill.refused
    states = [spill.has_room]
    for position in range(2):
        assert spill.came(position)
        states.append(spill.has_room)
    assert states == [False, False, True]
    assert not spill.ask(3, ASKED_MESSAGES_MAX)
    assert spill.came(2)
    assert spill.ask(3, 5 * ASKED_MESSAGES_MAX)
    assert not spill.came(4), "it was not asked for"


@pytest.mark.parametrize("end", [transactional_acks.commit, transactional_acks.abort])
def test_what_a_transaction_holds_does_not_wait(end: Callable[[Dispatcher, list[Held], float], None]) -> None:
    """An entry in which it has messages loses its bytes, and gets them back: only the others count as waiting."""
    rig = rig_of(KeyPolicy(share=0.05), c1=[A])
    rig.join("c1", 3)
    rig.batch(1, A, 3)
    dispatcher, worker = rig.dispatcher, rig.workers["c1"]
    (part,) = rig.units("c1")
    helds = transactional_acks.hold(dispatcher, worker, [(part.key, 0b100)], (0, 1), rig.now)
    rig.leave("c1")
    spilling.drop(dispatcher, next(iter(dispatcher.waiting_parts())))
    spill = dispatcher.outstanding.spill
    assert spill.messages == dispatcher.waiting_messages == 1
    end(dispatcher, helds, rig.now)
    assert spill.messages == dispatcher.waiting_messages
    rig.join("c1", 3)
    assert end_turn(rig) == [1]
    rig.batch(1, A, 3)
    assert spill.messages == dispatcher.waiting_messages == 0


def test_what_an_abort_gives_back_to_an_entry_without_bytes_is_asked_for_like_the_rest() -> None:
    """Its worker could have it at once: it would be sent without a byte."""
    rig = rig_of(c1=[A], c2=[B])
    rig.join("c1")
    rig.join("c2", 9)
    rig.mixed(1, None, A, A)
    (part,) = rig.dispatcher.waiting_parts()
    spilling.drop(rig.dispatcher, part)
    rig.mixed(1, B, A, A)
    assert rig.got("c2") == []
    assert spilling.take_wants(rig.dispatcher, rig.now) == [pack(LEDGER, 1)]
    rig.mixed(1, B, A, A)
    (unit,) = rig.units("c2")
    assert (unit.indexes, bool(unit.tail)) == ((0,), True)
