"""The workers of one side whose messages' latency is measured: four processes of `latency_worker`, and their files."""

from __future__ import annotations

import sys
from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from integration.bench.drain import WORKERS
from integration.bench.latency_worker import NUMBER
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from integration.bench.stage import Side, Stage

START_S_MAX: Final = 60.0
END_S_MAX: Final = 60.0
RECORD_BYTES: Final = 2 * array(NUMBER).itemsize


@dataclass(frozen=True, slots=True)
class LatencyWorker:
    """A process, and the file of what it has seen."""

    process: OwnedProcess
    file: Path


class LatencyWorkers:
    """Context manager: from the start of their processes, which it waits for, until they are killed."""

    def __init__(self, stage: Stage, side: Side, topic: str) -> None:
        """Workers at that side; the topic's name is that of their files, too."""
        self._workers = [_start(stage, side, topic, number) for number in range(WORKERS)]

    @property
    def processes(self) -> Mapping[str, int]:
        """Their ids, by name."""
        return {each.process.log.stem: each.process.pid for each in self._workers}

    def __enter__(self) -> Self:
        """Wait until all have subscribed.

        Raises:
            IntegrationError: one ended, or took too long.
        """
        with ExitStack() as ends:
            ends.callback(self._end)
            for each in self._workers:
                each.process.wait_until(each.file.exists, "subscribed", START_S_MAX)
            ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill them, and remove what they wrote."""
        self._end()

    def _end(self) -> None:
        for each in self._workers:
            each.process.kill()
            each.file.unlink(missing_ok=True)

    def ages_ms(self, count: int) -> list[float]:
        """Of so many messages, by the order in which they were sent, once all have come.

        Raises:
            IntegrationError: a worker ended, or it took too long.
        """
        files = [each.file for each in self._workers]
        for each in self._workers:
            each.process.wait_until(lambda: _records(files) >= count, f"{count:,} messages at all workers", END_S_MAX)
        return ages_ms(files)


def _records(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files) // RECORD_BYTES


def _start(stage: Stage, side: Side, topic: str, number: int) -> LatencyWorker:
    name = f"{topic.rsplit('/', 1)[1]}-{number}"
    log, file = (stage.directory / f"{name}.{suffix}" for suffix in ("log", "ages"))
    command = [sys.executable, "-m", "integration.bench.latency_worker", stage.url(side), topic, str(file)]
    return LatencyWorker(OwnedProcess(command, log), file)


def ages_ms(files: Sequence[Path]) -> list[float]:
    """What workers wrote, as one, by the order of sending."""
    records: list[tuple[int, int]] = []
    for file in files:
        numbers = array(NUMBER, file.read_bytes())
        records.extend(zip(numbers[0::2], numbers[1::2], strict=True))
    return [age / 1e6 for _, age in sorted(records)]
