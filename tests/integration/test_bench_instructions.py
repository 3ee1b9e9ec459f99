"""The gateway's code for a message does not grow dearer unseen: its instructions are counted, not its time."""

from __future__ import annotations

import pytest

from integration.bench.instructions import COUNTED, HOW_TO_KEEP, RISE_MAX, VERSION, kept, per_message


@pytest.mark.parametrize("case", COUNTED)
def test_a_message_takes_no_more_instructions_than_are_kept(case: str) -> None:
    """A rise of three percent is a decision: it is kept anew, with its reason, or taken back."""
    before = kept()
    if not before:
        pytest.skip(f"no counts are kept of Python {VERSION}; {HOW_TO_KEEP}")
    count = per_message(case)
    assert count <= before[case] * RISE_MAX, f"{case}: {count} instructions, {before[case]} are kept; {HOW_TO_KEEP}"


def test_counting_again_gives_the_same() -> None:
    """A count that varied would refuse a change that is not to blame."""
    case = "100 mixed keys to a batch"
    assert per_message(case) == pytest.approx(per_message(case), rel=0.005)
