"""Somebody who does nothing wrong while others do: what it has a right to must go on."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, Self

from tests.integration.conditions import eventually
from tests.integration.raw_client import RawClient

EXCHANGES_MIN: Final = 20


class Bystander:
    """A healthy worker and producer that pass messages in turn while the block runs."""

    KEYS = 7

    def __init__(self, service_url: str, topic: str) -> None:
        self.exchanges = 0
        self.at_s: list[float] = []
        """When each ended, by the monotonic clock."""
        self._producer = RawClient(service_url).locate(topic)
        self._worker = RawClient(service_url).locate(topic)
        self._topic = topic
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin."""
        self._worker.joined(self._topic)
        self._worker.flow(1_000_000)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it do its least, stop it, and raise what it met."""
        if error is None:
            eventually(lambda: self.exchanges >= EXCHANGES_MIN or self._failure, "the bystander's exchanges")
        self._stop.set()
        self._thread.join()
        self._producer.close()
        self._worker.close()
        if error is None and self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                number = self.exchanges
                wanted = [(f"key-{number % self.KEYS}", f"{number}-{part}".encode()) for part in range(3)]
                self._producer.produce(self._topic, wanted)
                got = self._worker.messages(3)
                assert [message.tail[-len(body) :] for message, (_, body) in zip(got, wanted, strict=True)] == [
                    body for _, body in wanted
                ]
                receipt = self._worker.ack_confirmed([message.place for message in got])
                assert not receipt.HasField("error"), receipt
                assert not self._worker.pushed, self._worker.pushed
                self.exchanges += 1
                self.at_s.append(time.monotonic())
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
            self._failure = failure
