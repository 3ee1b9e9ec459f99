"""Parked keys with official clients of three languages: their message is refused, its key parked, and redriven."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.place import Place
from integration.threads import beside
from proxy.cli.admin_client import AdminClient, Unanswered, subscription_path
from tests.integration.conditions import DEADLINE_S, INTERVAL_S
from tests.integration.parked_rig import PARKS
from tests.integration.probes import tried

SENT: Final = 5
IN_ORDER: Final = "0 0 0 1 2 3 4"
"""What a worker sees that refuses the first message twice: the redrive brings it a third time, and first."""
TRIALS: Final = ("window_nack", "window_batch")


@pytest.fixture(scope="module", params=[1, 3], ids=["gateway", "replicas"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker, and gateways that park a key after two attempts."""
    directory: Path = tmp_path_factory.mktemp("parked")
    with Place(PULSAR_VERSIONS[0], directory, request.param, PARKS) as made:
        yield made


@contextmanager
def redriving(place: Place) -> Iterator[list[int]]:
    """Order a redrive of each slot of which all messages are parked; the numbers of those that were redriven."""
    redriven: list[int] = []

    def parked_slots(asked: AdminClient) -> Iterator[tuple[str, dict[str, Any]]]:
        for found in asked.pages("/subscriptions", "subscriptions")["subscriptions"]:
            path = subscription_path(found["topic"], found["subscription"])
            if found["dispatcher"]["parked_slots"]:
                yield from ((path, slot) for slot in asked.ask("GET", f"{path}/parked")["slots"])

    def look(over: threading.Event) -> None:
        asked = AdminClient(place.admin_url)
        while not over.wait(INTERVAL_S):
            try:
                for path, slot in parked_slots(asked):
                    if slot["messages"] == SENT and slot["state"] == "parked":
                        asked.ask("POST", f"{path}/parked/redrive", query={"slot": str(slot["slot"])})
                        redriven.append(slot["messages"])
            except Unanswered:  # the subscription has ended meanwhile
                continue

    with beside(look):
        yield redriven


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", ["python", "java", "go"])
def test_a_refused_message_is_parked_with_all_behind_it_and_redriven_in_order(client: str, place: Place) -> None:
    """Single messages and a batch: none comes before the refused one, and none twice that was not refused."""
    with redriving(place) as redriven:
        seen = tried(client, place.service_url, place, TRIALS)
        deadline = time.monotonic() + DEADLINE_S
        while len(redriven) < len(TRIALS) and time.monotonic() < deadline:
            time.sleep(INTERVAL_S)
    assert seen == dict.fromkeys(TRIALS, IN_ORDER)
    assert redriven == [SENT] * len(TRIALS)
