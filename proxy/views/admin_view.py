"""The admin API's view of this gateway's subscriptions, groups and exclusive producers; it changes nothing.

Implements `admin_api.ports.GatewayView`: finds the named object, or reports the wrong part of the name, and returns
frozen values only. Everything here runs on the gateway's event loop, outside the path of messages.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from proxy.core import pending, preview
from proxy.core.errors import ConsumerAssignError
from proxy.core.key_verdict import explained
from proxy.core.statistics import draining_hash, worker_statistics_steps
from proxy.core.stuck import stuck_steps
from proxy.errors import ClientError, Conflict, NotFound
from proxy.groups.streams import GroupId
from proxy.limits import Limits
from proxy.net.group.settings import OWNER
from proxy.net.group.views import GroupsPage
from proxy.net.subscription.batch_contents import key_of
from proxy.net.subscription.order_book import LimitsWanted
from proxy.net.subscription.summary import surroundings_of
from proxy.views.answers import connected_steps, is_of, ring_steps, standing
from proxy.views.hot_keys import HotKeysPage, hot_keys_steps
from proxy.views.lookup import AdminLookup
from proxy.views.parked import ParkedMessage, ParkedSlots, parked_messages, parked_slots
from proxy.views.subscriptions import lease_of, subscription_statistics_steps, subscriptions_statistics_steps
from proxy.views.values import ConnectedSubscription, DrainingPage, LimitsInForce, Ring, StandingOrders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.explain import SlotExplanation
    from proxy.core.statistics import WorkerStatistics
    from proxy.core.steps import Steps
    from proxy.core.stuck import StuckSlots
    from proxy.net.election.elections import ProducerElections
    from proxy.net.election.statistics import ElectionPage, ElectionsPage
    from proxy.net.events import Event, Listener
    from proxy.net.group.groups import Groups
    from proxy.net.group.views import GroupStatistics
    from proxy.net.subscription.directory import Subscriptions
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.views.deployment import DeploymentStatistics, DeploymentView
    from proxy.views.lookup import Key
    from proxy.views.subscriptions import SubscriptionsStatistics, SubscriptionStatistics


class AdminView(AdminLookup):
    """What is read of the gateway."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        elections: ProducerElections,
        not_ready_because: Callable[[], Sequence[str]],
        configuration: dict[str, Any],
        max_frame_bytes: int = Limits().max_frame_bytes,
        groups: Groups | None = None,
        deployment: DeploymentView | None = None,
    ) -> None:
        """`not_ready_because` gives the reasons why the gateway is not ready for clients.

        `deployment` is there in owner mode. `configuration` is the configuration in effect, with secrets masked; no
        entry from a broker is larger than `max_frame_bytes`.
        """
        self._max_frame_bytes = max_frame_bytes
        super().__init__(subscriptions, groups, deployment)
        self._elections = elections
        self._replica = None if deployment is None else deployment.replica
        self._configuration = configuration
        self.not_ready_because = not_ready_because

    def subscriptions(self, after: str | None, limit: int, *, workers: bool = True) -> Steps[SubscriptionsStatistics]:
        """A page of subscriptions, without long lists; without `workers` they are counted only."""
        return subscriptions_statistics_steps(
            self._subscriptions, self._groups, self._replica, after, limit, brief=True, workers=workers
        )

    def configuration(self) -> dict[str, Any]:
        """Every setting in effect with its origin."""
        return self._configuration

    def subscription(self, key: Key) -> Steps[SubscriptionStatistics]:
        """One. Raises `NotFound`."""
        return subscription_statistics_steps(self._find(key), self._groups, self._replica)

    def worker(self, key: Key, name: str) -> Steps[WorkerStatistics]:
        """One worker; the first of that name. Raises `NotFound`."""
        subscription = self._find(key)
        state = subscription.state
        return worker_statistics_steps(state.dispatcher, self._workers(subscription, name)[0], state.now())

    def connected(self, topic: str, *, partitions: bool) -> list[Steps[ConnectedSubscription]]:
        """A broker's statistics of the topic's subscriptions here, or of its partitions; each on demand."""
        keys = [key for key in self._subscriptions.all_keys() if is_of(key[0], topic, partitions=partitions)]
        found = map(self._subscriptions.find, keys)
        return [connected_steps(subscription) for subscription in found if subscription is not None]

    def listen(self, wake: Callable[[], None], after: int | None, wanted: Callable[[Event], bool]) -> Listener:
        """The wanted events from now on, or after a number."""
        return self._subscriptions.events.listen(wake, after, wanted)

    def ring(self, key: Key) -> Steps[Ring]:
        """The owners of slots. Raises `NotFound`."""
        return ring_steps(self._find(key))

    def draining(self, key: Key, name: str | None, after: int, limit: int) -> DrainingPage:
        """Slots above `after` that drain, of the workers of a name or of all. Raises `NotFound`."""
        subscription = self._find(key)
        dispatcher = subscription.state.dispatcher
        workers = self._workers(subscription, name) if name is not None else []
        holder = dispatcher.slots.holder
        found = (slot for slot in dispatcher.draining.slots() if slot > after)
        if name is not None:
            held_by = {worker.index for worker in workers}
            found = (slot for slot in found if holder(slot) in held_by)
        page = list(islice(found, limit + 1))
        listed = page[:limit]
        return DrainingPage(
            now=subscription.state.now(),
            draining_hashes_count=(
                len(dispatcher.draining) if name is None else sum(worker.draining_slots for worker in workers)
            ),
            draining_hashes=tuple(draining_hash(dispatcher, slot) for slot in listed),
            holders=tuple(dispatcher.holder_at(holder(slot)).name for slot in listed),
            next=listed[-1] if len(page) > limit else None,
        )

    def explain(self, key: Key, *, message_key: bytes | None, slot: int | None) -> SlotExplanation:
        """Why a key, or a slot, waits or flows. Raises `NotFound`, and `ClientError` for a slot that cannot be."""
        subscription = self._find(key)
        state, place = subscription.state, self._slot(subscription, message_key, slot)
        group = None if self._groups is None else self._groups.summary(GroupId(*key))
        return explained(state.dispatcher, place, state.now(), surroundings_of(subscription, lease_of(group)))

    def stuck(self, key: Key, limit: int) -> Steps[StuckSlots]:
        """Slots that wait, oldest first. Raises `NotFound`."""
        state = self._find(key).state
        return stuck_steps(state.dispatcher, limit, key_of, state.now())

    def hot_keys(self, key: Key, limit: int) -> Steps[HotKeysPage]:
        """The keys with the most recent messages. Raises `NotFound`."""
        state = self._find(key).state
        return hot_keys_steps(state.dispatcher, state.hot_keys, limit, state.now())

    def parked(self, key: Key, limit: int) -> ParkedSlots:
        """What is parked, slot by slot. Raises `NotFound`."""
        found = self._find(key)
        return parked_slots(found.lot, found.state.dispatcher.diversions.trouble, limit)

    def parked_messages(
        self, key: Key, *, message_key: bytes | None, slot: int | None, limit: int
    ) -> tuple[ParkedMessage, ...]:
        """The parked messages of a key's slot, in order. Raises `NotFound`, and `ClientError` for no slot."""
        found = self._find(key)
        return parked_messages(found.lot, self._slot(found, message_key, slot), limit)

    def preview_join(
        self, key: Key, name: str, sticky_ranges: Sequence[tuple[int, int]]
    ) -> Steps[preview.MembershipPreview]:
        """The slots that would move at a join. Raises `NotFound`, and `Conflict` if the join would be refused."""
        subscription = self._find(key)
        try:
            return (yield from preview.preview_join_steps(subscription.state.dispatcher, name, sticky_ranges))
        except ConsumerAssignError as error:
            raise Conflict(str(error)) from error

    def preview_leave(self, key: Key, names: Sequence[str]) -> Steps[preview.MembershipPreview]:
        """The slots that would move if these workers left. Raises `NotFound`."""
        subscription = self._find(key)
        for name in names:
            self._workers(subscription, name)
        return preview.preview_leave_steps(subscription.state.dispatcher, names)

    def elections(self, after: str | None, limit: int) -> ElectionsPage:
        """A page of the topics with exclusive producers here, and the totals."""
        return self._elections.page(after, limit)

    def election(self, topic: str, first: int, limit: int) -> ElectionPage:
        """One topic with a page of its queue. Raises `NotFound`."""
        found = self._elections.waiting(topic, first, limit)
        if found is None:
            message = f"no producer of this gateway owns topic {topic} or waits for it"
            raise NotFound(f"{message}; `keyline producers` lists the topics that have any")
        return found

    def groups(self, after: str | None, limit: int) -> GroupsPage:
        """A page of this replica's groups."""
        if self._groups is not None:
            return self._groups.page(after, limit)
        return GroupsPage(None if self._deployment is None else OWNER, self._replica, (), None)

    def group(self, key: Key) -> GroupStatistics:
        """One group with everything that this replica knows. Raises `NotFound`."""
        found = None if self._groups is None else self._groups.statistics(GroupId(*key))
        if found is None:
            raise self._no_group(key)
        return found

    def deployment(self) -> DeploymentStatistics:
        """All replicas in owner mode. Raises `NotFound` in any other mode."""
        return self._part().statistics()

    def pending(
        self,
        key: Key,
        name: str,
        *,
        message_key: bytes | None,
        slot: int | None,
        after: str | None,
        limit: int,
    ) -> Steps[pending.PendingPage]:
        """A page of what the workers of a name have not acknowledged.

        Raises:
            NotFound: there is no worker of that name.
            ClientError: the cursor is invalid.
        """
        subscription = self._find(key)
        state, workers = subscription.state, self._workers(subscription, name)
        place = None
        if message_key is not None or slot is not None:
            place = self._slot(subscription, message_key, slot)
        try:
            return (
                yield from pending.pending_page_steps(
                    state.dispatcher, workers, slot=place, after=after, limit=limit, now=state.now()
                )
            )
        except ValueError as error:
            raise ClientError(str(error)) from error

    def orders(self) -> tuple[StandingOrders, ...]:
        """All active orders, by topic and subscription."""
        book = self._subscriptions.orders
        return tuple(standing(key, book.of(key), self._subscriptions.find(key)) for key in sorted(book.keys()))

    def limits(self, key: Key) -> LimitsInForce:
        """The limits in effect, and those of the configuration. Raises `NotFound`, unless some are ordered."""
        self._check_owner(key)
        book = self._subscriptions.orders
        if not book.of(key).limits.named():
            self._find(key)
        return self._limits(key, book.of(key).limits)

    def configured(self, configuration: dict[str, Any]) -> None:
        """Another configuration is in effect."""
        self._configuration = configuration

    def _asked(self, key: Key) -> SubscriptionSettings:
        """What the configuration says, or the workers' consumer properties."""
        subscription = self._subscriptions.find(key)
        return subscription.state.asked if subscription is not None else self._subscriptions.services.settings

    def _limits(self, key: Key, ordered: LimitsWanted) -> LimitsInForce:
        settings = self._asked(key)
        applied = ordered.applied(settings)
        return LimitsInForce(
            in_effect={name: getattr(applied, name) for name in LimitsWanted.__slots__},
            configured={name: getattr(settings, name) for name in LimitsWanted.__slots__},
        )
