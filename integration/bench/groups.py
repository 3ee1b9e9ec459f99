"""Measures what idle groups cost two replicas and the broker: heartbeats, CPU time and memory.

The first replica has a worker in every group before the second has any, so that it leads all of them, and hands leading
over until each leads about half: that is what is measured. The same subscriptions at the gateway that is alone are what
sharing adds to. No message is sent meanwhile; one connection carries all workers of a replica.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx

from integration.bench import frames_made
from integration.bench.machine import note, resident_bytes
from integration.bench.raw_worker import RawWorker, kept_alive
from integration.bench.report import Row, Spread
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from integration.bench.machine import Usage
    from integration.bench.stage import Stage

REPLICAS: Final = ("first", "second")
EVEN: Final = 0.2
"""Groups, as a share of all, that one replica may lead more than the other when leaders count as even."""
SHARE: Final = 10
"""Groups are so many times fewer than the subscriptions of the section on scrapes."""
TOPICS: Final = "persistent://public/default/groups"
MAIL: Final = "keyline-groups-"
"""What names of topics contain that carry messages between replicas."""
SETTLE_S_MAX: Final = 120.0
PROBE_S: Final = 0.5
QUIET_S: Final = 3.0
"""After everything has settled, and before the first measurement of a process that has just started."""


def measure(stage: Stage) -> list[Row]:
    """CPU time and memory of each group at each replica, and what passes through the broker."""
    count = stage.sizes.scraped_subscriptions // SHARE
    with ExitStack() as ends:
        replicas = {name: _replica(stage, name, ends) for name in REPLICAS}
        watched = {"alone": stage.gateway, **replicas}
        time.sleep(QUIET_S)
        empty = _idle(stage, watched)
        resident = {name: resident_bytes(gateway.pid) for name, gateway in watched.items()}
        with _workers(stage.gateway, f"{TOPICS}-alone", count):
            time.sleep(QUIET_S)
            alone = _idle(stage, {"alone": stage.gateway})
            held = {"alone": resident_bytes(stage.gateway.pid) - resident["alone"]}
        first, second = replicas.values()
        ends.enter_context(_workers(first, TOPICS, count))
        _wait(lambda: _led(first) == count, "one replica to lead all groups")
        began = time.monotonic()
        ends.enter_context(_workers(second, TOPICS, count))
        _wait(lambda: all(_settled(gateway, count) for gateway in replicas.values()), "all groups to settle")
        settled_s = time.monotonic() - began
        _wait(lambda: _led(first) - _led(second) <= EVEN * count, "the second replica to lead its share")
        even_s = time.monotonic() - began
        stage.wait_until_quiet()
        time.sleep(QUIET_S)
        before = mail(stage)
        idle = _idle(stage, replicas)
        messages, size = (now - then for now, then in zip(mail(stage), before, strict=True))
        held |= {name: resident_bytes(gateway.pid) - resident[name] for name, gateway in replicas.items()}
    note(f"  {count:,} groups of two replicas settled in {settled_s:.1f} s")
    group_seconds = idle.elapsed_s * count

    def cpu(of: str, usage: Usage, base: Usage) -> float:
        return (usage.cpu_s[of] / usage.elapsed_s - base.cpu_s[of] / base.elapsed_s) * 1e6 / count

    return [
        _row("CPU of an idle group, at each replica", "us/s", sum(cpu(each, idle, empty) for each in REPLICAS) / 2),
        _row("CPU of an idle subscription, at a gateway alone", "us/s", cpu("alone", alone, empty)),
        _row("CPU of an idle group of two replicas, at the broker", "us/s", cpu("broker", idle, empty)),
        _row("memory of a group, at each replica", "KiB", sum(held[each] for each in REPLICAS) / 2 / count / 1024),
        _row("memory of a subscription, at a gateway alone", "KiB", held["alone"] / count / 1024),
        _row("messages between two replicas, of a group", "1/s", messages / group_seconds),
        _row("size of such a message", "bytes", size / max(messages, 1)),
        _row(f"{count:,} groups: workers of the second replica come until streams are even", "s", settled_s),
        _row(f"{count:,} groups: likewise, until leaders are", "s", even_s),
    ]  # fmt: skip


def _row(measured: str, unit: str, value: float) -> Row:
    return Row("groups", measured, unit, gateway=Spread.of([value]))


def _replica(stage: Stage, name: str, ends: ExitStack) -> KeylineGateway:
    settings = {"groups_enabled": "true", "groups_mode": "streams", "replica_name": name}
    directory = stage.directory / name
    gateway = KeylineGateway(stage.broker.service_url, stage.broker.admin_url, directory, settings=settings)
    return ends.enter_context(gateway)


def _idle(stage: Stage, gateways: Mapping[str, KeylineGateway]) -> Usage:
    """What is used while nothing happens."""
    meter = stage.meter(**{name: gateway.pid for name, gateway in gateways.items()})
    time.sleep(stage.sizes.latency_s)
    return meter.read()


@contextmanager
def _workers(gateway: KeylineGateway, topics: str, count: int) -> Iterator[None]:
    """A worker of each group at this replica, all on one connection that is kept alive."""
    with RawWorker(gateway.service_url, f"{topics}-1", "shared", "w", 1) as crowd:
        for number in range(2, count + 1):
            crowd.request(frames_made.subscribe(number, "w", f"{topics}-{number}", "shared"))
        with kept_alive(crowd):
            yield


def _groups(gateway: KeylineGateway) -> list[dict[str, Any]]:
    answer = httpx.get(f"{gateway.admin_url}/api/v1/groups?limit=1000", timeout=SETTLE_S_MAX, trust_env=False)
    groups: list[dict[str, Any]] = answer.raise_for_status().json()["groups"]
    return groups


def _led(gateway: KeylineGateway) -> int:
    return sum(group["leads"] for group in _groups(gateway))


def _settled(gateway: KeylineGateway, count: int) -> bool:
    """Whether it has half of the streams of every group, and is giving none back."""
    groups = _groups(gateway)
    even = [2 * group["streams_here"] == group["streams_count"] for group in groups if not group["streams_releasing"]]
    return even.count(True) == count


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SETTLE_S_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise IntegrationError(f"waited {SETTLE_S_MAX:.0f} s for {what}")
        time.sleep(PROBE_S)


def mail(stage: Stage) -> tuple[int, int]:
    """Messages that replicas have sent each other since the broker knows them, and their bytes."""
    counts, sizes = 0, 0
    for topic in stage.admin("GET", "non-persistent/public/default"):
        if MAIL in topic:
            found = stage.admin("GET", f"{topic.replace('://', '/')}/stats")
            counts, sizes = counts + found["msgInCounter"], sizes + found["bytesInCounter"]
    return counts, sizes
