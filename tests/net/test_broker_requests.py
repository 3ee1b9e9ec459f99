"""Requests on a broker connection: every kind of reply, refusal, and none at all."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.net.broker.requests import Requests
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import ConnectionBench, T, frame, success


def test_replies_reach_who_asked_whatever_their_order() -> None:
    """Request ids match replies to requests."""
    bench = ConnectionBench().ready()
    first, second = bench.ask("first"), bench.ask("second")
    bench.transport.deliver(success(second) + success(first))
    assert [name for name, _ in bench.diary] == ["second", "first"]


_REPLIES: dict[str, tuple[int, str, object]] = {
    "success": (T.SUCCESS, "success", pb.CommandSuccess()),
    "lookup": (T.LOOKUP_RESPONSE, "lookupTopicResponse", pb.CommandLookupTopicResponse(brokerServiceUrl="x")),
    "metadata": (
        T.PARTITIONED_METADATA_RESPONSE,
        "partitionMetadataResponse",
        pb.CommandPartitionedTopicMetadataResponse(partitions=3),
    ),
    "ack": (T.ACK_RESPONSE, "ackResponse", pb.CommandAckResponse(consumer_id=1)),
    "last message id": (
        T.GET_LAST_MESSAGE_ID_RESPONSE,
        "getLastMessageIdResponse",
        pb.CommandGetLastMessageIdResponse(last_message_id=pb.MessageIdData(ledgerId=1, entryId=2)),
    ),
    "consumer stats": (T.CONSUMER_STATS_RESPONSE, "consumerStatsResponse", pb.CommandConsumerStatsResponse()),
    "schema": (T.GET_SCHEMA_RESPONSE, "getSchemaResponse", pb.CommandGetSchemaResponse()),
    "new schema": (
        T.GET_OR_CREATE_SCHEMA_RESPONSE,
        "getOrCreateSchemaResponse",
        pb.CommandGetOrCreateSchemaResponse(),
    ),
    "topics": (
        T.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        "getTopicsOfNamespaceResponse",
        pb.CommandGetTopicsOfNamespaceResponse(),
    ),
}


@pytest.mark.parametrize("kind", _REPLIES)
def test_every_kind_of_reply_is_matched(kind: str) -> None:
    """Each reply command has its request id elsewhere; all are found."""
    command_type, field, reply = _REPLIES[kind]
    bench = ConnectionBench().ready()
    reply.request_id = bench.ask()  # type: ignore[attr-defined]
    bench.transport.deliver(frame(type=command_type, **{field: reply}))
    ((_, answer),) = bench.diary
    assert isinstance(answer, pb.BaseCommand)
    assert answer.type == command_type


_REFUSALS: dict[str, tuple[int, str, object]] = {
    "error": (T.ERROR, "error", pb.CommandError(error=pb.UnknownError, message="no")),
    "lookup": (
        T.LOOKUP_RESPONSE,
        "lookupTopicResponse",
        pb.CommandLookupTopicResponse(
            response=pb.CommandLookupTopicResponse.Failed, error=pb.UnknownError, message="no"
        ),
    ),
    "metadata": (
        T.PARTITIONED_METADATA_RESPONSE,
        "partitionMetadataResponse",
        pb.CommandPartitionedTopicMetadataResponse(
            response=pb.CommandPartitionedTopicMetadataResponse.Failed, message="no"
        ),
    ),
    "ack": (T.ACK_RESPONSE, "ackResponse", pb.CommandAckResponse(consumer_id=1, error=pb.UnknownError, message="no")),
    "consumer stats": (
        T.CONSUMER_STATS_RESPONSE,
        "consumerStatsResponse",
        pb.CommandConsumerStatsResponse(error_code=pb.UnknownError, error_message="no"),
    ),
    "schema": (
        T.GET_SCHEMA_RESPONSE,
        "getSchemaResponse",
        pb.CommandGetSchemaResponse(error_code=pb.UnknownError, error_message="no"),
    ),
}


@pytest.mark.parametrize("kind", _REFUSALS)
def test_every_kind_of_refusal_is_an_upstream_error(kind: str) -> None:
    """UnknownError is 0, protobuf's default: it must not be taken for "no error"."""
    command_type, field, reply = _REFUSALS[kind]
    bench = ConnectionBench().ready()
    reply.request_id = bench.ask()  # type: ignore[attr-defined]
    bench.transport.deliver(frame(type=command_type, **{field: reply}))
    ((_, answer),) = bench.diary
    assert isinstance(answer, UpstreamError)
    assert (str(answer), answer.wire_code) == ("no", pb.UnknownError)


def test_a_request_without_an_answer_times_out_and_a_late_answer_is_dropped() -> None:
    """After 30 s the asker gets `UpstreamUnavailable`; what comes then is told to nobody."""
    bench = ConnectionBench().ready()
    request_id = bench.ask()
    for _ in range(31):
        bench.clock.advance(1.0)
        bench.transport.deliver(frame(type=T.PONG, pong=pb.CommandPong()))
    ((_, answer),) = bench.diary
    assert isinstance(answer, UpstreamUnavailable)
    assert "did not answer within 30 s" in str(answer)
    bench.transport.deliver(success(request_id))
    assert len(bench.diary) == 1


def test_requests_that_are_due_together_are_told_in_their_order_and_each_once() -> None:
    """Also if the first of those that are told ends the connection, which tells the others."""
    requests, told = Requests(timeout_s=30), list[str]()
    transport = ConnectionBench().ready().transport

    def first(_answer: object) -> None:
        told.append("first")
        for answered in requests.take_all():
            answered(UpstreamUnavailable("the connection has ended"))

    for answered in (first, lambda _: told.append("second")):
        assert requests.send(transport, 1 << 20, lambda _: b"asks", 0.0, answered) is None
    requests.expire(29.9, "the broker")
    assert told == []
    requests.expire(30.0, "the broker")
    assert told == ["first", "second"]
