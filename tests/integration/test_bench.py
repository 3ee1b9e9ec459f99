"""The bench end to end, at sizes that show that it works and measure nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from integration.bench import frames_made
from integration.bench.passage import traffic_in
from integration.bench.path import GatewayPath
from integration.bench.report import COLUMNS, Row, Spread, differences, figure, table_as_text, verdict
from integration.bench.stage import QUICK, Sizes
from proxy.wire.batch import walk_batch
from proxy.wire.metadata import peek

QUICK_S_MAX = 1_800


def test_a_spread_shows_the_extremes_of_few_values_and_the_middle_half_of_many() -> None:
    """One outlier among many repetitions does not pass for the spread."""
    assert str(Spread.of([3.0])) == "3.00"
    assert str(Spread.of([3.0, 1.0, 20.0])) == "3.00 (1.00 - 20.0)"
    assert Spread.of([*range(1, 12), 1_000]) == Spread(6.5, 4, 9, 12)


def test_numbers_keep_about_three_digits() -> None:
    """A table of microseconds and seconds stays readable."""
    assert [figure(value) for value in (0.126, 12.34, 123.4, 12_345.6, -0.5)] == [
        "0.13",
        "12.3",
        "123",
        "12,346",
        "-0.50",
    ]


def test_a_ratio_compares_neighbours_and_is_judged_by_its_median() -> None:
    """A slow pair of repetitions does not decide whether the target was reached."""
    row = Row("drain", "backlog", "s", direct=Spread.of([10, 10, 30]), gateway=Spread.of([10, 20, 30]))
    judged = row.with_ratio([10, 10, 30], [10, 20, 30], least=0.9)
    assert judged.compared == "ratio 1.00 (0.50 - 1.00)"
    assert judged.cells()[-1] == "ratio >= 0.9 reached"
    assert row.with_ratio([10], [20], least=0.9).cells()[-1] == "ratio >= 0.9 MISSED"


def test_what_the_gateway_adds_may_be_limited() -> None:
    """Latency is judged by the difference of neighbours, not by the gateway's own number."""
    row = Row("latency", "p50", "ms").with_added(differences([1.0, 5.0], [1.5, 5.5]), most=1)
    assert row.met
    assert row.cells()[-1] == "added <= 1 ms reached"
    assert not Row("inside", "path", "us", gateway=Spread.of([21.0])).with_limit(20).met


def test_shares_and_multiples_are_judged_round_by_round() -> None:
    """What took most of a slow round of the direct side is not held against the gateway."""
    row = Row("drain", "CPU", "us", direct=Spread.of([10, 10, 40]), gateway=Spread.of([9, 11, 20]))
    judged = row.with_share([10, 10, 40], [9, 11, 20], most=0.95)
    assert (judged.compared, judged.met) == ("gateway : direct 0.90 (0.50 - 1.10)", True)
    assert judged.cells()[-1] == "<= 0.95 of direct reached"
    assert not row.with_times("many : few", Spread.of([1.3]), 1.2).met


def test_the_end_names_what_was_missed_and_by_which_build() -> None:
    """A table of a hundred rows is not searched for them."""
    rows = [
        Row("inside", "path", "us", gateway=Spread.of([1.0])).with_limit(2),
        Row("inside", "join", "ms", gateway=Spread.of([11.0])).with_limit(10),
        Row("inside", "no target", "us", gateway=Spread.of([1.0])),
    ]
    assert verdict(rows, "compiled") == "1 of 2 targets reached, compiled; missed:\n  inside: join: <= 10"
    assert verdict(rows[:1], "pure Python") == "1 of 1 targets reached, pure Python"


def test_the_text_table_is_markdown_with_aligned_columns() -> None:
    """It can be pasted into the documentation as it is."""
    lines = table_as_text([Row("s", "what", "ms"), Row("s", "something longer", "us")]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split("|")[2].strip() == COLUMNS[0]


def test_the_quick_sizes_are_smaller_in_everything() -> None:
    """A quick run that measures one thing at full size would not be quick."""
    full = Sizes()
    assert all(getattr(QUICK, name) < getattr(full, name) for name in Sizes.__dataclass_fields__)


def test_mixed_batches_have_many_keys_and_are_the_same_in_every_run() -> None:
    """Rows of different days compare, and what is measured is no batch of one key."""
    tails = frames_made.mixed_tails(3, 100, key_count=1_000)
    assert tails == frames_made.mixed_tails(3, 100, key_count=1_000)
    keys = []
    for tail in tails:
        metadata, _, start = peek(tail)
        messages = walk_batch(tail[start:], metadata.num_messages_in_batch)
        keys.append([message.partition_key for message, _, _ in messages])
        assert metadata.partition_key == keys[-1][0]
    assert all(len(set(each)) > 80 for each in keys)
    assert keys[0] != keys[1]


def test_the_path_counts_messages_whether_their_batch_leaves_whole_or_in_slices() -> None:
    """What is divided by the count would else be the cost of a frame."""
    path = GatewayPath()
    assert path.pump(frames_made.single_tails(50), 10) == 50
    assert path.pump(frames_made.batch_tails(5, 50), 2) == 250
    acked = path.broker.acked
    assert path.pump(frames_made.mixed_tails(5, 100), 2) == 500
    assert path.broker.acked - acked == 5, "an entry is acknowledged once, when its last slice is"


def test_what_each_connection_carried_is_read_from_the_kernels_own_counts() -> None:
    """A connection that has not sent anything has no such counter."""
    text = (
        "0 0 127.0.0.1:6650 127.0.0.1:40000 cubic rto:204 rtt:0.7/0.6 bytes_sent:1200 bytes_received:90 send 12bps\n"
        "0 8 127.0.0.1:6650 127.0.0.1:40002 cubic bytes_received:7 app_limited\n"
    )
    first, second = "127.0.0.1:6650 127.0.0.1:40000", "127.0.0.1:6650 127.0.0.1:40002"
    assert traffic_in(text, "bytes_sent") == {first: 1200, second: 0}
    assert traffic_in(text, "bytes_received") == {first: 90, second: 7}


@pytest.mark.slow
@pytest.mark.broker
def test_a_quick_run_fills_every_row_of_the_table(tmp_path: Path) -> None:
    """Every section runs against a real broker and gateway, and every row has its numbers."""
    result = tmp_path / "bench.json"
    command = [sys.executable, "-m", "integration.bench", "--quick", "--json", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=QUICK_S_MAX, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    rows = json.loads(result.read_text())["rows"]
    assert {row["section"].split()[0] for row in rows} == {
        "drain", "mixed", "mixed-latency", "latency", "hand-over", "journal", "relay", "statistics", "scrape",
        "websockets", "waiters", "groups", "owners", "processes", "rolling-restart", "stuck-key", "bystander", "inside",
        "memory-idle", "memory-budget", "growth",
    }  # fmt: skip
    for row in rows:
        assert row["gateway"] is not None, row
        assert row["gateway"]["low"] <= row["gateway"]["median"] <= row["gateway"]["high"]
        # Statistics take less than a tick of the clock.
        with_itself = row["section"].split()[0] in {
            "statistics",
            "scrape",
            "journal",
            "bystander",
            "owners",
            "processes",
            "stuck-key",
        }
        if row["compared"] and not with_itself:
            assert row["direct"]["median"] > 0, row
        assert row["measured"] in done.stdout
