"""All Key_Shared subscriptions of this gateway, and the memory they share.

The gateway's bytes are bounded twice. Each subscription stops granting permits when its own budget is spent; that is
an estimate, made before the messages are seen. The hard stop is here: when all of them together hold more than the
gateway may, nothing is read from brokers until workers gave back a tenth of it. Acks do not need that reading to go
out, and dead letters and parked keys have connections of their own, so the stop always ends. Nor does it reach what
replicas say to each other (`ports.Brokers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.errors import ClientError, KeylineError, Stopping, UpstreamUnavailable
from proxy.net.subscription.durations import AllDurations, Durations, durations_of, namespace_of
from proxy.net.subscription.owned import OwnedSubscription
from proxy.net.subscription.pending_worker import PendingWorker
from proxy.net.subscription.refusals import code_of, error_frame
from proxy.net.subscription.services import Services
from proxy.net.subscription.subscription import Assignment, Subscription
from proxy.net.subscription.summary import (
    SubscribedWorkerSummary,
    SubscriptionsSummary,
    SubscriptionSummary,
    subscription_summary,
    worker_summaries,
)
from proxy.wire import commands

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from proxy.core.transactions import TransactionId
    from proxy.net.ports import BrokerLink, Brokers, Clock, WorkerLink, WorkerPort
    from proxy.net.subscription.openings import Openings
    from proxy.net.subscription.owned import Ownership
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.wire import pulsar_pb2 as pb

RESUME_FRACTION: Final = 0.9
DRAIN_POLL_S: Final = 0.02
"""Interval at which a gateway that shuts down checks whether it is done; no message waits for it."""

log = structlog.get_logger("keyline.subscription")


class Subscriptions:
    """Implements `ports.SubscriptionDirectory`."""

    def __init__(
        self,
        brokers: Brokers,
        clock: Clock,
        settings: SubscriptionSettings,
        openings: Openings,
        streamed: Container[tuple[str, str]] = (),
        contract_salt: int = 0,
    ) -> None:
        """Empty; subscriptions come with their workers.

        `contract_salt` decides which keys are watched, see `contract_sample`.

        `streamed` are those that a group of replicas shares, by topic and name.
        """
        services = self.services = Services(brokers, clock, settings, openings, self._account, contract_salt)
        self.orders, self.events, self.slices = services.orders, services.events, services.slices
        self._clock = clock
        self._streamed = streamed
        self.new_assignment: Callable[[Subscription], Assignment] | None = None
        """Gives a subscription that is shared its part in the group."""
        self.ownership: Ownership | None = None
        """Says which subscriptions this replica owns of those that have an owner; None where it owns all of them."""
        self._durations = AllDurations()
        self.ended_total = 0
        """Subscriptions that have ended."""
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._bytes_held = 0
        self._reading_stops = 0
        self._paused_links: list[BrokerLink] = []

    def __len__(self) -> int:
        """How many there are."""
        return len(self._subscriptions)

    def all_keys(self) -> list[tuple[str, str]]:
        """Topic and name of each."""
        return list(self._subscriptions)

    def find(self, key: tuple[str, str]) -> Subscription | None:
        """The one of this topic and name, if it is here."""
        return self._subscriptions.get(key)

    def subscribe(self, link: WorkerLink, command: pb.CommandSubscribe) -> WorkerPort:
        """A client's SUBSCRIBE of type Key_Shared; fields that we do not know are taken out of it.

        A broker may end the connection for one that it cannot read, as for a group, and the gateway's is shared by all
        clients.
        """
        command.DiscardUnknownFields()
        services = self.services
        if services.shutting_down:
            return _Refused(self._clock, link, Stopping("the gateway is shutting down"))
        key = (command.topic, command.subscription)
        subscription = self._subscriptions.get(key)
        streamed = key in self._streamed if subscription is None else subscription.state.streamed
        ownership = None if streamed else self.ownership
        try:
            workers = None if subscription is None else subscription.worker_count
            services.quota.check(len(self._subscriptions), workers, command)
            if ownership is not None:
                ownership.check(key)
            if subscription is None:
                subscription = self._subscriptions[key] = Subscription(
                    key,
                    command,
                    services,
                    self._forget,
                    self.new_assignment,
                    streamed=streamed,
                    owned=ownership is not None,
                )
                self._durations.began(key[0])
                if ownership is not None:
                    ownership.began(OwnedSubscription(subscription))
                state = subscription.state
                facts = {**state.policy_facts(), **self.orders.of(key).told()}
                state.happened("subscription_began", ordering_mode=state.policy.mode.value, **facts)
        except (ClientError, UpstreamUnavailable) as error:
            return _Refused(self._clock, link, error)
        return subscription.admission.add(link, command)

    def transaction_ended(self, transaction: TransactionId, *, committed: bool) -> None:
        """As the port says."""
        self.services.transactions.ended(transaction, committed=committed)

    def _forget(self, subscription: Subscription) -> None:
        """The subscription has ended."""
        self.ended_total += 1
        self._durations.ended(subscription.state.topic, durations_of(subscription))
        if self.ownership is not None and not subscription.state.streamed:
            self.ownership.ended(subscription.state.key)
        if self._subscriptions.get(subscription.state.key) is subscription:
            del self._subscriptions[subscription.state.key]

    # ---- memory -----------------------------------------------------------------------------------------------

    def _account(self, byte_change: int) -> None:
        """A subscription holds more bytes."""
        self._bytes_held += byte_change
        services = self.services
        limit = services.settings.gateway_memory_bytes
        if not services.reading_stopped and self._bytes_held > limit:
            self._stop_reading()
        elif services.reading_stopped and self._bytes_held <= limit * RESUME_FRACTION:
            self._resume_reading()

    def _stop_reading(self) -> None:
        services = self.services
        services.reading_stopped = True
        self._reading_stops += 1
        log.warning("reading stopped", cause="memory budget used up", held_bytes=self._bytes_held)
        consumers = [consumer for subscription in self._subscriptions.values() for consumer in subscription.consumers]
        links = {id(link): link for consumer in consumers if (link := consumer.upstream.link) is not None}
        self._paused_links = list(links.values())
        for link in self._paused_links:
            link.pause_reading(self)
        services.openings.save_memory(short=True)

    def _resume_reading(self) -> None:
        self.services.reading_stopped = False
        self.services.openings.save_memory(short=False)
        for link in self._paused_links:
            link.resume_reading(self)
        self._paused_links = []
        for subscription in self._subscriptions.values():
            subscription.schedule_flush()

    # ---- the configuration changes ----------------------------------------------------------------------------

    def ordered(self, settings: SubscriptionSettings) -> Iterator[tuple[tuple[str, str], SubscriptionSettings]]:
        """What operators' orders make of these settings for each subscription that is here, by topic and name."""
        for key, subscription in self._subscriptions.items():
            yield key, subscription.orders.ordered(settings)

    def reconfigure(self, settings: SubscriptionSettings) -> None:
        """Bound all subscriptions so from now on, those that are here too; what is beyond a bound already stays."""
        services = self.services
        services.settings = services.quota.settings = settings
        for subscription in list(self._subscriptions.values()):
            subscription.orders.reconfigure(settings)
        self._account(0)

    # ---- shutting down ----------------------------------------------------------------------------------------

    def drain(self, done: Callable[[], None]) -> None:
        """Refuse joins, stop deliveries; call `done` when all that workers hold is acknowledged and confirmed."""
        self.services.shutting_down = True
        for subscription in self._alone():
            subscription.state.dispatcher.pause()
        self._wait_until_idle(done)

    def _alone(self) -> list[Subscription]:
        """Those that no group shares: the others go on until their streams are elsewhere."""
        return [subscription for subscription in self._subscriptions.values() if subscription.assignment is None]

    def _wait_until_idle(self, done: Callable[[], None]) -> None:
        if all(subscription.state.idle for subscription in self._alone()):
            done()
        else:
            self._clock.call_later(DRAIN_POLL_S, lambda: self._wait_until_idle(done))

    def close(self) -> None:
        """Close every worker's consumer, so that clients reconnect elsewhere, and the consumers at the brokers."""
        self.services.shutting_down = True
        for subscription in list(self._subscriptions.values()):
            subscription.shut()

    # ---- statistics -------------------------------------------------------------------------------------------

    def summary(self) -> SubscriptionsSummary:
        """All of them together, in numbers."""
        return SubscriptionsSummary(
            subscriptions=len(self._subscriptions),
            subscriptions_ended_total=self.ended_total,
            workers=self.services.quota.workers,
            subscriptions_refused_total=self.services.quota.subscriptions_refused_total,
            workers_refused_total=self.services.quota.workers_refused_total,
            workers_per_subscription_refused_total=self.services.quota.workers_per_subscription_refused_total,
            slices_cut_total=self.slices.cut_total,
            contract_checked_messages_total=self.services.contract_totals.checked_messages,
            contract_violations=self.services.contract_totals.violations,
            held_bytes=self._bytes_held,
            memory_bytes=self.services.settings.gateway_memory_bytes,
            reading_stopped=self.services.reading_stopped,
            reading_stops=self._reading_stops,
            shutting_down=self.services.shutting_down,
        )

    def summaries(self) -> Iterator[SubscriptionSummary]:
        """Each in numbers, as of the moment it is asked for.

        Others may run between one and the next: what has ended by then is left out, what has come is not there yet.
        """
        for subscription in list(self._subscriptions.values()):
            if not subscription.state.ended:
                yield subscription_summary(subscription)

    def durations(self, *, by_namespace: bool) -> Iterator[tuple[str, Durations]]:
        """Of each subscription that is or was here, with its namespace or without (""); to be added up.

        Others may run between one and the next: those that end meanwhile count once, and those that come not yet.
        """
        ended, ended_by_namespace = self._durations.of_ended()
        now = list(self._subscriptions.values())

        def each() -> Iterator[tuple[str, Durations]]:
            yield from ended_by_namespace if by_namespace else [("", ended)]
            for subscription in now:
                yield namespace_of(subscription.state.topic) if by_namespace else "", durations_of(subscription)

        return each()

    def worker_summaries(self) -> Iterator[SubscribedWorkerSummary]:
        """Each consumer of each, by name; in the same way."""
        for subscription in list(self._subscriptions.values()):
            if not subscription.state.ended:
                yield from worker_summaries(subscription)


class _Refused(PendingWorker):
    """The port of a worker that never joins: it is told why, once, in a later turn; what it asks meanwhile, too."""

    def __init__(self, clock: Clock, link: WorkerLink, error: KeylineError) -> None:
        self._ended = False
        self._link = link
        self._error = error
        clock.call_soon(self._tell)

    def _tell(self) -> None:
        if not self._ended:
            self._ended = True
            self._link.refuse(self._error)

    def ack(self, command: pb.CommandAck) -> None:
        """For the same reason, if it asks for a receipt."""
        if command.HasField("request_id") and not self._ended:
            consumer_id, error = self._link.consumer_id, self._error
            self._link.send(commands.ack_response(consumer_id, command, code_of(error), str(error)))

    def refuse(self, request_id: int) -> None:
        """For the same reason."""
        if not self._ended:
            self._link.send(error_frame(request_id, self._error))

    def lost(self, reason: str) -> None:
        """Replaces the callback of an ended caller."""
        _ = reason
        self._ended = True

    def close(self, request_id: int) -> None:
        """It is closed; its SUBSCRIBE needs no answer any more."""
        if not self._ended:
            self._ended = True
            self._link.send(commands.success(request_id))
            self._link.forget()
