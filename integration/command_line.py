"""What several programs of the command line have in common."""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def interrupt_on_termination() -> None:
    """Let `kill` and a closed terminal tidy up as Ctrl-C does: each raises KeyboardInterrupt in the main thread."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _as_interrupt)


def positive(text: str) -> int:
    """Read a whole number above 0; `argparse` tells what is wrong with any other."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} should be 1 or more")
    return number


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    _ = number, frame
    raise KeyboardInterrupt
