"""Producers that wait for a topic: what their clients and the broker hear, frame by frame."""

from __future__ import annotations

import pytest

from proxy.limits import Limits
from proxy.net.election.back_off import EXPECTED_S_MAX, REFUSED_S_MAX, RETURN_TRIES_S, UNAVAILABLE_S_MIN
from proxy.net.election.broker_queue import ABANDONED_MAX, ABANDONED_S_MAX, AWAKE_S_MIN, PROMOTION_S_MAX
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.relay.closing import BROKEN_S, CLOSE_ANSWER_S_MAX
from proxy.net.relay.requests import OWN_REQUESTS
from proxy.net.session.end_cause import EndCause
from proxy.net.session.producers import UNREAD_S_MAX
from proxy.wire import pulsar_pb2 as pb
from tests.net.producer_rig import (
    EXCLUSIVE,
    FENCE,
    TOPIC,
    WAIT,
    ProducerRig,
    answers,
    asked,
    close,
    error,
    not_ready,
    ready,
    taken_off,
    want,
)
from tests.net.session_rig import SessionRig, T, encode, lookup, message, parse, success

GRACE_S = 3.0


def first_withdrawal(client: SessionRig) -> int:
    """The id of the request by which the gateway takes this client's producer back."""
    ((kind, request_id),) = asked(client)
    assert kind == "CLOSE_PRODUCER"
    assert request_id > OWN_REQUESTS
    return request_id


# ---- who is asked for, and what is told


def test_the_first_is_asked_for_at_once_and_hears_only_the_broker() -> None:
    """Its request goes on as it came, and so does the answer."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    frame = want(7, 5)
    a.client.deliver(frame)
    assert a.broker.take() == frame
    assert answers(a) == []
    answer = ready(7, name="standalone-0-1", epoch=3)
    a.broker.deliver(answer)
    assert a.client.take() == answer
    owner = rig.page().summary.owner
    assert owner is not None
    assert (owner.producer_name, owner.priority, owner.topic_epoch, owner.access_mode) == (
        "standalone-0-1",
        5,
        3,
        "wait_for_exclusive",
    )


def test_others_are_held_and_told_so() -> None:
    """Nothing of them reaches the broker while one of ours owns the topic."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, 1))
    c.client.deliver(want(30, 2))
    assert answers(b) == [(20, "queued")]
    assert answers(c) == [(30, "queued")]
    assert asked(b) == asked(c) == []
    assert [(item.position, item.priority, item.stage) for item in rig.page().waiting] == [
        (0, 2, "waiting"),
        (1, 1, "waiting"),
    ]


def test_the_highest_is_promoted_when_the_owner_closes() -> None:
    """Once the broker has confirmed that; on its own connection, with its own request id."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, -1))
    c.client.deliver(want(30))
    rig.kinds()
    a.client.deliver(close(11))
    assert asked(a) == [("CLOSE_PRODUCER", 11)]
    assert asked(c) == []
    a.broker.deliver(success(11))
    assert answers(a) == [(11, "success")]
    assert asked(b) == []
    assert asked(c) == [("PRODUCER", 30)]
    c.take_all()
    rig.clock.advance(0.25)
    c.broker.deliver(ready(30, name="c", epoch=1))
    assert answers(c) == [(30, "ready")]
    assert rig.kinds() == ["producer_left", "producer_promoted"]
    counters = rig.elections.summary().counters
    assert (counters.promotions_total, counters.vacancy_seconds_total) == (2, 0.25)


def test_among_equals_the_first_come_is_the_first_served() -> None:
    """As ever, where nobody says a priority."""
    rig = ProducerRig(4)
    a, *others = rig.clients
    rig.owner(a)
    for number, client in enumerate(others):
        client.client.deliver(want(20 + number))
    a.client.lose()
    assert [asked(client) for client in others] == [[("PRODUCER", 20)], [], []]


def test_an_owner_is_never_replaced_by_a_better_one() -> None:
    """It comes to nothing but waiting."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, 2**31 - 1))
    assert answers(b) == [(20, "queued")]
    assert asked(a) == asked(b) == []


@pytest.mark.parametrize(
    "code", [pb.ProducerFenced, pb.ProducerBusy, pb.IncompatibleSchema, pb.NotAllowedError, pb.AuthorizationError]
)
def test_when_the_promoted_one_fails_the_next_is_tried(code: int) -> None:
    """Whatever the reason: until one holds the topic or nobody waits; each of them hears its own."""
    rig = ProducerRig(4)
    a, b, c, d = rig.clients
    rig.owner(a)
    for number, client in enumerate((b, c, d)):
        client.client.deliver(want(20 + number))
        client.take_all()
    a.client.lose()
    b.broker.deliver(error(20, code))
    assert answers(b) == [(20, pb.ServerError.Name(code))]
    c.broker.deliver(error(21, code))
    assert asked(d) == [("PRODUCER", 22)]
    d.broker.deliver(ready(22, epoch=1))
    assert answers(d) == [(22, "ready")]
    assert rig.elections.summary().counters.failed_promotions_total == 2


def test_all_that_wait_for_a_topic_that_was_terminated_are_told() -> None:
    """A broker says it to one, and lets whoever asks next wait for ever."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    for number, client in enumerate((b, c)):
        client.client.deliver(want(20 + number))
        client.take_all()
    a.client.lose()
    b.broker.deliver(error(20, pb.TopicTerminatedError))
    assert answers(b) == [(20, "TopicTerminatedError")]
    assert answers(c) == [(21, "TopicTerminatedError")]
    assert asked(c) == []
    assert taken_off(a) == [1]
    assert rig.elections.summary().waiting_bytes == rig.elections.summary().topics_count == 0


def test_a_promoted_client_that_goes_leads_to_the_next() -> None:
    """At whatever moment its connection breaks."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    c.client.deliver(want(30))
    a.client.lose()
    assert asked(b) == [("PRODUCER", 20)]
    b.client.lose()
    assert asked(c) == [("PRODUCER", 30)]


# ---- behind somebody that is not connected here


def test_one_that_waits_at_the_broker_is_told_once() -> None:
    """Also when the broker says it, having been asked again."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    a.client.deliver(want(10))
    a.broker.deliver(not_ready(10, name="named"))
    assert answers(a) == [(10, "queued")]
    a.broker.deliver(ready(10, epoch=4))
    assert answers(a) == [(10, "ready")]


def test_a_better_one_gets_the_turn_of_the_one_at_the_broker() -> None:
    """Whose client hears nothing of it, and whose request is put again later."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.client.deliver(want(10, 1))
    a.broker.deliver(not_ready(10))
    a.take_all()
    b.client.deliver(want(20, 2))
    assert answers(b) == [(20, "queued")]
    assert asked(a) == asked(b) == []
    a.broker.deliver(ready(10, epoch=1))
    withdrawal = first_withdrawal(a)
    assert answers(a) == []
    a.broker.deliver(success(withdrawal))
    assert answers(a) == []
    assert asked(b) == [("PRODUCER", 20)]
    b.broker.deliver(ready(20, epoch=2))
    assert answers(b) == [(20, "ready")]
    b.client.lose()
    assert asked(a) == [("PRODUCER", 10)]
    a.broker.deliver(ready(10, epoch=3))
    assert answers(a) == [(10, "ready")]


def test_a_client_may_close_what_is_being_taken_back() -> None:
    """It is told that this has succeeded; the broker's word on it is not passed on."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.client.deliver(want(10))
    a.broker.deliver(not_ready(10))
    b.client.deliver(want(20, 2))
    a.take_all()
    a.broker.deliver(ready(10, epoch=1))
    withdrawal = first_withdrawal(a)
    a.client.deliver(close(11))
    assert answers(a) == [(11, "success")]
    a.broker.deliver(success(withdrawal))
    assert answers(a) == []
    assert asked(a) == []
    assert asked(b) == [("PRODUCER", 20)]


def test_who_fences_does_not_meet_what_is_being_taken_back() -> None:
    """Though its client has closed it meanwhile: the broker has not answered."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10))
    a.broker.deliver(not_ready(10))
    b.client.deliver(want(20, 2))
    a.take_all()
    a.broker.deliver(ready(10, epoch=1))
    withdrawal = first_withdrawal(a)
    c.client.deliver(want(30, mode=FENCE))
    a.client.deliver(close(11))
    assert asked(c) == []
    a.broker.deliver(success(withdrawal))
    assert asked(c) == [("PRODUCER", 30)]


def test_the_broker_goes_while_one_is_taken_back() -> None:
    """The connection stays for its workers: it waits here again, and its client is told nothing."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.worker()
    a.client.deliver(want(10))
    a.broker.deliver(not_ready(10))
    b.client.deliver(want(20, 2))
    a.take_all()
    a.broker.deliver(ready(10, epoch=1))
    first_withdrawal(a)
    a.broker.lose()
    assert answers(a) == []
    assert asked(b) == [("PRODUCER", 20)]
    assert [item.stage for item in rig.page().waiting] == ["asked", "waiting"]


# ---- producer


def test_one_that_is_held_closes_without_the_broker() -> None:
    """Which never heard of it."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    b.client.deliver(close(21))
    assert answers(b) == [(20, "queued"), (21, "success")]
    assert asked(b) == []
    assert rig.page().waiting == ()
    assert rig.elections.summary().waiting_bytes == 0


def test_one_that_was_asked_for_closes_at_the_broker() -> None:
    """Nobody else is asked for until that is confirmed, whatever is said first."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.client.deliver(want(10))
    b.client.deliver(want(20))
    a.client.deliver(close(11))
    a.broker.deliver(ready(10, epoch=0))
    assert asked(a) == [("PRODUCER", 10), ("CLOSE_PRODUCER", 11)]
    assert asked(b) == []
    a.broker.deliver(success(11))
    assert answers(a) == [(10, "ready"), (11, "success")]
    assert asked(b) == [("PRODUCER", 20)]


@pytest.mark.parametrize("answer", [ready(10), not_ready(10)], ids=["ready", "queued"])
def test_a_close_waits_for_the_answer_to_the_creation(answer: bytes) -> None:
    """A broker that is creating a producer may confirm a close, and create it all the same (seen with 4.2.4)."""
    a, b = (rig := ProducerRig(2)).clients
    a.client.deliver(want(10))
    b.client.deliver(want(20))
    a.client.deliver(close(11))
    assert asked(a) == [("PRODUCER", 10)]
    a.broker.deliver(answer)
    assert asked(a) == [("CLOSE_PRODUCER", 11)]
    a.broker.deliver(success(11))
    assert answers(a)[-1] == (11, "success")
    assert asked(b) == [("PRODUCER", 20)]
    assert rig.page().waiting[0].stage == "asked"


def test_a_close_that_waited_for_a_refusal_is_answered_here() -> None:
    """The broker has nothing to close."""
    a, b = ProducerRig(2).clients
    a.client.deliver(want(10))
    b.client.deliver(want(20))
    a.client.deliver(close(11))
    a.broker.deliver(error(10))
    assert asked(a) == [("PRODUCER", 10)]
    assert sorted(answers(a)) == [(10, "ProducerBusy"), (11, "success")]
    assert asked(b) == [("PRODUCER", 20)]


@pytest.mark.parametrize("mode", [WAIT, EXCLUSIVE, FENCE])
def test_the_answer_to_an_earlier_close_ends_no_later_producer_of_its_id(mode: int) -> None:
    """A client may close an id that the broker does not know, and use it at once."""
    a, b = ProducerRig(2).clients
    a.client.deliver(close(9) + want(10, mode=mode) + close(11))
    b.client.deliver(want(20))
    assert asked(a) == [("CLOSE_PRODUCER", 9), ("PRODUCER", 10)]
    a.broker.deliver(success(9))
    assert asked(a) == []
    assert asked(b) == []
    a.broker.deliver(ready(10))
    assert asked(a) == [("CLOSE_PRODUCER", 11)]
    a.broker.deliver(success(11))
    assert answers(a) == [(9, "success"), (10, "ready"), (11, "success")]
    assert asked(b) == [("PRODUCER", 20)]


def test_a_close_that_a_promotion_crosses_ends_the_producer() -> None:
    """It waited at the broker; the gateway takes it back for a better one, and its client has closed it already."""
    waiter, better = (rig := ProducerRig(2)).clients
    waiter.client.deliver(want(10))
    waiter.broker.deliver(not_ready(10))
    better.client.deliver(want(20, 2))
    waiter.take_all()
    waiter.client.deliver(close(11))
    waiter.broker.deliver(ready(10))
    (_, passed), (_, own) = asked(waiter)
    assert (passed, own > OWN_REQUESTS) == (11, True)
    waiter.broker.deliver(success(11) + success(own))
    assert (11, "success") in answers(waiter)
    assert [each.priority for each in rig.page().waiting] == [2]


def test_an_owner_ends_by_the_first_of_two_closes_if_the_second_is_refused() -> None:
    """Too many of its requests have no answer."""
    rig = ProducerRig(1)
    owner, (other,) = rig.client(Limits(relayed_requests_max=1)), rig.clients
    owner.client.deliver(want(10))
    owner.broker.deliver(ready(10))
    owner.client.deliver(close(11) + close(12))
    owner.broker.deliver(success(11))
    other.client.deliver(want(20))
    assert asked(other) == [("PRODUCER", 20)]


def test_a_producer_that_is_asked_for_behind_the_close_of_its_id_is_told_when_the_broker_is_lost() -> None:
    """As Java's client does whose creation timed out."""
    (a,) = ProducerRig(1).clients
    a.worker()
    a.client.deliver(want(10, mode=pb.Shared) + close(11) + want(12, mode=pb.Shared))
    a.broker.deliver(success(11) + ready(12))
    a.take_all()
    a.broker.lose()
    assert (1, "closed") in answers(a)


def test_a_close_of_one_that_waits_for_a_fencer_is_answered_at_once() -> None:
    """The broker never heard of it."""
    a, b = ProducerRig(2).clients
    b.client.deliver(want(20, mode=FENCE))
    a.client.deliver(want(10) + close(11))
    assert answers(a) == [(11, "success")]
    b.broker.deliver(ready(20))
    b.client.deliver(close(21))
    b.broker.deliver(success(21))
    assert asked(a) == []


@pytest.mark.parametrize("mode", [EXCLUSIVE, FENCE])
def test_one_that_takes_the_topic_behind_a_fencer_may_be_closed_and_asked_for_anew(mode: pb.ProducerAccessMode) -> None:
    """As Java's client does when its time is up: the broker never heard of the first, and is asked for the second."""
    a, b = ProducerRig(2).clients
    b.client.deliver(want(20, mode=FENCE))
    assert asked(b) == [("PRODUCER", 20)]
    a.client.deliver(want(10, mode=mode) + want(11, mode=mode))
    assert answers(a) == [(11, "ServiceNotReady")]
    a.client.deliver(close(12) + want(13, mode=mode))
    assert (asked(a), answers(a)) == ([], [(12, "success")])
    b.broker.deliver(ready(20))
    assert asked(a) == [("PRODUCER", 13)]
    a.broker.deliver(ready(13))
    assert answers(a) == [(13, "ready")]
    a.client.deliver(close(14))
    assert asked(a) == [("CLOSE_PRODUCER", 14)]


def test_a_second_close_answers_the_first() -> None:
    """Of a client that says it twice before the broker has answered: one is kept, and each is answered once."""
    (a,) = ProducerRig(1).clients
    a.client.deliver(want(10) + close(11) + close(12))
    assert answers(a) == [(11, "success")]
    a.broker.deliver(not_ready(10) + success(12))
    assert asked(a) == [("PRODUCER", 10), ("CLOSE_PRODUCER", 12)]
    assert answers(a) == [(10, "queued"), (12, "success")]


def test_a_close_that_waited_is_answered_when_the_broker_is_lost() -> None:
    """Nothing of the producer is left there."""
    (a,) = (rig := ProducerRig(1)).clients
    a.worker()
    a.client.deliver(want(10) + close(11))
    a.broker.lose()
    assert (11, "success") in answers(a)
    assert rig.page().waiting == ()


def test_the_same_producer_id_may_be_used_anew() -> None:
    """After a close; and before it the client is told as a broker tells it."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20) + want(21))
    assert answers(b) == [(20, "queued"), (21, "ServiceNotReady")]
    b.client.deliver(close(22) + want(23, 4))
    assert answers(b) == [(22, "success"), (23, "queued")]
    assert [item.priority for item in rig.page().waiting] == [4]


def test_an_owner_that_asks_again_is_the_brokers_to_answer() -> None:
    """A client that gave up waiting for the answer; the election is not touched by it."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    rig.owner(a)
    a.client.deliver(want(11))
    assert asked(a) == [("PRODUCER", 11)]
    a.broker.deliver(ready(11, epoch=None))
    assert answers(a) == [(11, "ready")]
    assert rig.elections.summary().counters.arrivals_total == 1


# ---- priorities


@pytest.mark.parametrize(
    ("text", "field", "priority"),
    [
        ("7", None, 7),
        ("-7", None, -7),
        ("+7", None, 7),
        ("007", None, 7),
        ("2147483647", None, 2**31 - 1),
        ("-2147483648", None, -(2**31)),
        (None, None, 0),
        (None, -3, -3),
        ("9", -3, -3),
        ("nonsense", 4, 4),
    ],
)
def test_the_priority_is_read(text: str | None, field: int | None, priority: int) -> None:
    """From the property or the field, which counts if both are there."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, text, field=field))
    assert [item.priority for item in rig.page().waiting] == [priority]


@pytest.mark.parametrize("text", ["", "high", "1.5", "1e3", "2147483648", "-2147483649", "--1", "1 ", "٣", "9" * 5_000])
def test_a_priority_that_is_none_is_refused(text: str) -> None:
    """With what was given and what would be right; nobody else notices."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    a.client.deliver(want(10, text))
    (command,) = a.to_client()
    assert (command.error.request_id, command.error.error) == (10, pb.NotAllowedError)
    assert f"keyline.queue-priority={text[:40]!r}" in command.error.message
    assert "-2147483648 to 2147483647" in command.error.message
    assert asked(a) == []
    assert rig.elections.find(TOPIC) is None


def test_a_misspelt_property_is_refused() -> None:
    """One that is meant for the gateway and that it does not know."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    body = pb.CommandProducer(topic="x", producer_id=1, request_id=1, producer_access_mode=pb.WaitForExclusive)
    body.metadata.add(key="keyline.priority", value="1")
    a.client.deliver(encode(T.PRODUCER, body))
    (command,) = a.to_client()
    known = "those for the gateway are: keyline.queue-priority"
    assert command.error.message == f"no such producer property: keyline.priority; {known}"


@pytest.mark.parametrize("mode", [pb.Shared, EXCLUSIVE, FENCE])
def test_other_access_modes_have_no_priority(mode: int) -> None:
    """Whatever they say of one goes to the broker, which does not care."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    frame = want(10, "nonsense", mode=mode)
    a.client.deliver(frame)
    assert a.broker.take() == frame


# ---- those that do not wait


def test_fencing_takes_the_owners_place_and_not_that_of_those_who_wait() -> None:
    """They stand as they did; the best of them waits at the broker behind the new owner."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    b.take_all()
    c.client.deliver(want(30, mode=FENCE))
    c.broker.deliver(ready(30, name="fencer", epoch=1))
    assert answers(c) == [(30, "ready")]
    assert asked(b) == [("PRODUCER", 20)]
    b.broker.deliver(not_ready(20))
    assert answers(b) == []
    owner = rig.page().summary.owner
    assert owner is not None
    assert (owner.producer_name, owner.access_mode, owner.priority) == ("fencer", "exclusive_with_fencing", None)
    assert rig.elections.summary().counters.fencings_total == 1
    c.client.lose()
    assert rig.page().summary.owner is None
    b.broker.deliver(ready(20, epoch=2))
    assert answers(b) == [(20, "ready")]


def test_who_fences_does_not_meet_an_owner_that_closes() -> None:
    """A broker that gets both at once may lock itself up: the later of the two waits for the answer."""
    for first in ("close", "fence"):
        rig = ProducerRig(3)
        a, b, c = rig.clients
        rig.owner(a)
        b.client.deliver(want(20))
        b.take_all()
        orders = {"close": (a, close(11)), "fence": (c, want(30, mode=FENCE))}
        for name in sorted(orders, key=lambda name: name != first):
            client, frame = orders[name]
            client.client.deliver(frame)
        if first == "close":
            assert asked(c) == []
            a.broker.deliver(success(11))
            assert asked(c) == [("PRODUCER", 30)], "it came before the turn of those that wait"
            assert asked(b) == []
            c.broker.deliver(ready(30, name="fencer", epoch=1))
            assert asked(b) == [("PRODUCER", 20)]
        else:
            assert asked(a) == []
            c.broker.deliver(ready(30, name="fencer", epoch=1))
            assert asked(a) == [("CLOSE_PRODUCER", 11)]
            a.broker.deliver(success(11))
            assert answers(a) == [(11, "success")]


@pytest.mark.parametrize("mode", [FENCE, EXCLUSIVE, WAIT])
@pytest.mark.parametrize("asked_first", [True, False])
def test_an_answer_that_is_left_unread_holds_up_others_for_seconds(mode: int, *, asked_first: bool) -> None:
    """It need not have a right to the topic for that; its connection goes, and whatever it may have is closed."""
    rig = ProducerRig(2)
    stuck, fair = rig.clients
    if not asked_first:
        stuck.client.set_writable(writable=False)
    stuck.client.deliver(want(10, mode=mode))
    stuck.client.set_writable(writable=False)
    assert asked(stuck) == [("PRODUCER", 10)]
    fair.client.deliver(want(20, mode=FENCE))
    rig.clock.advance(2 * UNREAD_S_MAX)
    assert stuck.session.cause is EndCause.READS_NOTHING
    stuck.broker.deliver(error(10, pb.AuthorizationError))
    rig.clock.advance(CLOSE_ANSWER_S_MAX + BROKEN_S)
    assert asked(fair) == [("PRODUCER", 20)]


def test_a_client_that_leaves_other_things_unread_stays() -> None:
    """Others wait for nothing of it, or for what the broker has not answered yet."""
    rig = ProducerRig(2)
    slow, fair = rig.clients
    rig.owner(slow)
    fair.client.deliver(want(20))
    slow.client.set_writable(writable=False)
    rig.clock.advance(2 * UNREAD_S_MAX)
    slow.client.set_writable(writable=True)
    fair.client.deliver(want(21, producer_id=2, mode=FENCE))
    rig.clock.advance(2 * UNREAD_S_MAX)
    assert slow.session.cause is None
    assert fair.session.cause is None


def test_who_fences_waits_for_a_promotion_and_for_others_that_fence() -> None:
    """And what it waited for goes on when it has gone itself."""
    rig = ProducerRig(4)
    a, b, c, d = rig.clients
    a.client.deliver(want(10))
    for number, client in enumerate((b, c)):
        client.client.deliver(want(20 + number, mode=FENCE))
    assert asked(a) == [("PRODUCER", 10)]
    assert asked(b) == asked(c) == []
    a.broker.deliver(ready(10))
    assert asked(b) == [("PRODUCER", 20)]
    assert asked(c) == []
    d.client.deliver(want(30, mode=EXCLUSIVE))
    c.client.lose()
    b.client.lose()
    assert taken_off(b) == []
    assert asked(d) == []
    b.broker.deliver(error(20, pb.ProducerFenced))
    assert asked(d) == [("PRODUCER", 30)]
    d.broker.deliver(error(30, pb.ProducerFenced))
    assert answers(d) == [(30, "ProducerFenced")]
    d.client.lose()
    a.client.lose()
    assert taken_off(a) == [1]
    assert rig.elections.summary().topics_count == 0


def test_who_fences_does_not_meet_an_owner_whose_connection_broke() -> None:
    """The broker is to say that it has taken it off; whoever waits is asked for all the same."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    a.client.lose()
    assert asked(b) == [("PRODUCER", 20)]
    b.broker.deliver(ready(20, epoch=1))
    c.client.deliver(want(30, mode=FENCE))
    assert asked(c) == []
    closing = [a.broker.closing]
    assert taken_off(a) == [1]
    assert [*closing, a.broker.closing] == [False, True]
    assert asked(c) == [("PRODUCER", 30)]


@pytest.mark.parametrize("silent", [True, False])
def test_a_broker_that_does_not_say_so_is_given_time(*, silent: bool) -> None:
    """One that says nothing is not waited for; where the connection breaks, it has seen that."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a)
    a.client.lose()
    b.client.deliver(want(20, mode=FENCE))
    if silent:
        rig.clock.advance(CLOSE_ANSWER_S_MAX)
        assert a.broker.closing
    else:
        a.broker.lose()
    assert asked(b) == []
    rig.clock.advance(BROKEN_S)
    assert asked(b) == [("PRODUCER", 20)]


def test_one_that_waits_for_its_turn_to_be_closed_keeps_the_connection() -> None:
    """It would break into what it waits for. All else of the client is closed at once."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.relayed_producer(5)
    a.relayed_consumer(6)
    rig.owner(a)
    b.client.deliver(want(20, mode=FENCE))
    a.client.lose()
    assert [(T.Type.Name(command.type)) for command in a.to_broker()] == ["CLOSE_PRODUCER", "CLOSE_CONSUMER"]
    rig.clock.advance(2 * CLOSE_ANSWER_S_MAX)
    assert not a.broker.closing
    b.broker.deliver(ready(20, epoch=1))
    assert taken_off(a) == [1]
    assert a.broker.closing


@pytest.mark.parametrize("silent", [True, False])
def test_nobody_passes_a_close_that_waited_for_a_connection_that_broke(*, silent: bool) -> None:
    """The broker's time for a close begins when the close is sent, and a client that came later waits all that time."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    a.broker.deliver(ready(10))
    b.client.deliver(want(20, mode=EXCLUSIVE))
    a.client.lose()
    b.broker.lose()
    c.client.deliver(want(30, mode=FENCE))
    a.take_all()
    rig.clock.advance(BROKEN_S)
    assert asked(c) == []
    if silent:
        rig.clock.advance(CLOSE_ANSWER_S_MAX)
        assert a.broker.closing
        assert asked(c) == []
        rig.clock.advance(BROKEN_S)
    else:
        rig.clock.advance(CLOSE_ANSWER_S_MAX / 2)
        assert asked(c) == []
        assert taken_off(a) == [1]
    assert asked(c) == [("PRODUCER", 30)]


def test_a_fencing_that_is_answered_when_its_client_has_gone_ends_who_had_the_topic() -> None:
    """Also one that had not waited; a broker tells nobody."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    a.broker.deliver(ready(10))
    b.client.deliver(want(20, mode=FENCE))
    b.client.lose()
    b.broker.deliver(ready(20, epoch=1))
    assert taken_off(b) == [1]
    c.client.deliver(want(30))
    assert asked(c) == [("PRODUCER", 30)]


def test_two_of_one_client_when_the_broker_is_lost_while_one_is_taken_back() -> None:
    """The other is asked for on the way to come, and is not among those that were lost."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    a.worker()
    a.client.deliver(want(1, 1))
    a.broker.deliver(not_ready(1))
    a.client.deliver(want(2, 9, producer_id=2))
    a.broker.deliver(ready(1))
    a.take_all()
    a.broker.lose()
    rig.clock.settle()
    broker = a.reopen()
    (command,) = [each for each in parse(broker.take()) if each.type == T.PRODUCER]
    assert command.producer.request_id == 2
    broker.deliver(ready(2, epoch=4))
    assert (2, "ready") in answers(a)
    assert rig.elections.summary().owners_count == 1


def test_one_that_the_broker_creates_is_closed_when_it_is_there() -> None:
    """Sooner a broker would say that it is closed, and create it all the same."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.client.deliver(want(10) + want(11, producer_id=2, topic="another") + want(12, producer_id=3, topic="third"))
    a.take_all()
    b.client.deliver(want(20, mode=FENCE))
    a.client.deliver(close(13, producer_id=3))
    a.take_all()
    a.client.lose()
    assert taken_off(a) == []
    a.broker.deliver(error(11) + encode(T.AUTH_CHALLENGE, pb.CommandAuthChallenge()) + message(9, 1))
    assert taken_off(a) == []
    assert asked(b) == []
    a.broker.deliver(ready(10) + not_ready(12))
    assert taken_off(a) == [1, 3]
    assert a.broker.closing
    assert asked(b) == [("PRODUCER", 20)]


def test_who_fences_does_not_meet_an_owner_in_doubt_whose_connection_broke() -> None:
    """Nobody counts on it any more, but the broker may have it still."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, mode=FENCE))
    assert asked(b) == [("PRODUCER", 20)]
    b.client.lose()
    b.broker.deliver(error(20, pb.ServiceNotReady))
    a.client.lose()
    c.client.deliver(want(30, mode=FENCE))
    assert asked(c) == []
    assert taken_off(a) == [1]
    assert asked(c) == [("PRODUCER", 30)]


@pytest.mark.parametrize("told", [True, False])
def test_who_fences_does_not_meet_what_the_broker_promotes_by_itself(*, told: bool) -> None:
    """One that waits there, when whom it waited for has left; for a while only, since it may wait for others."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    b.client.deliver(want(20))
    a.broker.deliver(ready(10))
    b.broker.deliver(not_ready(20))
    a.client.deliver(close(11))
    c.client.deliver(want(30, mode=FENCE))
    a.broker.deliver(success(11))
    assert asked(c) == []
    if told:
        b.broker.deliver(ready(20, epoch=1))
        assert answers(b) == [(20, "queued"), (20, "ready")]
    else:
        rig.clock.advance(PROMOTION_S_MAX)
        rig.show_awake(c)
    assert asked(c) == [("PRODUCER", 30)]


def test_who_fences_does_not_meet_the_promotion_of_one_that_was_asked_for_while_the_owner_left() -> None:
    """Owner and first waiter break together: the broker lets the next wait, which it promotes as it closes them."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    a.broker.deliver(ready(10))
    a.client.deliver(want(11, producer_id=2))
    a.broker.deliver(not_ready(11))
    b.client.deliver(want(20))
    a.client.lose()
    assert asked(b) == [("PRODUCER", 20)]
    b.broker.deliver(not_ready(20))
    c.client.deliver(want(30, mode=FENCE))
    rig.clock.advance(PROMOTION_S_MAX)
    assert taken_off(a) == [2, 1]
    assert asked(c) == []
    b.broker.deliver(ready(20, epoch=2))
    assert asked(c) == [("PRODUCER", 30)]


def come_and_go(client: SessionRig, times: int) -> None:
    """Wait at the broker and leave, so often: the broker keeps each in its queue."""
    for request in range(20, 20 + 2 * times, 2):
        client.client.deliver(want(request))
        client.broker.deliver(not_ready(request))
        client.client.deliver(close(request + 1))
        client.broker.deliver(success(request + 1))


def test_who_fences_does_not_meet_what_the_broker_promotes_for_nobody() -> None:
    """One that left while it waited has its turn all the same; each takes the broker some time."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    a.broker.deliver(ready(10))
    come_and_go(b, 2)
    a.client.deliver(close(11))
    a.broker.deliver(success(11))
    c.client.deliver(want(30, mode=FENCE))
    rig.clock.advance(PROMOTION_S_MAX + ABANDONED_S_MAX)
    assert asked(c) == []
    rig.clock.advance(ABANDONED_S_MAX)
    rig.show_awake(c)
    assert asked(c) == [("PRODUCER", 30)]


def in_doubt(*, worker: bool = False) -> ProducerRig:
    """The second client's producer may be promoted just now: nothing is heard of it. The third is to fence."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    b.client.deliver(want(20))
    a.broker.deliver(ready(10))
    b.broker.deliver(not_ready(20))
    if worker:
        c.worker()
    a.client.deliver(close(11))
    a.broker.deliver(success(11))
    rig.clock.advance(PROMOTION_S_MAX)
    return rig


def fencing_in_doubt(*, worker: bool = False) -> tuple[ProducerRig, SessionRig]:
    """The third client's producer is about to, and the broker is asked."""
    rig = in_doubt(worker=worker)
    rig.clients[2].client.deliver(want(30, mode=FENCE))
    return rig, rig.clients[2]


def test_who_fences_waits_for_a_broker_that_stands_still() -> None:
    """It promotes when it is awake again: so the time for that is the broker's, and shown by an answer of its."""
    rig, c = fencing_in_doubt()
    ((_, number),) = asked(c)
    rig.clock.advance(10.0)
    assert asked(c) == []
    c.broker.deliver(success(number))
    rig.clock.advance(AWAKE_S_MIN / 2)
    rig.clients[1].broker.deliver(ready(20, epoch=1))
    assert asked(c) == []
    rig.clock.advance(AWAKE_S_MIN / 2)
    assert asked(c) == [("PRODUCER", 30)]


def test_who_fences_is_closed_while_the_broker_is_asked() -> None:
    """Nothing is kept of it: a client may do so again and again while a broker stands still."""
    rig = in_doubt()
    c = rig.clients[2]
    before = rig.elections.summary().waiting_bytes
    for number in (30, 40, 50):
        c.client.deliver(want(number, "x" * 10_000, mode=FENCE) + close(number + 1))
        ((_, question),) = asked(c)
        assert answers(c) == [(number + 1, "success")]
        assert rig.elections.summary().waiting_bytes == before
        assert not c.session._parts.producers._ownership_changes._questions  # type: ignore[union-attr]
        c.broker.deliver(success(question))
        rig.clock.advance(PROMOTION_S_MAX)
    c.client.deliver(want(60, mode=FENCE))
    rig.show_awake(c)
    assert asked(c) == [("PRODUCER", 60)]


def test_who_fences_is_gone_while_the_broker_is_asked() -> None:
    """The next begins anew, since the first has got no answer."""
    rig, c = fencing_in_doubt()
    d = rig.client()
    d.client.deliver(want(40, mode=FENCE))
    assert asked(d) == []
    c.client.lose()
    rig.clock.advance(PROMOTION_S_MAX)
    rig.show_awake(d)
    assert asked(d) == [("PRODUCER", 40)]


@pytest.mark.parametrize("asked_first", [True, False])
def test_who_fences_and_leaves_the_brokers_answer_unread_is_ended(*, asked_first: bool) -> None:
    """All others wait for it."""
    rig = in_doubt()
    c = rig.clients[2]
    if not asked_first:
        c.client.set_writable(writable=False)
    c.client.deliver(want(30, mode=FENCE))
    c.client.set_writable(writable=False)
    ((_, number),) = asked(c)
    c.broker.deliver(success(number))
    rig.clock.advance(2 * UNREAD_S_MAX)
    assert c.session.cause is EndCause.READS_NOTHING


def test_who_fences_keeps_its_room_while_the_broker_is_asked() -> None:
    """Its request waits here, for as long as a broker stands still."""
    rig = in_doubt()
    c = rig.clients[2]
    before = rig.elections.summary().waiting_bytes
    frame = want(30, "x" * 10_000, mode=FENCE)
    c.client.deliver(frame)
    assert rig.elections.summary().waiting_bytes > before + len(frame)
    rig.show_awake(c)
    assert asked(c) == [("PRODUCER", 30)]
    assert rig.elections.summary().waiting_bytes == before


def test_who_fences_waits_also_for_what_begins_while_the_broker_is_asked() -> None:
    """The one that was promoted late loses its connection: the broker takes it off by itself."""
    rig = in_doubt()
    _, b, c = rig.clients
    c.client.deliver(want(30, mode=FENCE))
    ((_, number),) = asked(c)
    b.broker.deliver(ready(20, epoch=1))
    c.broker.deliver(success(number))
    rig.clock.advance(AWAKE_S_MIN - BROKEN_S / 2)
    b.broker.lose()
    rig.clock.advance(BROKEN_S / 2)
    assert asked(c) == []
    rig.clock.advance(BROKEN_S / 2)
    assert asked(c) == [("PRODUCER", 30)]


def test_who_fences_is_asked_for_also_if_the_broker_closes_another_of_its_id_meanwhile() -> None:
    """As at an unload: it was not that one."""
    rig = in_doubt()
    c = rig.clients[2]
    c.relayed_producer(1, 50)
    c.client.deliver(close(51) + want(30, mode=FENCE))
    (_, (_, number)) = asked(c)
    c.broker.deliver(close(1) + success(51) + success(number))
    rig.clock.advance(AWAKE_S_MIN)
    assert asked(c) == [("PRODUCER", 30)]


@pytest.mark.parametrize("answered", [False, True])
def test_who_fences_loses_its_broker_while_that_is_asked(*, answered: bool) -> None:
    """Its client is not told: it fences when it is connected again."""
    rig, c = fencing_in_doubt(worker=True)
    ((_, number),) = asked(c)
    if answered:
        c.broker.deliver(success(number))
    c.broker.lose()
    rig.clock.advance(AWAKE_S_MIN)
    assert answers(c) == []
    c.reopen()
    assert asked(c) == [("PRODUCER", 30)]


def test_who_fences_waits_for_no_more_of_those_that_left_than_for_the_first_200() -> None:
    """A topic may have one owner for days, while others come to wait for it and go."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    a.broker.deliver(ready(10))
    come_and_go(b, ABANDONED_MAX + 50)
    a.client.deliver(close(11))
    a.broker.deliver(success(11))
    c.client.deliver(want(3_000, mode=FENCE))
    rig.clock.advance(PROMOTION_S_MAX + (ABANDONED_MAX - 1) * ABANDONED_S_MAX)
    assert asked(c) == []
    rig.clock.advance(ABANDONED_S_MAX)
    rig.show_awake(c)
    assert asked(c) == [("PRODUCER", 3_000)]


def test_those_that_left_the_brokers_queue_are_counted_anew_after_each_owner() -> None:
    """Whom the broker lets in has come after all of them."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    a.broker.deliver(ready(10))
    come_and_go(b, 2)
    b.client.deliver(want(24))
    b.broker.deliver(not_ready(24))
    a.client.deliver(close(11))
    a.broker.deliver(success(11))
    b.broker.deliver(ready(24, epoch=3))
    b.client.deliver(close(25))
    b.broker.deliver(success(25))
    c.client.deliver(want(30, mode=FENCE))
    assert asked(c) == [("PRODUCER", 30)]


def test_who_fences_and_is_gone_before_the_answer_may_have_fenced() -> None:
    """A broker tells nobody: so the next is asked for, which waits there if the owner was not fenced."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    b.take_all()
    c.client.deliver(want(30, mode=FENCE))
    assert asked(c) == [("PRODUCER", 30)]
    c.client.lose()
    assert asked(b) == [], "the broker may be at it still"
    c.broker.deliver(error(30, pb.ServiceNotReady))
    assert asked(b) == [("PRODUCER", 20)]
    b.broker.deliver(not_ready(20))
    a.client.deliver(close(11))
    assert asked(a) == [("CLOSE_PRODUCER", 11)]
    b.broker.deliver(ready(20, epoch=1))
    assert answers(b) == [(20, "ready")]


def test_a_promotion_that_may_have_been_fenced_before_it_was_heard_of_holds_up_nobody() -> None:
    """Who fenced it is gone before its answer came: it may own the topic or not, and the next finds out."""
    rig = ProducerRig(4)
    a, b, c, d = rig.clients
    a.client.deliver(want(10, mode=EXCLUSIVE))
    b.client.deliver(want(20))
    a.broker.deliver(ready(10))
    b.broker.deliver(not_ready(20))
    c.client.deliver(want(30, mode=FENCE))
    assert asked(c) == [("PRODUCER", 30)]
    c.client.lose()
    d.client.deliver(want(40))
    b.take_all()
    b.broker.deliver(ready(20, epoch=1))
    assert answers(b) == [(20, "ready")]
    c.broker.deliver(ready(30, epoch=2))
    assert taken_off(c) == [1]
    assert asked(d) == [("PRODUCER", 40)]


def test_a_promotion_that_is_outrun_by_who_fenced_it_is_none() -> None:
    """Answers come on two connections: the older epoch is heard of last, and its client is told the truth."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    a.client.deliver(want(10))
    a.broker.deliver(not_ready(10))
    rig.clock.advance(PROMOTION_S_MAX)
    b.client.deliver(want(20))
    c.client.deliver(want(30, mode=FENCE))
    rig.show_awake(c)
    c.broker.deliver(ready(30, name="fencer", epoch=5))
    a.take_all()
    a.broker.deliver(ready(10, epoch=4))
    assert answers(a) == [(10, "ProducerFenced")]
    assert asked(b) == [("PRODUCER", 20)]
    owner = rig.page().summary.owner
    assert owner is not None
    assert owner.producer_name == "fencer"


def test_a_fenced_waiter_at_the_broker_leads_to_the_next() -> None:
    """Fencing past the gateway fails whoever waits at the broker: that is one of ours at most."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.client.deliver(want(10))
    a.broker.deliver(not_ready(10))
    b.client.deliver(want(20))
    a.broker.deliver(error(10, pb.ProducerFenced))
    assert answers(a) == [(10, "queued"), (10, "ProducerFenced")]
    assert asked(b) == [("PRODUCER", 20)]


def test_a_producer_that_was_fenced_does_not_hear_that_it_waits() -> None:
    """A broker that is fencing may say so in this order (4.2.4): it says that one waits after it has let others in."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.client.deliver(want(10))
    b.client.deliver(want(20))
    a.broker.deliver(error(10, pb.ProducerFenced) + not_ready(10))
    assert answers(a) == [(10, "ProducerFenced")]
    assert asked(b) == [("PRODUCER", 20)]


def test_an_exclusive_owner_is_shown_and_forgotten() -> None:
    """With its client's close, a close by the broker, or the end of its connection."""
    for end in ("close", "broker", "connection"):
        rig = ProducerRig(1)
        (a,) = rig.clients
        a.client.deliver(want(10, mode=EXCLUSIVE) + want(11, mode=EXCLUSIVE))
        a.broker.deliver(ready(10, epoch=0) + error(11, pb.ServiceNotReady))
        assert rig.elections.summary().owners_count == 1
        if end == "close":
            a.client.deliver(close(12))
            a.broker.deliver(success(12))
        elif end == "broker":
            a.broker.deliver(close(1))
        else:
            a.client.lose()
            assert taken_off(a) == [1]
        assert rig.elections.summary().topics_count == 0


def test_partitions_have_a_queue_each() -> None:
    """So has every topic; short names are the same topic as long ones."""
    rig = ProducerRig(2)
    a, b = rig.clients
    a.client.deliver(want(10, topic=TOPIC + "-partition-0"))
    b.client.deliver(want(20, topic=TOPIC + "-partition-1"))
    b.client.deliver(want(21, topic="primary-partition-0", producer_id=2))
    assert asked(a) == [("PRODUCER", 10)]
    assert asked(b) == [("PRODUCER", 20)]
    assert answers(b) == [(21, "queued")]


# ---- the broker takes the topic away


def test_an_owner_that_the_broker_closed_resumes_before_anybody_is_promoted() -> None:
    """A promotion would spend its epoch and fence it."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a, epoch=5)
    b.client.deliver(want(20, 9))
    b.take_all()
    a.broker.deliver(close(1))
    assert answers(a) == [(1, "closed")]
    assert asked(b) == []
    rig.clock.advance(GRACE_S / 2)
    a.client.deliver(want(12, name="owner", epoch=5))
    (command,) = a.to_broker()
    assert command.producer.producer_access_mode == pb.Exclusive, "it must not wait at the broker"
    assert (command.producer.topic_epoch, command.producer.request_id) == (5, 12)
    a.broker.deliver(ready(12, name="owner", epoch=5))
    assert answers(a) == [(12, "ready")]
    rig.clock.advance(10 * GRACE_S)
    assert asked(b) == []
    assert rig.elections.summary().counters.resumptions_total == 1


def test_an_owner_that_returns_before_the_topic_does_is_waited_for_all_the_same() -> None:
    """The broker still unloads the topic: its error is no turn for others, though it comes more than once."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a, epoch=5)
    b.client.deliver(want(20, 9))
    b.take_all()
    a.broker.deliver(close(1))
    a.take_all()
    for request_id in (12, 13, 14):
        rig.clock.advance(GRACE_S / 2)
        a.client.deliver(want(request_id, name="owner", epoch=5))
        assert asked(a) == [("PRODUCER", request_id)]
        a.broker.deliver(error(request_id, pb.ServiceNotReady))
        assert answers(a) == [(request_id, "ServiceNotReady")]
        assert asked(b) == []
    rig.clock.advance(GRACE_S * 0.99)
    a.client.deliver(want(15, name="owner", epoch=5))
    a.take_all()
    a.broker.deliver(ready(15, name="owner", epoch=5))
    assert answers(a) == [(15, "ready")]
    assert asked(b) == []
    assert rig.elections.summary().counters.resumptions_total == 1


def test_an_owner_that_is_refused_again_and_again_is_not_waited_for_any_longer() -> None:
    """The broker may have reason to refuse it alone, and say that it cannot serve the topic."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a, epoch=5)
    b.client.deliver(want(20, 9))
    b.take_all()
    a.broker.deliver(close(1))
    began = rig.clock.now()
    request_id = 100
    while ("PRODUCER", 20) not in asked(b) and rig.clock.now() < began + 2 * REFUSED_S_MAX:
        a.take_all()
        a.client.deliver(want(request_id, name="owner", epoch=5))
        a.broker.deliver(error(request_id, pb.MetadataError))
        rig.clock.advance(GRACE_S * 0.9)
        request_id += 1
    assert REFUSED_S_MAX < rig.clock.now() - began < REFUSED_S_MAX + 2 * GRACE_S


def test_an_owner_that_goes_while_it_is_tried_again_keeps_its_time() -> None:
    """Its connection broke twice: it has as long as one that broke once. Then the next is promoted."""
    rig = ProducerRig(3)
    a, b, again = rig.clients
    rig.owner(a, epoch=5)
    b.client.deliver(want(20))
    b.take_all()
    a.broker.deliver(close(1))
    again.client.deliver(want(30, name="owner", epoch=5))
    again.broker.deliver(error(30, pb.ProducerFenced))
    again.client.lose()
    rig.clock.advance(GRACE_S * 0.99)
    assert asked(b) == []
    rig.clock.advance(GRACE_S * 0.02)
    assert asked(b) == [("PRODUCER", 20)]


def test_an_owner_that_was_refused_and_does_not_come_back_is_not_waited_for_any_longer() -> None:
    """Its time begins anew with the broker's error, and ends."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a, epoch=5)
    b.client.deliver(want(20))
    b.take_all()
    a.broker.deliver(close(1))
    rig.clock.advance(GRACE_S / 2)
    a.client.deliver(want(12, name="owner", epoch=5))
    a.broker.deliver(error(12, pb.ServiceNotReady))
    rig.clock.advance(GRACE_S * 0.99)
    assert asked(b) == []
    rig.clock.advance(GRACE_S * 0.02)
    assert asked(b) == [("PRODUCER", 20)]


@pytest.mark.parametrize("name", ["", "owner"])
def test_an_owner_returns_by_its_epoch_with_or_without_a_name(name: str) -> None:
    """The broker asks for the epoch alone: a client that let it choose the name need not repeat it."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a, epoch=5)
    b.client.deliver(want(20, 9))
    b.take_all()
    a.broker.deliver(close(1))
    assert answers(a) == [(1, "closed")]
    a.client.deliver(want(12, name=name, epoch=5))
    (command,) = a.to_broker()
    assert (command.producer.topic_epoch, command.producer.producer_name) == (5, name)
    a.broker.deliver(ready(12, name="owner", epoch=5))
    assert answers(a) == [(12, "ready")]
    assert asked(b) == []


@pytest.mark.parametrize(("name", "epoch"), [("", 4), ("other", 5)])
def test_who_was_not_the_owner_does_not_pass_for_it(name: str, epoch: int) -> None:
    """An epoch of before, or another's name, is no claim to the place the owner left."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a, epoch=5)
    a.broker.deliver(close(1))
    a.take_all()
    b.client.deliver(want(12, name=name, epoch=epoch))
    assert asked(b) == []


def test_an_owner_that_does_not_come_back_is_not_waited_for_any_longer() -> None:
    """The grace is over, and the best is promoted."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    a.broker.deliver(close(1))
    rig.clock.advance(GRACE_S * 0.99)
    assert asked(b) == []
    rig.clock.advance(GRACE_S * 0.02)
    assert asked(b) == [("PRODUCER", 20)]


def test_without_grace_the_next_is_asked_for_at_once() -> None:
    """Where an operator wants it so."""
    rig = ProducerRig(2, producer_return_grace_s=0)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    a.broker.deliver(close(1))
    assert asked(b) == [("PRODUCER", 20)]


@pytest.mark.parametrize("first", ["owner", "other"])
def test_after_a_broker_restart_the_grace_begins_with_the_first_to_come_back(first: str) -> None:
    """Everybody's connection is gone with the broker, in any order, and nobody knows for how long."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a, epoch=2)
    b.client.deliver(want(20))
    for client in (a, b) if first == "owner" else (b, a):
        client.broker.lose()
    rig.clock.advance(40)
    newcomer = rig.client()
    newcomer.client.deliver(want(30, 9))
    assert answers(newcomer) == [(30, "queued")]
    rig.clock.advance(GRACE_S / 2)
    owner = rig.client()
    owner.client.deliver(want(40, name="owner", epoch=2))
    assert asked(owner) == [("PRODUCER", 40)]
    owner.broker.deliver(ready(40, name="owner", epoch=2))
    assert answers(owner) == [(40, "ready")]
    owner.client.lose()
    assert asked(newcomer) == [("PRODUCER", 30)]


def test_an_owner_is_not_remembered_for_ever() -> None:
    """After a while nothing is left of it."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    rig.owner(a, epoch=2)
    a.broker.lose()
    rig.clock.advance(EXPECTED_S_MAX * 0.99)
    assert rig.elections.summary().topics_count == 1
    rig.clock.advance(EXPECTED_S_MAX * 0.02)
    assert rig.elections.summary().topics_count == 0
    assert rig.clock.waiting == 0


def test_a_fenced_owner_that_the_broker_closes_is_not_waited_for() -> None:
    """It has lost the topic already."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, mode=FENCE))
    b.broker.deliver(ready(20, name="fencer", epoch=1))
    a.broker.deliver(close(1))
    assert answers(a) == [(1, "closed")]
    b.client.lose()
    c.client.deliver(want(30))
    assert asked(c) == [("PRODUCER", 30)]


def test_a_gateway_that_has_just_started_lets_owners_come_back() -> None:
    """It knows of none; whoever brings an epoch along is one."""
    rig = ProducerRig(0)
    rig.elections = ProducerElections(rig.clock, rig.events, ElectionSettings())
    a, b = rig.client(), rig.client()
    a.client.deliver(want(10, 9))
    assert answers(a) == [(10, "queued")]
    b.client.deliver(want(20, name="old", epoch=7))
    assert asked(b) == [("PRODUCER", 20)]
    b.broker.deliver(error(20, pb.ProducerFenced))
    assert answers(b) == [(20, "queued")], "its own old connection may still be known there"
    for pause in RETURN_TRIES_S:
        rig.clock.advance(pause)
        b.broker.deliver(error(20, pb.ProducerFenced))
    assert answers(b) == [(20, "ProducerFenced")]
    assert asked(a) == [("PRODUCER", 10)]


def test_trouble_of_the_broker_does_not_drain_the_queue() -> None:
    """Whoever was asked for hears of it and comes back; the others wait for longer and longer."""
    rig = ProducerRig(3)
    a, b, c = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, 2))
    c.client.deliver(want(30, 1))
    a.client.lose()
    b.take_all()
    b.broker.deliver(error(20, pb.ServiceNotReady))
    assert answers(b) == [(20, "ServiceNotReady")]
    assert asked(c) == []
    b.client.deliver(want(21, 2))
    assert answers(b) == [(21, "queued")]
    rig.clock.advance(UNAVAILABLE_S_MIN)
    assert asked(b) == [("PRODUCER", 21)]
    b.broker.deliver(error(21, pb.ServiceNotReady))
    rig.clock.advance(UNAVAILABLE_S_MIN)
    assert asked(c) == []
    rig.clock.advance(UNAVAILABLE_S_MIN)
    c.take_all()
    c.broker.deliver(ready(30, epoch=1))
    assert answers(c) == [(30, "ready")]


def test_the_broker_goes_and_the_connection_stays() -> None:
    """For its workers: what was asked for there is refused, the owner closed, and who is held stays."""
    rig = ProducerRig(2)
    a, b = rig.clients
    b.worker()
    rig.owner(a)
    b.client.deliver(want(20))
    a.client.lose()
    b.client.deliver(want(21, producer_id=2))
    b.take_all()
    b.broker.lose()
    assert answers(b) == [(20, "ServiceNotReady")]
    rig.clock.advance(UNAVAILABLE_S_MIN)
    leg = b.reopen()
    assert [command.producer.request_id for command in parse(leg.take())] == [21]


def test_an_owner_on_a_connection_that_stays_is_closed_and_resumes() -> None:
    """As after an unload."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    a.worker()
    rig.owner(a, epoch=3)
    a.broker.lose()
    assert answers(a) == [(1, "closed")]
    a.client.deliver(want(11, name="owner", epoch=3))
    leg = a.reopen()
    assert [command.producer.request_id for command in parse(leg.take())] == [11]
    leg.deliver(ready(11, name="owner", epoch=3))
    assert answers(a) == [(11, "ready")]
    assert rig.elections.summary().counters.resumptions_total == 1


# ---- bounds and the end


def test_a_bound_on_memory() -> None:
    """One more than fits is refused with the bound; when one leaves there is room again."""
    rig = ProducerRig(2, waiting_producers_bytes_max=3_000)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20, producer_id=1) + want(21, producer_id=2) + want(22, producer_id=3))
    told = b.to_client()
    assert [command.type for command in told] == [T.PRODUCER_SUCCESS, T.PRODUCER_SUCCESS, T.ERROR]
    assert told[2].error.error == pb.TooManyRequests
    assert "3000 are all they may (waiting_producers_bytes_max)" in told[2].error.message
    b.client.deliver(close(23, 1) + want(24, producer_id=3))
    assert answers(b) == [(23, "success"), (24, "queued")]


def test_producers_that_take_the_topic_are_bounded_while_they_wait_for_each_other() -> None:
    """So are their closes: a client may send more of them than its broker answers, or leave its answers unread."""
    rig = ProducerRig(1, waiting_producers_bytes_max=3_000)
    (a,) = rig.clients
    for number in range(4):
        a.client.deliver(want(10 + number, producer_id=number, mode=FENCE))
    assert answers(a) == [(13, "TooManyRequests")]
    a.client.deliver(close(20, 0))
    assert answers(a) == [(20, "TooManyRequests")]
    assert asked(a) == [("PRODUCER", 10)]
    a.broker.deliver(error(10))
    assert (answers(a), asked(a)) == ([(10, "ProducerBusy")], [("PRODUCER", 11)])
    a.client.deliver(close(21, 1))  # waits behind the answer, as does what came before it
    assert rig.elections.summary().waiting_bytes > 2_000
    a.broker.deliver(ready(11))
    assert answers(a) == [(11, "ready")]
    a.client.lose()
    assert rig.elections.summary().waiting_bytes == 0


def test_a_refused_producer_leaves_no_election() -> None:
    """Its topic may be any: there is no bound on the names that a client makes up."""
    rig = ProducerRig(1, waiting_producers_bytes_max=64)
    for mode in (FENCE, EXCLUSIVE, WAIT):
        rig.clients[0].client.deliver(want(10 + mode, mode=mode))
    assert [told for _, told in answers(rig.clients[0])] == ["TooManyRequests"] * 3
    assert rig.elections.summary().topics_count == 0


def test_nothing_is_kept_of_what_has_ended() -> None:
    """Neither elections nor memory; counts stay."""
    rig = ProducerRig(3)
    for number, client in enumerate(rig.clients):
        client.client.deliver(want(10 + number))
    for number, client in enumerate(rig.clients):
        client.client.lose()
        if not client.broker.closing:
            client.broker.deliver(error(10 + number))
    summary = rig.elections.summary()
    assert (summary.topics_count, summary.owners_count, summary.waiting_count, summary.waiting_bytes) == (0, 0, 0, 0)
    assert summary.counters.arrivals_total == 3
    assert rig.clock.waiting == 0


def test_a_gateway_that_stops_promotes_nobody() -> None:
    """Whose connection is about to be closed as well."""
    rig = ProducerRig(2)
    a, b = rig.clients
    rig.owner(a)
    b.client.deliver(want(20))
    rig.elections.close()
    a.session.close()
    assert asked(b) == []


def test_thousands_that_are_refused_one_within_another() -> None:
    """Their connection has no room for one more request, so that each is refused while the last one's turn is made."""
    rig = ProducerRig(1)
    (a,) = rig.clients
    rig.owner(a)
    b = rig.client(Limits(relayed_requests_max=1))
    b.client.deliver(lookup(1))
    for number in range(5_000):
        b.client.deliver(want(20 + number, producer_id=number))
    b.take_all()
    a.client.lose()
    assert [told for _, told in answers(b)] == ["TooManyRequests"] * 5_000
    assert taken_off(a) == [1]
    assert rig.elections.summary().waiting_bytes == rig.elections.summary().topics_count == 0
