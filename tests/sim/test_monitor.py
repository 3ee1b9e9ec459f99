"""The monitor of the contract against faults in the dispatcher, in whole worlds: it rings without the checkers' help.

That it never rings where there is no fault is part of every seed (`heed_monitor`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dispatcher_faults import forget_holders, put_last
from tests.interpreted import interpreted_only
from tests.sim.checkers import Model
from tests.sim.gateway import WakeUps
from tests.sim.run import run_seed

SEEDS = range(28, 80)
pytestmark = interpreted_only


@pytest.mark.parametrize(("fault", "violation"), [(forget_holders, "two_workers"), (put_last, "overtaken")])
def test_the_monitor_finds_a_fault_that_the_checkers_do_not_look_for(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None], violation: str
) -> None:
    """The checkers of order and holders are blind here."""
    fault(monkeypatch)
    monkeypatch.setattr(Model, "_check_delivery", lambda *_, **__: None)
    monkeypatch.setattr(Model, "_check_policy", lambda *_, **__: None)
    monkeypatch.setattr(WakeUps, "look", lambda *_: None)
    failures = []
    for seed in SEEDS:
        failures.append(run_seed(seed).failure)
        if failures[-1].startswith("monitor:") and violation in failures[-1]:
            return
    pytest.fail(f"the monitor did not ring: {failures}")
