"""The parts of the bench that load both sides: the files of their workers, and who refuses how much."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TYPE_CHECKING

from integration.bench import drains as drains_module
from integration.bench import frames_made, growth, latency, latency_workers, mixed_worker, recompression
from integration.bench.backlog import payloads
from integration.bench.drain import WORKERS, Drain
from integration.bench.latency import Load, blocks_of
from integration.bench.latency_worker import NUMBER
from integration.bench.latency_workers import LatencyWorkers, ages_ms
from integration.bench.machine import Usage
from integration.bench.mixed_backlog import Backlog
from integration.bench.mixed_trouble import NONE, TROUBLES, rows_of
from integration.bench.passage import Passage

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from integration.bench.stage import Side


class FakeMessage:
    """As the official client's, as far as a listener asks."""

    def __init__(self, redeliveries: int) -> None:
        self._redeliveries = redeliveries

    def redelivery_count(self) -> int:
        """As the client's."""
        return self._redeliveries


class FakeConsumer:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.acked = self.nacked = 0

    def acknowledge(self, _message: FakeMessage) -> None:
        """As the client's."""
        self.acked += 1

    def negative_acknowledge(self, _message: FakeMessage) -> None:
        """As the client's."""
        self.nacked += 1


def test_workers_of_two_topics_share_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section of a full run found the files of one before it, and measured that again."""
    started: list[list[str]] = []
    monkeypatch.setattr(latency_workers, "OwnedProcess", lambda command, log: started.append([*command, str(log)]))

    class OfPaths:
        directory = tmp_path

        def url(self, side: str) -> str:
            return side

    names = ("latency-gateway", "statistics-latency", "latency-direct")
    for name in names:
        LatencyWorkers(OfPaths(), "gateway", f"persistent://a/b/{name}")  # type: ignore[arg-type]  # a stage without servers
    assert len({file for command in started for file in command[-2:]}) == 2 * WORKERS * len(names)


def test_a_load_of_another_rate_is_cut_into_its_own_seconds(tmp_path: Path) -> None:
    """The seconds that warm up are left out by the load's own rate."""
    rate, seconds = 10, latency.WARM_UP_BLOCKS + 2
    ages = [1_000] * (latency.WARM_UP_BLOCKS * rate) + [2] * rate + [7] * rate
    files = [tmp_path / "odd", tmp_path / "even"]
    for turn, file in enumerate(files):
        records = [(number, age * 10**6) for number, age in enumerate(ages) if number % 2 == turn]
        file.write_bytes(array(NUMBER, chain.from_iterable(records)).tobytes())
    assert len(ages) == rate * seconds
    assert [(block.p50_ms, block.p99_ms) for block in blocks_of(ages_ms(files), rate)] == [(2, 2), (7, 7)]


def test_a_load_has_a_topic_for_each_side() -> None:
    """What is sent to one side is not delivered by the other."""
    load = Load("mixed", "name")
    assert load.topic("direct") != load.topic("gateway")


def test_one_in_twenty_is_refused_at_its_first_coming_and_never_again() -> None:
    """Else a message would go round for ever, and the share would not be what the row says."""
    refusing = next(trouble for trouble in TROUBLES if trouble.nacked_every)
    received = mixed_worker.listener(refusing.nacked_every, slow_us=0)
    consumer = FakeConsumer()
    for redeliveries in [0] * 100 + [1] * 100:
        received(consumer, FakeMessage(redeliveries))
    assert (consumer.nacked, consumer.acked) == (5, 195)


def test_without_trouble_everything_is_acknowledged() -> None:
    """It is what the others are compared with."""
    assert (NONE.nacked_every, NONE.slow_us) == (0, 0)
    received = mixed_worker.listener(NONE.nacked_every, NONE.slow_us)
    consumer = FakeConsumer()
    for _ in range(100):
        received(consumer, FakeMessage(0))
    assert (consumer.nacked, consumer.acked) == (0, 100)


def test_trouble_is_judged_against_its_neighbour_without() -> None:
    """A slow minute of the machine falls on both of a repetition."""
    cpu_s = {NONE: (1.0, 4.0), TROUBLES[0]: (1.9, 7.6), TROUBLES[1]: (2.2, 8.8)}
    rows = rows_of("mixed", {trouble: [_drain(each) for each in spent] for trouble, spent in cpu_s.items()})
    judged = [(round(row.gateway.median, 3), row.met) for row in rows if row.gateway is not None and row.target]
    assert judged == [(1.9, True), (2.2, False)]


def test_backlogs_have_topics_of_their_own_and_the_same_payloads_in_every_run() -> None:
    """A backlog that is written onto another's would be of both."""
    names = ("", "batches of 1,000", "trouble")
    assert len({Backlog(name, 10).topic for name in names}) == len(names)
    assert all("," not in Backlog(name, 10).topic and " " not in Backlog(name, 10).topic for name in names)
    assert list(payloads(5)) == list(payloads(5))
    assert {len(each) for each in payloads(5)} == {frames_made.PAYLOAD_BYTES}


def test_compressing_slices_anew_is_told_in_bytes_and_in_the_cpu_of_both_sides() -> None:
    """Zstandard saves bytes and costs CPU, or there would be nothing to decide."""
    found = {row.measured: row.gateway.median for row in recompression.measure() if row.gateway is not None}
    assert found["zstd anew, slices, a message"] < found["uncompressed slices, a message"]
    assert found["zstd anew, the gateway's CPU for it, a message"] > 0


def test_each_side_of_a_drain_is_charged_for_the_processes_that_it_needs() -> None:
    """A gateway that idles beside a direct drain costs that drain nothing."""
    cpu_s = {"broker": 0.010, "workers": 0.020, "proxy": 0.004, "gateway": 0.002}
    sides: tuple[Side, ...] = ("direct", "proxy", "gateway")
    drains = [Drain(side, 1_000, 1.0, Usage(1.0, cpu_s, 0.0, 100.0), 80.0, None) for side in sides]
    times, own, broker, workers, every, _ = drains_module.rows_of(drains_module.UNBATCHED, drains)
    assert (times.compared, times.met) == ("ratio 1.00", False)
    assert [str(each) for each in (own.proxy, own.gateway)] == ["4.00", "2.00"]
    assert [row.gateway.median for row in (broker, workers) if row.gateway is not None] == [10.0, 20.0]
    assert [str(each) for each in (every.direct, every.proxy, every.gateway)] == ["30.0", "34.0", "32.0"]
    assert every.cells()[-1] == "<= 0.95 of direct MISSED"


def test_growth_compares_many_with_the_few_of_the_same_round() -> None:
    """A round in which the machine was slow says nothing of the number of workers."""
    few, many = growth.Load("4 workers", 1_000, 4), growth.Load("400 workers", 1_000, 400)
    (row,) = growth.rows_of(few, many, [10.0, 20.0, 10.0], [11.0, 22.0, 11.0])
    assert row.cells()[-2:] == ("400 workers : 4 workers 1.10 (1.10 - 1.10)", "<= 1.2 times reached")
    assert growth.Load("1,000 subscriptions", 300_000, 1, subscriptions=1_000).messages == 300


def _drain(cpu_s: float) -> Drain:
    return Drain("gateway", 1_000, 1.0, Usage(1.0, {}, 0.0, 100.0), 80.0, Passage(cpu_s, 0, 0, 0))
