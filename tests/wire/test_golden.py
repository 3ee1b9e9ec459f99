"""What official clients really sent, read by us."""

import pytest

from proxy.wire import batch
from proxy.wire.batch import uniform
from proxy.wire.codecs import decompress
from proxy.wire.frames import encode_command, frame_type, parse_command, payload_start
from proxy.wire.metadata import peek, sticky_key, verify_checksum
from proxy.wire.pulsar_pb2 import (
    AUTO_SPLIT,
    STICKY,
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    CompressionType,
    MessageMetadata,
    Schema,
    SingleMessageMetadata,
    WaitForExclusive,
)
from tests.wire.batches import Single, index_batch, repack, single_key
from tests.wire.builders import GOLDEN, golden, tail_of
from tests.wire.capture import CLIENTS, CODECS, MESSAGES, batchings_of, lines_of

LIMIT = 1 << 20
RECORDINGS = sorted(path.stem for path in GOLDEN.iterdir())

BATCHES = [(client, codec) for client in CLIENTS for codec in CODECS]

KEYS = [b"alice", b"bob", b"alice", b"bob", b"bob", b"shop-5", b"carol"]
"""The sticky key of each of capture.MESSAGES: the fourth has an ordering key, the sixth has none at all."""


def opened(frame: bytes) -> tuple[MessageMetadata, bytes]:
    """A SEND frame's metadata and uncompressed payload."""
    tail = tail_of(frame)
    assert verify_checksum(tail)
    metadata, _, start = peek(tail)
    return metadata, decompress(metadata.compression, memoryview(tail)[start:], metadata.uncompressed_size, LIMIT)


def values(codec: str) -> list[bytes]:
    """The values of capture.MESSAGES as they were sent with this codec."""
    return [line * lines_of(codec) for line, _ in MESSAGES]


def content(payload: bytes, single: Single) -> bytes:
    """A single message's value."""
    metadata_end = single.start + 4 + int.from_bytes(payload[single.start : single.start + 4])
    metadata = SingleMessageMetadata.FromString(payload[single.start + 4 : metadata_end])
    assert single.end == metadata_end + metadata.payload_size
    return payload[metadata_end : single.end]


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_official_clients_commands_are_declared_in_full(name: str) -> None:
    """No field of a frame is unknown to us, and it comes back byte for byte where it was written in numbers' order."""
    for frame in golden(name):
        command = parse_command(frame)
        assert frame_type(frame) == command.type
        encoded = frame[8 : payload_start(frame)]
        written = encode_command(command)[8:]
        # Java's client writes fields as they are declared, which differs from their numbers in CONNECT alone.
        assert written == encoded or (name.startswith("java") and sorted(written) == sorted(encoded))
        with_unknown = command.ByteSize()
        command.DiscardUnknownFields()
        assert command.ByteSize() == with_unknown


@pytest.mark.parametrize(("client", "codec"), BATCHES)
def test_a_batch_in_every_codec_holds_what_was_sent(client: str, codec: str) -> None:
    """The values, keys and sequence ids of a default batch are those the producer was given."""
    (frame,) = golden(f"{client}-send-{codec}-default")
    metadata, payload = opened(frame)
    assert metadata.compression == CompressionType.Value(codec.upper())
    assert parse_command(frame).send.num_messages == metadata.num_messages_in_batch == len(MESSAGES)
    singles = index_batch(payload, metadata.num_messages_in_batch)
    assert [content(payload, single) for single in singles] == values(codec)
    assert [single_key(single, metadata) for single in singles] == KEYS
    assert [single.sequence_id for single in singles] == list(range(len(MESSAGES)))
    assert not uniform(payload, len(singles))
    assert sticky_key(metadata) == KEYS[0]


@pytest.mark.parametrize("client", CLIENTS)
def test_batches_by_key_hold_one_key_each(client: str) -> None:
    """Every batch of a key-based producer is uniform, and holds the messages of that key in the order sent.

    Java's producer sends a group of one message without a batch around it. Go's leaves the ordering key out of the
    entry's metadata, so that the broker, and whoever trusts the outer key, takes the partition key for the key.
    """
    found: dict[bytes, list[bytes]] = {}
    for frame in golden(f"{client}-send-none-keybased"):
        metadata, payload = opened(frame)
        if not metadata.HasField("num_messages_in_batch"):
            found.setdefault(sticky_key(metadata), []).append(payload)
            continue
        count = metadata.num_messages_in_batch
        assert uniform(payload, count)
        singles = index_batch(payload, count)
        same_outside = not singles[0].has_key or single_key(singles[0], metadata) == sticky_key(metadata)
        assert uniform(payload, count, sticky_key(metadata)) == same_outside
        assert same_outside or (client == "go" and singles[0].ordering_key == b"bob")
        for single in singles:
            found.setdefault(single_key(single, metadata), []).append(content(payload, single))
    for key in KEYS:
        sent = [value for value, own in zip(values("none"), KEYS, strict=True) if own == key]
        assert sorted(found[key]) == sorted(sent)


@pytest.mark.parametrize("client", CLIENTS)
def test_unbatched_messages_hold_what_was_sent(client: str) -> None:
    """A message of its own is no batch, has its key outside, and its value behind it, the empty one too."""
    frames = golden(f"{client}-send-none-single")
    for frame, value, key in zip(frames, values("none"), KEYS, strict=True):
        metadata, payload = opened(frame)
        assert not metadata.HasField("num_messages_in_batch")
        assert payload == value
        assert sticky_key(metadata) == key


@pytest.mark.parametrize(("client", "codec"), BATCHES)
def test_each_choice_of_messages_reads_back_as_exactly_those(client: str, codec: str) -> None:
    """All 127 choices from an official client's batch give a batch of exactly the chosen messages."""
    (frame,) = golden(f"{client}-send-{codec}-default")
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


@pytest.mark.parametrize("client", CLIENTS)
def test_one_key_is_seen_in_each_clients_layout_without_protobuf(client: str) -> None:
    """Messages without properties and event time are recognized by bytes: the quick way serves every client."""
    (frame,) = golden(f"{client}-send-none-default")
    metadata, payload = opened(frame)
    plain = [
        index for index, (_, fields) in enumerate(MESSAGES) if not fields.keys() & {"properties", "event_timestamp"}
    ]
    for single in (index_batch(payload, metadata.num_messages_in_batch)[index] for index in plain):
        three = payload[single.start : single.end] * 3
        assert batch._alike(three, 3, batch.single_at(three, 0)[0])


def test_a_producers_wishes_are_read() -> None:
    """Token, name, schema, properties and access mode of a waiting producer arrive as it was configured."""
    by_type = {frame_type(frame): parse_command(frame) for frame in golden("python-producer")}
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
    commands = [parse_command(frame) for frame in golden("python-consumer")]
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
    (subscribe,) = [parse_command(frame).subscribe for frame in golden("python-reader") if frame_type(frame) == 4]
    assert not subscribe.durable
    assert subscribe.start_message_id.ledgerId == subscribe.start_message_id.entryId == (1 << 64) - 1


def test_every_clients_worker_grants_permits_and_acknowledges() -> None:
    """Java's and Go's clients subscribe, grant permits, and acknowledge whole entries, alone or several at once."""
    for client in ("java", "go"):
        commands = [parse_command(frame) for frame in golden(f"{client}-consumer")]
        subscribes = [command.subscribe for command in commands if command.type == BaseCommand.SUBSCRIBE]
        assert [subscribe.subType for subscribe in subscribes] == [CommandSubscribe.Key_Shared]
        assert [command.flow.messagePermits for command in commands if command.type == BaseCommand.FLOW] == [100]
        acks = [command.ack for command in commands if command.type == BaseCommand.ACK]
        ids = [message_id for ack in acks for message_id in ack.message_id]
        assert [(message_id.entryId, list(message_id.ack_set)) for message_id in ids] == [(0, []), (1, [])]
        assert commands[-1].type == BaseCommand.CLOSE_CONSUMER


def test_request_ids_repeat_between_lookups_and_requests() -> None:
    """The C++ client numbers lookups and other requests apart, so one connection carries an id twice."""
    commands = [parse_command(frame) for frame in golden("python-producer")]
    lookups = [command.partitionMetadata.request_id for command in commands if command.HasField("partitionMetadata")]
    closes = [command.close_producer.request_id for command in commands if command.HasField("close_producer")]
    assert lookups == closes == [1]


def test_everything_was_recorded() -> None:
    """No recording is missing, and none is there that no test asks for."""
    sends = {
        f"{client}-send-{codec}-{batching}"
        for client in CLIENTS
        for codec in CODECS
        for batching in batchings_of(codec)
    }
    consumers = {f"{client}-consumer" for client in CLIENTS}
    assert set(RECORDINGS) == sends | consumers | {"python-producer", "python-reader", "broker-messages"}
