"""The gateway's whole path of a message under a key policy that acts: see `path`.

Workers of it give messages back, or acknowledge inside transactions; the broker takes what is published, sends it to
the consumer of its topic, and sends again what it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from integration.bench import frames_made
from integration.bench.path import GatewayPath, ScriptedBroker, Wire
from integration.bench.stepped_clock import SteppedClock
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import frame_type, parse_command, payload_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.net.subscription.settings import SubscriptionSettings

STEP_S: Final = 0.05
STEPS_MAX: Final = 1_000
"""Of time that passes while nothing else can happen: more than any delay that is measured."""


class PolicyBroker(ScriptedBroker):
    """Knows topics for dead letters and parked keys, too, each with one consumer at most."""

    def __init__(self, clock: SteppedClock) -> None:
        """As `ScriptedBroker`."""
        super().__init__(clock)
        self.sent: list[bytes] = []
        """What was sent to the gateway as a message, by its entry."""
        self.stored = 0
        """Messages that were published."""
        self.sent_again = 0
        """Messages that the gateway asked for once more."""
        self.transactions = 0
        """That were ended."""
        self._reader: tuple[Wire, int] | None = None
        """Who consumes what is published: its connection and its id."""
        self._read = 0
        self._unread: list[bytes] = []

    def answers(self) -> list[tuple[Wire, bytes]]:
        """As before, and what was published meanwhile to its consumer."""
        out = super().answers()
        if self._reader is not None and self._unread:
            wire, consumer_id = self._reader
            out.append((wire, frames_made.messages(consumer_id, self._read, self._unread)))
            self._read += len(self._unread)
            self._unread = []
        return out

    def _answer(self, wire: Wire, frame: bytes) -> bytes | None:
        kind = frame_type(frame)
        if kind == pb.BaseCommand.SEND:
            self.stored += 1
            self._unread.append(frame[payload_start(frame) :])
            send = parse_command(frame).send
            return frames_made.send_receipt(send.producer_id, send.sequence_id)
        command = parse_command(frame)
        if kind == pb.BaseCommand.PRODUCER:
            return frames_made.producer_success(command.producer.request_id)
        if kind == pb.BaseCommand.SUBSCRIBE and command.subscribe.subscription != frames_made.SUBSCRIPTION:
            self._reader = wire, command.subscribe.consumer_id
            return frames_made.success(command.subscribe.request_id)
        if kind == pb.BaseCommand.FLOW and (wire, command.flow.consumer_id) == self._reader:
            return None
        if kind == pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES:
            return self._again(command.redeliverUnacknowledgedMessages)
        if kind == pb.BaseCommand.END_TXN:
            self.transactions += 1
            return frames_made.end_transaction_response(command.endTxn)
        return super()._answer(wire, frame)

    def _again(self, asked: pb.CommandRedeliverUnacknowledgedMessages) -> bytes:
        """The broker debits permits for it, as for any."""
        self.permits -= len(asked.message_ids)
        self.sent_again += len(asked.message_ids)
        pieces = [
            frames_made.messages(self.consumer_id, place.entryId, [self.sent[place.entryId]])
            for place in asked.message_ids
        ]
        return b"".join(pieces)


class PolicyPath(GatewayPath):
    """A gateway whose workers do not acknowledge everything at once; for unbatched messages."""

    broker: PolicyBroker

    def __init__(
        self,
        clock: SteppedClock,
        subscriptions: SubscriptionSettings,
        *,
        nacked_every: int = 0,
        in_transactions: bool = False,
    ) -> None:
        """Of so many messages one is negatively acknowledged when it comes first; 0 is none."""
        self._steps = clock
        self._nacked_every = nacked_every
        self._nacked: set[int] = set()
        self._in_transactions = in_transactions
        self._transactions = 0
        self._open: list[tuple[int, int]] = []
        """Worker and number of each transaction."""
        super().__init__(clock=clock, subscriptions=subscriptions, broker=PolicyBroker(clock))
        self._stored = self.broker.stored

    def _feed(self, tails: list[bytes]) -> None:
        self.broker.sent += tails
        super()._feed(tails)

    def _acknowledge(self) -> int:
        """As before, and the ends of transactions; what was published instead of delivered is done, too."""
        done = super()._acknowledge()
        ends, self._open = self._open, []
        self._tell([(self._workers[worker], frames_made.end_transaction(number)) for worker, number in ends])
        stored, self._stored = self._stored, self.broker.stored
        return done + self._stored - stored

    def _answer(self, worker: int, places: Sequence[pb.MessageIdData], messages: int) -> tuple[bytes, int]:
        if self._in_transactions:
            self._transactions += 1
            self._open.append((worker, self._transactions))
            whole: list[tuple[int, int, int, list[int]]]
            whole = [(place.ledgerId, place.entryId, 1, []) for place in places]
            return commands.ack_in_transaction(1, (0, self._transactions), whole, self._transactions), messages
        refused = [place for place in places if self._is_refused(place.entryId)]
        if not refused:
            return super()._answer(worker, places, messages)
        self._nacked.update(place.entryId for place in refused)
        acked = [place for place in places if place not in refused]
        back = commands.redeliver(1, [(place.ledgerId, place.entryId) for place in refused])
        return (frames_made.ack(1, acked) if acked else b"") + back, len(acked)

    def _is_refused(self, entry: int) -> bool:
        return self._nacked_every > 0 and not entry % self._nacked_every and entry not in self._nacked

    def _wait(self) -> None:
        """Time passes: a delay is over."""
        for _ in range(STEPS_MAX):
            with self.inside():
                self._steps.go_on(STEP_S)
            said = self.broker.answers()
            self._tell(said)
            if said or any(worker.written for worker in self._workers):
                return
        raise AssertionError("nothing happens, however long one waits")
