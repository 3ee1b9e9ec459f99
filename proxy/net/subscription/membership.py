"""Joins and leaves of a subscription's workers: the changes in the dispatcher, and the notifications.

A client may have thousands of workers join at once, and all of them leave when its connection closes. So they join and
leave in groups, within the loop's slice (`slices`): a group changes the hash ring worker by worker, as the broker
would, and redistributes waiting messages once. Nothing is sent in between, so no partial join or leave is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core import membership
from proxy.core.errors import ConsumerAssignError
from proxy.core.quarantine import WorkerName
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.worker import Worker
from proxy.errors import ClientError
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.core.hash_ranges import RangeMove
    from proxy.net.subscription.closing import Closing
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import Lifecycle, SubscriptionState
    from proxy.net.subscription.workers import SubscribedWorker

GROUP_MAX: Final = 32
"""Workers that come or go before what waits is settled; fewer where the slice is over."""

log = structlog.get_logger("keyline.subscription")


class Membership:
    """Owner of the joined workers of one subscription; implements `WorkerOwner`."""

    def __init__(self, state: SubscriptionState, services: Services, closing: Closing, lifecycle: Lifecycle) -> None:
        """No worker has joined."""
        self._state = state
        self._services = services
        self._closing = closing
        self._lifecycle = lifecycle
        self.subscribers: dict[int, SubscribedWorker] = {}
        """Joined workers by dispatcher index."""
        self.excluded: dict[SubscribedWorker, None] = {}
        """Those that came again and own no slots, in this order: an operator excluded them, or they are quarantined."""
        self.shut_out_changed: Callable[[], None] = lambda: None
        """Who hears that there are more of them, or fewer."""
        self._count_due = False
        self._lost: list[tuple[SubscribedWorker, str]] = []
        """Those whose connection is gone, or consumer closed, and who have not left yet. No deque: an empty one takes
        ten times as much, and it is empty in nearly all subscriptions."""
        self._losing = False

    def join(self, coming: Iterable[SubscribedWorker]) -> None:
        """Workers may come in, unless one has gone meanwhile or the selector has no place for it."""
        state = self._state
        joined = []
        begun = state.dispatcher.draining_begun_total
        changes = membership.Changes(state.dispatcher, state.now())
        for subscriber in coming:
            if subscriber.ended or state.ended:
                continue
            if self._is_kept_out(subscriber.command.consumer_name):
                self._shut_out(subscriber)
                continue
            worker = self._new_worker(subscriber)
            try:
                moves = changes.join(worker)
            except ConsumerAssignError as error:
                subscriber.refuse(ClientError(str(error), pb.ConsumerAssignError))
                continue
            self.subscribers[worker.index] = subscriber
            joined.append((subscriber, worker))
            self._joined(subscriber, worker, moves, changes.now)
        if not joined:
            return
        changes.settle()
        self._closing.end()
        self._closing.release()
        for subscriber, worker in joined:
            subscriber.joined(worker, self)
            if state.at_end_of_topic:
                subscriber.tell_end_of_topic()
        self._changed(begun)

    def in_the_way(self, subscriber: SubscribedWorker) -> SubscribedWorker | None:
        """The first worker that has hash slots which this one names for itself; None where it may have them.

        None also for slots that no worker may name so: then no one is asked, and it is refused for that.
        """
        selector, command = self._state.dispatcher.selector, subscriber.command
        if not isinstance(selector, StickyRanges) or self._is_kept_out(command.consumer_name):
            return None
        holder = selector.in_the_way([(span.start, span.end) for span in command.keySharedMeta.hashRanges])
        return None if holder is None else self.subscribers.get(holder.index)

    def leave(self, subscriber: SubscribedWorker, reason: str, done: Callable[[], None] | None = None) -> None:
        """As `WorkerOwner` says."""
        if subscriber in self.excluded:
            self._let_go(subscriber)
        else:
            begun = self._state.dispatcher.draining_begun_total
            changes = membership.Changes(self._state.dispatcher, self._state.now())
            self._leave(changes, subscriber, reason, closed=True)
            changes.settle()
            self._changed(begun)
        if not self._lifecycle.end_if_empty(done) and done is not None:
            done()

    def lose(self, subscriber: SubscribedWorker, reason: str) -> None:
        """As `WorkerOwner` says: it leaves in a turn to come."""
        if subscriber in self.excluded:
            self.leave(subscriber, reason)
            return
        self._lost.append((subscriber, reason))
        self._begin_losing()

    def disconnect(self) -> None:
        """Every consumer is closed and may come again."""
        for subscriber in self.subscribers.values():
            subscriber.end()
            subscriber.worker = None
        self.subscribers.clear()
        if self._state.monitor is not None:
            self._state.monitor.forget()
        for subscriber in list(self.excluded):
            subscriber.end()
            self._let_go(subscriber)
        self.count_shut_out()

    def close_all(self, name: str, reason: str) -> int:
        """Close the consumers of joined workers of this name, as a broker would; returns how many there were."""
        joined = self.subscribers.values()
        found = [item for item in joined if item.worker is not None and item.worker.name == name]
        for subscriber in found:
            subscriber.end()  # all of them first: none gets what another one held
        for subscriber in found:
            self.leave(subscriber, reason)
        return len(found)

    def close_each(self, workers: Iterable[Worker], reason: str) -> None:
        """Close the consumers of these workers, in groups: what they held goes to none of the same group."""
        for worker in workers:
            subscriber = self.subscribers[worker.index]
            subscriber.end()
            self._lost.append((subscriber, reason))
        self._begin_losing()

    def readmit(self, name: str) -> int:
        """Workers of this name that own no slots join; returns how many there were."""
        coming = [subscriber for subscriber in self.excluded if subscriber.command.consumer_name == name]
        for subscriber in coming:
            self._let_go(subscriber)
        self.join(coming)
        return len(coming)

    def _shut_out(self, subscriber: SubscribedWorker) -> None:
        """It is connected like any other, and gets nothing: it is none of the dispatcher's workers."""
        self.excluded[subscriber] = None
        self._count_soon()
        self._closing.end()
        self._closing.release()
        subscriber.shut_out(self)
        state, name = self._state, subscriber.command.consumer_name
        log.info("excluded or quarantined worker gets no keys", topic=state.topic, subscription=state.name, worker=name)

    def _let_go(self, subscriber: SubscribedWorker) -> None:
        del self.excluded[subscriber]
        self._count_soon()

    def _is_kept_out(self, name: str) -> bool:
        services, key = self._services, self._state.key
        if name in services.orders.of(key).excluded:
            return True
        if not self._state.settings.quarantine_after:
            return False  # it was for a policy that is over: a worker that asked for it may have gone
        return services.quarantine.ends_at(WorkerName(*key, name), self._state.now()) is not None

    def _count_soon(self) -> None:
        """Once for all that come or go in a turn: a client may have thousands of one name."""
        if not self._count_due:
            self._count_due = True
            self._state.clock.call_soon(self.count_shut_out)

    def count_shut_out(self) -> None:
        """Tell the dispatcher who is here without slots, and why: some have come or gone, or an order was given."""
        self._count_due = False
        services, (key, now) = self._services, (self._state.key, self._state.now())
        names = [subscriber.command.consumer_name for subscriber in self.excluded]
        excluded = services.orders.of(key).excluded
        ends = {
            name: services.quarantine.ends_at(WorkerName(*key, name), now) for name in names if name not in excluded
        }
        dispatcher = self._state.dispatcher
        dispatcher.excluded = len(excluded.intersection(names))
        dispatcher.quarantined = {name: end if end is not None else now for name, end in ends.items()}
        self.shut_out_changed()

    def _begin_losing(self) -> None:
        if self._lost and not self._losing:
            self._losing = True
            self._services.slices.do(self._lose_some)

    def _lose_some(self, end: float) -> bool:
        """A step: those that are lost leave."""
        begun = self._state.dispatcher.draining_begun_total
        changes = membership.Changes(self._state.dispatcher, self._state.now())
        for _ in range(GROUP_MAX):
            if not self._lost:
                break
            subscriber, reason = self._lost.pop(0)
            if subscriber.is_joined:  # or it was disconnected meanwhile
                self._leave(changes, subscriber, reason, closed=False)
            if self._state.now() >= end:
                break
        changes.settle()
        self._changed(begun)
        self._losing = bool(self._lost)
        if not self._losing:
            self._lifecycle.end_if_empty()
        return self._losing

    def _new_worker(self, subscriber: SubscribedWorker) -> Worker:
        command, services = subscriber.command, self._services
        name = command.consumer_name or services.new_consumer_name()
        named = command.keySharedMeta.hashRanges if self._state.policy.sticky else ()
        ranges = [(span.start, span.end) for span in named]
        most = self._state.settings.max_unacked_messages_per_worker
        worker = Worker(name, subscriber, sticky_ranges=ranges, max_unacked=most)
        worker.drained_by_operator = name in services.orders.of(self._state.key).drained
        worker.reconsider()
        return worker

    def _joined(
        self, subscriber: SubscribedWorker, worker: Worker, moves: Sequence[RangeMove[Worker]], at: float
    ) -> None:
        state, peer = self._state, subscriber.link.peer
        log.info("worker joined", topic=state.topic, subscription=state.name, worker=worker.name, peer=peer)
        state.events.joined(state.key, worker.name, peer, moves, at)

    def _leave(self, changes: membership.Changes, subscriber: SubscribedWorker, reason: str, *, closed: bool) -> None:
        state, worker = self._state, subscriber.worker
        assert worker is not None
        subscriber.worker = None
        del self.subscribers[worker.index]
        if state.monitor is not None:
            state.monitor.left(worker)
        moves = changes.leave(worker, closed=closed)
        log.info("worker left", topic=state.topic, subscription=state.name, worker=worker.name, reason=reason)
        state.events.left(state.key, worker.name, reason, moves, changes.now)

    def _changed(self, begun: int) -> None:
        """After a change; `begun` was the dispatcher's total of slots that drain before it."""
        state, dispatcher = self._state, self._state.dispatcher
        state.events.drains_began(state.key, dispatcher.draining_begun_total - begun, len(dispatcher.draining))
        self._lifecycle.workers_changed(len(self.subscribers))
        state.schedule_flush()
