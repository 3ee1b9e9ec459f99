"""The admin API's view and control of this gateway's subscriptions, groups and exclusive producers.

Implements `admin_api.ports.GatewayView` and `GatewayControl`: finds the named object, or reports the wrong part of the
name, and returns frozen values only. Everything here runs on the gateway's event loop, outside the path of messages.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from proxy.config.relations import unmet
from proxy.core import pending, preview
from proxy.core.dispatcher import OrderingMode
from proxy.core.errors import ConsumerAssignError
from proxy.core.key_verdict import explained
from proxy.core.statistics import draining_hash, worker_statistics_steps
from proxy.core.stuck import stuck_steps
from proxy.errors import ClientError, Conflict, NotFound
from proxy.groups.messages import ReplayTarget
from proxy.groups.streams import GroupId
from proxy.limits import Limits
from proxy.net.group.settings import OWNER
from proxy.net.group.views import GroupsPage
from proxy.net.subscription.batch_contents import key_of
from proxy.net.subscription.order_book import LimitsWanted
from proxy.net.subscription.policy import settings_again
from proxy.net.subscription.summary import surroundings_of
from proxy.views.answers import connected_steps, is_of, ring_steps, standing
from proxy.views.hot_keys import HotKeysPage, hot_keys_steps
from proxy.views.lookup import AdminLookup
from proxy.views.parked import ParkedMessage, ParkedSlots, parked_messages, parked_slots
from proxy.views.subscriptions import lease_of, subscription_statistics_steps, subscriptions_statistics_steps
from proxy.views.values import ConnectedSubscription, DrainingPage, LimitsInForce, Ring, StandingOrders

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

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
    from proxy.net.subscription.order_book import Orders
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.net.subscription.subscription import Subscription
    from proxy.views.deployment import DeploymentStatistics, DeploymentView
    from proxy.views.subscriptions import SubscriptionsStatistics, SubscriptionStatistics

    Key = tuple[str, str]
    """Topic, with everything before its name, and subscription."""


class Admin(AdminLookup):
    """Reads and orders of operators."""

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
        self.reloads: Callable[[str], Any] | None = None
        """Reads the configuration again, for who orders it."""
        self.not_ready_because = not_ready_because

    # ---- reads

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
        """Slots above `after` that drain, of one worker or all. Raises `NotFound`."""
        subscription = self._find(key)
        dispatcher = subscription.state.dispatcher
        worker = self._workers(subscription, name)[0] if name is not None else None
        holder = dispatcher.slots.holder
        found = (slot for slot in dispatcher.draining.slots() if slot > after)
        if worker is not None:
            found = (slot for slot in found if holder(slot) == worker.index)
        page = list(islice(found, limit + 1))
        listed = page[:limit]
        return DrainingPage(
            now=subscription.state.now(),
            draining_hashes_count=worker.draining_slots if worker is not None else len(dispatcher.draining),
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
        """A page of a worker's unacknowledged messages. Raises `NotFound`, and `ClientError` for an invalid cursor."""
        subscription = self._find(key)
        state, worker = subscription.state, self._workers(subscription, name)[0]
        place = None
        if message_key is not None or slot is not None:
            place = self._slot(subscription, message_key, slot)
        try:
            return (
                yield from pending.pending_page_steps(
                    state.dispatcher, worker, slot=place, after=after, limit=limit, now=state.now()
                )
            )
        except ValueError as error:
            raise ClientError(str(error)) from error

    # ---- orders

    def orders(self) -> tuple[StandingOrders, ...]:
        """All active orders, by topic and subscription."""
        book = self._subscriptions.orders
        return tuple(standing(key, book.of(key), self._subscriptions.find(key)) for key in sorted(book.keys()))

    def pause(self, key: Key, *, by: str = "") -> None:
        """Pause deliveries. Raises `NotFound`."""
        self._find(key).orders.pause(by=by)

    def resume(self, key: Key, *, by: str = "") -> None:
        """Resume deliveries. Raises `NotFound`, unless a subscription without workers is paused."""
        self._check_owner(key)
        book = self._subscriptions.orders
        if self._subscriptions.find(key) is None and book.of(key).paused:
            with book.changing(key) as orders:
                orders.paused = False
        else:
            self._find(key).orders.resume(by=by)

    def drain(self, key: Key, name: str, *, drained: bool, by: str = "") -> int:
        """Stop or resume new deliveries to a worker. Raises `NotFound`, except to revert an absent worker's order."""
        stands = name in self._subscriptions.orders.of(key).drained
        subscription = self._to_order(key, name, lambda orders: orders.drained, undo=not drained)
        if subscription is None:
            return 0
        if drained or not stands:
            self._workers(subscription, name)
        return subscription.orders.drain(name, drained=drained, by=by)

    def exclude(self, key: Key, name: str, *, excluded: bool, by: str = "") -> int:
        """Give a worker's slots to others for good, or readmit it. Raises `NotFound`, as `drain`."""
        stands = name in self._subscriptions.orders.of(key).excluded
        subscription = self._to_order(key, name, lambda orders: orders.excluded, undo=not excluded)
        if subscription is None:
            return 0
        if not stands and (excluded or name not in subscription.state.dispatcher.quarantined):
            self._workers(subscription, name)
        return subscription.orders.exclude(name, excluded=excluded, by=by)

    def take_out(
        self, key: Key, *, message_key: bytes | None, slot: int | None, redrive: bool, by: str = ""
    ) -> tuple[int, int]:
        """Redrive or drop what is parked of a key's slot; the slot, and how many messages that are at present.

        Raises `NotFound`, also if nothing of it is parked, and `ClientError` for a slot that cannot be.
        """
        found = self._find(key)
        place = self._slot(found, message_key, slot)
        if found.lot is None or place not in found.lot.parked_slots:
            raise NotFound(f"hash slot {place} is not parked")
        return place, found.orders.take_out(found.lot, place, redrive=redrive, by=by)

    def _to_order(self, key: Key, name: str, names: Callable[[Orders], set[str]], *, undo: bool) -> Subscription | None:
        """The subscription of a worker to order something; None if without one an order of it was undone.

        `names` are the workers of whom it is ordered. Raises `NotFound`.
        """
        self._check_owner(key)
        book = self._subscriptions.orders
        if undo and self._subscriptions.find(key) is None and name in names(book.of(key)):
            with book.changing(key) as orders:
                names(orders).discard(name)
            return None
        return self._find(key)

    def stand_down(self, replica: str) -> int:
        """A replica stops: see `DeploymentView.stand_down`. Raises `NotFound` in any other mode."""
        return self._part().stand_down(replica)

    def drain_replica(self, *, drained: bool) -> None:
        """Let this replica own nothing, or its share again. Raises `NotFound` in any other mode, and `Conflict`."""
        self._part().drain(drained=drained)

    def evict(self, key: Key, name: str, *, by: str = "") -> int:
        """Close a worker's consumer. Raises `NotFound`."""
        subscription = self._find(key)
        self._workers(subscription, name)
        return subscription.orders.evict(name, by=by)

    def move(self, key: Key, replica: str | None, *, by: str = "") -> None:
        """Let a certain replica serve it; None for any.

        Raises `NotFound` in any other mode and for a replica that is not there.
        """
        part = self._part()
        if replica is not None:
            part.find(replica)
        self._find(key).orders.move(replica or "", by=by)

    def change_mode(self, key: Key, mode: str | None, *, by: str = "") -> None:
        """Set the ordering mode; None for that of the clients or the configuration.

        Raises `NotFound`, and `Conflict` for a change into or out of unordered delivery.
        """
        self._check_owner(key)
        book = self._subscriptions.orders
        present = self._subscriptions.find(key)
        if mode is None and book.of(key).mode is not None:
            if present is not None:
                present.orders.revert_mode(by=by)
            else:
                with book.changing(key) as orders:
                    orders.mode = None
            return
        subscription = present or self._find(key)
        if mode is not None:
            try:
                subscription.orders.change_mode(OrderingMode(mode), by=by)
            except ClientError as error:
                raise Conflict(str(error)) from error

    def limits(self, key: Key) -> LimitsInForce:
        """The limits in effect, and those of the configuration. Raises `NotFound`, unless some are ordered."""
        self._check_owner(key)
        book = self._subscriptions.orders
        if not book.of(key).limits.named():
            self._find(key)
        return self._limits(key, book.of(key).limits)

    def change_limits(self, key: Key, limits: Mapping[str, Any], *, keep: bool = False, by: str = "") -> LimitsInForce:
        """Set limits by their names in the configuration; None resets a limit. Returns those in effect.

        Limits that are not named are reset, or with `keep` stay as they are. Raises `NotFound`, unless active ones of
        a subscription without workers are reverted, and `Conflict` if they contradict each other.
        """
        self._check_owner(key)
        book = self._subscriptions.orders
        wanted = LimitsWanted(**({**book.of(key).limits.named(), **limits} if keep else limits))
        self._check_limits(key, wanted, limits)
        nothing = LimitsWanted()
        if self._subscriptions.find(key) is None and wanted == nothing and book.of(key).limits != nothing:
            with book.changing(key) as orders:
                orders.limits = nothing
        else:
            self._find(key).orders.change_limits(wanted, by=by)
        return self._limits(key, wanted)

    def configured(self, configuration: dict[str, Any]) -> None:
        """Another configuration is in effect."""
        self._configuration = configuration

    def reload(self, *, by: str) -> Any:
        """Read the configuration again; returns what changed. Raises `ConfigurationError` if nothing did."""
        if self.reloads is None:
            raise Conflict("this gateway was started without a configuration that it could read again")
        return self.reloads(by)

    def _asked(self, key: Key) -> SubscriptionSettings:
        """What the configuration says, or the workers' consumer properties."""
        subscription = self._subscriptions.find(key)
        return subscription.state.asked if subscription is not None else self._subscriptions.services.settings

    def _check_limits(self, key: Key, wanted: LimitsWanted, named: Collection[str]) -> None:
        """The configuration's relations for the same settings, whatever workers ask for.

        They may be broken by what was ordered before, if the configuration has changed since: then that is said.
        """
        settings = wanted.applied(settings_again({}, key, self._subscriptions.services.settings))
        broken = list(unmet(dict(asdict(settings), max_frame_bytes=self._max_frame_bytes)))
        if not broken:
            return
        before = [name for name in wanted.named() if name not in named and any(f"{name} (" in each for each in broken)]
        told = f"; ordered before: {', '.join(before)}; take that back first (keyline limits --reset)" if before else ""
        raise Conflict("; ".join(broken) + told)

    def _limits(self, key: Key, ordered: LimitsWanted) -> LimitsInForce:
        settings = self._asked(key)
        applied = ordered.applied(settings)
        return LimitsInForce(
            in_effect={name: getattr(applied, name) for name in LimitsWanted.__slots__},
            configured={name: getattr(settings, name) for name in LimitsWanted.__slots__},
        )

    def replay(
        self,
        key: Key,
        position: tuple[int, int] | None,
        published_ms: int | None,
        answered: Callable[[str | None], None],
    ) -> None:
        """Replay a whole group from a position; `answered` gets the error later, or None.

        Raises `NotFound` for a group that this replica is not in.
        """
        if self._groups is None or not self._groups.replay(
            GroupId(*key), ReplayTarget(position, published_ms), answered
        ):
            raise self._no_group(key)
