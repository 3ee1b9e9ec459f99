"""Work that goes on beside a block of code, in a thread of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do this as long as the block runs: the event that the work gets is set at the block's end.

    Raises:
        Exception: what the work raised, unless the block raised something itself.
    """
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, over)
        try:
            yield
        finally:
            over.set()
    working.result()
