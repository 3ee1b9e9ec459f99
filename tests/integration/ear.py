"""Hears the events of a topic as they happen, in a thread of its own."""

from __future__ import annotations

import json
import threading
from queue import SimpleQueue
from typing import Any, Final

import httpx

from integration.gateway import KeylineGateway

PATIENCE_S: Final = 120.0
"""How long an event that must come may take; comments come all the time."""


class Ear(threading.Thread):
    """Reads the events of one topic."""

    def __init__(self, gateway: KeylineGateway, topic: str) -> None:
        super().__init__(daemon=True)
        self._url, self._topic = f"{gateway.admin_url}/api/v1/events", topic
        self._events: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._listening = threading.Event()
        self.start()
        assert self._listening.wait(PATIENCE_S)

    def run(self) -> None:
        """Until the gateway or the test ends."""
        with httpx.stream(
            "GET", self._url, params={"topic": self._topic}, timeout=PATIENCE_S, trust_env=False
        ) as answer:
            for line in answer.iter_lines():
                self._listening.set()
                if line.startswith("data: "):
                    self._events.put(json.loads(line.removeprefix("data: ")))

    def next(self, kind: str) -> dict[str, Any]:
        """The next event of this kind."""
        while (event := self._events.get(timeout=PATIENCE_S))["kind"] != kind:
            pass
        return event
