"""One Key_Shared subscription of one topic partition: workers on one side, a consumer at the broker on the other.

Glue, and nothing but: the dispatcher decides, `subscription_upstream` keeps the consumer at the broker,
`subscription_intake` reads what it brings, `subscription_outbox` writes what leaves, `subscription_acks` carries the
acks. Everything a turn of the loop produced leaves in one `flush` at its end.

Life: made by its first worker, ended with its last and the confirmation of its acks (`subscription_parting`), so that
a subscription without workers looks at the broker just as it would without the gateway, and another subscription type
may take it over at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core import membership, reposition
from proxy.core.dispatcher import Dispatcher, HandOver
from proxy.core.errors import ConsumerAssignError
from proxy.core.upstream_window import UpstreamWindow
from proxy.errors import ClientError
from proxy.net.subscription_acks import UpstreamAcks
from proxy.net.subscription_admission import Admission
from proxy.net.subscription_intake import Intake
from proxy.net.subscription_orders import policy_ordered
from proxy.net.subscription_outbox import Outbox
from proxy.net.subscription_parting import Parting
from proxy.net.subscription_policy import new_worker, policy_of
from proxy.net.subscription_requests import SubscriptionRequests
from proxy.net.subscription_upstream import SubscriptionUpstream, ended_meanwhile
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.worker import Worker
    from proxy.net.subscription_workers import SubscribedWorker
    from proxy.net.subscriptions import Subscriptions

PERMITS_MAX: Final = (1 << 31) - 1
"""Most permits of one FLOW: a broker reads them as a signed number."""

HAND_OVERS_KEPT: Final = 1_000
"""Latest hand-overs kept for those who watch."""

log = structlog.get_logger("keyline.subscription")


@dataclass(slots=True)
class Counters:
    """What a subscription counts beside its dispatcher."""

    acks_refused: int = 0
    opaque_batches: int = 0
    unreadable_entries: int = 0
    peeked_batches: int = 0
    sliced_deliveries: int = 0


class Subscription:
    """Implements `ports.UpstreamConsumer` towards the broker and `UpstreamOwner` towards its consumer there."""

    def __init__(self, key: tuple[str, str], command: pb.CommandSubscribe, directory: Subscriptions) -> None:
        """The first worker's SUBSCRIBE settles the policy.

        Raises:
            ClientError: it asks for something that is not.
        """
        self.topic, self.name = key
        self.key = key
        self.directory = directory
        orders = directory.orders.of(key)
        self.settings = orders.limits.applied(directory.settings)
        self.clock = directory.clock
        self.now = directory.clock.now
        self.counters = Counters()
        self.policy = policy_ordered(policy_of(command, self.settings), orders)
        self.dispatcher = Dispatcher(self.policy.new_selector(self.settings), self.policy.mode)
        if orders.paused:
            self.dispatcher.pause()
        self.window = UpstreamWindow(
            budget_bytes=self.settings.subscription_memory_bytes,
            look_ahead_per_worker=self.settings.look_ahead_messages_per_worker,
            look_ahead_total=self.settings.look_ahead_messages_per_subscription,
        )
        self.upstream = SubscriptionUpstream(command, directory.brokers, self.clock, self.settings, self, self)
        self.acks = UpstreamAcks(
            self.dispatcher.outstanding,
            self.schedule_flush,
            self.clock.call_later,
            with_indexes=self.settings.upstream_batch_index_ack,
        )
        self.outbox = Outbox(self.counters, self.now, self.settings.batch_peek_max_bytes)
        self.intake = Intake(self.dispatcher, self.window, self.counters, self.now, self.settings.batch_peek_max_bytes)
        self.message = self.intake.message
        """`ports.UpstreamConsumer.message`, without a call in between."""
        self.subscribers: dict[int, SubscribedWorker] = {}
        """Joined workers by dispatcher index."""
        self.admission = Admission(self, command)
        self.requests = SubscriptionRequests(self)
        self.parting = Parting(self)
        self.hand_overs: deque[HandOver] = deque(maxlen=HAND_OVERS_KEPT)
        self.hand_over_count = 0
        self.ended = False
        self._end_of_topic = False
        self._flush_due = False
        self._bytes_reported = 0

    # ---- workers ----------------------------------------------------------------------------------------------

    def join(self, subscriber: SubscribedWorker) -> None:
        """A worker may come in, unless it has gone meanwhile or the selector has no place for it."""
        if subscriber.ended or self.ended:
            return
        command = subscriber.command
        name = command.consumer_name or self.directory.new_consumer_name()
        worker = new_worker(command, name, subscriber, self.settings)
        begun = self.dispatcher.draining_begun_total
        try:
            worker.drained_by_operator = name in self.directory.orders.of(self.key).drained
            worker.reconsider()
            moves = membership.join(self.dispatcher, worker, self.now())
        except ConsumerAssignError as error:
            subscriber.refuse(ClientError(str(error), pb.ConsumerAssignError))
            return
        self.subscribers[worker.index] = subscriber
        self.parting.end()
        self.parting.release()
        log.info("worker joined", topic=self.topic, subscription=self.name, consumer=name, peer=subscriber.link.peer)
        self.directory.events.joined(self.key, name, subscriber.link.peer, moves)
        self._tell_drains_since(begun)
        subscriber.joined(worker)
        if self._end_of_topic:
            subscriber.tell_end_of_topic()
        self.schedule_flush()

    def leave(self, subscriber: SubscribedWorker, reason: str, done: Callable[[], None] | None = None) -> None:
        """A worker is gone; `done` is called when the broker too knows it, if it was the last."""
        self.admission.leave(subscriber)
        worker = subscriber.worker
        if worker is not None and worker.index in self.subscribers:
            subscriber.worker = None
            del self.subscribers[worker.index]
            begun = self.dispatcher.draining_begun_total
            moves = membership.leave(self.dispatcher, worker, self.now())
            log.info("worker left", topic=self.topic, subscription=self.name, consumer=worker.name, reason=reason)
            self.directory.events.left(self.key, worker.name, reason, moves)
            self._tell_drains_since(begun)
            self.schedule_flush()
        if not self.end_if_empty(done) and done is not None:
            done()

    def _tell_drains_since(self, begun: int) -> None:
        """What a membership change began, `begun` having been the dispatcher's total before it."""
        dispatcher = self.dispatcher
        self.directory.events.drains_began(self.key, dispatcher.draining_begun_total - begun, len(dispatcher.draining))

    def end_if_empty(self, done: Callable[[], None] | None = None) -> bool:
        """Without workers there is nobody to hold messages for: give them back to the broker, once it has the acks.

        Returns whether the subscription ends, now or then; `done` is called when the broker has answered.
        """
        if self.ended or self.subscribers or self.admission.busy or self.requests.busy:
            return False
        if not self.parting.under_way:
            self.flush()
        if self.parting.owes:
            self.parting.begin(done)
        else:
            self.end(done)
        return True

    def end(self, done: Callable[[], None] | None = None) -> None:
        """The end here and at the broker; `done` is called when that has answered, as is all who wait for it."""
        if done is not None:
            self.parting.wait(done)
        self.finish()
        self.upstream.close(self.parting.release)

    def finish(self) -> None:
        """The end here; the caller closes the consumer at the broker."""
        self.parting.end()
        self.flush()
        self.ended = True
        self.directory.events.happened("subscription_ended", self.key)
        self.acks.fail_receipts(ended_meanwhile())
        self.directory.account(-self._bytes_reported)
        self._bytes_reported = 0
        self.directory.forget(self)

    def disconnect_workers(self) -> None:
        """As the broker does on seek and unsubscribe: every consumer is closed and may come again."""
        for subscriber in self.subscribers.values():
            subscriber.end()
            subscriber.worker = None
        self.subscribers.clear()
        self.admission.refuse_all(ended_meanwhile())

    def shut(self) -> None:
        """The gateway stops: workers reconnect elsewhere, the broker gets its messages back."""
        if not self.ended:
            self.disconnect_workers()
            self.end()

    @property
    def worker_count(self) -> int:
        """Workers joined and joining."""
        return len(self.subscribers) + len(self.admission)

    @property
    def idle(self) -> bool:
        """Nothing is pending at any worker and every ack is confirmed."""
        busy = any(worker.pending for worker in self.dispatcher.workers.values())
        return not busy and not self.dispatcher.outstanding.unconfirmed

    # ---- UpstreamOwner ----------------------------------------------------------------------------------------

    def upstream_ready(self) -> None:
        """Subscribed: grant permits, repeat what may have been lost, let the first workers in."""
        self.intake.end_run()  # one that the loss of the connection cut short
        self.window.reconnected()
        if self.upstream.connects > 1:
            self.acks.after_reconnect()
        self.directory.events.happened("upstream_ready", self.key, connects=self.upstream.connects)
        self.admission.admit()
        self.schedule_flush()

    def upstream_refused(self, error: Exception) -> None:
        """The broker does not let us: the workers that asked get its words."""
        self.admission.refuse_all(error)
        if not self.ended:
            self.finish()

    def upstream_mark_delete(self, position: int) -> None:
        """What was acknowledged at the broker meanwhile is not delivered any more."""
        dropped = reposition.discard_up_to(self.dispatcher, position, self.now())
        if dropped:
            log.info("messages dropped below mark-delete", topic=self.topic, subscription=self.name, messages=dropped)
        self.schedule_flush()

    # ---- UpstreamConsumer -------------------------------------------------------------------------------------

    def messages_end(self) -> None:
        """A run of entries is in: what they set free leaves now."""
        self.intake.end_run()
        self.flush()

    def closed_by_broker(self, reason: str) -> None:
        """Unload, or a cursor moved on purpose: the broker knows what it wants delivered from now on."""
        self.dispatcher.outstanding.forget_confirmed()
        if self.ended:
            return
        if self.requests.busy:
            self.requests.consumer_closed()
        else:
            self.upstream_lost(reason)

    def connection_lost(self, reason: str) -> None:
        """Workers notice nothing of it."""
        if not self.ended:
            self.upstream_lost(reason)

    def upstream_lost(self, reason: str, *, tell_broker: bool = False) -> None:
        """The consumer at the broker is gone, or with `tell_broker` perhaps not: come back."""
        self.directory.events.happened("upstream_lost", self.key, reason=reason)
        (self.upstream.begin_anew if tell_broker else self.upstream.lost)(reason)
        self.parting.release()

    def reached_end_of_topic(self) -> None:
        """The topic is terminated and read to its end: tell every worker, and those that come later."""
        self._end_of_topic = True
        for subscriber in self.subscribers.values():
            subscriber.tell_end_of_topic()

    # ---- the end of a turn ------------------------------------------------------------------------------------

    def schedule_flush(self) -> None:
        """Flush at the end of this loop turn, once."""
        if not self._flush_due:
            self._flush_due = True
            self.clock.call_soon(self.flush)

    def flush(self) -> None:
        """Send deliveries, acks and permits."""
        self._flush_due = False
        if self.ended:
            return
        dispatcher = self.dispatcher
        if dispatcher.touched:
            for worker in dispatcher.take_touched():
                self._send(worker)
        self.acks.flush(self.upstream.link, self.upstream.consumer_id)
        if dispatcher.hand_overs:
            self.hand_over_count += len(dispatcher.hand_overs)
            self.hand_overs.extend(dispatcher.hand_overs)
            self.directory.events.handed_over(self.key, dispatcher.hand_overs, len(dispatcher.draining))
            dispatcher.hand_overs.clear()
        held = dispatcher.outstanding.bytes_held
        if held != self._bytes_reported:
            self.directory.account(held - self._bytes_reported)
            self._bytes_reported = held
        self._grant(held)
        if self.parting.under_way and not self.parting.owes:
            self.end_if_empty()

    def _send(self, worker: Worker) -> None:
        subscriber = self.subscribers.get(worker.index)
        if subscriber is None or subscriber.worker is not worker:
            worker.outbox.clear()
            return
        if self.outbox.write(subscriber.link, worker, self.intake.extras):
            return
        # The rest follows when the client reads again, see `SubscribedWorker.writability_changed`.
        self.dispatcher.touched.append(worker)

    def _grant(self, bytes_held: int) -> None:
        link = self.upstream.link
        if link is None or self.dispatcher.paused or self.directory.reading_stopped:
            return
        dispatcher = self.dispatcher
        permits = self.window.grant(
            workers=len(dispatcher.workers),
            free_permits=dispatcher.free_permits(),
            waiting_messages=dispatcher.waiting_messages,
            bytes_held=bytes_held,
        )
        while permits > 0:
            piece = min(permits, PERMITS_MAX)
            link.send(commands.flow(self.upstream.consumer_id, piece))
            permits -= piece
