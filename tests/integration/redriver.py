"""An operator that takes every parked key out again, all the time, whatever happens to the gateway meanwhile."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, suppress

from integration.gateway import KeylineGateway
from integration.threads import beside
from proxy.cli.admin_client import AdminClient, Unanswered, subscription_path

EVERY_S = 0.2


class Redriver:
    """Of one subscription."""

    def __init__(self, gateway: KeylineGateway, topic: str, subscription: str) -> None:
        self.redriven = 0
        """Orders that were carried out."""
        self.fetched_entries = 0
        """That gateways have fetched again, those that are gone included."""
        self._fetched_here = 0
        self._client = AdminClient(gateway.admin_url)
        self._path = subscription_path(topic, subscription)

    def at_work(self) -> AbstractContextManager[None]:
        """Redrive as long as the block runs."""
        return beside(self._work)

    def _work(self, over: threading.Event) -> None:
        while not over.wait(EVERY_S):
            with suppress(Unanswered):  # the gateway is away, or has no worker yet
                for slot in self._parked():
                    with suppress(Unanswered):  # the key has gone on meanwhile
                        self._client.ask("POST", f"{self._path}/parked/redrive", query={"slot": slot})
                        self.redriven += 1

    def _parked(self) -> list[int]:
        fetched: int = self._client.ask("GET", self._path)["dispatcher"]["fetched_entries"]
        self.fetched_entries += max(fetched - self._fetched_here, 0)
        self._fetched_here = fetched
        answer = self._client.ask("GET", f"{self._path}/parked", query={"limit": 1_000})
        return [each["slot"] for each in answer["slots"] if each["state"] == "parked"]
