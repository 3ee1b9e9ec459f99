"""Four Key_Shared workers of which some make trouble: `mixed_worker URL TOPIC SUBSCRIPTION NACKED_EVERY SLOW_US`.

Of the messages that come for the first time one in NACKED_EVERY is negatively acknowledged, none if it is 0, and the
first worker takes SLOW_US microseconds for each message. They run until they are killed.
"""

from __future__ import annotations

import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.listening_workers import listen

if TYPE_CHECKING:
    from collections.abc import Callable

REDELIVERY_DELAY_MS: Final = 1_000
"""After a negative acknowledgement; by default the clients wait a minute."""


def main(service_url: str, topic: str, subscription: str, nacked_every: int, slow_us: int) -> None:
    """Run them."""
    listen(
        service_url,
        topic,
        subscription,
        lambda number: listener(nacked_every, 0 if number else slow_us),
        negative_ack_redelivery_delay_ms=REDELIVERY_DELAY_MS,
    )


def listener(nacked_every: int, slow_us: int) -> Callable[[pulsar.Consumer, pulsar.Message], None]:
    """What one worker does with a message."""
    numbers = count(1)

    def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        if slow_us:
            time.sleep(slow_us / 1e6)
        if nacked_every and not message.redelivery_count() and not next(numbers) % nacked_every:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)

    return received


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
