"""Records what the official Python client sends into tests/wire/golden: `python -m tests.wire.capture` at the root.

Each file holds whole frames, one behind the other, as they came from the socket. They are the ground our reading of the
protocol stands on: no test of it compares our encoder with our decoder alone. Recorded with pulsar-client 3.13.0, which
wraps Pulsar's C++ client 4.2.0; a new recording with the same version differs in times and the reader's name only.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pulsar

from proxy.wire.frames import frame_type
from proxy.wire.metadata import build_tail
from proxy.wire.pulsar_pb2 import BaseCommand, MessageMetadata, SingleMessageMetadata
from tests.wire.tiny_broker import TinyBroker

GOLDEN = Path(__file__).parent / "golden"
TOPIC = "persistent://public/default/orders"

CODECS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
BATCHINGS: dict[str, dict[str, Any]] = {
    "default": {"batching_enabled": True, "batching_type": pulsar.BatchingType.Default},
    "keybased": {"batching_enabled": True, "batching_type": pulsar.BatchingType.KeyBased},
    "single": {"batching_enabled": False},
}

# One of each kind: plain, with properties, an ordering key, an event time, without a key, without a value.
MESSAGES: tuple[tuple[bytes, dict[str, Any]], ...] = (
    (b"order 0, " * 20, {"partition_key": "alice"}),
    (b"order 1, " * 20, {"partition_key": "bob"}),
    (b"order 2, " * 20, {"partition_key": "alice", "properties": {"trace": "t-2", "origin": "test"}}),
    (b"order 3, " * 20, {"partition_key": "carol", "ordering_key": "bob"}),
    (b"order 4, " * 20, {"partition_key": "bob", "event_timestamp": 1_700_000_000_000}),
    (b"order 5, " * 20, {}),
    (b"", {"partition_key": "carol"}),
)


def client(broker: TinyBroker, **options: Any) -> pulsar.Client:
    """An official client that says nothing but warnings."""
    return pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn), **options)


def batch_tail(payloads: Iterable[bytes], key: bytes = b"alice") -> bytes:
    """The tail of an uncompressed batch with one key, made by us, for a client to receive."""
    body = b""
    for sequence_id, payload in enumerate(payloads):
        single = SingleMessageMetadata(partition_key=key, payload_size=len(payload), sequence_id=sequence_id)
        encoded = single.SerializeToString()
        body += len(encoded).to_bytes(4) + encoded + payload
    metadata = MessageMetadata(producer_name=b"p", sequence_id=0, publish_time=1, partition_key=key)
    metadata.num_messages_in_batch = sequence_id + 1
    return build_tail(metadata, body)


def record_sends() -> None:
    """SEND frames of every codec in every way of batching."""
    for codec, compression in CODECS.items():
        for batching, options in BATCHINGS.items():
            with TinyBroker() as broker:
                session = client(broker)
                producer = session.create_producer(
                    TOPIC, "shop", compression_type=compression, batching_max_publish_delay_ms=60_000, **options
                )
                for content, fields in MESSAGES:
                    producer.send_async(content, lambda *_: None, **fields)
                producer.flush()
                session.close()
                write(f"send-{codec}-{batching}", broker.sent(BaseCommand.SEND))


def record_producer() -> None:
    """Everything a producer sends that waits to be exclusive, has a schema and authenticates."""
    with TinyBroker() as broker:
        session = client(broker, authentication=pulsar.AuthenticationToken("a-token"))
        producer = session.create_producer(
            TOPIC,
            "waiting",
            schema=pulsar.schema.StringSchema(),
            properties={"keyline.queue-priority": "7"},
            access_mode=pulsar.ProducerAccessMode.WaitForExclusive,
            initial_sequence_id=41,
        )
        producer.send("hello", partition_key="alice")
        producer.close()
        session.close()
        write("producer", broker.frames)


def record_consumer() -> None:
    """Everything a Key_Shared consumer sends that takes, gives back, acknowledges, seeks, unsubscribes."""
    tails = [batch_tail([b"0", b"1", b"2"]), batch_tail([b"3"], b"bob"), batch_tail([b"4", b"5"])]
    with TinyBroker(tails) as broker:
        session = client(broker)
        consumer = session.subscribe(
            TOPIC,
            "audit",
            consumer_type=pulsar.ConsumerType.KeyShared,
            key_shared_policy=pulsar.ConsumerKeySharedPolicy(
                key_shared_mode=pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 99), (200, 65_535)]
            ),
            consumer_name="worker-1",
            receiver_queue_size=100,
            properties={"keyline.batch-index": "exact"},
            negative_ack_redelivery_delay_ms=100,
            initial_position=pulsar.InitialPosition.Earliest,
            batch_index_ack_enabled=True,
        )
        received = [consumer.receive() for _ in range(6)]
        consumer.acknowledge(received[1])
        broker.wait_for(lambda frames: any(frame_type(frame) == BaseCommand.ACK for frame in frames))
        consumer.acknowledge(received[3])
        consumer.negative_acknowledge(received[4])
        redeliver = BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES
        broker.wait_for(lambda frames: any(frame_type(frame) == redeliver for frame in frames))
        consumer.redeliver_unacknowledged_messages()
        consumer.unsubscribe()
        session.close()
        write("consumer", broker.frames)


def record_reader() -> None:
    """Everything a reader sends."""
    with TinyBroker([batch_tail([b"0", b"1"])]) as broker:
        session = client(broker)
        reader = session.create_reader(TOPIC, pulsar.MessageId.earliest, reader_name="look")
        reader.read_next()
        reader.close()
        session.close()
        write("reader", broker.frames)


def write(name: str, frames: Iterable[bytes]) -> None:
    """Save one recording."""
    (GOLDEN / f"{name}.bin").write_bytes(b"".join(frames))


if __name__ == "__main__":
    record_sends()
    record_producer()
    record_consumer()
    record_reader()
    for path in sorted(GOLDEN.iterdir()):
        print(path.name, path.stat().st_size)
