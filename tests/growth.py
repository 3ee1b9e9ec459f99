"""How the time of a call grows with its size: both sizes are timed in one run, since each machine has its own speed."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES: Final = 3


def growth(ready: Callable[[int], Callable[[], object]], few: int, many: int) -> float:
    """How often as long the call for `many` takes as the one for `few`, which `ready` makes, anew for each time.

    The shortest of several times counts, taken by turns: other work on the machine makes some longer, and none shorter.
    """
    shortest = {few: float("inf"), many: float("inf")}
    for _ in range(TIMES):
        for size, before in shortest.items():
            shortest[size] = min(before, _seconds(ready(size)))
    return shortest[many] / shortest[few]


def _seconds(call: Callable[[], object]) -> float:
    """CPU time of this thread; without a collection of garbage, which looks at all that the tests before have left."""
    gc.collect()
    gc.disable()
    try:
        began = time.thread_time()
        call()
        return time.thread_time() - began
    finally:
        gc.enable()
