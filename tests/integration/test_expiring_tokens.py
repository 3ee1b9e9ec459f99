"""Tokens that expire while their clients are connected: at a gateway alone, and from a side replica to the owner.

The gateways never ask by themselves whether a worker may still consume: whatever ends one is the broker's word on its
token, on the connection in the client's name that the serving gateway has.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

import pytest

from integration import artifacts
from integration.gateway import KeylineGateway
from integration.java import java
from integration.secured import SecuredPulsar
from tests.integration.authorization_rig import (
    GROUPS,
    KEYS,
    NAMESPACE,
    Place,
    client_of,
    new_topic,
    replicas_of,
    send,
    served,
    sides,
    worker,
)
from tests.integration.clients import Workers, nothing_comes
from tests.integration.conditions import eventually

pytestmark = [pytest.mark.slow, pytest.mark.broker]

EXPIRES_S: Final = 10
NEVER_S: Final = 3_600
"""A broker that looks so seldom whose token has expired, or a gateway that asks so seldom, never does here."""
PROGRAM: Final = Path(__file__).parent / "java" / "RenewedToken.java"
SAID: Final = ("connected", "received")
JAVA_S_MAX: Final = 300
CHALLENGES: Final = {"gateway": 2, "side replica": 4}
"""Two of each connection in the client's name: that of its own gateway, and that of the owner."""


@contextmanager
def secured(settings: dict[str, str]) -> Iterator[SecuredPulsar]:
    """A broker where `app` may do everything in a namespace, and the gateways what they need."""
    with SecuredPulsar(settings=settings) as broker:
        for namespace, roles in ((NAMESPACE, ("app", "keyline")), (GROUPS, ("keyline",))):
            broker.create_namespace(namespace)
            for role in roles:
                broker.grant(namespace, role)
        yield broker


@pytest.fixture(scope="module")
def looking() -> Iterator[SecuredPulsar]:
    """A broker that looks every two seconds."""
    with secured({}) as broker:
        yield broker


@pytest.fixture(scope="module")
def trusting() -> Iterator[SecuredPulsar]:
    """A broker that never looks."""
    with secured({"authenticationRefreshCheckSeconds": str(NEVER_S)}) as broker:
        yield broker


@pytest.fixture(params=["gateway", "side replica"])
def way(request: pytest.FixtureRequest) -> str:
    """To whom the client is connected."""
    name: str = request.param
    return name


@contextmanager
def door(way: str, broker: SecuredPulsar, topic: str, directory: Path) -> Iterator[Place]:
    """A gateway alone, or one of three that does not own the topic's subscription."""
    if way == "gateway":
        settings = {"broker_token": broker.token("keyline"), "authorize_again_s": str(NEVER_S)}
        with KeylineGateway(broker.service_url, broker.admin_url, directory / "alone", settings=settings) as gateway:
            yield Place(broker, gateway)
    else:
        with replicas_of(broker, directory, NEVER_S) as deployment:
            yield sides(deployment, topic)[0]


class Wallet:
    """Hands out tokens that last for a few seconds."""

    def __init__(self, broker: SecuredPulsar) -> None:
        self._broker = broker
        self.given = 0
        self.last_expires_at = 0.0

    def __call__(self) -> str:
        """A new one."""
        self.given += 1
        self.last_expires_at = time.time() + EXPIRES_S
        return self._broker.token("app", EXPIRES_S)


def test_a_worker_whose_token_has_expired_is_served_no_more(way: str, looking: SecuredPulsar, tmp_path: Path) -> None:
    """The client gives the same one when it is asked. What it held goes to another, and nothing more comes to it."""
    topic = new_topic("expired")
    with (
        door(way, looking, topic, tmp_path) as place,
        client_of(place, "app", token=looking.token("app", 2 * EXPIRES_S)) as expiring,
        client_of(place, "app") as lasting,
    ):
        held = worker(expiring, topic, consumer_name="expiring")
        send(place, topic, KEYS)
        Workers({"expiring": held}).receive(KEYS, acknowledge=False)
        assert served(place, topic) == {"expiring"}
        eventually(lambda: not served(place, topic), "its worker to be gone")
        other = worker(lasting, topic, consumer_name="other")
        assert len(Workers({"other": other}).receive(KEYS)) == KEYS
        assert served(place, topic) == {"other"}
        send(place, topic, KEYS)
        assert nothing_comes(held)
        assert len(Workers({"other": other}).receive(KEYS)) == KEYS


def test_a_token_that_is_renewed_in_time_ends_nothing(way: str, looking: SecuredPulsar, tmp_path: Path) -> None:
    """Every connection in the client's name is challenged, and goes on: what the worker holds does not come again."""
    topic = new_topic("renewed")
    wallet = Wallet(looking)
    with door(way, looking, topic, tmp_path) as place, client_of(place, "app", token=wallet) as client:
        consumer = worker(client, topic)
        workers = Workers({"renewing": consumer})
        send(place, topic, KEYS)
        held = workers.receive(KEYS, acknowledge=False)
        before = wallet.given
        eventually(lambda: wallet.given >= before + CHALLENGES[way], "all to be asked twice", 10 * EXPIRES_S)
        for message in held:
            consumer.acknowledge(message)
        send(place, topic, KEYS)
        assert {message.redelivery_count() for message in workers.receive(KEYS)} == {0}
        assert nothing_comes(consumer)


def test_a_consumer_may_join_when_the_first_token_has_expired(
    way: str, trusting: SecuredPulsar, tmp_path: Path
) -> None:
    """The broker goes on with the client's connection, and would not take its old token on a new one, to the owner."""
    topic = new_topic("later")
    wallet = Wallet(trusting)
    with door(way, trusting, topic, tmp_path) as place, client_of(place, "app", token=wallet) as client:
        producer = client.create_producer(topic)
        eventually(lambda: time.time() > wallet.last_expires_at + 1, "the token to have expired")
        workers = Workers({"late": worker(client, topic)})
        for number in range(KEYS):
            producer.send(f"{number}".encode(), partition_key=f"key-{number}")
        assert len(workers.receive(KEYS)) == KEYS


def test_a_consumer_of_javas_client_may_join_so_too(way: str, trusting: SecuredPulsar, tmp_path: Path) -> None:
    """It answers the same question."""
    topic = new_topic("java")
    command = [str(java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{artifacts.ensure(artifacts.TOOLS)}/*"]
    with door(way, trusting, topic, tmp_path) as place:
        arguments = [str(PROGRAM), place.gateway.service_url, topic]
        with subprocess.Popen([*command, *arguments], stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True) as program:
            watch = threading.Timer(JAVA_S_MAX, program.kill)
            watch.start()
            try:
                wallet = Wallet(trusting)
                assert exchanged(program, "started", wallet) == "connected"
                eventually(lambda: time.time() > wallet.last_expires_at + 1, "the token to have expired")
                assert exchanged(program, "", lambda: trusting.token("app")) == "received"
            finally:
                watch.cancel()
                program.kill()


def exchanged(program: subprocess.Popen[str], expected: str, token: Callable[[], str]) -> str:
    """Wait for what it says first, give it a token, and return what it says then."""
    assert program.stdin is not None
    assert program.stdout is not None
    lines = (line.strip() for line in program.stdout)
    if expected:
        assert expected in lines
    program.stdin.write(f"{token()}\n")
    program.stdin.flush()
    return next((line for line in lines if line in SAID), "nothing")
