"""Receipts for acknowledgements that went to another replica: each comes, or is refused when that one is gone."""

from __future__ import annotations

from proxy.wire import pulsar_pb2 as pb
from tests.net.session_rig import T, ack, encode, success
from tests.net.test_owner_legs import Rig, close_consumer

GONE = (T.ACK_RESPONSE, pb.ServiceNotReady)


def receipt(consumer_id: int, request_id: int) -> bytes:
    """Build ACK_RESPONSE."""
    body = pb.CommandAckResponse(consumer_id=consumer_id, txnid_least_bits=0, txnid_most_bits=0, request_id=request_id)
    return encode(T.ACK_RESPONSE, body)


def refused(rig: Rig) -> list[tuple[int, int]]:
    """Of which receipts the client hears that they do not come, and whose; all it is told by then is such a thing."""
    told = rig.to_client()
    assert {(each.type, each.ackResponse.error) for each in told} <= {GONE}
    return [(each.ackResponse.consumer_id, each.ackResponse.request_id) for each in told]


def test_receipts_that_an_owner_owed_are_refused_when_it_is_gone() -> None:
    """Before the client is told that its consumer is: it would wait for its own time-out. What came is not refused."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(ack(1, 7) + ack(1) + ack(1, 8))
    assert leg.take() == ack(1, 7) + ack(1) + ack(1, 8)
    leg.deliver(receipt(1, 7))
    assert rig.client.take() == receipt(1, 7)
    leg.lose()
    last, close = rig.to_client()
    assert (last.type, last.ackResponse.error) == GONE
    assert (last.ackResponse.consumer_id, last.ackResponse.request_id) == (1, 8)
    assert (close.type, close.close_consumer.consumer_id) == (T.CLOSE_CONSUMER, 1)


def test_a_receipt_that_comes_later_is_passed_on_once_more_are_asked_for() -> None:
    """Also those that came while none was looked for are the client's."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    for request_id in (7, 8):
        rig.client.deliver(ack(1, request_id))
        leg.deliver(receipt(1, request_id))
        assert rig.client.take() == receipt(1, request_id)
    leg.lose()
    assert [each.type for each in rig.to_client()] == [T.CLOSE_CONSUMER]


def test_a_receipt_for_a_consumer_that_its_client_closes_is_refused_at_once() -> None:
    """Nobody answers it: the owner has closed the consumer when it comes. What was asked for before is answered."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(ack(1, 7) + close_consumer(1, 9) + ack(1, 8))
    assert leg.take() == ack(1, 7) + close_consumer(1, 9)
    (last,) = rig.to_client()
    assert (last.ackResponse.request_id, last.ackResponse.error) == (8, pb.ConsumerNotFound)
    leg.deliver(success(9) + receipt(1, 7))
    assert rig.client.take() == success(9) + receipt(1, 7)


def test_a_receipt_for_a_consumer_whose_owner_is_not_known_is_refused_at_once() -> None:
    """Clients acknowledge what an earlier owner gave them: it comes again."""
    rig = Rig()
    rig.subscribe(1, 3)
    rig.client.deliver(ack(1) + ack(1, 7))
    assert refused(rig) == [(1, 7)]
