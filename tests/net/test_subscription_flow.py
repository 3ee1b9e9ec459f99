"""Permits, slow readers and redelivery: what a worker gets, and when."""

from __future__ import annotations

import pytest

from proxy.net.subscription import workers
from proxy.net.subscription.outbox import GROUP_BYTES
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import T, single
from tests.net.test_subscription_delivery import two

# ---- flow control ----------------------------------------------------------------------------------------------------


def test_a_worker_gets_no_more_than_it_granted() -> None:
    """G5, for single messages and for batches; zero permits are none."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    worker.flow(0)
    rig.link.deliver(*[(entry, single("k")) for entry in range(5)])
    assert worker.entries() == []
    worker.flow(2)
    assert worker.entries() == [0, 1]


def test_permits_beyond_all_measure_are_taken_for_the_largest_number_there_is() -> None:
    """A client that grants without end neither overflows anything nor stops getting messages."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    for _ in range(5):
        worker.flow((1 << 32) - 1)
    assert worker.ask_stats().availablePermits == (1 << 31) - 1
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]


def test_a_slow_reader_gets_nothing_until_it_reads_and_then_everything_in_order() -> None:
    """What was for it is held as references, not as frames; others are not held up."""
    rig, slow, quick, mine, other = two()
    slow.stop_reading()
    rig.link.deliver((0, single(mine)), (1, single(other)), (2, single(mine)))
    assert slow.writes == 1, "its Success"
    assert quick.entries() == [1]
    slow.read_again()
    assert slow.entries() == [0, 2]


def test_a_reader_that_stops_in_the_middle_goes_on_where_it_stopped() -> None:
    """Frames are made only while the socket takes them: what is left stays in the outbox and comes once."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=1_000)
    rig.link.permits()

    worker.room = 1
    rig.link.deliver(*[(entry, single("k")) for entry in range(400)])
    first = worker.entries()
    assert 0 < len(first) < 400
    worker.read_again()
    assert first + worker.entries() == list(range(400))


def test_large_messages_are_written_some_at_a_time() -> None:
    """All that waited for a slow reader, in one write, might be more than may be left unread: its connection would end.

    So it would when it comes back, and again.
    """
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=1_000)
    worker.stop_reading()
    body = bytes(200_000)
    rig.link.deliver(*[(entry, single("k", body)) for entry in range(40)])
    worker.writable, worker.room = True, 1
    worker.port.writability_changed(writable=True)
    rig.clock.settle()
    first = worker.entries()
    assert len(first) == GROUP_BYTES // len(body) + 1
    worker.read_again()
    assert first + worker.entries() == list(range(40))


def test_a_slow_reader_that_leaves_gives_everything_to_others() -> None:
    """Also what was in its outbox, which nobody has seen: not a redelivery."""
    rig = SubscriptionRig()
    slow = rig.worker("a", permits=100)
    slow.room = 1
    rig.link.deliver(*[(entry, single("k")) for entry in range(300)])
    seen = slow.entries()
    quick = rig.worker("b", permits=1_000)
    slow.lose()
    got = quick.messages()
    assert [item.entry for item in got] == list(range(300))
    assert [item.redeliveries for item in got] == [1] * len(seen) + [0] * (300 - len(seen))


def test_a_worker_over_its_unacknowledged_limit_waits_for_half_of_its_acks() -> None:
    """As at the broker, and its stats say so."""
    rig = SubscriptionRig(max_unacked_messages_per_worker=4)
    worker = rig.worker("a", permits=100)
    rig.link.deliver(*[(entry, single("k")) for entry in range(8)])
    assert worker.entries() == [0, 1, 2, 3]
    assert worker.ask_stats().blockedConsumerOnUnackedMsgs
    worker.ack(0)
    assert worker.entries() == []
    worker.ack(1)
    assert worker.entries() == [4, 5]


# ---- redelivery ------------------------------------------------------------------------------------------------------


def test_a_redelivery_is_local_and_keeps_the_order() -> None:
    """What comes back comes before newer messages of its key, and the broker is asked for nothing."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=3)
    rig.link.deliver(*[(entry, single("k")) for entry in range(5)])
    worker.messages()
    worker.redeliver(1)
    worker.flow(3)
    assert [(item.entry, item.redeliveries) for item in worker.messages()] == [(1, 1), (3, 0), (4, 0)]
    worker.redeliver()
    worker.flow(9)
    assert worker.entries() == [0, 1, 2, 3, 4]
    assert rig.link.sent(T.REDELIVER_UNACKNOWLEDGED_MESSAGES) == []


@pytest.mark.parametrize("at_once", [workers.IDS_AT_ONCE, 1])
def test_with_an_epoch_all_but_what_is_kept_comes_again_and_bears_it(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent before can be told from it; however many are kept, nothing is sent in between."""
    monkeypatch.setattr(workers, "IDS_AT_ONCE", at_once)
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=20)
    rig.link.deliver(*[(entry, single("k")) for entry in range(4)])
    assert {item.epoch for item in worker.messages()} == {0}
    worker.redeliver(0, kept=(1, 3), epoch=1)
    assert [(item.entry, item.redeliveries, item.epoch) for item in worker.messages()] == [(0, 1, 1), (2, 0, 1)]
    rig.link.deliver((4, single("k")))
    assert [(item.entry, item.epoch) for item in worker.messages()] == [(4, 1)]
    worker.redeliver(epoch=2)
    assert [(item.entry, item.epoch) for item in worker.messages()] == [(entry, 2) for entry in range(5)]


def test_a_redelivery_of_what_a_worker_does_not_hold_is_ignored() -> None:
    """Unknown, foreign and impossible ids."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=3)
    rig.link.deliver((0, single("k")))
    worker.messages()
    for entry in (7, (1 << 40) - 1, (1 << 62) + 5, (1 << 64) - 1):
        worker.redeliver(entry)
    assert worker.messages() == []
