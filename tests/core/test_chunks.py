"""Chunked messages while slots drain: the holder gets the rest, and nothing else."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from proxy.core import acknowledgement
from proxy.core.dispatcher import OrderingMode
from proxy.core.diversion import arrived
from proxy.core.explain import explain_slot
from proxy.core.key_policy import KeyPolicy
from proxy.core.positions import entry_of, pack
from proxy.core.reposition import discard_up_to
from proxy.core.waiting import WaitReason
from tests.core.test_dispatcher_rig import LEDGER, A, B, Rig
from tests.core.test_transactional_acks import abort, hold
from tests.growth import growth

if TYPE_CHECKING:
    from collections.abc import Callable


def aborted(rig: Rig, number: int) -> None:
    """c1 acknowledges a chunk in a transaction, which is aborted: this chunk comes back alone."""
    abort(rig, hold(rig, "c1", number))


def drained(**permits: int) -> Rig:
    """c1 has chunk 0 of three of message m; then the slot moves to c2."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", permits.get("c1", 10))
    rig.chunk(1, A, "m", 0, 3)
    assert rig.got("c1") == [1]
    rig.join("c2", permits.get("c2", 10))
    return rig


def test_the_rest_of_a_chunked_message_follows_its_beginning() -> None:
    """The holder can acknowledge only a whole message: waiting for the drain would be waiting for ever."""
    rig = drained()
    rig.chunk(2, A, "m", 1, 3)
    rig.chunk(3, A, "m", 2, 3)
    assert rig.got("c1") == [2, 3]
    assert rig.got("c2") == []
    rig.entries(A, 4)
    rig.ack("c1", 1, 2, 3)
    assert rig.got("c2") == [4]
    assert rig.dispatcher.chunked.workers() == []


def test_a_chunk_passes_messages_of_others_that_wait_for_the_drain() -> None:
    """Another producer's message lies in between: it goes to the new owner, the chunk to the holder."""
    rig = drained()
    rig.entries(A, 2)
    rig.chunk(3, A, "m", 1, 3)
    rig.entries(A, 4)
    rig.chunk(5, A, "m", 2, 3)
    assert rig.got("c1") == [3, 5]
    assert rig.got("c2") == []
    rig.ack("c1", 1, 3, 5)
    assert rig.got("c2") == [2, 4]


def test_only_the_chunk_goes_to_the_holder_not_what_waits_behind_it() -> None:
    """After the chunk the slot waits for its drain again, although the holder has permits."""
    rig = drained(c1=1)
    rig.chunk(2, A, "m", 1, 3)
    rig.entries(A, 3)
    assert rig.got("c1") == []
    rig.flow("c1", 10)
    assert rig.got("c1") == [2]


def test_a_chunk_waits_for_the_holders_permits_and_goes_before_the_rest() -> None:
    """Chunks arrive while the holder has none: with its next FLOW they go, in order, and nothing else does."""
    rig = drained(c1=1)
    rig.entries(A, 2)
    rig.chunk(3, A, "m", 1, 3)
    rig.chunk(4, A, "m", 2, 3)
    rig.flow("c1", 10)
    assert rig.got("c1") == [3, 4]


def test_a_holder_that_leaves_gives_the_whole_message_to_the_new_owner() -> None:
    """All chunks at one worker: those it had come first, in order, then the one that waited for its permits."""
    rig = drained(c1=1)
    rig.entries(A, 2)
    rig.chunk(3, A, "m", 1, 3)
    rig.leave("c1")
    assert rig.got("c2") == [1, 2, 3]
    rig.chunk(4, A, "m", 2, 3)
    assert rig.got("c2") == [4]


def test_a_message_given_back_starts_anew_at_the_new_owner() -> None:
    """The holder gives the chunks back and keeps another message: no chunk goes to it again, first or later."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.chunk(2, A, "m", 0, 3)
    rig.chunk(3, A, "m", 1, 3)
    assert rig.got("c1") == [1, 2, 3]
    rig.join("c2", 10)
    rig.nack("c1", 2, 3)
    rig.chunk(4, A, "m", 2, 3)
    assert rig.got("c1") == []
    rig.ack("c1", 1)
    assert rig.got("c2") == [2, 3, 4]


def test_a_later_chunk_that_an_abort_gives_back_goes_to_the_holder_again() -> None:
    """It has the beginning still, so it needs that chunk, and then the next, in this order."""
    rig = drained()
    rig.chunk(2, A, "m", 1, 3)
    assert rig.got("c1") == [2]
    rig.dispatcher.pause()
    aborted(rig, 2)
    rig.chunk(3, A, "m", 2, 3)
    rig.dispatcher.resume(0.0)
    assert rig.got("c1") == [2, 3]


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_who_asks_for_a_chunk_gets_the_message_again(asked: int) -> None:
    """Clients of C++ and Python ask for the last chunk alone, and throw it away if it comes alone."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 10)
    for index in range(3):
        rig.chunk(1 + index, A, "m", index, 3)
    rig.chunk(4, A, "other", 0, 1)
    rig.chunk(5, B, "m", 0, 1)
    rig.entries(A, 6)
    assert rig.got("c1") == [1, 2, 3, 4, 5, 6]
    assert rig.nack("c1", asked) == 3
    assert rig.got("c1") == [1, 2, 3]
    again = list(rig.workers["c1"].pending.values())[-3:]
    assert [part.redeliveries for part in again] == [1, 1, 1]
    assert sum(part.attempts_used for part in again) == 1


def test_a_message_given_up_is_finished_by_nobody() -> None:
    """The holder acknowledges chunks of a message it has not got whole: the rest waits for the drain like others."""
    rig = drained(c1=1)
    rig.entries(A, 2)
    rig.chunk(3, A, "m", 1, 3)
    rig.ack("c1", 1)
    assert rig.dispatcher.chunked.workers() == []
    assert rig.got("c2") == [2, 3], "in the topic's order again"
    rig.flow("c1", 10)
    assert rig.got("c1") == []


def test_a_message_given_up_while_another_is_pending_drains_in_order() -> None:
    """The holder keeps a plain message: what waited for its permits as a chunk waits for the drain now."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 2)
    rig.entries(A, 1)
    rig.chunk(2, A, "m", 0, 2)
    rig.join("c2", 10)
    rig.chunk(3, A, "m", 1, 2)
    rig.ack("c1", 2)
    rig.flow("c1", 10)
    assert rig.got("c1") == [1, 2]
    rig.ack("c1", 1)
    assert rig.got("c2") == [3]


def test_chunks_that_never_come_leave_nothing_behind() -> None:
    """A thousand messages whose producers died half way, given up by their worker: none is remembered."""
    rig = Rig(c1=[A])
    rig.join("c1", 10_000)
    for number in range(1_000):
        rig.chunk(number, A, f"m{number}", 0, 2)
        rig.ack("c1", number)
    assert rig.dispatcher.chunked.workers() == []


def test_a_gap_lets_the_holder_see_that_it_will_never_be_whole() -> None:
    """Chunk 1 was lost at the broker: chunk 2 goes to the holder all the same, which then gives the message up."""
    rig = drained()
    rig.chunk(3, A, "m", 2, 3)
    assert rig.got("c1") == [3]


def test_a_chunk_that_is_repeated_does_not_disturb_the_holder() -> None:
    """The producer sent chunks anew: the holder would give the message up if it saw one of them; it gets the next."""
    rig = drained()
    rig.chunk(2, A, "m", 1, 3)
    rig.chunk(3, A, "m", 0, 3)
    rig.chunk(4, A, "m", 1, 3)
    rig.chunk(5, A, "m", 2, 3)
    assert rig.got("c1") == [2, 5]
    rig.ack("c1", 1, 2, 5)
    assert rig.got("c2") == [3, 4]


def test_a_message_that_begins_during_a_drain_goes_to_the_new_owner() -> None:
    """Its first chunk waits for the drain, and so do the others: all of them are for the new owner."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    for index in range(3):
        rig.chunk(2 + index, A, "m", index, 3)
    assert rig.got("c1") == [1]
    rig.ack("c1", 1)
    assert rig.got("c2") == [2, 3, 4]


def test_a_join_gate_does_not_keep_the_rest_of_a_message() -> None:
    """PIP-282: the first chunk keeps the gate shut, so the second, behind it, must pass; what lies between must not."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A], c2=[A])
    rig.join("c1", 1)
    rig.chunk(1, A, "m", 0, 2)
    rig.join("c2", 10)
    rig.entries(A, 2)
    rig.leave("c1")
    assert rig.got("c2") == [1]
    rig.chunk(3, A, "m", 1, 2)
    assert rig.got("c2") == [3]
    rig.ack("c2", 1, 3)
    assert rig.got("c2") == [2]


def test_chunks_an_operator_skipped_are_not_waited_for() -> None:
    """A skipped chunk ends its message; the holder's remaining ack frees the slot."""
    rig = drained(c1=1)
    rig.chunk(2, A, "m", 1, 3)
    discard_up_to(rig.dispatcher, pack(1, 2), 0.0)
    assert rig.dispatcher.chunked.workers() == []
    rig.chunk(3, A, "m", 2, 3)
    rig.ack("c1", 1)
    assert rig.got("c2") == [3]


class Story:
    """Producers interleave chunks of four messages, workers come and go, and acknowledge whole messages only."""

    def __init__(self, seed: int) -> None:
        """The seed decides."""
        self.random = Random(seed)  # noqa: S311 - a story, not a secret
        self.rig = Rig(c1=[A], c2=[A], c3=[A])
        self.rig.join("c1", 3)
        self.here = ["c1"]
        self.chunks_left = {f"m{number}": 3 for number in range(4)}
        self.chunk_of: dict[int, tuple[str, int]] = {}
        self.assembled: dict[str, dict[str, list[int]]] = {name: {} for name in ("c1", "c2", "c3")}
        self.finished: set[str] = set()

    def chunk(self) -> None:
        """The next chunk of some message."""
        if not self.chunks_left:
            return
        uuid = self.random.choice(sorted(self.chunks_left))
        number, index = len(self.chunk_of) + 1, 3 - self.chunks_left[uuid]
        self.chunk_of[number] = uuid, index
        self.rig.chunk(number, A, uuid, index, 3)
        self.chunks_left[uuid] -= 1
        if not self.chunks_left[uuid]:
            del self.chunks_left[uuid]

    def join(self) -> None:
        """A worker comes, knowing nothing."""
        away = [name for name in self.assembled if name not in self.here]
        if away:
            self.assembled[away[0]].clear()
            self.rig.join(away[0], 2)
            self.here.append(away[0])

    def leave(self) -> None:
        """A worker goes, unless it is the last."""
        if len(self.here) > 1:
            name = self.here.pop(self.random.randrange(len(self.here)))
            self.rig.got(name)
            self.rig.leave(name)

    def flow(self) -> None:
        """A worker grants permits."""
        self.rig.flow(self.random.choice(self.here), 2)

    def read(self) -> None:
        """Every worker takes what it got, chunk after chunk, and acknowledges messages it has whole."""
        for name in self.here:
            for entry in self.rig.got(name):
                assert isinstance(entry, int)
                uuid, index = self.chunk_of[entry]
                chunks = self.assembled[name].setdefault(uuid, [])
                assert index == len(chunks), f"chunk {index} of {uuid} came to {name} after {chunks}"
                chunks.append(entry)
                if len(chunks) == 3:
                    self.rig.ack(name, *self.assembled[name].pop(uuid))
                    self.finished.add(uuid)


@pytest.mark.parametrize("seed", range(60))
def test_interleaved_chunked_messages_survive_moving_owners(seed: int) -> None:
    """Every message is assembled at one worker, its chunks in order, and in the end nothing waits."""
    story = Story(seed)
    for _ in range(100):
        story.random.choice([story.chunk, story.chunk, story.flow, story.join, story.leave])()
        story.read()
    while story.chunks_left:
        story.chunk()
    for _ in range(30):
        for name in story.here:
            story.rig.flow(name, 5)
        story.read()
    assert story.finished == {"m0", "m1", "m2", "m3"}
    assert not list(story.rig.dispatcher.waiting_parts())
    assert story.rig.dispatcher.chunked.workers() == []


def test_chunks_given_back_one_request_after_another_come_again_from_the_first() -> None:
    """The first request has brought all of them back."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    for index in range(3):
        rig.chunk(1 + index, A, "m", index, 3)
    assert rig.got("c1") == [1, 2, 3]
    rig.join("c2", 10)
    rig.nack("c1", 2)
    rig.nack("c1", 1)
    rig.nack("c1", 3)
    assert rig.got("c1") == []
    assert rig.got("c2") == [1, 2, 3]


def test_a_worker_at_its_unacknowledged_limit_gets_the_rest_of_what_it_began() -> None:
    """It cannot acknowledge the beginning without it; anything new waits for the limit to end."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10, max_unacked=1)
    for index in range(3):
        rig.chunk(1 + index, A, "m", index, 3)
    rig.entries(A, 4)
    assert rig.got("c1") == [1, 2, 3]
    assert worker.over_unacked
    head = rig.dispatcher.waiting_in(A)[0]
    assert rig.dispatcher.wait_reason(A, head, rig.now) is WaitReason.UNACKED_LIMIT
    rig.ack("c1", 1, 2, 3)
    assert rig.got("c1") == [4]


def test_a_worker_at_its_limit_without_permits_waits_for_them_with_the_rest_of_its_message() -> None:
    """Permits are exact for chunks too."""
    rig = Rig(c1=[A])
    rig.join("c1", 1, max_unacked=1)
    rig.chunk(1, A, "m", 0, 2)
    rig.chunk(2, A, "m", 1, 2)
    assert rig.got("c1") == [1]
    assert rig.dispatcher.wait_reason(A, rig.dispatcher.waiting_in(A)[0], rig.now) is WaitReason.NO_PERMITS
    rig.flow("c1", 1)
    assert rig.got("c1") == [2]


def test_a_worker_that_an_operator_drains_gets_the_rest_of_what_it_began() -> None:
    """Otherwise it would hold the beginning until it leaves."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    rig.chunk(1, A, "m", 0, 2)
    rig.dispatcher.set_drained(worker, True, rig.now)
    rig.chunk(2, A, "m", 1, 2)
    rig.entries(A, 3)
    assert rig.got("c1") == [1, 2]


def test_chunks_stay_together_where_no_order_is_asked_for() -> None:
    """Out-of-order delivery means order among messages, not among the pieces of one."""
    rig = Rig(OrderingMode.UNORDERED, c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.chunk(1, A, "m", 0, 3)
    rig.join("c2", 10)
    rig.chunk(2, A, "m", 1, 3)
    rig.entries(A, 3)
    rig.chunk(4, A, "m", 2, 3)
    assert rig.got("c1") == [1, 2, 4]
    assert rig.got("c2") == [3]


def test_chunks_that_aborts_give_back_after_the_first_came_again_follow_it() -> None:
    """The first came back and was sent again at once; the others, which came back later, are needed behind it."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    for index in range(3):
        rig.chunk(1 + index, A, "m", index, 3)
    assert rig.got("c1") == [1, 2, 3]
    aborted(rig, 1)
    assert rig.got("c1") == [1]
    rig.dispatcher.pause()
    aborted(rig, 2)
    aborted(rig, 3)
    rig.dispatcher.set_drained(worker, True, rig.now)
    rig.dispatcher.resume(rig.now)
    assert rig.got("c1") == [2, 3]


def test_the_rest_passes_an_earlier_message_that_a_full_worker_asked_for_again() -> None:
    """The earlier one must wait for the limit, the rest must not: without it the worker never gets below."""
    rig = Rig(c1=[A])
    rig.join("c1", 10, max_unacked=4)
    rig.entries(A, 1, 2)
    rig.chunk(3, A, "m", 0, 3)
    rig.chunk(4, A, "m", 1, 3)
    assert rig.got("c1") == [1, 2, 3, 4]
    rig.nack("c1", 1)
    rig.chunk(5, A, "m", 2, 3)
    assert rig.got("c1") == [5]
    rig.ack("c1", 3, 4, 5)
    assert rig.got("c1") == [1]


def test_without_order_the_rest_passes_a_message_for_another_worker() -> None:
    """It waits for its new owner's permits; who has begun a message needs the rest of it now."""
    rig = Rig(OrderingMode.UNORDERED, c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.chunk(1, A, "m", 0, 2)
    rig.join("c2", 0)
    rig.entries(A, 2)
    rig.chunk(3, A, "m", 1, 2)
    assert rig.got("c1") == [1, 3]
    rig.flow("c2", 1)
    assert rig.got("c2") == [2]


def test_thousands_of_messages_that_are_never_finished_cost_little_of_each_turn() -> None:
    """A producer may begin as many as it likes; what waits is not looked through for each of them."""

    def ready(count: int) -> Callable[[], None]:
        slots = range(1, 2 * count + 1)
        rig = Rig(c1=slots)
        worker = rig.join("c1", count, max_unacked=count)
        for slot in slots[:count]:
            rig.chunk(slot, slot, f"m{slot}", 1, 3)
        assert len(rig.got("c1")) == count
        for slot in slots[count:]:
            rig.entries(slot, slot)
        assert (len(worker.ready), worker.over_unacked) == (count, True)
        asked = [pack(LEDGER, number) for number in slots[: count // 2 - 1]]

        def turn() -> None:
            rig.flow("c1", 1)
            assert "has not come from the broker yet" in explain_slot(rig.dispatcher, slots[-1], rig.now).unblocks
            acknowledgement.redeliver(rig.dispatcher, worker, asked, rig.now)
            assert len(rig.dispatcher.chunked) == count - len(asked)

        return turn

    assert growth(ready, 500, 4_000) < 24  # 64, if all that waits were looked through for each


RETRY = KeyPolicy(retry_delay_s=60.0, retry_delay_max_s=60.0)


def begun_before(policy: KeyPolicy) -> Rig:
    """c1 has 1, which comes back for good or for long, and chunk 0 of three of message m."""
    rig = Rig(c1=[A], c2=[B])
    rig.dispatcher.set_policy(policy)
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.chunk(2, A, "m", 0, 3)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1)
    return rig


@pytest.mark.parametrize("policy", [RETRY, KeyPolicy(dead_letter_after=1), KeyPolicy(park_after=1)])
def test_the_rest_passes_an_earlier_message_for_which_its_key_waits(policy: KeyPolicy) -> None:
    """A client acknowledges what it has of a message that does not become whole in time: it would be lost."""
    rig = begun_before(policy)
    rig.chunk(3, A, "m", 1, 3)
    rig.entries(A, 4)
    rig.chunk(5, A, "m", 2, 3)
    assert rig.got("c1") == [3, 5]
    rig.ack("c1", 2, 3, 5)
    assert rig.got("c1") == []
    assert [entry_of(part.position) for part in rig.dispatcher.waiting_in(A)] == [1, 4]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("policy", [RETRY, KeyPolicy(dead_letter_after=1), KeyPolicy(park_after=1)])
def test_the_rest_of_a_message_does_not_wait_for_permits_that_others_take(policy: KeyPolicy, *, late: bool) -> None:
    """It stands in its worker's queue when its key is blocked, or comes later, and there is always more before it."""
    rig = Rig(c1=[A, B])
    rig.dispatcher.set_policy(policy)
    rig.join("c1", 2)
    rig.entries(A, 1)
    rig.chunk(2, A, "m", 0, 3)
    rest = [3, 20] if late else [3, 4]
    if not late:
        rig.chunk(rest[0], A, "m", 1, 3)
        rig.chunk(rest[1], A, "m", 2, 3)
    rig.entries(B, *range(5, 15))
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1)
    if late:
        rig.chunk(rest[0], A, "m", 1, 3)
        rig.chunk(rest[1], A, "m", 2, 3)
    rig.flow("c1", 1)
    assert rig.got("c1") == rest[:1]
    rig.flow("c1", 2)
    assert rig.got("c1") == [rest[1], 5]


def test_a_chunk_that_came_back_itself_waits_with_its_key() -> None:
    """And so do those behind it."""
    rig = begun_before(RETRY)
    rig.chunk(3, A, "m", 1, 3)
    assert rig.got("c1") == [3]
    aborted(rig, 3)
    rig.chunk(4, A, "m", 2, 3)
    assert rig.got("c1") == []
    rig.dispatcher.unblock(60.0)
    assert rig.got("c1") == [1, 3, 4]


def test_a_chunk_that_came_back_itself_goes_on_with_its_key_once_a_dead_letter_has_arrived() -> None:
    """Though the key's window has no room."""
    rig = begun_before(KeyPolicy(window=2, dead_letter_after=2))
    rig.chunk(3, A, "m", 1, 3)
    rig.chunk(4, A, "m", 2, 3)
    assert rig.got("c1") == [1, 3, 4]
    rig.nack("c1", 1)
    aborted(rig, 4)
    assert rig.got("c1") == []
    for part in rig.dispatcher.diversions.take_fresh():
        arrived(rig.dispatcher, part, rig.now)
    assert rig.got("c1") == [4]


@pytest.mark.parametrize("asked", [(3,), (1, 2, 3)])
def test_a_chunk_that_is_acknowledged_before_it_leaves_once_more_does_not_leave(asked: tuple[int, ...]) -> None:
    """Whether the worker asked for it, or got it along with one that it asked for."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    for index in range(3):
        rig.chunk(1 + index, A, "u", index, 3)
    assert rig.got("c1") == [1, 2, 3]
    rig.flow("c1", 10)
    rig.nack("c1", *asked)
    rig.ack("c1", 2)
    assert rig.got("c1") == [1, 3]
    assert rig.acked_upstream() == [2]
