"""A worker's end of a subscription: its commands in, its frames out.

Written so that every command is right at any moment: before the subscription answered (permits are kept for later),
after the worker left (nothing happens), and in any order with the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core import ack_lease, acknowledgement, whole_messages
from proxy.core.delivery_key import delivery_key
from proxy.core.positions import is_packable, pack
from proxy.core.worker import Worker
from proxy.net.message_ids import unmask
from proxy.net.subscription.acks import Receipt, bits_of
from proxy.net.subscription.refusals import code_of, error_frame, refuse_ack
from proxy.net.subscription.transactions import fault_of
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import kept_of
from proxy.wire.frames import encode_command
from proxy.wire.messages import in_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from proxy.net.ports import WorkerLink
    from proxy.net.subscription.requests import SubscriptionRequests
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import Answer, SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers
    from proxy.wire.messages import Extras

IDS_AT_ONCE: Final = 2_000
"""Messages of one ACK or REDELIVER that are looked at in one go. Clients group a thousand; a frame has room for more
than half a million."""

PERMITS_MAX: Final = (1 << 31) - 1
"""More than any client grants; a wire value beyond it is taken as this."""


class WorkerOwner(Protocol):
    """The part that a leaving worker informs: admission until it has joined, membership after that."""

    def leave(self, subscriber: SubscribedWorker, reason: str, done: Callable[[], None] | None = None) -> None:
        """It is gone; `done` is called when the broker too knows it, if it was the last."""

    def lose(self, subscriber: SubscribedWorker, reason: str) -> None:
        """Its connection is gone: it leaves now, or with others of it in turns to come."""


class SubscribedWorker:
    """Implements `ports.WorkerPort`, and `Asker` towards the requests it makes."""

    def __init__(
        self,
        state: SubscriptionState,
        services: Services,
        consumers: UpstreamConsumers,
        requests: SubscriptionRequests,
        owner: WorkerOwner,
        link: WorkerLink,
        command: pb.CommandSubscribe,
    ) -> None:
        """Not joined yet; its owner decides."""
        self.link = link
        self.command = command
        self.worker: Worker | None = None
        """Set while joined."""
        self.ended = False
        """It left, was refused or was closed: it takes no further part."""
        self._state = state
        self._services = services
        self._consumers = consumers
        self._requests = requests
        self._owner = owner
        self._lost = False
        self._answered = False
        self.early_permits = 0
        self._epoch = 0
        services.quota.worker_came(command)

    # ---- life -------------------------------------------------------------------------------------------------

    @property
    def is_joined(self) -> bool:
        """As `Asker` says."""
        return self.worker is not None

    @property
    def unacked(self) -> int:
        """As the port says."""
        return 0 if self.worker is None or self.ended else self.worker.unacked

    def joined(self, worker: Worker, owner: WorkerOwner) -> None:
        """The dispatcher took the worker: tell the client, and hand over what it granted meanwhile."""
        self.shut_out(owner)
        self.worker = worker
        if not self.link.writable:
            self.writability_changed(writable=False)
        if self.early_permits:
            permits, self.early_permits = self.early_permits, 0
            self.flow(permits)

    def shut_out(self, owner: WorkerOwner) -> None:
        """Tell the client that it is subscribed; what it grants is kept until it has joined."""
        self._owner = owner
        if not self._answered:
            self._answered = True
            self.link.subscribed()
            self.command = kept_of(self.command)

    def refuse(self, error: Exception) -> None:
        """The client's SUBSCRIBE fails here, or its consumer ends if it was let in; not if it has gone already."""
        if self._answered:
            self.end()
        elif not self.ended:
            self._end()
            self.link.refuse(error)

    def end(self) -> None:
        """The gateway ends the consumer: the client reconnects by itself."""
        if not self.ended:
            self.deleted()
            self.tell(commands.close_consumer(self.link.consumer_id, 0))

    def deleted(self) -> None:
        """The subscription was deleted on this worker's own request: its consumer has ended without a word."""
        if not self.ended:
            self._end()
            self.link.forget()

    def _end(self) -> None:
        self.ended = True
        self._services.quota.worker_left(self.command)
        if self.worker is not None:  # it may leave turns later, and is to get nothing of those who leave before it
            self._state.dispatcher.set_writable(self.worker, writable=False, now=self._state.now())

    def tell(self, frame: bytes) -> None:
        """Send the client something, unless its connection is gone: answers may come as late as they like."""
        if not self._lost:
            self.link.send(frame)

    def tell_error(self, request_id: int, error: Exception) -> None:
        """Answer one of the client's requests with an ERROR."""
        self.tell(error_frame(request_id, error))

    def tell_end_of_topic(self) -> None:
        """Nothing more will come, ever."""
        self.tell(commands.reached_end_of_topic(self.link.consumer_id))

    def lost(self, reason: str) -> None:
        """The client's connection is gone."""
        self._lost = True
        if not self.ended:
            self._end()
            self._owner.lose(self, reason)

    def close(self, request_id: int) -> None:
        """The client closes its consumer."""
        if self.ended:
            self.tell(commands.success(request_id))
            return
        self.deleted()
        self._owner.leave(self, "closed by the client", lambda: self.tell(commands.success(request_id)))

    @property
    def broker_away(self) -> bool:
        """As the port says."""
        return self._consumers.first_ready() is None

    # ---- flow and acks ----------------------------------------------------------------------------------------

    def flow(self, permits: int) -> None:
        """CommandFlow; zero grants nothing."""
        permits = min(permits, PERMITS_MAX)
        if permits <= 0 or self.ended:
            return
        if self.worker is None:
            self.early_permits = min(self.early_permits + permits, PERMITS_MAX)
            return
        state, worker = self._state, self.worker
        # Capped so that a client that grants without end cannot make the sum grow without end.
        permits = min(permits, PERMITS_MAX - max(worker.permits, 0))
        state.dispatcher.flow(worker, permits, state.now())
        state.schedule_flush()

    def ack(self, command: pb.CommandAck) -> None:
        """CommandAck: refused if it cannot be meant for Key_Shared, else applied id by id."""
        in_transaction = command.HasField("txnid_most_bits") or command.HasField("txnid_least_bits")
        refusal = refuse_ack(command, in_group=in_transaction and self._state.streamed)
        if refusal is not None:
            self._state.counters.acks_refused += 1
            self._answer_ack(command, refusal)
            return
        if in_transaction:
            self._ack_in_transaction(command)
            return
        self._by_pieces(command.message_id, self._apply_acks, lambda: self._acked(command))

    def acked_whole(self, ids: list[int]) -> None:
        """As `ack`, of a command that can be meant for Key_Shared, is not long, and wants no answer."""
        worker, state = self.worker, self._state
        if worker is None or self.ended:
            return
        dispatcher, now, watched = state.dispatcher, state.now(), self._watched(worker)
        late: acknowledgement.Late = []
        for index in range(0, len(ids), 2):
            ledger, entry = ids[index], ids[index + 1]
            key = (ledger << 40) + entry if entry < 1 << 40 else delivery_key(ledger, entry, -1)
            if key in watched:
                self._judge_ack(worker, key)
            acknowledgement.ack(dispatcher, worker, key, now, late)
        if late:
            acknowledgement.forget_unsent(dispatcher, worker, late, now)
        state.schedule_flush()

    def _ack_in_transaction(self, command: pb.CommandAck) -> None:
        """The broker's answer is the worker's."""
        if self.ended:
            return

        def answer(error: Exception | None) -> None:
            self._state.counters.acks_refused += error is not None
            self._answer_ack(command, error)

        worker, fault = self.worker, fault_of(len(command.message_id), joined=self.is_joined)
        if worker is None or fault is not None:
            answer(fault)
            return
        wanted = [(_key_of(each), bits_of(each.ack_set) if each.ack_set else None) for each in command.message_id]
        for key, unacked in wanted:
            self._judge_ack(worker, key, unacked or 0)
        self._state.transactions.take(worker, (command.txnid_most_bits, command.txnid_least_bits), wanted, answer)

    def _acked(self, command: pb.CommandAck) -> None:
        """All of it was applied."""
        state = self._state
        if command.HasField("request_id"):
            answer: Answer = lambda error: self._answer_ack(command, error)  # noqa: E731 - it may have to wait
            if state.behind_lot is not None:
                answer = state.behind_lot(answer, len(command.message_id) > IDS_AT_ONCE)
            state.acks.want_receipt(Receipt(answer))
        state.schedule_flush()

    def _by_pieces(
        self,
        places: Sequence[pb.MessageIdData],
        handle: Callable[[Sequence[pb.MessageIdData]], None],
        done: Callable[[], None],
    ) -> None:
        """Handle very many ids of one command in slices; what the worker sends next waits for them."""
        if len(places) <= IDS_AT_ONCE:
            handle(places)
            done()
            return
        starts = range(0, len(places), IDS_AT_ONCE)

        def some(start: int) -> None:
            handle(places[start : start + IDS_AT_ONCE])
            if start == starts[-1]:
                done()

        self.link.first(self._services.slices.step_of_each(starts, some))

    def _apply_acks(self, places: Iterable[pb.MessageIdData]) -> None:
        worker = self.worker
        if worker is None or self.ended:
            return
        state = self._state
        dispatcher = state.dispatcher
        now, watched = state.now(), self._watched(worker)
        ack = acknowledgement.ack
        late: acknowledgement.Late = []
        for place in places:
            ledger, entry = place.ledgerId, place.entryId
            key = (ledger << 40) + entry if entry < 1 << 40 else delivery_key(ledger, entry, -1)
            if key in watched:
                self._judge_ack(worker, key, bits_of(place.ack_set) if place.ack_set else 0)
            if place.ack_set:
                acknowledgement.ack_indexes(dispatcher, worker, key, bits_of(place.ack_set), now, late)
            else:
                ack(dispatcher, worker, key, now, late)
        if late:
            acknowledgement.forget_unsent(dispatcher, worker, late, now)

    def _watched(self, worker: Worker) -> Container[int]:
        """Keys of the deliveries to the worker whose acks the monitor is to hear of."""
        monitor = self._state.monitor
        return () if monitor is None else monitor.held.get(worker, ())

    def _judge_ack(self, worker: Worker, key: int, unacked: int = 0) -> None:
        """The monitor hears of an ack."""
        if self._state.monitor is not None:
            self._state.monitor.acked(worker, key, unacked)

    def _answer_ack(self, command: pb.CommandAck, error: Exception | None) -> None:
        if command.HasField("request_id"):
            code = None if error is None else code_of(error)
            self.tell(commands.ack_response(self.link.consumer_id, command, code, str(error)))

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Some messages again, or all; with an epoch, all but some."""
        if command.consumer_epoch:
            self._redeliver_others(command)
        else:
            self._by_pieces(command.message_ids, self._redeliver, self._state.schedule_flush)

    def _redeliver(self, places: Sequence[pb.MessageIdData]) -> None:
        worker = self.worker
        if worker is None or self.ended:
            return
        keys = [_key_of(place) for place in places] if places else None
        state = self._state
        if state.monitor is not None:
            state.monitor.given_back(worker, keys and [*keys, *whole_messages.rest_of(worker, keys)])
        acknowledgement.redeliver(state.dispatcher, worker, keys, state.now())

    def _redeliver_others(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """However many are named, all others are given back in one go: nothing is sent in between.

        An id with an ack set is wanted again, see `commands.redeliver_unseen`.
        """
        kept: set[int] = set()
        wanted: list[int] = []
        epoch = command.consumer_epoch

        def keep(places: Sequence[pb.MessageIdData]) -> None:
            for place in places:
                if place.ack_set:
                    wanted.append(_key_of(place))
                else:
                    kept.add(_key_of(place))

        def give_back() -> None:
            worker = self.worker
            if worker is not None and not self.ended:
                self._epoch = epoch
                state = self._state
                if state.monitor is not None:
                    state.monitor.kept_only(worker, kept, wanted)
                acknowledgement.redeliver_others(state.dispatcher, worker, kept, wanted, state.now())
                state.schedule_flush()

        self._by_pieces(command.message_ids, keep, give_back)

    def stamped(self, extras: Extras) -> Extras:
        """The extras of what is sent to it now."""
        return in_epoch(extras, self._epoch) if self._epoch else extras

    # ---- requests ---------------------------------------------------------------------------------------------

    def unsubscribe(self, command: pb.CommandUnsubscribe) -> None:
        """Delete the subscription; only its last worker may, as at the broker."""
        self._requests.unsubscribe(self, command)

    def seek(self, command: pb.CommandSeek) -> None:
        """Move the subscription; every worker is disconnected then, as by the broker."""
        seek = pb.CommandSeek()
        seek.CopyFrom(command)
        if seek.HasField("message_id"):
            unmask(seek.message_id)
        self._requests.seek(self, seek)

    def get_last_message_id(self, command: pb.CommandGetLastMessageId) -> None:
        """Answered by the broker; and the call by which a client that works on gets more time (`ack_lease`)."""
        if self.worker is not None and not self.ended:
            state = self._state
            state.counters.ack_lease_extensions += ack_lease.extend(state.dispatcher, self.worker, state.now())
        self._requests.get_last_message_id(self, command)

    def consumer_stats(self, command: pb.CommandConsumerStats) -> None:
        """Answered from what the dispatcher knows of this worker."""
        worker = self.worker
        stats = pb.CommandConsumerStatsResponse(request_id=command.request_id)
        if worker is None:
            stats.error_code = pb.ConsumerNotFound
            stats.error_message = f"consumer {self.link.consumer_id} has not joined its subscription"
        else:
            stats.consumerName = worker.name
            stats.availablePermits = max(worker.permits, 0)
            stats.unackedMessages = worker.unacked
            stats.blockedConsumerOnUnackedMsgs = worker.over_unacked
            stats.address = self.link.peer
            stats.type = "Key_Shared"
        response = pb.BaseCommand(type=pb.BaseCommand.CONSUMER_STATS_RESPONSE, consumerStatsResponse=stats)
        self.tell(encode_command(response))

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """A client that does not read counts as one without permits."""
        if self.worker is not None and not self.ended:
            self._state.dispatcher.set_writable(self.worker, writable, self._state.now())
            self._state.schedule_flush()


def _key_of(place: pb.MessageIdData) -> int:
    """Pending key of what a client names; something no worker holds if it names nothing possible."""
    ledger, entry = place.ledgerId, place.entryId
    return pack(ledger, entry) if is_packable(ledger, entry) else delivery_key(ledger, entry, -1)
