"""What an operator orders stands at each next owner of a subscription, when replicas in owner mode are killed.

With a real broker and the official client: a worker is excluded by name, and a policy of keys changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path, worker_path
from tests.integration.busy_replicas import patiently
from tests.integration.conditions import eventually
from tests.integration.owner_crew import NAMES, Crew, crew_at

KEYS: Final = tuple(f"k{number}" for number in range(60))
EACH: Final = 20
"""Messages of a key between two things that happen."""
OUT: Final = NAMES[1]
WINDOW: Final = {"key_window": 1}
REFUSALS: Final = 3
"""Of the first message of each key."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def send(crew: Crew) -> None:
    """Some of every key."""
    for key in KEYS:
        crew.send(key, EACH)
    crew.flush()


def all_done(crew: Crew) -> None:
    """Wait until every message was acknowledged."""
    eventually(crew.all_came, "every message came", deadline_s=180.0)


def wait_known(crew: Crew) -> None:
    """Return when every replica knows both orders: so neither is lost with one of them."""
    everywhere = [AdminClient(each.admin_url) for each in crew.gateways]

    def known() -> bool:
        told = [[(each["excluded"], each["limits"]) for each in asked.ask("GET", "/orders")] for asked in everywhere]
        return told == [[([OUT], WINDOW)]] * len(everywhere)

    patiently(known, "the orders at all replicas")


def shut_out(crew: Crew) -> None:
    """Wait until the excluded worker's client is connected, and the owner has no keys for it."""
    path = subscription_path(crew.topic, "s")

    def connected() -> bool:
        kept_out = crew.asked().ask("GET", path)["kept_out"]
        return [(each["name"], each["reason"]) for each in kept_out if each["address"]] == [(OUT, "excluded")]

    patiently(connected, "the excluded worker's client is connected again, and kept out")


def refuse_firsts(crew: Crew) -> None:
    """Send, and refuse the first message of each key some times."""
    record = crew.record
    record.poisoned = frozenset((key, crew.sent(key)) for key in KEYS)
    refused = record.refusals + REFUSALS * len(KEYS)
    send(crew)
    eventually(lambda: record.refusals >= refused, "the first message of each key is refused")
    record.poisoned = frozenset()


def test_a_worker_stays_excluded_and_a_window_stays_set_at_every_next_owner(
    pulsar: PulsarStandalone, tmp_path: Path, new_topic: Callable[[str], str]
) -> None:
    """The worker gets nothing, whether its owner is killed, or its client comes anew by its name; then it is let in.

    And under the window of 1 nothing overtakes what is refused. Both orders are given at a replica beside the owner.
    """
    with crew_at(pulsar, tmp_path, new_topic("ordered")) as crew:
        record = crew.record
        exclude = worker_path(crew.topic, "s", OUT) + "/exclude"
        owner = crew.owner()
        send(crew)
        all_done(crew)
        assert all(record.received(name) for name in NAMES)
        beside = next(each for each in crew.gateways if each is not owner)
        asked = AdminClient(beside.admin_url)
        asked.ask("POST", exclude)
        asked.ask("PATCH", f"{subscription_path(crew.topic, 's')}/limits", json=WINDOW)
        wait_known(crew)
        crew.out = frozenset({OUT})
        shut_out(crew)
        before = record.received(OUT)
        for _ in range(2):
            send(crew)
            former = crew.owner()
            former.kill()
            assert crew.owner() is not former
            shut_out(crew)
            refuse_firsts(crew)
            all_done(crew)
            former.start()
            crew.come_again(OUT)
            shut_out(crew)
        send(crew)
        all_done(crew)
        assert record.received(OUT) == before
        crew.order("DELETE", exclude)
        crew.out = frozenset()
        crew.owner()
        send(crew)
        all_done(crew)
        assert record.received(OUT) > before
        crew.in_order()
