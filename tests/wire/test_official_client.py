"""What we write, read by an official client."""

import pulsar
import pytest

from proxy.wire.codecs import decompress
from proxy.wire.frames import frame_type, parse_command
from proxy.wire.metadata import peek
from proxy.wire.pulsar_pb2 import BaseCommand
from tests.wire.batches import index_batch, repack
from tests.wire.builders import golden, tail_of
from tests.wire.capture import CLIENTS, CODECS, MESSAGES, TOPIC, client, lines_of
from tests.wire.tiny_broker import LEDGER, TinyBroker

LIMIT = 1 << 20
RECEIVE_MS = 60_000


def smaller(sender: str, codec: str, chosen: list[int]) -> bytes:
    """The recorded default batch of one client and codec, cut to some of its messages."""
    (frame,) = golden(f"{sender}-send-{codec}-default")
    metadata, _, start = peek(tail_of(frame))
    payload = decompress(metadata.compression, tail_of(frame)[start:], metadata.uncompressed_size, LIMIT)
    singles = index_batch(payload, metadata.num_messages_in_batch)
    return repack(metadata, payload, [singles[index] for index in chosen])


@pytest.mark.parametrize("sender", CLIENTS)
@pytest.mark.parametrize("codec", CODECS)
def test_an_official_client_receives_exactly_the_chosen_messages(codec: str, sender: str) -> None:
    """A smaller batch gives a worker its messages with their keys, and its acknowledgement names the entry once."""
    choices = [[0], [1, 3], [2, 4, 5], [6], list(range(len(MESSAGES)))]
    with TinyBroker([smaller(sender, codec, chosen) for chosen in choices]) as broker:
        session = client(broker)
        consumer = session.subscribe(TOPIC, "audit", consumer_type=pulsar.ConsumerType.KeyShared)
        for entry, chosen in enumerate(choices):
            for index in chosen:
                message = consumer.receive(RECEIVE_MS)
                line, fields = MESSAGES[index]
                assert message.data() == line * lines_of(codec)
                assert message.partition_key() == fields.get("partition_key", "")
                assert message.ordering_key() == fields.get("ordering_key", "")
                assert message.properties() == fields.get("properties", {})
                assert message.event_timestamp() == fields.get("event_timestamp", 0)
                assert (message.message_id().ledger_id(), message.message_id().entry_id()) == (LEDGER, entry)
                consumer.acknowledge(message)
        consumer.close()
        session.close()
        acked = [
            (message_id.ledgerId, message_id.entryId, list(message_id.ack_set))
            for frame in broker.wait_for(lambda frames: any(frame_type(frame) == BaseCommand.ACK for frame in frames))
            if frame_type(frame) == BaseCommand.ACK
            for message_id in parse_command(frame).ack.message_id
        ]
    assert sorted(acked) == [(LEDGER, entry, []) for entry in range(len(choices))]
