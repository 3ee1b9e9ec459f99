"""Acks on their way to the broker, and the receipts that wait for it.

The acks of one loop turn leave as one command. Every such command carries a request id, so that the gateway knows
what the broker has confirmed: until then a position counts as unconfirmed, is acknowledged again after a reconnect,
and a worker that asked for a receipt waits (G3, G4). A worker's receipt never comes before the broker's word, because
a worker may let go of its own state on it.

Acks of single messages are gathered for longer. Each taker of a batch acknowledges its part at another moment, and a
batch that is done by then needs none of them: sent every turn, a batch for 40 workers cost 25 such acks, here and at
the broker. All they are for is that less comes again after a crash. A receipt that waits for one sends it at once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core.entry import Batch
from proxy.core.positions import ENTRY_BITS, ENTRY_MASK, unpack
from proxy.errors import UpstreamUnavailable
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.core.outstanding import Outstanding
    from proxy.net.ports import BrokerLink
    from proxy.net.subscription.cursor import CursorWatch

ACKS_PER_COMMAND_MAX: Final = 2_000
"""Positions in one command: 40 KB, well below the broker's frame limit."""

INDEX_ACKS_S: Final = 0.1
"""How long acks of single messages are gathered: as long as clients by default gather theirs."""

RETRY_S: Final = 1.0
"""After so long an ack that the broker refused is sent again, though the connection stands."""

log = structlog.get_logger("keyline.subscription")


class Receipt:
    """A worker's ack command that wants an answer once all of it is confirmed."""

    __slots__ = ("answer", "commands_left", "error")

    def __init__(self, answer: Callable[[Exception | None], None]) -> None:
        """`answer` is called once, with the error if there was one."""
        self.answer: Callable[[Exception | None], None] | None = answer
        self.commands_left = 0
        self.error: Exception | None = None

    def settle(self, error: Exception | None) -> None:
        """One of the commands that carry its acks was answered; a receipt that was renewed hears nothing."""
        self.error = self.error or error
        self.commands_left -= 1
        if self.commands_left <= 0 and self.answer is not None:
            answer, self.answer = self.answer, None
            answer(self.error)

    def renew(self) -> list[Receipt]:
        """A receipt that waits in place of this one, for commands still to be sent; none if it was answered."""
        answer, self.answer = self.answer, None
        return [Receipt(answer)] if answer is not None else []


class UpstreamAcks:
    """Sends what `Outstanding` gathered, and follows it to its confirmation."""

    __slots__ = (
        "_call_later",
        "_cursor",
        "_end",
        "_gathering",
        "_in_flight",
        "_indexes_due",
        "_outstanding",
        "_receipts",
        "_wake",
        "_with_indexes",
        "errors",
        "indexes_unanswered",
        "settled",
        "watcher",
    )

    def __init__(
        self,
        outstanding: Outstanding,
        cursor: CursorWatch,
        wake: Callable[[], None],
        call_later: Callable[[float, Callable[[], None]], object],
        *,
        with_indexes: bool,
    ) -> None:
        """`with_indexes`: forward acks of single messages of a batch, for brokers that store them.

        `cursor` is told what the broker has confirmed. `wake` asks for a `flush` soon, when something must be sent once
        more; `call_later` is the clock's.
        """
        self._outstanding = outstanding
        self._cursor = cursor
        self._wake = wake
        self._call_later = call_later
        self._with_indexes = with_indexes
        self._gathering = False
        """Whether a timer runs for acks of single messages."""
        self._indexes_due = False
        """Whether they leave with the next flush."""
        self._receipts: list[Receipt] = []
        """Those whose acks were not sent yet, or must be sent again."""
        self._in_flight: dict[Receipt, None] = {}
        self._end: Exception | None = None
        self.errors = 0
        self.indexes_unanswered = 0
        """Commands with acks of single messages that the broker has not answered: what they name is nowhere else."""
        self.watcher: Callable[[Exception | None], None] | None = None
        """Who is told of each of the broker's answers, or that none came."""
        self.settled: Callable[[], None] | None = None
        """Who is told, besides, that there was one."""

    def want_receipt(self, receipt: Receipt) -> None:
        """Answer when what this worker acknowledged is confirmed."""
        if self._end is not None:
            receipt.settle(self._end)
        else:
            self._receipts.append(receipt)

    def flush(self, link: BrokerLink | None, consumer_id: int) -> None:
        """Send what there is; without a link it keeps waiting, and nothing is lost."""
        if link is None:
            return
        outstanding = self._outstanding
        receipts, self._receipts = self._receipts, []
        acks, outstanding.acks = outstanding.acks, []
        indexes = self._take_indexes(at_once=bool(receipts))
        if not acks and not indexes:
            for receipt in receipts:
                receipt.settle(None)
            return
        pieces = [acks[start : start + ACKS_PER_COMMAND_MAX] for start in range(0, len(acks), ACKS_PER_COMMAND_MAX)]
        for receipt in receipts:
            receipt.commands_left = len(pieces) + bool(indexes)
            self._in_flight[receipt] = None
        for piece in pieces:
            self._send(link, consumer_id, piece, receipts)
        if indexes:
            self._send_indexes(link, consumer_id, indexes, receipts)

    def hurry(self) -> None:
        """What is gathered leaves with the next flush: there may be no later one."""
        self._indexes_due = True

    def after_reconnect(self) -> None:
        """Everything unconfirmed goes again: the broker may never have seen it, nor answer what is in flight."""
        self._indexes_due = True
        outstanding = self._outstanding
        outstanding.acks = sorted(outstanding.unconfirmed)
        for position, entry in outstanding.entries.items():
            if isinstance(entry, Batch) and outstanding.unacked_of(entry) != (1 << entry.total) - 1:
                outstanding.index_acks[position] = entry
        self._send_again(list(self._in_flight))

    def fail_receipts(self, error: Exception) -> None:
        """The subscription ends here. What is in flight may yet be confirmed; nothing is sent any more."""
        self._end = error
        receipts, self._receipts = self._receipts, []
        for receipt in receipts:
            receipt.commands_left = 0
            receipt.settle(error)

    def _take_indexes(self, *, at_once: bool) -> dict[int, int]:
        outstanding = self._outstanding
        if not outstanding.index_acks:
            return {}
        if self._with_indexes and not at_once and not self._indexes_due:
            if not self._gathering:
                self._gathering = True
                self._call_later(INDEX_ACKS_S, self._gathered)
            return {}
        self._indexes_due = False
        batches, outstanding.index_acks = outstanding.index_acks, {}
        if not self._with_indexes:
            return {}
        return {position: outstanding.unacked_of(batch) for position, batch in batches.items()}

    def _gathered(self) -> None:
        self._gathering = False
        if self._end is None and self._outstanding.index_acks:
            self._indexes_due = True
            self._wake()

    def _send(self, link: BrokerLink, consumer_id: int, positions: list[int], receipts: list[Receipt]) -> None:
        self._cursor.acknowledged()
        kept_back = self._outstanding.kept_back

        def build(request_id: int) -> bytes:
            if kept_back and not kept_back.keys().isdisjoint(positions):
                return index_ack(consumer_id, {each: kept_back.get(each, 0) for each in positions}, request_id)
            pairs = [(position >> ENTRY_BITS, position & ENTRY_MASK) for position in positions]
            return commands.ack(consumer_id, pairs, request_id)

        def again() -> None:
            outstanding = self._outstanding
            outstanding.acks += outstanding.unconfirmed.intersection(positions).difference(outstanding.acks)

        def answered(reply: pb.BaseCommand | Exception) -> None:
            if not isinstance(reply, Exception):
                self._cursor.confirmed(positions)
            self._settle(receipts, reply, again)

        link.request(build, answered)

    def _send_indexes(
        self, link: BrokerLink, consumer_id: int, indexes: dict[int, int], receipts: list[Receipt]
    ) -> None:
        self._cursor.acknowledged()

        def again() -> None:
            self._indexes_due = True
            for position in indexes:
                entry = self._outstanding.entries.get(position)
                if isinstance(entry, Batch):
                    self._outstanding.index_acks[position] = entry

        def answered(reply: pb.BaseCommand | Exception) -> None:
            self.indexes_unanswered -= 1
            self._settle(receipts, reply, again)

        self.indexes_unanswered += 1
        link.request(lambda request_id: index_ack(consumer_id, indexes, request_id), answered)

    def _settle(self, receipts: list[Receipt], reply: pb.BaseCommand | Exception, again: Callable[[], None]) -> None:
        """A command was answered, or can't be; `again` gathers what of it must be sent once more."""
        error = reply if isinstance(reply, Exception) else None
        if self.watcher is not None:
            self.watcher(error)
        if self.settled is not None:
            self.settled()
        if error is not None and self._end is None:
            if isinstance(error, UpstreamUnavailable):
                # No answer came: it is sent at once if the connection stands, else after the reconnect.
                again()
                self._send_again(receipts)
                return
            self.errors += 1
            log.warning("ack refused", error=str(error))
            self._call_later(RETRY_S, lambda: self._retry(again))
        for receipt in receipts:
            receipt.settle(error)
            if receipt.answer is None:
                self._in_flight.pop(receipt, None)

    def _retry(self, again: Callable[[], None]) -> None:
        if self._end is None:
            again()
            self._wake()

    def _send_again(self, receipts: list[Receipt]) -> None:
        renewed: list[Receipt] = []
        for receipt in receipts:
            renewed += receipt.renew()
            self._in_flight.pop(receipt, None)
        self._receipts = [*renewed, *self._receipts]
        self._wake()


def index_ack(consumer_id: int, indexes: dict[int, int], request_id: int) -> bytes:
    """An ack of single messages: position to the bits of those still unacknowledged, 0 for none."""
    ids = []
    for position, unacked in indexes.items():
        ledger, entry = unpack(position)
        ids.append(pb.MessageIdData(ledgerId=ledger, entryId=entry, ack_set=words_of(unacked) if unacked else ()))
    return encode_command(
        pb.BaseCommand(
            type=pb.BaseCommand.ACK,
            ack=pb.CommandAck(
                consumer_id=consumer_id, ack_type=pb.CommandAck.Individual, message_id=ids, request_id=request_id
            ),
        )
    )


def words_of(bits: int) -> list[int]:
    """Bits as the wire's ack_set: signed 64-bit words, lowest first, no trailing zero word but the first."""
    count = max(1, (bits.bit_length() + 63) // 64)
    return list(struct.unpack(f"<{count}q", bits.to_bytes(8 * count, "little")))


def bits_of(words: Iterable[int]) -> int:
    """The inverse of `words_of`."""
    return int.from_bytes(b"".join((word & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little") for word in words), "little")
