"""A soak from start to end: helpers come, the load runs, everything drains, the gateway is looked at all the while."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from integration.errors import IntegrationError
from integration.logs import tail
from integration.processes import OwnedProcess
from integration.soak.child import raise_descriptor_limit, read_samples
from integration.soak.histogram import Histogram
from integration.soak.measure import Footprint, Watch, complaints
from integration.soak.report import SoakResult, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from integration.gateway import KeylineGateway
    from integration.soak.plan import Plan

JOIN_S_MAX: Final = 600.0
DRAIN_S_MAX: Final = 120.0
GONE_S_MAX: Final = 120.0
LOOK_S: Final = 0.2
DESCRIPTORS_SPARE: Final = 200
"""Of the gateway, beside two for each client's connection; the broker needs fewer."""


class Helper:
    """One helper process and its file of samples."""

    def __init__(self, module: str, name: str, directory: Path, arguments: Iterable[str], plan: Plan) -> None:
        """Start it."""
        self.name = name
        self._path = directory / f"{name}.jsonl"
        command = [sys.executable, "-m", f"integration.soak.{module}", *arguments, str(self._path), plan.to_json()]
        self.process = OwnedProcess(command, directory / f"{name}.log")

    def samples(self, kind: str) -> list[dict[str, Any]]:
        """Its samples of one kind so far.

        Raises:
            IntegrationError: it has ended, which it never does by itself.
        """
        if not self.process.running:
            raise IntegrationError(f"{self.name} has ended:\n{tail(self.process.log)}")
        return [sample for sample in read_samples(self._path) if sample["kind"] == kind]

    def finish(self) -> None:
        """Ask for its last sample."""
        self.process.signal(signal.SIGUSR1)


def check_descriptors(plan: Plan) -> None:
    """Allow as many open files as there may be, for us and for all that we start from now on.

    Raises:
        IntegrationError: that is not enough for the plan.
    """
    allowed, needed = raise_descriptor_limit(), 2 * plan.connections + DESCRIPTORS_SPARE
    if allowed < needed:
        raise IntegrationError(f"{needed} open files are needed and {allowed} allowed; raise `ulimit -Hn`")


def soak(gateway: KeylineGateway, plan: Plan, directory: Path, tell: Callable[[str], None]) -> SoakResult:
    """Run the plan against a gateway that runs already.

    Raises:
        IntegrationError: a helper died, or took too long to come.
    """
    plan = replace(plan, service_url=gateway.service_url)
    with ExitStack() as stack:
        watch = Watch(gateway)
        stack.callback(watch.close)
        before = watch.look()
        began = time.monotonic()
        workers = _start_workers(plan, directory, stack)
        _wait(lambda: all(helper.samples("ready") for helper in workers), "all workers to join", JOIN_S_MAX)
        joined_s = time.monotonic() - began
        tell(f"{plan.idle_workers + plan.active_workers:,} workers joined in {joined_s:.0f} s")
        producers = Helper("producers", "producers", directory, [], plan)
        stack.callback(producers.process.stop)
        _wait(lambda: producers.samples("ready"), "the producers", JOIN_S_MAX)
        looks = _watch_load(watch, plan, tell)
        end = _drain(producers, workers)
        latencies = _latencies(workers)
        for helper in workers:
            helper.finish()
        _wait(lambda: all(helper.samples("end") for helper in workers), "the last samples", GONE_S_MAX)
        tally = _tally(end, workers)
        for helper in [producers, *workers]:
            helper.process.stop()
        after = _when_gone(watch, before)
    return SoakResult(
        plan, joined_s, tuple(looks), before.descriptors, after.descriptors, latencies, tally, complaints(gateway.log)
    )


def _start_workers(plan: Plan, directory: Path, stack: ExitStack) -> list[Helper]:
    helpers = []
    for kind, processes in (("active", plan.active_processes), ("idle", plan.idle_processes)):
        for number in range(processes):
            helper = Helper("workers", f"{kind}-{number}", directory, [kind, str(number)], plan)
            stack.callback(helper.process.stop)
            helpers.append(helper)
    return helpers


def _watch_load(watch: Watch, plan: Plan, tell: Callable[[str], None]) -> list[Footprint]:
    began = time.monotonic()
    looks = [watch.look()]
    while (passed := time.monotonic() - began) < plan.seconds:
        time.sleep(min(plan.sample_s, plan.seconds - passed))
        looks.append(watch.look())
        if len(looks) % 12 == 0:
            last = looks[-1]
            tell(f"{passed:.0f} s: {last.resident_bytes >> 20} MiB, {last.descriptors:,} descriptors")
    return looks


def _drain(producers: Helper, workers: list[Helper]) -> dict[str, Any]:
    """Stop producing and let everything be delivered; what is not by then is lost."""
    producers.finish()
    _wait(lambda: producers.samples("end"), "the last receipts", DRAIN_S_MAX)
    end = producers.samples("end")[0]
    if end["failure"] is not None:
        raise IntegrationError(f"producers: {end['failure']}")
    deadline = time.monotonic() + DRAIN_S_MAX
    while sum(_last(helper)["delivered"] for helper in workers) < end["total"] and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return end


def _last(helper: Helper) -> dict[str, Any]:
    samples = helper.samples("sample")
    return samples[-1] if samples else {"delivered": 0}


def _latencies(workers: list[Helper]) -> tuple[Histogram, ...]:
    """The helpers' latencies, interval by interval; they began at about the same time."""
    rows = [helper.samples("sample") for helper in workers if helper.name.startswith("active")]
    merged = []
    for samples in zip(*rows, strict=False):
        total = Histogram()
        for sample in samples:
            total.merge(Histogram(sample["latencies"]))
        if len(total):
            merged.append(total)
    return tuple(merged)


def _tally(end: dict[str, Any], workers: list[Helper]) -> Tally:
    last = [helper.samples("sample")[-1] for helper in workers]
    reached = {(topic, key): n for helper in workers for topic, key, n in helper.samples("end")[0]["next"]}
    lost = [
        f"topic {topic} key {key}: {reached.get((topic, key), 0)} of {sent}"
        for topic, key, sent in end["sent"]
        if reached.get((topic, key), 0) < sent
    ]
    examples = [example for sample in last for example in sample["examples"]]
    losses = tuple(loss for sample in last for loss in sample["losses"])
    names = ("delivered", "duplicates", "violations", "restarts", "refusals", "unasked")
    sums = {name: sum(sample[name] for sample in last) for name in names}
    return Tally(sent=end["total"], examples=tuple(examples[:5]), lost=tuple(lost), losses=losses, **sums)


def _when_gone(watch: Watch, before: Footprint) -> Footprint:
    """The gateway when its clients' connections are closed, or when that takes too long."""
    deadline = time.monotonic() + GONE_S_MAX
    while (look := watch.look()).descriptors > before.descriptors + 10 and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return look


def _wait(condition: Callable[[], object], what: str, deadline_s: float) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise IntegrationError(f"waited {deadline_s:.0f} s for {what}")
        time.sleep(LOOK_S)
