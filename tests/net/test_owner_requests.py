"""How much a client may ask of its owners without an answer, and how it hears that none of it will be answered."""

from __future__ import annotations

import pytest

from proxy.limits import Limits
from proxy.net.owner import leg as leg_module
from proxy.net.relay import requests
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import refusal_frame
from tests.net.session_rig import T, ack, encode, parse, subscribe, success
from tests.net.test_owner_legs import Rig, close_consumer, topic_of
from tests.net.test_owner_receipts import receipt


def seek(consumer_id: int, request_id: int) -> bytes:
    """Build SEEK."""
    return encode(T.SEEK, pb.CommandSeek(consumer_id=consumer_id, request_id=request_id, message_publish_time=1))


def refused(rig: Rig) -> list[tuple[int, int]]:
    """Which acknowledgements the client hears to be refused, and why; it hears nothing else."""
    told = rig.to_client()
    assert {each.type for each in told} <= {T.ACK_RESPONSE}
    return [(each.ackResponse.request_id, each.ackResponse.error) for each in told]


def test_unanswered_requests_of_all_owners_together_are_bounded() -> None:
    """As at the broker: a client that asks and reads nothing is refused beyond the bound; answers make room."""
    rig = Rig(Limits(relayed_requests_max=3))
    rig.own((3, "b"), (5, "c"))
    first, second = rig.consumer(1, 3), rig.consumer(2, 5)
    rig.client.deliver(ack(1, 7) + ack(2, 8) + ack(1, 9) + ack(1, 10) + ack(2, 11) + ack(1))
    assert first.take() == ack(1, 7) + ack(1, 9) + ack(1), "what asks for no answer is passed on"
    assert second.take() == ack(2, 8)
    told = rig.to_client()
    assert [(each.ackResponse.request_id, each.ackResponse.error) for each in told] == [
        (10, pb.TooManyRequests),
        (11, pb.TooManyRequests),
    ]
    assert "3 requests of this connection wait for an answer" in told[0].ackResponse.message
    first.deliver(receipt(1, 7))
    rig.client.deliver(ack(2, 12) + ack(2, 13))
    assert second.take() == ack(2, 12)
    assert refused(rig) == [(7, pb.UnknownError), (13, pb.TooManyRequests)]


def test_a_request_id_that_is_used_again_takes_its_room_once() -> None:
    """Only one answer is awaited for it."""
    rig = Rig(Limits(relayed_requests_max=2))
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    for _ in range(5):
        rig.client.deliver(ack(1, 7))
        leg.deliver(receipt(1, 7))
    rig.take_all()
    rig.client.deliver(ack(1, 7) + ack(1, 7))
    leg.deliver(receipt(1, 7))
    rig.take_all()
    rig.client.deliver(ack(1, 8) + ack(1, 9) + ack(1, 10))
    assert refused(rig) == [(10, pb.TooManyRequests)]


def test_the_bytes_of_unanswered_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the broker; acknowledgements, of which little is kept, count by their number alone."""
    monkeypatch.setattr(requests, "BYTES_MAX", 2 * len(seek(1, 7)))
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(b"".join(ack(1, number) for number in range(20, 30)) + seek(1, 7) + seek(1, 8) + seek(1, 9))
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error) == (9, pb.TooManyRequests)
    leg.take()
    leg.deliver(success(7))
    rig.client.deliver(seek(1, 10))
    assert leg.take() == seek(1, 10)


def test_a_subscribe_beyond_the_bound_may_be_tried_again() -> None:
    """As one that has no room in the queue for its leg."""
    rig = Rig(Limits(relayed_requests_max=1))
    rig.own((3, "b"))
    rig.consumer(1, 3)
    rig.client.deliver(ack(1, 7))
    rig.subscribe(2, 3)
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error) == (102, pb.ServiceNotReady)
    rig.client.deliver(ack(2, 8))
    assert refused(rig) == [(8, pb.ConsumerNotFound)]


def test_a_close_beyond_the_bound_ends_all_that_the_owner_has() -> None:
    """A consumer that stayed there would keep messages that its client knows nothing of."""
    rig = Rig(Limits(relayed_requests_max=1))
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.consumer(2, 3)
    rig.client.deliver(ack(1, 7) + close_consumer(1, 8))
    assert leg.closing
    receipt_gone, closed, gone = rig.to_client()
    assert (receipt_gone.ackResponse.request_id, receipt_gone.ackResponse.error) == (7, pb.ServiceNotReady)
    assert closed.success.request_id == 8
    assert (gone.type, gone.close_consumer.consumer_id) == (T.CLOSE_CONSUMER, 2)
    rig.consumer(2, 3)


class SlowRig(Rig):
    """An owner that goes with five receipts owed, of which a slice has time to refuse two."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()

        def slowly(kind: int, body: object, message: str, code: int) -> bytes:
            self.clock.oversleep(0.001)
            return refusal_frame(kind, body, message, code)

        monkeypatch.setattr(leg_module, "refusal_frame", slowly)
        self.own((3, "b"), (4, "b"))
        self.lost = self.consumer(1, 3)
        self.client.deliver(b"".join(ack(1, number) for number in range(5)))
        self.subscribe(2, 4)
        self.clock.settle()
        self.lost.take()
        self.lost.closing = True
        self.lost._receiver.closed("reset by peer")  # without the turns that follow

    def told(self) -> list[int]:
        """The receipts that the client has heard of by now."""
        return [each.ackResponse.request_id for each in parse(bytes(self.client.written))]


def test_the_loss_of_an_owner_is_told_in_slices_and_before_all_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the loop takes longer because one client has asked for much; nothing it says meanwhile overtakes."""
    rig = SlowRig(monkeypatch)
    assert rig.told() == [0, 1]
    read = [rig.client.reading]
    rig.client._held.append(close_consumer(1, 50) + subscribe(1, 51, topic=topic_of(3)))
    rig.clock.turn()
    assert rig.told() == [0, 1, 2, 3]
    assert not rig.broker.take(), "the CLOSE_CONSUMER waits"
    rig.clock.settle()
    *receipts, gone = rig.to_client()
    assert [each.ackResponse.request_id for each in receipts] == [0, 1, 2, 3, 4]
    assert (gone.type, gone.close_consumer.consumer_id) == (T.CLOSE_CONSUMER, 1)
    assert [*read, rig.client.reading] == [False, True]
    assert rig.broker.take() == close_consumer(1, 50)
    rig.clock.advance(1)
    asked = parse(rig.let_in().take())
    assert [(each.subscribe.consumer_id, each.subscribe.request_id) for each in asked] == [(1, 51), (2, 102)]


def test_a_leg_that_is_given_up_while_its_loss_is_told_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bundles move at the same time, and a SUBSCRIBE waits at it for its answer."""
    rig = SlowRig(monkeypatch)
    rig.own((3, "c"), (4, "c"), epoch=2)
    rig.clock.settle()
    assert [each.type for each in rig.to_client()] == [T.ACK_RESPONSE] * 5 + [T.CLOSE_CONSUMER]
    rig.clock.advance(1)
    assert rig.dialled.last.address == "pulsar://c:6670"
    assert [each.subscribe.consumer_id for each in parse(rig.let_in().take())] == [2]


def test_a_client_that_goes_while_it_is_told_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No timer, and no consumer that would be led on."""
    rig = SlowRig(monkeypatch)
    rig.client.lose()
    rig.clock.settle()
    assert len(rig.ended) == 1
    assert not rig.unreached.waiting
    rig.broker.lose()
    assert rig.clock.waiting == 1, "all but that for signs of life, which this rig does not ask for"
