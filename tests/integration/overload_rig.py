"""What a test of overload needs: messages that are large, a gateway whose budget is small, and an eye on its health."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import httpx
import psutil
import pulsar

from integration.gateway import KeylineGateway
from tests.integration.raw_client import Message, RawClient

KIB: Final = 1 << 10
MIB: Final = 1 << 20
PAYLOAD: Final = bytes(16 * KIB)
KEYS: Final = 20
SUBSCRIPTION_BYTES: Final = 2 * MIB
FRAME_BYTES_MAX: Final = 512 * KIB
SETTINGS: Final = {
    "max_frame_bytes": "512KiB",
    "subscription_memory_bytes": "2MiB",
    "gateway_memory_bytes": "4MiB",
    "unread_high_water_bytes": "64KiB",
    "unread_low_water_bytes": "16KiB",
}
PATHS: Final = ("/livez", "/readyz", "/api/v1/subscriptions")
ANSWER_MS: Final = 100.0
"""An answer within this is a good one."""
PATIENCE_S: Final = 60.0


class Producer:
    """Numbered messages of some keys, straight to the broker: what is produced is what the gateway gets no say in."""

    def __init__(self, service_url: str, topic: str) -> None:
        self._client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        self._producer = self._client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
        self._numbers = itertools.count()
        self.sent = 0

    def send(self, count: int) -> None:
        """Send so many and wait until the broker has them."""
        failed: list[pulsar.Result] = []

        def confirmed(result: pulsar.Result, place: pulsar.MessageId) -> None:
            _ = place
            if result != pulsar.Result.Ok:
                failed.append(result)

        for number in itertools.islice(self._numbers, count):
            self._producer.send_async(
                PAYLOAD + number.to_bytes(8, "big"), confirmed, partition_key=f"key-{number % KEYS}"
            )
        self._producer.flush()
        assert not failed
        self.sent += count

    def close(self) -> None:
        """Leave."""
        self._client.close()


class Taker:
    """A worker that takes and acknowledges as many as it is told, and knows the order they must have."""

    def __init__(self, service_url: str, topic: str) -> None:
        self.client = RawClient(service_url).locate(topic).joined(topic)
        self.taken = 0
        self._last: dict[int, int] = defaultdict(lambda: -1)

    def take(self, count: int) -> None:
        """Receive and acknowledge so many; every key's come in order and once."""
        for chunk in _chunks(count):
            got = self.client.messages(chunk)
            for message in got:
                number = int.from_bytes(message.tail[-8:], "big")
                key = number % KEYS
                expected = key if self._last[key] < 0 else self._last[key] + KEYS
                assert number == expected, f"key {key}: {number} came where {expected} was due"
                self._last[key] = number
            self.client.ack([message.place for message in got])
            self.taken += len(got)

    def drain(self, producer: Producer) -> float:
        """Take all that is left; returns messages per second.

        The first quarter is not timed: a kernel whose peer had no window asks it again after pauses of its own, which
        grow to seconds while the peer stays so.
        """
        left = producer.sent - self.taken
        untimed = left // 4
        self.take(untimed)
        began = time.monotonic()
        self.take(left - untimed)
        return (left - untimed) / (time.monotonic() - began)

    def nothing_more(self) -> list[Message]:
        """What came beyond what was taken."""
        return self.client.ping()


class Health:
    """Asks the admin API all the time while the block runs."""

    def __init__(self, gateway: KeylineGateway) -> None:
        self.times_ms: dict[str, list[float]] = {path: [] for path in PATHS}
        self.held_bytes: list[int] = []
        self.failures: list[str] = []
        self._http = httpx.Client(base_url=gateway.admin_url, timeout=PATIENCE_S, trust_env=False)
        self._process = psutil.Process(gateway.pid)
        self.resident_before = self._process.memory_info().rss
        self.resident_max = self.resident_before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and let go of the connection."""
        self._stop.set()
        self._thread.join()
        self._http.close()

    def median_ms(self, path: str) -> float:
        """Of one path."""
        return statistics.median(self.times_ms[path])

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            for path in PATHS:
                try:
                    self._ask(path)
                except httpx.HTTPError as error:
                    self.failures.append(f"{path}: {error!r}")
            self.resident_max = max(self.resident_max, self._process.memory_info().rss)

    def _ask(self, path: str) -> None:
        began = time.monotonic()
        answer = self._http.get(path).raise_for_status()
        self.times_ms[path].append((time.monotonic() - began) * 1e3)
        if path == PATHS[-1]:
            self.held_bytes.append(answer.json()["held_bytes"])


def _chunks(count: int, size: int = 50) -> Iterator[int]:
    while count > 0:
        yield min(count, size)
        count -= size
