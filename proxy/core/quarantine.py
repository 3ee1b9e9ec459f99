"""Workers that lose their ack lease again and again: quarantined, so that they hold up no keys for a time.

A worker is known by subscription and name: its client comes again within a second, as another consumer of that name,
and the selector gives it the keys that it had. Rule kept: after so many lost leases it gets none for as long as its
quarantine lasts. A lost lease counts until twice the lease and the quarantine together have passed without another, so
a worker that hangs for good is quarantined again at the first lease that it loses after its quarantine.

No more workers are quarantined than keep their leases, so at most half of a subscription's, and never the only one.
Where all lose their leases at once the cause is elsewhere, and any of them may be the first for which it has ended.

Pure, with `now` in monotonic seconds. Bounded, and clients choose names: where more are known than may be, the
namespace that has most loses one, of its topic that has most, of the subscription that has most, the oldest first. So
one that makes up names loses its own; and those of other namespaces, and of subscriptions that have as few, stay.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OFFENDERS_MAX: Final = 10_000
"""Names, of all subscriptions; each costs some 300 bytes until its offences are forgotten."""
MADE_ROOM: Final = 0.1
"""Share of them that is forgotten at a time, since it takes a look at all."""


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
        self._offences: dict[tuple[str, str], dict[str, _Offences]] = {}
        """By subscription and name; who offended last stands last of its subscription."""
        self._count = 0

    def lost_lease(self, who: WorkerName, rule: QuarantineRule, now: float, *, spared: bool) -> bool:
        """A worker lost its lease; returns whether it is quarantined for that. Who is `spared` is not."""
        if not rule.after:
            return False
        found = self._pop(who)
        if found is None or found.forgotten_at <= now:
            found = _Offences()
        found.count += 1
        found.forgotten_at = now + rule.remembered_s
        self._offences.setdefault(who[:2], {})[who.name] = found
        self._count += 1
        if self._count > OFFENDERS_MAX:
            self._make_room(now)
        if found.count < rule.after or spared:
            return False
        found.ends_at = now + rule.lasts_s
        return True

    def ends_at(self, who: WorkerName, now: float) -> float | None:
        """When the worker's quarantine ends; None if it is in none."""
        found = self._offences.get(who[:2], _NONE).get(who.name)
        return found.ends_at if found is not None and found.ends_at > now else None

    def names_in(self, topic: str, subscription: str, now: float) -> Iterator[str]:
        """Names of the subscription's workers that are quarantined, connected or not."""
        for name, found in self._offences.get((topic, subscription), _NONE).items():
            if found.ends_at > now:
                yield name

    def release(self, who: WorkerName) -> None:
        """End its quarantine, if it is in one; what it did counts as before."""
        found = self._offences.get(who[:2], _NONE).get(who.name)
        if found is not None:
            found.ends_at = 0.0

    def _pop(self, who: WorkerName) -> _Offences | None:
        names = self._offences.get(who[:2], _NONE)
        found = names.pop(who.name, None)
        if found is not None:
            self._count -= 1
            if not names:
                del self._offences[who[:2]]
        return found

    def _make_room(self, now: float) -> None:
        """Forget what counts no more; then the oldest of those who have most."""
        for who in list(self._newest_first()):
            if self._offences[who[:2]][who.name].forgotten_at <= now:
                self._pop(who)
        if self._count <= OFFENDERS_MAX:
            return
        fairly = list(self._newest_first())
        for group in (_subscription, _topic, _namespace):
            fairly = _in_turns(fairly, group)
        for who in fairly[OFFENDERS_MAX - int(MADE_ROOM * OFFENDERS_MAX) :]:
            self._pop(who)

    def _newest_first(self) -> Iterator[WorkerName]:
        for (topic, subscription), names in self._offences.items():
            for name in reversed(names):
                yield WorkerName(topic, subscription, name)


_NONE: Final[dict[str, _Offences]] = {}


def _in_turns(names: list[WorkerName], group: Callable[[WorkerName], object]) -> list[WorkerName]:
    """The first of each group, then the second of each, and so on; within a group as they stand."""
    before: Counter[object] = Counter()
    turns = []
    for who in names:
        turns.append(before[group(who)])
        before[group(who)] += 1
    return [names[place] for place in sorted(range(len(names)), key=turns.__getitem__)]


def _subscription(who: WorkerName) -> object:
    return who[:2]


def _topic(who: WorkerName) -> object:
    return who.topic


def _namespace(who: WorkerName) -> object:
    return who.topic.rpartition("/")[0]
