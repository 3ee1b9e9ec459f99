"""Three replicas in owner mode on a real broker, with workers at all of them, and a load with default batching."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

import psutil

from integration.certificates import Authority
from integration.gateway import KeylineGateway, service_url_of
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient
from tests.integration.busy_replicas import leader_of, note_standstills, patiently, settle
from tests.integration.conftest import explain

REPLICAS: Final = 3
WORKERS: Final = tuple(f"w{number}" for number in range(2 * REPLICAS))
MESSAGES: Final = 20_000
KEYS: Final = 300
RATE_PER_S: Final = 2_000.0
TAKING: Final = {"receiver_queue_size": 20, "ack_delay_ms": 2}
"""How a worker takes messages."""


class Role(Enum):
    """What a replica is: whether it owns the subscription, and whether it leads."""

    OWNER = (True, False)
    LEADER = (False, True)
    SIDE = (False, False)
    """It has workers of the subscription, as the others have."""
    OWNER_THAT_LEADS = (True, True)


class Owned:
    """A subscription with workers at each of three replicas, one of which owns it."""

    def __init__(self, gateways: list[KeylineGateway], run: LoadRun, new: Callable[[], KeylineGateway]) -> None:
        self.gateways = gateways
        self.run = run
        self._new = new

    def start_workers(self, *names: str, **options: Any) -> None:
        """Each at the next replica, from which its client may go to any."""
        self._start(names, [service_url_of(self.gateways, number) for number in range(REPLICAS)], options)

    def start_workers_that_stay(self, *names: str) -> None:
        """Likewise, with clients that know of no other replica."""
        self._start(names, [gateway.service_url for gateway in self.gateways], {})

    def _start(self, names: Sequence[str], urls: Sequence[str], options: Mapping[str, Any]) -> None:
        workers = [
            self.run.start_worker(name, **{"service_url": url, **TAKING, **options})
            for name, url in zip(names, itertools.cycle(urls), strict=False)
        ]
        for worker in workers:
            worker.wait_joined()

    @property
    def logs(self) -> list[Path]:
        """The replicas'."""
        return [gateway.log for gateway in self.gateways]

    def add_replica(self) -> KeylineGateway:
        """One more."""
        return self._new()

    def workers(self, gateway: KeylineGateway) -> frozenset[str]:
        """Those that the replica serves, wherever they have come to."""
        return gateway.workers(self.run.topic, SUBSCRIPTION) if gateway.running else frozenset()

    def owner(self) -> KeylineGateway:
        """The replica that serves all workers, as soon as one does."""
        found: list[KeylineGateway] = []

        def serves() -> bool:
            serving = self._serving()
            found[:] = [] if serving is None else [serving]
            return bool(found)

        patiently(serves, "one replica that serves all workers")
        return found[0]

    def leader(self) -> KeylineGateway:
        """The replica that leads, as soon as one says so of itself."""
        return leader_of(self.gateways)

    def replica(self, role: Role) -> KeylineGateway:
        """The first one of this role; where none is, the subscription is moved."""
        owner, leader = self.owner(), self.leader()
        both = role is Role.OWNER_THAT_LEADS
        if (owner is leader) != both:
            owner = next(each for each in self.gateways if (each is leader) == both)
            self._move(owner)
        return next(each for each in self.gateways if (each is owner, each is leader) == role.value)

    def place(self, target: KeylineGateway) -> None:
        """Let this replica own the subscription, if another does; nothing moves any more then."""

        def owns() -> bool:
            if self.owner() is not target:
                self._move(target)
            settle(self.gateways)
            return self.owner() is target

        patiently(owns, "a bundle to stay where it was moved")

    def _move(self, target: KeylineGateway) -> None:
        """Let a replica own the subscription; the order is taken back, and keeps it nowhere."""
        asked = AdminClient(target.admin_url)
        path = f"/subscriptions/{self.run.topic.removeprefix('persistent://')}/{SUBSCRIPTION}/owner"

        def order(replica: str | None) -> bool:
            asked.ask("PUT", path, json={"replica": replica})
            return True

        patiently(lambda: order(f"replica-{self.gateways.index(target)}"), "the order to be taken")
        patiently(lambda: self._serving() is target, "the replica that is named to serve all workers")
        patiently(lambda: order(None), "the order to be taken back")
        everywhere = [AdminClient(gateway.admin_url) for gateway in self.gateways]
        patiently(lambda: not any(each.ask("GET", "/orders") for each in everywhere), "no orders")

    def workers_at(self, gateway: KeylineGateway) -> frozenset[str]:
        """Those whose clients consume over a connection to this replica, whichever serves them."""
        told = self.owner().served(self.run.topic, SUBSCRIPTION)
        assert told is not None
        every = psutil.Process(gateway.pid).net_connections("tcp")
        peers = [each.raddr for each in every if each.status == psutil.CONN_ESTABLISHED]
        clients = {f"{peer.ip}:{peer.port}" for peer in peers}
        return frozenset(name for name, address in told["addresses"] if address in clients)

    def lead_a_worker_to(self, gateway: KeylineGateway) -> None:
        """Where none is there, because they had to connect again, one is started anew until it is."""
        for first in range(REPLICAS):
            if self.workers_at(gateway):
                return
            self.run.stop_worker(WORKERS[0])
            self.run.start_worker(WORKERS[0], service_url=service_url_of(self.gateways, first), **TAKING).wait_joined()

    def _serving(self) -> KeylineGateway | None:
        serving = [gateway for gateway in self.gateways if self.workers(gateway)]
        return serving[0] if len(serving) == 1 and self.workers(serving[0]) == set(WORKERS) else None

    def produce(self) -> None:
        """As clients do by default: many keys in a batch."""
        self.run.produce(
            count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.DEFAULT, batch_messages_max=100
        )

    def finish(self, *causes: Cause, messages: int = MESSAGES) -> AuditResult:
        """All are delivered and acknowledged, in order for each key, and a key is at one worker at a time.

        Nothing comes again but for these causes, and for want of CPU if a replica says that it had none.
        """
        self.run.wait_acknowledged(messages)
        allowed = {*causes, *note_standstills(self.run, *self.logs)}
        result = self.run.finish()
        assert result.ok, explain(result, *self.gateways)
        assert result.delivered == result.acknowledged == messages, explain(result, *self.gateways)
        assert set(result.duplicates_by_cause) <= allowed, explain(result, *self.gateways)
        return result


def tls_settings(directory: Path) -> dict[str, str]:
    """A certificate for all replicas, which both ends of a connection show."""
    authority = Authority(directory, "replicas")
    signed = authority.sign("replica", "replicas.invalid")
    return {
        "replica_tls_certificate_file": str(signed.certificate),
        "replica_tls_key_file": str(signed.key),
        "replica_tls_ca_file": str(authority.file),
    }


@contextmanager
def deployment_of(
    broker: PulsarStandalone, name: str, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Replicas]:
    """Three replicas, see there, which are a deployment of this name; none of their bundles moves any more."""
    with ExitStack() as stack:
        replicas = Replicas(stack, broker, directory, {"group_deployment": name, **(settings or {})})
        replicas.start(REPLICAS)
        settle(replicas.gateways)
        yield replicas


@contextmanager
def subscription_at(replicas: Replicas, broker: PulsarStandalone, topic: str, directory: Path) -> Iterator[Owned]:
    """One with two workers at each replica."""
    url = replicas.gateways[0].service_url
    with LoadRun(directory / "load", url, topic, producer_url=broker.service_url) as run:
        owned = Owned(replicas.gateways, run, replicas.start)
        owned.start_workers(*WORKERS)
        yield owned


@contextmanager
def owned_subscription(
    broker: PulsarStandalone, topic: str, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Owned]:
    """One at a deployment of its own."""
    with (
        deployment_of(broker, topic.rpartition("/")[2], directory, settings) as replicas,
        subscription_at(replicas, broker, topic, directory) as owned,
    ):
        yield owned
