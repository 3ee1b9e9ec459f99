"""One Key_Shared subscription of one topic partition: workers on one side, consumers at the broker on the other.

Glue, and nothing but: the dispatcher decides, `admission` and `membership` let workers in and out, `consumer` is a
consumer at the broker and reads what it brings, `outbox` writes what leaves, `acks` carries the acks. They share the
`state` and know nothing of this. Everything a turn of the loop produced leaves in one `flush` at its end.

There is one consumer at the broker, for all keys. A subscription that is shared by a group of replicas (`streamed`) has
one for each stream that is leased to this one, opened and closed by the holder of the leases; its workers come and go
whether there is one or not.

Life: made by its first worker, ended with its last and the confirmation of its acks (`closing`), so that a subscription
without workers looks at the broker just as it would without the gateway, and another subscription type may take it over
at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.hash_ranges import HashRange
from proxy.errors import UpstreamUnavailable
from proxy.net.alarm import Alarm
from proxy.net.subscription.ack_leases import AckLeases
from proxy.net.subscription.admission import Admission
from proxy.net.subscription.closing import Closing
from proxy.net.subscription.contract_alarm import ContractAlarm
from proxy.net.subscription.dead_letters import DeadLetters
from proxy.net.subscription.membership import Membership
from proxy.net.subscription.orders import OperatorOrders
from proxy.net.subscription.outbox import Outbox
from proxy.net.subscription.parking import ParkingLot
from proxy.net.subscription.quarantines import Quarantines
from proxy.net.subscription.refetch import Refetch
from proxy.net.subscription.requests import SubscriptionRequests
from proxy.net.subscription.state import SubscriptionState, ended_meanwhile
from proxy.net.subscription.takeover import Takeover
from proxy.net.subscription.upstream import stream_subscribe
from proxy.net.subscription.upstream_consumers import WHOLE, UpstreamConsumer, UpstreamConsumers
from proxy.net.subscription.whole_consumer import whole_consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.worker import Worker
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.upstream_consumers import StreamListener
    from proxy.wire import pulsar_pb2 as pb


class Assignment(Protocol):
    """Who opens and closes the streams of a subscription that a group shares."""

    def workers_changed(self, count: int) -> None:
        """There are more workers, or fewer."""

    def settle(self) -> None:
        """The end of a turn: streams may have become free to go."""

    def leave(self) -> bool:
        """Give everything back; the subscription is asked to end then. False where nothing is to be done."""

    def close(self) -> None:
        """The gateway stops, in order or not: nothing more is said or done."""


class Subscription:
    """Implements `Lifecycle`, and `StreamListener` towards the one consumer of an ordinary subscription."""

    def __init__(
        self,
        key: tuple[str, str],
        command: pb.CommandSubscribe,
        services: Services,
        ended: Callable[[Subscription], None],
        new_assignment: Callable[[Subscription], Assignment] | None = None,
        *,
        streamed: bool = False,
        owned: bool = False,
    ) -> None:
        """As `SubscriptionState`; `ended` is called once.

        With `streamed` there is no consumer at the broker but those of `open_stream`; with `owned` the one there is
        lets no other in, unless direct workers share it for now, and nothing is delivered without a lease (`owned`).
        """
        state = self.state = SubscriptionState(key, command, services, self.schedule_flush, streamed=streamed)
        self.services = services
        self._on_end = ended
        self._dispatcher = state.dispatcher
        self._acks = state.acks
        self.outbox = Outbox(state.counters, state.now, state.contents, state.recorder, state.monitor)
        self._alarm = None if state.monitor is None else ContractAlarm(state, state.monitor)
        self.consumers = UpstreamConsumers()
        self.closing = Closing(state, self.consumers, self)
        self.membership = Membership(state, services, self.closing, self)
        self.subscribers = self.membership.subscribers
        self.requests = SubscriptionRequests(state, self.consumers, self)
        self.admission = Admission(state, services, self.consumers, self.membership, self.requests, self, command)
        parks = state, services, self.consumers, self._lot_failed
        self.lot = ParkingLot(*parks) if state.dispatcher.policy.park_after else None
        """Where keys are parked, if that is wanted."""
        self.admission.held = self.lot is not None
        self.dead_letters: DeadLetters | None = self.lot
        """Who publishes what has used its attempts: the lot, or made with the first dead letter."""
        self.quarantines = Quarantines(state, services, self.membership)
        self.membership.shut_out_changed = self.quarantines.look_again
        self.ack_leases = AckLeases(state, self.membership, self.quarantines)
        self.orders = OperatorOrders(
            state, services, self.consumers, self.membership, self.ack_leases, self.quarantines
        )
        self.refetch = Refetch(state, self.consumers)
        self.takeover = Takeover(state, services.takeovers, self.schedule_flush)
        self._whole: UpstreamConsumer | None = None
        """The one of an ordinary subscription, which is not looked for at each flush."""
        if not streamed:
            self._whole = whole_consumer(state, services, self.consumers, self, self, command, owned=owned)
        self.assignment = new_assignment(self) if streamed and new_assignment is not None else None
        self._lot_opens = self._flush_due = False
        self._wake_up = Alarm(self.state.clock)
        """Goes off when slots that wait for a time are to be released."""
        self._wakes_at = 0.0
        self._bytes_reported = 0

    # ---- workers ----------------------------------------------------------------------------------------------

    def end_if_empty(self, done: Callable[[], None] | None = None) -> bool:
        """Without workers no messages are held: return them to the broker, once it has the acks."""
        if self.state.ended or self.worker_count or self.admission.busy or self.state.request:
            return False
        if not self.closing.under_way:
            self._acks.hurry()
            self.flush()
        if self.closing.owes:
            self.closing.begin(done)
        else:
            self.end(done)
        return True

    def end(self, done: Callable[[], None] | None = None) -> None:
        """The end here and at the broker; `done` is called when that has answered, as is all who wait for it.

        One that a group shares releases its streams first, in its own time: it is asked for its end again then.
        """
        if done is not None:
            self.closing.wait(done)
        if self.assignment is not None and self.assignment.leave():
            self.closing.end()
            self.closing.release()
            return
        self.finish()
        self.consumers.close(self.closing.release)

    def finish(self) -> None:
        """The end here; the caller closes the consumers at the broker."""
        self.closing.end()
        self._acks.hurry()
        self.flush()
        self.state.end()
        if self.dead_letters is not None:
            self.dead_letters.close()
        self._wake_up.cancel()
        self.ack_leases.stop()
        self.quarantines.stop()
        self.refetch.end()
        self.takeover.stop()
        self.services.account(-self._bytes_reported)
        self._bytes_reported = 0
        self._on_end(self)

    def disconnect_workers(self, error: Exception | None = None) -> None:
        """As the broker does on seek and unsubscribe: every consumer is closed and may come again.

        `error` is for those that have not joined yet.
        """
        self.membership.disconnect()
        self.admission.refuse_all(error or ended_meanwhile())

    def shut(self) -> None:
        """The gateway stops: workers reconnect elsewhere, the broker gets its messages back."""
        if not self.state.ended:
            self.disconnect_workers()
            if self.assignment is not None:
                self.assignment.close()
            self.end()

    @property
    def worker_count(self) -> int:
        """As `Lifecycle` says."""
        return len(self.subscribers) + len(self.membership.excluded) + len(self.admission)

    def workers_changed(self, count: int) -> None:
        """As `Lifecycle` says."""
        self.admission.workers_changed()
        self.ack_leases.look_again()
        self.quarantines.look_again()
        if self.assignment is not None:
            self.assignment.workers_changed(count)

    # ---- consumers at the broker ------------------------------------------------------------------------------

    def open_stream(self, stream: int, first_slot: int, last_slot: int, listener: StreamListener) -> None:
        """Consume a stream of a group: `listener` hears when it is subscribed, and of every change until it is closed.

        Slots are the broker's for ranges, 0 to 65535, both ends included. Attempts that fail are repeated for ever.
        Only for a streamed subscription that has not ended, and a stream that is not open. Workers may be here or not;
        before the first one was let in, the consumer is made of options that the broker has not judged.
        """
        state = self.state
        assert state.streamed
        assert not state.ended
        template = stream_subscribe(self.admission.model, state.settings.replica_name, stream, first_slot, last_slot)
        slots = HashRange(first_slot, last_slot)
        consumer = UpstreamConsumer(state, self.services, self.consumers, self, template, stream, listener, slots)
        consumer.upstream.open()

    def close_stream(self, stream: int, done: Callable[[], None]) -> None:
        """Consume an open stream no more; `done` is called, perhaps at once, when the broker has answered, or can't.

        Acks that are due leave first, on the same connection; nothing of the stream comes in any more. What is here of
        it stays: who gives the stream to another replica sees to that before. Also after the subscription has ended,
        which closes all streams by itself: `done` then follows that.
        """
        assert self.state.streamed
        self._acks.hurry()
        self.flush()
        self.consumers.take(stream).close(done)
        if self.state.monitor is not None:
            self.state.monitor.forget()  # what workers have of it may be sent by its next owner, or come again
        self.look_for_end_of_topic()
        self.schedule_flush()  # what was its share of the permits is the others' now

    def stream_opened(self, stream: int) -> None:
        """The one consumer of an ordinary subscription stands: let the first workers in."""
        assert stream == WHOLE
        self.takeover.begin()
        if self.lot is None or self.lot.is_open:
            self.admission.admit()
        elif not self._lot_opens:
            self._lot_opens = True
            self.lot.open(self._lot_opened)

    def _lot_opened(self) -> None:
        """It is known which keys are parked: workers that wait may come."""
        self.admission.held = False
        self.admission.admit()

    def _lot_failed(self, reason: str) -> None:
        """What is parked cannot be known, so nothing may be delivered."""
        if not self.state.ended:
            self.disconnect_workers(UpstreamUnavailable(reason))
            self.end()

    def stream_refused(self, stream: int, error: Exception) -> None:
        """The broker does not let us, at first or again: workers that asked get its words, others may come again."""
        assert stream == WHOLE
        self.disconnect_workers(error)
        if not self.state.ended:
            self.finish()

    def stream_lost(self, stream: int, reason: str) -> None:
        """Workers notice nothing of it."""

    def upstream_lost(self) -> None:
        """As `Lifecycle` says."""
        self.closing.release_if_lost()

    def look_for_end_of_topic(self) -> None:
        """A consumer came to the end of a terminated topic, or left: tell every worker if all of them are there.

        Those that come later are told as well. The workers of streams are told once, as if by one consumer.
        """
        state = self.state
        if not self.consumers.at_end_of_topic or (state.streamed and state.at_end_of_topic):
            return
        state.end_of_topic()
        for subscriber in self.subscribers.values():
            subscriber.tell_end_of_topic()

    # ---- the end of a turn ------------------------------------------------------------------------------------

    def schedule_flush(self) -> None:
        """Flush at the end of this loop turn, once."""
        if not self._flush_due:
            self._flush_due = True
            self.state.clock.call_soon(self.flush)

    def flush(self) -> None:
        """Send deliveries, acks and permits."""
        self._flush_due = False
        state = self.state
        if state.ended:
            return
        dispatcher = self._dispatcher
        if dispatcher.touched and not dispatcher.lapsed(state.now()):
            self._send_touched()
        self.refetch.end_turn()
        first = self._whole or self.consumers.first_ready()
        if first is not None and not first.waits_for_cursor:
            # By any: the broker finds whose the entries are.
            self._acks.flush(first.upstream.link, first.upstream.consumer_id)
            state.transactions.flush(first.upstream.link, first.upstream.consumer_id, first.window.outstanding)
        if dispatcher.hand_overs or dispatcher.comebacks or dispatcher.endings or dispatcher.diversions.wants_turn:
            self._tell_watchers()
        held, queued = dispatcher.outstanding.bytes_counted, self.consumers.queued_bytes
        reported = self.refetch.reported(held) + queued
        if reported != self._bytes_reported:
            self.services.account(reported - self._bytes_reported)
            self._bytes_reported = reported
        self._grant(held + queued)
        if self.closing.under_way and not self.closing.still_owes():
            self.end_if_empty()
        if self.assignment is not None:
            self.assignment.settle()
        if dispatcher.unblocking.held or dispatcher.retries.held:
            self._wake_in_time()

    def _tell_watchers(self) -> None:
        """What came back is told of, and goes to another topic if it did for the last time."""
        self.state.tell_watchers()
        if self.dead_letters is None and self._dispatcher.diversions.fresh:
            self.dead_letters = DeadLetters(self.state, self.services)
        if self.dead_letters is not None:
            self.dead_letters.turn()

    def _wake_in_time(self) -> None:
        """Set the timer for what is due first."""
        due_at = self._dispatcher.due_at
        if due_at is None or (self._wake_up.is_set and self._wakes_at <= due_at):
            return
        self._wakes_at = due_at
        self._wake_up.set(max(0.0, due_at - self.state.now()), self._unblock)

    def _unblock(self) -> None:
        """What was due first is; or something later is, if what the timer was set for was forgotten."""
        self._dispatcher.unblock(self.state.now())
        self.flush()

    def _send_touched(self) -> None:
        for worker in self._dispatcher.take_touched():
            self._send(worker)
        if self._alarm is not None:
            self._alarm.ring()

    def _send(self, worker: Worker) -> None:
        subscriber = self.subscribers.get(worker.index)
        if subscriber is None or subscriber.worker is not worker:
            worker.outbox.clear()
            return
        leases = self._dispatcher.leases
        if leases is not None:
            # A process that is stopped right here wakes up with frames that are another replica's to deliver.
            subscriber.link.limit(leases.end - self.state.now())
        extras = self.consumers.extras if self._whole is None else self._whole.receiving.extras
        if subscriber.ended or self.outbox.write(subscriber.link, worker, subscriber.stamped(extras)):
            return  # one that has ended is sent nothing: when it leaves, its outbox is taken back as never sent
        # The rest follows when the client reads again, see `SubscribedWorker.writability_changed`.
        self._dispatcher.touched.append(worker)

    def _grant(self, bytes_held: int) -> None:
        dispatcher = self._dispatcher
        if self.services.reading_stopped:
            self.state.nothing_comes()
        if dispatcher.paused or self.services.reading_stopped or self.takeover.waits:
            return
        if self._whole is not None:
            self._grant_to(self._whole, dispatcher.free_permits, bytes_held, 1)
            return
        # Those that are on their way back have theirs: after a loss of all, the first would take everything else, and
        # what a broker was granted cannot be taken back.
        shares, free_permits = len(self.consumers), dispatcher.free_permits()
        for consumer in self.consumers:
            if consumer.fetching:
                self._grant_to(consumer, lambda: free_permits, bytes_held, shares)

    def _grant_to(self, consumer: UpstreamConsumer, free: Callable[[], int], bytes_held: int, shares: int) -> None:
        if consumer.upstream.link is None or consumer.waits_for_cursor:
            return
        dispatcher = self._dispatcher
        spill, transactions = dispatcher.outstanding.spill, self.state.transactions
        awaited = transactions.awaited_messages
        if awaited:
            awaited = transactions.permits_due(crowded=bytes_held > 2 * consumer.window.budget_bytes)
        elsewhere = spill.messages + dispatcher.diversions.stored_chunks
        asked = spill.asked_messages and (0 if consumer.receiving.queue.entries else spill.asked_messages)
        permits = consumer.window.grant(
            workers=len(dispatcher.workers),
            free_permits=free,
            waiting_messages=dispatcher.waiting_messages - elsewhere + self.consumers.queued_messages,
            bytes_held=bytes_held,
            shares=shares,
            asked_messages=asked + awaited,
        )
        if permits:
            consumer.send_permits(permits)
        elif consumer.window.outstanding <= 0 and not self.consumers.queued_messages:
            self.state.nothing_comes()
        if awaited and consumer.window.outstanding > 0:
            transactions.permitted()
