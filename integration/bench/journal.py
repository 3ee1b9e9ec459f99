"""Measures what the journal adds to a drain: gateways without one, and with one that records each message, in turn.

In this section's rows "direct" is the gateway without a journal. The files go to the bench's own directory; CPU is that
of the gateway's whole process, the writer's thread included.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from integration.bench.backlog import MESSAGES_PER_BATCH, fill
from integration.bench.drain import Drain, drain_once
from integration.bench.drains import KEY_BATCHED, UNBATCHED, Kind
from integration.bench.machine import note
from integration.bench.report import Row, Spread, differences
from integration.gateway import KeylineGateway

if TYPE_CHECKING:
    from integration.bench.stage import Stage

ADDED_TARGET_US: Final = 3.0


def measure(stage: Stage) -> list[Row]:
    """Both kinds of backlog."""
    with ExitStack() as ends:
        journaled = ends.enter_context(
            KeylineGateway(
                stage.broker.service_url,
                stage.broker.admin_url,
                stage.directory / "journaled",
                settings={"journal": str(stage.directory / "journal"), "journal_deliveries": "true"},
            )
        )
        both = {"without": stage, "with": replace(stage, gateway=journaled)}
        return [
            *_measure_kind(both, UNBATCHED),
            *_measure_kind(both, KEY_BATCHED),
        ]


def _measure_kind(both: dict[str, Stage], kind: Kind) -> list[Row]:
    stage = both["without"]
    count = kind.messages(stage)
    topic = f"persistent://public/default/journal-{kind.name}"
    fill(stage, topic, count, key_batched=kind.key_batched)
    drains: dict[str, list[Drain]] = {name: [] for name in both}
    for number in range(stage.sizes.warm_ups + stage.sizes.repetitions):
        counts = number >= stage.sizes.warm_ups
        for name, of_one in both.items():
            done = drain_once(of_one, topic, f"{name}-{number}", "gateway", count)
            note(f"  {kind.name} {name} {number}{'' if counts else ' (warm-up)'}: {done.seconds:.1f} s")
            if counts:
                drains[name].append(done)
    return _rows(kind, drains["without"], drains["with"])


def _rows(kind: Kind, without: list[Drain], recorded: list[Drain]) -> list[Row]:
    section = f"journal {kind.name}"
    cpu = [done.cpu_us("gateway") for done in without], [done.cpu_us("gateway") for done in recorded]
    seconds = [done.seconds for done in without], [done.seconds for done in recorded]
    batches = f", {MESSAGES_PER_BATCH} to a batch" if kind.key_batched else ""
    return [
        Row(
            section,
            f"gateway CPU per message{batches}, without and with a record of messages",
            "us",
            direct=Spread.of(cpu[0]),
            gateway=Spread.of(cpu[1]),
            repetitions=[asdict(done) for done in (*without, *recorded)],
        ).with_added(differences(*cpu), ADDED_TARGET_US),
        Row(section, "backlog, likewise", "s", direct=Spread.of(seconds[0]), gateway=Spread.of(seconds[1])).with_ratio(
            *seconds
        ),
        Row(
            section,
            "gateway memory, peak resident, likewise",
            "MiB",
            direct=Spread.of(done.gateway_peak_mib for done in without),
            gateway=Spread.of(done.gateway_peak_mib for done in recorded),
        ),
    ]
