"""Sends numbered messages with the official client and remembers which of them the broker confirmed.

A producer is the only one who knows what was sent, so its record is the audit's reference: per key the messages
handed to the client, and those among them whose confirmation never came. An unconfirmed message may or may not have
been stored; it is no loss if it never arrives and no invention if it does.

`ProducerThread` suits a rate that leaves the interpreter time for other things, `ProducerProcess`
(`python -m integration.load.producer OPTIONS_JSON RESULT_FILE`) one that does not.
"""

from __future__ import annotations

import dataclasses
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import pulsar

from integration.errors import IntegrationError
from integration.load import payload
from integration.load.client import OPERATION_TIMEOUT_S, ConnectionWatch, client_logger, end_process, log_to_stderr
from integration.load.options import Batching, ProducerOptions
from integration.logs import tail
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEND_TIMEOUT_MS: Final = 180_000
"""Longer than any restart: no producer gives a message up, so each key's sequence has no gaps."""
PENDING_MESSAGES_MAX: Final = 2_000
CHOICES_AT_ONCE: Final = 1_000
FLUSH_S_MAX: Final = 240.0
STOP_S_MAX: Final = FLUSH_S_MAX + 10
LOOK_S: Final = 0.05
"""How often one that has nothing to send yet looks whether it is to stop."""


class ProducerFailedError(IntegrationError):
    """A producer ended without a record: the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """What one producer sent."""

    producer: int
    sent: dict[int, int]
    """Key -> messages handed to the client; their sequences are 0 .. n-1."""
    unconfirmed: frozenset[tuple[int, int]]
    """(key, sequence) of those the broker never confirmed."""
    connections_lost: int = 0
    """Each time it sends again what was not confirmed, and the topic may then hold a message twice."""

    @property
    def confirmed_count(self) -> int:
        """Messages the broker took responsibility for."""
        return sum(self.sent.values()) - len(self.unconfirmed)


class Producing(Protocol):
    """A producer at work, wherever it runs."""

    options: ProducerOptions

    def stop(self) -> None:
        """Send nothing more; `record` then returns soon."""

    def record(self) -> ProducerRecord:
        """Wait until everything is sent and confirmed, and return what was."""


def keys(options: ProducerOptions) -> Iterator[int]:
    """Yield the key of each message: in rounds if even, by chance if skewed, `run_length` times each."""
    chance = random.Random(options.seed)  # noqa: S311 - a repeatable choice, no secret
    numbers = range(options.keys)
    weights = list(accumulate(1 / (rank + 1) ** options.skew for rank in numbers))
    while True:
        chosen = numbers if not options.skew else chance.choices(numbers, cum_weights=weights, k=CHOICES_AT_ONCE)
        for key in chosen:
            for _ in range(options.run_length):
                yield key


class NumberedSender:
    """Numbers and sends messages until told to stop."""

    def __init__(self, options: ProducerOptions) -> None:
        """Nothing is sent yet."""
        self.options = options
        # A plain flag: `Event.set` in a signal's handler waits for ever where the main thread is inside `Event.wait`.
        self._stopping = False
        self.confirmed_count = 0
        self._sent: Counter[int] = Counter()
        self._connections_lost = 0
        self._unconfirmed: set[tuple[int, int]] = set()

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping

    def stop(self) -> None:
        """Send nothing more; may be called by a signal's handler."""
        self._stopping = True

    def run(self) -> ProducerRecord:
        """Send, then wait for the confirmations."""
        watch = ConnectionWatch(lost=self._lost, connected=lambda: None)
        client = pulsar.Client(
            self.options.service_url, logger=client_logger(watch), operation_timeout_seconds=OPERATION_TIMEOUT_S
        )
        try:
            producer = client.create_producer(self.options.topic, **_producer_arguments(self.options))
            self._send_all(producer)
            producer.flush()
        finally:
            # Everything is confirmed: a connection that breaks while it is closed takes nothing with it.
            with suppress(pulsar.PulsarException):
                client.close()
        unconfirmed = frozenset(self._unconfirmed)
        return ProducerRecord(self.options.producer, dict(self._sent), unconfirmed, self._connections_lost)

    def _lost(self) -> None:
        self._connections_lost += 1

    def _send_all(self, producer: pulsar.Producer) -> None:
        options = self.options
        filler = payload.filler(options.payload_bytes)
        began = time.monotonic()
        for index, key in enumerate(keys(options)):
            if options.rate_per_s:
                self._wait_until(began + index / options.rate_per_s)
            if index == options.count or self._stopping:
                return
            sequence = self._sent[key]
            self._sent[key] = sequence + 1
            number = (key, sequence)
            self._unconfirmed.add(number)
            content = payload.encode(options.producer, key, sequence, time.monotonic_ns(), filler)
            producer.send_async(content, self._confirmation(number), partition_key=payload.key_name(key))

    def _wait_until(self, at: float) -> None:
        while not self._stopping and (ahead := at - time.monotonic()) > 0:
            time.sleep(min(ahead, LOOK_S))

    def _confirmation(self, number: tuple[int, int]) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        def confirmed(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            _ = message_id
            if result == pulsar.Result.Ok:
                self._unconfirmed.discard(number)
                self.confirmed_count += 1

        return confirmed


class ProducerThread:
    """A producer in a thread of this process."""

    def __init__(self, options: ProducerOptions) -> None:
        """Start sending."""
        self.options = options
        self._sender = NumberedSender(options)
        self._record: ProducerRecord | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"producer-{options.producer}", daemon=True)
        self._thread.start()

    @property
    def confirmed_count(self) -> int:
        """Messages confirmed so far."""
        return self._sender.confirmed_count

    def stop(self) -> None:
        """Send nothing more."""
        self._sender.stop()

    def record(self) -> ProducerRecord:
        """Wait until everything is confirmed and return what was sent."""
        self._thread.join(STOP_S_MAX if self._sender.stopping else None)
        if self._record is None:
            msg = f"producer {self.options.producer} failed: {self._error or 'its messages were not confirmed'}"
            raise ProducerFailedError(msg) from self._error
        return self._record

    def _run(self) -> None:
        try:
            self._record = self._sender.run()
        except Exception as error:  # noqa: BLE001 - raised when the record is asked for
            self._error = error


class ProducerProcess:
    """A producer in a process of its own."""

    def __init__(self, options: ProducerOptions, directory: Path) -> None:
        """Start it; its log and its record are written into `directory`."""
        self.options = options
        self._result = directory / f"producer-{options.producer}.json"
        self._log = directory / f"producer-{options.producer}.log"
        command = [sys.executable, "-m", "integration.load.producer", options.to_json(), str(self._result)]
        self._process = OwnedProcess(command, self._log)
        self._stopped = False

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        self._process.signal(signal.SIGTERM)

    def record(self) -> ProducerRecord:
        """Wait until it has ended and return what it sent.

        Raises:
            ProducerFailedError: it left no record, or did not end after it was stopped.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.process.wait(STOP_S_MAX if self._stopped else None)
        self._process.kill()
        if not self._result.exists():
            msg = f"producer {self.options.producer} left no record; end of {self._log}:\n{tail(self._log)}"
            raise ProducerFailedError(msg)
        values = json.loads(self._result.read_text())
        return ProducerRecord(
            values["producer"],
            {int(key): count for key, count in values["sent"].items()},
            frozenset((key, sequence) for key, sequence in values["unconfirmed"]),
            values["connections_lost"],
        )

    def close(self) -> None:
        """End it at once."""
        self._process.kill()


def _producer_arguments(options: ProducerOptions) -> dict[str, object]:
    arguments: dict[str, object] = {
        "block_if_queue_full": True,
        "max_pending_messages": PENDING_MESSAGES_MAX,
        "send_timeout_millis": SEND_TIMEOUT_MS,
        "compression_type": pulsar.CompressionType.__members__[options.compression],
    }
    if options.batching is not Batching.NONE:
        by_key = options.batching is Batching.KEY_BASED
        arguments |= {
            "batching_enabled": True,
            "batching_type": pulsar.BatchingType.KeyBased if by_key else pulsar.BatchingType.Default,
            "batching_max_messages": options.batch_messages_max,
            "batching_max_publish_delay_ms": options.batch_delay_ms,
        }
    return arguments


def main() -> NoReturn:
    """Run one producer as the command line says; SIGTERM makes it finish early."""
    log_to_stderr()
    sender = NumberedSender(ProducerOptions.from_json(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: sender.stop())
    values = dataclasses.asdict(sender.run())
    result = Path(sys.argv[2])
    partial = result.with_suffix(".partial")
    partial.write_text(json.dumps(values, default=sorted))
    partial.replace(result)
    end_process()


if __name__ == "__main__":
    main()
