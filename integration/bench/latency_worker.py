"""Runs four Key_Shared workers that record the age of each message: `latency_worker URL TOPIC COUNT RESULT_FILE`.

A process of its own, so that the producer's interpreter does not stand in its way. When all have subscribed it makes
the file RESULT.ready; when COUNT messages have come it writes RESULT_FILE as JSON: [sent at, age], in nanoseconds.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pulsar

from integration.load.client import end_process

SENT_AT: Final = "<q"
"""First bytes of the payload: nanoseconds of the monotonic clock."""
WORKERS: Final = 4
SUBSCRIPTION: Final = "latency"
WAIT_S_MAX: Final = 600.0


def main(service_url: str, topic: str, count: int, result_file: Path) -> None:
    """Receive, acknowledge, write."""
    seen: list[tuple[int, int]] = []
    complete = threading.Event()

    def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        now = time.monotonic_ns()
        (sent_at,) = struct.unpack_from(SENT_AT, message.data())
        seen.append((sent_at, now - sent_at))
        consumer.acknowledge(message)
        if len(seen) == count:
            complete.set()

    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    for _ in range(WORKERS):
        client.subscribe(
            topic,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.KeyShared,
            initial_position=pulsar.InitialPosition.Earliest,
            message_listener=received,
        )
    result_file.with_suffix(".ready").touch()
    complete.wait(WAIT_S_MAX)
    unfinished = result_file.with_suffix(".part")
    unfinished.write_text(json.dumps(seen))
    unfinished.rename(result_file)
    client.close()
    end_process()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
