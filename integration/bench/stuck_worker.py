"""Four Key_Shared workers that acknowledge all keys but one: `stuck_worker URL TOPIC SUBSCRIPTION KEY`.

They run until they are killed.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pulsar

from integration.bench.drain import WORKERS
from integration.load.client import OPERATION_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable


def main(service_url: str, topic: str, subscription: str, stuck: str) -> None:
    """Subscribe all and leave the rest to their listeners."""
    clients = []
    for _ in range(WORKERS):
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
        clients.append(pulsar.Client(service_url, operation_timeout_seconds=OPERATION_TIMEOUT_S, logger=logger))
        clients[-1].subscribe(
            topic,
            subscription,
            consumer_type=pulsar.ConsumerType.KeyShared,
            initial_position=pulsar.InitialPosition.Earliest,
            message_listener=listener(stuck),
        )
    while True:
        time.sleep(1)


def listener(stuck: str) -> Callable[[pulsar.Consumer, pulsar.Message], None]:
    """What each does with a message."""

    def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        if message.partition_key() != stuck:
            try:
                consumer.acknowledge(message)
            except (pulsar.AlreadyClosed, pulsar.NotConnected):
                return  # the gateway is away: the message comes again

    return received


if __name__ == "__main__":
    main(*sys.argv[1:])
