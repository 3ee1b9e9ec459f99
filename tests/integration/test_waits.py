"""How long keys waited, from what workers wrote down."""

from __future__ import annotations

from pathlib import Path

from integration.load.lives import WorkerLife
from integration.load.payload import Number
from integration.load.records import Event, RecordReader, RecordWriter
from integration.load.waits import longest_waits

PLACE = (7, 1, -1)


def test_the_longest_wait_of_each_key_counts_first_deliveries(tmp_path: Path) -> None:
    """Whoever got a message first; what came again later waited no longer."""
    first, second = RecordWriter(tmp_path / "first"), RecordWriter(tmp_path / "second")
    first.life(Event.JOINED, 1)
    first.message(Event.RECEIVED, 150, Number(0, 1, 0, 100), PLACE, 0)
    first.message(Event.RECEIVED, 220, Number(0, 1, 1, 200), PLACE, 0)
    second.message(Event.RECEIVED, 900, Number(0, 1, 0, 100), PLACE, 1)
    second.message(Event.RECEIVED, 230, Number(0, 2, 0, 200), PLACE, 0)
    second.message(Event.ACKED, 999, Number(0, 2, 0, 200), PLACE, 0)
    lives = [WorkerLife(name, RecordReader.all(tmp_path / name)) for name in ("second", "first")]
    assert longest_waits(lives) == {1: 50, 2: 30}
    assert longest_waits(lives, since_ns=200) == {1: 20, 2: 30}
    assert longest_waits(lives, until_ns=200) == {1: 50}
    assert longest_waits(lives, since_ns=100, until_ns=101) == {1: 50}
