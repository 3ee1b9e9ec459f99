"""One Key_Shared subscription of one topic partition: workers on one side, consumers at the broker on the other.

Glue, and nothing but: the dispatcher decides, `subscription_membership` lets workers in and out, `subscription_inflow`
is a consumer at the broker and reads what it brings, `subscription_outbox` writes what leaves, `subscription_acks`
carries the acks. Everything a turn of the loop produced leaves in one `flush` at its end.

There is one consumer at the broker, for all keys. A subscription that is shared by a group of replicas (`streamed`) has
one for each stream that is leased to this one, opened and closed by whoever holds the leases; its workers come and go
whether there is one or not.

Life: made by its first worker, ended with its last and the confirmation of its acks (`subscription_parting`), so that
a subscription without workers looks at the broker just as it would without the gateway, and another subscription type
may take it over at once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core.dispatcher import Dispatcher, HandOver
from proxy.core.hash_ranges import HashRange
from proxy.net.subscription.acks import UpstreamAcks
from proxy.net.subscription.admission import Admission
from proxy.net.subscription.batch_contents import BatchContents
from proxy.net.subscription.counters import Counters
from proxy.net.subscription.cursor import CursorWatch
from proxy.net.subscription.inflow import WHOLE, Inflow
from proxy.net.subscription.inflows import Inflows
from proxy.net.subscription.membership import Membership
from proxy.net.subscription.orders import policy_ordered
from proxy.net.subscription.outbox import Outbox
from proxy.net.subscription.parting import Parting
from proxy.net.subscription.policy import policy_of, refuse_in_group
from proxy.net.subscription.requests import SubscriptionRequests
from proxy.net.subscription.upstream import ended_meanwhile, stream_subscribe, upstream_subscribe
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.worker import Worker
    from proxy.net.group.seat import GroupSeat
    from proxy.net.ports import Timer
    from proxy.net.subscription.directory import Subscriptions
    from proxy.net.subscription.inflow import StreamListener

HAND_OVERS_KEPT: Final = 1_000
"""Latest hand-overs kept for those who watch."""

log = structlog.get_logger("keyline.subscription")


class Subscription:
    """Implements `StreamListener` towards the one consumer of an ordinary subscription."""

    def __init__(
        self,
        key: tuple[str, str],
        command: pb.CommandSubscribe,
        directory: Subscriptions,
        *,
        streamed: bool = False,
    ) -> None:
        """The first worker's SUBSCRIBE settles the policy.

        With `streamed` there is no consumer at the broker but those of `open_stream`.

        Raises:
            ClientError: it asks for something that is not.
        """
        if streamed:
            refuse_in_group(command)
        self.streamed = streamed
        self.topic, self.name = key
        self.key = key
        self.directory = directory
        orders = directory.orders.of(key)
        self.settings = orders.limits.applied(directory.settings)
        self.clock = directory.clock
        self.now = directory.clock.now
        self.counters = Counters()
        self.policy = policy_ordered(policy_of(command, self.settings), orders)
        selector = self.policy.new_selector(self.settings, streamed=streamed)
        interval_s = self.settings.key_shared_unblocking_interval_ms / 1_000
        self.dispatcher = Dispatcher(selector, self.policy.mode, unblocking_interval_s=interval_s)
        if orders.paused:
            self.dispatcher.pause()
        self.cursor = CursorWatch(self.dispatcher.outstanding, self.now)
        self.acks = UpstreamAcks(
            self.dispatcher.outstanding,
            self.cursor,
            self.schedule_flush,
            self.clock.call_later,
            with_indexes=self.settings.upstream_batch_index_ack,
        )
        chronicler = directory.events.chronicler
        self.recorder = None if chronicler is None else chronicler.recorder(key)
        """Keeps a record of each message, if that is wanted."""
        if self.recorder is not None:
            self.dispatcher.endings = []
        self.contents = BatchContents(
            self.dispatcher.outstanding, self.settings.subscription_memory_bytes, self.settings.batch_peek_max_bytes
        )
        self.outbox = Outbox(self.counters, self.now, self.contents, self.recorder)
        self.inflows = Inflows()
        self._whole: Inflow | None = None
        """The one of an ordinary subscription, which is not looked for at each flush."""
        if not streamed:
            template = upstream_subscribe(command, self.settings.replica_name)
            self._whole = Inflow(self, template, WHOLE, self, persistent=False)
            self.inflows.add(self._whole)
        self.membership = Membership(self)
        self.subscribers = self.membership.subscribers
        self.admission = Admission(self, command)
        self.requests = SubscriptionRequests(self)
        self.parting = Parting(self)
        self.hand_overs: deque[HandOver] = deque(maxlen=HAND_OVERS_KEPT)
        self.hand_over_count = 0
        self.seat: GroupSeat | None = directory.new_seat(self) if streamed and directory.new_seat is not None else None
        """Who opens and closes its streams."""
        self.ended = False
        self.at_end_of_topic = False
        """Every worker is told that nothing more comes."""
        self._flush_due = False
        self._unblocking: Timer | None = None
        """Goes off when slots that came free are to be released; None where none is held."""
        self._bytes_reported = 0

    # ---- workers ----------------------------------------------------------------------------------------------

    def end_if_empty(self, done: Callable[[], None] | None = None) -> bool:
        """Without workers there is nobody to hold messages for: give them back to the broker, once it has the acks.

        Returns whether the subscription ends, now or then; `done` is called when the broker has answered.
        """
        if self.ended or self.subscribers or self.admission.busy or self.requests.busy:
            return False
        if not self.parting.under_way:
            self.acks.hurry()
            self.flush()
        if self.parting.owes:
            self.parting.begin(done)
        else:
            self.end(done)
        return True

    def end(self, done: Callable[[], None] | None = None) -> None:
        """The end here and at the broker; `done` is called when that has answered, as is all who wait for it.

        One that a group shares gives its streams back first, in its own time: it is asked for its end again then.
        """
        if done is not None:
            self.parting.wait(done)
        if self.seat is not None and self.seat.leave():
            self.parting.end()
            self.parting.release()
            return
        self.finish()
        self.inflows.close(self.parting.release)

    def finish(self) -> None:
        """The end here; the caller closes the consumers at the broker."""
        self.parting.end()
        self.acks.hurry()
        self.flush()
        self.ended = True
        if self._unblocking is not None:
            self._unblocking.cancel()
        self.directory.events.happened("subscription_ended", self.key)
        self.acks.fail_receipts(ended_meanwhile())
        self.directory.account(-self._bytes_reported)
        self._bytes_reported = 0
        self.directory.forget(self)

    def disconnect_workers(self) -> None:
        """As the broker does on seek and unsubscribe: every consumer is closed and may come again."""
        self.membership.disconnect()
        self.admission.refuse_all(ended_meanwhile())

    def shut(self) -> None:
        """The gateway stops: workers reconnect elsewhere, the broker gets its messages back."""
        if not self.ended:
            self.disconnect_workers()
            if self.seat is not None:
                self.seat.close()
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

    # ---- consumers at the broker ------------------------------------------------------------------------------

    def open_stream(self, stream: int, first_slot: int, last_slot: int, listener: StreamListener) -> None:
        """Consume a stream of a group: `listener` hears when it is subscribed, and of every change until it is closed.

        Slots are the broker's for ranges, 0 to 65535, both ends included. Attempts that fail are repeated for ever.
        Only for a streamed subscription that has not ended, and a stream that is not open. Workers may be here or not;
        before the first one was let in, the consumer is made of options that the broker has not judged.
        """
        assert self.streamed
        assert not self.ended
        template = stream_subscribe(self.admission.model, self.settings.replica_name, stream, first_slot, last_slot)
        inflow = Inflow(self, template, stream, listener, HashRange(first_slot, last_slot), persistent=True)
        self.inflows.add(inflow)
        inflow.upstream.open()

    def close_stream(self, stream: int, done: Callable[[], None]) -> None:
        """Consume an open stream no more; `done` is called, perhaps at once, when the broker has answered, or can't.

        Acks that are due leave first, on the same connection; nothing of the stream comes in any more. What is here of
        it stays: who gives the stream to another replica sees to that before. Also after the subscription has ended,
        which closes all streams by itself: `done` then follows that.
        """
        assert self.streamed
        self.acks.hurry()
        self.flush()
        self.inflows.take(stream).close(done)
        self.look_for_end_of_topic()
        self.schedule_flush()  # what was its share of the permits is the others' now

    def stream_opened(self, stream: int) -> None:
        """The one consumer of an ordinary subscription stands: let the first workers in."""
        assert stream == WHOLE
        self.admission.admit()

    def stream_refused(self, stream: int, error: Exception) -> None:
        """The broker does not let us: the workers that asked get its words."""
        assert stream == WHOLE
        self.admission.refuse_all(error)
        if not self.ended:
            self.finish()

    def stream_lost(self, stream: int, reason: str) -> None:
        """Workers notice nothing of it."""

    def look_for_end_of_topic(self) -> None:
        """A consumer came to the end of a terminated topic, or left: tell every worker if all of them are there.

        Those that come later are told as well. The workers of streams are told once, as if by one consumer.
        """
        if not self.inflows.at_end_of_topic or (self.streamed and self.at_end_of_topic):
            return
        self.at_end_of_topic = True
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
        if dispatcher.touched and not (self.streamed and dispatcher.lapsed(self.now())):
            for worker in dispatcher.take_touched():
                self._send(worker)
        first = self._whole or self.inflows.first_ready()
        if first is not None and not first.waits_for_cursor:
            # By any: the broker finds whose the entries are.
            self.acks.flush(first.upstream.link, first.upstream.consumer_id)
        if dispatcher.hand_overs or dispatcher.comebacks or dispatcher.endings:
            self._tell()
        held = dispatcher.outstanding.bytes_held + self.inflows.queued_bytes
        if held != self._bytes_reported:
            self.directory.account(held - self._bytes_reported)
            self._bytes_reported = held
        self._grant(held)
        if self.parting.under_way and not self.parting.owes:
            self.end_if_empty()
        if self.seat is not None:
            self.seat.settle()
        if self._unblocking is None and dispatcher.unblocking.due_at is not None:
            delay_s = max(0.0, dispatcher.unblocking.due_at - self.now())
            self._unblocking = self.clock.call_later(delay_s, self._unblock)

    def _unblock(self) -> None:
        """The unblocking interval is over; or a later one is under way, if what the timer was set for was forgotten."""
        self._unblocking = None
        self.dispatcher.unblock(self.now())
        self.flush()

    def _tell(self) -> None:
        """What the dispatcher noted in this turn."""
        dispatcher, events = self.dispatcher, self.directory.events
        if dispatcher.hand_overs:
            self.hand_over_count += len(dispatcher.hand_overs)
            self.hand_overs.extend(dispatcher.hand_overs)
            events.handed_over(self.key, dispatcher.hand_overs, len(dispatcher.draining))
            dispatcher.hand_overs.clear()
        events.came_back(self.key, dispatcher.comebacks)
        dispatcher.comebacks.clear()
        if dispatcher.endings:
            assert self.recorder is not None
            self.recorder.ended(dispatcher.endings)
            dispatcher.endings.clear()

    def _send(self, worker: Worker) -> None:
        subscriber = self.subscribers.get(worker.index)
        if subscriber is None or subscriber.worker is not worker:
            worker.outbox.clear()
            return
        leases = self.dispatcher.leases
        if leases is not None:
            # A process that is stopped right here wakes up with frames that are another replica's to deliver.
            subscriber.link.limit(leases.end - self.now())
        extras = self.inflows.extras if self._whole is None else self._whole.intake.extras
        if self.outbox.write(subscriber.link, worker, extras):
            return
        # The rest follows when the client reads again, see `SubscribedWorker.writability_changed`.
        self.dispatcher.touched.append(worker)

    def _grant(self, bytes_held: int) -> None:
        dispatcher = self.dispatcher
        if dispatcher.paused or self.directory.reading_stopped:
            return
        if self._whole is not None:
            self._grant_to(self._whole, dispatcher.free_permits(), bytes_held, 1)
            return
        # Those that are on their way back have theirs: after a loss of all, the first would take everything else, and
        # what a broker was granted cannot be taken back.
        shares, free_permits = len(self.inflows), dispatcher.free_permits()
        for inflow in self.inflows:
            if inflow.fetching:
                self._grant_to(inflow, free_permits, bytes_held, shares)

    def _grant_to(self, inflow: Inflow, free_permits: int, bytes_held: int, shares: int) -> None:
        if inflow.upstream.link is None or inflow.waits_for_cursor:
            return
        dispatcher = self.dispatcher
        permits = inflow.window.grant(
            workers=len(dispatcher.workers),
            free_permits=free_permits,
            waiting_messages=dispatcher.waiting_messages + self.inflows.queued_messages,
            bytes_held=bytes_held,
            shares=shares,
        )
        if permits:
            inflow.send_permits(permits)
