"""The byte budget counts a part with a constant: it is near what Python takes for it."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Final

import pytest

from proxy.core.entry import PART_BYTES, Part
from proxy.core.outstanding import Outstanding

COUNT: Final = 5_000
NEAR: Final = 0.35
"""Tables take more just after they have grown than just before."""


def test_a_part_costs_about_what_is_counted() -> None:
    """With its place among the outstanding entries and in its worker's pending acks."""
    _parts()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = _parts()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made[1]) == COUNT
    assert (after - before) / COUNT == pytest.approx(PART_BYTES, rel=NEAR)


def _parts() -> tuple[Outstanding, dict[int, Part]]:
    outstanding = Outstanding()
    pending: dict[int, Part] = {}
    for number in range(COUNT):
        part = Part((7 << 40) + number, 3, 1, b"", 0, 1_000.0 + number)
        outstanding.add(part.position, part, PART_BYTES)
        part.sent_at = 2_000.0 + number
        pending[part.key] = part
    return outstanding, pending
