"""A subscription's assignment in its group: what leases open, hold and give back, and what workers see of it."""

from __future__ import annotations

import pytest

from proxy.core.stream_leases import StreamLeases
from proxy.groups.messages import Disconnect, FindLeader, SessionId
from proxy.groups.session_transitions import State
from proxy.net.group.progress import WALKS_SHARE_MAX, GroupProgress
from proxy.net.group.views import group_statistics
from proxy.wire import pulsar_pb2 as pb
from tests.net.assignment_rig import TIMING, AssignmentRig
from tests.net.stream_rig import STREAMS, payloads, subscribes
from tests.net.subscription_rig_broker import T


def test_the_first_worker_begins_a_session() -> None:
    """Nothing is consumed before a lease; then exactly what is leased."""
    rig = AssignmentRig()
    assert isinstance(rig.mail.said[0], FindLeader)
    assert subscribes(rig.link) == []
    rig.lease(0, 2)
    spans = [(span.start, span.end) for command in subscribes(rig.link) for span in command.keySharedMeta.hashRanges]
    assert spans == [(0, 16_383), (32_768, 49_151)]
    assert rig.member.session.state is State.REPLAYING


def test_what_is_leased_is_delivered_and_progress_told() -> None:
    """The next report says up to where all is acknowledged, and what workers have."""
    rig = AssignmentRig(permits=100)
    rig.lease(1)
    rig.deliver(1, 5, 6, 7)
    assert payloads(rig.first) == [b"5", b"6", b"7"]
    rig.first.ack(5)
    rig.live(2 * TIMING.heartbeat_s)
    state = rig.member.session.state_of(1)
    assert state.acknowledged is not None
    assert state.acknowledged & 0xFF == 5
    assert state.pending_count == 2
    rig.first.ack(6, 7)
    rig.live(2 * TIMING.heartbeat_s)
    state = rig.member.session.state_of(1)
    assert state.acknowledged is not None
    assert (state.acknowledged & 0xFF, state.pending_count) == (7, 0)


def test_looking_at_many_messages_is_rare() -> None:
    """What a look takes is a small part of the time: until the next one progress is as it was, and rates are new."""
    rig = AssignmentRig(permits=100)
    rig.lease(1)
    took_s = 0.05
    looks = 0

    class Slow(GroupProgress):
        """It takes long."""

        def _walk(self, leases: StreamLeases) -> None:
            nonlocal looks
            looks += 1
            rig.clock.oversleep(took_s)
            super()._walk(leases)

    progress = Slow(rig.subscription.state, rig.subscription.consumers)
    rig.deliver(1, 5)
    (before,) = progress.states()
    rig.first.ack(5)
    rig.deliver(1, 6)
    rig.clock.advance(1.0)
    (between,) = progress.states()
    rig.clock.advance(took_s / WALKS_SHARE_MAX)
    (after,) = progress.states()
    assert looks == 2
    assert before.acknowledged is not None
    assert after.acknowledged is not None
    assert [each & 0xFF for each in (before.acknowledged, after.acknowledged)] == [4, 5]
    assert between.acknowledged == before.acknowledged
    assert between.rate > 0
    assert after.rate == 0


def test_more_workers_are_more_weight() -> None:
    """The leader is told at once."""
    rig = AssignmentRig()
    rig.lease(0)
    second = rig.worker("b", 0)
    assert rig.last_report.workers_count == 2
    second.close()
    rig.clock.settle()
    assert rig.last_report.workers_count == 1


def test_a_revoked_stream_goes_when_workers_are_done_and_the_broker_has_confirmed() -> None:
    """Nothing new of it is delivered meanwhile, nothing more is fetched, and what was read ahead is dropped."""
    rig = AssignmentRig(permits=2)
    rig.lease(0, 1)
    rig.deliver(0, 1, 2, 3)
    rig.deliver(1, 4)
    assert payloads(rig.first) == [b"1", b"2"]
    rig.link.held.add(T.ACK)
    going = rig.consumer_id(0)
    rig.update(1)
    rig.first.flow(100)
    assert payloads(rig.first) == [b"4"], "the stream that stays goes on, the other does not"
    rig.first.ack(1, 2)
    rig.clock.settle()
    assert rig.finished() == set()
    assert rig.link.sent(T.CLOSE_CONSUMER) == []
    rig.link.answer(T.ACK)
    assert [command.close_consumer.consumer_id for command in rig.link.sent(T.CLOSE_CONSUMER)] == [going]
    assert rig.finished() == {0}
    assert len(rig.subscription.state.dispatcher.outstanding.entries) == 1
    assert rig.subscription.state.dispatcher.waiting_messages == 0


def test_what_was_acknowledged_is_news_once_every_stream_was_given_back() -> None:
    """Whoever leads may have moved the cursor meanwhile; as long as one stream is here, nobody can have."""
    rig = AssignmentRig(permits=100)
    rig.lease(0, 1)
    rig.deliver(0, 5)
    rig.deliver(1, 6)
    rig.first.ack(5, 6)
    rig.clock.settle()
    for streams in ((1,), (0, 1)):
        rig.update(*streams)
        rig.renew()
    assert payloads(rig.first) == [b"5", b"6"]
    rig.deliver(0, 5)
    assert payloads(rig.first) == [], "it came again because a broker forgot"
    rig.clock.settle()
    rig.update()
    rig.renew()
    rig.update(0, 1)
    rig.renew()
    rig.deliver(0, 5)
    rig.deliver(1, 6)
    assert payloads(rig.first) == [b"5", b"6"], "all was given back meanwhile"


def test_nothing_is_fetched_of_a_stream_that_goes() -> None:
    """What would come would only be dropped."""
    rig = AssignmentRig(permits=1)
    rig.lease(0, 1)
    rig.deliver(0, 1)
    rig.deliver(1, 2)
    rig.update(1)
    going = rig.consumer_id(0)
    rig.link.taken(T.FLOW)
    rig.first.flow(5_000)
    rig.clock.settle()
    granted = {command.flow.consumer_id for command in rig.link.taken(T.FLOW)}
    assert granted == {rig.consumer_id(1)} != {going}


def test_a_stream_goes_at_its_deadline_whatever_workers_have() -> None:
    """Their late acks count for nothing, and their permits and other streams are as they were."""
    rig = AssignmentRig(permits=2)
    rig.lease(0, 1)
    rig.deliver(0, 1, 2)
    assert payloads(rig.first) == [b"1", b"2"]
    rig.update(1)
    rig.live(TIMING.drain_s - 0.5)
    assert rig.finished() == set()
    rig.live(0.5)
    assert rig.finished() == {0}
    rig.link.acked()
    rig.first.ack(1)
    rig.clock.settle()
    assert rig.link.acked() == []
    rig.first.flow(1)
    rig.deliver(1, 9)
    assert payloads(rig.first) == [b"9"]


def test_a_deadline_of_an_earlier_time_closes_nothing() -> None:
    """Given back, leased again, revoked again: only the last deadline counts."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    rig.update()
    assert rig.finished() == {0}
    rig.renew()
    rig.update(0)
    rig.renew()
    rig.deliver(0, 1)
    rig.live(TIMING.drain_s / 2)
    assert payloads(rig.first) == [b"1"]
    rig.update()
    rig.live(TIMING.drain_s / 2 + 1.0)
    assert rig.finished() == set()
    assert rig.consumer_id(0)
    rig.live(TIMING.drain_s / 2)
    assert rig.finished() == {0}


def test_nothing_is_delivered_when_the_leases_have_run_out() -> None:
    """Also what was in a worker's outbox; with the next lease it goes on, and nothing comes twice."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    rig.deliver(0, 1)
    rig.first.stop_reading()
    rig.deliver(0, 2, 3)
    rig.clock.advance(TIMING.lease_s)
    rig.first.read_again()
    rig.clock.settle()
    rig.deliver(0, 4)
    assert payloads(rig.first) == [b"1"]
    assert rig.member.session.state is State.CONNECTING
    rig.lease(0)
    assert payloads(rig.first) == [b"2", b"3", b"4"]
    assert len(subscribes(rig.link)) == 1, "the consumer stood all the time"


@pytest.mark.parametrize("stopped", [True, False])
def test_what_had_not_left_when_the_leases_ran_out_never_leaves_if_another_had_the_stream(*, stopped: bool) -> None:
    """In a worker's outbox because the process was stopped in that turn, or the worker did not read. Others go on."""
    rig = AssignmentRig(permits=10)
    rig.lease(0, 1)
    rig.first.writable = stopped  # or its socket has just filled up
    rig.deliver(0, 1, 2, stopped_s=TIMING.drop_s if stopped else 0.0)
    rig.clock.advance(TIMING.drop_s)
    rig.link.close_consumer(rig.consumer_id(0))
    assert rig.member.session.state is State.CONNECTING
    rig.lease(1)
    rig.first.read_again()
    rig.clock.settle()
    rig.deliver(1, 3)
    assert payloads(rig.first) == [b"3"]
    rig.update(0, 1)
    rig.clock.settle()
    rig.deliver(0, 2)
    assert payloads(rig.first) == [b"2"], "what the broker sends anew is all that there is of the stream"


def test_what_leaves_has_to_leave_while_the_lease_lasts() -> None:
    """A process that is stopped with frames in its hands gives their connection up when it wakes up too late."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    rig.clock.advance(1.0)
    rig.deliver(0, 1)
    assert payloads(rig.first) == [b"1"]
    assert rig.first.limits == [TIMING.lease_s - 1.0]


def test_whoever_has_no_leader_stops_in_time_to_send_what_was_dispatched() -> None:
    """Nothing is begun so late that a busy moment would cost a healthy worker its connection."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    for left_s in (TIMING.send_s + 0.01, TIMING.send_s):
        rig.clock.advance(rig.member.session.lease_until - left_s - rig.clock.now())
        rig.deliver(0, 1 if left_s > TIMING.send_s else 2)
    assert payloads(rig.first) == [b"1"]
    assert min(rig.first.limits) >= TIMING.send_s
    rig.renew()
    assert payloads(rig.first) == [b"2"]


def test_a_process_that_slept_through_its_lease_delivers_nothing() -> None:
    """What it finds on its socket when it wakes up comes before its timers."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    rig.clock.oversleep(TIMING.drop_s)
    rig.deliver(0, 1)
    assert payloads(rig.first) == []


def test_a_stream_without_a_lease_that_the_broker_gives_up_stays_away() -> None:
    """Others may have a right to it, and what came again would be taken for a repetition; with a lease it is back."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    rig.deliver(0, 1)
    rig.clock.advance(TIMING.lease_s)
    rig.link.close_consumer(rig.consumer_id(0))
    rig.clock.advance(TIMING.drop_s)
    assert len(subscribes(rig.link)) == 1
    rig.lease(0)
    assert len(subscribes(rig.link)) == 2
    rig.first.ack(1)
    rig.deliver(0, 1, 2)
    assert payloads(rig.first) == [b"1", b"2"], "what the worker had was its own all the time"


def test_a_connection_that_may_have_died_while_there_was_no_lease_is_asked() -> None:
    """The broker may have given it up, and what it said of that may be lost: keys would wait for the keep-alive."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    rig.clock.advance(TIMING.lease_s)
    before = rig.link.doubts
    rig.lease(0)
    assert rig.link.doubts == before + 1


def test_a_stream_that_is_opened_asks_whether_its_connection_carries_anything() -> None:
    """Or a replica that was cut off waits there for an answer until the keep-alive ends, and the stream's keys too."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    assert rig.link.doubts == 1


def test_a_stream_that_opens_without_a_lease_is_closed_again() -> None:
    """The broker was asked in time and answered too late."""
    rig = AssignmentRig(permits=10)
    rig.link.held.add(T.SUBSCRIBE)
    rig.lease(0)
    rig.clock.advance(TIMING.lease_s)
    rig.link.held.clear()
    rig.link.answer(T.SUBSCRIBE)
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    rig.clock.advance(TIMING.drop_s)
    assert len(subscribes(rig.link)) == 1
    rig.lease(0)
    rig.deliver(0, 1)
    assert payloads(rig.first) == [b"1"]


def test_a_stream_that_was_given_up_goes_at_once_when_it_is_anothers() -> None:
    """The broker has given others what workers here have of it: there is nothing to wait for, before or meanwhile."""
    for lost_first in (True, False):
        rig = AssignmentRig(permits=10)
        rig.lease(0)
        rig.deliver(0, 1)
        rig.clock.advance(TIMING.lease_s)
        if lost_first:
            rig.link.close_consumer(rig.consumer_id(0))
        rig.lease()
        if not lost_first:
            assert rig.subscription.state.dispatcher.outstanding.entries, "the worker may acknowledge it yet"
            rig.link.close_consumer(rig.consumer_id(0))
        rig.clock.advance(0.0)
        assert not rig.subscription.state.dispatcher.outstanding.entries
        assert not len(rig.subscription.consumers)


def test_a_refused_stream_is_told_and_tried_again() -> None:
    """Somebody else is there still: the leader is to know."""
    rig = AssignmentRig()
    rig.link.refusals[T.SUBSCRIBE] = (pb.ConsumerAssignError, "Range conflict")
    rig.lease(0)
    assert rig.member.session.state_of(0).refused
    del rig.link.refusals[T.SUBSCRIBE]
    rig.live(1.0)
    assert not rig.member.session.state_of(0).refused
    rig.deliver(0, 1)


def test_the_last_worker_leaves() -> None:
    """The session gives everything back and goes; then the subscription ends."""
    rig = AssignmentRig(permits=10)
    rig.lease(0, 1)
    rig.deliver(0, 1)
    rig.first.ack(1)
    rig.first.close()
    rig.clock.settle()
    assert rig.first.answers() == [T.SUCCESS], "the worker does not wait for the leader"
    assert rig.last_report.workers_count == 0
    assert rig.count == 1
    rig.update()
    assert rig.finished() == {0, 1}
    rig.renew()
    assert isinstance(rig.mail.said[-1], Disconnect)
    assert rig.left == [SessionId("here", 1)]
    assert rig.count == 0


def test_a_worker_that_comes_while_the_session_leaves_begins_another() -> None:
    """With a number of its own; nobody is refused."""
    rig = AssignmentRig()
    rig.lease(0)
    rig.first.close()
    late = rig.worker("late", 10)
    rig.update()
    rig.renew()
    assert rig.left == [SessionId("here", 1)]
    assert rig.member.session.session == SessionId("here", 2)
    rig.lease(0)
    rig.deliver(0, 1)
    assert payloads(late) == [b"1"]
    assert rig.count == 1


def test_a_group_that_is_cut_in_another_way() -> None:
    """Streams of the new cut wait until those of the old one are gone, whatever their numbers."""
    rig = AssignmentRig(permits=10)
    rig.lease(0, 3)
    rig.deliver(0, 1)
    rig.clock.advance(TIMING.lease_s)
    rig.link.held.add(T.CLOSE_CONSUMER)
    rig.link.taken(T.SUBSCRIBE)
    rig.lease(0, cut=2 * STREAMS)
    rig.clock.advance(0.0)
    rig.link.answer(T.CLOSE_CONSUMER)
    assert subscribes(rig.link) == []
    rig.link.answer(T.CLOSE_CONSUMER)
    (command,) = subscribes(rig.link)
    assert [(span.start, span.end) for span in command.keySharedMeta.hashRanges] == [(0, 8_191)]
    rig.deliver(0, 1)
    assert payloads(rig.first)[-1] == b"1"


def test_the_gateway_stops() -> None:
    """The streams are closed at the broker with everything else, and nothing is said any more."""
    rig = AssignmentRig(permits=10)
    rig.lease(0, 1)
    said = len(rig.mail.said)
    rig.subscriptions.close()
    rig.clock.advance(60.0)
    assert len(rig.mail.said) == said
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 2
    assert rig.count == 0


def test_draining_leaves_shared_subscriptions_to_their_groups() -> None:
    """Their messages go on until their streams are elsewhere; who comes then is sent away."""
    rig = AssignmentRig(permits=10)
    rig.lease(0)
    idle: list[bool] = []
    rig.subscriptions.drain(lambda: idle.append(True))
    rig.deliver(0, 1)
    assert payloads(rig.first) == [b"1"]
    assert idle == [True]
    assert rig.assignment.leave()
    rig.first.ack(1)
    rig.update()
    rig.renew()
    assert not rig.assignment.leave()
    assert rig.count == 1, "workers are told to go with the rest"


def test_what_becomes_of_a_group_is_told_as_events() -> None:
    """Each change once, however often the machines are looked at; a reason to page somebody is among them."""
    rig = AssignmentRig(permits=10)
    listener = rig.subscriptions.events.listen(lambda: None)
    rig.lease(0, 1)
    rig.live(3.0)
    rig.deliver(0, 5)
    rig.update(1)
    rig.live(TIMING.drain_s)
    rig.clock.advance(TIMING.lease_s)
    rig.first.close()
    rig.clock.settle()
    rig.clock.advance(60.0)
    _, events = listener.take()
    told = [(event.kind, event.facts) for event in events if event.kind.startswith("group_")]
    session = {"replica": "here", "state": "replaying", "leader": "leader", "epoch": 1, "version": 1, "reason": None}
    assert told[0] == ("group_session", session | {"streams_count": STREAMS, "streams": [0, 1]})
    assert told[1][1]["state"] == "updating"
    assert (told[1][1]["version"], told[1][1]["streams"]) == (2, [1])
    kind, facts = told[2]
    assert (kind, facts["stream"], facts["overdue"]) == ("group_stream_released", 0, True)
    assert round(facts["duration_s"]) == TIMING.drain_s
    assert told[3][1] | {"replica": "here"} == {
        "replica": "here",
        "state": "connecting",
        "leader": None,
        "epoch": None,
        "version": None,
        "streams_count": STREAMS,
        "streams": [],
        "reason": "renew_stream_lease_timeout",
    }
    assert [kind for kind, _ in told[4:]] == ["group_stream_released", "group_left"]


def test_whoever_leaves_too_late_leaves_all_the_same() -> None:
    """No leader answered until the deadline: the streams are closed whatever workers have, and others may have them."""
    rig = AssignmentRig(permits=10)
    rig.lease(0, 1)
    rig.deliver(0, 1)
    assert rig.assignment.leave()
    rig.subscriptions.services.shutting_down = True
    rig.clock.advance(2 * (TIMING.drain_s + TIMING.lease_s))
    assert rig.left == [SessionId("here", 1)]
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 2
    assert not rig.subscription.state.dispatcher.outstanding.entries


def test_who_is_let_in_while_the_replica_stops_begins_no_session() -> None:
    """The others are giving their streams back: what this one got would not be handed over."""
    rig = AssignmentRig()
    rig.link.held.add(T.SUBSCRIBE)
    late = rig.subscribe("late", topic="persistent://public/default/another")
    assert late.commands() == []
    rig.subscriptions.services.shutting_down = True
    rig.link.answer(T.SUBSCRIBE)
    assert [command.type for command in late.commands()] == [T.SUCCESS]
    assert len(rig.assignments) == 2
    assert rig.assignment.member is None


def test_a_replica_without_a_stream_pages_nobody() -> None:
    """There may be more replicas than streams: the surplus wants nothing of the broker."""
    rig = AssignmentRig()
    assert rig.statistics().subscriptions[0].upstream_state == "ready"
    rig.link.refusals[T.SUBSCRIBE] = (pb.ConsumerAssignError, "Range conflict")
    rig.lease(0)
    assert rig.statistics().subscriptions[0].upstream_state == "backing_off"


def test_a_stream_of_another_cut_is_shown_with_the_slots_that_it_has() -> None:
    """Its number may be one that the new cut has not."""
    rig = AssignmentRig(permits=10)
    rig.lease(3)
    rig.clock.advance(TIMING.lease_s)
    rig.link.held.add(T.CLOSE_CONSUMER)
    rig.lease(0, cut=STREAMS // 2)
    rig.clock.advance(0.0)
    shown = group_statistics(rig.assignment, rig.clock.now())
    assert shown is not None
    assert [(row.stream, row.first_slot, row.holding) for row in shown.streams] == [(3, 49_152, "releasing")]
