"""The random lives of `test_model` at a replica that delivers some streams only, and not for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from proxy.core import streams_here
from proxy.core.dispatcher import OrderingMode
from proxy.core.entry import Batch
from proxy.core.explain import explain_slot
from proxy.core.stream_leases import StreamLeases
from proxy.core.worker import Worker
from proxy.groups.streams import hash_range
from tests.core.model import World, slots_in
from tests.core.test_explain import check_state
from tests.core.test_model import INTERVALS_S, SELECTORS, SLOTS, STICKY, Subscription
from tests.lives import lives

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.entry import Part
    from proxy.core.selectors.base import Selector
    from tests.core.model import Client, Entry

STREAMS = 3
"""Slots 1, 9,000 and 20,000 are in the first, 33,000 in the second, 45,000 and 65,000 in the last."""

streams = st.integers(0, STREAMS - 1)


def stream_of(slot: int) -> int:
    """By the leader's ranges."""
    return next(
        stream
        for stream in range(STREAMS)
        if hash_range(stream, STREAMS).start <= slot <= hash_range(stream, STREAMS).end
    )


class Leased(NamedTuple):
    """What was leased from a moment on."""

    since: float
    streams: frozenset[int]
    until: float


class LeasedWorld(World):
    """A world in which the broker keeps what is of streams that are not here."""

    def __init__(self, selector: Selector[Worker], mode: OrderingMode, unblocking_interval_s: float = 0.0) -> None:
        super().__init__(selector, mode, unblocking_interval_s)
        self.leases = self.dispatcher.leases = StreamLeases(STREAMS)
        self.leased = [Leased(-1.0, frozenset(), 0.0)]
        self.away: set[int] = set()
        """Streams that the broker does not send us."""
        self.kept: set[int] = set()
        """Entries that the broker has, and we have not."""
        self.highest: int | None = None
        """The last position that ever came here."""

    def arrive(self, slots: Sequence[int | None], *, opaque: bool = False) -> None:
        """All messages of an entry are in the stream of its first."""
        first = next(slot for slot in slots if slot is not None)
        own = [slot for slot in SLOTS if stream_of(slot) == stream_of(first)]
        super().arrive(
            [own[SLOTS.index(slot) % len(own)] if slot is not None else None for slot in slots], opaque=opaque
        )

    def _offer(self, entry: Entry) -> None:
        if self.stream_at(entry.position) in self.away:
            self.kept.add(entry.position)
        else:
            self.kept.discard(entry.position)
            self.highest = max(self.highest or 0, entry.position)
            super()._offer(entry)

    def _last_sent(self) -> int | None:
        """PIP-282, as far as we know the topic: what never came here is not sent."""
        waits = {part.position for part in self.dispatcher.waiting_parts()}
        messages = {position: self.entries[position].messages() for position in waits}
        unsent = [p for p in waits if not all(m in self.delivered or m in self.done for m in messages[p])]
        return min(unsent) - 1 if unsent else self.highest

    def stream_at(self, position: int) -> int:
        """The stream of an entry."""
        return stream_of(next(slot for slot in self.entries[position].slots if slot is not None))

    def mark_delete(self, position: int) -> None:
        """The broker skips what only it has, too."""
        for skipped in [kept for kept in self.kept if kept <= position]:
            self._skip(skipped)
        super().mark_delete(position)

    def _skip(self, position: int) -> None:
        self.kept.discard(position)
        self.done.update(self.entries[position].messages())

    # ---- leases -----------------------------------------------------------------------------------------------

    def open(self, stream: int) -> None:
        """A lease comes, and the upstream consumer with it: first what the broker kept, in order."""
        self._lease(self.leased[-1].streams | {stream}, self.leased[-1].until)
        streams_here.open_stream(self.dispatcher, stream, self.now)
        self.come_back(stream)

    def come_back(self, stream: int) -> None:
        """The broker sends the stream."""
        self.away.discard(stream)
        for position in sorted(self.kept):
            if self.stream_at(position) == stream:
                self._offer(self.entries[position])

    def hold(self, stream: int) -> None:
        """The lease is wanted back."""
        self._lease(self.leased[-1].streams - {stream}, self.leased[-1].until)
        streams_here.hold_stream(self.dispatcher, stream, self.now)

    def renew(self, until: float) -> None:
        """The leader was heard, or an earlier end agreed on."""
        self._lease(self.leased[-1].streams, until)
        streams_here.renew(self.dispatcher, until, self.now)

    def _lease(self, open_streams: frozenset[int], until: float) -> None:
        self.leased.append(Leased(self.now, open_streams, until))

    def forget(self, stream: int, *, counted: bool = True) -> None:
        """The stream is gone: the broker has again all of it that nobody acknowledged whole.

        Where it is not `counted` the broker does not say that it sends once more.
        """
        mine = [p for p in self.unfinished if self.stream_at(p) == stream]
        here = {m for p in mine for m in self.entries[p].messages()} - self.done
        self.away.add(stream)
        assert streams_here.forget_stream(self.dispatcher, stream, self.now) == len(here)
        for client in self.clients:
            lost = [key for key, messages in client.held.items() if messages[0][0] in mine]
            for key in lost:
                del client.held[key]
        for position in mine:
            entry = self.entries[position]
            entry.redeliveries = entry.redeliveries + 1 if counted else 0
            self.done.difference_update(entry.messages())
            for message in entry.messages():
                self.delivered.pop(message, None)
                self.retry_at.pop(message, None)
            self.kept.add(position)
            if position <= self.mark_deleted:
                self._skip(position)
        # Now: what the stream kept shut is open even if the broker sends it again at once.
        self._open_gates()
        assert not streams_here.pending_in(self.dispatcher, stream)
        assert not list(self.left_of(stream)), "something of a forgotten stream is here"

    def left_of(self, stream: int) -> Iterable[object]:
        """Everything of the stream in any table."""
        dispatcher = self.dispatcher
        start, end = hash_range(stream, STREAMS)
        yield from (slot for slot in dispatcher.blocked if start <= slot <= end)
        yield from dispatcher.slots.in_range(start, end)
        yield from (slot for slot in dispatcher.draining.slots() if start <= slot <= end)
        for entry in dispatcher.outstanding.entries.values():
            parts = entry.parts if isinstance(entry, Batch) else [entry]
            yield from (part for part in parts if start <= part.slot <= end)
        for worker in dispatcher.workers.values():
            parts = [*worker.pending.values(), *worker.outbox, *worker.ready]
            yield from (part for part in parts if any(start <= slot <= end for slot, _ in slots_in(part)))

    # ---- what must hold ---------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> list[int]:
        """Here; what the broker keeps is none of our concern."""
        return [position for position in super().unfinished if position not in self.kept]

    def may_have(self, slot: int) -> bool:
        """By what was leased last."""
        return stream_of(slot) in self.leased[-1].streams

    def may_deliver(self) -> bool:
        """By when that ends."""
        return self.now < self.leased[-1].until

    def _deliver(self, client: Client, unit: Part) -> None:
        """What leaves was put into the outbox while its stream was leased, and is still: it may have been elsewhere."""
        assert self.stream_at(unit.position) in self.leased[-1].streams, "a stream left that was held meanwhile"
        assert self.may_deliver(), "a stream left while no lease lasts"
        then = next(leased for leased in reversed(self.leased) if leased.since <= unit.sent_at)
        assert self.stream_at(unit.position) in then.streams, "a stream was delivered that is not leased"
        assert unit.sent_at < then.until, "a stream was delivered whose lease has run out"
        super()._deliver(client, unit)

    def _open_gates(self) -> None:
        """An entry that is not here keeps no gate shut."""
        for client in self.clients:
            if client.gate is not None and all(position > client.gate for position in self.unfinished):
                client.gate = None

    def drain(self, fresh: Iterable[Worker]) -> None:
        """In the end everything is ours."""
        self.turn_open = False
        for stream in range(STREAMS):
            self.open(stream)
        self.renew(self.now + 1e6)
        self.check()
        assert not self.kept
        super().drain(fresh)


class LeasedSubscription(Subscription):
    """Streams come and go besides."""

    world: LeasedWorld

    @initialize(
        mode=st.sampled_from(OrderingMode),
        selector=st.sampled_from(sorted(SELECTORS)),
        permits=st.integers(0, 20),
        interval_s=st.sampled_from(INTERVALS_S),
    )
    def begin(self, mode: OrderingMode, selector: str, permits: int, interval_s: float) -> None:
        """One worker, and two streams of three."""
        self.world = LeasedWorld(SELECTORS[selector](), mode, interval_s)
        self.world.flow(self.world.join(Worker("a", sticky_ranges=STICKY[:2])), permits)
        self.world.open(0)
        self.world.open(2)
        self.world.renew(20.0)

    @rule(stream=streams)
    def a_lease_comes(self, stream: int) -> None:
        """Perhaps of a stream that was held, or that was never away."""
        self.world.open(stream)

    @rule(stream=streams)
    def a_stream_is_held(self, stream: int) -> None:
        """Its messages go on coming from the broker for a while."""
        self.world.hold(stream)

    @rule(slots=st.lists(st.sampled_from(SLOTS), min_size=1, max_size=5), count=st.integers(1, 2), held=streams)
    def a_stream_is_held_in_the_turn_in_which_it_comes(self, slots: list[int], count: int, held: int) -> None:
        """As a process finds it that was stopped in between, or hears of it in the same piece of input."""
        self.world.turn_open = True
        for slot in slots:
            self.world.arrive([slot] * count)
        self.world.hold(held)
        left = [unit for client in self.world.clients for unit in client.worker.outbox]
        assert held not in {self.world.stream_at(unit.position) for unit in left}, "something of it is about to leave"

    @rule(after=st.sampled_from([-1.0, 0.0, 0.5, 3.0, 30.0, 30.0]))
    def leases_are_renewed(self, after: float) -> None:
        """Or cut short."""
        self.world.renew(self.world.now + after)

    @rule(stream=streams, held=st.sampled_from([True, True, False]), comes_back=st.booleans(), counted=st.booleans())
    def a_stream_is_forgotten(self, stream: int, *, held: bool, comes_back: bool, counted: bool) -> None:
        """Mostly held before; perhaps the broker sends it at once again."""
        if held:
            self.world.hold(stream)
        self.world.forget(stream, counted=counted)
        if comes_back:
            self.world.come_back(stream)

    @invariant()
    def explanations_follow_the_dispatcher(self) -> None:
        """With leases as without."""
        if hasattr(self, "world"):
            for slot in SLOTS:
                check_state(
                    self.world.dispatcher,
                    slot,
                    explain_slot(self.world.dispatcher, slot, self.world.now),
                    self.world.now,
                )


TestLeasedModel = LeasedSubscription.TestCase
"""Besides what `test_model` asserts: nothing goes out unleased, and a forgotten stream leaves nothing behind."""

TestLeasedModel.settings = lives(300, 50)
