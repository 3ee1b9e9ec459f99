"""Measures the relay's cost: a producer's messages relayed frame by frame, and the same sent directly.

Everything that is no Key_Shared worker takes this way: producers, readers, other subscription types. A second gateway
has no bound on its turns (`turns_per_s_max = 0`), which shows what the bound saves. Both gateways run before all other
processes if the bench has the right to that (it has as root): else a busy machine wakes them late, when many messages
have gathered, and hides what they cost.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

import pulsar

from integration.bench.backlog import send
from integration.bench.frames_made import PAYLOAD_BYTES
from integration.bench.machine import note, put_first
from integration.bench.report import Row, Spread
from integration.bench.stage import Side, Stage, with_proxy
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway

if TYPE_CHECKING:
    from integration.bench.machine import Usage

PENDING_MAX: Final = 5_000
TARGET_US: Final = 4.0
"""Of the gateway's CPU for a message and its receipt."""
UNBOUND: Final = "unbound"
Way = Literal["direct", "proxy", "gateway", "unbound"]
"""The last is the gateway whose turns have no bound."""


@dataclass(frozen=True, slots=True)
class Production:
    """One repetition."""

    way: Way
    messages: int
    seconds: float
    usage: Usage

    @property
    def gateway_us(self) -> float:
        """CPU microseconds of the gateway for each message with its receipt."""
        return self.usage.cpu_s["gateway"] / self.messages * 1e6

    @property
    def broker_us(self) -> float:
        """CPU microseconds of the broker for each."""
        return self.usage.cpu_s["broker"] / self.messages * 1e6


def measure(stage: Stage) -> list[Row]:
    """All ways in turn."""
    done: list[Production] = []
    sizes = stage.sizes
    broker, settings = stage.broker, {"turns_per_s_max": "0"}
    unbound_gateway = KeylineGateway(broker.service_url, broker.admin_url, stage.directory / UNBOUND, settings=settings)
    with unbound_gateway, with_proxy(stage) as stage_of_all:
        unbound = replace(stage, gateway=unbound_gateway)
        if not all([put_first(stage.gateway.pid), put_first(unbound_gateway.pid)]):
            note("  no right to run the gateways first: on a busy machine they will seem cheaper than they are")
        for number in range(sizes.warm_ups + sizes.repetitions):
            results = [
                produce_once(stage, "direct", "direct", sizes.relay_messages),
                produce_once(stage_of_all, "proxy", "proxy", sizes.relay_messages),
                produce_once(stage, "gateway", "gateway", sizes.relay_messages),
                produce_once(unbound, "gateway", UNBOUND, sizes.relay_messages),
            ]
            done += results if number >= sizes.warm_ups else []
    return rows_of(done)


def produce_once(stage: Stage, side: Side, way: Way, count: int) -> Production:
    """Send unbatched messages without waiting for each.

    Raises:
        IntegrationError: a message was refused.
    """
    stage.wait_until_quiet()
    client = pulsar.Client(stage.url(side), logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(
            f"persistent://public/default/produce-{way}",
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
        raise IntegrationError(f"{len(refused)} messages were refused, {way}, the first with {refused[0]}")
    result = Production(way, count, seconds, usage)
    note(
        f"  produce {way}: {seconds:.1f} s, gateway {result.gateway_us:.1f} us; "
        f"others {usage.others_share:.0%}, reference {usage.reference_ns:.0f} ns"
    )
    return result


def rows_of(done: list[Production]) -> list[Row]:
    """Times beside each other, and what a message costs the gateway and the broker."""
    direct, proxy, gateway, unbound = ([result for result in done if result.way == way] for way in get_args(Way))
    times = [result.seconds for result in direct], [result.seconds for result in gateway]
    return [
        Row(
            "relay",
            f"producing {done[0].messages:,} x {PAYLOAD_BYTES} B unbatched",
            "s",
            direct=Spread.of(times[0]),
            proxy=Spread.of(result.seconds for result in proxy),
            gateway=Spread.of(times[1]),
            repetitions=[asdict(result) for result in done],
        ).with_ratio(*times),
        Row(
            "relay",
            "CPU of gateway or proxy per message, receipt included",
            "us",
            proxy=Spread.of(result.usage.cpu_s["proxy"] / result.messages * 1e6 for result in proxy),
            gateway=Spread.of(result.gateway_us for result in gateway),
        ).with_limit(TARGET_US),
        Row(
            "relay",
            "the same without a bound on turns",
            "us",
            gateway=Spread.of(result.gateway_us for result in unbound),
        ),
        Row(
            "relay",
            "broker's CPU per message",
            "us",
            direct=Spread.of(result.broker_us for result in direct),
            proxy=Spread.of(result.broker_us for result in proxy),
            gateway=Spread.of(result.broker_us for result in gateway),
        ),
    ]
