"""Messages with too many attempts, as stories: which goes, what waits for it, and that the key goes on."""

from __future__ import annotations

import pytest

from proxy.core import policy_change, reposition
from proxy.core.dispatcher_tables import OrderingMode
from proxy.core.diversion import arrived
from proxy.core.diversions import EXPECTED_MAX
from proxy.core.entry import Part
from proxy.core.key_policy import NO_POLICY, KeyPolicy
from proxy.core.positions import entry_of, pack
from proxy.core.waiting import WaitReason
from tests.core.test_dispatcher_rig import LEDGER, A, B, Rig
from tests.core.test_key_policy import reason, rig_of

TWICE = KeyPolicy(dead_letter_after=2)


def given_up(rig: Rig) -> list[Part]:
    """Parts that are to be published now."""
    return rig.dispatcher.diversions.take_fresh()


def numbers(parts: list[Part]) -> list[object]:
    """What they are, as in stories."""
    return [entry_of(p.position) if p.indexes is None else (entry_of(p.position), p.indexes) for p in parts]


def publish(rig: Rig) -> list[object]:
    """The other topic takes what is given up; what that was."""
    parts = given_up(rig)
    for part in parts:
        arrived(rig.dispatcher, part, rig.now)
    return numbers(parts)


@pytest.mark.parametrize("window", [0, 1, 2])
def test_after_its_attempts_a_message_goes_and_its_key_goes_on(window: int) -> None:
    """It is acknowledged when the other topic has it, and nothing of the key is delivered before."""
    rig = rig_of(KeyPolicy(window=window, dead_letter_after=3))
    rig.entries(A, 0)
    for _ in range(3):
        assert rig.got("c1") == [0]
        rig.nack("c1", 0)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    assert rig.got("c1") == [3]
    assert rig.acked_upstream() == []
    assert reason(rig, A) is WaitReason.DEAD_LETTER
    assert publish(rig) == [0]
    assert rig.acked_upstream() == [0]
    assert rig.got("c1") == [1, 2][: window or 2]
    assert rig.dispatcher.diversions.messages_total == 1


def test_the_brokers_count_is_of_attempts() -> None:
    """A gateway that took over knows by it how often a message came back from others."""
    rig = rig_of(KeyPolicy(dead_letter_after=5))
    rig.dispatcher.receive(pack(LEDGER, 1), A, 1, b"", 4, rig.now)
    assert rig.got("c1") == [1]
    rig.nack("c1", 1)
    assert publish(rig) == [1]


def test_what_no_worker_had_is_delivered_whatever_the_broker_counts() -> None:
    """It counts what a gateway that was killed had in its look-ahead, too."""
    rig = rig_of(TWICE)
    rig.dispatcher.receive(pack(LEDGER, 1), A, 1, b"", 9, rig.now)
    assert rig.got("c1") == [1]
    assert given_up(rig) == []


def test_of_a_batch_only_the_poisoned_message_goes() -> None:
    """It is given back whole at first: each message has an attempt alone."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.batch(1, A, 3)
    rig.entries(A, 2)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1)
    assert given_up(rig) == []
    assert rig.got("c1") == [(1, (0,)), (1, (1,)), (1, (2,))]
    rig.nack("c1", (1, (1,)))
    rig.ack("c1", (1, (0,)))
    rig.ack("c1", (1, (2,)))
    assert rig.acked_upstream() == []
    assert publish(rig) == [(1, (1,))]
    rig.ack("c1", 2)
    assert rig.acked_upstream() == [1, 2]
    assert not rig.dispatcher.outstanding.bytes_held


def test_a_batch_that_cannot_be_opened_goes_whole() -> None:
    """Encrypted, for instance."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.opaque(1, A, 3)
    rig.got("c1")
    rig.nack("c1", 1)
    assert publish(rig) == [1]
    assert rig.acked_upstream() == [1]
    assert rig.dispatcher.waiting_messages == 0


def test_a_worker_that_is_lost_had_only_the_first_of_its_messages_in_its_hands() -> None:
    """What lay behind it in its queue is innocent, of whatever key, however often its worker dies."""
    rig = rig_of(TWICE)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    for _ in range(2):
        assert rig.got("c1") == [1, 2, 3]
        rig.leave("c1")
        rig.join("c1", 100)
    assert publish(rig) == [1]
    assert rig.got("c1") == [3, 2]
    assert rig.nack("c1") == 2
    assert given_up(rig) == [], "they have attempts left"
    assert rig.got("c1") == [2, 3]
    rig.nack("c1")
    assert publish(rig) == [2, 3]


def test_workers_that_close_one_after_another_use_no_attempts() -> None:
    """They pass on what none of those that remain looks at; it has all its attempts afterwards."""
    names = [f"c{number}" for number in range(9)]
    rig = Rig(OrderingMode.DRAINING_HASHES, **{name: [A, B] for name in names})
    rig.dispatcher.set_policy(TWICE)
    for name in names:
        rig.join(name, 100)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    for name in reversed(names[1:]):
        assert rig.got(name) == [1, 2, 3]
        rig.now += 1
        rig.leave(name, closed=True)
    assert rig.got("c0") == [1, 2, 3]
    assert given_up(rig) == []
    rig.nack("c0", 1)
    assert rig.got("c0") == [1]
    rig.nack("c0", 1)
    assert publish(rig) == [1]


def test_each_new_worker_that_closes_at_a_message_has_used_an_attempt_of_it() -> None:
    """As one that closes its client where it cannot go on: the first time cannot be told from a shutdown."""
    rig = rig_of(TWICE)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    for _ in range(TWICE.dead_letter_after + 1):
        assert not rig.dispatcher.diversions.fresh
        assert rig.got("c1") == [1, 2, 3]
        rig.leave("c1", closed=True)
        rig.now += 1
        rig.join("c1", 100)
        rig.now += 1
    assert publish(rig) == [1]
    assert rig.got("c1") == [3, 2]


def test_workers_that_take_a_message_each_and_close_use_up_the_attempts_of_none() -> None:
    """Each leaves others behind, and begins with another one."""
    rig = rig_of(TWICE)
    rig.entries(A, *range(9))
    for number in range(9):
        assert rig.got("c1") == list(range(number, 9))
        rig.ack("c1", number)
        rig.leave("c1", closed=True)
        rig.now += 1
        rig.join("c1", 100)
    assert given_up(rig) == []


def test_what_was_not_sent_used_no_attempt() -> None:
    """It lay in the outbox."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.entries(A, 1)
    rig.nack("c1", 1)
    assert given_up(rig) == []
    assert rig.got("c1") == [1]


def test_a_message_on_its_way_is_forgotten_with_a_seek_or_a_skip() -> None:
    """Its receipt then changes nothing, and holds nothing up."""
    for move in (reposition.reset, lambda d, now: reposition.discard_up_to(d, pack(LEDGER, 1), now)):
        rig = rig_of(KeyPolicy(dead_letter_after=1))
        rig.entries(A, 1)
        rig.got("c1")
        rig.nack("c1", 1)
        (part,) = given_up(rig)
        move(rig.dispatcher, rig.now)
        assert not rig.dispatcher.diversions.held
        arrived(rig.dispatcher, part, rig.now)
        rig.entries(A, 2)
        assert rig.got("c1") == [2]
        assert rig.acked_upstream() == []
        assert rig.dispatcher.waiting_messages == 0


def test_a_policy_that_is_taken_back_stops_nothing_on_its_way() -> None:
    """It has been published, perhaps."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.entries(A, 1)
    rig.got("c1")
    rig.nack("c1", 1)
    policy_change.change_key_policy(rig.dispatcher, NO_POLICY, rig.now)
    rig.entries(A, 2)
    assert rig.got("c1") == []
    assert reason(rig, A) is WaitReason.DEAD_LETTER
    assert publish(rig) == [1]
    assert rig.got("c1") == [2]


def test_a_key_that_moves_meanwhile_goes_on_at_its_new_owner() -> None:
    """Nothing of it is pending, so it need not drain; it waits for the receipt all the same."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.nack("c1", 1)
    rig.join("c2", 10)
    rig.ack("c1", 2)
    rig.entries(A, 3)
    assert rig.got("c2") == []
    assert publish(rig) == [1]
    assert rig.got("c2") == [3]


def test_chunks_go_one_behind_another() -> None:
    """A chunked message that was given back is given up chunk by chunk, in its order."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    for index in range(2):
        rig.chunk(1 + index, A, "u", index, 2)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1, 2)
    assert publish(rig) == [1, 2]
    assert rig.acked_upstream() == [1, 2]
    rig.entries(A, 3)
    assert rig.got("c1") == [3]


def test_a_dead_letter_that_was_the_last_before_a_join_gate_lets_its_key_go_on() -> None:
    """The next message of the key stands behind the gate, and the slot is blocked by the dead letter alone."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[B], c2=[A], c3=[A])
    rig.dispatcher.set_policy(TWICE)
    rig.join("c1", 9)
    rig.entries(A, 1)  # which no worker has yet
    rig.entries(B, 2)
    assert rig.got("c1") == [2]
    rig.ack("c1", 2)
    rig.join("c2", 9)
    assert rig.got("c2") == [1]
    rig.leave("c2")
    rig.join("c3", 9)
    assert rig.got("c3") == [1]
    rig.entries(A, 3)
    assert reason(rig, A) is WaitReason.JOIN_POSITION
    rig.nack("c3", 1)
    assert publish(rig) == [1]
    assert rig.got("c3") == [3]
    assert not rig.dispatcher.blocked


def chunks(rig: Rig, first: int, total: int, count: int | None = None, uuid: str = "u") -> None:
    """The first `count` chunks of a message, or all."""
    for index in range(total if count is None else count):
        rig.chunk(first + index, A, uuid, index, total)


def test_a_chunked_message_that_its_workers_left_behind_goes_whole() -> None:
    """They had it whole in their hands; what lay behind it is innocent."""
    rig = rig_of(TWICE)
    chunks(rig, 1, 3)
    rig.entries(A, 4)
    for _ in range(2):
        assert rig.got("c1") == [1, 2, 3, 4]
        rig.leave("c1")
        rig.join("c1", 100)
    assert rig.got("c1") == []
    assert publish(rig) == [1, 2, 3]
    assert rig.acked_upstream() == [1, 2, 3]
    assert rig.got("c1") == [4]


def test_attempts_of_a_chunked_message_are_those_of_all_its_chunks() -> None:
    """A worker gave back the beginning, and then, when it had it, all: it goes whole, not the beginning."""
    rig = rig_of(TWICE)
    chunks(rig, 1, 3, 2)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1, 2)
    rig.chunk(3, A, "u", 2, 3)
    assert rig.got("c1") == [1, 2, 3]
    rig.nack("c1", 1, 2, 3)
    assert publish(rig) == [1, 2, 3]
    assert rig.got("c1") == []


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_who_asks_for_a_chunk_gives_up_the_message(asked: int) -> None:
    """Clients of C++ and Python name the last chunk alone."""
    rig = rig_of(TWICE)
    chunks(rig, 1, 3)
    for _ in range(2):
        assert rig.got("c1") == [1, 2, 3]
        rig.nack("c1", asked)
    assert rig.got("c1") == []
    assert publish(rig) == [1, 2, 3]
    assert rig.acked_upstream() == [1, 2, 3]


def test_chunks_asked_for_one_by_one_are_one_attempt() -> None:
    """A client may send a request for each, and get the message anew after each."""
    rig = rig_of(TWICE)
    chunks(rig, 1, 3)
    for asked in (1, 2, 3):
        assert rig.got("c1") == [1, 2, 3]
        rig.nack("c1", asked)
    assert rig.got("c1") == [1, 2, 3]
    rig.nack("c1", 1)
    assert publish(rig) == [1, 2, 3]


@pytest.mark.parametrize("indexes", [(0, 1), (0, 2)])
def test_a_chunked_message_that_no_worker_had_whole_is_not_given_up_for_that(indexes: tuple[int, int]) -> None:
    """Its workers crash while its producer writes; or the topic lacks a chunk."""
    rig = rig_of(TWICE)
    for number, index in enumerate(indexes, 1):
        rig.chunk(number, A, "u", index, 3)
    for _ in range(4):
        assert rig.got("c1") == [1, 2]
        rig.leave("c1")
        rig.join("c1", 100)
    assert given_up(rig) == []


def test_a_worker_that_left_had_a_chunked_message_in_its_hands_when_it_had_the_last_chunk() -> None:
    """What lies between its chunks was there before it."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.chunk(1, A, "u", 0, 2)
    rig.entries(A, 2)
    rig.chunk(3, A, "u", 1, 2)
    assert rig.got("c1") == [1, 2, 3]
    rig.leave("c1")
    rig.join("c1", 100)
    assert publish(rig) == [2]
    assert rig.got("c1") == [1, 3]


def test_originals_of_chunks_are_acknowledged_when_the_topic_has_all_of_them() -> None:
    """A gateway that ends in between leaves all of them to the next one."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    chunks(rig, 1, 3)
    rig.entries(A, 4)
    rig.got("c1")
    rig.ack("c1", 4)
    assert rig.acked_upstream() == [4]
    rig.nack("c1", 3)
    rig.entries(A, 5)
    first, second, third = given_up(rig)
    arrived(rig.dispatcher, first, rig.now)
    arrived(rig.dispatcher, second, rig.now)
    assert rig.acked_upstream() == []
    assert rig.got("c1") == []
    arrived(rig.dispatcher, third, rig.now)
    assert rig.acked_upstream() == [1, 2, 3]
    assert rig.got("c1") == [5]
    assert not rig.dispatcher.diversions.held


def test_chunks_that_wait_for_permits_go_with_those_that_came_back() -> None:
    """And with those that the broker has yet, which are delivered to no worker."""
    rig = Rig(c1=[A])
    rig.dispatcher.set_policy(KeyPolicy(dead_letter_after=1))
    rig.join("c1", 2)
    chunks(rig, 1, 4, 3)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1)
    assert numbers(rig.dispatcher.diversions.fresh) == [1, 2, 3]
    assert publish(rig) == [1, 2, 3]
    assert rig.acked_upstream() == [1, 2, 3]
    rig.flow("c1", 10)
    rig.chunk(4, A, "u", 3, 4)
    rig.entries(A, 5)
    assert rig.got("c1") == []
    assert publish(rig) == [4]
    assert rig.acked_upstream() == [4]
    assert rig.got("c1") == [5]
    assert not rig.dispatcher.diversions.expected


def test_a_chunked_message_that_never_becomes_whole_does_not_wedge_its_key() -> None:
    """Its producer is gone: a client that dropped a chunk asks for it again and again, with a window of one message."""
    rig = rig_of(KeyPolicy(window=1, dead_letter_after=2))
    rig.chunk(1, A, "u", 1, 3)
    rig.entries(A, 2)
    for _ in range(2):
        assert rig.got("c1") == [1]
        rig.nack("c1", 1)
    assert publish(rig) == [1]
    assert rig.got("c1") == [2]


def test_a_uuid_that_begins_anew_is_another_message() -> None:
    """A producer counts from 0 again, or sends the chunks once more: they come as new ones do."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.chunk(1, A, "u", 0, 2)
    rig.got("c1")
    rig.nack("c1", 1)
    assert publish(rig) == [1]
    chunks(rig, 2, 2)
    assert rig.got("c1") == [2, 3]


def test_messages_that_are_never_finished_are_remembered_within_a_bound() -> None:
    """A producer may begin as many as it likes."""
    rig = rig_of(KeyPolicy(dead_letter_after=1))
    rig.flow("c1", EXPECTED_MAX)
    for number in range(EXPECTED_MAX + 1):
        rig.chunk(number, A, f"u{number}", 0, 2)
        rig.got("c1")
        rig.nack("c1", number)
        publish(rig)
    assert len(rig.dispatcher.diversions.expected) == EXPECTED_MAX
