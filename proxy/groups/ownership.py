"""The owners of bundles, from the last record of the deployment's group.

Every replica reads that record: owners are stored before they are informed, so a bundle without a record has no owner.
It may be late by a record's travel time. So it only says where to ask; a replica's own lease decides whether it serves
a bundle. A bundle without an owner is *unknown*: it moves, or its owner has gone.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from proxy.groups.bundles import bundle_of
from proxy.groups.memory import GroupMemory


class Owner(NamedTuple):
    """A replica that has a bundle."""

    replica: str
    address: str
    """Of its port for other replicas, as ``host:port``; empty if it has none."""
    epoch: int
    """Of the leader that says so."""


class OwnershipTable:
    """Replaced as a whole by each record: 1,024 bundles of three replicas take a fraction of a millisecond."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._memory = GroupMemory()
        self._owners: dict[int, Owner] = {}

    @property
    def bundles_count(self) -> int:
        """Into how many bundles the deployment's subscriptions are cut; 0 as long as nothing is known."""
        return self._memory.streams_count

    @property
    def epoch(self) -> int:
        """Of the leader that wrote the record; 0 as long as nothing is known."""
        return self._memory.epoch

    @property
    def leader(self) -> str | None:
        """Its replica."""
        return self._memory.leader

    def learn(self, record: GroupMemory) -> bool:
        """Take over a record, unless it is older than what is known; whether it says anything else of owners."""
        known = self._memory
        self._memory = known.then(record)
        if self._memory is known:
            return False
        addresses = dict(record.addresses)
        before = self._owners
        self._owners = {
            bundle: Owner(session.replica, addresses.get(session.replica, ""), record.epoch)
            for bundle, session in record.owners
        }
        return before != self._owners or known.streams_count != record.streams_count

    def owner(self, bundle: int) -> Owner | None:
        """Who has the bundle; None while that is unknown."""
        return self._owners.get(bundle)

    def owner_of(self, topic: str, subscription: str) -> Owner | None:
        """Who has the subscription's bundle; None while that is unknown."""
        count = self.bundles_count
        return self.owner(bundle_of(topic, subscription, count)) if count else None

    def has(self, replica: str) -> bool:
        """Whether it takes part; the leader has dropped one that does not, or it has left."""
        return any(replica == each for each, _ in self._memory.addresses)

    def shares(self) -> list[tuple[str, str, int]]:
        """Every replica, by name: its address, and how many bundles it has."""
        counts = Counter(owner.replica for owner in self._owners.values())
        addresses = dict(self._memory.addresses)
        return [(replica, addresses.get(replica, ""), counts[replica]) for replica in sorted({*counts, *addresses})]
