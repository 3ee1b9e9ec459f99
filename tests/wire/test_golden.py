"""What official clients really sent, read by us."""

import pytest

from proxy.wire.batch import Single, index_batch, repack, single_key, uniform
from proxy.wire.codecs import decompress
from proxy.wire.frames import encode_command, frame_type, parse_command
from proxy.wire.metadata import peek, sticky_key, verify_checksum
from proxy.wire.pulsar_pb2 import (
    AUTO_SPLIT,
    STICKY,
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    MessageMetadata,
    Schema,
    SingleMessageMetadata,
    WaitForExclusive,
)
from tests.wire.builders import GOLDEN, golden, tail_of
from tests.wire.capture import BATCHINGS, CODECS, MESSAGES

LIMIT = 1 << 20
RECORDINGS = sorted(path.stem for path in GOLDEN.iterdir())

KEYS = [b"alice", b"bob", b"alice", b"bob", b"bob", b"shop-5", b"carol"]
"""The sticky key of each of capture.MESSAGES: the fourth has an ordering key, the sixth has none at all."""


def opened(frame: bytes) -> tuple[MessageMetadata, bytes]:
    """A SEND frame's metadata and uncompressed payload."""
    tail = tail_of(frame)
    assert verify_checksum(tail)
    metadata, _, start = peek(tail)
    return metadata, decompress(metadata.compression, memoryview(tail)[start:], metadata.uncompressed_size, LIMIT)


def content(payload: bytes, single: Single) -> bytes:
    """A single message's value."""
    metadata_end = single.start + 4 + int.from_bytes(payload[single.start : single.start + 4])
    metadata = SingleMessageMetadata.FromString(payload[single.start + 4 : metadata_end])
    assert single.end == metadata_end + metadata.payload_size
    return payload[metadata_end : single.end]


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_official_clients_commands_are_declared_in_full(name: str) -> None:
    """Every frame of an official client comes back byte for byte, and no field of it is unknown to us."""
    for frame in golden(name):
        command = parse_command(frame)
        assert frame_type(frame) == command.type
        assert encode_command(command)[8:] == frame[8 : len(frame) - len(tail_of(frame))]
        with_unknown = command.ByteSize()
        command.DiscardUnknownFields()
        assert command.ByteSize() == with_unknown


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_in_every_codec_holds_what_was_sent(codec: str) -> None:
    """The values, keys and sequence ids of a default batch are those the producer was given."""
    (frame,) = golden(f"send-{codec}-default")
    metadata, payload = opened(frame)
    assert parse_command(frame).send.num_messages == metadata.num_messages_in_batch == len(MESSAGES)
    singles = index_batch(payload, metadata.num_messages_in_batch)
    assert [content(payload, single) for single in singles] == [value for value, _ in MESSAGES]
    assert [single_key(single, metadata) for single in singles] == KEYS
    assert [single.sequence_id for single in singles] == list(range(len(MESSAGES)))
    assert not uniform(payload, len(singles))
    assert sticky_key(metadata) == KEYS[0]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_by_key_hold_one_key_each(codec: str) -> None:
    """Every batch of a key-based producer is uniform, and its outer key is that of its messages, in the order sent."""
    found: dict[bytes, list[bytes]] = {}
    for frame in golden(f"send-{codec}-keybased"):
        metadata, payload = opened(frame)
        count = metadata.num_messages_in_batch
        assert uniform(payload, count)
        singles = index_batch(payload, count)
        assert {single_key(single, metadata) for single in singles} == {sticky_key(metadata)}
        found[sticky_key(metadata)] = [content(payload, single) for single in singles]
    for key in KEYS:
        assert found[key] == [value for (value, _), own in zip(MESSAGES, KEYS, strict=True) if own == key]


@pytest.mark.parametrize("codec", CODECS)
def test_unbatched_messages_hold_what_was_sent(codec: str) -> None:
    """A message of its own is no batch, has its key outside, and decompresses to its value, the empty one too."""
    frames = golden(f"send-{codec}-single")
    for frame, (value, _), key in zip(frames, MESSAGES, KEYS, strict=True):
        metadata, payload = opened(frame)
        assert not metadata.HasField("num_messages_in_batch")
        assert payload == value
        assert sticky_key(metadata) == key


@pytest.mark.parametrize("codec", CODECS)
def test_each_choice_of_messages_reads_back_as_exactly_those(codec: str) -> None:
    """All 127 choices from an official client's batch give a batch of exactly the chosen messages."""
    (frame,) = golden(f"send-{codec}-default")
    metadata, payload = opened(frame)
    singles = index_batch(payload, metadata.num_messages_in_batch)
    for mask in range(1, 1 << len(singles)):
        chosen = [single for index, single in enumerate(singles) if mask >> index & 1]
        tail = repack(metadata, payload, chosen)
        assert verify_checksum(tail)
        smaller, _, start = peek(tail)
        again = index_batch(tail[start:], smaller.num_messages_in_batch)
        assert [content(tail[start:], single) for single in again] == [content(payload, single) for single in chosen]
        assert sticky_key(smaller) == single_key(chosen[0], metadata) or not chosen[0].has_key
        assert smaller.uncompressed_size == len(tail) - start


def test_a_producers_wishes_are_read() -> None:
    """Token, name, schema, properties and access mode of a waiting producer arrive as it was configured."""
    by_type = {frame_type(frame): parse_command(frame) for frame in golden("producer")}
    connect = by_type[BaseCommand.CONNECT].connect
    assert (connect.auth_method_name, connect.auth_data) == ("token", b"a-token")
    assert connect.feature_flags.supports_broker_entry_metadata
    producer = by_type[BaseCommand.PRODUCER].producer
    assert producer.producer_name == "waiting"
    assert producer.producer_access_mode == WaitForExclusive
    assert producer.schema.type == Schema.String
    assert {pair.key: pair.value for pair in producer.metadata} == {"keyline.queue-priority": "7"}
    assert not producer.HasField("queue_priority")


def test_a_workers_commands_are_read() -> None:
    """Ranges, permits, an index and a whole acknowledgement, both redeliveries and the farewell arrive as meant."""
    commands = [parse_command(frame) for frame in golden("consumer")]
    (subscribe,) = [command.subscribe for command in commands if command.type == BaseCommand.SUBSCRIBE]
    assert subscribe.subType == CommandSubscribe.Key_Shared
    assert subscribe.keySharedMeta.keySharedMode == STICKY != AUTO_SPLIT
    assert [(part.start, part.end) for part in subscribe.keySharedMeta.hashRanges] == [(0, 99), (200, 65_535)]
    assert [command.flow.messagePermits for command in commands if command.type == BaseCommand.FLOW] == [100]
    acks = [command.ack for command in commands if command.type == BaseCommand.ACK]
    assert {ack.ack_type for ack in acks} == {CommandAck.Individual}
    ids = [message_id for ack in acks for message_id in ack.message_id]
    assert [(message_id.entryId, list(message_id.ack_set)) for message_id in ids] == [(0, [0b101]), (1, [])]
    again = [
        command.redeliverUnacknowledgedMessages
        for command in commands
        if command.type == BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES
    ]
    assert [[message_id.entryId for message_id in body.message_ids] for body in again] == [[2], []]
    assert commands[-1].type == BaseCommand.UNSUBSCRIBE


def test_a_reader_starts_where_minus_one_means_the_beginning() -> None:
    """A signed -1 in an unsigned field arrives as the largest number, not as an error."""
    (subscribe,) = [parse_command(frame).subscribe for frame in golden("reader") if frame_type(frame) == 4]
    assert not subscribe.durable
    assert subscribe.start_message_id.ledgerId == subscribe.start_message_id.entryId == (1 << 64) - 1


def test_request_ids_repeat_between_lookups_and_requests() -> None:
    """The C++ client numbers lookups and other requests apart, so one connection carries an id twice."""
    commands = [parse_command(frame) for frame in golden("producer")]
    lookups = [command.partitionMetadata.request_id for command in commands if command.HasField("partitionMetadata")]
    closes = [command.close_producer.request_id for command in commands if command.HasField("close_producer")]
    assert lookups == closes == [1]


def test_every_batching_and_codec_was_recorded() -> None:
    """No recording is missing, and none is there that no test asks for."""
    sends = {f"send-{codec}-{batching}" for codec in CODECS for batching in BATCHINGS}
    assert set(RECORDINGS) == sends | {"producer", "consumer", "reader"}
