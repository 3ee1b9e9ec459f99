"""Pulsar's own Java client waits for a topic through the gateway, beside Python's."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pulsar
import pytest

from integration import artifacts
from integration.gateway import KeylineGateway
from integration.java import java
from integration.standalone import PulsarStandalone
from tests.integration.clients import receive, subscribe
from tests.integration.exclusive_rig import Scene, feed_of

PROGRAM = Path(__file__).parent / "java" / "WaitingProducer.java"
OPERATION_TIMEOUT_S = 10
"""Of the Java client: what it may not be subject to while it waits."""
EVENT_S = 180.0
"""A virtual machine that compiles its program needs some 10 s to start, and a minute on a busy machine."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class JavaProducer:
    """The program in a process of its own."""

    def __init__(self, service_url: str, topic: str, priority: int) -> None:
        """Start it."""
        libraries = artifacts.ensure(artifacts.TOOLS)
        arguments = [service_url, topic, str(priority), str(OPERATION_TIMEOUT_S)]
        self._process = subprocess.Popen(
            [str(java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*", str(PROGRAM), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        """It is running."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, however the test went."""
        self.kill()

    def event(self) -> str:
        """Wait for the next thing that it says, and return what it is."""
        return str(self._events.get(timeout=EVENT_S)["event"])

    @property
    def silent(self) -> bool:
        """Whether it has said nothing since."""
        return self._events.empty()

    def leave(self) -> None:
        """Let it close its producer, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(EVENT_S) == 0

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._events.put(json.loads(line))


@pytest.fixture
def scene(broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]) -> Iterator[Scene]:
    """A topic that nobody has asked for yet."""
    with ExitStack() as clients:
        yield Scene(broker, gateway, new_topic("exclusive-java"), clients)


def test_a_java_client_waits_through_an_unload_and_owns_before_one_of_python(
    scene: Scene, client: pulsar.Client
) -> None:
    """Longer than its operation timeout; the other way round when it is killed: who waits behind it owns the topic."""
    consumer = subscribe(client, scene.topic, pulsar.ConsumerType.Exclusive)
    with feed_of(scene.gateway, scene.topic) as feed:
        owner = scene.patient().producer()
        feed.until("producer_promoted")
        low = scene.patient(1)
        feed.until("producer_queued")
        with JavaProducer(scene.gateway.service_url, scene.topic, 9) as high:
            assert high.event() == "asking"
            feed.until("producer_queued")
            wait_out_operation_timeout()
            scene.unload()
            feed.until("producer_resumed")
            owner.send(b"python")
            wait_out_operation_timeout()
            assert high.silent
            owner.close()
            assert high.event() == "created"
            assert low.waiting
            high.kill()
            low.producer().send(b"low")
    assert [receive(consumer).data() for _ in range(3)] == [b"python", b"java", b"low"]


def wait_out_operation_timeout() -> None:
    """Let the client wait longer than it would for any other answer: that is what the test is about."""
    time.sleep(OPERATION_TIMEOUT_S + 1)
