"""Acknowledgements inside transactions: to the broker with their ids, and what becomes of them.

The broker learns from the coordinator how a transaction ends, and tells the consumer only of an abort, by sending its
messages again. So the gateway learns it in one of four ways:

1. The coordinator's answer to END_TXN, which passes the gateway, or the replica that has the client's connection.
2. The broker sends the messages again: aborted, by any client, or timed out.
3. The broker's mark-delete position, asked every `ASK_S` while something is held, is at or behind them: committed.
4. The coordinator, asked every `COORDINATOR_S`, knows the transaction no more (`coordinators`). An abort would have had
   the broker send the messages again, so it was a commit, most likely: keys do not wait for it any more. But nothing is
   acknowledged on a likelihood: the broker keeps them back from then on (`kept_back`), so that they take no memory
   here, and are news if they come. So it is after `HELD_S_MAX` without news.
   A broker without permits sends nothing again. It has none while the look-ahead is full, perhaps of what waits for
   these very messages. So it is granted some for what is awaited, and what comes again goes before all else. As long as
   it comes, there are more. While it does not, they are granted anew: others may have been under way, and taken them.
   They are few at once, for what takes them is beyond the bound of the memory.

An acknowledgement whose transaction has ended before it was sent is not sent: it would be pending at the broker until
that notices. One that was not answered before the end may have come too late to be a part of it, so its messages are
delivered again; clients end a transaction when all its acknowledgements are answered. `transactional_request` has what
answers mean.

What is pending at the broker when a gateway is killed, the next one does not know, and nothing in the protocol tells: a
broker leaves out what is pending as it leaves out what is acknowledged. An acknowledgement in a transaction of the
gateway's own would: a refusal says which it is. But the broker writes each to the subscription's log of pending
acknowledgements, and to its own as an error, and what is neither becomes pending. So the next one waits for the ends of
all transactions that are open in the subscription (`takeover`).

Source: `PendingAckHandleImpl`.
"""

from __future__ import annotations

from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from proxy.core import transactional_acks
from proxy.core.errors import NotHeldError, OpaqueBatchError
from proxy.errors import ClientError, UpstreamUnavailable
from proxy.net.alarm import Alarm
from proxy.net.subscription.transactional_request import Request
from proxy.net.subscription.upstream import mark_delete_of
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.transactions import Held, TransactionId
    from proxy.core.worker import Worker
    from proxy.net.ports import BrokerLink, Clock
    from proxy.net.subscription.coordinators import Coordinators

IDS_MAX: Final = 2_000
"""Messages of one acknowledgement inside a transaction: all of them are taken in one go, or none."""

ASK_S: Final = 1.0
"""Interval at which the broker is asked for its mark-delete position while something is held for longer."""

COORDINATOR_S: Final = 5.0
"""Interval at which a coordinator is asked for each transaction that is open for so long."""

ASKED_MAX: Final = 20
"""Transactions that are asked for in each look, those first that have waited longest. So with more than
`ASKED_MAX * COORDINATOR_S / ASK_S` of them each is asked for once in as many looks as there are times `ASKED_MAX`."""

AWAITED_AT_ONCE: Final = 20
"""For so many of the awaited messages the broker has permits at once; for one while twice the memory is in use."""

RESEND_S: Final = 2.0
"""So long after a transaction's end what was aborted is awaited; a broker sends it within milliseconds."""

HELD_S_MAX: Final = 900.0
"""So long keys wait for a transaction's end that is not seen."""


def fault_of(ids: int, *, joined: bool) -> ClientError | None:
    """Why one acknowledgement of so many messages is refused; None if it is not."""
    if ids > IDS_MAX:
        return ClientError(f"an acknowledgement inside a transaction has at most {IDS_MAX} messages, not {ids}")
    if not joined:  # an operator or a lease took away what it had
        text = "this consumer has no messages: they are acknowledged, or have been delivered again"
        return ClientError(text, pb.TransactionConflict)
    return None


class TransactionRegistry:
    """Which subscriptions of a gateway hold something in a transaction."""

    def __init__(self) -> None:
        """None does."""
        self._open: dict[TransactionId, dict[TransactionalAcks, None]] = {}

    def began(self, transaction: TransactionId, acks: TransactionalAcks) -> None:
        """It has a part in the transaction."""
        self._open.setdefault(transaction, {})[acks] = None

    def forget(self, transaction: TransactionId, acks: TransactionalAcks) -> None:
        """It has none any more."""
        parts = self._open.get(transaction)
        if parts is not None:
            parts.pop(acks, None)
            if not parts:
                del self._open[transaction]

    def ended(self, transaction: TransactionId, *, committed: bool) -> None:
        """The coordinator said so."""
        for acks in self._open.pop(transaction, {}):
            acks.ended(transaction, committed=committed)


class TransactionalAcks:
    """Those of one subscription."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        registry: TransactionRegistry,
        coordinators: Coordinators,
        clock: Clock,
        wake: Callable[[], None],
        *,
        with_indexes: bool,
    ) -> None:
        """`wake` asks for a flush soon; `with_indexes` as for `UpstreamAcks`."""
        self._with_indexes = with_indexes
        self._coordinators = coordinators
        self._asked_at: dict[TransactionId, float] = {}
        self._gone_at: dict[TransactionId, float] = {}
        """When a coordinator was found not to know a transaction any more."""
        self._permitted_at: dict[TransactionId, float] = {}
        """When the broker had permits first after that."""
        self.awaited_messages = 0
        """Those of transactions that are gone, when permits for them are due; `AWAITED_AT_ONCE` at most."""
        self._came_again = 0
        """How often something had come again when they were counted."""
        self._permits_at = 0.0
        """When they are due again."""
        self._dispatcher = dispatcher
        self._registry = registry
        self._clock = clock
        self._wake = wake
        self._unsent: list[Request] = []
        self._in_flight: dict[Request, None] = {}
        self._transactions: dict[TransactionId, dict[Held, None]] = {}
        """What was taken in each and is not known to have ended."""
        self._timer = Alarm(clock)
        self._ask_due = False

    @property
    def awaits(self) -> bool:
        """Whether the broker is to be read though the memory is full.

        Something is held of a transaction that is gone, which it sends again or tells of; or it has not answered for
        `ASK_S`: before that nothing is asked of a coordinator, and all that fills the memory may wait for it.
        """
        return bool(self._gone_at) or (bool(self._in_flight) and self._is_late())

    def _is_late(self) -> bool:
        oldest = next(iter(self._in_flight))
        return oldest.sent_at + ASK_S <= self._clock.now()

    @property
    def unanswered(self) -> bool:
        """Whether the broker has not answered one."""
        return bool(self._unsent or self._in_flight)

    def take(
        self,
        worker: Worker,
        transaction: TransactionId,
        wanted: Sequence[tuple[int, int | None]],
        answer: Callable[[Exception | None], None],
    ) -> None:
        """A worker's acknowledgement, as for `hold`; `answer` is called when the broker has answered, or at once.

        `wanted` has `IDS_MAX` at most, see `fault_of`.
        """
        assert len(wanted) <= IDS_MAX, len(wanted)
        now = self._clock.now()
        try:
            helds = transactional_acks.hold(
                self._dispatcher, worker, wanted, transaction, now, in_parts=self._with_indexes
            )
        except NotHeldError as error:
            answer(ClientError(f"{error}; it is acknowledged, or has been delivered again", pb.TransactionConflict))
            return
        except OpaqueBatchError as error:
            answer(ClientError(str(error)))
            return
        if not helds:
            answer(None)
            return
        self._transactions.setdefault(transaction, {}).update(dict.fromkeys(helds))
        self._registry.began(transaction, self)
        self._unsent.append(Request(transaction, helds, answer))
        self._watch()
        self._wake()

    def flush(self, link: BrokerLink | None, consumer_id: int, permits: int) -> None:
        """Send what there is; without a link it keeps waiting. `permits` are those that the broker has."""
        if not (self._unsent or self._gone_at or self._ask_due):
            return
        if link is None:
            self._permitted_at.clear()
            self._await(self._clock.now())
            return
        if permits > 0:
            self.permitted()
        elif self._gone_at and self._came_again != self._dispatcher.in_transaction.came_again:
            self._permitted_at.clear()  # they come, and are waited for from now on
            self._count_awaited()
        now, unsent = self._clock.now(), self._unsent
        self._unsent = [request for request in unsent if request.due_at > now]
        for request in unsent:
            if request.due_at <= now:
                self._send(link, consumer_id, request)
        if self._ask_due:
            self._ask_due = False
            self._ask(link, consumer_id)

    def after_reconnect(self) -> None:
        """The consumer was closed at the broker, which answers nothing that is asked of one that is gone.

        What has no answer goes again, whether the connection was lost or stands; the broker may have it.
        """
        gone = UpstreamUnavailable("the broker closed the gateway's consumer before it answered; try again")
        for request in list(self._in_flight):
            self._answered(request, gone)

    def permits_due(self, *, crowded: bool) -> int:
        """Messages for which the broker should have permits, beyond all bounds; `crowded`: twice the memory is used."""
        return min(self.awaited_messages, 1) if crowded else self.awaited_messages

    def permitted(self) -> None:
        """The broker has permits: what comes again of transactions that are gone comes now."""
        now = self._clock.now()
        for transaction in self._gone_at:
            self._permitted_at.setdefault(transaction, now)
        self.awaited_messages = 0

    def ended(self, transaction: TransactionId, *, committed: bool) -> None:
        """The coordinator has ended a transaction, here and at every topic."""
        unsent = self._unsent
        self._unsent = [request for request in unsent if request.transaction != transaction]
        for request in [request for request in unsent if request.transaction == transaction]:
            self._refused(request, ClientError("the transaction has ended", pb.TransactionConflict))
        waiting: set[int] = set()
        for request in self._in_flight:
            if request.transaction == transaction:
                request.late = True
                waiting.update(map(id, request.helds))
        helds = [held for held in self._transactions.get(transaction, ()) if id(held) not in waiting]
        self._settle(helds, committed=committed)

    def committed_up_to(self, position: int) -> None:
        """The broker's mark-delete position."""
        self._dispatcher.outstanding.acknowledged_up_to(position)
        if self._dispatcher.in_transaction:
            confirmed = [held for held in self._dispatcher.in_transaction.all() if held.confirmed]
            self._settle([held for held in confirmed if held.part.position <= position], committed=True)

    def end(self) -> None:
        """The subscription has ended here, or its cursor was moved."""
        error = UpstreamUnavailable("the subscription was closed on this gateway meanwhile; try again")
        requests, self._unsent, self._in_flight = [*self._unsent, *self._in_flight], [], {}
        for request in requests:
            request.answer(error)
        for transaction in self._transactions:
            self._registry.forget(transaction, self)
        self._transactions.clear()
        self._timer.cancel()

    # ---- within

    def _send(self, link: BrokerLink, consumer_id: int, request: Request) -> None:
        self._in_flight[request] = None
        request.sent_at = self._clock.now()
        link.request(partial(request.frame, consumer_id), partial(self._answered, request))

    def _answered(self, request: Request, reply: pb.BaseCommand | Exception) -> None:
        if request not in self._in_flight:
            return
        del self._in_flight[request]
        if request.goes_again(reply, self._clock.now()):
            self._unsent.append(request)
            self._wake()
            return
        refusal = request.refusal(reply)
        if refusal is not None:
            self._refused(request, refusal)
            return
        for held in request.helds:
            held.confirmed = True
        request.answer(None)
        self._wake()  # who closes may wait for it
        if request.late:
            self._settle(request.helds, committed=False)

    def _refused(self, request: Request, error: Exception) -> None:
        self._settle(request.helds, committed=False)
        request.answer(error)

    def _settle(self, helds: Sequence[Held], *, committed: bool) -> None:
        """How these end is known; nothing is done about those that came back already."""
        settle = transactional_acks.commit if committed else transactional_acks.abort
        settle(self._dispatcher, helds, self._clock.now())
        for held in helds:
            self._transactions.get(held.transaction, {}).pop(held, None)
        self._tidy({held.transaction for held in helds})
        self._wake()

    def _tidy(self, transactions: Iterable[TransactionId]) -> None:
        """Forget those of these of which nothing is held."""
        open_here = self._dispatcher.in_transaction.open
        for transaction in [each for each in transactions if each not in open_here]:
            self._transactions.pop(transaction, None)
            self._asked_at.pop(transaction, None)
            self._gone_at.pop(transaction, None)
            self._permitted_at.pop(transaction, None)
            self._registry.forget(transaction, self)
        if not self._gone_at:
            self.awaited_messages = 0

    def _watch(self) -> None:
        if not self._timer.is_set:
            self._timer.set(ASK_S, self._look)

    def _look(self) -> None:
        """Ask the broker, and give up what is held too long."""
        transactions = self._dispatcher.in_transaction
        now = self._clock.now()
        helds = transactions.all()
        late = [held for held in helds if held.since + HELD_S_MAX <= now or self._is_over(held, now)]
        transactional_acks.wait_no_more(self._dispatcher, late, now)
        self._tidy(self._transactions)
        self._wake()
        waits_for_rest = self._dispatcher.outstanding.waits_for_rest
        if not (transactions or waits_for_rest):
            return
        if self._gone_at and self._permits_at <= now:
            self._await(now)
        self._ask_coordinators([held for held in helds if held.confirmed and not held.released], now)
        self._ask_due = waits_for_rest or any(held.confirmed and held.since + ASK_S <= now for held in helds)
        self._watch()

    def _is_over(self, held: Held, now: float) -> bool:
        """Whether its transaction has ended, and the broker would have sent it again by now if that was an abort."""
        permitted_at = self._permitted_at.get(held.transaction)
        return permitted_at is not None and held.confirmed and permitted_at + RESEND_S <= now

    def _ask_coordinators(self, helds: Sequence[Held], now: float) -> None:
        since: dict[TransactionId, float] = {}
        for held in helds:
            since[held.transaction] = min(held.since, since.get(held.transaction, held.since))
        waits_since = ((self._asked_at.get(each, at), each) for each, at in since.items() if each not in self._gone_at)
        due = (waiting for waiting in waits_since if waiting[0] + COORDINATOR_S <= now)
        for _, transaction in nsmallest(ASKED_MAX, due):
            self._asked_at[transaction] = now
            self._coordinators.ask(transaction, partial(self._gone, transaction))

    def _gone(self, transaction: TransactionId) -> None:
        if transaction in self._transactions:
            now = self._gone_at[transaction] = self._clock.now()
            self._await(now)
            self._wake()

    def _await(self, now: float) -> None:
        """What is gone comes again, or does not; permits for it are due."""
        self._permits_at = now + ASK_S
        self._count_awaited()

    def _count_awaited(self) -> None:
        transactions = self._dispatcher.in_transaction
        self._came_again = transactions.came_again
        awaited = (held for each in self._gone_at for held in self._transactions.get(each, ()) if held.confirmed)
        messages = 0
        for held in awaited:
            messages += held.part.count if transactions.holds(held.part) else 0
            if messages >= AWAITED_AT_ONCE:
                break
        self.awaited_messages = min(messages, AWAITED_AT_ONCE)

    def _ask(self, link: BrokerLink, consumer_id: int) -> None:
        def answered(reply: pb.BaseCommand | Exception) -> None:
            if not isinstance(reply, Exception):
                position = mark_delete_of(reply)
                if position is not None:
                    self.committed_up_to(position)

        link.request(lambda request_id: commands.get_last_message_id(consumer_id, request_id), answered)
