"""The stream of events: joins, leaves, moved slots, drains, hand-overs, orders.

A stateful worker learns here which keys it gained and lost (apache/pulsar issue 6555), a console what to redraw. The
latest events are kept, so that a listener can resume after a reconnect. A slow listener loses events instead of growing
the memory, and is informed of the loss.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from proxy.limits import TOPIC_CHARACTERS_MAX
from proxy.shortened import shortened, shortened_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.dispatcher import Dispatcher, HandOver
    from proxy.core.entry import Part
    from proxy.core.hash_ranges import RangeMove
    from proxy.core.worker import Worker
    from proxy.wire.messages import MessageHead

    Key = tuple[str, str]

KEPT_MAX: Final = 200
"""Events for listeners that come again."""
QUEUED_MAX: Final = 1_000
"""Events that a listener may be behind."""
LISTED_MAX: Final = 300
"""Ranges and slots listed in one event; counts are whole. With the other bounds, at most some 15 MB."""
TEXT_CHARACTERS_MAX: Final = TOPIC_CHARACTERS_MAX
"""Of each text in an event: of a reason or a client's name too. No name that a client may give is cut."""

_cut = partial(shortened, characters_max=TEXT_CHARACTERS_MAX)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    number: int
    """One more than the previous event's."""
    kind: str
    at: float
    """On the gateway's clock."""
    topic: str
    subscription: str
    facts: dict[str, Any]
    """By kind; plain values only."""
    concerned: frozenset[str]
    """Names of all workers concerned, including those not listed."""


class DeliveryRecorder(Protocol):
    """Keeps a record of each message of one subscription."""

    @property
    def digest(self) -> Callable[[bytes], int] | None:
        """Gives a key's digest in the record, 0 for a key that is not recorded; None if there are no digests in it."""

    def sent(self, worker: Worker, units: Sequence[Part], now: float) -> None:
        """These were written to the worker's socket."""

    def ended(self, endings: Sequence[Ending]) -> None:
        """These ended."""


class DeliveryTracer(DeliveryRecorder, Protocol):
    """Follows some entries of one subscription. It never fails."""

    def received(self, head: MessageHead) -> None:
        """This entry came from the broker."""

    def closed(self) -> None:
        """The subscription has ended here."""


class Tracers(Protocol):
    """Makes them."""

    def tracer(self, key: tuple[str, str], dispatcher: Dispatcher) -> DeliveryTracer:
        """For one subscription."""


class RecorderAndTracer:
    """Both, told of the same. Implements `DeliveryRecorder`."""

    def __init__(self, recorder: DeliveryRecorder, tracer: DeliveryTracer) -> None:
        """The tracer needs no digests."""
        self._recorder = recorder
        self._tracer = tracer
        self.digest = recorder.digest

    def sent(self, worker: Worker, units: Sequence[Part], now: float) -> None:
        """As the port says."""
        self._recorder.sent(worker, units, now)
        self._tracer.sent(worker, units, now)

    def ended(self, endings: Sequence[Ending]) -> None:
        """As the port says."""
        self._recorder.ended(endings)
        self._tracer.ended(endings)


class EventRecorder(Protocol):
    """Records this gateway's events. Nothing waits for it, and it never fails."""

    def happened(self, event: Event) -> None:
        """An event, as published by `Events`."""

    def handed_over(self, key: tuple[str, str], hand_overs: Sequence[HandOver]) -> None:
        """Slots of a subscription drained and went to their new owners."""

    def came_back(self, key: tuple[str, str], worker: str, messages: int) -> None:
        """A worker returned messages of a subscription, or held them when it left."""

    def recorder(self, key: tuple[str, str]) -> DeliveryRecorder | None:
        """For one subscription; None if no record of messages is kept."""


class Listener:
    """A listener's position in the stream. Implements `admin_api.ports.EventListener`."""

    def __init__(self, events: Events, wake: Callable[[], None], wanted: Callable[[Event], bool]) -> None:
        """`wake` is called when the first `wanted` event can be taken, and at the end."""
        self._events = events
        self._wake = wake
        self._wanted = wanted
        self._queue: deque[Event] = deque()
        self.missed = 0
        """Events lost since the last `take`."""

    @property
    def ended(self) -> bool:
        """No more will come: the gateway stops."""
        return self._events.closed

    def take(self) -> tuple[int, list[Event]]:
        """The number of lost events, and all events since the last call."""
        missed, self.missed = self.missed, 0
        taken = list(self._queue)
        self._queue.clear()
        return missed, taken

    def close(self) -> None:
        """Stop listening."""
        self._events.listeners.discard(self)

    def put(self, event: Event) -> None:
        """Queue an event, if it is wanted; at the limit the oldest is dropped."""
        if not self._wanted(event):
            return
        if len(self._queue) >= QUEUED_MAX:
            self._queue.popleft()
            self.missed += 1
        self._queue.append(event)
        if len(self._queue) == 1:
            self._wake()

    def end(self) -> None:
        """Wake the waiting reader, for the last time."""
        self._wake()


class Events:
    """The stream of one gateway."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Nothing has happened."""
        self._now = now
        self._kept: deque[Event] = deque(maxlen=KEPT_MAX)
        self._first = self._latest = 0
        self.listeners: set[Listener] = set()
        self.tracers: Tracers | None = None
        """Follow some entries on their way, if that is wanted."""
        self.event_recorder: EventRecorder | None = None
        """Records everything, including facts that listeners do not get, with or without listeners."""
        self.closed = False

    def number_from(self, number: int) -> None:
        """Let the first event's number come after this one; before anything happened.

        With numbers that grow from one run of the gateway to the next, a returning listener is recognised.
        """
        assert not self._kept, "events are numbered already"
        self._first = self._latest = number

    def listen(
        self, wake: Callable[[], None], after: int | None = None, wanted: Callable[[Event], bool] = lambda _: True
    ) -> Listener:
        """Everything wanted from now on, or `after` an event's number as far as it is kept; after 0 all that is.

        A listener whose last event is from an earlier run of the gateway has missed an unknown number.
        """
        listener = Listener(self, wake, wanted)
        if after is not None:
            kept = [event for event in self._kept if event.number > after or after > self._latest]
            if after > self._latest or 0 < after < self._first:
                listener.missed = 1
            elif after:
                listener.missed = self._latest - after - len(kept)
            for event in kept:
                listener.put(event)
        self.listeners.add(listener)
        return listener

    def close(self) -> None:
        """The gateway stops: every listener's stream ends."""
        self.closed = True
        for listener in list(self.listeners):
            listener.end()

    def happened(
        self, kind: str, key: Key, *, concerned: Iterable[str | None] = (), at: float | None = None, **facts: Any
    ) -> None:
        """Publish an event of now, or of the moment `at` of this turn.

        `concerned` are workers besides the one in the fact `worker`. Texts are cut at `TEXT_CHARACTERS_MAX`.
        """
        self._latest += 1
        names = frozenset(_cut(name) for name in (*concerned, facts.get("worker")) if name is not None)
        topic, subscription = map(_cut, key)
        told = shortened_within(facts, TEXT_CHARACTERS_MAX)
        event = Event(self._latest, kind, self._now() if at is None else at, topic, subscription, told, names)
        self._kept.append(event)
        if self.event_recorder is not None:
            self.event_recorder.happened(event)
        for listener in self.listeners:
            listener.put(event)

    def joined(self, key: Key, worker: str, address: str, moves: Sequence[RangeMove[Worker]], at: float) -> None:
        """A worker joined and slots moved, at the moment from which they drain: a cause is no later than its effect."""
        told, concerned = _moved(moves)
        self.happened("worker_joined", key, concerned=concerned, at=at, worker=worker, address=address, **told)

    def left(self, key: Key, worker: str, reason: str, moves: Sequence[RangeMove[Worker]], at: float) -> None:
        """A worker left, likewise."""
        told, concerned = _moved(moves)
        self.happened("worker_left", key, concerned=concerned, at=at, worker=worker, reason=reason, **told)

    def drains_began(self, key: Key, began: int, draining: int) -> None:
        """`began` slots started to drain, if any; `draining` drain now."""
        if began:
            self.happened("drains_began", key, began_count=began, draining_hashes_count=draining)

    def handed_over(self, key: Key, hand_overs: Sequence[HandOver], draining: int) -> None:
        """Slots drained and went to their new owners; `draining` still drain."""
        if self.event_recorder is not None:
            self.event_recorder.handed_over(key, hand_overs)
        done = [
            {
                "slot": item.slot,
                "source": item.holder,
                "target": item.owner,
                "duration_s": item.ended_at - item.began_at,
            }
            for item in hand_overs
        ]
        facts: dict[str, Any] = {
            "hand_overs_count": len(done),
            "hand_overs": done[:LISTED_MAX],
            "draining_hashes_count": draining,
        }
        concerned = {name for item in hand_overs for name in (item.holder, item.owner)}
        self.happened("drains_ended", key, concerned=concerned, **facts)

    def came_back(self, key: Key, comebacks: Iterable[tuple[str, int]]) -> None:
        """Workers returned messages: only recorded, because there may be very many occasions."""
        if self.event_recorder is not None:
            for worker, messages in comebacks:
                self.event_recorder.came_back(key, worker, messages)


def _moved(moves: Sequence[RangeMove[Worker]]) -> tuple[dict[str, Any], set[str]]:
    """Ranges with a new owner: first and last slot, inclusive, former and new owner; and the names of all owners."""
    told = [
        {
            "start": move.start,
            "end": move.end,
            "source": move.before.name if move.before is not None else None,
            "target": move.after.name if move.after is not None else None,
        }
        for move in moves
    ]
    concerned = {owner.name for move in moves for owner in (move.before, move.after) if owner is not None}
    return {"moves_count": len(told), "moves": told[:LISTED_MAX]}, concerned
