"""For tests that put a function of theirs in the place of one of the gateway's."""

from __future__ import annotations

from typing import Final

import pytest

from proxy.app.compiled import PURE_PYTHON, running

interpreted_only: Final = pytest.mark.skipif(
    running() != PURE_PYTHON, reason="replaces a function that compiled modules call without looking it up"
)
"""Such a test says nothing where modules are compiled, and runs in each run without."""
