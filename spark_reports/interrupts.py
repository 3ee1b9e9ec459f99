"""Interruption by Ctrl-C or SIGTERM: at once, and without a traceback on the screen.

Spark's own way calls the JVM in the midst of another call and prints how that failed, twice.
"""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """As long as the block lasts, let SIGINT and SIGTERM raise KeyboardInterrupt, and libraries not log that.

    To be entered when Spark has begun, which has put its own way in place; elsewhere than in the main thread, where
    signals do not come, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(level)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
