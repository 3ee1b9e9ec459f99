"""Who gets which message, and when: modes, permits, doors that close and open, repeats from the broker."""

from __future__ import annotations

import pytest

from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.membership import join
from proxy.core.positions import pack
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.waiting import WaitReason
from proxy.core.worker import Worker
from tests.core.test_dispatcher_rig import A, B, C, D, Rig


def reason(rig: Rig, slot: int) -> WaitReason | None:
    """Why the slot waits."""
    return rig.dispatcher.wait_reason(slot, rig.dispatcher.waiting_in(slot)[0], rig.now)


def test_a_message_leaves_in_the_call_that_brings_it() -> None:
    """Its owner has permits and nothing is in the way: it is in the outbox when `receive` returns."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 1)
    rig.entries(A, 1)
    assert rig.dispatcher.take_touched() == [worker]
    assert rig.got("c1") == [1]
    assert (worker.permits, worker.unacked, worker.sent_messages) == (0, 1, 1)


def test_a_worker_gets_never_more_than_it_granted() -> None:
    """Permits are spent one by one, and a FLOW serves exactly as many."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 2)
    rig.entries(A, 1, 2, 3)
    rig.entries(B, 4)
    assert rig.got("c1") == [1, 2]
    assert reason(rig, A) is WaitReason.NO_PERMITS
    rig.flow("c1", 1)
    assert len(rig.got("c1")) == 1
    rig.flow("c1", 5)
    assert len(rig.got("c1")) == 1
    assert rig.workers["c1"].permits == 4


def test_a_hot_key_does_not_starve_the_workers_other_keys() -> None:
    """What waits for permits leaves in topic order: nothing that came later goes before a message of a quiet key."""
    rig = Rig(c1=[A, B, C])
    rig.join("c1")
    rig.entries(A, *range(1, 6))
    rig.entries(B, 6)
    rig.entries(A, *range(7, 10))
    rig.entries(C, 10)
    for _ in range(5):
        rig.flow("c1", 2)
        rig.entries(A, rig.dispatcher.waiting_messages + 100)
    assert rig.got("c1") == list(range(1, 11))
    assert [part.slot for part in rig.workers["c1"].ready] == [A] * 5


def test_messages_of_many_keys_come_to_a_single_worker_in_topic_order() -> None:
    """As a broker sends them, however its permits fall: what came back goes first, at its own place."""
    for round_number in range(40):
        rig = Rig(c1=range(1, 1_000))
        worker = rig.join("c1", 1 + round_number)
        order: list[int] = []
        for number in range(1_100):
            rig.entries(number * 7 % (900 + round_number) + 1, number)
            if worker.permits <= 0 and number % 3 == 0:
                rig.flow("c1", 1 + number % (2 + round_number))
            if number == 500:
                rig.nack("c1", *[got for got in rig.got("c1") if isinstance(got, int)][-20:])
        rig.flow("c1", 1_200)
        order += [got for got in rig.got("c1") if isinstance(got, int)]
        assert order == sorted(order), round_number


def test_a_slot_that_drained_joins_its_owners_queue_at_its_place() -> None:
    """What was blocked is older than what waits for permits: it goes first, and its own later messages behind it."""
    rig = Rig(c1=[A], c2=[A, B])
    rig.join("c1", 1)
    rig.entries(A, 1)
    rig.join("c2")
    rig.entries(A, 2)
    rig.entries(B, 3)
    rig.entries(A, 4)
    assert [part.slot for part in rig.workers["c2"].ready] == [B]
    rig.ack("c1", 1)
    rig.flow("c2", 3)
    assert rig.got("c2") == [2, 3, 4]


def test_a_slow_worker_holds_up_nobody_else() -> None:
    """Its keys wait; the others' flow."""
    rig = Rig(slow=[A], fast=[B])
    rig.join("slow")
    rig.join("fast", 100)
    for number in range(0, 100, 2):
        rig.entries(A, number)
        rig.entries(B, number + 1)
    assert rig.got("fast") == list(range(1, 100, 2))
    assert rig.dispatcher.waiting_messages == 50
    assert rig.dispatcher.free_permits() == 50


def test_without_order_a_key_goes_to_its_owner_at_once() -> None:
    """Whoever holds earlier messages; nothing drains and no table is kept."""
    rig = Rig(OrderingMode.UNORDERED, c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.entries(A, 2)
    assert (rig.got("c1"), rig.got("c2")) == ([1], [2])
    assert len(rig.dispatcher.slots) == len(rig.dispatcher.draining) == 0
    rig.leave("c1")
    assert rig.got("c2") == [1]
    rig.ack("c2", 1, 2)
    assert rig.acked_upstream() == [1, 2]


def test_without_order_permits_hold_all_the_same() -> None:
    """Allowing any order is not allowing any number."""
    rig = Rig(OrderingMode.UNORDERED, c1=[A])
    rig.join("c1", 1)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1]
    rig.flow("c1", 1)
    assert rig.got("c1") == [2]


def test_messages_of_a_hole_wait_until_somebody_covers_it() -> None:
    """Sticky ranges may leave slots to nobody: their messages wait in order, others flow, and a join brings them."""
    dispatcher = Dispatcher(StickyRanges[Worker]())
    low, high = Worker("low", sticky_ranges=[(0, 99)]), Worker("high", sticky_ranges=[(200, 299)])
    join(dispatcher, low, 0.0)
    dispatcher.flow(low, 10, 0.0)
    for number, slot in enumerate((250, 50, 251, 250)):
        dispatcher.receive(pack(1, number), slot, 1, b"", 0, 0.0)
    assert [unit.position for unit in low.outbox] == [pack(1, 1)]
    assert dispatcher.wait_reason(250, dispatcher.waiting_in(250)[0], 0.0) is WaitReason.NO_OWNER
    join(dispatcher, high, 0.0)
    dispatcher.flow(high, 10, 0.0)
    sent = [unit.position for unit in high.outbox]
    assert sorted(sent) == [pack(1, 0), pack(1, 2), pack(1, 3)]
    assert sent.index(pack(1, 0)) < sent.index(pack(1, 3))


def test_a_paused_subscription_delivers_nothing_and_loses_nothing() -> None:
    """Entries, permits, acks and joins during the pause take effect at its end, in order."""
    rig = Rig(c1=[A, B], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.got("c1")
    rig.dispatcher.pause()
    rig.entries(A, 2)
    rig.mixed(3, A, B)
    rig.join("c2", 10)
    rig.ack("c1", 1)
    assert rig.got("c1") == rig.got("c2") == []
    assert reason(rig, A) is WaitReason.PAUSED
    rig.dispatcher.resume(0.0)
    assert rig.got("c2") == [2, (3, (0,))]
    assert rig.got("c1") == [(3, (1,))]


def test_a_worker_at_its_unacked_limit_gets_more_after_half_of_it() -> None:
    """Blocked when it holds the limit, and not before half of it is acknowledged, as at the broker."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 100, max_unacked=4)
    rig.entries(A, *range(1, 7))
    assert rig.got("c1") == [1, 2, 3, 4]
    assert worker.over_unacked
    assert reason(rig, A) is WaitReason.UNACKED_LIMIT
    rig.ack("c1", 1)
    rig.flow("c1", 1)
    assert rig.got("c1") == []
    rig.ack("c1", 2)
    assert rig.got("c1") == [5, 6]


def test_a_limit_of_one_unacked_message_alternates() -> None:
    """apache/pulsar issue 23796: half of one is none, so every ack brings the next message."""
    rig = Rig(c1=[A])
    rig.join("c1", 100, max_unacked=1)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1]
    rig.ack("c1", 1)
    assert rig.got("c1") == [2]


def test_giving_messages_back_opens_a_worker_at_its_limit() -> None:
    """What it gives back it does not hold: it gets it again at once, and is at its limit again."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 100, max_unacked=2)
    rig.entries(A, 1, 2, 3)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1")
    assert rig.got("c1") == [1, 2]
    assert worker.over_unacked
    assert worker.unacked == 2


def test_an_unread_socket_counts_as_no_permits() -> None:
    """Nothing is dispatched to a worker that does not read; when it reads, everything follows in the same call."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    rig.dispatcher.set_writable(worker, writable=False, now=0.0)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == []
    assert reason(rig, A) is WaitReason.NOT_READING
    assert rig.dispatcher.free_permits() == 0
    rig.dispatcher.set_writable(worker, writable=True, now=0.0)
    assert rig.got("c1") == [1, 2]


def test_a_worker_drained_by_an_operator_keeps_its_keys_and_gets_no_more() -> None:
    """Its messages wait until it is let again or leaves; acks go on."""
    rig = Rig(c1=[A], c2=[B])
    worker = rig.join("c1", 10)
    rig.entries(A, 1)
    rig.got("c1")
    rig.dispatcher.set_drained(worker, drained=True, now=0.0)
    rig.entries(A, 2)
    assert rig.ack("c1", 1)
    assert rig.got("c1") == []
    assert reason(rig, A) is WaitReason.DRAINED_BY_OPERATOR
    rig.dispatcher.set_drained(worker, drained=False, now=0.0)
    assert rig.got("c1") == [2]


def test_every_reason_not_to_send_must_end_before_a_worker_is_served() -> None:
    """Of three closed doors the last one to open lets the message through."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10, max_unacked=1)
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.dispatcher.set_writable(worker, writable=False, now=0.0)
    rig.dispatcher.set_drained(worker, drained=True, now=0.0)
    rig.ack("c1", 1)
    rig.dispatcher.set_writable(worker, writable=True, now=0.0)
    assert rig.got("c1") == []
    rig.dispatcher.set_drained(worker, drained=False, now=0.0)
    assert rig.got("c1") == [2]


def test_a_message_that_could_go_has_no_reason_to_wait() -> None:
    """`wait_reason` is None for a head whose worker would take it."""
    rig = Rig(c1=[A])
    rig.join("c1")
    rig.entries(A, 1)
    head = rig.dispatcher.waiting_in(A)[0]
    rig.workers["c1"].permits = 1
    assert rig.dispatcher.wait_reason(A, head, rig.now) is None


def test_messages_without_any_worker_wait_in_order() -> None:
    """The first worker gets them as they came."""
    rig = Rig(c1=[A])
    rig.entries(A, 1, 2, 3)
    assert reason(rig, A) is WaitReason.NO_OWNER
    rig.join("c1", 10)
    assert rig.got("c1") == [1, 2, 3]


def test_an_older_message_that_arrives_late_goes_first() -> None:
    """Whatever the order of arrival, what waits is in the topic's order."""
    rig = Rig(c1=[A])
    rig.join("c1")
    for number in (5, 9, 7, 1, 8):
        rig.entries(A, number)
    rig.flow("c1", 10)
    assert rig.got("c1") == [1, 5, 7, 8, 9]


# ---- G4: the broker sends again ---------------------------------------------------------------------------------


def test_an_entry_that_a_worker_holds_is_not_sent_again() -> None:
    """The upstream consumer came back and the broker repeats: the worker notices nothing."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    rig.entries(A, 1)
    rig.got("c1")
    rig.dispatcher.receive(pack(1, 1), A, 1, b"1", 3, 0.0)
    assert rig.got("c1") == []
    assert worker.permits == 9
    assert rig.dispatcher.outstanding.repeated == 1
    rig.nack("c1", 1)
    assert rig.units("c1")[0].redeliveries == 4, "the broker's count, and one more"


def test_an_entry_that_waits_keeps_its_place_when_it_is_repeated() -> None:
    """Also an entry in parts, and a chunk: one place each, and the broker's redelivery count."""
    rig = Rig(c1=[A, B])
    rig.join("c1")
    rig.entries(A, 1)
    rig.mixed(2, A, B)
    rig.chunk(3, A, "m", 0, 2)
    waiting = rig.dispatcher.waiting_messages
    rig.entries(A, 1)
    rig.mixed(2, A, B)
    rig.chunk(3, A, "m", 0, 2)
    assert rig.dispatcher.outstanding.repeated == 3
    assert rig.dispatcher.waiting_messages == waiting
    rig.flow("c1", 100)
    assert rig.got("c1") == [1, 2, 3]


@pytest.mark.parametrize("confirmed", [False, True])
def test_an_acknowledged_entry_is_acknowledged_again(confirmed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The broker forgot the ack, before or after it confirmed it: it gets the ack again, no worker gets the entry."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.got("c1")
    rig.ack("c1", 1)
    assert rig.acked_upstream() == [1]
    if confirmed:
        rig.dispatcher.outstanding.confirmed([pack(1, 1)])
    rig.entries(A, 1)
    assert rig.got("c1") == []
    assert rig.acked_upstream() == [1]
    assert rig.dispatcher.outstanding.unconfirmed == {pack(1, 1)}


def test_what_the_broker_sends_after_closing_our_consumer_it_means() -> None:
    """An operator moved the cursor back: entries confirmed long ago are delivered again."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.ack("c1", 1, 2)
    rig.dispatcher.outstanding.confirmed([pack(1, 1)])
    rig.dispatcher.outstanding.forget_confirmed()
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1], "2 is acknowledged and unconfirmed still"


def test_four_keys_of_one_batch_each_wait_for_their_own_reason() -> None:
    """One drains, one has no owner, one has no permits; the fourth leaves at once."""
    rig = Rig(c1=[A, B], c2=[A], c3=[C])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.join("c3")
    rig.mixed(2, A, B, C, D)
    assert rig.got("c1") == [1, (2, (1,))]
    assert reason(rig, A) is WaitReason.DRAINING
    assert reason(rig, C) is WaitReason.NO_PERMITS
    assert reason(rig, D) is WaitReason.NO_OWNER
