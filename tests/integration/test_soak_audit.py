"""What the soak judges by: its audit of keys, its latencies, its slope, and its report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from integration.soak.audit import Held, KeyAudit
from integration.soak.content import Content, contents, send_frame
from integration.soak.histogram import Histogram
from integration.soak.measure import MIB, Footprint, complaints, slope_mib_per_minute
from integration.soak.plan import Plan
from integration.soak.report import SoakResult, Tally
from proxy.wire.frames import payload_start

KEY = (0, 1)


def audited(*steps: tuple[str, str, int]) -> KeyAudit:
    """An audit of (what, worker, sequence) of one key."""
    audit = KeyAudit()
    for what, worker, sequence in steps:
        if what == "gone":
            audit.gone(worker)
        else:
            getattr(audit, what)(worker, Held(KEY, sequence))
    return audit


def test_a_key_in_order_that_moves_when_it_is_free_is_right() -> None:
    """First deliveries without a gap, one worker at a time, a lost worker's message first of all at the next."""
    audit = audited(
        ("received", "a", 0),
        ("received", "a", 1),
        ("acknowledged", "a", 0),
        ("acknowledged", "a", 1),
        ("received", "b", 2),
        ("received", "b", 3),
        ("gone", "b", 0),
        ("received", "a", 2),
        ("received", "a", 3),
        ("received", "a", 4),
    )
    assert (audit.violations, audit.duplicates, audit.delivered) == (0, 2, 5)


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ([("received", "a", 1)], "1 came before 0"),
        ([("received", "a", 0), ("received", "b", 1)], "while a holds 1"),
        ([("received", "a", 0), ("received", "a", 1), ("gone", "a", 0), ("received", "b", 1)], "1 overtook 0"),
        ([("received", "a", 0), ("gone", "a", 0), ("received", "b", 1)], "1 overtook 0"),
    ],
)
def test_each_broken_rule_is_seen(steps: list[tuple[str, str, int]], what: str) -> None:
    """A gap, a second holder, a redelivery that was overtaken: each is accused once, in words."""
    audit = audited(*steps)
    assert audit.violations == 1
    assert what in audit.examples[0]


def test_quantiles_survive_being_added_up() -> None:
    """Two processes' latencies give the quantiles of all, within the width of a class."""
    one, other = Histogram(), Histogram()
    for number in range(1, 1001):
        (one if number % 2 else other).add(number * 1e3)
    total = Histogram(one.to_json())
    total.merge(Histogram(json.loads(json.dumps(other.to_json()))))
    assert len(total) == 1000
    assert total.quantile_ms(0.5) == pytest.approx(500, rel=0.06)
    assert total.quantile_ms(0.99) == pytest.approx(990, rel=0.06)
    assert Histogram().quantile_ms(0.5) == 0


def test_contents_come_back_from_single_messages_and_batches() -> None:
    """What a producer packs is what a worker unpacks."""
    messages = [Content(1, key, 5, 99) for key in range(4)]
    for packed in (messages[:1], messages):
        frame = send_frame(3, 7, packed)
        assert contents(frame[payload_start(frame) :]) == packed


def looks(*sizes: int) -> tuple[Footprint, ...]:
    """One look a minute."""
    return tuple(Footprint(60.0 * minute, size * MIB, 100, float(minute), 1.0) for minute, size in enumerate(sizes))


def test_the_slope_is_what_memory_grew_by_in_a_minute() -> None:
    """A straight line's is exact; noise around a level gives about none."""
    assert slope_mib_per_minute(looks(10, 12, 14, 16)) == pytest.approx(2)
    assert slope_mib_per_minute(looks(10, 11, 10, 11, 10)) == pytest.approx(0)
    assert slope_mib_per_minute(looks(10, 99)) == 0


def test_every_complaint_of_the_log_is_counted_by_kind(tmp_path: Path) -> None:
    """Warnings and worse, and whatever is no line of our log at all."""
    lines = [
        *[json.dumps({"level": "warning", "event": "slow"})] * 2,
        json.dumps({"level": "info", "event": "worker joined"}),
        "Traceback (most recent call last):",
    ]
    log = tmp_path / "log"
    log.write_text("\n".join(lines))
    assert complaints(log) == {"warning: slow": 2, "not JSON: Traceback (most recent call last):": 1}


FINE = SoakResult(
    plan=Plan(),
    joined_s=1.0,
    looks=looks(10, 10, 10, 10),
    descriptors_before=10,
    descriptors_after=10,
    latencies=(Histogram({"100": 3}),) * 6,
    tally=Tally(9, 9, 0, 0, (), (), 1, (), 0, 0),
    complaints={"warning: slow": 2},
)


def test_a_report_fails_for_loss_disorder_leaks_and_failures_only() -> None:
    """A warning is reported; it does not fail the run."""
    assert not FINE.failures
    assert any("2 x warning: slow" in line for line in FINE.lines())
    bad = {
        "lost": replace(FINE, tally=replace(FINE.tally, delivered=8, lost=("topic 0 key 1: 8 of 9",))),
        "out of order": replace(FINE, tally=replace(FINE.tally, violations=1)),
        "leaked": replace(FINE, descriptors_after=100),
        "failures of its own": replace(FINE, complaints={"error: receiver failed": 1}),
    }
    for what, result in bad.items():
        (failure,) = result.failures
        assert what in failure
        assert f"FAILED          {failure}" in result.lines()


def test_all_workers_of_an_active_subscription_are_in_one_process() -> None:
    """Otherwise nobody could judge its order."""
    plan = Plan(active_workers=30, active_subscriptions=6, active_processes=4)
    seats: dict[int, int] = {}
    for process in range(plan.active_processes):
        for worker in plan.active_of(process):
            place = plan.active_place(process, worker)
            assert seats.setdefault(place, process) == process
    assert set(seats) == set(range(6))
    assert sum(len(plan.active_of(process)) for process in range(4)) == 30
    idle = [worker for process in range(plan.idle_processes) for worker in plan.idle_of(process)]
    assert sorted(idle) == list(range(plan.idle_workers))
    places = {plan.idle_place(worker) for worker in idle}
    assert len(places) == plan.subscriptions - plan.active_subscriptions
