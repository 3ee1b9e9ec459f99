"""Ack leases, by what the gateway's edge shows: no worker keeps a delivery for longer than its lease.

That none loses its keys earlier is held against any life of workers in `tests.core.test_ack_lease`: the edge does not
show when the gateway decided on a delivery that a full socket kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.subscription.ack_leases import GRACE_S, apart_s
from tests.sim.seats import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.sim.seats import Seat

ROUNDING_S = 1e-6


def check_leases(seats: Iterable[Seat], lease_s: float, now_s: float, went_on_s: float) -> None:
    """At the end of a turn.

    A gateway that stood still until `went_on_s`, or has another lease since then, hears its workers first.
    """
    if not lease_s or now_s <= went_on_s + GRACE_S + ROUNDING_S:
        return
    for seat in seats:
        if not seat.sent_at:
            continue
        since_s = max(min(seat.sent_at.values()), seat.extended_at)
        if now_s > since_s + lease_s + apart_s(lease_s) + ROUNDING_S:
            raise Violation(f"lease: {seat.name} has held a delivery for {now_s - since_s:.3f} s of {lease_s:g} s")
