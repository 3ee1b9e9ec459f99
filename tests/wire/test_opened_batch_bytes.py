"""An opened batch counts in the byte budget with what Python takes for it, and with little more."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Final

import pytest

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch_reader import BatchReader
from proxy.wire.opened_batch import OPENED_BYTES, OpenedBatch

COUNT: Final = 50
LIST_PLACE_BYTES: Final = 8
LARGE: Final = 1_000
"""Numbers above Python's shared small ones, as real ones are."""
FRAMES: Final = 20
"""Enough to tell what this file has made from what another thread of the process makes meanwhile."""


@pytest.mark.parametrize("messages", [1, 2, 10, 100])
@pytest.mark.parametrize("compression", [pb.NONE, pb.LZ4, pb.ZSTD])
def test_an_opened_batch_costs_no_more_than_it_counts(messages: int, compression: pb.CompressionType) -> None:
    """What counts too little lets the gateway take more memory than it was given; twice too much halves the budget."""
    payload = _payload(messages)
    _opened(payload, messages, compression)
    tracemalloc.start(FRAMES)
    try:
        made = _opened(payload, messages, compression)
        gc.collect()
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__, all_frames=True)])
    finally:
        tracemalloc.stop()
    taken = sum(trace.size for trace in held.traces) / COUNT - LIST_PLACE_BYTES
    counted = made[0].bytes_held
    assert taken <= counted
    assert 2 * (OPENED_BYTES - (counted - taken)) >= OPENED_BYTES, "the constant is more than twice what it stands for"


def _opened(alike: bytes, messages: int, compression: pb.CompressionType) -> list[OpenedBatch]:
    """Batches that share nothing, as if each came from the broker."""
    made = []
    for number in range(COUNT):
        payload = bytes(bytearray(alike))
        metadata = pb.MessageMetadata(producer_name=b"p", sequence_id=LARGE + number, publish_time=LARGE)
        metadata.compression = compression
        metadata.uncompressed_size = LARGE + len(payload)
        metadata.num_messages_in_batch = messages
        reader = BatchReader(metadata, payload, messages)
        reader.read(messages)
        made.append(OpenedBatch(metadata, LARGE + number, payload, reader))
    return made


def _payload(messages: int) -> bytes:
    pieces = []
    for number in range(messages):
        single = pb.SingleMessageMetadata(payload_size=100, partition_key=b"key-%d" % number, sequence_id=number)
        head = single.SerializeToString()
        pieces += [len(head).to_bytes(4, "big"), head, bytes(100)]
    return b"".join(pieces)
