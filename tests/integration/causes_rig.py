"""The five troubles that an engineer on call is asked about, each on a topic of its own, with official clients.

Workers first do their work, so that the gateway knows what is usual, and then one of them stops, slows down, or holds
what moved to another.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final

import httpx
import pulsar

from integration.gateway import KeylineGateway
from tests.integration.clients import SLICE_MS, key_shared, send_all
from tests.integration.conditions import eventually

KEYS: Final = [f"customer-{number}" for number in range(200)]
QUEUE: Final = 20
"""Messages that a client asks for: few, so that what waits is at the gateway."""
SLOW_S: Final = 1.0
"""Between two messages of a slow worker."""
BEAT_S: Final = 0.05


class Crew:
    """Workers of one topic's subscription `s`, that each acknowledge as fast as they are told to."""

    def __init__(self, gateway: KeylineGateway, client: pulsar.Client, topic: str) -> None:
        """Nobody is there yet."""
        self.topic = topic
        self._gateway = gateway
        self._client = client
        self._producer = client.create_producer(topic, block_if_queue_full=True)
        self._ended = threading.Event()
        self._pause_s: dict[str, float] = {}
        self._threads: list[threading.Thread] = []
        self._numbers = count()

    @property
    def path(self) -> str:
        """Of the subscription, in the admin API."""
        return f"{self._gateway.admin_url}/api/v1/subscriptions/{self.topic.removeprefix('persistent://')}/s"

    def join(self, *names: str) -> None:
        """Workers that acknowledge at once."""
        for name in names:
            consumer = key_shared(self._client, self.topic, name, receiver_queue_size=QUEUE).consumers[name]
            self._pause_s[name] = 0.0
            self._start(lambda consumer=consumer, name=name: self._work(consumer, name))  # type: ignore[misc]

    def stop(self, name: str) -> None:
        """The application hangs: its client stays connected and acknowledges nothing."""
        self._pause_s[name] = float("inf")

    def slow(self, name: str) -> None:
        """A message each `SLOW_S`."""
        self._pause_s[name] = SLOW_S

    def send(self, keys: list[str], times: int = 1) -> None:
        """So many messages of each key, at once."""
        send_all(self._producer, [(key, b"x") for _ in range(times) for key in keys])

    def keep_sending(self, keys: list[str]) -> None:
        """A message of each key, again and again."""

        def some() -> None:
            self.send([keys[next(self._numbers) % len(keys)] for _ in range(10)])
            self._ended.wait(BEAT_S)

        self._start(some)

    def keys_of(self, name: str) -> list[str]:
        """Keys that a worker owns."""
        owners = {key: self.explained(key)["owner"] for key in KEYS[:60]}
        return [key for key, owner in owners.items() if owner == name]

    def explained(self, key: str) -> dict[str, Any]:
        """The gateway's explanation."""
        answer = httpx.get(f"{self.path}/explain", params={"key": key}, trust_env=False, timeout=30)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def order(self, method: str, path: str, body: Any = None) -> None:
        """An operator's."""
        httpx.request(method, self.path + path, json=body, trust_env=False, timeout=30).raise_for_status()

    def until(self, key: str, state: str, command: str = "") -> None:
        """Wait until the key's verdict is this one, with a command that begins so."""

        def told() -> bool:
            verdict = self.explained(key)["verdict"]
            return bool(verdict["state"] == state and (verdict["command"] or "").startswith(command))

        eventually(told, f"{key} of {self.topic} is {state}, {command}", 120)

    def end(self) -> None:
        """Everybody stops; the caller closes the client."""
        self._ended.set()
        for thread in self._threads:
            thread.join(30)

    def _start(self, step: Callable[[], None]) -> None:
        def loop() -> None:
            with suppress(pulsar.AlreadyClosed, pulsar.ConnectError):
                while not self._ended.is_set():
                    step()

        self._threads.append(threading.Thread(target=loop, daemon=True))
        self._threads[-1].start()

    def _work(self, consumer: pulsar.Consumer, name: str) -> None:
        pause_s = self._pause_s[name]
        if pause_s == float("inf"):
            self._ended.wait(BEAT_S)
            return
        with suppress(pulsar.Timeout):
            message = consumer.receive(timeout_millis=SLICE_MS)
            if pause_s:
                self._ended.wait(pause_s)
            if self._pause_s[name] != float("inf"):
                consumer.acknowledge(message)


def printed(gateway: KeylineGateway, *arguments: str) -> str:
    """What a command of `keyline` prints."""
    command = [sys.executable, "-m", "proxy.cli", *arguments]
    environment = os.environ | {"KEYLINE_ADMIN_URL": gateway.admin_url}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=True).stdout


def worked(crew: Crew, *names: str, seconds: float = 0.0) -> Crew:
    """These workers have joined and acknowledged a while."""
    crew.join(*names)
    began = time.monotonic()
    while True:
        crew.send(KEYS)
        eventually(lambda: waiting(crew) == 0, "all is worked on")
        if time.monotonic() - began >= seconds:
            return crew


def waiting(crew: Crew) -> int:
    """Messages that wait or are at workers."""
    found = httpx.get(crew.path, trust_env=False, timeout=30).raise_for_status().json()["dispatcher"]
    unacked = sum(worker["unacked_messages"] for worker in found["workers"])
    return int(found["waiting_messages"]) + int(unacked)


def stopped(crew: Crew) -> str:
    """One of three workers hangs, and much waits for it; returns a key of it."""
    return _much_waits(crew, crew.stop)


def slow(crew: Crew) -> str:
    """One of three takes a second for each message; returns a key of it."""
    return _much_waits(crew, crew.slow)


def _much_waits(crew: Crew, trouble: Callable[[str], None]) -> str:
    worked(crew, "billing-1", "billing-2", "billing-3")
    keys = crew.keys_of("billing-2")
    trouble("billing-2")
    crew.send(keys, 40)
    crew.keep_sending([key for key in KEYS[:60] if key not in keys])
    return keys[0]


def draining(crew: Crew) -> str:
    """A worker has messages whose slot went to another; returns a key of it."""
    crew.join("billing-1")
    crew.stop("billing-1")
    crew.send(KEYS[:10])

    def delivered() -> bool:
        """Else a key would go to the second worker at once."""
        return all(crew.explained(each)["holder"] == "billing-1" for each in KEYS[:10])

    eventually(delivered, "the first worker to have a message of each key")
    crew.join("billing-2")
    key = ""

    def moved() -> bool:
        nonlocal key
        for each in KEYS[:10]:
            told = crew.explained(each)
            if (told["owner"], told["holder"]) == ("billing-2", "billing-1"):
                key = each
        return bool(key)

    eventually(moved, "a key moved")
    crew.send([key])
    return key


def look_ahead_full(crew: Crew) -> str:
    """What waits for one worker has filled what may be read ahead; returns a key of another, which gets nothing."""
    crew.join("billing-1")
    # At once, so that no permits of a larger look-ahead are left at the broker.
    limits = {"look_ahead_messages_per_subscription": 50, "look_ahead_messages_per_worker": 50}
    crew.order("PATCH", "/limits", limits)
    worked(crew, "billing-2", "billing-3")
    theirs = crew.keys_of("billing-2")
    (other, *_) = crew.keys_of("billing-3")
    crew.stop("billing-2")
    crew.send(theirs, 60)
    crew.send([other], 3)
    return other


def paused(crew: Crew) -> str:
    """By an operator; returns a key that waits."""
    worked(crew, "billing-1", "billing-2")
    crew.order("POST", "/pause")
    crew.send(KEYS[:5])
    return KEYS[0]


CAUSES: Final[dict[str, Callable[[Crew], str]]] = {
    "stopped_acknowledging": stopped,
    "slow": slow,
    "look_ahead_full": look_ahead_full,
    "paused": paused,
    "draining": draining,
}
"""By the state that the gateway tells; what holds for a minute only comes last."""
