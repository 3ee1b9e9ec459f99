"""The wall clocks of replicas in owner mode jump, each by itself: leases go by monotonic clocks, so nobody notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.gateway import KeylineGateway
from integration.replicas import at_once
from integration.standalone import PulsarStandalone
from tests.integration.busy_replicas import settle
from tests.integration.conditions import eventually
from tests.integration.faults.line import bug_reports
from tests.integration.faults.test_clock import LIBRARIES, days_off, faked_time, write
from tests.integration.owner_rig import MESSAGES, Owned, owned_subscription

STEPS: Final = ((1, -1, 30), (-30, 1, -1), (0, -1, 1))
"""Days from the true date at each replica, one step after another."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.skipif(not LIBRARIES, reason="no libfaketime (Debian's package of that name)"),
]


@pytest.fixture
def owned(
    pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Owned]:
    """Three replicas, each with a clock of its own."""
    with owned_subscription(pulsar, new_topic("clocks"), tmp_path) as owned:
        at_once([gateway.stop for gateway in owned.gateways])
        for gateway in owned.gateways:
            write(offset_of(gateway), "+0")
            with faked_time(monkeypatch, offset_of(gateway)):
                gateway.start()
        settle(owned.gateways)
        yield owned


def offset_of(gateway: KeylineGateway) -> Path:
    """The file that its clock is read from."""
    return gateway.log.with_name("offset")


def wait_for_clocks(owned: Owned, days: tuple[int, ...]) -> None:
    """Return when each is so far off."""
    eventually(lambda: tuple(map(days_off, owned.gateways)) == days, f"clocks that are {days} days off")


def test_the_clocks_of_all_replicas_are_stepped(owned: Owned) -> None:
    """Forth and back, to dates that lie a month apart: nothing moves, nothing is repeated."""
    owner = owned.owner()
    owned.produce()
    for number, step in enumerate(STEPS, 1):
        for gateway, days in zip(owned.gateways, step, strict=True):
            write(offset_of(gateway), f"{days:+}d")
        wait_for_clocks(owned, step)
        owned.run.wait_acknowledged(MESSAGES * number // (len(STEPS) + 1))
    assert owned.owner() is owner
    owned.finish()
    for gateway in owned.gateways:
        assert not bug_reports(gateway.log)
