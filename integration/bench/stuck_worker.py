"""Four Key_Shared workers that acknowledge all keys but one: `stuck_worker URL TOPIC SUBSCRIPTION KEY`.

They run until they are killed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pulsar

from integration.bench.listening_workers import listen

if TYPE_CHECKING:
    from collections.abc import Callable


def main(service_url: str, topic: str, subscription: str, stuck: str) -> None:
    """Run them."""
    listen(service_url, topic, subscription, lambda _: listener(stuck))


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
