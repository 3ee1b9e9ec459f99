"""Chunked messages that are parked in part: what is left of them can be dropped alone, and the key goes on."""

from __future__ import annotations

import pytest

from proxy.errors import Conflict
from proxy.net.subscription.topic_reading import QUIET_S
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import single
from tests.net.test_subscription_parking import Lot, arrive, opened, order_redrive, payload, redriven
from tests.net.test_subscription_refused_copies import Choosy, beginning, slot_of, wait


def chunk(index: int, total: int = 2) -> bytes:
    """Of a message of the parked key; its payload is its number in the topic, one more."""
    return single("k", b"%d" % (index + 1), uuid="u", num_chunks_from_msg=total, chunk_id=index)


def left_by_a_crash(*gone: int) -> Lot:
    """A parking topic with message 0, a chunked one of 1, 2 and 3, and 4; these were acknowledged before a crash."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    arrive(rig, *((index + 1, chunk(index, 3)) for index in range(3)), (4, single("k", b"4")))
    lot.pump(rig)
    places = lot.left()
    lot.acked |= {places[number] for number in gone}
    return lot


def drop_incomplete(rig: SubscriptionRig) -> int:
    """The operator's order."""
    assert rig.subscription.lot is not None
    return rig.subscription.orders.drop_incomplete(rig.subscription.lot, slot_of(rig))


@pytest.mark.parametrize("gone", [(1,), (2,), (1, 2), (1, 3)])
def test_what_a_crash_left_of_a_chunked_message_is_dropped_alone(gone: tuple[int, ...]) -> None:
    """A drop of the slot would delete messages with which nothing is wrong; the redrive's answer says what to do."""
    lot = left_by_a_crash(*gone)
    rig, worker = opened(lot, mark_delete=4)
    with pytest.raises(Conflict, match=f"{3 - len(gone)} of its 3 chunks.*keyline drop --incomplete"):
        order_redrive(rig)
    assert drop_incomplete(rig) == 3 - len(gone)
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"4"]
    order_redrive(rig)
    arrive(rig, (5, single("k", b"5")))
    assert redriven(rig, lot, worker) == [b"0", b"4", b"5"]
    assert not rig.subscription.state.dispatcher.diversions.parked


def test_later_chunks_may_be_published_yet() -> None:
    """What is parked of the message is not deleted, and is redriven when the rest is parked, too."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    arrive(rig, (1, chunk(0)))
    lot.pump(rig)
    assert drop_incomplete(rig) == 0
    with pytest.raises(Conflict, match=r"1 of its 2 chunks.*all of it if only later chunks are missing"):
        order_redrive(rig)
    arrive(rig, (2, chunk(1)))
    lot.pump(rig)
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2"]


def test_a_uuid_that_is_used_again_is_another_message() -> None:
    """Of the first, all is parked; of the second, which has more chunks, one that is not the first is gone."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    arrive(rig, (1, chunk(0)), (2, chunk(1)), *((number, chunk(number - 3, 3)) for number in (3, 4, 5)))
    lot.pump(rig)
    lot.acked.add(lot.left()[4])
    rig, worker = opened(lot, mark_delete=5)
    with pytest.raises(Conflict, match="2 of its 3 chunks"):
        order_redrive(rig)
    assert drop_incomplete(rig) == 2
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2"]


def test_what_was_dropped_is_not_named_by_the_next_order() -> None:
    """Though the broker has not confirmed yet that it is gone."""
    lot = left_by_a_crash(1)
    rig, worker = opened(lot, mark_delete=4)
    assert drop_incomplete(rig) == 2
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"4"]


def test_where_nothing_else_was_parked_the_key_goes_on_with_the_next_redrive() -> None:
    """It is parked until then, with nothing in the topic."""
    lot = left_by_a_crash(0, 1, 4)
    rig, worker = opened(lot, mark_delete=4)
    assert drop_incomplete(rig) == 2
    assert drop_incomplete(rig) == 0
    lot.pump(rig)
    assert lot.left() == []
    arrive(rig, (5, single("k", b"5")))
    assert worker.messages() == []
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"5"]


def test_a_whole_chunked_message_is_not_incomplete() -> None:
    """Nothing is deleted."""
    lot = left_by_a_crash()
    rig, worker = opened(lot, mark_delete=4)
    assert drop_incomplete(rig) == 0
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3", b"4"]


def test_nothing_is_incomplete_whose_rest_is_on_its_way() -> None:
    """Published and not confirmed, confirmed and not read, or refused for now: it would be deleted, and was whole."""
    lot = Choosy(b"2")
    rig, worker = beginning(lot, b"0")
    arrive(rig, (1, chunk(0)), (2, chunk(1)))
    with pytest.raises(Conflict, match="not known yet"):
        drop_incomplete(rig)
    lot.pump(rig)
    with pytest.raises(Conflict, match="not known yet"):
        drop_incomplete(rig)
    lot.refused.clear()
    wait(lot, rig)
    assert drop_incomplete(rig) == 0
    order_redrive(rig)
    with pytest.raises(Conflict, match="not during a redrive"):
        drop_incomplete(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2"]


def test_after_a_restart_the_topic_is_read_before_anything_is_incomplete() -> None:
    """The first chunk was refused, and the last one was not: the first comes yet, and the message is whole then."""
    lot = Choosy(b"1")
    rig, worker = beginning(lot, b"0")
    arrive(rig, (1, chunk(0)), (2, chunk(1)))
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"2"]
    lot.refused.clear()
    rig, worker = opened(lot, mark_delete=0)
    with pytest.raises(Conflict, match="not known yet"):
        drop_incomplete(rig)
    rig.clock.advance(QUIET_S / 2)
    arrive(rig, (1, chunk(0)), (3, single("k", b"3")))
    lot.pump(rig)
    assert drop_incomplete(rig) == 0
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3"]
