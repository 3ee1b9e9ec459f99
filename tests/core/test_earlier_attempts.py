"""Attempts that outlive their subscription, as stories: what a message has left when it comes again, and the bounds."""

from __future__ import annotations

import pytest

from proxy.core import recall, reposition
from proxy.core.diversion import arrived
from proxy.core.earlier_attempts import ALL, KEPT_S, MESSAGES_MAX, SUBSCRIPTIONS_MAX, Earlier, EarlierAttempts
from proxy.core.key_policy import NO_POLICY, KeyPolicy
from proxy.core.positions import entry_of, pack
from proxy.core.recall import attempts_of
from tests.core.test_dead_letters import TWICE, given_up, publish
from tests.core.test_dispatcher_rig import LEDGER, A, B, Rig
from tests.core.test_key_policy import rig_of
from tests.core.test_parking import Lot

THRICE = KeyPolicy(dead_letter_after=3)
ONCE = {pack(LEDGER, 1): [Earlier(ALL, 1, 1, 0, given_up=False, last=-1)]}
KEY = ("topic", "s")


def next_life(rig: Rig, policy: KeyPolicy) -> Rig:
    """The subscription ended, and begins anew with another worker; the broker sends again what is unacknowledged."""
    after = rig_of(policy)
    after.now = rig.now
    after.dispatcher.diversions.remember(attempts_of(rig.dispatcher))
    return after


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("window", [0, 1])
def test_a_message_at_which_a_lone_worker_ends_uses_its_attempts(window: int, *, closed: bool) -> None:
    """It goes when it comes again, and is not delivered once more; its key and the others go on."""
    policy = KeyPolicy(window=window, dead_letter_after=3)
    rig = rig_of(policy)
    for _ in range(policy.dead_letter_after + closed):
        rig.entries(A, 1, 2)
        rig.entries(B, 3)
        rig.now += 1
        assert given_up(rig) == []
        assert rig.got("c1")[0] == 1
        rig.leave("c1", closed=closed)
        rig = next_life(rig, policy)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    assert rig.got("c1") == [3]
    assert publish(rig) == [1]
    assert rig.acked_upstream() == [1]
    assert rig.got("c1") == [2]


@pytest.mark.parametrize("kept", [1, 100])
def test_a_chunked_message_goes_whole_in_the_next_life_too(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """Also if it has more chunks than are kept."""
    monkeypatch.setattr(recall, "MESSAGES_MAX", kept)
    policy = KeyPolicy(dead_letter_after=2)
    rig = rig_of(policy)
    for _ in range(2):
        for number in range(3):
            rig.chunk(1 + number, A, "u", number, 3)
        rig.entries(A, 4)
        assert rig.got("c1") == [1, 2, 3, 4]
        rig.now += 1
        rig.leave("c1")
        rig = next_life(rig, policy)
    for number in range(3):
        rig.chunk(1 + number, A, "u", number, 3)
    rig.entries(A, 4)
    assert rig.got("c1") == []
    assert publish(rig) == [1, 2, 3]
    assert rig.acked_upstream() == [1, 2, 3]
    assert rig.got("c1") == [4]


def chunked_and_given_up(lives: int = 1) -> Rig:
    """A life in which the chunks 1 to 3 of a message come that an earlier one was to dead-letter; 1 and 2 have come."""
    policy = KeyPolicy(dead_letter_after=1)
    rig = rig_of(policy)
    for number in range(3):
        rig.chunk(1 + number, A, "u", number, 3)
    rig.got("c1")
    rig.leave("c1")
    for _ in range(lives):
        rig = next_life(rig, policy)
        for number in range(2):
            rig.chunk(1 + number, A, "u", number, 3)
    return rig


def end(rig: Rig) -> None:
    """As who publishes does at the end of a turn."""
    for part in rig.dispatcher.diversions.take_ended():
        arrived(rig.dispatcher, part, rig.now)


@pytest.mark.parametrize("lives", [1, 2])
def test_no_chunk_is_acknowledged_before_the_dead_letter_topic_has_its_message(lives: int) -> None:
    """Else a gateway that ends before the last comes again leaves a part of the message in either topic."""
    rig = chunked_and_given_up(lives)
    assert publish(rig) == [1, 2]
    assert rig.acked_upstream() == []
    rig.chunk(3, A, "u", 2, 3)
    assert publish(rig) == [3]
    assert rig.acked_upstream() == [1, 2, 3]


def test_a_message_that_its_producer_begins_anew_is_not_waited_for() -> None:
    """It sends them again after it has reconnected: what has gone of the first time is done, and its key goes on."""
    rig = chunked_and_given_up()
    assert publish(rig) == [1, 2]
    for number in range(3):
        rig.chunk(4 + number, A, "u", number, 3)
    end(rig)
    assert publish(rig) == []
    assert rig.acked_upstream() == [1, 2]
    assert rig.got("c1") == [4, 5, 6]


def test_a_last_chunk_that_no_worker_had_is_waited_for_no_further_than_its_place() -> None:
    """Nothing is kept of it but where it was."""
    policy = KeyPolicy(dead_letter_after=1)
    rig = rig_of(policy)
    rig.dispatcher.workers[1].permits = 2
    for number in range(3):
        rig.chunk(1 + number, A, "u", number, 3)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1, 2)
    rig = next_life(rig, policy)
    assert set(rig.dispatcher.diversions.earlier) == {pack(LEDGER, 1), pack(LEDGER, 2)}
    for number in range(2):
        rig.chunk(1 + number, A, "u", number, 3)
    assert publish(rig) == [1, 2]
    assert rig.acked_upstream() == []
    rig.entries(A, 4)
    end(rig)
    assert publish(rig) == []
    assert rig.acked_upstream() == [1, 2]
    assert rig.got("c1") == [4]
    assert not rig.dispatcher.diversions.knows_some


@pytest.mark.parametrize("stored", [False, True])
def test_a_chunk_that_does_not_come_again_is_not_waited_for(*, stored: bool) -> None:
    """It was skipped, or has expired: what comes later shows that. The key goes on."""
    rig = chunked_and_given_up()
    assert (publish(rig) if stored else []) == ([1, 2] if stored else [])
    rig.entries(A, 4)
    assert rig.got("c1") == []
    end(rig)
    assert publish(rig) == ([] if stored else [1, 2])
    assert rig.acked_upstream() == [1, 2]
    assert rig.got("c1") == [4]


def test_a_message_that_comes_again_tells_how_often_it_had_come_back() -> None:
    """As if the subscription had gone on."""
    rig = rig_of(THRICE)
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.nack("c1", 1)
    rig.got("c1")
    rig.leave("c1")
    rig = next_life(rig, THRICE)
    rig.entries(A, 1, 2)
    assert [(each.attempts, each.redeliveries, each.attempts_used) for each in rig.units("c1")] == [
        (3, 2, 1),
        (2, 1, 1),
    ]


def test_of_a_batch_that_comes_again_each_message_is_delivered_alone() -> None:
    """So the poisoned one is found, as within one life."""
    rig = rig_of(TWICE)
    rig.batch(1, A, 3)
    assert rig.got("c1") == [1]
    rig.leave("c1")
    rig = next_life(rig, TWICE)
    rig.batch(1, A, 3)
    assert rig.got("c1") == [(1, (0,)), (1, (1,)), (1, (2,))]
    rig.ack("c1", (1, (0,)))
    rig.leave("c1")
    rig = next_life(rig, TWICE)
    rig.batch(1, A, 3)
    assert publish(rig) == [(1, (1,))]
    assert rig.got("c1") == [(1, (0,)), (1, (2,))]
    rig.ack("c1", (1, (0,)), (1, (2,)))
    assert rig.acked_upstream() == [1]
    assert not rig.dispatcher.outstanding.bytes_held


def test_a_batch_that_cannot_be_opened_has_its_attempts_as_one() -> None:
    """Encrypted, for instance."""
    rig = rig_of(TWICE)
    for _ in range(2):
        rig.opaque(1, A, 3)
        assert rig.got("c1") == [1]
        rig.leave("c1")
        rig = next_life(rig, TWICE)
    rig.opaque(1, A, 3)
    assert publish(rig) == [1]


def test_a_key_whose_parking_was_cut_short_is_parked_when_its_message_comes_again() -> None:
    """The parking topic may know nothing of it yet."""
    policy = KeyPolicy(park_after=1)
    rig = rig_of(policy)
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.leave("c1")
    assert rig.dispatcher.diversions.parked == {A}
    rig = next_life(rig, policy)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == []
    assert rig.dispatcher.diversions.parked == {A}


def test_what_was_acknowledged_is_forgotten_and_what_has_not_come_yet_is_not() -> None:
    """Of an earlier life, too: a worker may leave before the broker has sent anything."""
    rig = rig_of(THRICE)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    rig.got("c1")
    rig.leave("c1")
    rig.join("c1", 100)
    rig.ack("c1", 1)
    rig.leave("c1")
    kept = attempts_of(rig.dispatcher)
    assert list(kept) == [pack(LEDGER, 2), pack(LEDGER, 3)]
    assert attempts_of(next_life(rig, THRICE).dispatcher) == kept


def test_chunks_that_park_their_key_again_wait_for_what_a_worker_has_of_it() -> None:
    """An older message came first, and may be given back: then it goes before them."""
    policy = KeyPolicy(park_after=1)
    rig = rig_of(policy)
    for index in range(3):
        rig.chunk(1 + index, A, "u", index, 3)
    assert rig.got("c1") == [1, 2, 3]
    rig.leave("c1")
    rig = next_life(rig, policy)
    lot = Lot(rig)
    rig.entries(A, 0)
    assert rig.got("c1") == [0]
    for index in range(3):
        rig.chunk(1 + index, A, "u", index, 3)
        assert lot.turn() == []
    rig.leave("c1")
    assert lot.turn() == [0, 1, 2, 3]


def test_what_the_broker_does_not_send_any_more_is_forgotten() -> None:
    """It was skipped, or has expired; what comes later is delivered without a look at it."""
    rig = rig_of(THRICE)
    rig.dispatcher.diversions.remember(dict(ONCE))
    rig.entries(A, 0)
    assert rig.dispatcher.diversions.earlier
    rig.entries(A, 2)
    assert not rig.dispatcher.diversions.earlier
    assert rig.got("c1") == [0, 2]


def test_a_seek_gives_all_attempts_anew() -> None:
    """The messages are wanted again."""
    rig = rig_of(THRICE)
    rig.entries(A, 1)
    rig.got("c1")
    rig.dispatcher.diversions.remember({pack(LEDGER, 2): ONCE[pack(LEDGER, 1)]})
    reposition.reset(rig.dispatcher, rig.now)
    assert attempts_of(rig.dispatcher) == {}


def test_without_a_bound_of_attempts_nothing_is_kept() -> None:
    """Nor of what was never delivered."""
    rig = rig_of(NO_POLICY)
    rig.entries(A, 1)
    rig.got("c1")
    rig.leave("c1")
    assert attempts_of(rig.dispatcher) == {}
    rig = rig_of(THRICE)
    rig.leave("c1")
    rig.entries(A, 1)
    assert attempts_of(rig.dispatcher) == {}


def test_those_with_the_most_attempts_are_kept() -> None:
    """A subscription may have tens of thousands. The first of all was tried by the worker that left."""
    rig = rig_of(THRICE)
    rig.join("c2", 10_000)
    rig.entries(A, *range(2 * MESSAGES_MAX))
    rig.got("c2")
    rig.nack("c2", 150)
    rig.leave("c2")
    assert [entry_of(position) for position in attempts_of(rig.dispatcher)] == [0, 150, *range(1, MESSAGES_MAX - 1)]


def test_what_is_kept_is_taken_once_and_within_its_time() -> None:
    """By whom it is of."""
    book = EarlierAttempts()
    book.keep(KEY, dict(ONCE), 10.0)
    assert book.take(("topic", "other"), 10.0) == {}
    assert book.take(KEY, 10.0 + KEPT_S - 1) == ONCE
    assert book.take(KEY, 10.0) == {}
    book.keep(KEY, dict(ONCE), 10.0)
    assert book.take(KEY, 10.0 + KEPT_S) == {}
    assert len(book) == 0


def test_a_subscription_that_ends_with_nothing_is_forgotten_and_so_are_the_oldest() -> None:
    """Clients choose names, and need not come again."""
    book = EarlierAttempts()
    book.keep(KEY, dict(ONCE), 0.0)
    book.keep(KEY, {}, 0.0)
    assert len(book) == 0
    for number in range(SUBSCRIPTIONS_MAX + 1):
        book.keep(("topic", str(number)), dict(ONCE), 1.0)
    assert len(book) == SUBSCRIPTIONS_MAX
    assert book.take(("topic", "0"), 1.0) == {}
    assert book.take(("topic", "1"), 1.0) == ONCE
    book.keep(KEY, dict(ONCE), 1.0 + KEPT_S)
    assert len(book) == 1
