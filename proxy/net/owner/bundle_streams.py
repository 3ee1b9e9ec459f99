"""The subscriptions of the bundles that this replica has: served under its lease, handed over when a bundle goes.

The data plane of the deployment's group (`group.member.GroupStreams`) with bundles for streams. A bundle without
subscriptions costs nothing but its place in a set, and is released at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

import structlog

from proxy.errors import OwnedElsewhere
from proxy.groups.bundles import bundle_of
from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.messages import ReplayTarget
    from proxy.net.group.member import GroupMember
    from proxy.net.ports import Clock
    from proxy.net.subscription.owned import OwnedSubscription

LOOK_S: Final = 0.02
"""Interval of the check of a revoked bundle; no message waits for it."""

Key = tuple[str, str]

log = structlog.get_logger("keyline.owner")


class Stage(Enum):
    """Of a bundle that is here."""

    OPEN = "open"
    HELD = "held"
    RELEASING = "releasing"


@dataclass(slots=True)
class _Bundle:
    next_look: Alarm
    stage: Stage = Stage.OPEN
    subscriptions: dict[Key, OwnedSubscription] = field(default_factory=dict)
    closing: set[Key] = field(default_factory=set)
    """Those of which the broker has not answered yet."""
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class BundleStatistics:
    """What a replica has."""

    bundles: dict[int, str]
    """The stage of each that is here."""
    subscriptions: int
    """That are served in them."""
    given_back_total: int
    """Subscriptions that were handed over."""
    overdue_total: int
    """Of these, those of which workers had something still."""


class BundleStreams:
    """Implements `group.member.GroupStreams`, `owners.Bundles` and `subscription.owned.Ownership`."""

    def __init__(
        self, clock: Clock, send_s: float, opened: Callable[[], None], changed: Callable[[], None] | None = None
    ) -> None:
        """`send_s` before its end nothing is delivered under a lease.

        `opened` is called once for all bundles that came together, `changed` when the session may have heard something.
        """
        self._on_change = changed
        self._clock = clock
        self._send_s = send_s
        self._opened = opened
        self._came = False
        """Whether a bundle came since `opened` was called: callers that wait look once, not for each of hundreds."""
        self._member: GroupMember | None = None
        self._bundles: dict[int, _Bundle] = {}
        self._until = clock.now()
        self._released: list[int] = []
        """Of which the member is to be told in the next turn."""
        self._given_back_total = 0
        self._overdue_total = 0

    def serve(self, member: GroupMember) -> None:
        """Whom this is the data plane of; before it joins."""
        self._member = member

    # ---- owners.Bundles

    @property
    def count(self) -> int:
        """As the port says."""
        return 0 if self._member is None else self._member.session.streams_count

    def open_here(self, bundle: int) -> bool:
        """As the port says."""
        held = self._bundles.get(bundle)
        return held is not None and held.stage is Stage.OPEN

    def serves(self, bundle: int) -> bool:
        """Whether it has workers of this bundle."""
        held = self._bundles.get(bundle)
        return held is not None and any(owned.served for owned in held.subscriptions.values())

    def statistics(self) -> BundleStatistics:
        """Freeze what there is to know."""
        return BundleStatistics(
            bundles={bundle: held.stage.value for bundle, held in self._bundles.items()},
            subscriptions=sum(len(held.subscriptions) for held in self._bundles.values()),
            given_back_total=self._given_back_total,
            overdue_total=self._overdue_total,
        )

    # ---- subscription.owned.Ownership

    def check(self, key: Key) -> None:
        """As the port says."""
        count = self.count
        if not count or not self.open_here(bundle_of(*key, count)):
            message = "this replica does not own the subscription now; look it up again"
            raise OwnedElsewhere(message)

    def began(self, owned: OwnedSubscription) -> None:
        """As the port says."""
        held = self._bundles[bundle_of(*owned.key, self.count)]
        held.subscriptions[owned.key] = owned
        owned.open(self._until - self._send_s, self._send_s)

    def ended(self, key: Key) -> None:
        """As the port says."""
        for held in self._of(key):
            held.subscriptions.pop(key, None)

    # ---- group.member.GroupStreams

    def open(self, stream: int) -> None:
        """As the port says."""
        held = self._bundles.setdefault(stream, _Bundle(Alarm(self._clock)))
        assert held.stage is not Stage.RELEASING, "a bundle was leased again before it was released"
        held.stage = Stage.OPEN
        for owned in list(held.subscriptions.values()):
            owned.open(self._until - self._send_s, self._send_s)
        self._came = True

    def hold(self, stream: int) -> None:
        """As the port says."""
        held = self._bundles[stream]
        held.stage = Stage.HELD
        for owned in list(held.subscriptions.values()):
            owned.hold()

    def release(self, stream: int, deadline: float) -> None:
        """As the port says; once more sets another deadline."""
        held = self._bundles[stream]
        held.deadline = deadline
        if held.stage is not Stage.RELEASING:
            held.stage = Stage.RELEASING
            for owned in list(held.subscriptions.values()):
                owned.hold()
        held.next_look.cancel()
        if held.subscriptions or held.closing:
            held.next_look.set(0.0, lambda: self._look(stream, held))
        else:
            self._gone(stream)

    def reposition(self, target: ReplayTarget) -> None:
        """The deployment's group does not move cursors: the owner seeks."""
        _ = target
        self._clock.call_soon(self._not_repositioned)

    def changed(self) -> None:
        """As the port says."""
        if self._came:
            self._came = False
            self._opened()
        if self._on_change is not None:
            self._on_change()

    def deliver_until(self, until: float) -> None:
        """As the port says."""
        self._until = until
        now, end = self._clock.now(), until - self._send_s
        for held in self._bundles.values():
            if held.stage is Stage.OPEN:
                for owned in list(held.subscriptions.values()):
                    owned.renew(end, now)

    def close(self) -> None:
        """The gateway stops: nothing more is looked at."""
        for held in self._bundles.values():
            held.next_look.cancel()

    # ---- within

    def _of(self, key: Key) -> list[_Bundle]:
        count = self.count
        held = self._bundles.get(bundle_of(*key, count)) if count else None
        if held is not None and key in held.subscriptions:
            return [held]
        return [held for held in self._bundles.values() if key in held.subscriptions]  # of another cut

    def _look(self, bundle: int, held: _Bundle) -> None:
        """Hand over what may be, and look again."""
        late = self._clock.now() >= held.deadline
        for key, owned in list(held.subscriptions.items()):
            idle = owned.idle
            if idle or late:
                self._hand_over(bundle, held, key, owned, overdue=not idle)
        if held.subscriptions:
            held.next_look.set(LOOK_S, lambda: self._look(bundle, held))
        else:
            self._consider_gone(bundle, held)

    def _hand_over(self, bundle: int, held: _Bundle, key: Key, owned: OwnedSubscription, *, overdue: bool) -> None:
        self._given_back_total += 1
        if overdue:
            self._overdue_total += 1
            log.warning("subscription handed over undrained", topic=key[0], subscription=key[1], bundle=bundle)
        held.closing.add(key)

        def closed() -> None:
            held.closing.discard(key)
            self._consider_gone(bundle, held)

        owned.give_up(closed)
        held.subscriptions.pop(key, None)

    def _consider_gone(self, bundle: int, held: _Bundle) -> None:
        if self._bundles.get(bundle) is held and not held.subscriptions and not held.closing:
            self._gone(bundle)

    def _gone(self, bundle: int) -> None:
        """Nothing of it is here. The member is told of all that went in a turn at once: it may be hundreds."""
        del self._bundles[bundle]
        if not self._released:
            self._clock.call_soon(self._tell_released)
        self._released.append(bundle)

    def _tell_released(self) -> None:
        released, self._released = self._released, []
        if self._member is not None:
            self._member.released_each(released)

    def _not_repositioned(self) -> None:
        if self._member is not None:
            self._member.repositioned("cursors are not moved by the deployment's group")
