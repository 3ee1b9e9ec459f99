"""What groups of replicas may be told by configuration."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.groups.streams import STREAMS_DEFAULT
from proxy.groups.timing import GroupTiming


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Names and defaults are the configuration's."""

    groups_enabled: bool = False
    groups_namespace: str = "public/default"
    group_streams: int = STREAMS_DEFAULT
    group_lease_s: float = 5.0
    group_drop_s: float = 7.0
    group_drain_s: float = 10.0

    def timing(self) -> GroupTiming:
        """The times of all members. Raises ValueError for what does not fit together."""
        return GroupTiming(
            lease_s=self.group_lease_s,
            drop_s=self.group_drop_s,
            drain_s=self.group_drain_s,
            not_replaying_s=2 * self.group_drain_s,
            replay_s=3 * self.group_drain_s + self.group_drop_s,
        )
