"""What a worker of a Key_Shared subscription does."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pulsar
from pulsar.schema import JsonSchema, Record, String, StringSchema

from integration.compatibility.python_probe.scene import (
    PATIENCE_S,
    ROUNDS,
    MissingError,
    Scene,
    content,
    deal,
    expect,
    receive,
    receive_numbers,
    send_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH: Final = 7
"""Messages of a batch: with twenty keys in turn, no two batches begin with the same keys."""
CHUNKED_BYTES: Final = 300_000
"""More than the broker of a run takes in one piece."""
CHUNKED_KEYS: Final = 8
ACK_TIMEOUT_MS: Final = 10_000
"""The least that this client allows."""
DELAY_S: Final = 4
EARLY_S: Final = 2
"""The broker looks at delayed messages once a second, and gives out what is due until the next look."""
HALVES: Final = {"a": (0, 32_767), "b": (32_768, 65_535)}
BATCHES: Final[dict[str, Any]] = {
    "batching_enabled": True,
    "batching_max_messages": BATCH,
    "batching_max_publish_delay_ms": 1_000,
}
CODECS: Final = {
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


class Numbered(Record):  # type: ignore[misc] # the client is not typed
    """What is sent with a schema."""

    number = String()


def mixed_batches(scene: Scene) -> str:
    """Several keys in each batch."""
    return deal(scene, producing=BATCHES)


def key_batches(scene: Scene) -> str:
    """One key in each batch."""
    return deal(scene, producing={**BATCHES, "batching_type": pulsar.BatchingType.KeyBased})


def compressed(name: str) -> Callable[[Scene], str]:
    """Compressed by this codec, one message at a time."""
    return lambda scene: deal(scene, producing={"compression_type": CODECS[name]}, size_bytes=200)


def chunks(scene: Scene) -> str:
    """Messages that the client has to cut up."""
    return deal(scene, producing={"chunking_enabled": True}, size_bytes=CHUNKED_BYTES, keys=CHUNKED_KEYS)


def topics(scene: Scene) -> str:
    """One consumer of two topics."""
    names = [f"{scene.topic}-{number}" for number in (1, 2)]
    return deal(scene, topics=names, subscribed=names)


def pattern(scene: Scene) -> str:
    """One consumer of all topics that match; they are there before it comes."""
    names = [f"{scene.topic}-{number}" for number in (1, 2)]
    for name in names:
        scene.producer(name).close()
    return deal(scene, topics=names, subscribed=re.compile(re.escape(scene.topic) + "-.*"))


def sticky(scene: Scene) -> str:
    """Each worker names its half of the hash slots."""
    each = {
        name: {"key_shared_policy": pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[half])}
        for name, half in HALVES.items()
    }
    return deal(scene, each=each)


def out_of_order(scene: Scene) -> str:
    """Workers that allow any order; while no worker joins or leaves there is one all the same."""
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, allow_out_of_order_delivery=True)
    return deal(scene, consuming={"key_shared_policy": policy})


def negative_ack(scene: Scene) -> str:
    """What is given back comes again, counted."""
    consumer = scene.subscribe(negative_ack_redelivery_delay_ms=100)
    send_numbers(scene.producer(), 0, 1)
    consumer.negative_acknowledge(receive(consumer))
    return _again(consumer)


def ack_timeout(scene: Scene) -> str:
    """What is not acknowledged in time comes again."""
    consumer = scene.subscribe(unacked_messages_timeout_ms=ACK_TIMEOUT_MS)
    send_numbers(scene.producer(), 0, 1)
    receive(consumer)
    return _again(consumer)


def _again(consumer: pulsar.Consumer) -> str:
    message = receive(consumer)
    expect(message.redelivery_count() > 0, f"its redelivery count is {message.redelivery_count()}")
    consumer.acknowledge(message)
    return "came again"


def dead_letter(scene: Scene) -> str:
    """What is given back too often ends in another topic."""
    dead = f"{scene.topic}-dead"
    graves = scene.subscribe(pulsar.ConsumerType.Shared, dead)
    policy = pulsar.ConsumerDeadLetterPolicy(1, dead)
    consumer = scene.subscribe(negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy)
    send_numbers(scene.producer(), 0, 1)
    for _ in range(2):
        consumer.negative_acknowledge(receive(consumer))
    # This client looks at what it got when it is asked for more.
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(pulsar.Timeout):
            consumer.negative_acknowledge(consumer.receive(timeout_millis=200))
        with suppress(pulsar.Timeout):
            return f"{content(graves.receive(timeout_millis=200))} is dead"
    raise pulsar.Timeout("nothing came to the dead letter topic")


def retry_letter(scene: Scene) -> str:
    """Not in this client."""
    _ = scene
    raise MissingError("no reconsume later")


def delayed(scene: Scene) -> str:
    """A message that may come later does; others follow until it has come.

    A broker, with the gateway or without, may leave it lying until something new is sent (apache/pulsar issue 21554).
    """
    consumer = scene.subscribe()
    producer = scene.producer()
    sent = time.monotonic()
    producer.send(b"late", partition_key="a", deliver_after=timedelta(seconds=DELAY_S))
    came = ""
    while came != "late":
        expect(time.monotonic() - sent < PATIENCE_S, "it never came")
        producer.send(b"now", partition_key="b")
        came = content(receive_numbers(consumer, 1)[0])
    expect(time.monotonic() - sent > DELAY_S - EARLY_S, "it came at once")
    return "came later"


def cumulative_ack(scene: Scene) -> str:
    """One acknowledgement for all before."""
    consumer = scene.subscribe()
    send_numbers(scene.producer(), 0, 3)
    consumer.acknowledge_cumulative(receive_numbers(consumer, 3, acknowledge=False)[1])
    consumer.close()
    expect(content(receive(scene.subscribe())) == "2", "the first two came again")
    return "acknowledged"


def transactional_ack(scene: Scene) -> str:
    """Not in this client."""
    _ = scene
    raise MissingError("no transactions")


def seek_id(scene: Scene) -> str:
    """To a message, and to the beginning; nothing is acknowledged before, so that only the seek can bring it back."""
    consumer = scene.subscribe()
    send_numbers(scene.producer(), 0, 10)
    messages = sorted(receive_numbers(consumer, 10, acknowledge=False), key=lambda message: int(content(message)))
    consumer.seek(messages[4].message_id())
    rest = {content(message) for message in receive_numbers(consumer, 5, acknowledge=False)}
    expect(rest == {str(number) for number in range(5, 10)}, f"{sorted(rest)} came")
    consumer.seek(pulsar.MessageId.earliest)
    expect(len(receive_numbers(consumer, 10)) == 10, "something is missing")  # noqa: PLR2004 - what was sent
    return "went back"


def seek_time(scene: Scene) -> str:
    """To a moment between two messages."""
    consumer, producer = scene.subscribe(), scene.producer()
    send_numbers(producer, 0, 5)
    last_ms = max(message.publish_timestamp() for message in receive_numbers(consumer, 5, acknowledge=False))
    while (between_ms := int(time.time() * 1e3)) <= last_ms:
        time.sleep(0.001)
    send_numbers(producer, 5, 5)
    receive_numbers(consumer, 5, acknowledge=False)
    consumer.seek(between_ms)
    came = {content(message) for message in receive_numbers(consumer, 5)}
    expect(came == {str(number) for number in range(5, 10)}, f"{sorted(came)} came")
    return "went back"


def unsubscribe(scene: Scene) -> str:
    """A subscription of that name begins anew."""
    consumer = scene.subscribe()
    send_numbers(scene.producer(), 0, 3)
    receive_numbers(consumer, 3)
    consumer.unsubscribe()
    expect(len(receive_numbers(scene.subscribe(), 3)) == ROUNDS, "something is missing")
    return "began anew"


def last_message_id(scene: Scene) -> str:
    """The id of what was sent last."""
    consumer, producer = scene.subscribe(), scene.producer()
    producer.send(b"0", partition_key="a")
    sent = producer.send(b"1", partition_key="a")
    found = consumer.get_last_message_id()
    expect((found.ledger_id(), found.entry_id()) == (sent.ledger_id(), sent.entry_id()), f"{found} is not {sent}")
    return "is the broker's"


def schema_string(scene: Scene) -> str:
    """Strings."""
    schema = {"schema": StringSchema()}
    return deal(scene, producing=schema, consuming=schema, encode=str, decode=lambda message: str(message.value()))


def schema_json(scene: Scene) -> str:
    """Records."""
    schema = {"schema": JsonSchema(Numbered)}
    return deal(
        scene,
        producing=schema,
        consuming=schema,
        encode=lambda text: Numbered(number=text),
        decode=lambda message: str(message.value().number),
    )


def schema_avro(scene: Scene) -> str:
    """Not tried: it takes a package that nothing else here needs."""
    _ = scene
    raise MissingError("needs fastavro, which is not installed")


def encryption(scene: Scene) -> str:
    """Only workers that have the key can read it."""
    reader = pulsar.CryptoKeyReader(str(scene.place.keys / "public.pem"), str(scene.place.keys / "private.pem"))
    return deal(
        scene,
        producing={"encryption_key": "app", "crypto_key_reader": reader},
        consuming={"crypto_key_reader": reader},
    )


def non_persistent(scene: Scene) -> str:
    """Nothing is kept of it."""
    scene.topic = scene.topic.replace("persistent://", "non-persistent://", 1)
    return deal(scene)


KEY_SHARED: Final[dict[str, Callable[[Scene], str]]] = {
    "key_shared": deal,
    "mixed_batches": mixed_batches,
    "key_batches": key_batches,
    **{name: compressed(name) for name in CODECS},
    "chunks": chunks,
    "partitioned": deal,
    "topics": topics,
    "pattern": pattern,
    "sticky": sticky,
    "out_of_order": out_of_order,
    "negative_ack": negative_ack,
    "ack_timeout": ack_timeout,
    "dead_letter": dead_letter,
    "retry_letter": retry_letter,
    "delayed": delayed,
    "seek_id": seek_id,
    "seek_time": seek_time,
    "unsubscribe": unsubscribe,
    "last_message_id": last_message_id,
    "schema_string": schema_string,
    "schema_json": schema_json,
    "schema_avro": schema_avro,
    "encryption": encryption,
    "cumulative_ack": cumulative_ack,
    "transactional_ack": transactional_ack,
    "non_persistent": non_persistent,
}
