"""Records what official clients send into tests/wire/golden.

    python -m tests.wire.capture python
    python -m tests.wire.capture java java -cp "$JARS" tests/wire/clients/Capture.java
    python -m tests.wire.capture go path/to/the/program/built/from/clients/capture.go

Each file holds whole frames, one behind the other, as they came from the socket. They are the ground our reading of the
protocol stands on: no test of it compares our encoder with our decoder alone. Recorded with the Python client 3.13.0
(which wraps the C++ client 4.2.0), the Java client 4.2.4 and the Go client 0.19.0; a new recording with the same
versions differs in times, generated names and ids only.
"""

import subprocess
import sys
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
CLIENTS = ("python", "java", "go")
CLIENT_S = 120.0

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
    (b"order 0, ", {"partition_key": "alice"}),
    (b"order 1, ", {"partition_key": "bob"}),
    (b"order 2, ", {"partition_key": "alice", "properties": {"trace": "t-2"}}),
    (b"order 3, ", {"partition_key": "carol", "ordering_key": "bob"}),
    (b"order 4, ", {"partition_key": "bob", "event_timestamp": 1_700_000_000_000}),
    (b"order 5, ", {}),
    (b"", {"partition_key": "carol"}),
)


def lines_of(codec: str) -> int:
    """How often a message repeats its line: Java's client compresses nothing below 4 KiB."""
    return 20 if codec == "none" else 600


def batchings_of(codec: str) -> list[str]:
    """The ways of batching recorded with a codec: all without one, since they do not depend on each other."""
    return list(BATCHINGS) if codec == "none" else ["default"]


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
        for batching in batchings_of(codec):
            with TinyBroker() as broker:
                session = client(broker)
                producer = session.create_producer(
                    TOPIC,
                    "shop",
                    compression_type=compression,
                    batching_max_publish_delay_ms=60_000,
                    **BATCHINGS[batching],
                )
                for line, fields in MESSAGES:
                    producer.send_async(line * lines_of(codec), lambda *_: None, **fields)
                producer.flush()
                session.close()
                write(f"python-send-{codec}-{batching}", broker.sent(BaseCommand.SEND))


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
        write("python-producer", broker.frames)


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
        write("python-consumer", broker.frames)


def record_reader() -> None:
    """Everything a reader sends."""
    with TinyBroker([batch_tail([b"0", b"1"])]) as broker:
        session = client(broker)
        reader = session.create_reader(TOPIC, pulsar.MessageId.earliest, reader_name="look")
        reader.read_next()
        reader.close()
        session.close()
        write("python-reader", broker.frames)


def record_other(name: str, program: list[str]) -> None:
    """SEND frames of another client, as `record_sends`, and all a Key_Shared consumer of it sends."""
    for codec in CODECS:
        for batching in batchings_of(codec):
            with TinyBroker() as broker:
                run(broker, program, "produce", codec, batching, str(lines_of(codec)))
                write(f"{name}-send-{codec}-{batching}", broker.sent(BaseCommand.SEND))
    with TinyBroker([batch_tail([b"0", b"1", b"2"]), batch_tail([b"3"], b"bob")]) as broker:
        run(broker, program, "consume", "4")
        write(f"{name}-consumer", broker.frames)


def run(broker: TinyBroker, program: list[str], *arguments: str) -> None:
    """Run a client's program to its end. Raises where it fails."""
    subprocess.run([*program, broker.url, TOPIC, *arguments], check=True, timeout=CLIENT_S)


def write(name: str, frames: Iterable[bytes]) -> None:
    """Save one recording."""
    (GOLDEN / f"{name}.bin").write_bytes(b"".join(frames))


if __name__ == "__main__":
    if sys.argv[1] == "python":
        record_sends()
        record_producer()
        record_consumer()
        record_reader()
    else:
        record_other(sys.argv[1], sys.argv[2:])
