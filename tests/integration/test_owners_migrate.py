"""A live subscription moves from the brokers to three replicas in owner mode and back, as docs/migrate.md says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pulsar
import pytest

from integration.gateway import KeylineGateway, service_url_of
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from tests.integration.busy_replicas import settle
from tests.integration.clients import key_shared
from tests.integration.conditions import eventually
from tests.integration.test_migrate import (
    PARTITIONS,
    WHOLE_BATCHES,
    WORKERS,
    Place,
    check,
    connected,
    loaded,
    refused_directly,
)

REPLICAS = 3

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@contextmanager
def replicas_of(broker: PulsarStandalone, directory: Path, *migrating: str) -> Iterator[list[KeylineGateway]]:
    """Three, for subscriptions that direct workers share, or none."""
    directory.mkdir()
    with ExitStack() as stack:
        settings = WHOLE_BATCHES | ({"migrating_subscriptions": ",".join(migrating)} if migrating else {})
        replicas = Replicas(stack, broker, directory, settings)
        replicas.start(REPLICAS)
        settle(replicas.gateways)
        yield replicas.gateways


def modes(place: Place) -> set[str]:
    """Key-shared modes of the subscription at the broker, over all partitions."""
    return {found["keySharedMode"] for found in place.subscriptions()}


def only_owners(place: Place) -> bool:
    """Whether each partition has one consumer at the broker, which is a replica's."""
    return all(len(found) == 1 and "".join(found).startswith("replica-") for found in place.consumers())


def wait_for_owners_beside(place: Place, direct: set[str]) -> None:
    """Return when the broker has these direct workers and, unless they are all, one owner, for each partition."""
    owners = 0 if direct == set(WORKERS) else 1
    eventually(
        lambda: all(direct <= found and len(found - direct) == owners for found in place.consumers()),
        f"the broker to have {direct} and {owners} owner",
    )


@pytest.mark.parametrize(
    ("batching", "partitions"), [(Batching.NONE, 0), (Batching.KEY_BASED, PARTITIONS)], ids=["plain", "partitioned"]
)
def test_workers_move_one_by_one_and_back(
    batching: Batching,
    partitions: int,
    broker: PulsarStandalone,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """To and from any replica, and through the restart of each: keys keep their order, and nothing comes twice."""
    topic = new_topic("one-by-one")
    with (
        replicas_of(broker, tmp_path / "replicas", f"{topic} {SUBSCRIPTION}") as replicas,
        loaded(broker, topic, tmp_path, *WORKERS, batching=batching, partitions=partitions) as place,
    ):
        direct = set(WORKERS)
        for step, worker in enumerate(WORKERS + WORKERS):
            place.work_on()
            place.run.stop_worker(worker)
            leaves = step < len(WORKERS)
            place.start(service_url_of(replicas, step % REPLICAS) if leaves else broker.service_url, worker)
            direct ^= {worker}
            wait_for_owners_beside(place, direct)
            assert modes(place) == {"AUTO_SPLIT"}
            if step == 0 and not partitions:
                for replica in replicas:
                    place.work_on()
                    place.run.interruption(Cause.GATEWAY_STOPPED)
                    replica.restart()
        place.work_on()
        unfinished = {Cause.BATCH_UNFINISHED} if partitions else set()
        check_moved(place, unfinished | {Cause.CLIENT_QUEUE}, *replicas)


def test_the_last_step_lets_nobody_else_in_any_more(
    broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Replicas that are restarted without the setting, one after the other, have the subscription for themselves."""
    topic = new_topic("last-step")
    with (
        replicas_of(broker, tmp_path / "replicas", "* *") as replicas,
        loaded(broker, topic, tmp_path) as place,
    ):
        for number, worker in enumerate(WORKERS):
            place.start(service_url_of(replicas, number % REPLICAS), worker)
        place.work_on()
        assert modes(place) == {"AUTO_SPLIT"}
        for replica in replicas:
            replica.configure(migrating_subscriptions="")
            place.run.interruption(Cause.GATEWAY_STOPPED)
            replica.restart()
            place.work_on()
        eventually(lambda: only_owners(place) and modes(place) == {"STICKY"}, "one owner, who lets nobody in")
        refused_directly(broker, topic)
        check_moved(place, {Cause.CLIENT_QUEUE}, *replicas)


def test_all_move_at_once_and_back_without_a_setting(
    broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Batches of many keys are in order from the first message on; before that the broker refuses the owner."""
    topic = new_topic("at-once")
    with (
        replicas_of(broker, tmp_path / "replicas") as replicas,
        loaded(broker, topic, tmp_path, "alone", batching=Batching.DEFAULT) as place,
    ):
        place.work_on()
        with connected(replicas[0].service_url) as client, pytest.raises(pulsar.ConsumerBusy):
            key_shared(client, topic, "too-early", subscription_name=SUBSCRIPTION)
        place.stop_all("alone")
        place.wait_for_consumers(set())
        for number, worker in enumerate(WORKERS):
            place.start(service_url_of(replicas, number % REPLICAS), worker)
        place.work_on()
        assert only_owners(place)
        refused_directly(broker, topic)
        place.stop_all(*WORKERS)
        place.wait_for_consumers(set())
        place.start(broker.service_url, "alone")
        place.work_on()
        check(place, place.finish(), {Cause.BATCH_UNFINISHED}, *replicas)


def check_moved(place: Place, causes: set[Cause], *gateways: KeylineGateway) -> None:
    """As `check`, with connections that replicas have closed as they stopped."""
    check(place, place.finish(), causes, *gateways, connections_lost=True)
