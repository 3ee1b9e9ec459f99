"""All subscriptions in numbers, for metrics: see `proxy.core.summary`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from proxy.core.blame import Blame, BlamedWorker, blame
from proxy.core.contract_violations import NO_VIOLATIONS
from proxy.core.summary import DispatcherSummary, WorkerSummary, dispatcher_summary, worker_summary, workers_by_name
from proxy.core.verdict import Surroundings
from proxy.net.subscription.counters import Counters
from proxy.net.subscription.durations import Durations, durations_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.subscription import Subscription

DEFAULT_PLACE: Final = "persistent://public/default/"
"""Left out of a topic's name on a command line."""


_COUNTERS: Final = tuple(field.name for field in fields(Counters))
"""`asdict` would copy each value deeply, for every subscription of a scrape."""


@dataclass(frozen=True, slots=True)
class SubscriptionCounts:
    """What metrics and the admin API both tell of one subscription."""

    topic: str
    subscription: str
    upstream_state: str
    upstream_connects: int
    upstream_permits: int
    joining: int
    acks_refused: int
    ack_leases_lost: int
    """Workers that lost their keys because they held a message longer than the ack lease."""
    ack_lease_extensions: int
    """Times that a worker asked for more time."""
    quarantines: int
    """Times that a worker was quarantined."""
    parked_copies_refused: int
    """Messages in the parking topic that the gateway has not published."""
    takeovers_at_risk: int
    """1 if it was taken over although transactions were, or may have been, open."""
    takeover_transactions: int
    """Transactions whose end it waits for since it was taken over."""
    opaque_batches: int
    unreadable_entries: int
    mixed_batches: int
    sliced_deliveries: int
    background_openings: int
    """Batches that were decompressed beside the loop."""
    background_opened_bytes: int
    opening_messages: int
    """Messages that wait until they, or what came before them, are opened."""
    opening_bytes: int
    budget_stops: int


def subscription_counts(subscription: Subscription) -> dict[str, Any]:
    """Every field of `SubscriptionCounts`."""
    state, consumers = subscription.state, subscription.consumers
    return {
        "topic": state.topic,
        "subscription": state.name,
        "upstream_state": consumers.state.value,
        "upstream_connects": consumers.connects,
        "upstream_permits": consumers.permits,
        "joining": len(subscription.admission),
        "takeover_transactions": subscription.takeover.transactions,
        "opening_messages": consumers.queued_messages,
        "opening_bytes": consumers.queued_bytes,
        "budget_stops": consumers.budget_stops,
        **{name: getattr(state.counters, name) for name in _COUNTERS},
    }


@dataclass(frozen=True, slots=True)
class SubscriptionSummary(SubscriptionCounts):
    """One subscription."""

    look_ahead_messages: int
    """Messages that may wait, with as many workers as there are."""
    look_ahead_used: float
    """Those that wait, as a share of those at which nothing more is read: as many as may, and as workers ask for.

    Above 1 while more came back than are read ahead.
    """
    memory_bytes: int
    """Bytes the subscription may hold; what it does is in `dispatcher`."""
    oldest_wait_s: float
    """How long the slot has waited that has waited longest; 0 if none does."""
    oldest_unacknowledged_s: float
    """How long ago the delivery was sent that has been unacknowledged longest; 0 without any."""
    contract_violations: dict[str, int]
    """Deliveries that broke the contract, by kind; of the keys that are watched."""
    durations: Durations
    blame: Blame
    """Which workers keep messages from being worked on."""
    dispatcher: DispatcherSummary

    def blamed_workers(self) -> Iterator[BlamedWorkerSummary]:
        """Them, one by one."""
        return (BlamedWorkerSummary(self.topic, self.subscription, worker) for worker in self.blame.workers)


@dataclass(frozen=True, slots=True)
class SubscribedWorkerSummary:
    """The workers of one name on one subscription."""

    topic: str
    subscription: str
    oldest_unacknowledged_s: float
    """As for the whole subscription."""
    worker: WorkerSummary


@dataclass(frozen=True, slots=True)
class BlamedWorkerSummary:
    """A worker that keeps messages from being worked on, named however many workers metrics may name."""

    topic: str
    subscription: str
    worker: BlamedWorker


@dataclass(frozen=True, slots=True)
class SubscriptionsSummary:
    """All of them together; names as in `SubscriptionsStatistics`."""

    subscriptions: int
    subscriptions_ended_total: int
    workers: int
    subscriptions_refused_total: int
    workers_refused_total: int
    workers_per_subscription_refused_total: int
    slices_cut_total: int
    """Turns of the loop that ended with joins, leaves or frames left for later ones."""
    contract_checked_messages_total: int
    """Messages whose delivery was judged by the contract's monitor."""
    contract_violations: dict[str, int]
    """By kind, also of subscriptions that have ended."""
    held_bytes: int
    memory_bytes: int
    """Bytes all may hold together."""
    reading_stopped: bool
    reading_stops: int
    shutting_down: bool


def subscription_summary(subscription: Subscription) -> SubscriptionSummary:
    """One at this moment."""
    state = subscription.state
    settings, dispatcher = state.settings, dispatcher_summary(state.dispatcher)
    look_ahead = settings.look_ahead_messages(dispatcher.workers)
    return SubscriptionSummary(
        **subscription_counts(subscription),
        look_ahead_messages=look_ahead,
        look_ahead_used=(dispatcher.waiting_messages - dispatcher.spilled_messages)
        / max(look_ahead + dispatcher.available_permits, 1),
        memory_bytes=settings.subscription_memory_bytes,
        oldest_wait_s=_age(state, dispatcher.oldest_wait_since),
        oldest_unacknowledged_s=_age(state, dispatcher.oldest_delivery_at),
        contract_violations=NO_VIOLATIONS if state.monitor is None else state.monitor.violations,
        durations=durations_of(subscription),
        blame=blame(state.dispatcher, surroundings_of(subscription), state.now()),
        dispatcher=dispatcher,
    )


def surroundings_of(subscription: Subscription, lease: str = "") -> Surroundings:
    """What a verdict needs besides the dispatcher; `lease` is its field of that name."""
    state, consumers, letters = subscription.state, subscription.consumers, subscription.dead_letters
    settings, workers = state.settings, len(state.dispatcher.workers)
    by_workers = settings.look_ahead_messages_per_worker * workers < settings.look_ahead_messages_per_subscription
    bound = f"look_ahead_messages_per_{'worker' if by_workers else 'subscription'}"
    topic = state.topic.removeprefix(DEFAULT_PLACE)
    target = f"{quote(topic.removeprefix('persistent://'))} {quote(state.name)}"
    memory_bytes = settings.subscription_memory_bytes
    larger_bytes = min(2 * memory_bytes, settings.gateway_memory_bytes)
    return Surroundings(
        target=target,
        upstream=consumers.state.value,
        upstream_error=consumers.last_error,
        former=subscription.services.formers.stands(state.key),
        behind=consumers.behind,
        look_ahead_messages=settings.look_ahead_messages(workers),
        more_look_ahead=f"{bound}={2 * getattr(settings, bound)}",
        memory_bytes=memory_bytes if _is_full(subscription) else 0,
        more_memory=f"subscription_memory_bytes={larger_bytes}" if larger_bytes > memory_bytes else "",
        gateway_bytes=settings.gateway_memory_bytes if subscription.services.reading_stopped else 0,
        lease=lease,
        lease_command=f"keyline groups {target}" if state.streamed else "keyline replicas",
        excluded=_excluded(subscription),
        takeover=subscription.takeover.says,
        diversion_topic="" if letters is None else letters.topic,
        diversion_advice=("", None) if letters is None else letters.advice(target),
    )


def _is_full(subscription: Subscription) -> bool:
    """Whether it asks the broker for nothing more because of the bytes that it holds."""
    dispatcher, consumers = subscription.state.dispatcher, subscription.consumers
    outstanding = dispatcher.outstanding
    waiting = dispatcher.waiting_messages - outstanding.spill.messages + consumers.queued_messages
    return consumers.are_full(waiting, outstanding.bytes_counted + consumers.queued_bytes)


def _excluded(subscription: Subscription) -> tuple[str, ...]:
    """Names of connected workers that an operator excludes."""
    if not subscription.state.dispatcher.excluded:
        return ()
    by_order = subscription.services.orders.of(subscription.state.key).excluded
    names = {subscriber.command.consumer_name for subscriber in subscription.membership.excluded}
    return tuple(sorted(names & by_order))


def worker_summaries(subscription: Subscription) -> Iterator[SubscribedWorkerSummary]:
    """Its workers by name, each as of the moment it is asked for; who has left by then is left out."""
    state, dispatcher = subscription.state, subscription.state.dispatcher
    for name, known in workers_by_name(dispatcher).items():
        here = [each for each in known if dispatcher.workers.get(each.index) is each]
        if here:
            worker = worker_summary(dispatcher, name, here)
            oldest_s = _age(state, worker.oldest_delivery_at)
            yield SubscribedWorkerSummary(state.topic, state.name, oldest_s, worker)


def _age(state: SubscriptionState, since: float | None) -> float:
    return state.now() - since if since is not None else 0.0
