"""A stream's consumer from its lease to its end: refused, tried again, closed at any moment."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.wire import pulsar_pb2 as pb
from tests.net.stream_rig import StreamRig, key_in, subscribes
from tests.net.subscription_rig_broker import LEDGER, T, single

CONFLICT = (pb.ConsumerAssignError, "Range conflict with consumer kl-2-1")


def test_a_stream_that_is_refused_is_tried_again_until_it_is_opened() -> None:
    """The replica that had it before may still be there; no worker hears of that, and no other stream."""
    rig = StreamRig(0, reconnect_backoff_initial_ms=100)
    rig.link.refusals[T.SUBSCRIBE] = CONFLICT
    rig.open(1)
    assert rig.ear.take() == [("refused", 1)]
    rig.clock.advance(0.1)
    assert rig.ear.take() == [("refused", 1)]
    assert all(isinstance(error, UpstreamError) and error.wire_code == CONFLICT[0] for error in rig.ear.errors)
    shown = rig.statistics().subscriptions[0]
    assert (shown.upstream_state, shown.upstream_error) == ("backing_off", CONFLICT[1])
    rig.link.refusals.clear()
    rig.clock.advance(0.2)
    assert rig.ear.take() == [("opened", 1)]
    assert rig.first.commands() == []
    assert rig.count == 1


def test_a_stream_is_tried_again_when_no_broker_can_be_found() -> None:
    """Told apart from a no by the error's class."""
    rig = StreamRig()
    rig.brokers.error = UpstreamUnavailable("no broker could be reached")
    rig.open(2)
    assert rig.ear.take() == [("refused", 2)]
    assert isinstance(rig.ear.errors[0], UpstreamUnavailable)
    rig.brokers.error = None
    rig.clock.advance(1)
    assert rig.ear.take() == [("opened", 2)]


def test_a_connection_lost_while_a_stream_subscribes_is_one_refusal() -> None:
    """It was never opened, so it is not lost."""
    rig = StreamRig()
    rig.link.held.add(T.SUBSCRIBE)
    rig.open(0)
    old = rig.link
    rig.brokers.new_link()
    old.lose()
    rig.clock.advance(1)
    assert rig.ear.take() == [("refused", 0), ("opened", 0)]


def test_a_stream_that_stood_is_refused_later_and_comes_back() -> None:
    """As at first: told, and tried again."""
    rig = StreamRig(0)
    rig.link.refusals[T.SUBSCRIBE] = CONFLICT
    rig.link.close_consumer(rig.consumer_id(0))
    rig.clock.advance(0.5)
    lost, *refused = rig.ear.take()
    assert lost == ("lost", 0)
    assert set(refused) == {("refused", 0)}
    rig.link.refusals.clear()
    rig.clock.advance(2)
    assert rig.ear.take() == [("opened", 0)]


# ---- closing ---------------------------------------------------------------------------------------------------------


def test_a_stream_is_closed_when_the_broker_says_so_and_acks_leave_before() -> None:
    """On one connection the broker takes them in turn: nothing acknowledged is delivered by the next replica again."""
    rig = StreamRig(0, 1, permits=10)
    rig.deliver(0, (5, single(key_in(0))))
    rig.link.held.add(T.CLOSE_CONSUMER)
    rig.link.taken(T.CLOSE_CONSUMER)
    gone = rig.consumer_id(0)
    ack = pb.CommandAck(consumer_id=rig.first.consumer_id, ack_type=pb.CommandAck.Individual)
    ack.message_id.add(ledgerId=LEDGER, entryId=5)
    rig.first.port.ack(ack)  # in the same turn
    closed: list[int] = []
    rig.subscription.close_stream(0, lambda: closed.append(0))
    rig.clock.settle()
    kinds = [command.type for command in rig.link.log if command.type in (T.ACK, T.CLOSE_CONSUMER)]
    assert kinds == [T.ACK, T.CLOSE_CONSUMER]
    assert closed == []
    assert rig.link.answer(T.CLOSE_CONSUMER).close_consumer.consumer_id == gone
    assert closed == [0]
    assert rig.ear.take() == []
    assert rig.statistics().subscriptions[0].upstream_state == "ready"


def test_a_stream_is_closed_when_its_connection_breaks_before_the_answer() -> None:
    """The consumer is gone then; it does not come back, others do."""
    rig = StreamRig(0, 1)
    rig.link.held.add(T.CLOSE_CONSUMER)
    closed: list[int] = []
    rig.subscription.close_stream(0, lambda: closed.append(0))
    old = rig.link
    rig.brokers.new_link()
    old.lose()
    rig.clock.advance(60)
    assert closed == [0]
    assert rig.ear.take() == [("lost", 1), ("opened", 1)]
    assert [command.consumer_name for command in subscribes(rig.link)] == ["keyline-1"]


def test_a_stream_closed_while_it_is_looked_up_never_subscribes() -> None:
    """There is nothing to close."""
    rig = StreamRig()
    rig.brokers.held = True
    rig.open(0)
    assert rig.close(0) == [0]
    rig.brokers.found()
    rig.clock.advance(60)
    assert subscribes(rig.link) == []
    assert rig.ear.take() == []


@pytest.mark.parametrize("answer", ["success", "refusal"])
def test_a_stream_closed_while_it_subscribes_is_closed_behind_it(answer: str) -> None:
    """Whatever the broker says to the SUBSCRIBE, it is told to close; nobody hears of the stream any more."""
    rig = StreamRig()
    rig.link.held |= {T.SUBSCRIBE, T.CLOSE_CONSUMER}
    rig.open(0)
    closed = rig.close(0)
    assert closed == []
    if answer == "success":
        rig.link.answer(T.SUBSCRIBE)
    else:
        rig.link.refuse(T.SUBSCRIBE, *CONFLICT)
    assert closed == []
    rig.link.answer(T.CLOSE_CONSUMER)
    assert closed == [0]
    rig.clock.advance(60)
    assert rig.ear.take() == []
    assert len(subscribes(rig.link)) == 1


def test_a_stream_closed_while_it_backs_off_is_not_tried_again() -> None:
    """It is nowhere, so it is closed at once."""
    rig = StreamRig()
    rig.link.refusals[T.SUBSCRIBE] = CONFLICT
    rig.open(0)
    rig.ear.take()
    assert rig.close(0) == [0]
    tried = len(subscribes(rig.link))
    rig.clock.advance(60)
    assert len(subscribes(rig.link)) == tried
    assert rig.ear.take() == []
    assert rig.statistics().subscriptions[0].upstream_state == "ready"


def test_messages_on_their_way_to_a_closed_stream_go_nowhere() -> None:
    """Its consumer is routed no more as soon as it is to be closed: the next replica gets them."""
    rig = StreamRig(0, 1, permits=10)
    gone = rig.consumer_id(0)
    rig.link.held.add(T.CLOSE_CONSUMER)
    rig.close(0)
    assert gone not in rig.link.consumers
    assert rig.statistics().held_bytes == 0
    rig.deliver(1, (5, single(key_in(1))))
    assert rig.first.entries() == [5]


def test_a_stream_that_comes_again_is_a_new_consumer() -> None:
    """Subscribed behind the close, though that was not answered."""
    rig = StreamRig(0, permits=10)
    before = rig.consumer_id(0)
    rig.link.held.add(T.CLOSE_CONSUMER)
    rig.close(0)
    rig.open(0)
    assert rig.ear.take() == [("opened", 0)]
    assert rig.consumer_id(0) != before
    rig.deliver(0, (5, single(key_in(0))))
    assert rig.first.entries() == [5]
    assert rig.statistics().subscriptions[0].upstream_connects == 2


def test_a_stream_may_be_closed_by_who_hears_of_it() -> None:
    """Opened, refused or lost: the news may be what makes it unwanted."""

    class Closer:
        """Closes at the first word."""

        def __init__(self, rig: StreamRig) -> None:
            self.rig, self.closed = rig, 0

        def _close(self, stream: int) -> None:
            self.rig.subscription.close_stream(stream, self._done)

        def _done(self) -> None:
            self.closed += 1

        def stream_opened(self, stream: int) -> None:
            if stream != 2:
                self._close(stream)

        def stream_refused(self, stream: int, error: Exception) -> None:
            assert str(error)
            self._close(stream)

        def stream_lost(self, stream: int, reason: str) -> None:
            assert reason
            self._close(stream)

    rig = StreamRig()
    closer = Closer(rig)
    rig.subscription.open_stream(0, 0, 9, closer)
    rig.subscription.open_stream(2, 20, 29, closer)
    rig.clock.settle()
    rig.link.refusals[T.SUBSCRIBE] = CONFLICT
    rig.subscription.open_stream(1, 10, 19, closer)
    rig.clock.settle()
    rig.link.lose()
    rig.clock.advance(60)
    assert closer.closed == 3
    assert len(rig.subscription.consumers) == 0


# ---- with the subscription -------------------------------------------------------------------------------------------


def test_the_last_worker_takes_the_streams_with_it() -> None:
    """All are closed at the broker before it hears Success; who has them is told when asked."""
    rig = StreamRig(0, 1)
    rig.link.held.add(T.CLOSE_CONSUMER)
    subscription = rig.subscription
    rig.first.close(9)
    assert rig.count == 0
    closed: list[int] = []
    subscription.close_stream(0, lambda: closed.append(0))
    rig.link.answer(T.CLOSE_CONSUMER)
    assert closed == [0]
    assert rig.first.commands() == []
    rig.link.answer(T.CLOSE_CONSUMER)
    assert rig.first.answers() == [T.SUCCESS]
    subscription.close_stream(1, lambda: closed.append(1))
    assert closed == [0, 1]
    assert rig.ear.take() == []
    assert rig.link.consumers == {}


def test_the_last_workers_acks_leave_by_a_stream_that_comes_back() -> None:
    """As an ordinary subscription waits for its consumer: the end is put off until they are confirmed."""
    rig = StreamRig(0, permits=10)
    rig.clock.advance(5)
    rig.deliver(0, (5, single(key_in(0))))
    rig.link.held.add(T.ACK)
    rig.first.ack(5)
    old, new = rig.link, rig.brokers.new_link()
    rig.brokers.held = True
    old.lose()
    rig.first.close()
    assert rig.first.answers() == [T.SUCCESS], "nobody waits for an outage"
    assert rig.count == 1
    rig.clock.advance(0)
    rig.brokers.found()
    rig.clock.settle()
    assert new.acked()[0] == (LEDGER, 5)
    assert rig.count == 0


def test_a_last_worker_without_a_stream_ends_the_subscription_at_once() -> None:
    """There is no consumer by which its acks could be confirmed; the messages come again (G3)."""
    rig = StreamRig(0, permits=10)
    rig.deliver(0, (5, single(key_in(0))))
    rig.close(0)
    rig.first.ack(5)
    rig.first.close()
    assert rig.first.answers() == [T.SUCCESS]
    assert rig.count == 0
