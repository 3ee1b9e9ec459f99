"""Three replicas in owner mode on real brokers: workers at all of them, producers with default batching, audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway, service_url_of
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import explain

REPLICAS = 3
WORKERS = tuple(f"w{number}" for number in range(2 * REPLICAS))
MESSAGES = 20_000
KEYS = 300
RATE_PER_S = 2_000.0

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Owned:
    """A subscription with workers at each of three replicas, one of which owns it."""

    def __init__(self, gateways: list[KeylineGateway], run: LoadRun) -> None:
        self.gateways = gateways
        self.run = run

    def workers(self, gateway: KeylineGateway) -> frozenset[str]:
        """Those that the replica serves, wherever they have come to."""
        return gateway.workers(self.run.topic, SUBSCRIPTION) if gateway.running else frozenset()

    def owner(self) -> KeylineGateway:
        """The replica that serves all workers, as soon as one does."""
        eventually(lambda: self._serving() is not None, "one replica that serves all workers")
        owner = self._serving()
        assert owner is not None
        return owner

    def _serving(self) -> KeylineGateway | None:
        serving = [gateway for gateway in self.gateways if self.workers(gateway)]
        return serving[0] if len(serving) == 1 and self.workers(serving[0]) == set(WORKERS) else None

    def produce(self) -> None:
        """As clients do by default: many keys in a batch."""
        self.run.produce(
            count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.DEFAULT, batch_messages_max=100
        )

    def finish(self) -> AuditResult:
        """All are delivered and acknowledged, in order for each key, and a key is at one worker at a time."""
        self.run.wait_acknowledged(MESSAGES)
        result = self.run.finish()
        assert result.ok, explain(result, *self.gateways)
        assert result.delivered == result.acknowledged == MESSAGES, explain(result, *self.gateways)
        return result


@pytest.fixture(params=PULSAR_VERSIONS)
def owned(request: pytest.FixtureRequest, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """On each broker version in turn."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of the replicas of this test\n")
    with ExitStack() as stack:
        broker = stack.enter_context(PulsarStandalone(request.param, data=tmp_path / "pulsar"))
        gateways = [
            KeylineGateway(
                broker.service_url,
                broker.admin_url,
                tmp_path / f"replica-{number}",
                settings={
                    "replica_name": f"replica-{number}",
                    "groups_enabled": "true",
                    "groups_mode": "owner",
                    "replica_listen": f"{LOOPBACK}:{port}",
                    "replica_secret_file": str(secret),
                },
            )
            for number, port in enumerate(free_ports(REPLICAS))
        ]
        for gateway in gateways:
            stack.enter_context(gateway)
        topic = new_topic("owned")
        run = stack.enter_context(
            LoadRun(tmp_path / "load", gateways[0].service_url, topic, producer_url=broker.service_url)
        )
        for number, name in enumerate(WORKERS):
            url = service_url_of(gateways, number % REPLICAS)
            run.start_worker(name, service_url=url, receiver_queue_size=20, ack_delay_ms=2)
        for worker in run.workers.values():
            worker.wait_joined()
        yield Owned(gateways, run)


def test_default_batches_keep_every_key_in_order_and_at_one_worker(owned: Owned) -> None:
    """Whichever replica owns the subscription, and to whichever its workers have come: nothing is repeated either."""
    owned.owner()
    owned.produce()
    result = owned.finish()
    assert not result.duplicates_by_cause, explain(result, *owned.gateways)


def test_an_owner_is_killed(owned: Owned) -> None:
    """The next one delivers again what workers had of it, in order, and nothing else."""
    owned.produce()
    owned.run.wait_acknowledged(MESSAGES // 3)
    owner = owned.owner()
    owned.run.interruption(Cause.GATEWAY_KILLED, workers=frozenset(WORKERS))
    owner.kill()
    owner.start()
    result = owned.finish()
    assert set(result.duplicates_by_cause) <= {Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE}, explain(
        result, *owned.gateways
    )


def test_replicas_are_restarted_one_after_another(owned: Owned) -> None:
    """What a replica owns goes to the others drained; what its own workers have of others may come again."""
    owned.produce()
    for number, gateway in enumerate(owned.gateways):
        owned.run.wait_acknowledged(MESSAGES * (number + 1) // (REPLICAS + 2))
        owned.run.interruption(Cause.GATEWAY_STOPPED, workers=frozenset(WORKERS))
        gateway.restart()
    result = owned.finish()
    causes = {Cause.GATEWAY_STOPPED, Cause.CLIENT_QUEUE}
    assert set(result.duplicates_by_cause) <= causes, explain(result, *owned.gateways)
