"""The gateway's own commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import commands
from proxy.wire.frames import encode_command, frame_type, parse_command
from proxy.wire.pulsar_pb2 import BaseCommand, CommandAck, FeatureFlags, NotAllowedError, PersistenceError

FLAGS = FeatureFlags(supports_auth_refresh=True)

WRITTEN: list[tuple[bytes, str, dict[str, object]]] = [
    (commands.ping(), "ping", {}),
    (commands.pong(), "pong", {}),
    (
        commands.connected("keyline", 21, 5 << 20, FLAGS),
        "connected",
        {"server_version": "keyline", "protocol_version": 21, "max_message_size": 5 << 20, "feature_flags": FLAGS},
    ),
    (commands.connected("k", 19, None, None), "connected", {"server_version": "k", "protocol_version": 19}),
    (commands.success(0), "success", {"request_id": 0}),
    (commands.error(4, NotAllowedError, "no"), "error", {"request_id": 4, "error": NotAllowedError, "message": "no"}),
    (commands.flow(3, 1000), "flow", {"consumer_id": 3, "messagePermits": 1000}),
    (commands.ack_response(3, CommandAck(request_id=0)), "ackResponse", {"consumer_id": 3, "request_id": 0}),
    (
        commands.ack_response(3, CommandAck(request_id=9), PersistenceError, "disk"),
        "ackResponse",
        {"consumer_id": 3, "request_id": 9, "error": PersistenceError, "message": "disk"},
    ),
    (
        commands.ack_response(3, CommandAck(request_id=9, txnid_most_bits=0, txnid_least_bits=7)),
        "ackResponse",
        {"consumer_id": 3, "request_id": 9, "txnid_most_bits": 0, "txnid_least_bits": 7},
    ),
    (commands.reached_end_of_topic(3), "reachedEndOfTopic", {"consumer_id": 3}),
    (commands.unsubscribe(3, 5), "unsubscribe", {"consumer_id": 3, "request_id": 5}),
    (commands.close_consumer(3, 5), "close_consumer", {"consumer_id": 3, "request_id": 5}),
    (commands.close_producer(3, 5), "close_producer", {"producer_id": 3, "request_id": 5}),
]


@pytest.mark.parametrize(("frame", "body", "fields"), WRITTEN)
def test_a_command_has_its_type_and_the_fields_given_and_no_others(
    frame: bytes, body: str, fields: dict[str, object]
) -> None:
    """Each function writes one command of the right type, with what it was told, zero included, and nothing else."""
    command = parse_command(frame)
    assert frame_type(frame) == BaseCommand.DESCRIPTOR.fields_by_name[body].number
    assert {field.name: value for field, value in getattr(command, body).ListFields()} == fields
    assert [field.name for field, _ in command.ListFields()] == ["type", body]


ENTRY_IDS = st.one_of(
    st.integers(0, 2**63 - 1), st.sampled_from([(1 << 7 * size) + step for size in range(1, 9) for step in (-1, 0)])
)


@given(
    consumer_id=st.integers(0, 2**63 - 1),
    ids=st.lists(st.tuples(st.sampled_from([0, 7, 128, 1 << 21, 2**63 - 1]), ENTRY_IDS), max_size=300),
    request_id=st.none() | st.integers(0, 2**63 - 1),
)
def test_an_acknowledgement_is_written_as_protobuf_writes_it(
    consumer_id: int, ids: list[tuple[int, int]], request_id: int | None
) -> None:
    """Byte for byte, whatever the sizes of its numbers, and of one entry, none, or more than a length byte counts."""
    body = CommandAck(consumer_id=consumer_id, ack_type=CommandAck.Individual, request_id=request_id)
    for ledger, entry in ids:
        body.message_id.add(ledgerId=ledger, entryId=entry)
    assert commands.ack(consumer_id, ids, request_id) == encode_command(BaseCommand(type=BaseCommand.ACK, ack=body))


@pytest.mark.parametrize("request_id", [None, 0, 12])
def test_an_acknowledgement_names_each_entry(request_id: int | None) -> None:
    """Entries are acknowledged one by one, in order, and an answer is asked for only with a request id."""
    ids = [(1, 0), (1, 1), (1 << 40, 70_000)]
    ack = parse_command(commands.ack(3, iter(ids), request_id)).ack
    assert ack.consumer_id == 3
    assert ack.ack_type == CommandAck.Individual
    assert [(message_id.ledgerId, message_id.entryId) for message_id in ack.message_id] == ids
    assert (ack.request_id if ack.HasField("request_id") else None) == request_id


def test_a_redelivery_names_each_entry() -> None:
    """Entries are asked for again one by one, in order."""
    ids = [(1, 0), (2, 1)]
    body = parse_command(commands.redeliver(3, ids)).redeliverUnacknowledgedMessages
    assert body.consumer_id == 3
    assert [(message_id.ledgerId, message_id.entryId) for message_id in body.message_ids] == ids
