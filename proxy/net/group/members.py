"""All groups of one replica: its inbox, and what arrives there is given to the member that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from proxy.groups.encoding import UnreadableError, decode_message
from proxy.groups.messages import FromSession, KeepOrders, OfLeaders, OfReach, ReplayDone, ReplayWanted
from proxy.net.mail.group_mail import PulsarGroupMail

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.streams import GroupId
    from proxy.net.group.member import GroupMember, ToMember
    from proxy.net.ports import BrokerDirectory, Clock

log = structlog.get_logger("keyline.groups")


class GroupMembers:
    """By group."""

    def __init__(self, replayed: Callable[[ReplayDone], None] | None = None) -> None:
        """This replica is in no group. `replayed` hears the answers to what it asked."""
        self.replayed = replayed
        self._members: dict[GroupId, GroupMember] = {}

    def add(self, member: GroupMember) -> None:
        """One more group; there is one member of each."""
        assert member.group not in self._members, "two members of one group on one replica"
        self._members[member.group] = member

    def remove(self, group: GroupId) -> None:
        """It has left."""
        del self._members[group]

    def find(self, group: GroupId) -> GroupMember | None:
        """This replica's member of a group, if it is in it."""
        return self._members.get(group)

    def hear(self, data: bytes) -> None:
        """A message of a replica; messages for other groups are ignored."""
        try:
            message = decode_message(data)
        except UnreadableError as error:
            log.warning("replica message ignored", reason=str(error))
            return
        if isinstance(message, ReplayDone):
            if self.replayed is not None:
                self.replayed(message)
        elif (member := self._members.get(_group_of(message))) is not None:
            member.hear(message)


class GroupPost:
    """A replica's inbox and its members: one, however many kinds of groups it is in."""

    def __init__(self, namespace: str, replica: str, brokers: BrokerDirectory, clock: Clock) -> None:
        """In `groups_namespace`; `replica` is a name unique to this process. The mail is to be started."""
        self.members = GroupMembers()
        self.mail = PulsarGroupMail(namespace, replica, brokers, clock, self.members.hear)


def _group_of(message: ToMember) -> GroupId:
    if isinstance(message, FromSession):
        return message.report.group
    return (
        message.group if isinstance(message, OfLeaders | OfReach | ReplayWanted | KeepOrders) else message.header.group
    )
