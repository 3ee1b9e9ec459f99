"""What one subscription is, below all parts of it, and what these may ask of its life.

The parts read what is here as they like. What is here changes by its own verbs, and the dispatcher, the cursor and the
acks by theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from proxy.core import policy_change
from proxy.core.contract_monitor import ContractMonitor
from proxy.core.dispatcher import Dispatcher, HandOver, OrderingMode
from proxy.core.hot_keys import HotKeys
from proxy.core.recall import attempts_of
from proxy.errors import ClientError, UpstreamUnavailable
from proxy.net.events import RecorderAndTracer
from proxy.net.subscription.acks import UpstreamAcks
from proxy.net.subscription.batch_contents import BatchContents
from proxy.net.subscription.coordinators import Coordinators
from proxy.net.subscription.counters import Counters
from proxy.net.subscription.cursor import CursorWatch
from proxy.net.subscription.policy import numbers_asked, policy_of, refuse_in_group, settings_again, settings_of
from proxy.net.subscription.transactions import TransactionalAcks

if TYPE_CHECKING:
    from proxy.net.events import DeliveryRecorder
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.wire import pulsar_pb2 as pb

HAND_OVERS_KEPT: Final = 1_000
"""Latest hand-overs kept for those who watch."""


class Lifecycle(Protocol):
    """What a part asks of its subscription."""

    def flush(self) -> None:
        """Send what this turn produced, now."""

    @property
    def worker_count(self) -> int:
        """Workers joined, excluded and joining."""

    def workers_changed(self, count: int) -> None:
        """Workers have joined or left; `count` is their current number."""

    def upstream_lost(self) -> None:
        """A consumer at the broker is gone for now."""

    def look_for_end_of_topic(self) -> None:
        """A consumer at the broker read a terminated topic to its end."""

    def disconnect_workers(self, error: Exception | None = None) -> None:
        """Close every worker's consumer, as the broker does on seek and unsubscribe: they may come again.

        `error` is for those that have not joined yet.
        """

    def end_if_empty(self, done: Callable[[], None] | None = None) -> bool:
        """End, now or once the broker has confirmed all acks, unless the subscription is still needed here.

        Returns whether it ends; `done` is called when the broker has answered.
        """

    def end(self) -> None:
        """End, regardless of unconfirmed acks."""

    def finish(self) -> None:
        """End here only: the caller closes the consumers at the broker."""


Answer: TypeAlias = Callable[[Exception | None], None]
BehindLot: TypeAlias = Callable[[Answer, bool], Answer]

TOLD: Final = ("key_window", "retry_delay_ms", "ack_lease_ms", "quarantine_after", "dead_letter_after", "park_after")
"""Settings of a key policy that events tell of: those by which a journal is judged."""
TOLD_OF_DELAYS: Final = ("retry_multiplier", "retry_delay_max_ms")
"""If there is a delay."""


class SubscriptionState:
    """Of one subscription."""

    behind_lot: BehindLot | None = None
    """Makes an acknowledgement's answer wait for the parking topic, where some of it was redriven."""

    def __init__(
        self,
        key: tuple[str, str],
        command: pb.CommandSubscribe,
        services: Services,
        schedule_flush: Callable[[], None],
        *,
        streamed: bool,
    ) -> None:
        """The first worker's SUBSCRIBE settles the policy. `streamed` if a group of replicas shares the subscription.

        `schedule_flush` asks for a flush at the end of this turn.

        Raises:
            ClientError: it asks for something that is not.
        """
        if streamed:
            refuse_in_group(command)
        self.key = key
        self.topic, self.name = key
        self.streamed = streamed
        self.clock = services.clock
        self.now = services.clock.now
        self.events = services.events
        self.schedule_flush = schedule_flush
        orders = services.orders.of(key)
        self.policy = policy_of(command, services.settings)
        self.asked = settings_of(command, key, services.settings)
        """As the configuration and the first worker have it; an operator may have ordered other limits since."""
        self.numbers_asked = numbers_asked(command)
        self.settings = orders.limits.applied(self.asked)
        if streamed and self.settings.park_after:
            raise ClientError(
                "park_after is not for a subscription that a group of replicas shares: each key's messages are parked "
                "and redriven in one place; let one replica own the subscription, or set dead_letter_after"
            )
        if orders.mode is not None and self.policy.mode is not OrderingMode.UNORDERED:
            self.policy = replace(self.policy, mode=orders.mode)
        self.counters = Counters()
        selector = self.policy.new_selector(self.settings, streamed=streamed)
        self.dispatcher = Dispatcher(
            selector,
            self.policy.mode,
            unblocking_interval_s=self.settings.key_shared_unblocking_interval_ms / 1_000,
            key_policy=self.settings.key_policy(),
        )
        self._earlier_attempts = services.earlier_attempts
        self._prepare(paused=orders.paused)
        self.cursor = CursorWatch(self.dispatcher.outstanding, self.now)
        self.acks = UpstreamAcks(
            self.dispatcher.outstanding,
            self.cursor,
            schedule_flush,
            self.clock.call_later,
            with_indexes=self.settings.upstream_batch_index_ack,
        )
        coordinators = Coordinators(services.brokers)
        self.transactions = TransactionalAcks(
            self.dispatcher,
            services.transactions,
            coordinators,
            self.clock,
            schedule_flush,
            with_indexes=self.settings.upstream_batch_index_ack,
        )
        tracers = services.events.tracers
        self.tracer = None if tracers is None else tracers.tracer(key, self.dispatcher)
        self.recorder = self._new_recorder(services)
        """Keeps a record of each message, if that is wanted; and tells the tracer."""
        if self.recorder is not None:
            self.dispatcher.endings = []
        self.monitor = self._new_monitor(services)
        """Judges what is delivered, if that is wanted; without order there is no contract."""
        self.contents = BatchContents(
            self.dispatcher.outstanding, self.settings.subscription_memory_bytes, self.settings.batch_peek_max_bytes
        )
        self.hot_keys = HotKeys()
        self.hand_overs: deque[HandOver] | tuple[()] = ()
        """The latest; made when there is one."""
        self.hand_over_count = 0
        self.request = ""
        """The seek or unsubscribe that the broker has not answered; empty for none."""
        self.closed_by_request = False
        """The broker closed the consumer since: what follows depends on the answer."""
        self.at_end_of_topic = False
        """Every worker is told that nothing more comes."""
        self.ended = False

    def _prepare(self, *, paused: bool) -> None:
        """The dispatcher goes on where an earlier life of the subscription ended, and as operators ordered."""
        if self.dispatcher.policy.max_attempts:
            self.dispatcher.diversions.remember(self._earlier_attempts.take(self.key, self.now()))
        self._set_ack_lease()
        if paused:
            self.dispatcher.pause()

    def _new_recorder(self, services: Services) -> DeliveryRecorder | None:
        event_recorder = services.events.event_recorder
        recorder = None if event_recorder is None else event_recorder.recorder(self.key)
        if self.tracer is None:
            return recorder
        return self.tracer if recorder is None else RecorderAndTracer(recorder, self.tracer)

    def _new_monitor(self, services: Services) -> ContractMonitor | None:
        if not self.dispatcher.ordered or not services.settings.contract_monitor_one_in:
            return None
        entries = self.dispatcher.outstanding.entries
        return ContractMonitor(services.contract_sample, entries, services.contract_totals)

    @property
    def idle(self) -> bool:
        """Nothing is pending at any worker, no transaction is open and every ack is confirmed."""
        busy = self.dispatcher.in_transaction or any(worker.pending for worker in self.dispatcher.workers.values())
        return not busy and not self.dispatcher.outstanding.unconfirmed

    def happened(self, what: str, **facts: Any) -> None:
        """Tell those who watch."""
        self.events.happened(what, self.key, **facts)

    def policy_facts(self) -> dict[str, float]:
        """What is asked of keys, for events: the settings that are not 0, by name. None without order."""
        if not self.dispatcher.ordered:
            return {}
        names = TOLD + TOLD_OF_DELAYS if self.settings.retry_delay_ms else TOLD
        told = {name: getattr(self.settings, name) for name in names}
        return {name: value for name, value in told.items() if value}

    def change_mode(self, mode: OrderingMode) -> None:
        """Order by another mode from now on."""
        self.policy = replace(self.policy, mode=mode)
        policy_change.change_mode(self.dispatcher, mode, self.now())
        self.schedule_flush()

    def asked_under(self, settings: SubscriptionSettings) -> SubscriptionSettings:
        """As `asked`, were the configuration this."""
        return settings_again(self.numbers_asked, self.key, settings)

    def reconfigure(self, settings: SubscriptionSettings) -> None:
        """The configuration has changed to these. Nothing takes effect before `change_settings`."""
        self.asked = self.asked_under(settings)

    def change_settings(self, settings: SubscriptionSettings) -> None:
        """Other limits from now on; what is there already beyond one stays and is not added to."""
        if bool(settings.park_after) != bool(self.settings.park_after):
            # What is parked is read before the first worker is let in: so parking begins and ends with a subscription.
            settings = replace(settings, park_after=self.settings.park_after)
        before, self.settings = self.policy_facts(), settings
        if self.policy_facts() != before:
            self.happened("key_policy", **self.policy_facts())  # before anything is sent by it
        if self.dispatcher.ordered and settings.key_policy() != self.dispatcher.policy:
            policy_change.change_key_policy(self.dispatcher, settings.key_policy(), self.now())
        self._set_ack_lease()
        for worker in self.dispatcher.workers.values():
            most = settings.max_unacked_messages_per_worker
            policy_change.change_max_unacked(self.dispatcher, worker, most, self.now())
        self.schedule_flush()

    def _set_ack_lease(self) -> None:
        """Without order no key waits for a worker that holds it."""
        self.dispatcher.ack_lease_s = self.settings.ack_lease_ms / 1_000 if self.dispatcher.ordered else 0.0

    def request_began(self, what: str) -> None:
        """The broker is asked for a seek or an unsubscribe."""
        self.request, self.closed_by_request = what, False
        self.schedule_flush()  # its answer is read from now on, whatever the memory: see `Refetch.reported`

    def request_answered(self) -> None:
        """It answered, or cannot."""
        self.request = ""
        self.schedule_flush()

    def closed_by_broker(self) -> bool:
        """The broker closed our consumer; returns whether that is for a request, whose answer follows."""
        if not self.request:
            self.cursor.closed()
            return False
        self.cursor.moved()
        self.closed_by_request = True
        return True

    def end_of_topic(self) -> None:
        """The topic is terminated and read to its end."""
        self.at_end_of_topic = True

    def nothing_comes(self) -> None:
        """What waits for the rest of its message waits no more, and makes room."""
        diversions = self.dispatcher.diversions
        if diversions.awaited and self.dispatcher.workers and diversions.nothing_comes():
            self.schedule_flush()

    def tell_watchers(self) -> None:
        """Pass on what the dispatcher noted in this turn."""
        dispatcher = self.dispatcher
        if dispatcher.hand_overs:
            self.hand_over_count += len(dispatcher.hand_overs)
            self.hand_overs = self.hand_overs or deque(maxlen=HAND_OVERS_KEPT)
            self.hand_overs.extend(dispatcher.hand_overs)
            self.events.handed_over(self.key, dispatcher.hand_overs, len(dispatcher.draining))
            dispatcher.hand_overs.clear()
        self.events.came_back(self.key, dispatcher.comebacks)
        dispatcher.comebacks.clear()
        if dispatcher.endings:
            assert self.recorder is not None
            self.recorder.ended(dispatcher.endings)
            dispatcher.endings.clear()

    def end(self) -> None:
        """It is over here: no receipt comes any more."""
        self.ended = True
        self._earlier_attempts.keep(self.key, attempts_of(self.dispatcher), self.now())
        if self.tracer is not None:
            self.tracer.closed()
        self.happened("subscription_ended")
        self.acks.fail_receipts(ended_meanwhile())
        self.transactions.end()


def ended_meanwhile() -> UpstreamUnavailable:
    """What those are told who waited for something when the subscription ended here."""
    return UpstreamUnavailable("the subscription was closed on this gateway meanwhile; try again")
