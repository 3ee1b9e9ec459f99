"""What a join or leaves would do: told beforehand, done afterwards, and the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from proxy.core import acknowledgement, membership
from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.entry import Part
from proxy.core.errors import ConsumerAssignError
from proxy.core.positions import pack
from proxy.core.preview import (
    MOVES_LISTED_MAX,
    PreviewedMove,
    PreviewedWorker,
    preview_join_steps,
    preview_leave_steps,
)
from proxy.core.selectors.auto_split import AutoSplit
from proxy.core.selectors.consistent_hashing import ConsistentHashing
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.statistics import dispatcher_statistics_steps
from proxy.core.steps import finished
from proxy.core.worker import Worker
from tests.core.model import slots_in
from tests.core.test_explain import Busy
from tests.core.test_model import STICKY, WORKERS_MAX, has_clients, some
from tests.lives import lives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.preview import MembershipPreview
    from proxy.core.selectors.base import Selector

LOW, MIDDLE, HIGH = 100, 20_000, 50_000
"""With two workers of an auto-split selector the first two are the later one's; with three the first is the last's."""


def subscription(mode: OrderingMode = OrderingMode.DRAINING_HASHES) -> Dispatcher:
    """Auto-split, and nobody there."""
    return Dispatcher(AutoSplit[Worker](), mode)


def preview_join(dispatcher: Dispatcher, name: str, ranges: Sequence[tuple[int, int]] = ()) -> MembershipPreview:
    """All steps at once."""
    return finished(preview_join_steps(dispatcher, name, ranges))


def preview_leave(dispatcher: Dispatcher, names: Sequence[str]) -> MembershipPreview:
    """All steps at once."""
    return finished(preview_leave_steps(dispatcher, names))


def joined(dispatcher: Dispatcher, name: str, permits: int = 0) -> Worker:
    """A worker joins and grants permits."""
    worker = Worker(name)
    membership.join(dispatcher, worker, 0.0)
    dispatcher.flow(worker, permits, 0.0)
    return worker


def arrive(dispatcher: Dispatcher, number: int, slot: int, count: int = 1) -> None:
    """An entry of one key."""
    dispatcher.receive(pack(1, number), slot, count, b"x", 0, 0.0)


def sent(dispatcher: Dispatcher) -> None:
    """The end of a turn."""
    for worker in dispatcher.take_touched():
        worker.outbox.clear()


# ---- stories ----


def test_the_first_join_moves_everything_from_nobody() -> None:
    """And lets nothing drain; what waits for an owner moves too."""
    dispatcher = subscription()
    arrive(dispatcher, 1, LOW, 3)
    found = preview_join(dispatcher, "c1")
    assert found.moves == (PreviewedMove(start=0, end=65_535, source=None, target="c1"),)
    assert (found.moves_count, found.slots_moved, found.share_moved) == (1, 65_536, 1.0)
    assert (found.slots_that_would_drain, found.messages_that_would_drain, found.messages_redelivered) == (0, 0, 0)
    assert found.waiting_messages_moved == 3
    assert found.workers == (
        PreviewedWorker(
            name="c1",
            joins=True,
            leaves=False,
            slots_before=0,
            slots_after=65_536,
            share_before=0.0,
            share_after=1.0,
            slots_that_would_drain=0,
            messages_that_would_drain=0,
        ),
    )
    assert not dispatcher.workers


def test_a_join_tells_what_would_drain_and_at_whom() -> None:
    """Slots that move with something unacknowledged, by slot and by message; the rest stays as it is."""
    dispatcher = subscription()
    c1 = joined(dispatcher, "c1", 20)
    arrive(dispatcher, 1, LOW, 5)
    arrive(dispatcher, 2, LOW)
    arrive(dispatcher, 3, MIDDLE)
    arrive(dispatcher, 4, HIGH)
    sent(dispatcher)
    acknowledgement.ack_indexes(dispatcher, c1, pack(1, 1), 0b00111, 0.0)
    dispatcher.set_writable(c1, False, 0.0)
    arrive(dispatcher, 5, LOW, 2)
    arrive(dispatcher, 6, HIGH)
    found = preview_join(dispatcher, "c2")
    assert found.moves == (PreviewedMove(start=0, end=32_768, source="c1", target="c2"),)
    assert (found.slots_moved, found.share_moved) == (32_769, 32_769 / 65_536)
    assert (found.slots_that_would_drain, found.messages_that_would_drain) == (2, 5)
    assert (found.waiting_messages_moved, found.messages_redelivered) == (2, 0)
    shown = {worker.name: worker for worker in found.workers}
    assert list(shown) == ["c1", "c2"]
    assert (shown["c1"].slots_before, shown["c1"].slots_after) == (65_536, 32_767)
    assert (shown["c1"].slots_that_would_drain, shown["c1"].messages_that_would_drain) == (2, 5)
    assert (shown["c2"].slots_before, shown["c2"].slots_after) == (0, 32_769)
    assert shown["c2"].messages_that_would_drain == 0


def test_without_order_a_join_lets_nothing_drain() -> None:
    """What moves is the same."""
    dispatcher = subscription(OrderingMode.UNORDERED)
    joined(dispatcher, "c1", 20)
    arrive(dispatcher, 1, LOW)
    found = preview_join(dispatcher, "c2")
    assert (found.slots_that_would_drain, found.messages_that_would_drain, found.slots_moved) == (0, 0, 32_769)


def test_a_leave_sends_what_the_leaver_has_again_and_lets_none_of_it_drain() -> None:
    """Its messages are free at once."""
    dispatcher = subscription()
    joined(dispatcher, "c1", 20)
    joined(dispatcher, "c2", 4)
    arrive(dispatcher, 1, LOW, 3)
    arrive(dispatcher, 2, MIDDLE, 3)
    arrive(dispatcher, 3, HIGH)
    sent(dispatcher)
    found = preview_leave(dispatcher, ["c2"])
    assert found.moves == (PreviewedMove(start=0, end=32_768, source="c2", target="c1"),)
    assert (found.slots_that_would_drain, found.messages_redelivered, found.waiting_messages_moved) == (0, 4, 2)
    assert [(worker.name, worker.joins, worker.leaves, worker.slots_after) for worker in found.workers] == [
        ("c1", False, False, 65_536),
        ("c2", False, True, 0),
    ]


def test_slots_that_return_to_who_has_their_messages_cease_to_drain() -> None:
    """They move, and do not drain."""
    dispatcher = subscription()
    joined(dispatcher, "c1", 20)
    arrive(dispatcher, 1, LOW)
    joined(dispatcher, "c2")
    assert dispatcher.draining.since(LOW) is not None
    assert preview_leave(dispatcher, ["c2"]).slots_that_would_drain == 0


def test_slots_that_drain_go_on_draining_for_another_owner() -> None:
    """c1 has the message, c3 the slot: when c3 leaves, c2 waits for c1."""
    dispatcher = subscription()
    joined(dispatcher, "c1", 20)
    arrive(dispatcher, 1, LOW)
    joined(dispatcher, "c2")
    joined(dispatcher, "c3")
    found = preview_leave(dispatcher, ["c3"])
    assert found.moves == (PreviewedMove(start=0, end=16_384, source="c3", target="c2"),)
    assert (found.slots_that_would_drain, found.messages_that_would_drain, found.messages_redelivered) == (1, 1, 0)
    assert [worker.slots_that_would_drain for worker in found.workers] == [1, 0, 0]
    assert preview_leave(dispatcher, ["c2", "c3"]).slots_that_would_drain == 0, "it returns to c1"


def test_all_workers_of_a_name_leave_together() -> None:
    """Namesakes are one deployment; names that nobody has are passed over."""
    dispatcher = subscription()
    for name in ("c1", "c2", "c1"):
        joined(dispatcher, name)
    found = preview_leave(dispatcher, ["c1", "nobody"])
    assert [(worker.name, worker.leaves, worker.slots_after) for worker in found.workers] == [
        ("c1", True, 0),
        ("c2", False, 65_536),
        ("c1", True, 0),
    ]
    assert preview_leave(dispatcher, ["nobody"]).moves == ()


def test_the_last_leave_moves_everything_to_nobody() -> None:
    """What it has waits for whoever comes."""
    dispatcher = subscription()
    joined(dispatcher, "c1", 20)
    arrive(dispatcher, 1, LOW)
    sent(dispatcher)
    found = preview_leave(dispatcher, ["c1"])
    assert found.moves == (PreviewedMove(start=0, end=65_535, source="c1", target=None),)
    assert (found.messages_redelivered, found.messages_that_would_drain) == (1, 0)


def test_what_was_not_sent_yet_is_no_redelivery() -> None:
    """It lies in the leaver's outbox."""
    dispatcher = subscription()
    joined(dispatcher, "c1", 20)
    arrive(dispatcher, 1, LOW)
    assert preview_leave(dispatcher, ["c1"]).messages_redelivered == 0


def test_an_entry_that_only_goes_whole_would_be_sent_again_whole() -> None:
    """Whatever was acknowledged of it."""
    dispatcher = subscription()
    c1 = joined(dispatcher, "c1", 20)
    part = Part(pack(1, 1), LOW, 4, b"x", 0, 0.0)
    part.opaque = True
    dispatcher.receive_part(part, 0.0)
    sent(dispatcher)
    acknowledgement.ack_indexes(dispatcher, c1, pack(1, 1), 0b0001, 0.0)
    assert c1.unacked == 1
    assert preview_leave(dispatcher, ["c1"]).messages_redelivered == 4


def test_a_join_that_would_be_refused_is_refused() -> None:
    """With the error that the worker would get, which names who is in the way."""
    dispatcher = Dispatcher(StickyRanges[Worker]())
    first = Worker("c1", sticky_ranges=[(0, 100)])
    membership.join(dispatcher, first, 0.0)
    with pytest.raises(ConsumerAssignError, match="Range conflict with consumer c1"):
        preview_join(dispatcher, "c2", [(100, 200)])
    with pytest.raises(ConsumerAssignError, match="must not be empty"):
        preview_join(dispatcher, "c2")
    found = preview_join(dispatcher, "c2", [(101, 200), (300, 300)])
    assert [(move.start, move.end, move.source, move.target) for move in found.moves] == [
        (101, 200, None, "c2"),
        (300, 300, None, "c2"),
    ]


def test_long_lists_of_moves_are_cut_and_counted_whole() -> None:
    """A thousand are listed, the lowest."""
    dispatcher = Dispatcher(ConsistentHashing[Worker](3_000))
    joined(dispatcher, "c1")
    found = preview_join(dispatcher, "c2")
    assert len(found.moves) == MOVES_LISTED_MAX
    assert found.moves_count > MOVES_LISTED_MAX
    assert found.slots_moved > sum(move.end - move.start + 1 for move in found.moves)
    assert found.slots_moved == found.workers[1].slots_after
    assert found.share_moved == found.slots_moved / 65_535 == found.workers[1].share_after


# ---- whatever happens ----

Owners = list[Worker | None]


def owners(selector: Selector[Worker]) -> Owners:
    """The owner of every slot."""
    table: Owners = [None] * 65_536
    for (start, end), worker in selector.assignment():
        table[start : end + 1] = [worker] * (end + 1 - start)
    return table


def name_of(worker: Worker | None) -> str | None:
    """As previews show it."""
    return worker.name if worker is not None else None


def seen(dispatcher: Dispatcher) -> object:
    """Whatever a preview might have changed."""
    return (
        finished(dispatcher_statistics_steps(dispatcher, 0.0)),
        [(span, id(worker)) for span, worker in dispatcher.selector.assignment()],
        [(id(worker), list(worker.pending), list(map(id, worker.ready))) for worker in dispatcher.workers.values()],
        [(slot, list(map(id, blocked.parts))) for slot, blocked in dispatcher.blocked.items()],
        [list(map(id, worker.outbox)) for worker in dispatcher.workers.values()],
    )


def check_moves(preview: MembershipPreview, before: Owners, after: Owners) -> list[int]:
    """Exactly the slots whose owner changed are told, with both owners; returns them."""
    changed = [slot for slot, pair in enumerate(zip(before, after, strict=True)) if pair[0] is not pair[1]]
    told = {slot: (move.source, move.target) for move in preview.moves for slot in range(move.start, move.end + 1)}
    assert told == {slot: (name_of(before[slot]), name_of(after[slot])) for slot in changed}
    assert len(preview.moves) == preview.moves_count
    assert preview.slots_moved == len(changed)
    for move, following in zip(preview.moves, preview.moves[1:], strict=False):
        assert move.end < following.start
    return changed


def check_drains(preview: MembershipPreview, dispatcher: Dispatcher, changed: list[int]) -> None:
    """What drains in the slots that moved, at each worker, was told."""
    drains = set(dispatcher.draining.slots()).intersection(changed)
    assert preview.slots_that_would_drain == len(drains)
    left = 0
    told = [worker for worker in preview.workers if not worker.leaves]
    for worker, item in zip(dispatcher.workers.values(), told, strict=True):
        pending = [slot for part in worker.pending.values() for slot, acked in slots_in(part) if not acked]
        own = [slot for slot in pending if slot in drains]
        assert item.name == worker.name
        assert item.slots_that_would_drain == len(set(own))
        assert item.messages_that_would_drain == len(own)
        left += item.messages_that_would_drain
    assert preview.messages_that_would_drain == left


def check_shares(preview: MembershipPreview, dispatcher: Dispatcher, before: Owners, after: Owners) -> None:
    """How much each worker had and has."""
    had, has = Counter(map(name_of, before)), Counter(map(name_of, after))
    for name in {worker.name for worker in preview.workers}:
        assert sum(worker.slots_before for worker in preview.workers if worker.name == name) == had[name]
        assert sum(worker.slots_after for worker in preview.workers if worker.name == name) == has[name]
    for worker in preview.workers:
        assert worker.share_after == worker.slots_after / dispatcher.selector.range_size
    assert not any(worker.slots_after for worker in preview.workers if worker.leaves)


def previewed(dispatcher: Dispatcher, name: str, ranges: list[tuple[int, int]]) -> MembershipPreview | str:
    """Or why the join would be refused."""
    try:
        return preview_join(dispatcher, name, ranges)
    except ConsumerAssignError as refused:
        return str(refused)


class Previewed(Busy):
    """Changes of membership, previewed first."""

    @precondition(lambda self: len(self.world.clients) < WORKERS_MAX)
    @rule(
        name=st.sampled_from("abc"),
        ranges=st.sets(st.sampled_from(STICKY), min_size=1, max_size=3),
        max_unacked=st.sampled_from([0, 0, 4]),
        permits=st.sampled_from([0, 3, 20]),
    )
    def a_worker_joins(self, name: str, ranges: set[tuple[int, int]], max_unacked: int, permits: int) -> None:
        """Refused both times, or as foretold."""
        dispatcher = self.world.dispatcher
        before, state = owners(dispatcher.selector), seen(dispatcher)
        waiting = dispatcher.waiting_by_slot()
        worker = Worker(name, sticky_ranges=sorted(ranges), max_unacked=max_unacked)
        preview = previewed(dispatcher, name, sorted(ranges))
        assert seen(dispatcher) == state
        if isinstance(preview, str):
            with pytest.raises(ConsumerAssignError) as refused:
                self.world.join(worker)
            assert str(refused.value) == preview
            return
        client = self.world.join(worker)
        after = owners(dispatcher.selector)
        changed = check_moves(preview, before, after)
        check_drains(preview, dispatcher, changed)
        check_shares(preview, dispatcher, before, after)
        assert preview.messages_redelivered == 0
        assert preview.waiting_messages_moved == sum(waiting.get(slot, 0) for slot in changed)
        self.world.flow(client, permits)

    @has_clients
    @rule(number=some, count=st.integers(1, 3))
    def leaves_are_previewed(self, number: int, count: int) -> None:
        """All workers of some names leave in one turn."""
        dispatcher = self.world.dispatcher
        names = {self.pick(number + step).worker.name for step in range(count)}
        leaving = [client for client in self.world.clients if client.worker.name in names]
        before, state = owners(dispatcher.selector), seen(dispatcher)
        waiting = dispatcher.waiting_by_slot()
        redelivered = sum(client.worker.redelivered_messages for client in leaving)
        preview = preview_leave(dispatcher, sorted(names))
        assert seen(dispatcher) == state
        for client in leaving:
            self.world.leave(client)
        after = owners(dispatcher.selector)
        changed = check_moves(preview, before, after)
        check_drains(preview, dispatcher, changed)
        check_shares(preview, dispatcher, before, after)
        assert [worker.name for worker in preview.workers if worker.leaves] == [c.worker.name for c in leaving]
        redelivered = sum(client.worker.redelivered_messages for client in leaving) - redelivered
        assert preview.messages_redelivered == redelivered
        assert preview.waiting_messages_moved == sum(waiting.get(slot, 0) for slot in changed)

    @precondition(lambda self: 0 < len(self.world.clients) < WORKERS_MAX - 1)
    @rule(name=st.sampled_from("abc"), number=some)
    def workers_come_one_after_the_other_and_the_last_goes_again(self, name: str, number: int) -> None:
        """Before the first was done: what the second took on waits for another still."""
        for each in (name, "z"):
            self.a_worker_joins_in_the_middle_of_it(each, set(STICKY[2:]), number)
        self.leaves_are_previewed(len(self.world.clients) - 1, 1)


TestPreviewed = Previewed.TestCase
"""What happens is what was foretold, and foretelling changed nothing."""

TestPreviewed.settings = lives(35, 40)
