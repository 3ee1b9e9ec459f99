"""The judge is judged: every planted fault is found, and nothing is found where none was planted."""

from __future__ import annotations

import random

import pytest

from integration.load.audit import AuditResult, audit
from integration.load.lives import ACK_IN_FLIGHT_NS_MAX, Cause, Interruption
from integration.load.producer import ProducerRecord
from integration.load.report import audit_lines
from proxy.core.slice_id import slice_id
from tests.integration.load_records import MS, Script, sent

SETTLED = ACK_IN_FLIGHT_NS_MAX // MS + 1
"""So long after an acknowledgement, in milliseconds, it was surely through."""


def judge(sent_counts: dict[int, int], *scripts: Script, gateway_killed_at: int | None = None) -> AuditResult:
    """Audit a run of one producer."""
    interruptions = []
    if gateway_killed_at is not None:
        interruptions.append(Interruption(Cause.GATEWAY_KILLED, gateway_killed_at * MS))
    return audit([sent(sent_counts)], [script.life for script in scripts], interruptions)


def causes(result: AuditResult) -> list[Cause | None]:
    """What each duplicate was put down to."""
    return [item.cause for item in result.duplicates]


def test_a_run_without_faults_is_found_faultless() -> None:
    """Keys that move between workers, each message acknowledged before the key's next goes elsewhere."""
    chance = random.Random(3)  # noqa: S311 - a repeatable choice, no secret
    scripts = [Script("w1"), Script("w2"), Script("w3")]
    at = 10
    for sequence in range(50):
        for key in range(5):
            chance.choice(scripts).did(at, key, sequence)
            at += 2
    result = judge(dict.fromkeys(range(5), 50), *scripts)
    assert result.ok
    assert (result.sent, result.delivered, result.acknowledged, result.duplicates) == (250, 250, 250, ())


def test_a_message_that_never_came_is_missing() -> None:
    """Confirmed by the broker, delivered to nobody."""
    result = judge({1: 3}, Script("w1").did(10, 1, 0).did(20, 1, 2))
    assert result.missing == ((0, 1, 1),)
    assert not result.ok


def test_an_unconfirmed_message_may_come_or_not() -> None:
    """The broker never took responsibility for it."""
    record = ProducerRecord(0, {1: 2, 2: 1}, frozenset({(1, 1), (2, 0)}))
    result = audit([record], [Script("w1").did(10, 1, 0).did(20, 2, 0).life])
    assert result.ok
    assert result.confirmed == 1


@pytest.mark.parametrize("number", [(0, 1, 1), (0, 2, 0), (1, 1, 0)])
def test_a_message_nobody_sent_is_an_invention(number: tuple[int, int, int]) -> None:
    """By sequence, by key, by producer."""
    producer, key, sequence = number
    result = judge({1: 1}, Script("w1").did(10, 1, 0).did(20, key, sequence, producer=producer))
    assert result.invented == (number,)
    assert not result.ok


def test_a_payload_under_another_key_is_garbled() -> None:
    """A gateway that mixes up keys and payloads is found out."""
    assert judge({1: 1}, Script("w1").did(10, 1, 0).garbled(10, 1, 0)).violations == 1


def test_a_later_message_first_is_disorder_even_across_workers() -> None:
    """First deliveries follow the producer's sequence, whoever gets them."""
    result = judge({1: 3}, Script("w1").did(10, 1, 0).did(30, 1, 2), Script("w2").did(50, 1, 1))
    assert len(result.order_violations) == 1
    assert "#2" in result.order_violations[0].before
    assert "#1" in result.order_violations[0].after


def test_keys_are_ordered_each_for_itself() -> None:
    """And producers of one key too."""
    script = Script("w1").did(10, 2, 5).did(20, 1, 0).did(30, 1, 1).did(40, 1, 0, producer=1, entry=99)
    result = audit([sent({1: 2, 2: 6}), sent({1: 1}, producer=1)], [script.life])
    assert result.order_violations == ()


def test_a_key_at_two_workers_is_found() -> None:
    """Another worker got the key's next message while the first was unacknowledged."""
    result = judge({1: 2}, Script("w1").got(10, 1, 0).acked(30, 1, 0), Script("w2").did(20, 1, 1))
    assert len(result.holder_violations) == 1
    assert "w1" in result.holder_violations[0].before
    assert "w2" in result.holder_violations[0].after


def test_a_key_may_move_once_its_messages_are_acknowledged() -> None:
    """And one worker may hold several."""
    first = Script("w1").got(10, 1, 0).got(11, 1, 1).acked(12, 1, 1).acked(13, 1, 0)
    assert judge({1: 3}, first, Script("w2").did(14, 1, 2)).ok


def test_a_killed_workers_messages_may_go_elsewhere() -> None:
    """With a death on record the repetition is explained and the key is not shared."""
    result = judge({1: 2}, Script("w1").got(10, 1, 0).killed(20), Script("w2").did(21, 1, 0).did(23, 1, 1))
    assert result.ok
    assert causes(result) == [Cause.WORKER_KILLED]


def test_what_a_worker_gets_while_it_is_being_killed_may_go_elsewhere() -> None:
    """The moment on record is that of the decision; the process lives a moment longer."""
    result = judge({1: 1}, Script("w1").got(21, 1, 0).killed(20), Script("w2").did(25, 1, 0))
    assert result.ok
    assert causes(result) == [Cause.WORKER_KILLED]


def test_an_acknowledgement_shortly_before_death_may_be_lost() -> None:
    """The client groups them for a tenth of a second."""
    result = judge({1: 1}, Script("w1").did(10, 1, 0).killed(50), Script("w2").did(60, 1, 0))
    assert causes(result) == [Cause.WORKER_KILLED]


def test_an_acknowledgement_long_before_death_is_not_lost() -> None:
    """So its message coming again is a violation."""
    killed_at = 11 + SETTLED
    result = judge({1: 1}, Script("w1").did(10, 1, 0).killed(killed_at), Script("w2").did(killed_at + 5, 1, 0))
    assert len(result.unexplained) == 1


def test_what_a_frozen_worker_had_not_sent_is_lost_however_late_it_is_killed() -> None:
    """Its client grouped the acknowledgement and then stood still. What was through before that is safe, as ever."""
    killed_at = 60 + 2 * SETTLED
    frozen = Script("w1").did(10, 1, 0).frozen(50).killed(killed_at)
    other = Script("w2").did(killed_at + 5, 1, 0)
    assert causes(judge({1: 1}, frozen, other)) == [Cause.WORKER_KILLED]
    assert causes(judge({1: 1}, frozen.frozen(11 + SETTLED), other)) == [None]


def test_a_repetition_out_of_nowhere_has_no_cause() -> None:
    """At the same worker or another."""
    assert len(judge({1: 1}, Script("w1").did(10, 1, 0).did(20, 1, 0)).unexplained) == 1
    assert len(judge({1: 1}, Script("w1").did(10, 1, 0), Script("w2").did(20, 1, 0)).unexplained) == 1


def test_one_death_explains_one_repetition() -> None:
    """The message was acknowledged after the repetition, so the third delivery has no cause."""
    scripts = Script("w1").got(10, 1, 0).killed(20), Script("w2").did(30, 1, 0), Script("w3").did(40, 1, 0)
    assert causes(judge({1: 1}, *scripts)) == [Cause.WORKER_KILLED, None]


def test_a_worker_that_leaves_gives_back_what_it_has_not_acknowledged() -> None:
    """And only that: a client that closes in peace sends its acknowledgements first."""
    scripts = (
        Script("w1").got(10, 1, 0).did(11, 2, 0).left(20),
        Script("w2").did(30, 1, 0),
        Script("w3").did(31, 2, 0),
    )
    result = judge({1: 1, 2: 1}, *scripts)
    assert sorted(causes(result), key=str) == [Cause.WORKER_LEFT, None]


def test_a_refused_message_comes_again() -> None:
    """By negative acknowledgement, to whoever owns the key by then."""
    result = judge({1: 1}, Script("w1").got(10, 1, 0).nacked(12, 1, 0), Script("w2").did(150, 1, 0))
    assert result.ok
    assert causes(result) == [Cause.NEGATIVE_ACK]


def test_a_batch_comes_again_whole() -> None:
    """Clients acknowledge a batch as one, so a message that was done comes again with its unfinished neighbours."""
    scripts = Script("w1").did(10, 1, 0, entry=5).left(20), Script("w2").did(30, 1, 0, entry=5).did(32, 1, 1, entry=5)
    result = judge({1: 2}, *scripts)
    assert causes(result) == [Cause.BATCH_UNFINISHED]
    assert result.ok


def test_a_finished_batch_does_not_come_again() -> None:
    """A neighbour that was at another worker all the time is no excuse: batches are cut by key."""
    scripts = (
        Script("w1").did(10, 1, 0, entry=5).left(20),
        Script("w2").got(12, 2, 0, entry=5).acked(90, 2, 0, entry=5),
        Script("w3").did(30, 1, 0, entry=5),
    )
    assert causes(judge({1: 1, 2: 1}, *scripts)) == [None]


def test_a_batch_that_came_again_may_be_half_done_again() -> None:
    """Its second worker had the other half in its client's queue, which no record tells."""
    killed_at = 31 + SETTLED
    scripts = (
        Script("w1").got(10, 1, 0, entry=5).got(11, 1, 1, entry=5).killed(20),
        Script("w2").did(30, 1, 0, entry=5).killed(killed_at),
        Script("w3").did(killed_at + 10, 1, 0, entry=5).did(killed_at + 12, 1, 1, entry=5),
    )
    result = judge({1: 2}, *scripts)
    assert causes(result) == [Cause.WORKER_KILLED, Cause.BATCH_UNFINISHED, Cause.WORKER_KILLED]


def test_what_all_workers_lost_at_once_is_not_put_down_to_what_came_later() -> None:
    """The gateway was killed, and once more before it delivered again: the first time explains both halves."""
    killed_at = 20 + SETTLED
    workers = (
        Script("w1").did(10, 1, 0, entry=5).lost(13).connected(killed_at - 5).lost(killed_at + 1),
        Script("w2").did(10, 2, 0, entry=5).lost(13).connected(killed_at - 5).lost(killed_at + 1),
        Script("w3", killed_at + 10).did(killed_at + 500, 1, 0, entry=5).did(killed_at + 510, 2, 0, entry=5),
    )
    kills = [Interruption(Cause.GATEWAY_KILLED, at * MS) for at in (12, killed_at)]
    result = audit([sent({1: 1, 2: 1})], [worker.life for worker in workers], kills)
    assert causes(result) == [Cause.GATEWAY_KILLED] * 2


def test_a_half_that_another_worker_holds_is_no_excuse() -> None:
    """It was not in the queue of the worker that was killed, though it came again later."""
    killed_at = 31 + SETTLED
    scripts = (
        Script("w1").did(30, 1, 0, entry=5).killed(killed_at),
        Script("w2").got(12, 2, 0, entry=5).killed(killed_at + 50),
        Script("w3").did(killed_at + 10, 1, 0, entry=5).did(killed_at + 60, 2, 0, entry=5),
    )
    assert sorted(causes(judge({1: 1, 2: 1}, *scripts)), key=str) == [Cause.WORKER_KILLED, None]


def test_a_batch_is_given_back_whole_when_one_message_is_refused() -> None:
    """The client knows no other way."""
    script = Script("w1").did(10, 1, 0, entry=5).got(12, 1, 1, entry=5).nacked(13, 1, 1, entry=5).did(14, 1, 2, entry=5)
    script.did(150, 1, 0, entry=5).did(152, 1, 1, entry=5).did(154, 1, 2, entry=5)
    result = judge({1: 3}, script)
    assert causes(result) == [Cause.BATCH_UNFINISHED, Cause.NEGATIVE_ACK, Cause.BATCH_UNFINISHED]
    assert result.ok


def test_what_came_under_one_id_with_a_refused_message_is_held_no_more() -> None:
    """The client gives the id back, so another worker may have the key; what came under another id stays."""
    refuser = Script("w1").got(10, 1, 0, entry=5).got(11, 1, 1, entry=5).nacked(12, 1, 0, entry=5)
    refuser.nacked(13, 1, 1, entry=5).got(14, 2, 0, entry=6)
    refuser.got(15, 1, 2, entry=5)  # from the client's queue, and given back with the others
    other = Script("w2").did(150, 1, 0, entry=5).did(151, 1, 1, entry=5).did(152, 1, 2, entry=5)
    assert judge({1: 3, 2: 1}, refuser, other).holder_violations == ()
    assert len(judge({1: 3, 2: 2}, refuser, other.did(160, 2, 1, entry=7)).holder_violations) == 1


def test_refusals_one_after_the_other_take_one_attempt_each() -> None:
    """A client asks for the id twice, 50 ms apart, so the second attempt goes back though none of it was refused."""
    refuser = Script("w1").got(10, 1, 0, entry=5).nacked(11, 1, 0, entry=5).got(12, 2, 0, entry=5)
    refuser.nacked(13, 2, 0, entry=5).got(15, 1, 0, entry=5, attempt=1).got(16, 2, 0, entry=5, attempt=1)
    other = Script("w2").did(50, 1, 0, entry=5).did(51, 2, 0, entry=5)
    assert judge({1: 1, 2: 1}, refuser, other).holder_violations == ()


def test_one_refusal_takes_one_attempt() -> None:
    """What came again after it is held."""
    refuser = Script("w1").got(10, 1, 0, entry=5).got(11, 2, 0, entry=5).nacked(12, 2, 0, entry=5)
    refuser.got(15, 1, 0, entry=5, attempt=1).got(16, 2, 0, entry=5, attempt=1)
    other = Script("w2").did(50, 1, 1)
    assert len(judge({1: 2, 2: 1}, refuser, other).holder_violations) == 1


def test_what_came_again_to_the_same_worker_is_held_until_it_is_acknowledged_once() -> None:
    """Two acknowledgements of one message count for the newer delivery; the older is held no more."""
    worker = Script("w1").got(10, 1, 0, entry=5).got(11, 2, 0, entry=5).nacked(12, 2, 0, entry=5)
    worker.got(15, 1, 0, entry=5, attempt=1).got(20, 1, 0, entry=5, attempt=2)
    assert len(judge({1: 2, 2: 1}, worker, Script("w2").did(25, 1, 1)).holder_violations) == 1
    worker.acked(30, 1, 0, entry=5).acked(32, 1, 0, entry=5)
    assert judge({1: 2, 2: 1}, worker, Script("w2").did(40, 1, 1)).holder_violations == ()


def test_slices_of_one_entry_are_known_as_such() -> None:
    """A part of a batch has an id of its own; what it was cut from decides whether the topic holds it twice."""
    scripts = (
        Script("w1").got(10, 1, 0, entry=slice_id(5, [0, 1])).killed(20),
        Script("w2").did(30, 1, 0, entry=slice_id(5, [0])),
    )
    assert causes(judge({1: 1}, *scripts)) == [Cause.WORKER_KILLED]


def test_a_message_that_is_in_the_topic_twice_needs_a_producer_that_reconnected() -> None:
    """Another entry with the same number: the producer sent it again, if it had reason to."""
    script = Script("w1").did(10, 1, 0, entry=5).did(20, 1, 0, entry=6)
    assert causes(judge({1: 1}, script)) == [None]
    result = audit([sent({1: 1}, connections_lost=1)], [script.life])
    assert causes(result) == [Cause.SENT_TWICE]


def test_a_gateways_death_ends_all_holdings() -> None:
    """What was delivered before it may come again, to another worker, at once."""
    scripts = (
        Script("w1").got(10, 1, 0).connected(120).did(330, 1, 1),
        Script("w2").connected(121).did(322, 1, 0),
    )
    result = judge({1: 2}, *scripts, gateway_killed_at=20)
    assert result.ok
    assert causes(result) == [Cause.GATEWAY_KILLED]


def test_what_a_client_had_fetched_before_the_gateways_death_is_nobodys() -> None:
    """Read from its own queue after the death, while another worker has the key already: no sharing, no disorder."""
    scripts = (
        Script("w1").got(10, 1, 0).got(340, 1, 1).connected(345),
        Script("w2").connected(120).did(322, 1, 0).did(324, 1, 1).did(326, 1, 2),
    )
    result = judge({1: 3}, *scripts, gateway_killed_at=20)
    assert result.ok
    assert causes(result) == [Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE]


def test_a_connection_that_breaks_just_afterwards_is_not_what_brought_a_message_again() -> None:
    """Its client may have seen the loss late, but the gateway's death explains it without that."""
    script = Script("w1").did(10, 1, 0).lost(13).connected(SETTLED + 500).did(SETTLED + 900, 1, 0).lost(SETTLED + 950)
    result = judge({1: 1}, script, gateway_killed_at=12)
    assert causes(result) == [Cause.GATEWAY_KILLED]


def test_what_comes_after_the_reconnect_counts_again() -> None:
    """A death is no licence: sharing a key later is found."""
    scripts = (
        Script("w1").did(10, 1, 0).connected(120).got(400, 1, 1).acked(500, 1, 1),
        Script("w2").connected(120).did(450, 1, 2),
    )
    assert len(judge({1: 3}, *scripts, gateway_killed_at=20).holder_violations) == 1


def paused(since: int, until: int, *names: str) -> Interruption:
    """What these workers are connected to is frozen for so long."""
    return Interruption(Cause.GATEWAY_PAUSED, since * MS, workers=frozenset(names), over_ns=until * MS)


def test_what_a_worker_has_when_its_gateway_freezes_may_come_again_elsewhere() -> None:
    """Received before, read from its client's queue meanwhile, acknowledged or not: nobody hears of it."""
    scripts = (
        Script("w1").did(10, 1, 0).did(SETTLED + 10, 1, 1).did(SETTLED + 30, 1, 2),
        Script("w2").did(SETTLED + 100, 1, 1).did(SETTLED + 110, 1, 2),
    )
    interruption = paused(SETTLED + 20, SETTLED + 200, "w1")
    result = audit([sent({1: 3})], [script.life for script in scripts], [interruption])
    assert result.ok
    assert causes(result) == [Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE]


def test_what_others_finished_while_a_gateway_was_frozen_must_not_come_from_it() -> None:
    """It wakes up and hands out what it had: no excuse, though its workers' connections never broke."""
    scripts = Script("w1").did(10, 1, 0).did(210, 1, 1), Script("w2").did(100, 1, 1)
    result = audit([sent({1: 2})], [script.life for script in scripts], [paused(20, 200, "w1")])
    assert causes(result) == [None]


def test_a_frozen_gateway_is_no_licence_for_others_workers() -> None:
    """Theirs went on as ever, and a key at two of them is found."""
    scripts = Script("w2").got(50, 1, 0).acked(90, 1, 0), Script("w3").did(60, 1, 1)
    result = audit([sent({1: 2})], [script.life for script in scripts], [paused(20, 200, "w1")])
    assert len(result.holder_violations) == 1


def test_a_connection_that_breaks_after_a_pause_is_counted() -> None:
    """The pause broke none."""
    script = Script("w1").did(10, 1, 0).lost(250).connected(300)
    result = audit([sent({1: 1})], [script.life], [paused(20, 200, "w1")])
    assert result.connections_lost == 1


def test_a_repetition_must_not_be_overtaken() -> None:
    """A worker dies holding #0; another gets #1, then #0: delivered in order at first, yet overtaken."""
    scripts = Script("w1").got(10, 1, 0).killed(20), Script("w2").did(30, 1, 1).did(40, 1, 0)
    result = judge({1: 2}, *scripts)
    assert len(result.overtakings) == 1
    assert result.order_violations == ()
    assert result.holder_violations == ()


def test_what_the_refusing_worker_had_fetched_is_no_overtaking() -> None:
    """It refused #0 while #1 was in its client's queue already."""
    script = Script("w1").got(10, 1, 0).nacked(11, 1, 0).did(12, 1, 1).did(150, 1, 0)
    assert judge({1: 2}, script).ok


def test_a_refused_message_is_not_overtaken_at_another_worker() -> None:
    """That worker had to get the refused one first."""
    scripts = Script("w1").got(10, 1, 0).nacked(11, 1, 0), Script("w2").did(50, 1, 1).did(150, 1, 0)
    assert len(judge({1: 2}, *scripts).overtakings) == 1


def test_a_lost_connection_without_a_known_death_explains_and_is_counted() -> None:
    """The client said so in its log."""
    scripts = Script("w1").got(10, 1, 0).lost(30).connected(130).did(400, 1, 1), Script("w2").did(29, 1, 0)
    result = judge({1: 2}, *scripts)
    assert result.connections_lost == 1
    assert causes(result) == [Cause.CONNECTION_LOST]


def test_a_loss_that_a_known_death_brought_is_put_down_to_the_death() -> None:
    """The client notices it a moment later, and again at each attempt to come back."""
    script = Script("w1").got(10, 1, 0).lost(22).lost(130).connected(250).did(460, 1, 0)
    result = judge({1: 1}, script, gateway_killed_at=20)
    assert result.connections_lost == 0
    assert causes(result) == [Cause.GATEWAY_KILLED]


def test_the_report_says_everything_in_plain_lines() -> None:
    """For pipes, with the evidence."""
    lines = "\n".join(audit_lines(judge({1: 2}, Script("w1").did(10, 1, 1).did(20, 1, 0))))
    assert "messages sent: 2 " in lines
    assert "order violations: 1 " in lines
    assert "producer 0 key 1 #1" in lines
