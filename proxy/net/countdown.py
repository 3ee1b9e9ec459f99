"""One call after several."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def after_all(count: int, done: Callable[[], None]) -> Callable[[], None]:
    """Return what calls `done` when it was called itself `count` times."""
    left = count

    def one_done() -> None:
        nonlocal left
        left -= 1
        if not left:
            done()

    return one_done
