"""A subscription in numbers: what metrics show is what happened, and each duration is of what its name says."""

from __future__ import annotations

import pytest

from proxy.core.histogram import Histogram, HistogramStatistics
from proxy.core.sticky_key import murmur31
from proxy.net.relay.statistics import SessionCounters, counts
from proxy.net.subscription.durations import AllDurations, Durations
from proxy.net.subscription.summary import SubscriptionSummary
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, sticky
from tests.net.subscription_rig_broker import batch, single

BODY = b"x" * 100


def summary(rig: SubscriptionRig) -> SubscriptionSummary:
    """Of the one subscription."""
    (found,) = rig.subscriptions.summaries()
    return found


def observed(duration_s: float, times: int) -> HistogramStatistics:
    """A histogram of nothing else."""
    histogram = Histogram()
    histogram.observe(duration_s, times)
    return histogram.statistics()


def told(histogram: HistogramStatistics) -> tuple[int, float]:
    """How many there were, and how long they took together."""
    return sum(histogram.counts), histogram.sum_s


# ---- dispatch latency ------------------------------------------------------------------------------------------------


def test_a_message_that_leaves_at_once_takes_no_time() -> None:
    """Every entry of a run is observed."""
    rig = SubscriptionRig()
    rig.worker("a", permits=300)
    rig.link.deliver(*[(entry, single("k")) for entry in range(200)])
    assert told(summary(rig).durations.dispatch_latency) == (200, 0.0)


def test_dispatch_latency_runs_until_the_message_is_written() -> None:
    """Through waiting for permits, and for a socket that is full; entries of several runs are told apart."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.deliver((0, single("k")))
    rig.clock.advance(2)
    rig.link.deliver((1, single("k")), (2, single("l")))
    rig.clock.advance(1)
    worker.room = 0
    worker.writable = False
    worker.flow(10)
    assert told(summary(rig).durations.dispatch_latency) == (0, 0.0)
    rig.clock.advance(4)
    worker.read_again()
    assert sorted(worker.entries()) == [0, 1, 2]
    assert told(summary(rig).durations.dispatch_latency) == (3, 7.0 + 5.0 + 5.0)


def test_a_message_that_is_sent_again_is_not_dispatched_anew() -> None:
    """But one that lay in an outbox when its worker left was never sent, and is observed where it is."""
    rig = SubscriptionRig()
    first = rig.worker("a", permits=10)
    rig.link.deliver((0, single("k")))
    first.redeliver(0)
    assert first.entries() == [0, 0]
    assert told(summary(rig).durations.dispatch_latency) == (1, 0.0)
    first.writable = False
    rig.link.deliver((1, single("k")))
    rig.clock.advance(3)
    second = rig.worker("b", permits=10)
    first.lose()
    assert second.entries() == [0, 1]
    assert told(summary(rig).durations.dispatch_latency) == (2, 3.0)


def test_each_slice_of_a_batch_is_a_delivery_of_its_own() -> None:
    """A batch for two workers is two; parts that travel together are one."""
    rig = SubscriptionRig()
    rig.worker("a", permits=10)
    rig.worker("b", permits=10)
    mine, also, other = rig.key_for("a"), rig.key_for("a", 1), rig.key_for("b")
    rig.link.deliver((0, batch([(mine, b"0"), (other, b"1"), (also, b"2")])))
    assert told(summary(rig).durations.dispatch_latency) == (2, 0.0)
    assert summary(rig).sliced_deliveries == 2


# ---- ack latency -----------------------------------------------------------------------------------------------------


def test_ack_latency_runs_from_the_delivery_to_the_ack() -> None:
    """Not from its arrival, nor from an earlier delivery."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.deliver((0, single("k")), (1, single("k")))
    rig.clock.advance(8)
    worker.flow(10)
    rig.clock.advance(2)
    worker.ack(0)
    assert told(summary(rig).durations.ack_latency) == (1, 2.0)
    worker.redeliver(1)
    rig.clock.advance(3)
    worker.ack(1)
    worker.ack(1)
    assert told(summary(rig).durations.ack_latency) == (2, 5.0)


def test_acks_that_come_together_are_observed_each() -> None:
    """Those that took equally long as well as the others."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, single("k")), (1, single("k")), (2, single("k")))
    rig.clock.advance(1)
    rig.link.deliver((3, single("k")), (4, single("k")))
    rig.clock.advance(2)
    worker.ack(0, 3, 1, 2, 4)
    assert told(summary(rig).durations.ack_latency) == (5, 3 * 3.0 + 2 * 2.0)


def test_a_batch_is_acknowledged_with_its_last_message() -> None:
    """Whether in one command or message by message; also where parts of it travelled together."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1")])), (1, batch([("k", b"0"), ("l", b"1")])))
    for entry in (0, 1):
        rig.clock.advance(1)
        worker.ack(entry, ack_set=[0b10])
        rig.clock.advance(1)
        assert told(summary(rig).durations.ack_latency)[0] == entry
        worker.ack(entry, ack_set=[0b00])
    assert told(summary(rig).durations.ack_latency) == (2, 2.0 + 4.0)


def test_a_batch_given_back_in_part_counts_from_when_it_was_sent_again() -> None:
    """Messages acknowledged one by one before are not waited for."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, batch([("k", b"0"), ("l", b"1"), ("m", b"2")])))
    (whole,) = worker.messages()
    worker.ack(whole, ack_set=[0b110])
    rig.clock.advance(5)
    worker.redeliver(whole)
    (rest,) = worker.messages()
    rig.clock.advance(1)
    worker.ack(rest)
    assert told(summary(rig).durations.ack_latency) == (1, 1.0)
    assert summary(rig).dispatcher.outstanding_entries == 0


# ---- hand-overs and blocked slots ------------------------------------------------------------------------------------


def test_a_hand_over_lasts_from_the_join_to_the_last_ack_of_a_slot_that_moved() -> None:
    """One observation a slot; a slot that did not move, or came back, is none."""
    rig = SubscriptionRig()
    first = rig.worker("a", permits=100)
    keys = [f"key-{number}" for number in range(40)]
    rig.link.deliver(*[(entry, single(key)) for entry, key in enumerate(keys)])
    rig.clock.advance(10)
    second = rig.worker("b", permits=100)
    moved = [entry for entry, key in enumerate(keys) if key in {rig.key_for("b", nth) for nth in range(40)}]
    assert summary(rig).dispatcher.draining_hashes_count == len(moved) > 2
    assert summary(rig).dispatcher.draining_hashes_unacked_messages == len(moved)
    assert summary(rig).dispatcher.draining_hashes_waiting == 0
    rig.link.deliver((100, single(keys[moved[0]])), (101, single(keys[moved[0]])), (102, single(keys[moved[1]])))
    assert summary(rig).dispatcher.draining_hashes_waiting == 2
    rig.clock.advance(2)
    first.ack(moved[0])
    assert told(summary(rig).durations.hand_over_duration) == (1, 2.0)
    second.lose()
    first.ack(*range(40))
    assert told(summary(rig).durations.hand_over_duration) == (1, 2.0)
    assert summary(rig).dispatcher.draining_hashes_cleared_total == len(moved)
    assert summary(rig).dispatcher.draining_hashes_count == 0


def test_a_hand_over_ends_as_well_when_its_former_owner_leaves() -> None:
    """What it held goes on to the new one."""
    rig = SubscriptionRig()
    first = rig.worker("a", permits=10)
    rig.link.deliver((0, single("k", BODY)))
    for number in range(50):
        if not summary(rig).dispatcher.draining_hashes_count:
            rig.worker(f"b-{number}", permits=10)
    rig.clock.advance(3)
    first.lose()
    assert told(summary(rig).durations.hand_over_duration) == (1, 3.0)


def test_what_waits_is_told_while_it_does_and_how_long_it_did_when_it_leaves() -> None:
    """One observation for each delivery; the oldest wait is told while it lasts."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.deliver((0, single("k", BODY)))
    rig.clock.advance(1)
    rig.link.deliver((1, single("k", BODY)), (2, single("l", BODY)))
    rig.clock.advance(4)
    waiting = summary(rig)
    assert waiting.oldest_wait_s == 5.0
    assert waiting.oldest_unacknowledged_s == 0.0, "nothing was sent"
    assert (waiting.dispatcher.waiting_messages, waiting.dispatcher.waiting_slots) == (3, 2)
    assert waiting.dispatcher.waiting_bytes == 2 * len(single("k", BODY)) + len(single("l", BODY))
    assert told(waiting.durations.blocked_time) == (0, 0.0)
    worker.flow(2)
    assert told(summary(rig).durations.blocked_time) == (2, 9.0)
    worker.flow(1)
    assert told(summary(rig).durations.blocked_time) == (3, 13.0)
    rig.clock.advance(3)
    assert summary(rig).oldest_unacknowledged_s == 3.0
    worker.ack(0)
    assert summary(rig).oldest_unacknowledged_s == 3.0, "the others were sent in the same moment"
    assert summary(rig).oldest_wait_s == 0.0


@pytest.mark.parametrize("fields", [{"encryption_keys": [pb.EncryptionKeys(key="pub", value=b"s")]}, {}])
def test_what_leaves_in_the_moment_it_came_was_not_blocked(fields: dict[str, object]) -> None:
    """Also where it had to pass through the slot's queue, as every batch does that cannot be opened."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1")], **fields)))
    assert worker.entries() == [0]
    assert told(summary(rig).durations.blocked_time) == (0, 0.0)


# ---- gauges and counters ---------------------------------------------------------------------------------------------


def test_the_gauges_tell_what_is() -> None:
    """Permits, pending deliveries and their messages, look-ahead and memory against their limits."""
    rig = SubscriptionRig(
        look_ahead_messages_per_worker=8, subscription_memory_bytes=1 << 20, gateway_memory_bytes=1 << 24
    )
    worker = rig.worker("a", permits=3)
    rig.worker("b")
    key = rig.key_for("a")
    rig.link.deliver((0, batch([(key, b"0"), (key, b"1")])), (1, single(key)), (2, single(key)), (3, single(key)))
    found = summary(rig)
    assert (found.dispatcher.workers, found.joining) == (2, 0)
    assert found.dispatcher.available_permits == 0
    assert (found.dispatcher.pending_acks, found.dispatcher.unacked_messages) == (2, 3)
    assert (found.look_ahead_messages, found.look_ahead_used) == (16, 2 / 16)
    assert (found.upstream_state, found.upstream_connects) == ("ready", 1)
    assert found.memory_bytes == 1 << 20
    assert found.dispatcher.held_bytes == rig.subscriptions.summary().held_bytes > 0
    assert rig.subscriptions.summary().memory_bytes == 1 << 24
    worker.flow(5)
    assert summary(rig).dispatcher.available_permits == 3


def test_sums_over_sessions_are_of_every_count() -> None:
    """They are spelt out, one by one."""
    names = list(counts(SessionCounters()))
    first = SessionCounters(**{name: 1 << place for place, name in enumerate(names)})
    second = SessionCounters(**{name: 3 << place for place, name in enumerate(names)})
    first.add(second)
    assert counts(first) == {name: 4 << place for place, name in enumerate(names)}


def test_what_ended_subscriptions_counted_is_kept_as_long_as_their_namespace_is_here() -> None:
    """Sums do not fall while it has subscriptions, and what clients name is not kept for ever."""
    one, two, three = (Durations(ack_latency=observed(0.5, times)) for times in (1, 2, 4))
    known = AllDurations()
    for topic in ("persistent://t/n/a", "persistent://t/n/b", "persistent://t/n/c", "non-persistent://t/other/a"):
        known.began(topic)
    known.ended("persistent://t/n/b", one)
    known.ended("persistent://t/n/a", two)
    known.ended("non-persistent://t/other/a", three)
    ended, by_namespace = known.of_ended()
    assert ended == one + two + three
    assert by_namespace == [("t/n", one + two)]
    known.ended("persistent://t/n/c", one)
    assert known.of_ended() == (ended + one, [])


def test_a_scrape_may_take_its_time() -> None:
    """Subscriptions and workers that end meanwhile are left out, and those that come are not there yet."""
    rig = SubscriptionRig()
    workers = [rig.worker("a", subscription=name) for name in ("s", "t", "u")]
    rig.worker("b", subscription="t")
    summaries, summed = rig.subscriptions.summaries(), rig.subscriptions.worker_summaries()
    assert next(summaries).subscription == "s"
    assert next(summed).subscription == "s"
    assert next(summed).worker.name == "a"
    workers[2].lose()
    rig.worker("a", subscription="v")
    assert [item.subscription for item in summaries] == ["t"]
    workers[1].lose()
    assert [(item.subscription, item.worker.name) for item in summed] == [("t", "b")]


def test_workers_of_one_name_are_one() -> None:
    """They share the name's series; their shares of the hash space add up."""
    rig = SubscriptionRig()
    for name in ("a", "a", "b"):
        rig.worker(name, permits=5)
    first, second = (item.worker for item in rig.subscriptions.worker_summaries())
    assert (first.name, first.workers, first.available_permits) == ("a", 2, 10)
    assert (second.name, second.workers, second.available_permits) == ("b", 1, 5)
    assert first.hash_space_share + second.hash_space_share == pytest.approx(1.0)


def test_the_slot_that_has_waited_longest_is_named() -> None:
    """So that an alert can say which keys to look at."""
    rig = SubscriptionRig()
    rig.worker("a", permits=1)
    assert summary(rig).dispatcher.oldest_wait_slot == -1
    rig.link.deliver((1, single("sent")), (2, single("first")))
    rig.clock.advance(1)
    rig.link.deliver((3, single("second")))
    slots = [rig.subscription.state.dispatcher.selector.slot(murmur31(key)) for key in (b"first", b"second")]
    assert summary(rig).dispatcher.oldest_wait_slot == slots[0] != slots[1]


def test_a_share_of_the_hash_space_is_of_all_of_it() -> None:
    """Also where ranges leave holes."""
    rig = SubscriptionRig()
    rig.worker("a", keySharedMeta=sticky((0, 16_383)))
    (only,) = rig.subscriptions.worker_summaries()
    assert only.worker.hash_space_share == 0.25
