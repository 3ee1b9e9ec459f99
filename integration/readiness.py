"""Waits until a broker serves: its admin API lists the cluster, and a topic of `public/default` is looked up.

The API answers some seconds before namespaces are owned, and a client that connects in between is refused.
"""

from __future__ import annotations

from typing import Final

import httpx

TOPIC: Final = "persistent/public/default/keyline-ready"
TRANSACTIONS: Final = "admin/v2/persistent/pulsar/system/transaction_coordinator_assign/partitions"


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
