"""The gateway's code for a message does not grow dearer unseen: its instructions are counted, not its time."""

from __future__ import annotations

from functools import partial

import pytest

from integration.bench.instruction_cases import (
    CASES,
    HOT,
    HOT_KEY,
    MESSAGES,
    NACKED,
    NACKED_EVERY,
    NACKED_WINDOWED,
    Case,
)
from integration.bench.instructions import HOW_TO_KEEP, RISE_MAX, VERSION, kept, per_message
from integration.bench.policy_path import PolicyBroker, PolicyPath
from integration.bench.stepped_clock import SteppedClock


@pytest.mark.parametrize("case", CASES)
def test_a_message_takes_no_more_instructions_than_are_kept(case: str) -> None:
    """A rise of three percent is a decision: it is kept anew, with its reason, or taken back."""
    before = kept()
    if not before:
        pytest.skip(f"no counts are kept of Python {VERSION}; {HOW_TO_KEEP}")
    count = per_message(case)
    assert count <= before[case] * RISE_MAX, f"{case}: {count} instructions, {before[case]} are kept; {HOW_TO_KEEP}"


def test_what_a_policy_has_to_do_is_done() -> None:
    """A row of a policy that never acted would say that it costs nothing."""
    policed = {name: _fed(case) for name, case in CASES.items() if isinstance(case.path, partial) or case.tails is HOT}
    done = {name: (each.stored, each.sent_again > 0, each.transactions > 0) for name, each in policed.items()}
    of_1_000 = MESSAGES // NACKED_EVERY
    assert done == {
        NACKED: (0, False, False),
        NACKED_WINDOWED: (0, False, False),
        f"{NACKED_WINDOWED}, retry_delay_ms": (0, False, False),
        f"{NACKED}, to the dead letter topic": (of_1_000, False, False),
        "unbatched, 5 % of keys parked": (of_1_000 + 1, False, False),
        HOT_KEY: (0, False, False),
        f"{HOT_KEY}, key_share_percent": (0, True, False),
        "unbatched, acknowledged inside transactions": (0, False, True),
    }


def test_a_retry_delay_passes_before_the_message_comes_again() -> None:
    """Else the row would be of messages that come back at once."""
    clock = SteppedClock()
    case = CASES[f"{NACKED_WINDOWED}, retry_delay_ms"]
    before = clock.now()
    case.path(clock=clock, subscriptions=case.settings).pump(case.tails, case.at_a_time)
    assert clock.now() - before >= case.settings.retry_delay_ms / 1_000


def _fed(case: Case) -> PolicyBroker:
    """The broker after one feed."""
    path = case.path(clock=SteppedClock(), subscriptions=case.settings)
    assert isinstance(path, PolicyPath)
    assert path.pump(case.tails, case.at_a_time) == MESSAGES
    return path.broker


def test_counting_again_gives_the_same() -> None:
    """A count that varied would refuse a change that is not to blame."""
    case = "100 mixed keys to a batch"
    assert per_message(case) == pytest.approx(per_message(case), rel=0.005)
