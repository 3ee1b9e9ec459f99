"""The record of each message: whatever a delivery is made of, a row for each message of it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.cutting import batch_of, cut
from proxy.core.delivery_log import LISTED_MAX, How
from proxy.core.entry import Chunk, Part, mixed_batch
from proxy.core.positions import MAX_LEDGER, entry_of, pack
from proxy.core.slice_id import SLICED_MESSAGES_MAX
from proxy.core.worker import Worker
from proxy.journal.deliveries import ROWS_AT_A_TIME, DeliveryLog, SubscriptionRecorder
from proxy.journal.delivery_chunk import EVENTS, ROW_BYTES, STRUCT_BYTES, DeliveryChunk
from proxy.journal.digest import KEYS_REMEMBERED, KeyDigests
from tests.core.batches import by_slot
from tests.journal.rig import KEY, JournalRig, rows

WORKER = Worker("w1")


def part(entry: int, count: int = 1, digest: int | tuple[int, ...] = 7) -> Part:
    """Sent at 101 s, having come at 100 s."""
    made = Part(pack(5, entry), 1_000 + entry, count, b"x" * 50 * count, 0, 100.0)
    made.attempts, made.sent_at, made.digest = 1, 101.0, digest
    return made


@pytest.fixture
def rig(tmp_path: Path) -> JournalRig:
    """A journal with a record of messages."""
    return JournalRig(tmp_path, digests=KeyDigests(b"secret"))


def recorded(rig: JournalRig) -> list[dict[str, object]]:
    """All rows, after the end."""
    rig.end()
    return rows(rig.root, "deliveries")


def test_a_message_has_a_row_when_it_is_sent_and_one_when_it_ends(rig: JournalRig) -> None:
    """Each with everything that is known of it, so that neither needs the other."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    recorder.sent(WORKER, [part(3)], 101.25)
    recorder.ended([(How.ACKED, part(3), Worker("w2"), 102.5, 101.0, 4, None)])
    sent, acked = recorded(rig)
    assert {name: sent[name] for name in ("event", "consumer", "attempt", "at_ns")} == {
        "event": "sent",
        "consumer": "w1",
        "attempt": 1,
        "at_ns": 101_250_000_000,
    }
    assert (acked["event"], acked["consumer"], acked["attempt"]) == ("acked", "w2", 4)
    assert (acked["at_ns"], acked["sent_ns"], acked["received_ns"]) == (
        102_500_000_000,
        101_000_000_000,
        100_000_000_000,
    )
    for row in (sent, acked):
        assert (row["topic"], row["subscription"]) == KEY
        assert (row["ledger"], row["entry"], row["batch_index"], row["slot"]) == (5, 3, -1, 1_003)
        assert (row["key_digest"], row["key"], row["size_bytes"]) == (7, None, 50)
        assert int(str(row["wall_ns"])) - int(str(row["at_ns"])) == rig.wall_ns - 100_000_000_000


@pytest.mark.parametrize("ledger", [1 << 23, MAX_LEDGER])
def test_a_ledger_may_have_any_number(rig: JournalRig, ledger: int) -> None:
    """A cluster of some age has ledgers beyond eight millions."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    single, several = part(3), part(4, 2, (7, 8))
    for each in (single, several):
        each.position = pack(ledger, entry_of(each.position))
    recorder.sent(WORKER, [single, several], 101.0)
    recorder.ended([(How.ACKED, single, WORKER, 102.0, 101.0, 1, None)])
    assert [(row["ledger"], row["entry"]) for row in recorded(rig)] == [(ledger, entry) for entry in (3, 4, 4, 3)]


def test_a_batch_has_a_row_for_each_message(rig: JournalRig) -> None:
    """Of one key whole; of several keys with each its own; cut by slot or by permits with those that are meant."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    of_two_keys = by_slot(pack(5, 2), b"y" * 90, 3, [(9, (0, 2)), (11, (1,))], 0, 100.0)
    for each in of_two_keys.parts:
        each.digest = (21, 22, 21)
    whole = part(4, 5, 33)
    head = cut(whole, 2)
    recorder.sent(WORKER, [part(1, 3, 11), *of_two_keys.parts, head, whole], 101.0)
    recorder.ended([(How.RETURNED, of_two_keys.parts[0], WORKER, 103.0, 101.0, 1, (2,))])
    rows = recorded(rig)
    found = [(row["event"], row["entry"], row["batch_index"], row["key_digest"], row["size_bytes"]) for row in rows]
    assert [row["slot"] for row in rows if row["entry"] == 2] == [9, 11, 9, 9]
    assert found == [
        *[("sent", 1, index, 11, 50) for index in range(3)],
        ("sent", 2, 0, 21, 30),
        ("sent", 2, 1, 22, 30),
        ("sent", 2, 2, 21, 30),
        *[("sent", 4, index, 33, 50) for index in range(5)],
        ("returned", 2, 2, 21, 30),
    ]


def test_why_a_message_came_back_and_how_it_went_are_told_where_that_is_news(rig: JournalRig) -> None:
    """What only goes together, chunks behind the first, what a worker asked for, and what is given up."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    opaque, first, second = part(1, 2), part(2), part(3)
    opaque.opaque = True
    first.chunk, second.chunk = Chunk("m", 0, 2), Chunk("m", 1, 2)
    recorder.sent(WORKER, [opaque, first, second, part(4, 2), part(5)], 101.0)
    for entry, how in enumerate(How):
        recorder.ended([(how, part(10 + entry), WORKER, 102.0, 101.0, 1, None)])
    found = [(row["event"], row["why"], row["entry"]) for row in recorded(rig)]
    assert found == [
        *[("sent", "whole", 1)] * 2,
        ("sent", "first_chunk", 2),
        ("sent", "chunk", 3),
        *[("sent", None, 4)] * 2,
        ("sent", None, 5),
        ("acked", None, 10),
        ("returned", None, 11),
        ("dropped", None, 12),
        ("returned", "asked_for", 13),
        ("returned", "given_up", 14),
        ("acked", "in_transaction", 15),
        ("returned", "in_transaction", 16),
    ]


def test_keys_outside_of_the_sample_leave_no_row(rig: JournalRig) -> None:
    """Alone or in a batch with others."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    recorder.sent(WORKER, [part(1, 1, 0), part(2, 3, 0), part(3, 3, (0, 5, 0))], 101.0)
    recorder.ended([(How.ACKED, part(1, 1, 0), WORKER, 101.0, 101.0, 1, None)])
    (only,) = recorded(rig)
    assert (only["entry"], only["batch_index"], only["key_digest"]) == (3, 1, 5)


def test_what_does_not_fit_is_counted_by_message(tmp_path: Path) -> None:
    """By what became of it: a batch counts as many as it has."""
    rig = JournalRig(tmp_path, bytes_max=1, digests=KeyDigests(b"secret"))
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    recorder.sent(WORKER, [part(1, 3), part(2)], 101.0)
    recorder.ended([(How.ACKED, part(1, 3), WORKER, 102.0, 101.0, 1, None)])
    assert recorded(rig) == []
    assert rig.spool.dropped == {"sent": 4, "acked": 3}


def test_what_cannot_be_cut_and_claims_very_many_has_one_row(rig: JournalRig) -> None:
    """As a whole, however often it is delivered; what it claims is counted, but for keys that are not recorded."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    claims, smaller, unrecorded = part(1), part(2, LISTED_MAX), part(3)
    for each in (claims, smaller, unrecorded):
        each.opaque = True
    claims.count = unrecorded.count = 1 << 20
    unrecorded.digest = 0
    for _ in range(2):
        recorder.sent(WORKER, [claims, unrecorded], 101.0)
        recorder.ended([(How.ASKED_FOR, each, WORKER, 102.0, 101.0, 1, None) for each in (claims, unrecorded)])
    assert rig.journal.unlisted == 2 << 20
    recorder.sent(WORKER, [smaller], 103.0)
    assert rig.journal.unlisted == 2 << 20
    found = [
        (row["event"], row["why"], row["entry"], row["batch_index"], row["slot"], row["key_digest"], row["size_bytes"])
        for row in recorded(rig)
    ]
    of_claims = (1, -1, 1_001, 7, 50)
    assert found[:4] == [*[("sent", "whole", *of_claims)] * 2, *[("returned", "asked_for", *of_claims)] * 2]
    assert found[4:] == [("sent", "whole", 2, index, 1_002, 7, 50) for index in range(LISTED_MAX)]


def test_a_batch_left_of_an_earlier_run_is_recorded_alike(rig: JournalRig) -> None:
    """Of which only some messages are left: by their indexes, or as one."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    count = SLICED_MESSAGES_MAX + 1
    (some,) = mixed_batch(pack(5, 1), b"x" * count, [9] * count, 0, 100.0, (3, 8)).parts
    (most,) = mixed_batch(pack(5, 2), b"x" * count, [9] * count, 0, 100.0, tuple(range(1, count))).parts
    some.digest = most.digest = 7
    recorder.sent(WORKER, [some, most], 101.0)
    recorder.ended([(How.ACKED, most, WORKER, 102.0, 101.0, 1, None)])
    found = [(row["event"], row["entry"], row["batch_index"], row["size_bytes"]) for row in recorded(rig)]
    assert found == [("sent", 1, 3, 1), ("sent", 1, 8, 1), ("sent", 2, -1, count - 1), ("acked", 2, -1, count - 1)]


def test_a_message_alone_has_no_index_whatever_it_is_acknowledged_by(rig: JournalRig) -> None:
    """A client may acknowledge it by a bit, as one of a batch."""
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    alone = part(1)
    recorder.sent(WORKER, [alone], 101.0)
    batch_of(alone)
    recorder.ended([(How.RETURNED, alone, WORKER, 102.0, 101.0, 1, alone.message_indexes())])
    recorder.ended([(How.ACKED, alone, WORKER, 103.0, 101.0, 1, (0,))])
    assert [row["batch_index"] for row in recorded(rig)] == [-1, -1, -1]


def gathered() -> tuple[DeliveryLog, SubscriptionRecorder, list[DeliveryChunk]]:
    """A log, its recorder, and what was handed in."""
    chunks: list[DeliveryChunk] = []
    digests = KeyDigests(b"secret")
    log = DeliveryLog("a" * 32, digests, chunks.append, lambda: 0)
    return log, SubscriptionRecorder(KEY, log, digests.of), chunks


def test_what_is_handed_in_is_bounded_by_its_rows() -> None:
    """Also in the middle of what is told at once, of messages that are sent and of those that end."""
    log, recorder, chunks = gathered()
    mixed = mixed_batch(pack(5, 999), b"x" * 30_000, [9, 11] * 15_000, 0, 100.0).parts
    mixed[0].digest = tuple(range(1, 30_001))
    batches = [part(entry, 3_000) for entry in range(20)]
    units = [*batches, part(50, SLICED_MESSAGES_MAX), *mixed, *map(part, range(60, 80))]
    messages = sum(unit.count for unit in units)
    recorder.sent(WORKER, units, 101.0)
    recorder.ended([(How.RETURNED, unit, WORKER, 102.0, 101.0, 1, unit.message_indexes()) for unit in units])
    log.hand_in()
    rows = [chunk.batch().num_rows for chunk in chunks]
    assert sum(rows) == 2 * messages
    assert max(rows) < ROWS_AT_A_TIME + SLICED_MESSAGES_MAX
    assert all(count >= ROWS_AT_A_TIME for count in rows[:-1])
    assert [sum(chunk.counted().values()) for chunk in chunks] == rows


def test_a_whole_batch_of_one_key_is_one_struct_also_when_it_comes_back() -> None:
    """The loop's work is that of an entry; what waits counts as what it takes, and a little for each row."""
    log, recorder, chunks = gathered()
    batch = part(1, SLICED_MESSAGES_MAX)
    recorder.sent(WORKER, [batch], 101.0)
    recorder.ended([(How.RETURNED, batch, WORKER, 102.0, 101.0, 1, batch.message_indexes())])
    assert log.structs == []
    assert [chunk.size_bytes for chunk in chunks] == [STRUCT_BYTES + SLICED_MESSAGES_MAX * ROW_BYTES] * 2


def test_without_a_wish_there_is_no_record(tmp_path: Path) -> None:
    """Events are kept all the same."""
    rig = JournalRig(tmp_path)
    assert rig.journal.recorder(KEY) is None
    assert rig.journal.unlisted == 0
    rig.end()


def test_keys_themselves_are_written_if_that_is_wished(tmp_path: Path) -> None:
    """Beside their digests; what is no text is shown by its bytes."""
    rig = JournalRig(tmp_path, digests=KeyDigests(b"secret", plain=True))
    recorder = rig.journal.recorder(KEY)
    assert recorder is not None
    recorder.sent(WORKER, [part(1, 1, recorder.digest(b"tom")), part(2, 1, recorder.digest(b"\xff"))], 101.0)
    assert [row["key"] for row in recorded(rig)] == ["tom", "\\xff"]


@given(st.binary(), st.binary(min_size=1), st.binary(min_size=1))
def test_a_digest_is_of_the_key_and_the_secret(key: bytes, one: bytes, other: bytes) -> None:
    """The same in every life and at every replica; another for another secret; never 0 if all are recorded."""
    assert KeyDigests(one).of(key) == KeyDigests(one).of(key) != 0
    assert one == other or KeyDigests(one).of(key) != KeyDigests(other).of(key)
    assert -(1 << 63) <= KeyDigests(one).of(key) < 1 << 63


def test_a_sample_is_of_keys() -> None:
    """About as many as were wished, the same ones every time, and more of them include fewer."""
    keys = [b"%d" % number for number in range(10_000)]
    half, tenth = KeyDigests(b"s", 0.5), KeyDigests(b"s", 0.1)
    of_half, of_tenth = ({key for key in keys if digests.of(key)} for digests in (half, tenth))
    assert 4_700 < len(of_half) < 5_300
    assert 850 < len(of_tenth) < 1_150
    assert of_tenth < of_half
    assert not any(KeyDigests(b"s", 0.0).of(key) for key in keys)


def test_few_keys_are_remembered_and_none_changes() -> None:
    """However many come."""
    digests = KeyDigests(b"s", plain=True)
    keys = [b"%d" % number for number in range(2 * KEYS_REMEMBERED + 10)]
    first = [digests.of(key) for key in keys]
    assert [digests.of(key) for key in keys] == first
    plain = digests.plain()
    assert plain is not None
    assert len(plain) <= 2 * KEYS_REMEMBERED
    assert plain[first[-1]] == keys[-1]


def test_every_end_has_a_name() -> None:
    """The struct holds numbers; the schema tells what each means."""
    ends = ("acked", "returned", "dropped", "returned", "returned", "acked", "returned")
    assert ("sent", *ends, "sent", "sent", "sent") == EVENTS
    assert [int(how) for how in How] == [1, 2, 3, 4, 5, 6, 7]
