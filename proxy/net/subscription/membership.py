"""Workers come into a subscription and leave it: what that does in the dispatcher, and who is told.

A client may bring thousands of workers at once, and all of them leave when its connection closes. So they come and go
in groups, within the loop's slice (`slices`): a group changes the hash ring worker by worker, as the broker would, and
settles what waits once. Nothing is sent in between, so nobody sees a worker half come or half gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core import membership
from proxy.core.errors import ConsumerAssignError
from proxy.errors import ClientError
from proxy.net.subscription.policy import new_worker
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.core.hash_ranges import RangeMove
    from proxy.core.worker import Worker
    from proxy.net.subscription.subscription import Subscription
    from proxy.net.subscription.workers import SubscribedWorker

GROUP_MAX: Final = 32
"""Workers that come or go before what waits is settled; fewer where the slice is over."""

log = structlog.get_logger("keyline.subscription")


class Membership:
    """Owner of the joined workers of one subscription."""

    def __init__(self, subscription: Subscription) -> None:
        """Nobody has joined."""
        self._subscription = subscription
        self.subscribers: dict[int, SubscribedWorker] = {}
        """Joined workers by dispatcher index."""
        self._lost: deque[tuple[SubscribedWorker, str]] = deque()
        """Those whose connection is gone and who have not left yet."""
        self._losing = False

    def join(self, coming: Iterable[SubscribedWorker]) -> None:
        """Workers may come in, unless one has gone meanwhile or the selector has no place for it."""
        subscription = self._subscription
        joined = []
        dispatcher = subscription.dispatcher
        begun = dispatcher.draining_begun_total
        changes = membership.Changes(dispatcher, subscription.now())
        for subscriber in coming:
            if subscriber.ended or subscription.ended:
                continue
            worker = self._new_worker(subscriber)
            try:
                moves = changes.join(worker)
            except ConsumerAssignError as error:
                subscriber.refuse(ClientError(str(error), pb.ConsumerAssignError))
                continue
            self.subscribers[worker.index] = subscriber
            joined.append((subscriber, worker))
            self._joined(subscriber, worker, moves)
        if not joined:
            return
        changes.settle()
        subscription.parting.end()
        subscription.parting.release()
        for subscriber, worker in joined:
            subscriber.joined(worker)
            if subscription.at_end_of_topic:
                subscriber.tell_end_of_topic()
        self._changed(begun)

    def leave(self, subscriber: SubscribedWorker, reason: str, done: Callable[[], None] | None = None) -> None:
        """A worker is gone; `done` is called when the broker too knows it, if it was the last."""
        subscription = self._subscription
        subscription.admission.leave(subscriber)
        if self._is_here(subscriber):
            begun = subscription.dispatcher.draining_begun_total
            changes = membership.Changes(subscription.dispatcher, subscription.now())
            self._leave(changes, subscriber, reason)
            changes.settle()
            self._changed(begun)
        if not subscription.end_if_empty(done) and done is not None:
            done()

    def lose(self, subscriber: SubscribedWorker, reason: str) -> None:
        """A worker's connection is gone: it leaves now, or with others of it in turns to come."""
        if not self._is_here(subscriber):
            self.leave(subscriber, reason)
            return
        self._lost.append((subscriber, reason))
        if not self._losing:
            self._losing = True
            self._subscription.directory.slices.do(self._lose_some)

    def disconnect(self) -> None:
        """Every consumer is closed and may come again."""
        for subscriber in self.subscribers.values():
            subscriber.end()
            subscriber.worker = None
        self.subscribers.clear()

    def _lose_some(self, end: float) -> bool:
        """A step: those that are lost leave."""
        subscription = self._subscription
        begun = subscription.dispatcher.draining_begun_total
        changes = membership.Changes(subscription.dispatcher, subscription.now())
        for _ in range(GROUP_MAX):
            if not self._lost:
                break
            subscriber, reason = self._lost.popleft()
            if self._is_here(subscriber):
                self._leave(changes, subscriber, reason)
            if subscription.clock.now() >= end:
                break
        changes.settle()
        self._changed(begun)
        self._losing = bool(self._lost)
        if not self._losing:
            subscription.end_if_empty()
        return self._losing

    def _is_here(self, subscriber: SubscribedWorker) -> bool:
        """Whether it has joined and not left, nor been disconnected."""
        return subscriber.worker is not None and self.subscribers.get(subscriber.worker.index) is subscriber

    def _new_worker(self, subscriber: SubscribedWorker) -> Worker:
        subscription = self._subscription
        command, directory = subscriber.command, subscription.directory
        name = command.consumer_name or directory.new_consumer_name()
        worker = new_worker(command, name, subscriber, subscription.settings)
        worker.drained_by_operator = name in directory.orders.of(subscription.key).drained
        worker.reconsider()
        return worker

    def _joined(self, subscriber: SubscribedWorker, worker: Worker, moves: Sequence[RangeMove[Worker]]) -> None:
        subscription, peer = self._subscription, subscriber.link.peer
        topic, name = subscription.key
        log.info("worker joined", topic=topic, subscription=name, consumer=worker.name, peer=peer)
        subscription.directory.events.joined(subscription.key, worker.name, peer, moves)

    def _leave(self, changes: membership.Changes, subscriber: SubscribedWorker, reason: str) -> None:
        subscription, worker = self._subscription, subscriber.worker
        assert worker is not None
        subscriber.worker = None
        del self.subscribers[worker.index]
        moves = changes.leave(worker)
        topic, name = subscription.key
        log.info("worker left", topic=topic, subscription=name, consumer=worker.name, reason=reason)
        subscription.directory.events.left(subscription.key, worker.name, reason, moves)

    def _changed(self, begun: int) -> None:
        """After a change; `begun` was the dispatcher's total of slots that drain before it."""
        subscription = self._subscription
        dispatcher = subscription.dispatcher
        subscription.directory.events.drains_began(
            subscription.key, dispatcher.draining_begun_total - begun, len(dispatcher.draining)
        )
        if subscription.seat is not None:
            subscription.seat.workers_changed(len(self.subscribers))
        subscription.schedule_flush()
