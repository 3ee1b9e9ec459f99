"""Tells whether a broker serves: its admin API lists the cluster, and a topic of `public/default` is looked up.

The API answers some seconds before namespaces are owned, and a client that connects in between is refused.

A bookie that starts again finds its registration of before, and replaces it. Now and then 4.0.7 takes the news of that
for the loss of the new one, and does so again hundreds of times a second for as long as it runs, with a whole core. In
between the broker has no bookie, and refuses what needs a ledger. Only another start ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from pathlib import Path

TOPIC: Final = "persistent/public/default/keyline-ready"
TRANSACTIONS: Final = "admin/v2/persistent/pulsar/system/transaction_coordinator_assign/partitions"
REGISTRATION_LOST: Final = b"was invalidated. state Valid"
REGISTRATIONS_LOST_MAX: Final = 50
"""In a start's log: usually there are up to seven, and thousands when it is for ever."""


def stays_registered(log: Path, start: int) -> bool:
    """Whether the bookie keeps its registration, by the log from this byte on."""
    with log.open("rb") as file:
        file.seek(start)
        return file.read().count(REGISTRATION_LOST) <= REGISTRATIONS_LOST_MAX


def broker_answers(http: httpx.Client, *, transactions: bool = False) -> bool:
    """Whether a standalone broker serves clients, `transactions` included. `http` is for its admin API."""
    try:
        if http.get("/admin/v2/clusters").text != '["standalone"]':
            return False
        if transactions and http.get(TRANSACTIONS).is_error:
            return False
        return http.get(f"/lookup/v2/topic/{TOPIC}").is_success
    except httpx.TransportError:
        return False
