"""Chooses the next leader when this replica leads more groups than its share.

Problem: the replica that has waited longest leads next, so that after a rolling restart one replica leads every group,
and a leader costs more than a session. Each leader decides for its group alone, from what sessions report of their
replicas, and all of them see the same numbers: so a random choice decides whether this group moves, in proportion to
the surplus, and the target, in proportion to the deficits. Reports follow within a second; until then the same numbers
would move the same groups again, so the probability is a fraction of the exact one.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FRACTION: Final = 0.2
"""Of the surplus that goes in one round of reports."""


def successor(leads: Mapping[str, int], own: str, draws: tuple[float, float]) -> str | None:
    """The replica that should lead instead of `own`; None to keep leading.

    Args:
        leads: how many groups each replica of this group leads.
        own: the one that leads it.
        draws: two numbers of chance, from 0 to below 1.
    """
    if own not in leads or leads[own] - min(leads.values()) <= 1:
        return None
    mean = sum(leads.values()) / len(leads)
    going, to_whom = draws
    if going >= FRACTION * (leads[own] - mean) / leads[own]:
        return None
    lacking = {replica: mean - count for replica, count in sorted(leads.items()) if count < mean}
    place = to_whom * sum(lacking.values())
    for replica, lack in lacking.items():
        place -= lack
        if place < 0:
            return replica
    return None


def draws(seed: str) -> tuple[float, float]:
    """Chance that is the same whenever the same happens."""
    first, second = struct.unpack(">II", hashlib.blake2b(seed.encode(), digest_size=8).digest())
    return first / 2**32, second / 2**32
