"""The servers of a section: one broker, one gateway in front of it, and how long to measure."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import httpx

from integration.artifacts import DEFAULT_VERSION
from integration.bench.machine import Meter, note, wait_until_quiet
from integration.gateway import KeylineGateway
from integration.java_proxy import JavaProxy, java_proxy
from integration.standalone import PulsarStandalone

Side = Literal["direct", "proxy", "gateway"]
SIDES: Final[tuple[Side, Side]] = ("direct", "gateway")
ALL_SIDES: Final[tuple[Side, Side, Side]] = ("direct", "proxy", "gateway")
"""With Pulsar's own proxy, in Java, between them."""
ADMIN_S_MAX: Final = 60.0
QUIET_SHARE_MAX: Final = 0.15

# As Pulsar's own standalone.conf: without it the bookie reads a backlog entry by entry from its oldest kind of store.
BROKER_SETTINGS: Final = {
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "maxUnackedMessagesPerConsumer": "50000",
    "webSocketServiceEnabled": "true",
}

# By default it leads clients to brokers on their usual ports alone.
PROXY_SETTINGS: Final = {"brokerProxyAllowedTargetPorts": "*", "brokerProxyAllowedIPAddresses": "*"}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    unbatched_messages: int = 300_000
    batched_messages: int = 2_000_000
    large_messages: int = 3_000
    mixed_messages: int = 1_000_000
    mixed_compressed_messages: int = 200_000
    """Of each codec's backlog, and of the one that it is compared with."""
    mixed_trouble_messages: int = 100_000
    repetitions: int = 5
    """Rounds of all sides that count."""
    warm_ups: int = 1
    """Rounds before them that do not: virtual machines compile, caches fill."""
    latency_s: float = 15.0
    relay_messages: int = 50_000
    hand_over_keys: int = 300
    draining_hashes: int = 10_000
    scraped_subscriptions: int = 1_000
    socket_messages: int = 50_000
    waiting_producers: int = 10_000
    promotions: int = 1_000
    between_restarts_s: float = 8.0
    stuck_key_messages: int = 300_000
    """Ten minutes of 500 a second."""
    owner_messages: int = 100_000
    owner_batched_messages: int = 500_000
    idle_subscriptions: tuple[int, ...] = (10, 1_000, 10_000)
    idle_connections: int = 600
    idle_workers: int = 10_000
    idle_worker_subscriptions: int = 2_000
    budget_backlog_bytes: int = 10_000_000_000
    growing_workers: tuple[int, int] = (4, 400)
    growing_keys: tuple[int, int] = (1_000, 1_000_000)
    growing_subscriptions: tuple[int, int] = (1, 1_000)
    micro_messages: int = 5_000
    joined_workers: int = 1_000
    tracked_slots: int = 65_000
    waiting_messages: int = 10_000


QUICK: Final = Sizes(
    unbatched_messages=2_000,
    batched_messages=10_000,
    large_messages=50,
    mixed_messages=10_000,
    mixed_compressed_messages=4_000,
    mixed_trouble_messages=2_000,
    repetitions=1,
    warm_ups=0,
    latency_s=2.0,
    relay_messages=1_000,
    hand_over_keys=40,
    draining_hashes=200,
    scraped_subscriptions=20,
    socket_messages=500,
    waiting_producers=300,
    promotions=30,
    between_restarts_s=2.0,
    stuck_key_messages=5_000,
    owner_messages=2_000,
    owner_batched_messages=10_000,
    idle_subscriptions=(6, 60),
    idle_connections=12,
    idle_workers=200,
    idle_worker_subscriptions=100,
    budget_backlog_bytes=20_000_000,
    growing_workers=(2, 20),
    growing_keys=(100, 2_000),
    growing_subscriptions=(1, 20),
    micro_messages=500,
    joined_workers=30,
    tracked_slots=5_000,
    waiting_messages=500,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """Running servers."""

    broker: PulsarStandalone
    gateway: KeylineGateway
    directory: Path
    """For logs; gone when the stage is left."""
    sizes: Sizes
    quiet_wait_s: float
    """How long to wait for others to leave the machine alone before each repetition."""
    proxy: JavaProxy | None = None
    """Pulsar's own, in sections that measure it, see `with_proxy`."""

    def url(self, side: Side) -> str:
        """Where the clients of this side connect."""
        if side == "proxy":
            assert self.proxy is not None
            return self.proxy.service_url
        return self.broker.service_url if side == "direct" else self.gateway.service_url

    def meter(self, **more: int) -> Meter:
        """A meter of all servers and of `more`."""
        proxy = {} if self.proxy is None else {"proxy": self.proxy.pid}
        return Meter(broker=self.broker.pid, gateway=self.gateway.pid, **proxy, **more)

    def wait_until_quiet(self) -> None:
        """Before a repetition; goes on noisily when the time is up."""
        if self.quiet_wait_s and not wait_until_quiet(QUIET_SHARE_MAX, self.quiet_wait_s):
            note(f"  the machine was never quiet in {self.quiet_wait_s:.0f} s")

    def admin(self, method: str, path: str, content: str | None = None) -> Any:
        """Ask the broker's admin API; JSON of the answer, None without one."""
        headers = {"content-type": "application/json"}
        url = f"{self.broker.admin_url}/admin/v2/{path}"
        with httpx.Client(timeout=ADMIN_S_MAX, trust_env=False) as http:
            answer = http.request(method, url, content=content, headers=headers).raise_for_status()
        return answer.json() if answer.content else None


@contextmanager
def open_stage(
    sizes: Sizes, quiet_wait_s: float, pulsar_version: str = DEFAULT_VERSION, **broker_settings: str
) -> Iterator[Stage]:
    """Start a broker, with `broker_settings` on top of those of all stages, and a gateway; both end with the block."""
    with ExitStack() as ends:
        directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="keyline-bench-")))
        note(f"starting Pulsar {pulsar_version} and the gateway")
        broker = PulsarStandalone(pulsar_version, data=directory / "pulsar", settings=BROKER_SETTINGS | broker_settings)
        ends.enter_context(broker)
        gateway = KeylineGateway(broker.service_url, broker.admin_url, directory / "gateway")
        ends.enter_context(gateway)
        yield Stage(broker, gateway, directory, sizes, quiet_wait_s)


@contextmanager
def with_proxy(stage: Stage) -> Iterator[Stage]:
    """The stage with Pulsar's own proxy in front of its broker, for as long as the block lasts."""
    with java_proxy(stage.broker, stage.directory, PROXY_SETTINGS) as proxy:
        yield replace(stage, proxy=proxy)


def admin_path(topic: str) -> str:
    """The part of an admin URL that names the topic."""
    return topic.replace("://", "/")
