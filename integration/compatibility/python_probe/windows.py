"""Key windows and ack leases, which only a gateway has.

What a worker sees of a key whose first message it gives back twice, and of a message that it holds too long.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pulsar

from integration.compatibility.python_probe.scene import Scene, content, receive

MESSAGES: Final = 5
GIVEN_BACK: Final = 2
"""Times that message 0 is."""
WINDOW: Final = {"keyline.key-window": "1"}
BATCH: Final[dict[str, Any]] = {
    "batching_enabled": True,
    "batching_max_messages": MESSAGES,
    "batching_max_publish_delay_ms": 60_000,
}
ACK_TIMEOUT_MS: Final = 10_000
"""The least that this client allows."""
LEASE_MS: Final = 6_000
ASKED_AFTER_MS: Final = 1_000
"""Far less than the lease: a busy machine may hold up the one that asks."""
EXTENSIONS: Final = 9
"""Times that more time is asked for: for longer than the lease."""


def _seen(scene: Scene, producing: dict[str, Any], give_back: Callable[[pulsar.Consumer, pulsar.Message], None]) -> str:
    """The numbers in the order in which they come, until each is acknowledged."""
    consumer = scene.subscribe(
        properties=WINDOW, negative_ack_redelivery_delay_ms=100, unacked_messages_timeout_ms=ACK_TIMEOUT_MS
    )
    producer = scene.producer(**producing)
    for number in range(MESSAGES):
        producer.send_async(str(number).encode(), _ignore, partition_key="k")
    producer.flush()
    seen: list[str] = []
    acknowledged: set[str] = set()
    while len(acknowledged) < MESSAGES:
        message = receive(consumer)
        text = content(message)
        seen.append(text)
        if text == "0" and seen.count("0") <= GIVEN_BACK:
            give_back(consumer, message)
        else:
            consumer.acknowledge(message)
            acknowledged.add(text)
    return " ".join(seen)


def _ignore(_result: object, _message_id: object) -> None:
    """What was not sent does not come, and that is told."""


def _negatively(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
    consumer.negative_acknowledge(message)


def _in_time(_consumer: pulsar.Consumer, _message: pulsar.Message) -> None:
    """It is not acknowledged."""


def _lease(scene: Scene) -> str:
    """It is kept for as long as more time is asked for, and comes again when it is not."""
    consumer = scene.subscribe(properties={"keyline.ack-lease-ms": str(LEASE_MS)})
    scene.producer().send(b"0", partition_key="k")
    receive(consumer)
    for _ in range(EXTENSIONS):
        with suppress(pulsar.Timeout):
            consumer.receive(timeout_millis=ASKED_AFTER_MS)
            return "lost though extended"
        consumer.get_last_message_id()
    consumer.acknowledge(receive(consumer))
    return "extended, then lost"


WINDOWS: Final[dict[str, Callable[[Scene], str]]] = {
    "window_nack": lambda scene: _seen(scene, {}, _negatively),
    "window_batch": lambda scene: _seen(scene, BATCH, _negatively),
    "window_timeout": lambda scene: _seen(scene, {}, _in_time),
    "ack_lease": _lease,
}
