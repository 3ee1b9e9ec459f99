"""Runs three replicas in owner mode, finds the owner of a subscription, and measures each replica during a drain."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psutil

from integration import replicas
from integration.bench.drain import watch
from integration.bench.machine import Usage, cpu_s
from integration.bench.raw_worker import RawWorker
from integration.bench.stage import Stage, admin_path
from integration.errors import IntegrationError
from proxy.cli.admin_client import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from integration.gateway import KeylineGateway
    from integration.processes import OwnedProcess

SECTION: Final = "owners"
REPLICAS: Final = 3
SETTLE_S_MAX: Final = 60.0
PROBE_S: Final = 0.1
EVEN: Final = 0.8
"""The least of its even share that every replica has when ownership counts as settled."""


@dataclass(frozen=True, slots=True)
class OwnersDrain:
    """One drained backlog, of which several processes of gateways had a part."""

    messages: int
    seconds: float
    """From the first delivery to a backlog of zero."""
    cpu_s: tuple[float, ...]
    """Of each process, from before the workers came."""
    usage: Usage

    def cpu_us(self, *numbers: int) -> float:
        """CPU microseconds of these processes for each message; of all, if none is named."""
        return sum(self.cpu_s[number] for number in numbers or range(len(self.cpu_s))) / self.messages * 1e6

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def drain_beside(
    stage: Stage,
    statistics: str,
    subscription: str,
    messages: int,
    processes: Sequence[psutil.Process],
    start: Callable[[], list[OwnedProcess]],
) -> OwnersDrain:
    """Let workers that `start` starts drain a subscription, which is gone then; `processes` are the gateways'.

    `statistics` is the path of the topic's at the broker.

    Raises:
        IntegrationError: workers ended, or nothing was acknowledged for a minute.
    """
    stage.wait_until_quiet()
    before = [cpu_s(process) for process in processes]
    workers = start()
    try:
        pids = {f"workers-{number}": process.pid for number, process in enumerate(workers)}
        pids |= {f"gateway-{number}": process.pid for number, process in enumerate(processes)}
        seconds, usage = watch(stage, statistics, subscription, workers, lambda: stage.meter(**pids))
        used = tuple(cpu_s(process) - then for process, then in zip(processes, before, strict=True))
        return OwnersDrain(messages, seconds, used, usage)
    finally:
        for process in workers:
            process.kill()
        stage.admin("DELETE", f"{statistics.rpartition('/')[0]}/subscription/{subscription}?force=true")


class Replicas:
    """The three, running."""

    def __init__(self, stage: Stage, gateways: Sequence[KeylineGateway], ports: Sequence[int]) -> None:
        """`ports` are those for replicas."""
        self.stage = stage
        self.gateways = gateways
        self.ports = ports
        self._asked = AdminClient(gateways[0].admin_url)
        self._names = [AdminClient(each.admin_url).ask("GET", "/deployment")["replica"] for each in gateways]
        self._processes = [psutil.Process(each.pid) for each in gateways]

    def owner(self, topic: str, subscription: str) -> int:
        """The number of the replica that owns it, told by where a worker that takes nothing is led to.

        Raises:
            IntegrationError: none serves it.
        """
        with RawWorker(self.gateways[0].service_url, topic, subscription, "asks", 0):
            serving = [number for number, each in enumerate(self.gateways) if each.workers(topic, subscription)]
        if len(serving) != 1:
            raise IntegrationError(f"{len(serving)} replicas serve {subscription!r} of {topic}")
        return serving[0]

    def own(self, count: int) -> None:
        """Let the first `count` replicas own everything, in even shares, and the others nothing.

        Raises:
            IntegrationError: they do not within a minute.
        """
        for number, name in enumerate(self._names):
            self._asked.ask("DELETE" if number < count else "POST", f"/deployment/replicas/{name}/drain")
        deadline = time.monotonic() + SETTLE_S_MAX
        while not self._settled(count):
            if time.monotonic() > deadline:
                raise IntegrationError(f"{count} replicas do not own everything after {SETTLE_S_MAX:.0f} s")
            time.sleep(PROBE_S)

    def cpu(self) -> tuple[float, ...]:
        """Seconds that each has used since it began."""
        return tuple(cpu_s(process) for process in self._processes)

    def drain(
        self,
        statistics: str,
        topic: str,
        subscription: str,
        messages: int,
        start: Callable[[], list[OwnedProcess]],
    ) -> OwnersDrain:
        """Let workers that `start` starts drain a subscription, which is gone then.

        `statistics` is the last part of the path of the topic's at the broker: another one for a partitioned topic.

        Raises:
            IntegrationError: workers ended, or nothing was acknowledged for a minute.
        """
        path = f"{admin_path(topic)}/{statistics}"
        return drain_beside(self.stage, path, subscription, messages, self._processes, start)

    def _settled(self, count: int) -> bool:
        told: Any = self._asked.ask("GET", "/deployment")
        bundles = {row["replica"]: row["bundles"] for row in told["replicas"]}
        owned = [bundles.get(name, 0) for name in self._names]
        return not any(owned[count:]) and min(owned[:count]) >= EVEN * sum(owned) / count


@contextmanager
def replicas_of(stage: Stage) -> Iterator[Replicas]:
    """Start three replicas that share a secret; they end with the block."""
    with ExitStack() as ends:
        started = replicas.Replicas(ends, stage.broker, stage.directory)
        started.start(REPLICAS)
        owners = Replicas(stage, started.gateways, started.ports)
        owners.own(REPLICAS)
        yield owners
