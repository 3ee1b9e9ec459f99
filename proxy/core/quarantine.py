"""Workers that lose their ack lease again and again: quarantined, so that they hold up no keys for a time.

A worker is known by subscription and name: its client comes again within a second, as another consumer of that name,
and the selector gives it the keys that it had. Rule kept: after so many lost leases it gets none for as long as its
quarantine lasts. A lost lease counts until twice the lease and the quarantine together have passed without another, so
a worker that hangs for good is quarantined again at the first lease that it loses after its quarantine.

No more workers are quarantined than keep their leases, so at most half of a subscription's, and never the only one.
Where all lose their leases at once the cause is elsewhere, and any of them may be the first for which it has ended.

Pure, with `now` in monotonic seconds. Bounded: the oldest offences are forgotten first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

OFFENDERS_MAX: Final = 10_000
"""Names, of all subscriptions; each costs some 300 bytes until its offences are forgotten."""


class WorkerName(NamedTuple):
    """Whose."""

    topic: str
    subscription: str
    name: str


@dataclass(frozen=True, slots=True)
class QuarantineRule:
    """When, and for how long."""

    after: int
    """Leases lost; 0 is never."""
    lasts_s: float
    lease_s: float

    @property
    def remembered_s(self) -> float:
        """How long a lost lease counts."""
        return 2 * (self.lease_s + self.lasts_s)


class _Offences:
    """Of one name."""

    __slots__ = ("count", "ends_at", "forgotten_at")

    def __init__(self) -> None:
        self.count = 0
        self.ends_at = 0.0
        """Of its quarantine."""
        self.forgotten_at = 0.0


class Quarantine:
    """All names with offences that count."""

    def __init__(self) -> None:
        """None has lost a lease."""
        self._offences: dict[WorkerName, _Offences] = {}
        """Who offended last stands last."""

    def __len__(self) -> int:
        """How many names are known."""
        return len(self._offences)

    def lost_lease(self, who: WorkerName, rule: QuarantineRule, now: float, *, spared: bool) -> bool:
        """A worker lost its lease; returns whether it is quarantined for that. Who is `spared` is not."""
        if not rule.after:
            return False
        found = self._offences.pop(who, None)
        if found is None or found.forgotten_at <= now:
            found = _Offences()
        found.count += 1
        found.forgotten_at = now + rule.remembered_s
        self._offences[who] = found
        if len(self._offences) > OFFENDERS_MAX:
            del self._offences[next(iter(self._offences))]
        if found.count < rule.after or spared:
            return False
        found.ends_at = now + rule.lasts_s
        return True

    def ends_at(self, who: WorkerName, now: float) -> float | None:
        """When the worker's quarantine ends; None if it is in none."""
        found = self._offences.get(who)
        return found.ends_at if found is not None and found.ends_at > now else None

    def names_in(self, topic: str, subscription: str, now: float) -> Iterator[str]:
        """Names of the subscription's workers that are quarantined, connected or not. Looks at all that is known."""
        for who, found in self._offences.items():
            if found.ends_at > now and who[:2] == (topic, subscription):
                yield who.name

    def release(self, who: WorkerName) -> None:
        """End its quarantine, if it is in one; what it did counts as before."""
        if who in self._offences:
            self._offences[who].ends_at = 0.0
