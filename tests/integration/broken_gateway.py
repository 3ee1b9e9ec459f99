"""A gateway that is broken on purpose, by one of the faults that the contract's monitor has to find.

`python -m tests.integration.broken_gateway FAULT serve`: for tests of those who have to notice. FAULT is the name of a
function of `tests.dispatcher_faults`.
"""

from __future__ import annotations

import sys
from typing import Final

import pytest

from proxy.cli.main import main
from tests.dispatcher_faults import forget_holders, put_last

FAULTS: Final = {fault.__name__: fault for fault in (forget_holders, put_last)}


def program(fault: str) -> list[str]:
    """The command line before `serve`."""
    return [sys.executable, "-m", __name__, fault]


if __name__ == "__main__":
    FAULTS[sys.argv.pop(1)](pytest.MonkeyPatch())
    main()
