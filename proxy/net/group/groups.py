"""All groups that this replica takes part in.

One mail for all of them, a topic and a member for each. A replica whose process starts anew is another one to its
groups: what it had is given to others when it has certainly stopped, and nobody mistakes it for the one before.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from proxy.groups.messages import SessionId
from proxy.net.group.member import GroupMember, Leading
from proxy.net.group.members import GroupMembers
from proxy.net.group.replays import GroupReplays
from proxy.net.group.reposition import ANSWER_S_MAX
from proxy.net.group.seat import GroupSeat
from proxy.net.group.topic import PulsarGroupTopic
from proxy.net.group.topic_name import group_topic_name
from proxy.net.group.views import GroupsPage, group_statistics, group_summary
from proxy.net.mail.group_mail import PulsarGroupMail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.groups.messages import ReplayDone, ReplayTarget
    from proxy.groups.streams import GroupId
    from proxy.net.group.settings import GroupSettings
    from proxy.net.group.views import GroupStatistics, GroupSummary
    from proxy.net.ports import BrokerDirectory, Clock
    from proxy.net.subscription.subscription import Subscription


class Groups:
    """Owner of this replica's seats, and of what they share."""

    def __init__(self, replica: str, brokers: BrokerDirectory, clock: Clock, settings: GroupSettings) -> None:
        """`replica` names this process, and no process before it; `start` begins."""
        self.replica = replica
        self._brokers = brokers
        self._clock = clock
        self._settings = settings
        self._timing = settings.timing()
        self.members = GroupMembers(self._replayed)
        self.mail = PulsarGroupMail(settings.groups_namespace, replica, brokers, clock, self.members.hear)
        patience_s = self._timing.replay_s + ANSWER_S_MAX + self._timing.drop_s
        self._replays = GroupReplays(replica, self.mail, clock, patience_s)
        self._topics: dict[GroupId, PulsarGroupTopic] = {}
        self._seats: dict[GroupId, GroupSeat] = {}
        self._sessions = 0
        self._leading = Leading()
        self._when_left: Callable[[], None] | None = None

    def start(self) -> None:
        """Hear what other replicas say."""
        self.mail.start()

    def new_seat(self, subscription: Subscription) -> GroupSeat:
        """For a subscription that is to be shared."""
        return GroupSeat(subscription, self._timing, self.join, self.leave)

    def join(self, seat: GroupSeat, workers_count: int) -> GroupMember:
        """Take part in the seat's group from now on."""
        self._sessions += 1
        session = SessionId(self.replica, self._sessions)
        member = GroupMember(
            seat.group,
            session,
            self._settings.group_streams,
            self._timing,
            self._clock,
            self.mail,
            seat.left,
            self._leading,
        )
        self.members.add(member)
        topic = group_topic_name(self._settings.groups_namespace, seat.group)
        self._topics[seat.group] = PulsarGroupTopic(topic, self._brokers, self._clock, member)
        self._seats[seat.group] = seat
        member.join(self._topics[seat.group], seat, workers_count)
        return member

    def replay(self, group: GroupId, target: ReplayTarget, answered: Callable[[str | None], None]) -> bool:
        """Let the whole group go on from somewhere else; `answered` hears later what was wrong, None if nothing.

        False for a group that this replica is not in: then nothing is asked.
        """
        if group not in self._seats:
            return False
        self._replays.ask(group, target, answered)
        return True

    def leave(self, seat: GroupSeat) -> None:
        """Take part no more, whether all was given back or not."""
        member = self.members.find(seat.group)
        assert member is not None, "a seat left twice"
        member.close()
        self.members.remove(seat.group)
        self._topics.pop(seat.group).stop()
        del self._seats[seat.group]
        self._say_if_left()

    def leave_all(self, left: Callable[[], None]) -> None:
        """The replica stops: give everything back; `left` is called when nothing is here any more, perhaps at once."""
        self._when_left = left
        for seat in list(self._seats.values()):
            seat.leave()
        self._say_if_left()

    def close(self) -> None:
        """Hear and say nothing more."""
        self._replays.close()
        for seat in list(self._seats.values()):
            seat.close()
        self.mail.stop()

    # ---- reads

    def page(self, after: str | None, limit: int) -> GroupsPage:
        """Freeze some groups, by topic and subscription; `after` is `next` of the page before."""
        seats = {"/".join(group): seat for group, seat in self._seats.items()}
        names = nsmallest(limit + 1, (name for name in seats if after is None or name > after))
        told = [self.summary(seats[name].group) for name in names[:limit]]
        page = tuple(summary for summary in told if summary is not None)
        return GroupsPage(self.replica, page, names[limit - 1] if len(names) > limit else None)

    def summary(self, group: GroupId) -> GroupSummary | None:
        """Freeze one's numbers; None for a group that this replica is not in."""
        seat = self._seats.get(group)
        return None if seat is None else group_summary(seat, self._clock.now())

    def statistics(self, group: GroupId) -> GroupStatistics | None:
        """Freeze one; None for a group that this replica is not in."""
        seat = self._seats.get(group)
        return None if seat is None else group_statistics(seat, self._clock.now())

    def summaries(self) -> Iterator[GroupSummary]:
        """Each as of the moment it is asked for; those that were left meanwhile are left out."""
        for group in list(self._seats):
            summary = self.summary(group)
            if summary is not None:
                yield summary

    def _replayed(self, done: ReplayDone) -> None:
        self._replays.heard(done)

    def _say_if_left(self) -> None:
        if self._when_left is not None and not self._seats:
            left, self._when_left = self._when_left, None
            left()
