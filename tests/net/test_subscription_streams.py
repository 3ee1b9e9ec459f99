"""Streams of a group: several consumers at the broker, one subscription for the workers."""

from __future__ import annotations

import pytest

from proxy.core.upstream_window import FIRST_GRANT_MESSAGES
from proxy.net.subscription.upstream import STEADY_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.stream_rig import GroupRig, StreamRig, key_in, payloads, subscribes
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, T, batch, single


def test_a_stream_is_a_sticky_consumer_of_exactly_its_slots() -> None:
    """Named after replica and stream; an ordinary subscription's consumer is as it always was."""
    rig = StreamRig(0, 3, replica_name="kl-1")
    first, last = subscribes(rig.link)
    assert [command.consumer_name for command in (first, last)] == ["kl-1-0", "kl-1-3"]
    for command, slots in ((first, (0, 16_383)), (last, (49_152, 65_535))):
        assert command.keySharedMeta.keySharedMode == pb.STICKY
        assert [(span.start, span.end) for span in command.keySharedMeta.hashRanges] == [slots]
    ordinary = SubscriptionRig(replica_name="kl-1")
    ordinary.worker("a")
    (command,) = subscribes(ordinary.link)
    assert (command.consumer_name, command.keySharedMeta.keySharedMode) == ("kl-1", pb.AUTO_SPLIT)
    assert len(ordinary.link.sent(T.SUBSCRIBE)) == 1, "its own SUBSCRIBE is its first worker's probe"


def test_a_stream_that_comes_does_not_move_the_cursor_of_all_replicas() -> None:
    """Where the first worker wanted to begin was settled by its probe."""
    rig = GroupRig()
    rig.worker("a", start_message_rollback_duration_sec=3_600)
    (probe,) = rig.link.sent(T.SUBSCRIBE)
    assert probe.subscribe.start_message_rollback_duration_sec == 3_600
    streams = StreamRig(1, 2)
    assert [command.start_message_rollback_duration_sec for command in subscribes(streams.link)] == [0, 0]


@pytest.mark.parametrize("streams", [(0, 1), (0, 2, 3)])
def test_entries_of_each_stream_come_in_their_order(streams: tuple[int, ...]) -> None:
    """Whatever the order is that the broker sends them in by several consumers, also below what came already."""
    rig = StreamRig(*streams, permits=100)
    for stream in reversed(streams):
        for number in range(3):
            entry = 10 * number + stream
            rig.deliver(stream, (entry, single(key_in(stream), b"%d-%d" % (stream, number))))
    got = payloads(rig.first)
    for stream in streams:
        assert [item for item in got if item.startswith(b"%d-" % stream)] == [
            b"%d-%d" % (stream, number) for number in range(3)
        ]
    assert len(got) == 3 * len(streams)


def test_messages_that_come_back_keep_the_order_of_their_key_among_streams() -> None:
    """A slot is in one stream, so its queue is in the topic's order, though entries of streams arrive in none."""
    rig = StreamRig(0, 1, permits=3)
    keys = key_in(0), key_in(1)
    rig.deliver(1, *[(entry, single(keys[1], b"1-%d" % entry)) for entry in (50, 51, 52)])
    rig.first.messages()
    rig.deliver(0, *[(entry, single(keys[0], b"0-%d" % entry)) for entry in (1, 2)])
    rig.first.redeliver()
    rig.first.flow(100)
    got = payloads(rig.first)
    assert sorted(got, key=got.index) == got
    assert [item for item in got if item.startswith(b"1")] == [b"1-50", b"1-51", b"1-52"]
    assert [item for item in got if item.startswith(b"0")] == [b"0-1", b"0-2"]


def test_a_batch_with_keys_of_another_stream_stays_whole() -> None:
    """Its messages belong to one stream, the one the broker sent it by: else that could not be handed over (G8)."""
    rig = StreamRig(0, permits=100)
    rig.worker("b", permits=100)
    rig.deliver(0, (1, batch([(key_in(0), b"x"), (key_in(1), b"y")])))
    assert rig.statistics().subscriptions[0].opaque_batches == 1
    assert rig.statistics().subscriptions[0].sliced_deliveries == 0
    mixed = batch([(key_in(0, nth), b"z") for nth in range(20)])
    rig.deliver(0, (2, mixed))
    assert rig.statistics().subscriptions[0].opaque_batches == 1
    assert rig.statistics().subscriptions[0].mixed_batches == 1


# ---- permits ---------------------------------------------------------------------------------------------------------


def test_permits_are_divided_among_streams() -> None:
    """All of them together have what one consumer would: the first grant is a hundred in all."""
    rig = StreamRig(0)
    assert rig.granted(0) == FIRST_GRANT_MESSAGES
    rig.open(1)
    assert (rig.granted(0), rig.granted(1)) == (FIRST_GRANT_MESSAGES, FIRST_GRANT_MESSAGES // 2)
    rig.open(2)
    assert rig.granted(2) == FIRST_GRANT_MESSAGES // 3
    shown = rig.statistics().subscriptions[0]
    assert (shown.upstream_permits, shown.upstream_connects) == (100 + 50 + 33, 3)


def test_a_hot_stream_is_topped_up_while_others_are_idle() -> None:
    """Its share is given again as often as it is used, and the idle one keeps what it has."""
    rig = StreamRig(0, 1, permits=100_000, look_ahead_messages_per_worker=100)
    idle = rig.granted(1)
    for start in range(0, 5_000, 40):
        rig.deliver(0, *[(start + number, single(key_in(0))) for number in range(40)])
        rig.first.ack(*rig.first.entries())
    consumer = rig.subscription.consumers.get(0)
    assert consumer is not None
    assert consumer.window.outstanding > 1_000
    assert rig.granted(1) == idle


def test_a_stream_without_messages_gets_a_permit_however_little_there_is() -> None:
    """Or its first message would never come."""
    rig = StreamRig(0, 1, 2, look_ahead_messages_per_worker=1)
    assert [rig.granted(stream) for stream in (0, 1, 2)] == [1, 1, 1]


def test_when_a_stream_goes_the_others_have_its_share() -> None:
    """As soon as there is reason to grant anything."""
    rig = StreamRig(0, 1)
    assert rig.close(0) == [0]
    assert rig.granted(1) == FIRST_GRANT_MESSAGES


def test_after_a_loss_of_all_each_has_its_share_again_and_no_more() -> None:
    """Though they come back one after another: the first does not take what the others are to have."""
    rig = StreamRig(0, 1, permits=100, look_ahead_messages_per_worker=1_000)
    for stream in (0, 1):
        rig.deliver(stream, *[(100 * stream + entry, single(key_in(stream))) for entry in range(20)])
    rig.first.ack(*rig.first.entries())
    old = rig.link
    rig.brokers.new_link()
    rig.brokers.held = True
    old.lose()
    rig.clock.advance(1)
    for found in rig.brokers.asked:
        found(rig.link)
        rig.clock.settle()
    assert rig.ear.take()[-2:] == [("opened", 0), ("opened", 1)]
    assert [rig.granted(0), rig.granted(1)] == [530, 530], "1,000 look-ahead and 60 free, in halves"


# ---- loss ------------------------------------------------------------------------------------------------------------


def test_acks_go_by_a_stream_that_stands_when_the_one_the_entry_came_by_is_lost() -> None:
    """The broker finds whose the entry is; nobody waits for the lost one."""
    rig = StreamRig(0, 1, permits=10)
    rig.deliver(0, (5, single(key_in(0))))
    rig.link.acked()
    rig.link.held.add(T.SUBSCRIBE)
    rig.link.close_consumer(rig.consumer_id(0))
    rig.clock.advance(0)
    rig.first.ack(5, request_id=7)
    (command,) = rig.link.sent(T.ACK)
    assert command.ack.consumer_id == rig.consumer_id(1)
    assert rig.link.acked() == [(LEDGER, 5)]
    assert rig.first.receipt().request_id == 7


def test_without_a_stream_acks_wait_for_one() -> None:
    """Also for one that was never here before."""
    rig = StreamRig(0, permits=10)
    rig.deliver(0, (5, single(key_in(0))))
    assert rig.close(0) == [0]
    rig.link.taken(T.ACK)
    rig.first.ack(5, request_id=7)
    assert rig.link.acked() == []
    assert rig.first.messages() != []
    assert rig.first.commands() == []
    rig.open(1)
    assert rig.link.acked() == [(LEDGER, 5)]
    assert rig.first.receipt().request_id == 7


def test_one_stream_is_lost_and_comes_back_and_others_do_not_notice() -> None:
    """What a worker holds of it is not sent twice; acks without an answer go again (G4)."""
    rig = StreamRig(0, 1, permits=10)
    rig.clock.advance(STEADY_S)
    entry = (5, single(key_in(0)))
    rig.deliver(0, entry)
    assert rig.first.entries() == [5]
    steady = rig.consumer_id(1)
    rig.link.close_consumer(rig.consumer_id(0))
    assert rig.ear.take() == [("lost", 0)]
    rig.deliver(1, (6, single(key_in(1))))
    assert rig.first.entries() == [6]
    rig.clock.advance(0)
    assert rig.ear.take() == [("opened", 0)]
    assert rig.granted(0) > 0
    rig.deliver(0, entry)
    assert rig.first.entries() == []
    assert rig.consumer_id(1) == steady
    assert [command.consumer_name for command in subscribes(rig.link)] == ["keyline-0", "keyline-1", "keyline-0"]
    assert rig.first.commands() == []


def test_a_connection_with_all_streams_is_lost_and_all_come_back() -> None:
    """Each by itself, and the acks that nobody confirmed go once more."""
    rig = StreamRig(0, 1, 2, permits=10)
    rig.clock.advance(STEADY_S)
    rig.deliver(2, (5, single(key_in(2))))
    rig.link.held.add(T.ACK)
    rig.first.ack(5)
    old, new = rig.link, rig.brokers.new_link()
    old.lose()
    assert rig.ear.take() == [("lost", 0), ("lost", 1), ("lost", 2)]
    assert rig.statistics().subscriptions[0].upstream_state == "backing_off"
    rig.clock.advance(0)
    assert rig.ear.take() == [("opened", 0), ("opened", 1), ("opened", 2)]
    assert set(new.acked()) == {(LEDGER, 5)}
    assert rig.statistics().subscriptions[0].upstream_state == "ready"


def test_events_tell_which_stream() -> None:
    """An ordinary subscription's say nothing of streams."""
    rig = StreamRig()
    ear = rig.subscriptions.events.listen(lambda: None)
    rig.open(2)
    rig.link.close_consumer(rig.consumer_id(2))
    ready, lost = ear.take()[1]
    assert (ready.kind, ready.facts) == ("upstream_ready", {"connects": 1, "stream": 2})
    assert (lost.kind, lost.facts["stream"]) == ("upstream_lost", 2)


# ---- memory, end of topic --------------------------------------------------------------------------------------------


def test_the_memory_stop_pauses_the_links_of_all_streams() -> None:
    """They may be connected to several brokers while a topic moves."""
    rig = StreamRig(0, permits=0, gateway_memory_bytes=20_000)
    old = rig.link
    new = rig.brokers.new_link()
    rig.open(1)
    rig.deliver(0, *[(entry, single(key_in(0), b"x" * 5_000)) for entry in range(5)], link=old)
    assert old.pausing
    assert new.pausing
    rig.first.flow(100)
    rig.first.ack(*rig.first.entries())
    assert not old.pausing
    assert not new.pausing


def test_the_end_of_the_topic_is_told_once_when_all_streams_are_there() -> None:
    """Whichever is last; a worker that comes later is told as well."""
    rig = StreamRig(0, 1)
    consumers = [rig.link.consumers[rig.consumer_id(stream)] for stream in (0, 1)]
    consumers[0].reached_end_of_topic()
    assert rig.first.answers() == []
    consumers[1].reached_end_of_topic()
    assert rig.first.answers() == [T.REACHED_END_OF_TOPIC]
    consumers[0].reached_end_of_topic()
    assert rig.first.answers() == []
    assert rig.subscribe("late").answers() == [T.SUCCESS, T.REACHED_END_OF_TOPIC]


def test_the_end_of_the_topic_is_told_when_the_last_stream_that_is_not_there_goes() -> None:
    """What is left to read is another replica's business."""
    rig = StreamRig(0, 1)
    rig.link.consumers[rig.consumer_id(0)].reached_end_of_topic()
    rig.close(1)
    assert rig.first.answers() == [T.REACHED_END_OF_TOPIC]
