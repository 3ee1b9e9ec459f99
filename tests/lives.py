"""How Hypothesis draws random lives: the same ones each time, so that a run fails because of a change alone.

The fast tier draws a part of them, the part `lives` all (`tests.thorough`). What is drawn then is but one corner.
`make lives` (`KEYLINE_LIVES`, a number) draws so many others, new ones each time,
prints how to see a failing one again, and is what to run after a change of what they guard.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

from tests.thorough import drawn

NEW: Final = int(os.environ.get("KEYLINE_LIVES", "0"))


def lives(count: int, steps: int) -> settings:
    """Settings of a state machine: so many lives, each of at most so many steps."""
    return settings(
        max_examples=NEW or drawn(count),
        stateful_step_count=steps,
        deadline=None,
        derandomize=not NEW,
        database=None,
        print_blob=True,
        # Not `explain`, which takes minutes and says little of machines.
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
