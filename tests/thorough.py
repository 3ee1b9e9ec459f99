"""How much of the same a test draws: little in the fast tier, all of it in the parts that repeat it (`tests.parts`).

A test that searches, by seeds or by examples, proves more the longer it runs and nothing else. So it stands once, and
its size is asked here.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "KEYLINE_THOROUGH"
"""Set for the parts that repeat tests of the fast tier at full size."""
THOROUGH: Final = bool(os.environ.get(VARIABLE))
FEWER: Final = 10
"""What the fast tier draws is this part of the whole."""


def drawn(count: int) -> int:
    """As many of `count` seeds or examples as this run is for."""
    return count if THOROUGH else max(count // FEWER, 1)
