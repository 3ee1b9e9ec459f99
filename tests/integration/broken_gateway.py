"""A gateway that is broken on purpose: its dispatchers wait for nobody, though they say that they keep order.

`python -m tests.integration.broken_gateway serve`: for tests of those who have to notice.
"""

from __future__ import annotations

from typing import Any

from proxy.cli.main import main
from proxy.core.dispatcher import Dispatcher

_right = Dispatcher.__init__


def _wrong(self: Dispatcher, *arguments: Any, **named: Any) -> None:
    _right(self, *arguments, **named)
    self.ordered = False


if __name__ == "__main__":
    Dispatcher.__init__ = _wrong  # type: ignore[assignment, method-assign]
    main()
