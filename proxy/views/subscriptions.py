"""Subscriptions as frozen values, for the admin API and the console: in steps, see `proxy.core.steps`."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING

from proxy.core.statistics import DispatcherStatistics, dispatcher_statistics_steps
from proxy.groups.streams import GroupId
from proxy.net.group.settings import OWNER, STREAMS
from proxy.net.subscription.summary import SubscriptionCounts, subscription_counts, surroundings_of
from proxy.page_cursor import cursor_of, key_of
from proxy.views.kept_out import KeptOutWorker, kept_out

if TYPE_CHECKING:
    from proxy.core.steps import Steps
    from proxy.net.group.groups import Groups
    from proxy.net.group.views import GroupSummary
    from proxy.net.subscription.directory import Subscriptions
    from proxy.net.subscription.subscription import Subscription


@dataclass(frozen=True, slots=True)
class HandOverStatistics:
    """A slot that went from one worker to another after it had drained."""

    slot: int
    holder: str
    owner: str | None
    duration_s: float
    ended_at: float
    waiting_messages: int


@dataclass(frozen=True, slots=True)
class SubscriptionStatistics(SubscriptionCounts):
    """One subscription with everything that is known of it."""

    now: float
    key_shared_mode: str
    upstream_error: str
    addresses: tuple[tuple[str, str], ...]
    kept_out: tuple[KeptOutWorker, ...]
    hand_over_count: int
    hand_overs: tuple[HandOverStatistics, ...]
    groups_mode: str | None
    """How replicas share it."""
    group: GroupSummary | None
    served_by: str | None
    """The replica, in owner mode: the owner, or one of those that share it by streams."""
    dispatcher: DispatcherStatistics


@dataclass(frozen=True, slots=True)
class SubscriptionsStatistics:
    """A page of them, by topic and name, and what all of them share."""

    subscriptions: tuple[SubscriptionStatistics, ...]
    next: str | None
    """What to ask the next page `after`; None if this is the last."""
    subscriptions_count: int
    workers: int
    """Workers of all subscriptions, joined or joining."""
    subscriptions_refused_total: int
    workers_refused_total: int
    workers_per_subscription_refused_total: int
    held_bytes: int
    reading_stopped: bool
    reading_stops: int
    shutting_down: bool
    unanswered: tuple[()] = ()
    """Of replicas that were asked for theirs; here none is asked."""


def lease_of(group: GroupSummary | None) -> str:
    """`Surroundings.lease` of a replica's member of the group."""
    if group is None or (group.connected and group.streams_here):
        return ""
    return "standby" if group.connected else "no_lease"


def subscription_statistics_steps(
    subscription: Subscription, groups: Groups | None, replica: str | None, *, brief: bool = False, workers: bool = True
) -> Steps[SubscriptionStatistics]:
    """One of them, at a replica; `brief` is without what may be long: ranges, draining hashes, hand-overs.

    Without `workers` they are counted, and not listed.
    """
    state = subscription.state
    group = None if groups is None else groups.summary(GroupId(*state.key))
    dispatcher = yield from dispatcher_statistics_steps(
        state.dispatcher, state.now(), surroundings_of(subscription, lease_of(group)), brief=brief, workers=workers
    )
    hand_overs = tuple(
        HandOverStatistics(
            item.slot, item.holder, item.owner, item.ended_at - item.began_at, item.ended_at, item.waiting_messages
        )
        for item in (() if brief else state.hand_overs)
    )
    return SubscriptionStatistics(
        **subscription_counts(subscription),
        now=state.now(),
        key_shared_mode="STICKY" if state.policy.sticky else "AUTO_SPLIT",
        upstream_error=subscription.consumers.last_error,
        addresses=tuple(
            (item.worker.name, item.link.peer)
            for item in (subscription.subscribers.values() if workers else ())
            if item.worker is not None
        ),
        kept_out=() if brief else kept_out(subscription),
        hand_over_count=state.hand_over_count,
        hand_overs=hand_overs,
        groups_mode=STREAMS if state.streamed else None if replica is None else OWNER,
        group=group,
        served_by=replica,
        dispatcher=dispatcher,
    )


def subscriptions_statistics_steps(
    directory: Subscriptions,
    groups: Groups | None,
    replica: str | None,
    after: str | None,
    limit: int,
    *,
    brief: bool = False,
    workers: bool = True,
) -> Steps[SubscriptionsStatistics]:
    """A page of at most `limit` of them, by topic and name; of those that end meanwhile nothing is told."""
    keys = directory.all_keys()
    last_told = key_of(after) if after is not None else None
    page = nsmallest(limit, (key for key in keys if last_told is None or key > last_told))
    told = []
    for key in page:
        subscription = directory.find(key)
        if subscription is not None:
            told.append(
                (yield from subscription_statistics_steps(subscription, groups, replica, brief=brief, workers=workers))
            )
    shared = directory.summary()
    return SubscriptionsStatistics(
        subscriptions=tuple(told),
        next=cursor_of(page[-1]) if page and page[-1] != max(keys) else None,
        subscriptions_count=shared.subscriptions,
        workers=shared.workers,
        subscriptions_refused_total=shared.subscriptions_refused_total,
        workers_refused_total=shared.workers_refused_total,
        workers_per_subscription_refused_total=shared.workers_per_subscription_refused_total,
        held_bytes=shared.held_bytes,
        reading_stopped=shared.reading_stopped,
        reading_stops=shared.reading_stops,
        shutting_down=shared.shutting_down,
    )
