"""SIGKILL of each part under load: duplicates at most, each with a cause; nothing lost, first deliveries in order.

And guarantee G4: a broker's death behind a living gateway is not noticed by workers. They keep their connections and
get no message twice, although a broker that comes back has forgotten the latest acknowledgements.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from integration.artifacts import DEFAULT_VERSION
from integration.gateway import KeylineGateway
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain
from tests.integration.exclusive_rig import Scene
from tests.integration.redriver import Redriver

MESSAGES = 24_000
KEYS = 1_000
KILLS = 3
WORKERS = ("w1", "w2", "w3")
RECEIVER_QUEUE_SIZE = 200
PARKED_MESSAGES = 2_000
PARKED_KEYS = 40
SHARED_AND_PARKED = {
    "key_window": "1",
    "key_share_percent": "1",
    "park_after": "1",
    "look_ahead_messages_per_worker": "100",
}
"""A share of three messages for a key."""
BROKER_ACKS_LOST_NS = 60_000_000_000
"""A killed broker forgets acknowledgements it has not written yet; it writes them about once a second."""
REVIVED_S_MAX = 180.0

OF_A_WORKER = {Cause.WORKER_KILLED, Cause.BATCH_UNFINISHED}
OF_THE_GATEWAY = {Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE, Cause.BATCH_UNFINISHED, Cause.SENT_TWICE}

pytestmark = [pytest.mark.slow, pytest.mark.broker]
both_ways = pytest.mark.parametrize("batching", [Batching.NONE, Batching.DEFAULT], ids=lambda batching: batching.value)


def start_load(run: LoadRun, batching: Batching) -> None:
    """Three workers and a producer that has enough for the whole test."""
    run.start_workers(*WORKERS, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
    run.produce(count=MESSAGES, keys=KEYS, batching=batching, run_length=1 if batching is Batching.NONE else 5)


def wait_for_kill(run: LoadRun, number: int) -> None:
    """Return when the load is so far that the kills are spread over all of it."""
    run.wait_acknowledged(MESSAGES * (number + 1) // (KILLS + 2))


def check(result: AuditResult, causes: set[Cause], gateway: KeylineGateway) -> None:
    """Complete, in order, and repeated for no other causes than these."""
    assert result.ok, explain(result, gateway)
    assert result.delivered == result.acknowledged == MESSAGES, explain(result, gateway)
    assert set(result.duplicates_by_cause) <= causes, explain(result, gateway)


@both_ways
def test_workers_are_killed_under_load(
    batching: Batching, gateway: KeylineGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """What a dead worker held goes to the keys' next owners, before anything newer of those keys."""
    with LoadRun(tmp_path, gateway.service_url, new_topic("killed-workers")) as run:
        start_load(run, batching)
        for number in range(KILLS):
            wait_for_kill(run, number)
            run.kill_worker(WORKERS[number])
            run.start_workers(WORKERS[number], receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        result = run.finish()
    assert result.connections_lost == 0, explain(result, gateway)
    check(result, OF_A_WORKER, gateway)


@both_ways
def test_the_gateway_is_killed_under_load(
    batching: Batching,
    broker: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Clients come back by themselves; what was not acknowledged at the broker is delivered again, in order."""
    gateway = start_gateway(broker)
    with LoadRun(tmp_path, gateway.service_url, new_topic("killed-gateway")) as run:
        start_load(run, batching)
        for number in range(KILLS):
            wait_for_kill(run, number)
            run.interruption(Cause.GATEWAY_KILLED)
            gateway.kill()
            gateway.start()
        check(run.finish(), OF_THE_GATEWAY, gateway)


def revive(broker: PulsarStandalone) -> None:
    """Start it, and wait until it stores: a broker that was killed may lack its bookies for a moment.

    The client's first subscription hangs for good when it is told so ("Ignoring reconnection request since we're
    already connected").
    """
    broker.start()
    path = f"{broker.admin_url}/admin/v2/persistent/public/default/revived-{time.monotonic_ns()}"
    eventually(lambda: status_of("PUT", path) in (204, 409), "it to store", REVIVED_S_MAX)


def status_of(method: str, url: str) -> int:
    """What a broker answers; 0 while it lets us wait, as one does that looks for its bookies."""
    try:
        return httpx.request(method, url, trust_env=False, timeout=10).status_code
    except httpx.TransportError:
        return 0


def test_the_broker_is_killed_under_producers_that_wait(
    module_broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]
) -> None:
    """The owner resumes, though others came back before it; they are promoted by the priorities they bring again."""
    gateway = start_gateway(module_broker, producer_return_grace_s="30")
    with ExitStack() as stack:
        scene = Scene(module_broker, gateway, new_topic("killed-under-producers"), stack)
        epoch = scene.ours().owns(0, name="owner")
        scene.ours().waits(1)
        scene.ours().waits(5)
        module_broker.kill()
        revive(module_broker)
        low, high = scene.ours().waits(1), scene.ours().waits(5)
        owner = scene.ours()
        assert owner.owns(0, name="owner", epoch=epoch) == epoch
        owner.leaves()
        assert high.promoted() == epoch + 1
        high.leaves()
        assert low.promoted() == epoch + 2


def test_the_broker_is_killed_behind_a_living_gateway(
    module_broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """G4: workers keep their connections and get nothing twice, unless the topic itself holds it twice."""
    gateway = start_gateway(module_broker)
    with ExitStack() as stack:
        runs = []
        for batching in (Batching.NONE, Batching.DEFAULT):
            topic = new_topic(f"killed-broker-{batching.value}")
            run = stack.enter_context(LoadRun(tmp_path / batching.value, gateway.service_url, topic))
            start_load(run, batching)
            runs.append(run)
        for run in runs:
            wait_for_kill(run, 0)
        module_broker.kill()
        revive(module_broker)
        for run in runs:
            result = run.finish()
            assert result.connections_lost == 0, explain(result, gateway)
            check(result, {Cause.SENT_TWICE}, gateway)


def test_everything_is_killed_at_once(
    module_broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A power cut: broker, gateway and a worker. The broker's data is what everything is made up from."""
    gateway = start_gateway(module_broker)
    topic = new_topic("power-cut")
    with LoadRun(tmp_path, gateway.service_url, topic) as run:
        start_load(run, Batching.DEFAULT)
        wait_for_kill(run, 0)
        run.kill_worker("w1")
        run.interruption(Cause.GATEWAY_KILLED, acks_lost_since_ns=time.monotonic_ns() - BROKER_ACKS_LOST_NS)
        gateway.kill()
        module_broker.kill()
        revive(module_broker)
        gateway.start()
        # A broker may lack its bookies for a moment yet, and the client's first subscription hangs for good when it is
        # told so ("Ignoring reconnection request since we're already connected").
        statistics = f"{module_broker.admin_url}/admin/v2/{topic.replace('://', '/')}/stats"
        eventually(lambda: status_of("GET", statistics) == 200, "the broker to serve the topic", REVIVED_S_MAX)
        run.start_workers("w1", receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        check(run.finish(), OF_THE_GATEWAY | OF_A_WORKER, gateway)


@pytest.mark.parametrize("module_broker", [DEFAULT_VERSION], indirect=True)
def test_shares_parked_keys_and_refusals_meet_under_kills(
    module_broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Each negative ack parks its key, which an operator redrives, while the look-ahead is too small for what waits.

    Nothing is lost, first deliveries are in order, and a key is at one worker. What the broker forgot of the parking
    topic may come twice, and behind newer messages: see docs/key-policies.md.
    """
    gateway = start_gateway(module_broker, **SHARED_AND_PARKED)
    topic = new_topic("shared-and-parked")
    redriver = Redriver(gateway, topic, SUBSCRIPTION)
    with LoadRun(tmp_path, gateway.service_url, topic) as run, redriver.at_work():
        run.start_workers(*WORKERS, receiver_queue_size=20, ack_delay_ms=5, nack_fraction=0.05, nack_delay_ms=50)
        run.produce(count=PARKED_MESSAGES, keys=PARKED_KEYS)
        run.wait_acknowledged(PARKED_MESSAGES // 4)
        run.interruption(Cause.GATEWAY_KILLED)
        gateway.kill()
        gateway.start()
        run.wait_acknowledged(PARKED_MESSAGES // 2)
        with run.paused(Cause.BROKER_KILLED):
            module_broker.kill()
            revive(module_broker)
        result = run.finish()
    told = explain(result, gateway)
    assert result.connections_lost == 0, told
    assert result.delivered == result.acknowledged == PARKED_MESSAGES, told
    assert (result.missing, result.invented, result.garbled) == ((), (), 0), told
    assert (result.order_violations, result.holder_violations) == ((), ()), told
    assert result.duplicates_by_cause[Cause.NEGATIVE_ACK] > PARKED_MESSAGES * 0.03, told
    assert redriver.redriven > PARKED_KEYS, told
    assert redriver.fetched_entries, told
