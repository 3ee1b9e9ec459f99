"""Measures what an attack on the gateway does to others: to another subscription's messages, and to /livez.

Each round has seconds without the attack and then as many with it, on the same connections, so that what the attack
adds is told from one run. The attack is a process of its own (`attacks`). The p99 is that of all messages of a phase
and not a median of seconds: a gateway that stands still for some of them must show.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx
import pulsar

from integration.bench.attacks import ATTACKS, GO_SUFFIX, Attack
from integration.bench.latency import RATE, WARM_UP_BLOCKS, produce_block
from integration.bench.latency_workers import LatencyWorkers
from integration.bench.machine import note
from integration.bench.report import Row, Spread, differences, quantile
from integration.errors import IntegrationError
from integration.processes import OwnedProcess
from integration.threads import beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.bench.stage import Stage

BORDER_BLOCKS: Final = 1
"""Seconds just before an attack that do not count: what is under way when it begins, it delays."""
REST_BLOCKS: Final = 3
"""Seconds after an attack that do not count: what it left behind goes meanwhile."""
ASK_EVERY_S: Final = 0.05
ASK_S_MAX: Final = 60.0
P99: Final = 0.99
ADDED_TARGET_MS: Final = 50.0
LIVEZ_TARGET_MS: Final = 100.0
PREPARE_S_MAX: Final = 120.0


@dataclass(slots=True)
class Phase:
    """Seconds in a row with or without the attack."""

    blocks: range
    """Of the messages, by `RATE`."""
    answers_ms: list[float] = field(default_factory=list)
    """What /livez took."""

    def p99_ms(self, ages_ms: list[float]) -> float:
        """Of the messages sent in it; `ages_ms` are those of all, in the order of sending."""
        return quantile(ages_ms[self.blocks.start * RATE : self.blocks.stop * RATE], P99)

    @property
    def livez_p99_ms(self) -> float:
        """Of the answers."""
        return quantile(self.answers_ms, P99)


class Livez:
    """Asks /livez all the time, and writes what that took into the phase that runs."""

    def __init__(self, stage: Stage) -> None:
        """For the gateway of this stage."""
        self.phase: Phase | None = None
        self._url = f"{stage.gateway.admin_url}/livez"

    def asked(self) -> AbstractContextManager[None]:
        """Ask as long as the block runs."""
        return beside(self._ask)

    def _ask(self, over: threading.Event) -> None:
        with httpx.Client(trust_env=False, timeout=ASK_S_MAX) as http:
            while not over.wait(ASK_EVERY_S):
                phase, began = self.phase, time.monotonic()
                try:
                    http.get(self._url).raise_for_status()
                    took_s = time.monotonic() - began
                except httpx.HTTPError:
                    took_s = ASK_S_MAX  # no answer is the slowest
                if phase is not None:
                    phase.answers_ms.append(took_s * 1e3)


def measure(stage: Stage) -> list[Row]:
    """Every attack in turn.

    Raises:
        IntegrationError: workers did not start, or did not get everything.
    """
    return [row for number, attack in enumerate(ATTACKS) for row in _measure_one(stage, attack, number)]


def _measure_one(stage: Stage, attack: Attack, number: int) -> list[Row]:
    seconds, rounds = max(1, int(stage.sizes.latency_s)), stage.sizes.repetitions
    blocks = WARM_UP_BLOCKS + rounds * (seconds + BORDER_BLOCKS + seconds + REST_BLOCKS)
    topic = f"persistent://public/default/bystander-{number}"
    livez = Livez(stage)
    with ExitStack() as ends:
        workers = ends.enter_context(LatencyWorkers(stage, "gateway", topic))
        ends.enter_context(livez.asked())
        producing = ends.enter_context(_producing(stage.broker.service_url, topic))
        producing.run(WARM_UP_BLOCKS)
        phases = [_round(stage, attack, f"{topic}-attacked-{turn}", producing, livez) for turn in range(rounds)]
        ages_ms = workers.ages_ms(blocks * RATE)
    return _rows(attack, phases, ages_ms)


class _Producing:
    """Sends second after second, and knows how many there were."""

    def __init__(self, producer: pulsar.Producer) -> None:
        self._producer = producer
        self._done = 0

    def run(self, blocks: int) -> range:
        """So many seconds; which they are."""
        due = time.monotonic()
        for _ in range(blocks):
            produce_block(self._producer, due)
            due = max(due + 1, time.monotonic())
        self._done += blocks
        return range(self._done - blocks, self._done)

    def phase(self, blocks: int, livez: Livez) -> Phase:
        """So many seconds that count."""
        livez.phase = phase = Phase(range(0))
        phase.blocks = self.run(blocks)
        livez.phase = None
        return phase


@contextmanager
def _producing(service_url: str, topic: str) -> Iterator[_Producing]:
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
        yield _Producing(producer)
    finally:
        client.close()


def _round(stage: Stage, attack: Attack, topic: str, producing: _Producing, livez: Livez) -> tuple[Phase, Phase]:
    """Without, then with the attack, then its end."""
    seconds = max(1, int(stage.sizes.latency_s))
    name = topic.rsplit("/", 1)[1]
    log, ready = (stage.directory / f"{name}.{suffix}" for suffix in ("log", "ready"))
    arguments = ["-m", attack.module, stage.gateway.service_url, stage.broker.service_url, topic, str(ready)]
    process = OwnedProcess([sys.executable, *arguments], log)
    try:
        process.wait_until(ready.exists, "the attack's begin", PREPARE_S_MAX)
        stage.wait_until_quiet()
        quiet = producing.phase(seconds, livez)
        producing.run(BORDER_BLOCKS)
        ready.with_suffix(GO_SUFFIX).touch()
        attacked = producing.phase(seconds, livez)
        if not process.running:
            raise IntegrationError(f"the attack ended by itself: {log.read_text()[-2_000:]}")
    finally:
        process.kill()
    producing.run(REST_BLOCKS)
    return quiet, attacked


def _rows(attack: Attack, phases: list[tuple[Phase, Phase]], ages_ms: list[float]) -> list[Row]:
    without, beside = ([phase.p99_ms(ages_ms) for phase in part] for part in zip(*phases, strict=True))
    calm, asked = ([phase.livez_p99_ms for phase in part] for part in zip(*phases, strict=True))
    note(f"  {attack.name}: p99 {max(without):.1f} ms without, {max(beside):.1f} ms with it")
    messages, answers = (
        Row(
            "bystander",
            f"p99 of {what}, {attack.name}",
            "ms",
            gateway=Spread.of(attacked),
            repetitions=[{"without_ms": quiet, "attacked_ms": attacked}],
        )
        for what, quiet, attacked in (("another's messages", without, beside), ("/livez", calm, asked))
    )
    return [
        messages.with_added(differences(without, beside), ADDED_TARGET_MS),
        answers.with_added(differences(calm, asked)).with_limit(LIVEZ_TARGET_MS),
    ]
