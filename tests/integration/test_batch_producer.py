"""The bench's producer of batches sends what clients would, and says so when it is not stored."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from integration.bench import frames_made
from integration.bench.batch_producer import BatchProducer
from integration.bench.latency_worker import SENT_AT
from integration.errors import IntegrationError
from integration.ports import LOOPBACK
from integration.threads import beside
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch import walk_batch
from proxy.wire.frames import FrameSplitter, encode_command, parse_command, payload_start
from proxy.wire.metadata import peek
from tests.integration.raw_client import MAX_FRAME_BYTES, PIECE_BYTES, T

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator


class StoringBroker:
    """Takes one connection, and keeps what is sent; with `refuses`, it stores nothing."""

    def __init__(self, *, refuses: bool = False) -> None:
        self._refuses = refuses
        self._listener = socket.create_server((LOOPBACK, 0))
        self.sent: list[tuple[pb.CommandSend, bytes]] = []
        self.url = f"pulsar://{LOOPBACK}:{self._listener.getsockname()[1]}"

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Until the block ends, by when the client has left."""
        with self._listener, beside(self._serve):
            yield

    def _serve(self, _over: threading.Event) -> None:
        client, _ = self._listener.accept()
        split = FrameSplitter(MAX_FRAME_BYTES)
        with client, suppress(ConnectionError):  # one that gives up leaves answers unread
            while data := client.recv(PIECE_BYTES):
                client.sendall(b"".join(map(self._answer, split.feed(data))))

    def _answer(self, frame: bytes) -> bytes:
        command = parse_command(frame)
        if command.type == T.CONNECT:
            return frames_made.connected()
        if command.type == T.PRODUCER:
            return frames_made.producer_success(command.producer.request_id)
        number = command.send.sequence_id
        if self._refuses:
            refused = pb.CommandSendError(
                producer_id=command.send.producer_id, sequence_id=number, error=pb.PersistenceError, message="disk full"
            )
            return encode_command(pb.BaseCommand(type=T.SEND_ERROR, send_error=refused))
        self.sent.append((command.send, frame[payload_start(frame) :]))
        return frames_made.send_receipt(command.send.producer_id, number)


@pytest.mark.parametrize(("batch_ms", "sizes"), [(1, {2}), (10, {20}), (300, {600, 200})])
def test_a_batch_holds_what_came_within_its_time(batch_ms: int, sizes: set[int]) -> None:
    """Each message has its key, and the moment of its sending."""
    keys = [f"key-{number}" for number in range(2_000)]
    broker = StoringBroker()
    began = time.monotonic_ns()
    with broker.listening(), BatchProducer(broker.url, "persistent://a/b/c", batch_ms) as producer:
        producer.produce_block(time.monotonic(), keys)
        producer.flush()
    found: list[str] = []
    stamps: list[int] = []
    for number, (command, tail) in enumerate(broker.sent):
        metadata, _, start = peek(tail)
        assert (command.sequence_id, command.num_messages) == (number, metadata.num_messages_in_batch)
        payload = tail[start:]
        for single, begin, _ in walk_batch(payload, command.num_messages):
            found.append(single.partition_key.decode())
            stamps.append(struct.unpack_from(SENT_AT, payload, begin)[0])
            assert single.payload_size == frames_made.PAYLOAD_BYTES
    assert found == keys
    assert {command.num_messages for command, _ in broker.sent} == sizes
    assert began < stamps[0] < stamps[-1] < time.monotonic_ns()
    assert all(earlier <= later for earlier, later in itertools.pairwise(stamps))


def test_what_is_not_stored_ends_the_measurement() -> None:
    """Else the workers would be waited for in vain."""
    broker = StoringBroker(refuses=True)
    refused = pytest.raises(IntegrationError, match="did not store a batch: disk full")
    with broker.listening(), BatchProducer(broker.url, "persistent://a/b/c", 1) as producer, refused:
        producer.produce_block(time.monotonic(), ["key"] * 1_000)
