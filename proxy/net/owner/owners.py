"""Where a subscription is served now: here, at another replica, or nowhere that is known yet.

What is served here is said by this replica's own leases alone (`Bundles`); where else to ask, the last record of the
group's topic (`OwnershipTable`). Between two owners, and before anything was read, the owner is unknown: callers are
told when to look again.

One that is cut into streams has no owner: every replica serves its own workers.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from proxy.groups.bundles import bundle_of
from proxy.groups.ownership import Owner, OwnershipTable

if TYPE_CHECKING:
    from proxy.groups.memory import GroupMemory


class Nowhere(Enum):
    """What else there is to say than who the owner is."""

    HERE = "here"
    UNKNOWN = "unknown"


HERE: Final = Nowhere.HERE
UNKNOWN: Final = Nowhere.UNKNOWN
Place: TypeAlias = Owner | Nowhere


def is_elsewhere(place: Place, replica: str) -> bool:
    """Whether a subscription is known to be at another replica than that other one."""
    return place is HERE or (isinstance(place, Owner) and place.replica != replica)


class Bundles(Protocol):
    """What this replica has."""

    @property
    def count(self) -> int:
        """Into how many bundles the deployment is cut, by this replica's lease; 0 as long as it had none."""

    def open_here(self, bundle: int) -> bool:
        """Whether this replica has the bundle, and is not releasing it."""


class Owners:
    """The deployment as one replica sees it."""

    def __init__(self, replica: str, bundles: Bundles, streamed: Container[tuple[str, str]] = ()) -> None:
        """Nothing is known of others. `streamed` are those without an owner, by topic and subscription."""
        self.replica = replica
        self.streamed = streamed
        self.table = OwnershipTable()
        self._bundles = bundles
        self._waiting: dict[Callable[[], None], None] = {}

    def place(self, topic: str, subscription: str) -> Place:
        """Where the subscription is served; one that moves, or whose owner cannot be reached, is nowhere."""
        if (topic, subscription) in self.streamed:
            return HERE
        count = self._bundles.count
        if count and self._bundles.open_here(bundle_of(topic, subscription, count)):
            return HERE
        owner = self.table.owner_of(topic, subscription)
        if owner is None or owner.replica == self.replica or not owner.address:
            return UNKNOWN
        return owner

    def learn(self, record: GroupMemory) -> None:
        """The group's last record."""
        if self.table.learn(record):
            self.changed()

    def changed(self) -> None:
        """Ownership has changed: waiting requests check again."""
        for look in list(self._waiting):
            look()

    def wait(self, look: Callable[[], None]) -> None:
        """Call this whenever anything has changed, until `forget`."""
        self._waiting[look] = None

    def forget(self, look: Callable[[], None]) -> None:
        """It waits no more; harmless for one that does not."""
        self._waiting.pop(look, None)
