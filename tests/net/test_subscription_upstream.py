"""Our consumer at the broker: how it comes back, and that workers notice nothing of it (G3, G4)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from proxy.errors import UpstreamUnavailable
from proxy.net.subscription.upstream import STEADY_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import FakeBrokerLink, T, batch, single


def reconnected(rig: SubscriptionRig) -> FakeBrokerLink:
    """The connection is lost, and a new one stands; the broker was asked whether another consumer is there."""
    old, new = rig.link, rig.brokers.new_link()
    old.lose()
    rig.clock.advance(0)
    kinds = [command.subscribe.keySharedMeta.keySharedMode for command in new.sent(T.SUBSCRIBE)]
    assert kinds == [pb.STICKY, pb.AUTO_SPLIT]
    return new


def holding(count: int) -> tuple[SubscriptionRig, Worker]:
    """A worker with permits left that holds the messages 0 to `count`, all of one key."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=count + 10)
    rig.link.deliver(*[(entry, single("k")) for entry in range(count)])
    worker.messages()
    return rig, worker


# ---- coming back -----------------------------------------------------------------------------------------------------


def test_a_lost_connection_is_made_up_for_at_once() -> None:
    """The first attempt follows in the same moment: most losses are a broker that moved the topic."""
    rig, _ = holding(0)
    rig.clock.advance(STEADY_S)
    new = reconnected(rig)
    assert new.doubts == 0, "one that comes back too soon waits for its own former consumer"
    assert rig.statistics().subscriptions[0].upstream_state == "ready"
    assert rig.statistics().subscriptions[0].upstream_connects == 2


def test_attempts_that_fail_back_off_up_to_a_bound_and_never_end() -> None:
    """100 ms, doubled each time up to the maximum; why the last one failed is shown meanwhile."""
    rig = SubscriptionRig(reconnect_backoff_initial_ms=100, reconnect_backoff_max_ms=1_000)
    rig.worker("a")
    rig.clock.advance(STEADY_S)
    rig.brokers.error = UpstreamUnavailable("no broker could be reached")
    lost_at = rig.clock.now()
    rig.link.lose()
    rig.clock.advance(5)
    waits = [later - earlier for earlier, later in pairwise([lost_at, *rig.brokers.located_at[1:]])]
    assert waits == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])
    shown = rig.statistics().subscriptions[0]
    assert (shown.upstream_state, shown.upstream_error) == ("backing_off", "no broker could be reached")
    rig.brokers.error = None
    rig.brokers.new_link()
    rig.clock.advance(1.1)
    assert rig.statistics().subscriptions[0].upstream_state == "ready"
    assert rig.statistics().subscriptions[0].upstream_error == ""


def test_a_consumer_that_is_closed_over_and_over_backs_off() -> None:
    """A broker that takes us in and closes us again is not asked a thousand times a second."""
    rig = SubscriptionRig(reconnect_backoff_initial_ms=100)
    rig.worker("a")
    for _ in range(5):
        rig.link.close_consumer()
        rig.clock.advance(0)
        if not rig.link.consumers:
            break
    else:
        pytest.fail("five reconnects in one moment")
    rig.clock.advance(60)
    assert rig.link.consumers
    subscribes = len(rig.link.sent(T.SUBSCRIBE))
    rig.link.close_consumer()
    rig.clock.advance(0)
    assert len(rig.link.sent(T.SUBSCRIBE)) == subscribes + 1


def test_a_subscribe_that_fails_later_is_no_workers_business() -> None:
    """Only the first attempt is theirs: now they hold messages that must be acknowledged one day."""
    rig, worker = holding(1)
    old, new = rig.link, rig.brokers.new_link()
    new.refusals[T.SUBSCRIBE] = (pb.ServiceNotReady, "namespace is being unloaded")
    old.lose()
    rig.clock.advance(0)
    assert worker.commands() == []
    assert "unloaded" in rig.statistics().subscriptions[0].upstream_error
    new.refusals.clear()
    rig.clock.advance(1)
    assert rig.statistics().subscriptions[0].upstream_state == "ready"


def test_a_consumer_that_the_broker_closed_comes_back_on_the_connection_that_stands() -> None:
    """Under a new consumer id, wherever the topic is now."""
    rig, worker = holding(0)
    rig.link.close_consumer()
    rig.clock.advance(0)
    first, second = rig.link.sent(T.SUBSCRIBE)
    assert first.subscribe.consumer_id != second.subscribe.consumer_id
    rig.link.deliver((0, single("k")))
    assert worker.entries() == [0]


def test_a_reconnect_does_not_move_the_cursor_back_again() -> None:
    """A start time that the first SUBSCRIBE asked for is done with."""
    rig = SubscriptionRig()
    rig.worker("a", start_message_rollback_duration_sec=3_600)
    assert rig.link.sent(T.SUBSCRIBE)[0].subscribe.start_message_rollback_duration_sec == 3_600
    assert not reconnected(rig).sent(T.SUBSCRIBE)[0].subscribe.start_message_rollback_duration_sec


def test_a_connection_lost_while_we_subscribe_for_the_first_time_is_the_workers_error() -> None:
    """Told of its request first and as a consumer then, the attempt ends once."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    rig.link.lose()
    rig.clock.advance(60)
    assert worker.error()[0] == pb.ServiceNotReady
    assert rig.count == 0
    assert rig.brokers.locates == 1


def test_a_late_lookup_of_an_ended_subscription_opens_nothing() -> None:
    """The worker left while the topic was looked up."""
    rig = SubscriptionRig()
    rig.brokers.held = True
    rig.subscribe("a").close()
    rig.brokers.found()
    rig.clock.advance(60)
    assert rig.link.log == []
    assert rig.count == 0


# ---- permits ---------------------------------------------------------------------------------------------------------


def test_permits_are_granted_for_free_workers_and_a_look_ahead() -> None:
    """A hundred before anything is known of the messages' size; more as they prove small; none without workers."""
    rig = SubscriptionRig(look_ahead_messages_per_worker=1_000)
    worker = rig.worker("a")
    assert rig.link.permits() == 100
    worker.flow(500)
    rig.link.deliver(*[(entry, single("k")) for entry in range(60)])
    assert rig.link.permits() == 1_400, "1,000 look-ahead and 440 free, less the 40 that are out"
    assert rig.statistics().subscriptions[0].upstream_permits == 1_440


def test_after_a_reconnect_permits_begin_from_nothing() -> None:
    """A new consumer at the broker has none, whatever the old one had left."""
    rig, _ = holding(3)
    left = rig.statistics().subscriptions[0].upstream_permits
    assert reconnected(rig).permits() >= left


def test_what_an_earlier_life_acknowledged_of_a_batch_costs_no_permits() -> None:
    """The broker debits the messages it still has to deliver, and so do we: else the window would grow for ever."""
    rig = SubscriptionRig()
    rig.worker("a", permits=10)
    before = rig.statistics().subscriptions[0].upstream_permits
    rig.link.permits()
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1"), ("k", b"2")])), ack_set=[0b100])
    assert rig.statistics().subscriptions[0].upstream_permits == before - 1 + rig.link.permits()


def test_no_flow_is_larger_than_a_broker_reads() -> None:
    """A batch that claims two thousand million messages is debited as many; the next grant is cut in two."""
    rig = SubscriptionRig()
    rig.worker("a", permits=10)
    rig.link.permits()
    for entry in (0, 1):
        rig.link.deliver((entry, single("k", b"not a batch", num_messages_in_batch=(1 << 31) - 1)))
    flows = [command.flow.messagePermits for command in rig.link.sent(T.FLOW)]
    assert sum(flows) > 1 << 31
    assert max(flows) < 1 << 31


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_the_last_worker_hears_success_after_the_broker_closed_our_consumer() -> None:
    """Whoever subscribes next, directly or through another gateway, finds nobody in the way."""
    rig, worker = holding(0)
    rig.link.held.add(T.CLOSE_CONSUMER)
    worker.close(9)
    assert worker.commands() == []
    rig.link.answer(T.CLOSE_CONSUMER)
    (answer,) = worker.commands()
    assert (answer.type, answer.success.request_id) == (T.SUCCESS, 9)


def test_the_last_worker_hears_success_though_the_connection_breaks_meanwhile() -> None:
    """The consumer is gone then, too."""
    rig, worker = holding(0)
    rig.link.held.add(T.CLOSE_CONSUMER)
    worker.close(9)
    rig.link.lose()
    assert worker.answers() == [T.SUCCESS]


def test_a_worker_that_is_not_the_last_is_answered_at_once() -> None:
    """Nothing at the broker changes, and nobody asks it."""
    rig, worker = holding(0)
    other = rig.worker("b")
    other.close()
    assert other.answers() == [T.SUCCESS]
    assert rig.link.sent(T.CLOSE_CONSUMER) == []
    assert worker.commands() == []


def test_late_messages_of_an_ended_subscription_reach_nobody() -> None:
    """Our consumer is routed no more as soon as it is to be closed."""
    rig, worker = holding(0)
    rig.link.held.add(T.CLOSE_CONSUMER)
    worker.lose()
    assert rig.link.consumers == {}
    assert rig.statistics().held_bytes == 0


def test_a_worker_that_comes_right_behind_the_last_one_gets_a_consumer_of_its_own() -> None:
    """The close goes out first on the same connection, then the one that asks, which is closed, too."""
    rig, worker = holding(0)
    rig.link.held.add(T.CLOSE_CONSUMER)
    worker.close()
    other = rig.subscribe("b")
    kinds = [command.type for command in rig.link.log if command.type in (T.SUBSCRIBE, T.CLOSE_CONSUMER)]
    assert kinds == 2 * [T.SUBSCRIBE, T.CLOSE_CONSUMER]
    for _ in range(2):
        rig.link.answer(T.CLOSE_CONSUMER)
    assert other.answers() == [T.SUCCESS]
