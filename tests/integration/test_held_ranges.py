"""STICKY ranges of a worker whose host has vanished: who comes for them has them within seconds, as at the broker.

The worker is a connection that is not read and not closed, which is what a server sees of such a host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from integration.gateway import KeylineGateway
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from proxy.net.session.liveness import LIVENESS_S
from proxy.wire import pulsar_pb2 as pb
from tests.integration.raw_client import RawClient, T
from tests.integration.test_wire_policies import sticky

RANGES: Final[dict[str, Any]] = {"keySharedMeta": sticky((0, 40_000)), "consumer_name": "mine"}
OVERLAPPING: Final[dict[str, Any]] = {"keySharedMeta": sticky((40_000, 50_000)), "consumer_name": "another"}
WAIT_S_MAX: Final = 40.0
"""Of a busy machine; without asking it would be the keep-alive, 60 s."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def replicas(broker: PulsarStandalone, tmp_path: Path) -> Iterator[list[KeylineGateway]]:
    """Two in owner mode."""
    with ExitStack() as stack:
        started = Replicas(stack, broker, tmp_path)
        started.start(2)
        yield started.gateways


@contextmanager
def held(url: str, topic: str) -> Iterator[RawClient]:
    """A worker that has ranges, and gives no sign of life unless it is asked something."""
    with RawClient(url).locate(topic) as holder:
        yield holder.joined(topic, **RANGES)


def check_vanished(holder_url: str, newcomer_url: str, topic: str) -> None:
    """A newcomer waits until the one before has been asked, and is let in; if it is refused it tries again."""
    with held(holder_url, topic), RawClient(newcomer_url).locate(topic) as newcomer:
        since = time.monotonic()
        answer = newcomer.subscribe(topic, **RANGES)
        while answer.type == T.ERROR and time.monotonic() - since < WAIT_S_MAX:
            assert answer.error.error == pb.ConsumerAssignError, answer
            answer = newcomer.subscribe(topic, **RANGES)
        assert answer.type == T.SUCCESS, answer
        assert LIVENESS_S - 0.5 < time.monotonic() - since < WAIT_S_MAX


def check_alive(url: str, topic: str) -> None:
    """One that answers keeps its ranges; the newcomer is on its own connection, so that it reads meanwhile."""
    with held(url, topic) as holder:
        answer = holder.subscribe(topic, consumer_id=2, **OVERLAPPING)
        assert (answer.type, answer.error.error) == (T.ERROR, pb.ConsumerAssignError), answer


def test_the_gateway_does_as_the_broker(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """The same on either way."""
    for url in (broker.service_url, gateway.service_url):
        check_alive(url, new_topic("held"))
        check_vanished(url, url, new_topic("held"))


def test_so_do_replicas_wherever_the_worker_is_connected(
    replicas: list[KeylineGateway], new_topic: Callable[[str], str]
) -> None:
    """At the owner, or at another replica, which asks its client for it."""
    topic = new_topic("held")
    with held(replicas[0].service_url, topic):
        owners = [replica for replica in replicas if replica.workers(topic, "s")]
    assert len(owners) == 1
    for replica in replicas:
        check_alive(replica.service_url, new_topic("held"))
    # One of these two is a leg to the owner, and the other is not, whichever owns the topic.
    for holder, newcomer in (replicas, reversed(replicas)):
        check_vanished(holder.service_url, newcomer.service_url, topic)
