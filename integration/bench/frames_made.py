"""Writes frames as brokers and clients do, for measurements that replace them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.commands import send
from proxy.wire.frames import encode_command, encode_message
from proxy.wire.metadata import build_tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TOPIC = "persistent://public/default/bench"
SUBSCRIPTION = "bench"
LEDGER = 12
PROTOCOL_VERSION = 21
KEY_COUNT = 1_000
PAYLOAD_BYTES = 100
SEED = 20
"""Of the keys that are chosen at random, so that every run has the same."""


def connect() -> bytes:
    """A client's CONNECT."""
    body = pb.CommandConnect(client_version="bench", protocol_version=PROTOCOL_VERSION)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=body))


def connected() -> bytes:
    """A broker's CONNECTED."""
    body = pb.CommandConnected(server_version="bench", protocol_version=PROTOCOL_VERSION, max_message_size=5 << 20)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.CONNECTED, connected=body))


def subscribe(consumer_id: int, name: str, topic: str = TOPIC, subscription: str = SUBSCRIPTION) -> bytes:
    """A Key_Shared SUBSCRIBE at the earliest message; its request id is the consumer's id."""
    body = pb.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=pb.CommandSubscribe.Key_Shared,
        consumer_id=consumer_id,
        request_id=consumer_id,
        consumer_name=name,
        initialPosition=pb.CommandSubscribe.Earliest,
    )
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=body))


def flow(consumer_id: int, permits: int) -> bytes:
    """FLOW."""
    body = pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.FLOW, flow=body))


def ack(consumer_id: int, places: Iterable[pb.MessageIdData]) -> bytes:
    """One ACK of many entries without a receipt, as the Java client groups them."""
    body = pb.CommandAck(consumer_id=consumer_id, ack_type=pb.CommandAck.Individual)
    for place in places:
        body.message_id.add(ledgerId=place.ledgerId, entryId=place.entryId)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=body))


def ack_response(command: pb.CommandAck) -> bytes | None:
    """A broker's answer to an ACK, if one was asked for."""
    if not command.HasField("request_id"):
        return None
    body = pb.CommandAckResponse(consumer_id=command.consumer_id, request_id=command.request_id)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.ACK_RESPONSE, ackResponse=body))


def success(request_id: int) -> bytes:
    """SUCCESS."""
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.SUCCESS, success=pb.CommandSuccess(request_id=request_id)))


def lookup_response(request_id: int, service_url: str) -> bytes:
    """The answer of the broker that serves every topic itself."""
    body = pb.CommandLookupTopicResponse(
        brokerServiceUrl=service_url,
        response=pb.CommandLookupTopicResponse.Connect,
        request_id=request_id,
        authoritative=True,
    )
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=body))


def no_partitions(request_id: int) -> bytes:
    """The answer that a topic is not partitioned."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        partitions=0, request_id=request_id, response=pb.CommandPartitionedTopicMetadataResponse.Success
    )
    kind = pb.BaseCommand.PARTITIONED_METADATA_RESPONSE
    return encode_command(pb.BaseCommand(type=kind, partitionMetadataResponse=body))


def messages(consumer_id: int, first_entry: int, tails: list[bytes]) -> bytes:
    """MESSAGE frames of one ledger with rising entry ids."""
    command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
    body = command.message
    body.consumer_id = consumer_id
    body.message_id.ledgerId = LEDGER
    body.message_id.partition = -1
    pieces = []
    for entry, tail in enumerate(tails, first_entry):
        body.message_id.entryId = entry
        pieces.append(encode_message(command.SerializeToString(), tail))
    return b"".join(pieces)


def sends(first: int, tails: list[bytes]) -> bytes:
    """SEND frames of one producer with rising sequence ids."""
    return b"".join(send(1, number, tail) for number, tail in enumerate(tails, first))


def send_receipts(first: int, count: int) -> bytes:
    """SEND_RECEIPT for each."""
    command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
    body = command.send_receipt
    body.producer_id = 1
    body.message_id.ledgerId = LEDGER
    pieces = []
    for number in range(first, first + count):
        body.sequence_id = body.message_id.entryId = number
        pieces.append(encode_command(command))
    return b"".join(pieces)


def send_receipt(producer_id: int, sequence_id: int) -> bytes:
    """SEND_RECEIPT for one message."""
    body = pb.CommandSendReceipt(producer_id=producer_id, sequence_id=sequence_id)
    body.message_id.ledgerId, body.message_id.entryId = LEDGER, sequence_id
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT, send_receipt=body))


def producer(topic: str, producer_id: int) -> bytes:
    """PRODUCER; its request id is 1."""
    body = pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=1)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=body))


def producer_success(request_id: int) -> bytes:
    """PRODUCER_SUCCESS, with a name that the broker chose."""
    body = pb.CommandProducerSuccess(request_id=request_id, producer_name=f"standalone-0-{request_id}")
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.PRODUCER_SUCCESS, producer_success=body))


def end_transaction(number: int) -> bytes:
    """END_TXN that commits; its request id is the transaction's number."""
    body = pb.CommandEndTxn(request_id=number, txnid_least_bits=number, txnid_most_bits=0, txn_action=pb.COMMIT)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.END_TXN, endTxn=body))


def end_transaction_response(command: pb.CommandEndTxn) -> bytes:
    """The coordinator's answer that it has."""
    body = pb.CommandEndTxnResponse(
        request_id=command.request_id,
        txnid_least_bits=command.txnid_least_bits,
        txnid_most_bits=command.txnid_most_bits,
    )
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.END_TXN_RESPONSE, endTxnResponse=body))


def single_tail(key: str, payload: bytes, sequence_id: int = 0) -> bytes:
    """What follows the command of an unbatched message."""
    return build_tail(_metadata(key, sequence_id), payload)


def single_tails(count: int) -> list[bytes]:
    """Unbatched messages like those of the backlog, keys in turn."""
    return [single_tail(f"key-{number % KEY_COUNT}", bytes(PAYLOAD_BYTES), number) for number in range(count)]


def hot_tails(count: int) -> list[bytes]:
    """As `single_tails`, but every second message has the same key."""
    keys = ["hot" if number % 2 else f"key-{number % KEY_COUNT}" for number in range(count)]
    return [single_tail(key, bytes(PAYLOAD_BYTES), number) for number, key in enumerate(keys)]


def batch_tails(count: int, size: int) -> list[bytes]:
    """Batches of `size` messages of one key, keys in turn."""
    payloads = [bytes(PAYLOAD_BYTES)] * size
    return [batch_tail(f"key-{number % KEY_COUNT}", payloads, number) for number in range(count)]


def batch_tail(key: str, payloads: list[bytes], sequence_id: int = 0) -> bytes:
    """What follows the command of a batch whose messages share a key, as KeyBased batching makes it."""
    return mixed_tail([key] * len(payloads), payloads, sequence_id)


def random_keys(count: int, key_count: int = KEY_COUNT) -> list[str]:
    """Return a key for each message of a backlog with default batching: by chance, and the same in every run."""
    chance = random.Random(SEED)  # noqa: S311 - a repeatable choice, no secret
    return chance.choices([f"key-{number}" for number in range(key_count)], k=count)


def mixed_tails(count: int, size: int, key_count: int = KEY_COUNT) -> list[bytes]:
    """Batches of `size` messages of random keys, as default batching makes them."""
    keys = random_keys(count * size, key_count)
    payloads = [bytes(PAYLOAD_BYTES)] * size
    return [mixed_tail(keys[number * size : (number + 1) * size], payloads, number) for number in range(count)]


def mixed_tail(keys: Sequence[str], payloads: Sequence[bytes], sequence_id: int) -> bytes:
    """What follows the command of a batch; the key outside is the first message's, as clients write it."""
    metadata = _metadata(keys[0], sequence_id)
    metadata.num_messages_in_batch = len(payloads)
    pieces = []
    for number, (key, payload) in enumerate(zip(keys, payloads, strict=True), sequence_id * len(payloads)):
        pieces.append(batched_message(key, payload, number))
    return build_tail(metadata, b"".join(pieces))


def batched_message(key: str, payload: bytes, sequence_id: int) -> bytes:
    """One message as it stands within a batch."""
    fields = pb.SingleMessageMetadata(payload_size=len(payload), partition_key=key.encode(), sequence_id=sequence_id)
    single = fields.SerializeToString()
    return b"".join((len(single).to_bytes(4, "big"), single, payload))


def _metadata(key: str, sequence_id: int) -> pb.MessageMetadata:
    return pb.MessageMetadata(
        producer_name=b"standalone-0-7",
        sequence_id=sequence_id,
        publish_time=1_790_000_000_000,
        partition_key=key.encode(),
    )
