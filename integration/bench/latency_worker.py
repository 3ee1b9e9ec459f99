"""Runs a Key_Shared worker that records the age of each message: `latency_worker URL TOPIC FILE`.

A process for each worker, as in production: workers that share an interpreter wait for each other. When it has
subscribed it makes the file, and appends to it what has come meanwhile, ten times a second: pairs of 64-bit numbers,
sent at and age, in nanoseconds. It runs until it is killed.
"""

from __future__ import annotations

import struct
import sys
import time
from array import array
from pathlib import Path
from typing import Final, NoReturn

import pulsar

SENT_AT: Final = "<q"
"""First bytes of the payload: nanoseconds of the monotonic clock."""
NUMBER: Final = "q"
"""What the file is an array of."""
SUBSCRIPTION: Final = "latency"
WRITE_S: Final = 0.1


def main(service_url: str, topic: str, file: Path) -> NoReturn:
    """Receive, acknowledge, write."""
    seen = array(NUMBER)

    def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        now = time.monotonic_ns()
        (sent_at,) = struct.unpack_from(SENT_AT, message.data())
        seen.extend((sent_at, now - sent_at))
        consumer.acknowledge(message)

    # Named, or the garbage collector could take it and its consumer, which only refer to each other.
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    client.subscribe(
        topic,
        SUBSCRIPTION,
        consumer_type=pulsar.ConsumerType.KeyShared,
        initial_position=pulsar.InitialPosition.Earliest,
        message_listener=received,
    )
    written = 0
    with file.open("ab", buffering=0) as out:
        while True:
            time.sleep(WRITE_S)
            new = seen[written:]
            out.write(new.tobytes())
            written += len(new)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
