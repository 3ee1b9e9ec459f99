"""A replica is killed while a key is parked, and in the middle of its redrive: another one goes on, in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import Unanswered, subscription_path
from tests.integration.conditions import eventually
from tests.integration.owner_crew import Crew, crew_at
from tests.integration.parked_rig import PARKS

KEY: Final = "customer-17"
OTHERS: Final = tuple(f"k{number}" for number in range(30))
PARKED: Final = 100
"""Messages of the key that are parked before anybody is killed."""
WORK_S: Final = {KEY: 0.005}
"""What a worker takes for one: so a redrive lasts long enough to be cut short."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def send(crew: Crew) -> None:
    """So many of the key that is parked, and some of every other."""
    crew.send(KEY, PARKED)
    for key in OTHERS:
        crew.send(key, 10)
    crew.flush()


def parked(crew: Crew) -> int:
    """Messages in the parking topic; -1 while no replica tells."""
    try:
        return int(crew.asked().ask("GET", subscription_path(crew.topic, "s") + "/parked")["parked_messages"])
    except Unanswered:
        return -1


def test_the_owner_is_killed_while_a_key_is_parked_and_in_the_middle_of_its_redrive(
    pulsar: PulsarStandalone, tmp_path: Path, new_topic: Callable[[str], str]
) -> None:
    """The next owner finds the key parked, delivers nothing of it, and goes on with the redrive when it is ordered."""
    with crew_at(pulsar, tmp_path, new_topic("taken-over"), PARKS, WORK_S) as crew:
        record, redrive = crew.record, subscription_path(crew.topic, "s") + "/parked/redrive"
        record.poisoned = frozenset({(KEY, 0)})
        owner = crew.owner()
        send(crew)
        eventually(lambda: parked(crew) > PARKED // 3, "a part of the messages is parked")
        crew.kill(owner)
        send(crew)
        eventually(lambda: parked(crew) == 2 * PARKED, "the next owner parks the rest, and what is new")
        assert record.count(KEY) == 0
        record.poisoned = frozenset()
        owner = crew.owner()  # found before, since a redrive lasts for seconds only
        crew.order("POST", redrive, query={"key": KEY})
        eventually(lambda: record.count(KEY) >= PARKED // 3, "a part is redriven")
        crew.kill(owner)
        send(crew)
        redriven = record.count(KEY)
        eventually(lambda: parked(crew) > 0, "the next owner finds the rest parked")
        assert redriven < 2 * PARKED, "it was killed in the middle"
        crew.order("POST", redrive, query={"key": KEY})
        eventually(crew.all_came, "every message came", deadline_s=180.0)
        crew.in_order()
        eventually(lambda: parked(crew) == 0, "nothing is parked")
        # What was on its way to a worker, or acknowledged and not confirmed yet, when the owner was killed.
        assert record.repeats(KEY) <= PARKED // 3
