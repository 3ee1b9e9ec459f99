"""The judge: finds what was lost, repeated, reordered or shared, from the records of producers and workers.

Only the clients' side is looked at. Five questions, each with its evidence:

- missing: confirmed by the broker, never delivered. Nothing may be.
- duplicates: delivered again. Each needs a cause that is on record (`lives.Cause`); one without is a violation.
- order: first deliveries of one producer's key follow its sequence, over all workers.
- overtaking: when a message is delivered again, no later message of its key went out after its holder lost it.
- one holder: a key's unacknowledged messages are at one worker only.

What this cannot see: messages that a client fetched and never handed over. It errs towards silence: intervals are
cut to what surely was (see `worker` and `lives`), so an accusation is always true, and a short violation inside a
client's queue can pass. Large receiver queues hide more; a test that wants sharp eyes makes them small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from integration.load.lives import Cause, Delivery, Interruption, Life, WorkerLife

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from integration.load.producer import ProducerRecord

Entries: TypeAlias = "dict[tuple[int, int], list[Delivery]]"
"""(ledger, entry) -> deliveries of its messages in order of time."""
Repetition: TypeAlias = "tuple[Delivery, Delivery, Reason | None]"
"""A repeated delivery, the one before, and what explains it."""

LOSS_SEEN_LATE_NS: Final = 200_000_000
"""A client may notice the loss of its connection after another worker already got what it held."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Two deliveries that do not go together, in the order in which they happened."""

    before: str
    after: str

    def __str__(self) -> str:
        """Both in one line."""
        return f"{self.before} | then {self.after}"


@dataclass(frozen=True, slots=True)
class Reason:
    """What explains that a message was delivered again."""

    cause: Cause
    event: Interruption | None = None
    """What took it from its worker, if something did: an interruption, the worker's end, or a negative ack."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A message delivered again."""

    cause: Cause | None
    before: str
    again: str

    def __str__(self) -> str:
        """Both deliveries and the cause in one line."""
        return f"{self.before} | again {self.again} | {self.cause.value if self.cause else 'no cause on record'}"


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The judgement."""

    sent: int
    confirmed: int
    delivered: int
    """Different messages that reached a worker."""
    deliveries: int
    acknowledged: int
    """Different messages that a worker acknowledged."""
    keys: int
    lives: int
    mixed_batches: int
    """Entries that came with messages of several keys."""
    divided_batches: int
    """Of these, those whose messages came to several workers."""
    missing: tuple[tuple[int, int, int], ...]
    """(producer, key, sequence) confirmed by the broker and never delivered."""
    invented: tuple[tuple[int, int, int], ...]
    """Delivered though no producer sent it."""
    garbled: int
    """Delivered under another key than their payload names."""
    duplicates: tuple[Duplicate, ...]
    order_violations: tuple[Evidence, ...]
    overtakings: tuple[Evidence, ...]
    holder_violations: tuple[Evidence, ...]
    connections_lost: int
    """Times a worker's client lost its connection though nothing had been killed or stopped."""
    interruptions: tuple[Interruption, ...] = ()
    """What was done to the workers' peers, as told."""

    @property
    def unexplained(self) -> tuple[Duplicate, ...]:
        """Duplicates without a cause on record."""
        return tuple(item for item in self.duplicates if item.cause is None)

    @property
    def duplicates_by_cause(self) -> dict[Cause | None, int]:
        """How many duplicates there are of each cause."""
        return dict(Counter(item.cause for item in self.duplicates))

    @property
    def violations(self) -> int:
        """Everything that must not be."""
        evidence = (self.unexplained, self.order_violations, self.overtakings, self.holder_violations)
        return len(self.missing) + len(self.invented) + self.garbled + sum(len(items) for items in evidence)

    @property
    def ok(self) -> bool:
        """Whether nothing was lost, reordered, shared, or repeated without a cause."""
        return self.violations == 0


def audit(
    producers: Iterable[ProducerRecord], workers: Iterable[WorkerLife], interruptions: Sequence[Interruption] = ()
) -> AuditResult:
    """Judge a run that has ended.

    Args:
        producers: what each producer sent.
        workers: every worker life of the run.
        interruptions: deaths of what the workers were connected to. The broker's death behind a living gateway is
            not one: the gateway promises that workers do not notice.
    """
    producers = list(producers)
    lives = [Life(index, worker, interruptions) for index, worker in enumerate(workers)]
    deliveries = sorted((item for life in lives for item in life.deliveries), key=lambda item: item.at_ns)
    by_key: dict[int, list[Delivery]] = defaultdict(list)
    entries: Entries = defaultdict(list)
    for delivery in deliveries:
        by_key[delivery.key].append(delivery)
        entries[delivery.entry].append(delivery)
    resenders = {record.producer for record in producers if record.connections_lost}
    duplicates: list[Duplicate] = []
    overtakings: list[Evidence] = []
    for of_key in by_key.values():
        for again, before, reason in _repetitions(of_key, entries, resenders):
            duplicates.append(Duplicate(reason.cause if reason else None, str(before), str(again)))
            overtakings += _overtaken(of_key, again, before, reason)
    delivered = {item.number for item in deliveries}
    mixed = [items for items in entries.values() if len({item.key for item in items}) > 1]
    divided = [items for items in mixed if len({item.life for item in _first(items)}) > 1]
    return AuditResult(
        sent=sum(sum(record.sent.values()) for record in producers),
        confirmed=sum(record.confirmed_count for record in producers),
        delivered=len(delivered),
        deliveries=len(deliveries),
        acknowledged=len({item.number for item in deliveries if item.acked_at_ns is not None}),
        keys=len(by_key),
        lives=len(lives),
        mixed_batches=len(mixed),
        divided_batches=len(divided),
        missing=tuple(_missing(producers, delivered)),
        invented=tuple(_invented(producers, delivered)),
        garbled=sum(life.garbled for life in lives),
        duplicates=tuple(duplicates),
        order_violations=tuple(found for of_key in by_key.values() for found in _disorder(of_key)),
        overtakings=tuple(overtakings),
        holder_violations=tuple(found for of_key in by_key.values() for found in _shared(of_key)),
        connections_lost=sum(item.cause is Cause.CONNECTION_LOST for life in lives for item in life.breaks),
        interruptions=tuple(interruptions),
    )


def _missing(
    producers: Iterable[ProducerRecord], delivered: set[tuple[int, int, int]]
) -> Iterator[tuple[int, int, int]]:
    for record in producers:
        for key, count in record.sent.items():
            for sequence in range(count):
                number = (record.producer, key, sequence)
                if number not in delivered and (key, sequence) not in record.unconfirmed:
                    yield number


def _invented(
    producers: Iterable[ProducerRecord], delivered: set[tuple[int, int, int]]
) -> Iterator[tuple[int, int, int]]:
    sent = {record.producer: record.sent for record in producers}
    for number in sorted(delivered):
        producer, key, sequence = number
        if sequence >= sent.get(producer, {}).get(key, 0):
            yield number


def _disorder(deliveries: Iterable[Delivery]) -> Iterator[Evidence]:
    """First deliveries of one key that come after a later message of the same producer."""
    seen: set[tuple[int, int, int]] = set()
    latest: dict[int, Delivery] = {}
    for delivery in deliveries:
        if delivery.number in seen:
            continue
        seen.add(delivery.number)
        producer, _, sequence = delivery.number
        ahead = latest.get(producer)
        if ahead is not None and ahead.number[2] > sequence:
            yield Evidence(str(ahead), str(delivery))
        else:
            latest[producer] = delivery


def _shared(deliveries: Iterable[Delivery]) -> Iterator[Evidence]:
    """Deliveries of one key to a worker while another surely held a message of it."""
    holding: list[Delivery] = []
    for delivery in deliveries:
        holding = [item for item in holding if item.held_at(delivery.at_ns)]
        if delivery.stale:
            continue
        other = next((item for item in holding if item.life is not delivery.life), None)
        if other is not None and delivery.held_at(delivery.at_ns):
            yield Evidence(str(other), str(delivery))
        holding.append(delivery)


def _first(deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
    """The first delivery of each message."""
    first: dict[tuple[int, int, int], Delivery] = {}
    for item in deliveries:
        first.setdefault(item.number, item)
    return first.values()


def _repetitions(deliveries: Iterable[Delivery], entries: Entries, resenders: set[int]) -> Iterator[Repetition]:
    """Each repeated delivery of one key, the one before it, and what explains it."""
    history: dict[tuple[int, int, int], list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        earlier = history[delivery.number]
        if earlier:
            same_entry = [item for item in earlier if item.rank == delivery.rank]
            if not same_entry:
                resent = delivery.number[0] in resenders
                yield delivery, earlier[-1], Reason(Cause.SENT_TWICE) if resent else None
            else:
                fresh = [item for item in same_entry if not item.stale]
                before = (fresh or same_entry)[-1]
                yield delivery, before, _reason(before, delivery, entries[delivery.entry])
        earlier.append(delivery)


def _reason(before: Delivery, again: Delivery, batch: Sequence[Delivery]) -> Reason | None:
    """What on record explains that a message was delivered once more.

    Args:
        before: the delivery before.
        again: the repetition.
        batch: all deliveries of the entry it came in.
    """
    if again.stale or before.stale:
        return Reason(Cause.CLIENT_QUEUE)
    if before.nacked_at_ns is not None and before.nacked_at_ns < again.at_ns:
        return Reason(Cause.NEGATIVE_ACK, Interruption(Cause.NEGATIVE_ACK, before.nacked_at_ns))
    for broken in _breaks_between(before, again):
        if not before.acknowledged_before(broken):
            return Reason(broken.cause, broken)
        if _unfinished(before, batch, broken):
            return Reason(Cause.BATCH_UNFINISHED, broken)
    refused_ns = [item.nacked_at_ns for item in batch if item.life is before.life and item.nacked_at_ns is not None]
    if refused_ns and min(refused_ns) < again.at_ns:
        return Reason(Cause.BATCH_UNFINISHED, Interruption(Cause.NEGATIVE_ACK, min(refused_ns)))
    return None


def _breaks_between(before: Delivery, again: Delivery) -> list[Interruption]:
    """What may have taken a message from its worker before it came again, the likeliest first.

    That is the latest: the message may have outlived earlier ones, and later messages gone out rightly meanwhile. A
    loss that its client may just have seen late is the last.
    """
    late: list[Interruption] = []
    in_time: list[Interruption] = []
    for broken in reversed(before.life.breaks):
        # What a worker got between the decision to kill it and its end went with it like the rest.
        if broken.cause is not Cause.WORKER_KILLED and broken.at_ns <= before.at_ns:
            continue
        if broken.at_ns <= again.at_ns:
            in_time.append(broken)
        elif broken.cause is Cause.CONNECTION_LOST and broken.at_ns <= again.at_ns + LOSS_SEEN_LATE_NS:
            late.append(broken)
    return in_time + late


def _unfinished(before: Delivery, batch: Iterable[Delivery], broken: Interruption) -> bool:
    """Whether the worker had not acknowledged some other message of the batch when something broke.

    That is one it had received, or one that came later and that no worker had when this one came: it came with it, and
    was in its client's queue. A message of the batch that another worker had does not count: batches are cut by key.
    """
    received = [item for item in batch if item.at_ns < broken.at_ns]
    if any(item.life is before.life and not item.acknowledged_before(broken) for item in received):
        return True
    elsewhere = {item.number for item in received if not item.given_up_before(before.at_ns)}
    return any(item.at_ns >= broken.at_ns and item.number not in elsewhere for item in batch)


def _overtaken(
    deliveries: Sequence[Delivery], again: Delivery, before: Delivery, reason: Reason | None
) -> Iterator[Evidence]:
    """Later messages of the key that went out between the loss of a message and its repetition.

    The worker that lost it does not count: it may be handed what it had fetched before. Only an interruption of the
    connection, after which that worker's deliveries are known to be new, makes it count too.
    """
    if reason is None or reason.event is None:
        return
    anew = reason.event.cause not in (Cause.NEGATIVE_ACK, Cause.WORKER_KILLED, Cause.WORKER_LEFT)
    first = bisect_left(deliveries, reason.event.at_ns, key=lambda item: item.at_ns)
    for item in deliveries[first:]:
        if item.at_ns >= again.at_ns:
            return
        if item.rank > again.rank and not item.stale and (anew or item.life is not before.life):
            yield Evidence(str(item), str(again))
            return
