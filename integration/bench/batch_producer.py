"""A producer of batches that takes about a third of the CPU of an official client, or less.

Where a producer shares two cores with the broker, the gateway and the workers, what it takes is added to what they wait
for: the official Python client takes half a core for 10,000 messages a second, this one a sixth to a ninth. It wakes
once a millisecond, puts the moment into each message that is due, and sends as one entry what came within the time of a
batch, as clients do.
"""

from __future__ import annotations

import select
import struct
import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from integration.bench.frames_made import PAYLOAD_BYTES, mixed_tail, producer
from integration.bench.latency_worker import SENT_AT
from integration.bench.raw_worker import ANSWER_S_MAX, RawConnection
from integration.errors import IntegrationError
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.commands import send
from proxy.wire.frames import parse_command

if TYPE_CHECKING:
    from collections.abc import Sequence

PRODUCER_ID: Final = 1
WAKES_PER_S: Final = 1_000
_T = pb.BaseCommand


class BatchProducer(RawConnection):
    """The producer of one topic."""

    def __init__(self, service_url: str, topic: str, batch_ms: int) -> None:
        """Connect and produce; a batch is sent `batch_ms` after its first message.

        Raises:
            IntegrationError: the server refused.
        """
        self._batch_ms = batch_ms
        self._sent = self._stored = 0
        super().__init__(service_url)
        self._send(producer(topic, PRODUCER_ID))
        self._await(_T.PRODUCER_SUCCESS)

    def produce_block(self, due: float, keys: Sequence[str]) -> None:
        """Send a second's messages with these keys, evenly but for the wakes, the first at `due`.

        Raises:
            IntegrationError: the broker did not store one.
        """
        left, at_a_time = iter(keys), -(-len(keys) // WAKES_PER_S)
        filling = bytes(PAYLOAD_BYTES - struct.calcsize(SENT_AT))
        gathered: list[tuple[str, bytes]] = []
        for wake in range(WAKES_PER_S):
            early_s = due + wake / WAKES_PER_S - time.monotonic()
            if early_s > 0:
                time.sleep(early_s)
            payload = struct.pack(SENT_AT, time.monotonic_ns()) + filling
            gathered += [(key, payload) for key in islice(left, at_a_time)]
            if gathered and (wake + 1) % self._batch_ms == 0:
                self._publish(gathered)
                gathered = []
        if gathered:
            self._publish(gathered)

    def flush(self) -> None:
        """Wait until all is stored.

        Raises:
            IntegrationError: the broker did not store one, or takes too long.
        """
        deadline = time.monotonic() + ANSWER_S_MAX
        while self._stored < self._sent:
            if time.monotonic() >= deadline:
                raise IntegrationError(f"{self._sent - self._stored} batches not stored in {ANSWER_S_MAX:.0f} s")
            self._read(deadline - time.monotonic())

    def _publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        keys, payloads = zip(*messages, strict=True)
        tail = mixed_tail(keys, payloads, self._sent)
        self._send(send(PRODUCER_ID, self._sent, tail, len(messages)))
        self._sent += 1
        while select.select((self._socket,), (), (), 0)[0]:
            self._read(ANSWER_S_MAX)

    def _take(self, kind: int, frame: bytes, at: float) -> None:
        if kind == _T.SEND_RECEIPT:
            self._stored += 1
        elif kind == _T.SEND_ERROR:
            raise IntegrationError(f"the broker did not store a batch: {parse_command(frame).send_error.message}")
        else:
            super()._take(kind, frame, at)
