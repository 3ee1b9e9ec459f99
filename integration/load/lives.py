"""From a worker's record to what it held: each delivery with the time until which it surely held the message.

A life is one subscription of one worker process, from its start to its close or its death; a worker that is started
again under its name begins a new one. What ends a holding is an acknowledgement, the worker's close or death, or an
interruption: the death of the server that the worker's client was connected to. An end is always put at the earliest
moment it can have happened (before the kill was sent, before the acknowledgement was handed over), so that two holdings
that overlap here overlapped in truth.

A delivery is stale when its client had lost the connection it came over: it was fetched before, and read from the
client library's own queue. Such a message is held without permission; the record cannot tell when it was fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from integration.load.records import Event, Record
from proxy.core.slice_id import original_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ACK_IN_FLIGHT_NS_MAX: Final = 5_000_000_000
"""The client groups acknowledgements for 100 ms, and the machine may be busy: until then a death may cost one."""
AFTER_CONNECT_NS_MAX: Final = 200_000_000
"""For so long after a reconnect the application may still be handed what its client had fetched before."""


class Cause(Enum):
    """Why a message may be delivered again. Closed: a duplicate with none of these is a violation."""

    NEGATIVE_ACK = "its worker refused it with a negative acknowledgement"
    WORKER_KILLED = "its worker was killed before the acknowledgement was on its way"
    WORKER_LEFT = "its worker left without acknowledging it"
    LEASE_LOST = "its worker's ack lease ended while it held the message or its acknowledgement was on its way"
    GATEWAY_KILLED = "the gateway was killed while the message was held or its acknowledgement on its way"
    GATEWAY_STOPPED = "the gateway was stopped while the message was held"
    GATEWAY_PAUSED = "the gateway was frozen or cut off while the message was held or its acknowledgement on its way"
    BROKER_KILLED = "the broker was killed, and with it what was acknowledged lately"
    BROKER_STOPPED = "the broker was stopped while the message was held"
    CONNECTION_LOST = "its worker's client lost its connection"
    CLIENT_QUEUE = "a client handed out what it had fetched before its connection broke"
    BATCH_UNFINISHED = "its worker was done with it but not with its whole batch, which clients acknowledge as one"
    SENT_TWICE = "its producer sent it again after a broken connection: the topic holds it twice"


@dataclass(frozen=True, slots=True)
class Interruption:
    """Something that ends the holdings of every worker connected at that time, or of some."""

    cause: Cause
    at_ns: int
    """Taken before it was done."""
    acks_lost_since_ns: int | None = None
    """Acknowledgements from then on may be lost; by default those of the last five seconds."""
    workers: frozenset[str] | None = None
    """Names of those that it concerns; None concerns all."""
    over_ns: int | None = None
    """When it was over with their connections whole: what they get from then on is new. None where they reconnect."""

    def __str__(self) -> str:
        """Say when and whom, as deliveries are told."""
        until = "" if self.over_ns is None else f" until {self.over_ns / 1e9:.4f}"
        whom = "all workers" if self.workers is None else ", ".join(sorted(self.workers)) or "no worker"
        return f"{self.cause.value}: at {self.at_ns / 1e9:.4f}{until}, {whom}"

    @property
    def acks_unsafe_from_ns(self) -> int:
        """First moment of which an acknowledgement may be lost."""
        return self.at_ns - ACK_IN_FLIGHT_NS_MAX if self.acks_lost_since_ns is None else self.acks_lost_since_ns


@dataclass(frozen=True, slots=True)
class WorkerLife:
    """One worker process: its name, its record, and when it was killed, if it was."""

    name: str
    records: Sequence[Record]
    killed_at_ns: int | None = None
    still_since_ns: int | None = None
    """When it was frozen for the last time, if it did not go on before its end."""


class Delivery:
    """One message handed to one worker."""

    __slots__ = (
        "acked_at_ns",
        "again_ns",
        "at_ns",
        "ended_ns",
        "given_back_ns",
        "life",
        "nacked_at_ns",
        "number",
        "rank",
        "redelivery_count",
        "stale",
    )

    def __init__(self, life: Life, record: Record) -> None:
        """Received, held until further notice."""
        self.life = life
        self.at_ns = record.at_ns
        self.number = (record.producer, record.key, record.sequence)
        # A part of a batch comes under an id of its own and is numbered anew, so its entry is read from that id, and
        # the order within the entry, of one producer by nature, from the producer's own numbers.
        self.rank = (record.ledger, original_entry(record.entry), record.sequence)
        self.redelivery_count = record.redelivery_count
        self.acked_at_ns: int | None = None
        self.nacked_at_ns: int | None = None
        self.given_back_ns: int | None = None
        """When it, or what came under one id with it, was refused: clients ask for whole ids again."""
        self.again_ns: int | None = None
        """When the same worker got it once more: that delivery is held from then on, and the acknowledgement is its."""
        self.ended_ns: int | None = None
        """None: it was held to the end of the record."""
        self.stale = False

    @property
    def entry(self) -> tuple[int, int]:
        """The topic's entry it came in, alone or in a batch."""
        return self.rank[:2]

    @property
    def key(self) -> int:
        """Number of its key."""
        return self.number[1]

    def acknowledged_before(self, broken: Interruption) -> bool:
        """Whether its acknowledgement was surely through when something broke."""
        return self.acked_at_ns is not None and self.acked_at_ns < broken.acks_unsafe_from_ns

    def given_up_before(self, at_ns: int) -> bool:
        """Whether it may have gone back by then, acknowledged or not: clients do so with whole batches."""
        refused = self.given_back_ns is not None and self.given_back_ns < at_ns
        return refused or any(self.at_ns < item.at_ns < at_ns for item in self.life.breaks)

    def held_at(self, at_ns: int) -> bool:
        """Whether its worker surely held it at that time."""
        return not self.stale and self.at_ns <= at_ns and (self.ended_ns is None or self.ended_ns > at_ns)

    def __str__(self) -> str:
        """Say what an investigator wants to know first."""
        producer, key, sequence = self.number
        end = "still held" if self.acked_at_ns is None else f"acked at {self.acked_at_ns / 1e9:.4f}"
        marks = " (from the client's queue)" if self.stale else ""
        return (
            f"producer {producer} key {key} #{sequence} at {self.rank[0]}:{self.rank[1]} to {self.life.label}{marks} "
            f"at {self.at_ns / 1e9:.4f}, {end}, redelivery count {self.redelivery_count}"
        )


class Life:
    """A worker's life with its deliveries, and all that may have ended one of them."""

    def __init__(self, index: int, worker: WorkerLife, interruptions: Iterable[Interruption]) -> None:
        """Read the record.

        Args:
            index: number of this life among all that are audited.
            worker: whose life it is.
            interruptions: of the whole run; those outside this life are ignored.
        """
        self.index = index
        self.label = f"{worker.name} (life {index})"
        mine = [item for item in interruptions if item.workers is None or worker.name in item.workers]
        records = sorted(worker.records, key=lambda record: record.at_ns)
        self.connected_ns = [record.at_ns for record in records if record.event == Event.CONNECTED]
        began = self.connected_ns[0] if self.connected_ns else 0
        self.garbled = sum(record.event == Event.GARBLED for record in records)
        self.left_ns = next((record.at_ns for record in records if record.event == Event.CLOSING), None)
        self.killed_ns = worker.killed_at_ns
        self._still_ns = worker.still_since_ns
        self.breaks = self._breaks(records, mine, began)
        """Everything that ended all holdings of this life at once, in order of time."""
        self.deliveries: list[Delivery] = []
        self._read(records)
        self._settle()

    def _breaks(
        self, records: Iterable[Record], interruptions: Iterable[Interruption], began_ns: int
    ) -> list[Interruption]:
        breaks = [item for item in interruptions if item.at_ns > began_ns or (item.over_ns or 0) > began_ns]
        for record in (record for record in records if record.event == Event.CONNECTION_LOST):
            # A loss that follows another break without a connection in between is that break, noticed or retried.
            cuts = [item.at_ns for item in breaks if item.at_ns <= record.at_ns and item.over_ns is None]
            latest_ns = max(cuts, default=-1)
            if any(latest_ns < time <= record.at_ns for time in self.connected_ns):
                breaks.append(Interruption(Cause.CONNECTION_LOST, record.at_ns))
        if self.killed_ns is not None:
            # A frozen one sends nothing more: what it had not sent by then is lost however late the kill comes.
            unsafe_ns = (self._still_ns or self.killed_ns) - ACK_IN_FLIGHT_NS_MAX
            breaks.append(Interruption(Cause.WORKER_KILLED, self.killed_ns, acks_lost_since_ns=unsafe_ns))
        if self.left_ns is not None:
            # A client that closes in peace sends its acknowledgements first.
            breaks.append(Interruption(Cause.WORKER_LEFT, self.left_ns, acks_lost_since_ns=self.left_ns))
        return sorted(breaks, key=lambda item: item.at_ns)

    def _read(self, records: Iterable[Record]) -> None:
        open_deliveries: dict[tuple[int, int, int, int, int], Delivery] = {}
        newest: dict[tuple[tuple[int, int, int], tuple[int, int, int]], Delivery] = {}
        together: dict[tuple[int, int], list[Delivery]] = {}
        for record in records:
            identity = (record.producer, record.key, record.sequence, record.ledger, record.entry)
            if record.event == Event.RECEIVED:
                delivery = open_deliveries[identity] = Delivery(self, record)
                self.deliveries.append(delivery)
                together.setdefault((record.ledger, record.entry), []).append(delivery)
                earlier = newest.get((delivery.number, delivery.rank))
                if earlier is not None:
                    earlier.again_ns = delivery.at_ns
                newest[delivery.number, delivery.rank] = delivery
            elif record.event == Event.ACKED:
                open_deliveries[identity].acked_at_ns = record.at_ns
            elif record.event == Event.NACKED:
                open_deliveries[identity].nacked_at_ns = record.at_ns
        for siblings in together.values():
            _give_back(siblings)

    def _settle(self) -> None:
        """Find for each delivery whether it is stale, and the end of its holding."""
        links = [item for item in self.breaks if item.cause not in (Cause.WORKER_KILLED, Cause.WORKER_LEFT)]
        for delivery in self.deliveries:
            at_ns = delivery.at_ns
            ends = [item.at_ns for item in self.breaks if item.at_ns > at_ns][:1]
            ends += [
                end for end in (delivery.acked_at_ns, delivery.given_back_ns, delivery.again_ns) if end is not None
            ]
            delivery.ended_ns = min(ends, default=None)
            delivery.stale = any(self._stale(at_ns, item) for item in links)
            if self.killed_ns is not None and at_ns >= self.killed_ns:
                # Received between the parent's decision and the process' end: it held nothing any more.
                delivery.ended_ns = at_ns

    def _stale(self, at_ns: int, broken: Interruption) -> bool:
        """Whether what was handed over then may have been fetched before that break."""
        if at_ns < broken.at_ns:
            return False
        if broken.over_ns is not None:
            return at_ns < broken.over_ns
        connected_ns = next((time for time in self.connected_ns if time > broken.at_ns), None)
        return connected_ns is None or at_ns < connected_ns + AFTER_CONNECT_NS_MAX


def _give_back(siblings: Iterable[Delivery]) -> None:
    """Find when deliveries under one id went back, which a client can only ask for as a whole, at each attempt.

    Messages that are refused one after the other may be asked for one after the other. The first of these requests
    takes the attempt that they came with, and the next takes the attempt that followed.
    """
    attempts: dict[int, list[Delivery]] = {}
    for sibling in siblings:
        attempts.setdefault(sibling.redelivery_count, []).append(sibling)
    refusals: list[int] = []
    for _, attempt in sorted(attempts.items()):
        refusals = sorted([*refusals, *(item.nacked_at_ns for item in attempt if item.nacked_at_ns is not None)])
        if not refusals:
            continue
        refused_ns = refusals.pop(0)
        for sibling in attempt:
            # What the client had queued behind the refused message goes back with it, though handed over later.
            sibling.given_back_ns = max(refused_ns, sibling.at_ns)
