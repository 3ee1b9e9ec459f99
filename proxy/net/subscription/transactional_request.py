"""One acknowledgement inside a transaction, on its way to the broker, and what an answer says of it.

One that a lost connection left without an answer is sent again. That the broker knows it already (TransactionConflict)
is success then. That it takes none just now says nothing of the one before, which it may have: it is sent once more.

Source: `PendingAckHandleImpl.individualAcknowledgeMessage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.index_bits import indexes_to_bits
from proxy.core.positions import unpack
from proxy.errors import UpstreamUnavailable, broker_code
from proxy.net.subscription.acks import words_of
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.transactions import Held, TransactionId

RETRY_S: Final = 0.5
"""So long after a broker took none it is sent again, with the next look after the transactions."""

NOT_NOW: Final = frozenset({pb.ServiceNotReady, pb.ConsumerNotFound, pb.PersistenceError, pb.TooManyRequests})
"""How a broker says so: its log of pending acknowledgements is not read yet, or our consumer is on its way."""


class Request:
    """It is to be answered once."""

    __slots__ = ("_again", "answer", "due_at", "helds", "late", "sent_at", "transaction")

    def __init__(
        self, transaction: TransactionId, helds: list[Held], answer: Callable[[Exception | None], None]
    ) -> None:
        """Not sent yet; `answer` is the client's."""
        self.transaction = transaction
        self.helds = helds
        self.answer = answer
        self._again = False
        """Whether it was sent before, and the broker may have it."""
        self.due_at = 0.0
        """When it is to be sent."""
        self.sent_at = 0.0
        """When it was, the last time."""
        self.late = False
        """Whether the transaction has ended meanwhile."""

    def frame(self, consumer_id: int, request_id: int) -> bytes:
        """The ACK."""
        places = [_place(held) for held in self.helds]
        return commands.ack_in_transaction(consumer_id, self.transaction, places, request_id)

    def goes_again(self, reply: pb.BaseCommand | Exception, now: float) -> bool:
        """Whether this answer leaves open whether the broker has it, and it is sent once more."""
        if self.late or not isinstance(reply, Exception):
            return False
        lost = isinstance(reply, UpstreamUnavailable)
        if not lost and not (self._again and broker_code(reply) in NOT_NOW):
            return False
        self._again = True
        self.due_at = now if lost else now + RETRY_S
        return True

    def refusal(self, reply: pb.BaseCommand | Exception) -> Exception | None:
        """Why the broker does not have it; None if it has."""
        if not isinstance(reply, Exception) or (self._again and broker_code(reply) == pb.TransactionConflict):
            return None
        return reply


def _place(held: Held) -> tuple[int, int, int, list[int]]:
    """As `commands.ack_in_transaction` wants it."""
    part = held.part
    ledger, entry = unpack(part.position)
    total = part.batch.total if part.batch is not None else part.count
    left = 0 if part.indexes is None else ((1 << total) - 1) & ~indexes_to_bits(part.indexes, total)
    return ledger, entry, total, words_of(left) if left else []
