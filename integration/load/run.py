"""One run: producers and workers on one topic, what was done to them, and the audit at its end.

The object owns every process it starts; leaving the block ends them all. What a test does to the gateway or the
broker it announces first (`interruption`), since only what is on record can explain a duplicate.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from integration.errors import IntegrationError
from integration.load.audit import audit
from integration.load.lives import Cause, Interruption
from integration.load.options import ProducerOptions, WorkerOptions
from integration.load.producer import ProducerProcess, ProducerThread
from integration.load.progress import Progress
from integration.load.waits import longest_waits, ways
from integration.load.workers import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from integration.load.audit import AuditResult
    from integration.load.producer import ProducerRecord
    from integration.load.waits import Way

POLL_S: Final = 0.1
QUIET_S_MAX: Final = 150.0
"""A run whose workers acknowledge nothing for so long has stalled; what is missing then is the audit's to say.

Clients whose server is away wait for up to a minute before they try again."""


class StalledError(IntegrationError):
    """A condition was awaited and nothing moved any more."""


class LoadRun:
    """Producers and workers of one topic and subscription."""

    def __init__(self, directory: Path, service_url: str, topic: str, *, producer_url: str | None = None) -> None:
        """Nothing is started yet.

        Args:
            directory: for records and logs; made if missing.
            service_url: what workers connect to, the gateway's or the broker's own.
            topic: full name.
            producer_url: what producers connect to, if something else.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.topic = topic
        self.progress = Progress()
        self.workers: dict[str, WorkerProcess] = {}
        """Those that live, by name."""
        self.producers: list[ProducerProcess | ProducerThread] = []
        self._service_url = service_url
        self._producer_url = producer_url or service_url
        self._lives: list[WorkerProcess] = []
        self._leaving: list[WorkerProcess] = []
        self._interruptions: list[Interruption] = []
        self._records: list[ProducerRecord] = []

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process."""
        self.close()

    def produce(self, *, in_process: bool = True, **options: Any) -> ProducerProcess | ProducerThread:
        """Start a producer; `options` are `ProducerOptions`' but for the URL, the topic and its number."""
        wanted = ProducerOptions(self._producer_url, self.topic, producer=len(self.producers), **options)
        producer = ProducerProcess(wanted, self.directory) if in_process else ProducerThread(wanted)
        self.producers.append(producer)
        return producer

    def start_worker(self, name: str, **options: Any) -> WorkerProcess:
        """Start a worker under a name that no living worker has; it joins in its own time."""
        wanted = replace(WorkerOptions(self._service_url, self.topic, name), seed=len(self._lives), **options)
        worker = WorkerProcess(wanted, self.directory, len(self._lives))
        self._lives.append(worker)
        self.workers[name] = worker
        self.progress.follow(worker.records)
        return worker

    def start_workers(self, *names: str, **options: Any) -> None:
        """Start several and return when all have joined."""
        for worker in [self.start_worker(name, **options) for name in names]:
            worker.wait_joined()

    def stop_worker(self, name: str) -> None:
        """Let a worker leave in peace."""
        self.workers.pop(name).stop()

    def release_worker(self, name: str) -> None:
        """Ask a worker to leave in peace, and do not wait for it; `finish` does."""
        worker = self.workers.pop(name)
        worker.request_stop()
        self._leaving.append(worker)

    def kill_worker(self, name: str) -> None:
        """Kill a worker."""
        self.workers.pop(name).kill()

    def interruption(
        self, cause: Cause, *, acks_lost_since_ns: int | None = None, workers: Collection[str] | None = None
    ) -> None:
        """Say that what the workers, or some of them, are connected to is about to be ended; call it before doing so.

        Name them where others stay connected: what those get is judged as ever.
        """
        names = None if workers is None else frozenset(workers)
        self._interruptions.append(Interruption(cause, time.monotonic_ns(), acks_lost_since_ns, names))

    @contextmanager
    def paused(self, cause: Cause, workers: Collection[str] | None = None) -> Iterator[None]:
        """Say that what some workers, or all, are connected to does not know of others in this block.

        Their connections stay. When the block ends they may be given new messages again, and are judged by them.
        """
        since_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self.was_paused(cause, since_ns, time.monotonic_ns(), workers)

    def was_paused(self, cause: Cause, since_ns: int, until_ns: int, workers: Collection[str] | None = None) -> None:
        """Likewise, of what was found out afterwards."""
        names = None if workers is None else frozenset(workers)
        self._interruptions.append(Interruption(cause, since_ns, workers=names, over_ns=until_ns))

    def wait_until(self, condition: Callable[[], bool], what: str, quiet_s_max: float = QUIET_S_MAX) -> None:
        """Return when the condition holds, looking at it as the workers progress.

        Raises:
            StalledError: it did not hold and no worker acknowledged anything for `quiet_s_max`.
        """
        acknowledged, since = -1, time.monotonic()
        while not condition():
            self.progress.update()
            if self.progress.acknowledged != acknowledged:
                acknowledged, since = self.progress.acknowledged, time.monotonic()
            elif time.monotonic() - since > quiet_s_max:
                raise StalledError(f"waited for {what}: {acknowledged} acknowledged, nothing for {quiet_s_max:.0f} s")
            time.sleep(POLL_S)

    def wait_acknowledged(self, count: int) -> None:
        """Return when so many different messages were acknowledged."""
        self.wait_until(lambda: self.progress.acknowledged >= count, f"{count} acknowledged messages")

    def finish(self, quiet_s_max: float = QUIET_S_MAX) -> AuditResult:
        """Wait for the producers' end and until everything is acknowledged, end the workers, and judge.

        A stall ends the wait; the audit then says what is missing.
        """
        self._records = [producer.record() for producer in self.producers]
        try:
            self.wait_until(lambda: self.progress.outstanding(self._records) == 0, "the rest", quiet_s_max)
        except StalledError as stalled:
            print(stalled)
        for name in list(self.workers):
            self.release_worker(name)
        for worker in self._leaving:
            worker.stop()
        return self.audit()

    def audit(self) -> AuditResult:
        """Judge what is on record."""
        return audit(self._records, [worker.life() for worker in self._lives], self._interruptions)

    def longest_waits(self, since_ns: int = 0, until_ns: int | None = None) -> dict[int, int]:
        """How long each key's worst message was on its way to its first worker, in nanoseconds; see `waits`."""
        return longest_waits([worker.life() for worker in self._lives], since_ns, until_ns)

    def ways(self, since_ns: int, until_ns: int) -> list[Way]:
        """Each message's way to its first worker; see `waits`."""
        return ways([worker.life() for worker in self._lives], since_ns, until_ns)

    @property
    def client_logs(self) -> list[Path]:
        """What the clients of all workers wrote."""
        return [worker.log for worker in self._lives]

    def close(self) -> None:
        """End every process at once."""
        for producer in self.producers:
            if isinstance(producer, ProducerProcess):
                producer.close()
            else:
                producer.stop()
        for worker in self._lives:
            worker.kill()
