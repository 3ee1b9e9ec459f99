"""Windows and pauses of keys, as stories: what a worker sees, message by message."""

from __future__ import annotations

import pytest

from proxy.core import acknowledgement, membership, policy_change, reposition
from proxy.core.dispatcher import OrderingMode
from proxy.core.key_policy import NO_POLICY, KeyPolicy, RetryWaits
from proxy.core.positions import pack
from proxy.core.waiting import WaitReason
from tests.core.test_dispatcher_rig import LEDGER, A, B, Rig

ONE = KeyPolicy(window=1)


def rig_of(policy: KeyPolicy, mode: OrderingMode = OrderingMode.DRAINING_HASHES) -> Rig:
    """One worker with both keys, which may have many messages."""
    rig = Rig(mode, c1=[A, B], c2=[A, B])
    rig.dispatcher.set_policy(policy)
    rig.join("c1", 100)
    return rig


def at(rig: Rig, now: float) -> list[object]:
    """It is `now`; the caller's timer goes off if that is when it should. What c1 gets."""
    rig.now = now
    due_at = rig.dispatcher.due_at
    if due_at is not None and now >= due_at:
        rig.dispatcher.unblock(now)
    return [*rig.got("c1")]


def reason(rig: Rig, slot: int) -> WaitReason | None:
    """Why the slot's head waits."""
    return rig.dispatcher.wait_reason(slot, rig.dispatcher.waiting_in(slot)[0], rig.now)


def test_with_a_window_of_one_a_message_that_comes_back_is_not_overtaken() -> None:
    """0 to 4 of one key, 0 given back twice: without a window the worker sees 0, 1, 2, 3, 4, 0, 0."""
    for policy, seen in ((ONE, [0, 0, 0, 1, 2, 3, 4]), (NO_POLICY, [0, 1, 2, 3, 4, 0, 0])):
        rig = rig_of(policy)
        rig.entries(A, 0, 1, 2, 3, 4)
        got: list[object] = []
        nacks = 2
        while fresh := rig.got("c1"):
            got += fresh
            for number in fresh:
                if number == 0 and nacks:
                    nacks -= 1
                    rig.nack("c1", 0)
                else:
                    rig.ack("c1", number)
        assert got == seen


def test_a_window_holds_up_no_other_key() -> None:
    """Each key has its own."""
    rig = rig_of(ONE)
    rig.entries(A, 1, 2)
    rig.entries(B, 3, 4)
    assert rig.got("c1") == [1, 3]
    assert reason(rig, A) is WaitReason.WINDOW_FULL
    rig.ack("c1", 3)
    assert rig.got("c1") == [4]
    rig.ack("c1", 1)
    assert rig.got("c1") == [2]


def test_a_batch_of_one_key_is_revealed_message_by_message() -> None:
    """Each is a delivery with an id of its own, so that its ack and its way back are its own."""
    rig = rig_of(ONE)
    rig.batch(1, A, 3)
    rig.entries(A, 2)
    got: list[object] = []
    while fresh := rig.got("c1"):
        got += fresh
        if got.count((1, (1,))) == 1 and fresh == [(1, (1,))]:
            rig.nack("c1", (1, (1,)))
        else:
            rig.ack("c1", fresh[0])
    assert got == [(1, (0,)), (1, (1,)), (1, (1,)), (1, (2,)), 2]
    assert rig.dispatcher.outstanding.acks == [pack(LEDGER, 1), pack(LEDGER, 2)]
    assert not rig.dispatcher.outstanding.bytes_held


def test_a_delivery_of_a_mixed_batch_is_of_one_key() -> None:
    """Else a key's next message would wait for the other key's ack: clients acknowledge a batch as a whole."""
    rig = rig_of(KeyPolicy(window=2))
    rig.mixed(1, A, B, A, A, B)
    assert rig.got("c1") == [(1, (0, 2)), (1, (1, 4))]
    rig.ack("c1", (1, (0, 2)))
    assert rig.got("c1") == [(1, (3,))]


def test_a_slice_that_is_acknowledged_in_part_makes_room_for_as_much() -> None:
    """By clients that acknowledge messages of a batch one by one."""
    rig = rig_of(KeyPolicy(window=3))
    rig.batch(1, A, 6)
    assert rig.got("c1") == [(1, (0, 1, 2))]
    rig.ack_all_but("c1", (1, (0, 1, 2)), 1, 2)
    assert rig.got("c1") == [(1, (3,))]


def test_what_only_goes_whole_goes_when_nothing_of_its_key_is_out() -> None:
    """An encrypted batch larger than the window: counted, since its messages may overtake each other."""
    rig = rig_of(KeyPolicy(window=2))
    rig.entries(A, 1)
    rig.opaque(2, A, 3)
    rig.entries(A, 3)
    assert rig.got("c1") == [1]
    assert reason(rig, A) is WaitReason.WINDOW_FULL
    assert rig.dispatcher.full_windows() == 1
    rig.ack("c1", 1)
    assert rig.got("c1") == [2]
    assert rig.dispatcher.window_overshoots == 1
    rig.ack("c1", 2)
    assert rig.got("c1") == [3]


def test_an_earlier_message_that_comes_late_goes_first() -> None:
    """A broker sends again what it forgot; what has its place in the worker's queue already goes behind it."""
    rig = Rig(c1=[A])
    rig.dispatcher.set_policy(ONE)
    rig.join("c1", 1)
    rig.entries(A, 10, 17, 24)
    assert rig.got("c1") == [10]
    rig.ack("c1", 10)
    rig.entries(A, 30)
    rig.dispatcher.outstanding.highest = pack(LEDGER, 4)
    rig.entries(A, 5)
    got: list[object] = []
    for _ in range(4):
        rig.flow("c1", 1)
        (number,) = rig.got("c1")
        got.append(number)
        rig.ack("c1", number)
    assert got == [5, 17, 24, 30]


@pytest.mark.parametrize("drained", [False, True])
def test_chunks_come_in_their_order_though_later_ones_stand_before_a_full_window(*, drained: bool) -> None:
    """The window keeps back what comes up in its worker's queue; the rest of the message stands there still.

    A worker that is drained gets the rest of what it has begun, past its queue.
    """
    rig = Rig(c1=[A, B])
    rig.dispatcher.set_policy(KeyPolicy(window=2))
    rig.join("c1", 0)
    rig.entries(A, 0, 1)
    for index in range(3):
        rig.chunk(2 + index, A, "u", index, 4)
    rig.entries(B, 5)
    rig.chunk(6, A, "u", 3, 4)
    rig.entries(A, 7)
    rig.flow("c1", 3)
    assert rig.got("c1") == [0, 1, 5]
    rig.ack("c1", 0)
    rig.flow("c1", 1)
    assert rig.got("c1") == [2]
    rig.ack("c1", 1)
    rig.dispatcher.set_drained(rig.workers["c1"], drained, rig.now)
    rig.flow("c1", 10)
    assert rig.got("c1") == [3, 4, 6]
    rig.dispatcher.set_drained(rig.workers["c1"], False, rig.now)
    rig.ack("c1", 2, 3, 4, 6)
    assert rig.got("c1") == [7]


def test_a_chunked_message_is_one_message() -> None:
    """Who has its beginning gets the rest beyond the window, which could never be acknowledged otherwise."""
    rig = rig_of(ONE)
    for index in range(3):
        rig.chunk(1 + index, A, "u", index, 3)
    rig.entries(A, 4)
    assert rig.got("c1") == [1, 2, 3]
    rig.ack("c1", 1, 2)
    assert rig.got("c1") == []
    rig.ack("c1", 3)
    assert rig.got("c1") == [4]


def test_a_retry_waits_with_all_of_its_key_and_no_other_key_waits() -> None:
    """From the moment it is given back; what the worker has keeps coming to its acks."""
    rig = rig_of(KeyPolicy(retry_delay_s=2.0))
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1, 2]
    rig.now = 10.0
    rig.nack("c1", 1)
    rig.entries(A, 3)
    rig.entries(B, 4)
    assert rig.got("c1") == [4]
    assert reason(rig, A) is WaitReason.RETRY_WAIT
    assert rig.dispatcher.due_at == 12.0
    assert at(rig, 11.9) == []
    assert at(rig, 12.0) == [1, 3]
    assert rig.dispatcher.due_at is None


def test_what_a_worker_has_not_seen_comes_back_without_a_pause() -> None:
    """Nor does it count as delivered; what the worker keeps stays, and what waits for a retry is not overtaken."""
    rig = rig_of(KeyPolicy(retry_delay_s=2.0))
    rig.entries(A, 1, 2, 3)
    rig.entries(B, 4, 5)
    assert rig.got("c1") == [1, 2, 3, 4, 5]
    acknowledgement.redeliver_others(rig.dispatcher, rig.workers["c1"], {pack(LEDGER, 4)}, [pack(LEDGER, 1)], 0.0)
    assert rig.got("c1") == [5]
    assert at(rig, 2.0) == [1, 2, 3]
    assert [part.redeliveries for part in rig.workers["c1"].pending.values()] == [0, 0, 1, 0, 0]
    rig.ack("c1", 4)


def test_pauses_grow_up_to_a_bound() -> None:
    """Exponential backoff, by how often the message was given back, what the broker counted included."""
    policy = KeyPolicy(window=1, retry_delay_s=1.0, retry_multiplier=3.0, retry_delay_max_s=5.0)
    rig = rig_of(policy)
    rig.entries(A, 1, 2)
    pauses = []
    for _ in range(4):
        assert rig.got("c1") == [1]
        rig.nack("c1", 1)
        due_at = rig.dispatcher.due_at
        assert due_at is not None
        pauses.append(due_at - rig.now)
        rig.now = due_at
        rig.dispatcher.unblock(due_at)
    assert pauses == [1.0, 3.0, 5.0, 5.0]
    assert policy.retry_after_s(1_000_000) == 5.0
    assert KeyPolicy(retry_delay_s=0.5).retry_after_s(9) == 0.5


def test_a_pause_outlives_the_worker() -> None:
    """What comes back because a worker left has no pause of its own."""
    rig = rig_of(KeyPolicy(retry_delay_s=2.0))
    rig.entries(A, 1)
    rig.entries(B, 2)
    rig.got("c1")
    rig.nack("c1", 1)
    rig.leave("c1")
    rig.join("c2", 10)
    assert rig.got("c2") == [2]
    rig.now = 2.0
    rig.dispatcher.unblock(2.0)
    assert rig.got("c2") == [1]


def test_what_was_never_sent_has_no_pause() -> None:
    """It is swept back behind what was: messages in the outbox of a worker that wants something again."""
    rig = rig_of(KeyPolicy(retry_delay_s=2.0))
    rig.entries(A, 1)
    rig.got("c1")
    rig.entries(B, 2)
    rig.nack("c1", 1)
    assert rig.got("c1") == [2]


def test_an_operator_changes_a_window_while_messages_wait() -> None:
    """A wider one lets more go at once; a narrower one takes nothing away."""
    rig = rig_of(ONE)
    rig.entries(A, 1, 2, 3, 4, 5, 6)
    assert rig.got("c1") == [1]
    policy_change.change_key_policy(rig.dispatcher, KeyPolicy(window=3), rig.now)
    assert rig.got("c1") == [2, 3]
    policy_change.change_key_policy(rig.dispatcher, ONE, rig.now)
    rig.ack("c1", 1, 2)
    assert rig.got("c1") == []
    rig.ack("c1", 3)
    assert rig.got("c1") == [4]
    policy_change.change_key_policy(rig.dispatcher, NO_POLICY, rig.now)
    assert rig.got("c1") == [5, 6]


@pytest.mark.parametrize("without", [NO_POLICY, ONE], ids=["no policy", "a window"])
def test_pauses_end_when_an_operator_wants_none(without: KeyPolicy) -> None:
    """With a shorter one, those that have begun stay as they are."""
    rig = rig_of(KeyPolicy(retry_delay_s=60.0))
    rig.entries(A, 1)
    rig.got("c1")
    rig.nack("c1", 1)
    policy_change.change_key_policy(rig.dispatcher, KeyPolicy(retry_delay_s=1.0), rig.now)
    assert at(rig, 5.0) == []
    policy_change.change_key_policy(rig.dispatcher, without, rig.now)
    assert rig.got("c1") == [1]
    assert rig.dispatcher.due_at is None


def test_without_order_a_policy_has_no_effect() -> None:
    """The clients asked for it."""
    rig = rig_of(KeyPolicy(window=1, retry_delay_s=9.0), OrderingMode.UNORDERED)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1)
    assert rig.got("c1") == [1]


@pytest.mark.parametrize("drop", ["seek", "skip"])
def test_a_pause_ends_with_what_it_was_for(drop: str) -> None:
    """Nothing of the key waits any more."""
    rig = rig_of(KeyPolicy(retry_delay_s=60.0))
    rig.entries(A, 1)
    rig.got("c1")
    rig.nack("c1", 1)
    if drop == "seek":
        reposition.reset(rig.dispatcher, rig.now)
    else:
        reposition.discard_up_to(rig.dispatcher, pack(LEDGER, 1), rig.now)
    assert rig.dispatcher.due_at is None
    rig.entries(A, 2)
    assert rig.got("c1") == [2]


def test_a_key_that_moves_waits_for_its_former_worker_first() -> None:
    """That is the reason told, too."""
    rig = rig_of(ONE)
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.join("c2", 10)
    assert reason(rig, A) is WaitReason.DRAINING
    rig.ack("c1", 1)
    assert rig.got("c2") == [2]
    membership.leave(rig.dispatcher, rig.workers["c2"], rig.now)
    assert rig.got("c1") == [2]


def test_of_two_pauses_of_a_slot_the_later_end_counts() -> None:
    """And what is forgotten is not asked for."""
    waits = RetryWaits()
    waits.hold(A, 3.0)
    waits.hold(B, 4.0)
    waits.hold(A, 5.0)
    waits.hold(A, 1.0)
    assert waits.due_at == 4.0
    assert waits.release(4.5) == [B]
    assert waits.due_at == 5.0
    waits.forget(A)
    assert not waits.held
    assert waits.release(9.0) == []
