"""Long answers of the admin API, in steps: see `proxy.core.steps`."""

from __future__ import annotations

from collections import deque
from heapq import merge
from typing import TYPE_CHECKING, Final

from proxy.core.statistics import dispatcher_statistics_steps
from proxy.core.steps import in_steps
from proxy.views.values import ConnectedConsumer, ConnectedSubscription, Ring, StandingOrders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.statistics import WorkerStatistics
    from proxy.core.steps import Steps
    from proxy.core.worker import Worker
    from proxy.net.subscription.order_book import Orders
    from proxy.net.subscription.subscription import Subscription
    from proxy.net.subscription.workers import SubscribedWorker

RING_ATTEMPTS: Final = 5


def ring_steps(subscription: Subscription) -> Steps[Ring]:
    """Restarts when workers join or leave meanwhile; otherwise slots could be repeated."""
    dispatcher = subscription.state.dispatcher
    for _ in range(RING_ATTEMPTS):
        workers = list(dispatcher.workers.values())
        by_worker = []
        for place, worker in enumerate(workers):
            by_worker.append([(span.start, span.end, place) for span in dispatcher.selector.ranges(worker)])
            yield
        ranges: list[tuple[int, int, int]] = []
        for run in in_steps(merge(*by_worker)):
            ranges += run
            yield
        if workers == list(dispatcher.workers.values()):
            return _ring(dispatcher, workers, ranges)
    # Membership never settles: build it in one step, however long that takes.
    workers = list(dispatcher.workers.values())
    places = {id(worker): place for place, worker in enumerate(workers)}
    assigned = dispatcher.selector.assignment()
    return _ring(dispatcher, workers, [(span.start, span.end, places[id(worker)]) for span, worker in assigned])


def _ring(dispatcher: Dispatcher, workers: Sequence[Worker], ranges: Sequence[tuple[int, int, int]]) -> Ring:
    return Ring(
        hash_space=dispatcher.selector.range_size,
        workers=tuple(worker.name for worker in workers),
        ranges=tuple(ranges),
        draining_hashes_count=len(dispatcher.draining),
    )


def standing(key: tuple[str, str], orders: Orders, subscription: Subscription | None) -> StandingOrders:
    """The active orders of a subscription, which may have no workers here."""
    return StandingOrders(
        topic=key[0],
        subscription=key[1],
        present=subscription is not None,
        paused=orders.paused,
        drained=tuple(sorted(orders.drained)),
        excluded=tuple(sorted(orders.excluded)),
        ordering_mode=orders.mode.value if orders.mode is not None else None,
        limits=orders.limits.named(),
        replica=orders.replica or None,
    )


def is_of(name: str, topic: str, *, partitions: bool) -> bool:
    """Whether a topic is the one that is meant, or one of its partitions."""
    if not partitions:
        return name == topic
    number = name.removeprefix(f"{topic}-partition-")
    return number != name and number.isdecimal()


def connected_steps(subscription: Subscription) -> Steps[ConnectedSubscription]:
    """Workers in join order; namesakes are told apart by it."""
    statistics = yield from dispatcher_statistics_steps(subscription.state.dispatcher, subscription.state.now())
    by_name: dict[str, deque[SubscribedWorker]] = {}
    for subscriber in subscription.subscribers.values():
        if subscriber.worker is not None:
            by_name.setdefault(subscriber.worker.name, deque()).append(subscriber)
    consumers = []
    for worker in statistics.workers:
        namesakes = by_name.get(worker.name)
        if namesakes:  # it may have left meanwhile
            consumers.append(_connected_consumer(worker, namesakes.popleft()))
    return ConnectedSubscription(
        topic=subscription.state.topic,
        subscription=subscription.state.name,
        now=subscription.state.now(),
        replica_name=subscription.state.settings.replica_name,
        ordering_mode=statistics.ordering_mode,
        waiting_messages=statistics.waiting_messages,
        consumers=tuple(consumers),
    )


def _connected_consumer(statistics: WorkerStatistics, subscriber: SubscribedWorker) -> ConnectedConsumer:
    worker = subscriber.worker
    return ConnectedConsumer(
        statistics=statistics,
        consumer_id=subscriber.link.consumer_id,
        address=subscriber.link.peer,
        client_version=subscriber.link.client_version,
        metadata=tuple((item.key, item.value) for item in subscriber.command.metadata),
        first_sent_at=worker.first_sent_at if worker is not None else 0.0,
    )
