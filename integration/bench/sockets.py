"""Measures how fast a WebSocket worker drains a backlog: at the broker's service, and at the gateway in both dialects.

The client is the same everywhere and acknowledges each message by itself, but in Keyline's own language, which has a
word for many. It costs about as much as the servers do; so what counts is the gateway's CPU time.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from integration.bench.backlog import fill, subscribe_all
from integration.bench.machine import note
from integration.bench.report import Row, Spread
from integration.bench.socket_drain import command
from integration.bench.stage import admin_path
from integration.errors import IntegrationError
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from integration.bench.stage import Stage

TOPIC: Final = "persistent://public/default/drain-websockets"
BROKERS: Final = "the broker's own service"
PULSARS: Final = "v2, Pulsar's language"
OURS: Final = "v1, binary frames, 50 acknowledgements at once"
RATIO_TARGET: Final = 1.0
CPU_US_TARGET: Final = 60
END_S_MAX: Final = 600.0
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Drain:
    """One repetition."""

    way: str
    seconds: float
    gateway_us: float
    """CPU microseconds of the gateway for each message."""


def measure(stage: Stage) -> list[Row]:
    """Every way in turn."""
    count = stage.sizes.socket_messages
    fill(stage, TOPIC, count, key_batched=False)
    drains: dict[str, list[Drain]] = {BROKERS: [], PULSARS: [], OURS: []}
    for number in range(stage.sizes.warm_ups + stage.sizes.repetitions):
        for index, way in enumerate(drains):
            done = _drain(stage, way, f"s-{number}-{index}", count)
            note(f"  {way} {number}: {count / done.seconds:,.0f}/s, gateway {done.gateway_us:.1f} us per message")
            if number >= stage.sizes.warm_ups:
                drains[way].append(done)
    direct = [drain.seconds for drain in drains[BROKERS]]
    rows = []
    for way, least, most_us in ((PULSARS, RATIO_TARGET, CPU_US_TARGET), (OURS, None, None)):
        seconds = [each.seconds for each in drains[way]]
        drain = Row(
            "websockets",
            f"backlog of {count:,}, {way}",
            "s",
            direct=Spread.of(direct),
            gateway=Spread.of(seconds),
            repetitions=[asdict(each) for each in (*drains[BROKERS], *drains[way])],
        )
        rows.append(drain.with_ratio(direct, seconds, least))
        cpu = Row(
            "websockets",
            f"gateway CPU per message, {way}",
            "us",
            gateway=Spread.of(each.gateway_us for each in drains[way]),
        )
        rows.append(cpu if most_us is None else cpu.with_limit(most_us))
    return rows


def _drain(stage: Stage, way: str, subscription: str, count: int) -> Drain:
    """Raises IntegrationError where the client fails."""
    subscribe_all(stage, TOPIC, [subscription])
    stage.wait_until_quiet()
    log = stage.directory / f"{subscription}.log"
    server = stage.broker.admin_url if way == BROKERS else stage.gateway.admin_url
    client = OwnedProcess(command(server, TOPIC, subscription, count, ours=way == OURS), log)
    try:
        meter = stage.meter()
        deadline = time.monotonic() + END_S_MAX
        while client.running:
            if time.monotonic() > deadline:
                raise IntegrationError(f"{way}: not drained in {END_S_MAX:.0f} s")
            time.sleep(POLL_S)
        words = log.read_text().split()
        if len(words) != 1:
            raise IntegrationError(f"{way}: {log.read_text()[-2_000:]}")
        return Drain(way, float(words[0]), meter.read().cpu_s["gateway"] / count * 1e6)
    finally:
        client.kill()
        stage.admin("DELETE", f"{admin_path(TOPIC)}/subscription/{subscription}?force=true")
