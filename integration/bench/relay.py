"""Measures the relay's cost: a producer's messages relayed frame by frame, and the same sent directly.

Everything that is no Key_Shared worker takes this way: producers, readers, other subscription types.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.backlog import send
from integration.bench.frames_made import PAYLOAD_BYTES
from integration.bench.machine import note
from integration.bench.report import Row, Spread
from integration.bench.stage import SIDES, Side, Stage
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from integration.bench.machine import Usage

PENDING_MAX: Final = 5_000


@dataclass(frozen=True, slots=True)
class Production:
    """One repetition."""

    side: Side
    messages: int
    seconds: float
    usage: Usage

    @property
    def gateway_us(self) -> float:
        """CPU microseconds of the gateway for each message with its receipt."""
        return self.usage.cpu_s["gateway"] / self.messages * 1e6


def measure(stage: Stage) -> list[Row]:
    """Both sides in turn."""
    done: list[Production] = []
    sizes = stage.sizes
    for number in range(sizes.warm_ups + sizes.repetitions):
        for side in SIDES:
            result = produce_once(stage, side, sizes.relay_messages)
            note(
                f"  produce {side} {number}: {result.seconds:.1f} s, gateway {result.gateway_us:.1f} us; "
                f"others {result.usage.others_share:.0%}, reference {result.usage.reference_ns:.0f} ns"
            )
            if number >= sizes.warm_ups:
                done.append(result)
    return _rows(done)


def produce_once(stage: Stage, side: Side, count: int) -> Production:
    """Send unbatched messages without waiting for each.

    Raises:
        IntegrationError: a message was refused.
    """
    stage.wait_until_quiet()
    client = pulsar.Client(stage.url(side), logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(
            f"persistent://public/default/produce-{side}",
            batching_enabled=False,
            block_if_queue_full=True,
            max_pending_messages=PENDING_MAX,
        )
        meter = stage.meter()
        began = time.monotonic()
        refused = send(producer, count)
        seconds = time.monotonic() - began
        usage = meter.read()
        producer.close()
    finally:
        client.close()
    if refused:
        raise IntegrationError(f"{len(refused)} messages were refused through {side}, the first with {refused[0]}")
    return Production(side, count, seconds, usage)


def _rows(done: list[Production]) -> list[Row]:
    direct = [result for result in done if result.side == "direct"]
    gateway = [result for result in done if result.side == "gateway"]
    times = [result.seconds for result in direct], [result.seconds for result in gateway]
    return [
        Row(
            "relay",
            f"producing {done[0].messages:,} x {PAYLOAD_BYTES} B unbatched",
            "s",
            direct=Spread.of(times[0]),
            gateway=Spread.of(times[1]),
            repetitions=[asdict(result) for result in done],
        ).with_ratio(*times),
        Row(
            "relay",
            "gateway CPU per message, receipt included",
            "us",
            gateway=Spread.of(result.gateway_us for result in gateway),
        ),
    ]
