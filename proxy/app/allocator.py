"""Tells the C library's allocator to keep what large messages free.

Left alone, it gives the memory of a few hundred kilobytes back to the system as soon as it is free, and asks for it
again at the next message: each page then costs a fault, and a message of 200 kB has fifty of them.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

KEPT_BYTES: Final = 16 << 20
"""That are free at the end of the heap. More goes back to the system."""
MAPPED_BYTES: Final = 1 << 20
"""Blocks from this size on are the system's from the start, and go back to it: they leave no holes in the heap."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Numbers of glibc's `mallopt`, in its malloc.h."""
OPERATORS: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""By these an operator tells the allocator; then we do not."""


def keep_freed_memory() -> bool:
    """Have the allocator do so, where it is glibc's; whether it does."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in OPERATORS):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, MAPPED_BYTES))
