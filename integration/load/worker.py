"""One worker: a process with the official client on a Key_Shared subscription, writing down all it gets.

`python -m integration.load.worker OPTIONS_JSON RECORD_FILE`. SIGTERM ends it as a careful operator's worker ends: it
takes nothing more, acknowledges what it has finished with and closes its consumer. SIGKILL ends it at any point, with
its record complete up to there (see `records`). SIGUSR2 makes it slower by `SLOWER`; the next ends that.

The moment of receiving is taken after the client handed a message over, the moment of acknowledging before the client
is told. So an interval written here lies inside the one the gateway sees, and two intervals that overlap here overlap
there: the audit never accuses wrongly. What the client library fetched in advance stays invisible.
"""

from __future__ import annotations

import logging
import random
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import pulsar

from integration.load import payload
from integration.load.client import ConnectionWatch, client_logger, end_process, log_to_stderr
from integration.load.options import WorkerOptions
from integration.load.records import Event, RecordWriter

if TYPE_CHECKING:
    from types import FrameType

RECEIVE_TIMEOUT_MS: Final = 50
"""How soon a stop request is noticed when no message comes."""
SLOWER: Final = 20
"""How many times as long a slow one takes for a message."""
SUBSCRIBE_S_MAX: Final = 40
SUBSCRIBE_TRIES: Final = 2
"""This client hears that the broker could not store the new consumer's position, and waits instead of asking again."""


class Worker:
    """The consumer and what it has received but not acknowledged."""

    def __init__(self, options: WorkerOptions, record_file: Path) -> None:
        """Subscribe; a subscription that does not exist starts at the topic's beginning."""
        self._options = options
        self._records = RecordWriter(record_file)
        self._random = random.Random(options.seed)  # noqa: S311 - a repeatable choice, no secret
        self._pending: deque[tuple[int, pulsar.Message]] = deque()
        self._stopping = False
        self._listening = threading.Lock()
        """Held while a listener has a message: it runs in a thread of the library's."""
        self._slower = 1
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGUSR2, self._change_pace)
        watch = ConnectionWatch(
            lost=lambda: self._records.life(Event.CONNECTION_LOST, time.monotonic_ns()),
            connected=lambda: self._records.life(Event.CONNECTED, time.monotonic_ns()),
        )
        self._client = pulsar.Client(
            options.service_url, logger=client_logger(watch), operation_timeout_seconds=SUBSCRIBE_S_MAX
        )
        self._consumer = self._acknowledging = self._subscribed(SUBSCRIBE_TRIES)
        self._records.life(Event.JOINED, time.monotonic_ns())

    def _subscribed(self, tries: int) -> pulsar.Consumer:
        options = self._options
        try:
            return self._client.subscribe(
                options.topic,
                options.subscription,
                consumer_type=pulsar.ConsumerType.KeyShared,
                consumer_name=options.name,
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=options.receiver_queue_size,
                negative_ack_redelivery_delay_ms=options.nack_delay_ms,
                batch_index_ack_enabled=options.batch_index_ack,
                message_listener=self._listen if options.listener else None,
                properties=options.properties or None,
            )
        except pulsar.Timeout:
            if tries == 1:
                raise
            logging.getLogger("worker").warning("could not subscribe in time, and tries again")
            return self._subscribed(tries - 1)

    def run(self) -> None:
        """Work until SIGTERM."""
        while not self._stopping:
            wait_ms = self._acknowledge_due()
            if self._options.listener:
                time.sleep(wait_ms / 1_000)
                continue
            try:
                message = self._consumer.receive(timeout_millis=wait_ms)
            except pulsar.Timeout:
                continue
            self._take(message)
        if self._options.listener:
            self._consumer.pause_message_listener()
            with self._listening:  # pausing waits for no listener: it would acknowledge behind the close, to nobody
                pass
        while self._pending:
            self._acknowledge(self._pending.popleft()[1])
        self._records.life(Event.CLOSING, time.monotonic_ns())
        self._consumer.close()
        self._records.life(Event.CLOSED, time.monotonic_ns())
        self._client.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        _ = number, frame
        self._stopping = True

    def _change_pace(self, number: int, frame: FrameType | None) -> None:
        _ = number, frame
        self._slower = SLOWER if self._slower == 1 else 1

    def _listen(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        # The library may call before `subscribe` has returned. Its consumer can acknowledge, though not be closed.
        self._acknowledging = consumer
        with self._listening:
            if not self._stopping:
                self._take(message)

    def _take(self, message: pulsar.Message) -> None:
        options = self._options
        received_ns = time.monotonic_ns()
        self._record(Event.RECEIVED, received_ns, message)
        if message.partition_key() != payload.key_name(payload.decode(message.data()).key):
            self._record(Event.GARBLED, received_ns, message)
        if options.work_ms:
            time.sleep(options.work_ms / 1_000)
        if options.nack_fraction and not message.redelivery_count() and self._random.random() < options.nack_fraction:
            self._record(Event.NACKED, time.monotonic_ns(), message)
            self._acknowledging.negative_acknowledge(message)
        elif options.ack_delay_ms:
            self._pending.append((received_ns + int(options.ack_delay_ms * self._slower * 1e6), message))
        else:
            self._acknowledge(message)

    def _acknowledge_due(self) -> int:
        """Acknowledge what is due and return how long to wait for the next, in milliseconds."""
        while self._pending:
            left_ns = self._pending[0][0] - time.monotonic_ns()
            if left_ns > 0:
                return min(RECEIVE_TIMEOUT_MS, left_ns // 1_000_000 + 1)
            self._acknowledge(self._pending.popleft()[1])
        return RECEIVE_TIMEOUT_MS

    def _acknowledge(self, message: pulsar.Message) -> None:
        self._record(Event.ACKED, time.monotonic_ns(), message)
        try:
            self._acknowledging.acknowledge(message)
        except (pulsar.AlreadyClosed, pulsar.NotConnected):
            # Between two connections nothing can be acknowledged; the message comes again, and the audit names why.
            logging.getLogger("worker").warning("could not acknowledge: not connected")

    def _record(self, event: Event, at_ns: int, message: pulsar.Message) -> None:
        where = message.message_id()
        position = (where.ledger_id(), where.entry_id(), where.batch_index())
        number = payload.decode(message.data())
        self._records.message(event, at_ns, number, position, message.redelivery_count())


def main() -> NoReturn:
    """Run one worker as the command line says."""
    log_to_stderr()
    options = WorkerOptions.from_json(sys.argv[1])
    Worker(options, Path(sys.argv[2])).run()
    end_process()


if __name__ == "__main__":
    main()
