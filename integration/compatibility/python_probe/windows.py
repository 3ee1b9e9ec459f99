"""Key windows, retry delays and ack leases, which only a gateway has.

What a worker sees of a key whose first message it gives back twice, of a message that it holds too long, and of one
that it acknowledges after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import pulsar

from integration.compatibility.python_probe.scene import (
    PATIENCE_S,
    Scene,
    content,
    expect,
    receive,
    receive_numbers,
)

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
LEASE: Final = {"keyline.ack-lease-ms": str(LEASE_MS)}
ASKED_AFTER_MS: Final = 1_000
"""Far less than the lease: a busy machine may hold up the one that asks."""
EXTENSIONS: Final = 9
"""Times that more time is asked for: for longer than the lease."""
CONNECTED_EACH_S: Final = 0.05
RETRY_MS: Final = 1_500
RETRY_MAX_MS: Final = 3_000
GROWING: Final = {"keyline.retry-delay-ms": str(RETRY_MS), "keyline.retry-multiplier": "2"}
CAPPED: Final = {
    "keyline.retry-delay-ms": str(RETRY_MS),
    "keyline.retry-multiplier": "100",
    "keyline.retry-delay-max-ms": str(RETRY_MAX_MS),
}
"""Without its bound the second delay would be longer than anybody waits here."""
LONGEST_DELAYS_MS: Final = (RETRY_MS, RETRY_MAX_MS)
"""What either makes of the first delay and of the second."""


def _seen(
    scene: Scene,
    producing: dict[str, Any],
    give_back: Callable[[pulsar.Consumer, pulsar.Message], None],
    retrying: Mapping[str, str] | None = None,
) -> str:
    """The numbers in the order in which they come, until each is acknowledged; none before its delay is over."""
    consumer = scene.subscribe(
        properties={**WINDOW, **(retrying or {})},
        negative_ack_redelivery_delay_ms=100,
        unacked_messages_timeout_ms=ACK_TIMEOUT_MS,
    )
    _send(scene.producer(**producing), range(MESSAGES))
    seen: list[str] = []
    acknowledged: set[str] = set()
    not_before_s = 0.0
    while len(acknowledged) < MESSAGES:
        message = receive(consumer)
        text = content(message)
        seen.append(text)
        early_s = not_before_s - time.monotonic()
        expect(early_s <= 0, f"{' '.join(seen)}: the last came {early_s:.3f} s before its delay was over")
        if text == "0" and seen.count("0") <= GIVEN_BACK:
            delay_ms = LONGEST_DELAYS_MS[seen.count("0") - 1] if retrying else 0
            not_before_s = time.monotonic() + delay_ms / 1e3
            give_back(consumer, message)
        else:
            consumer.acknowledge(message)
            acknowledged.add(text)
    return " ".join(seen)


def _send(producer: pulsar.Producer, numbers: range) -> None:
    for number in numbers:
        producer.send_async(str(number).encode(), _ignore, partition_key="k")
    producer.flush()


def _ignore(_result: object, _message_id: object) -> None:
    """What was not sent does not come, and that is told."""


def _negatively(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
    consumer.negative_acknowledge(message)


def _in_time(_consumer: pulsar.Consumer, _message: pulsar.Message) -> None:
    """It is not acknowledged."""


def _lease(scene: Scene) -> str:
    """It is kept for as long as more time is asked for, and comes again when it is not."""
    consumer = scene.subscribe(properties=LEASE)
    scene.producer().send(b"0", partition_key="k")
    receive(consumer)
    for _ in range(EXTENSIONS):
        with suppress(pulsar.Timeout):
            consumer.receive(timeout_millis=ASKED_AFTER_MS)
            return "lost though extended"
        consumer.get_last_message_id()
    consumer.acknowledge(receive(consumer))
    return "extended, then lost"


def _late_ack(scene: Scene, producing: dict[str, Any]) -> str:
    """What comes again when the worker leaves that has what another one lost with its lease, and acknowledged then.

    That one's client is connected again by then. It closes its consumer before the other leaves, so that nothing which
    it acknowledged is still on its way.
    """
    late = scene.subscribe(properties=LEASE, consumer_name="late")
    producer = scene.producer(**producing)
    _send(producer, range(MESSAGES))
    lost = receive_numbers(late, MESSAGES, acknowledge=False)
    other = scene.subscribe(properties=LEASE, consumer_name="other")
    receive_numbers(other, MESSAGES, acknowledge=False)
    _wait_connected(late)
    other.get_last_message_id()  # it asks for more time
    for message in lost:
        late.acknowledge(message)
    late.close()
    again = scene.subscribe(properties=LEASE, consumer_name="late")
    _send(producer, range(MESSAGES, MESSAGES + 1))
    other.close()
    return " ".join(content(message) for message in receive_numbers(again, MESSAGES + 1))


def _wait_connected(consumer: pulsar.Consumer) -> None:
    """Only a consumer that the gateway has is told the last message id."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            consumer.get_last_message_id()
        except pulsar.PulsarException:
            expect(time.monotonic() < deadline, "the consumer is not connected again")
            time.sleep(CONNECTED_EACH_S)
        else:
            return


WINDOWS: Final[dict[str, Callable[[Scene], str]]] = {
    "window_nack": lambda scene: _seen(scene, {}, _negatively),
    "window_batch": lambda scene: _seen(scene, BATCH, _negatively),
    "window_timeout": lambda scene: _seen(scene, {}, _in_time),
    "retry_growing": lambda scene: _seen(scene, {}, _negatively, GROWING),
    "retry_capped": lambda scene: _seen(scene, BATCH, _negatively, CAPPED),
    "ack_lease": _lease,
    "late_ack": lambda scene: _late_ack(scene, {}),
    "late_batch": lambda scene: _late_ack(scene, BATCH),
}
