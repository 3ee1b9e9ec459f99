"""What a worker holds, page by page: everything once, in order, whatever happens between the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from proxy.core.delivery_key import wire_id
from proxy.core.dispatcher import OrderingMode
from proxy.core.pending import PAGE_MAX, SLOTS_LISTED_MAX, PendingAck, pending_page_steps
from proxy.core.positions import format_position, pack
from proxy.core.slice_id import slice_id
from proxy.core.steps import finished
from tests.core.model import slots_in
from tests.core.test_dispatcher_rig import A, B, C, Rig
from tests.core.test_explain import Busy
from tests.core.test_model import has_clients, slots, some
from tests.lives import lives

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.pending import PendingPage
    from proxy.core.worker import Worker


def page(
    rig: Rig, name: str = "c1", *, slot: int | None = None, after: str | None = None, limit: int = PAGE_MAX
) -> PendingPage:
    """Of a worker of the rig, at its moment."""
    return finished(
        pending_page_steps(rig.dispatcher, [rig.workers[name]], slot=slot, after=after, limit=limit, now=rig.now)
    )


def positions(found: PendingPage) -> list[str]:
    """Of its deliveries."""
    return [delivery.position for delivery in found.deliveries]


def all_pages(
    dispatcher: Dispatcher, worker: Worker, slot: int | None, limit: int, now: float = 0.0
) -> list[PendingAck]:
    """As a reader gets them who follows the cursors."""
    listed: list[PendingAck] = []
    after: str | None = None
    while True:
        found = finished(pending_page_steps(dispatcher, [worker], slot=slot, after=after, limit=limit, now=now))
        assert len(found.deliveries) <= limit
        assert found.next is None or len(found.deliveries) == limit, "a page that is not the last is full"
        listed += found.deliveries
        after = found.next
        if after is None:
            assert found.total == len(listed)
            return listed


# ---- one delivery ----


def test_a_delivery_is_told_with_its_ages_and_counts() -> None:
    """When the broker sent it to us, when it went to the worker, how often."""
    rig = Rig(c1=[A])
    rig.join("c1")
    rig.batch(7, A, 3)
    rig.now = 2.0
    rig.flow("c1", 10)
    rig.got("c1")
    rig.nack("c1")
    rig.got("c1")
    rig.ack_all_but("c1", 7, 1, 2)
    rig.now = 5.0
    found = page(rig)
    assert found.deliveries == (
        PendingAck(
            message_id="1:7",
            position="1:7",
            messages=2,
            slots=(A,),
            slots_count=1,
            attempts=2,
            redeliveries=1,
            sent_age_s=3.0,
            age_s=5.0,
            draining=False,
            chunk=False,
        ),
    )
    assert (found.next, found.total) == (None, 1)


def test_what_namesakes_have_is_one_list_in_topic_order() -> None:
    """A name is all that a person knows of them."""
    rig = Rig(c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.join("c2", 10)
    for entry in range(6):
        rig.entries(A if entry % 2 else B, entry)
    for name in ("c1", "c2"):
        rig.got(name)
    namesakes = [rig.workers["c1"], rig.workers["c2"]]
    first = finished(pending_page_steps(rig.dispatcher, namesakes, slot=None, after=None, limit=4, now=rig.now))
    assert (positions(first), first.total) == (["1:0", "1:1", "1:2", "1:3"], 6)
    rest = finished(pending_page_steps(rig.dispatcher, namesakes, slot=None, after=first.next, limit=4, now=rig.now))
    assert (positions(rest), rest.next) == (["1:4", "1:5"], None)


def test_a_slice_bears_the_id_that_the_worker_knows() -> None:
    """And the position of its entry; slices of one entry stand in the order of their messages."""
    rig = Rig(c1=[A])
    rig.join("c1", 2)
    rig.batch(3, A, 5)
    rig.flow("c1", 1)
    rig.flow("c1", 2)
    found = page(rig)
    assert positions(found) == ["1:3", "1:3", "1:3"]
    expected = [f"1:{slice_id(3, indexes)}" for indexes in ((0, 1), (2,), (3, 4))]
    assert [delivery.message_id for delivery in found.deliveries] == expected
    assert [delivery.messages for delivery in found.deliveries] == [2, 1, 2]


def test_a_delivery_of_several_slots_lists_them_ascending_and_counts_all() -> None:
    """Ten at most; those that are acknowledged are not told."""
    many = [1_000 - number for number in range(15)]
    rig = Rig(c1=many)
    rig.join("c1", 100)
    rig.mixed(1, *many)
    (delivery,) = page(rig).deliveries
    assert delivery.slots == tuple(sorted(many)[:SLOTS_LISTED_MAX])
    assert (delivery.slots_count, delivery.messages) == (15, 15)
    rig.ack_all_but("c1", 1, 0, 1)
    (delivery,) = page(rig).deliveries
    assert (delivery.slots, delivery.slots_count, delivery.messages) == ((999, 1_000), 2, 2)


@pytest.mark.parametrize("mode", OrderingMode)
def test_a_delivery_drains_if_one_of_its_slots_belongs_to_another_now(mode: OrderingMode) -> None:
    """Without order nobody waits for it."""
    rig = Rig(mode, c1=[A, B], c2=[B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.mixed(2, A, B)
    rig.join("c2")
    ordered = mode is not OrderingMode.UNORDERED
    assert [delivery.draining for delivery in page(rig).deliveries] == [False, ordered]


def test_a_chunk_is_told_as_one() -> None:
    """Of a larger message that can only be acknowledged whole."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.chunk(2, A, "m", 0, 2)
    assert [delivery.chunk for delivery in page(rig).deliveries] == [False, True]


# ---- pages ----


def test_pages_are_in_topic_order_whatever_the_order_sent() -> None:
    """A message that came again stands at its place."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 10)
    rig.entries(A, 1, 3)
    rig.entries(B, 2, 4)
    rig.got("c1")
    rig.nack("c1", 1, 3)
    assert positions(page(rig)) == ["1:1", "1:2", "1:3", "1:4"]


def test_a_page_ends_at_its_limit_and_the_next_goes_on_behind_it() -> None:
    """The cursor names the last delivery of its page; the last page has none."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2, 3, 4)
    first = page(rig, limit=2)
    assert (positions(first), first.next, first.total) == (["1:1", "1:2"], "1:2:2", 4)
    second = page(rig, limit=2, after=first.next)
    assert (positions(second), second.next, second.total) == (["1:3", "1:4"], None, 4)


def test_one_slots_deliveries_can_be_asked_for() -> None:
    """With those that have other slots' messages too; the total is that of the slot."""
    rig = Rig(c1=[A, B, C])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    rig.mixed(4, C, A)
    found = page(rig, slot=A, limit=2)
    assert (positions(found), found.total) == (["1:1", "1:2"], 3)
    rest = page(rig, slot=A, limit=2, after=found.next)
    assert positions(rest) == ["1:4"]
    assert rest.deliveries[0].slots == (A, C)
    assert page(rig, slot=5).total == 0


def test_a_worker_that_holds_nothing_has_one_empty_page() -> None:
    """No cursor, no deliveries."""
    rig = Rig(c1=[A])
    rig.join("c1")
    found = page(rig)
    assert (found.deliveries, found.next, found.total) == ((), None, 0)


def test_acks_between_pages_neither_hide_nor_repeat_what_stays() -> None:
    """Not even the ack of the delivery that the cursor names; what comes back ahead of the cursor is listed."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2, 3, 4, 5)
    first = page(rig, limit=2)
    rig.ack("c1", 1, 2, 4)
    rig.entries(A, 6)
    second = page(rig, limit=2, after=first.next)
    assert (positions(second), second.total) == (["1:3", "1:5"], 3)
    third = page(rig, limit=2, after=second.next)
    assert (positions(third), third.next) == (["1:6"], None)
    rig.ack("c1", 3, 5, 6)
    assert page(rig, limit=2, after=second.next).deliveries == ()


def test_a_cursor_may_stand_between_the_slices_of_an_entry() -> None:
    """Their messages' order decides, not their ids as negative keys."""
    rig = Rig(c1=[A])
    rig.join("c1", 1)
    rig.batch(3, A, 4)
    for _ in range(3):
        rig.flow("c1", 1)
    rig.flow("c1", 1)
    rig.entries(A, 4)
    ids = [f"1:{slice_id(3, (index,))}" for index in range(4)]
    listed = all_pages(rig.dispatcher, rig.workers["c1"], None, 1)
    assert [delivery.message_id for delivery in listed] == [*ids, "1:4"]
    first = page(rig, limit=1)
    assert first.next == f"1:3:{slice_id(3, (0,))}"
    rig.ack("c1", (3, (0,)))
    assert [delivery.message_id for delivery in page(rig, after=first.next).deliveries] == [*ids[1:], "1:4"]


# ---- asked for what cannot be ----

OTHERS_SLICE = slice_id(4, (0,))


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "1:2",
        "1:2:3:4",
        "1:2:",
        "a:b:c",
        " 1:2:2",
        "1:2:2\n",
        "+1:2:2",
        "-1:2:2",
        "1:-1:-1",
        "1_0:2:2",
        "١:2:2",  # noqa: RUF001 - a digit, and not ours
        "1:2:3",
        f"1:3:{OTHERS_SLICE}",
        f"1:{1 << 41}:{1 << 41}",
        f"{1 << 63}:2:2",
        "9" * 10_000,
    ],
)
def test_a_cursor_that_is_none_is_refused_with_what_is_expected(cursor: str) -> None:
    """Also one whose numbers do not belong together; the text stays short."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    with pytest.raises(ValueError, match=r"not a cursor: .*; expected the `next` of a page before, such as 3:5") as e:
        page(rig, after=cursor)
    assert len(str(e.value)) < 250


@pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
def test_a_limit_out_of_bounds_is_refused(limit: int) -> None:
    """With the bounds."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    with pytest.raises(ValueError, match=f"not a page's limit: {limit}; expected 1 to {PAGE_MAX}"):
        page(rig, limit=limit)


def test_cursors_work_for_the_largest_ids() -> None:
    """Ledgers are 63-bit numbers."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    for entry, count in ((1, 1), (2, 12)):
        rig.dispatcher.receive(pack((1 << 63) - 1, entry), A, count, b"x", 0, 0.0)
    rig.dispatcher.flow(worker, 3, 0.0)
    listed = all_pages(rig.dispatcher, worker, None, 1)
    assert [delivery.messages for delivery in listed] == [1, 9, 3]


# ---- whatever happens ----


def first_message(unit: Part) -> tuple[int, int]:
    """Position and index of a delivery's first message, as delivered."""
    return unit.position, unit.message_indexes()[0]


def expected_ids(worker: Worker, slot: int | None) -> list[tuple[str, str, int]]:
    """Message id, position and unacknowledged messages of what the worker holds, in order, the plain way."""
    units = sorted(worker.pending.values(), key=first_message)
    return [
        (
            ":".join(map(str, wire_id(unit.key))),
            format_position(unit.position),
            unit.remaining,
        )
        for unit in units
        if slot is None or (slot, False) in slots_in(unit)
    ]


class Paged(Busy):
    """Somebody reads what workers hold."""

    @has_clients
    @rule(who=some, slot=st.one_of(st.none(), slots), limit=st.integers(1, 6))
    def everything_a_worker_holds_is_read(self, who: int, slot: int | None, limit: int) -> None:
        """Each delivery once, in order, whatever the page's size."""
        world, worker = self.world, self.pick(who).worker
        listed = all_pages(world.dispatcher, worker, slot, limit, world.now)
        told = [(each.message_id, each.position, each.messages) for each in listed]
        assert told == expected_ids(worker, slot)
        if slot is None:
            assert sum(each.messages for each in listed) == worker.unacked
            drains = {slot for each in listed if each.draining for slot in each.slots}
            held = [s for s in world.dispatcher.draining.slots() if world.dispatcher.slots.holder(s) == worker.index]
            assert drains.issuperset(held)
        assert all(each.sent_age_s <= each.age_s for each in listed)
        assert all(each.sent_age_s >= 0 and each.attempts > 0 and each.messages > 0 for each in listed)

    @has_clients
    @rule(who=some, limit=st.integers(1, 3), acks=st.lists(some, max_size=6))
    def a_worker_acknowledges_while_it_is_read(self, who: int, limit: int, acks: list[int]) -> None:
        """What is pending from the first page to the last is listed once; nothing is listed twice."""
        world, client = self.world, self.pick(who)
        at_first = expected_ids(client.worker, None)
        listed: list[str] = []
        after: str | None = None
        while True:
            found = finished(
                pending_page_steps(
                    world.dispatcher, [client.worker], slot=None, after=after, limit=limit, now=world.now
                )
            )
            listed += [each.message_id for each in found.deliveries]
            if found.next is None:
                break
            after = found.next
            if acks:
                world.ack(client, self.key(client, acks.pop()))
        still = {each[0] for each in expected_ids(client.worker, None)}
        stayed = [each[0] for each in at_first if each[0] in still]
        assert len(listed) == len(set(listed))
        assert [each for each in listed if each in stayed] == stayed


TestPaged = Paged.TestCase
"""Every delivery is read once, in order."""

TestPaged.settings = lives(50, 40)
