"""Settings of groups of replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proxy.groups.bundles import BUNDLES_DEFAULT
from proxy.groups.streams import STREAMS_DEFAULT
from proxy.groups.timing import GroupTiming

STREAMS: Final = "streams"
"""Each subscription is a group, divided into streams of its keys."""
OWNER: Final = "owner"
"""All subscriptions are one group's, and each has one owner."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Names and defaults are the configuration's."""

    groups_enabled: bool = False
    groups_namespace: str = "public/default"
    groups_mode: str = OWNER
    group_deployment: str | None = None
    group_streams: int = STREAMS_DEFAULT
    group_bundles: int = BUNDLES_DEFAULT
    group_lease_s: float = 5.0
    group_drop_s: float = 7.0
    group_drain_s: float = 10.0
    streamed_subscriptions: tuple[str, ...] = ()
    """Of those that are divided into streams all the same where each has one owner; see `streamed`."""

    @property
    def streamed(self) -> bool:
        """Whether all subscriptions are divided into streams."""
        return self.groups_enabled and self.groups_mode == STREAMS

    @property
    def owned(self) -> bool:
        """Whether each subscription has one owner, but for `streamed_subscriptions`."""
        return self.groups_enabled and self.groups_mode == OWNER

    def timing(self) -> GroupTiming:
        """The times of all members. Raises ValueError for what does not fit together."""
        return GroupTiming(
            lease_s=self.group_lease_s,
            drop_s=self.group_drop_s,
            drain_s=self.group_drain_s,
            not_replaying_s=2 * self.group_drain_s,
            replay_s=3 * self.group_drain_s + self.group_drop_s,
        )
