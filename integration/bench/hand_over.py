"""Measures how long a key has no worker: from its last acknowledgement at the old one to its next message at the new.

One worker gets a message of every key and keeps them. A second joins, so half the keys move; then a second message of
every key is sent. What goes to neither is a key that drains. These are acknowledged one after the other, and the time
from the bytes of the acknowledgement leaving to the bytes of the next message arriving is measured, on the wire and
without a client's own delays (`raw_worker`). The broker waits 10 ms by default (keySharedUnblockingIntervalMs) and
then reads the message again; the gateway holds it.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.machine import note
from integration.bench.raw_worker import RawWorker, Received
from integration.bench.report import Row, Spread, quantile
from integration.bench.stage import SIDES, Side, Stage
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from integration.bench.machine import Usage

PERMITS: Final = 10_000
SETTLE_S: Final = 1.0
"""Silence after which all that is not blocked counts as delivered."""
NEXT_S_MAX: Final = 10.0
PAUSE_S: Final = 0.005
"""Between two hand-overs, in order that each is one of its own."""
SUBSCRIPTION: Final = "hand-over"
SHARE_TARGET: Final = 0.1
"""Of the direct median."""
P99_TARGET_MS: Final = 1.0


@dataclass(frozen=True, slots=True)
class HandOvers:
    """One repetition, in milliseconds."""

    side: Side
    times_ms: list[float]
    usage: Usage

    def quantile(self, share: float) -> float:
        """The time that this share of hand-overs did not exceed."""
        return quantile(self.times_ms, share)


def measure(stage: Stage) -> list[Row]:
    """Both sides in turn."""
    done: list[HandOvers] = []
    for number in range(stage.sizes.repetitions):
        for side in SIDES:
            stage.wait_until_quiet()
            result = measure_once(stage, side, f"persistent://public/default/hand-over-{side}-{number}")
            note(
                f"  hand-over {side} {number}: {len(result.times_ms)} keys, p50 {result.quantile(0.5):.2f} ms, "
                f"p99 {result.quantile(0.99):.2f} ms; others {result.usage.others_share:.0%}"
            )
            done.append(result)
    return _rows(done)


def measure_once(stage: Stage, side: Side, topic: str) -> HandOvers:
    """Move half of the keys and time each.

    Raises:
        IntegrationError: no key drained, or a message did not come.
    """
    url, keys = stage.url(side), stage.sizes.hand_over_keys
    client = pulsar.Client(stage.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(topic, batching_enabled=False)
        with RawWorker(url, topic, SUBSCRIPTION, "old", PERMITS) as old:
            _send_round(producer, keys)
            held = {message.key: message for message in _settled(old)}
            if len(held) != keys:
                raise IntegrationError(f"the first worker got {len(held)} of {keys} keys")
            with RawWorker(url, topic, SUBSCRIPTION, "new", PERMITS) as new:
                _send_round(producer, keys)
                moved = {message.key for message in [*_settled(old), *_settled(new)]}
                draining = [message for key, message in held.items() if key not in moved]
                meter = stage.meter()
                times = [_hand_over(old, new, message) for message in draining]
                usage = meter.read()
    finally:
        client.close()
    if not times:
        raise IntegrationError("no key was draining")
    return HandOvers(side, times, usage)


def _send_round(producer: pulsar.Producer, keys: int) -> None:
    for number in range(keys):
        producer.send_async(b"x", lambda _result, _message_id: None, partition_key=f"key-{number}")
    producer.flush()


def _settled(worker: RawWorker) -> list[Received]:
    received: list[Received] = []
    while more := worker.take(SETTLE_S):
        received += more
    return received


def _hand_over(old: RawWorker, new: RawWorker, message: Received) -> float:
    """Milliseconds from the acknowledgement to the key's next message."""
    acknowledged_at = old.acknowledge(message.place)
    for following in new.take(NEXT_S_MAX):
        if following.key == message.key:
            time.sleep(PAUSE_S)
            return (following.at - acknowledged_at) * 1e3
    raise IntegrationError(f"the next message of {message.key!r} did not reach the new worker")


def _rows(done: list[HandOvers]) -> list[Row]:
    rows = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        direct = [result.quantile(share) for result in done if result.side == "direct"]
        gateway = [result.quantile(share) for result in done if result.side == "gateway"]
        row = Row(
            "hand-over",
            f"{name}, last ack to next message",
            "ms",
            direct=Spread.of(direct),
            gateway=Spread.of(gateway),
            repetitions=[asdict(result) for result in done],
        )
        compared = row.with_share(direct, gateway, SHARE_TARGET if name == "p50" else None)
        rows.append(compared if name == "p50" else compared.with_limit(P99_TARGET_MS))
    return rows
