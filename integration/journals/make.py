"""Makes the journal of a plan: the gateway's own tables and files, and rows by numpy instead of by workers.

Time goes in *epochs*. In each, a key is at one worker; between two of them is a pause in which everything is
acknowledged, then some keys are at others. So nothing is wrong in it but what `faults` plants, on keys of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from integration.journals import policies
from integration.journals.faults import planted
from integration.journals.plan import Known, Plan
from integration.journals.rows import Deliveries, Rows, in_time
from proxy.journal.arrow import batch_of, with_facts
from proxy.journal.partition import by_hour, place_of
from proxy.journal.schema import DELIVERIES, DRAINS, EVENTS, METRICS, Table
from proxy.journal.segment import parquet_writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Told = tuple[int, str, str | None, dict[str, Any]]
    """When, what, about whom, and facts."""

TOPIC: Final = "persistent://public/default/orders"
SUBSCRIPTION: Final = "billing"
MS: Final = 1_000_000
PAUSE_NS: Final = 10 * MS
"""Between two epochs; longer than any message is worked on."""
WORK_NS: Final = (MS // 5, 5 * MS)
DRAINS_PER_EPOCH: Final = 20
SLOTS_APART: Final = 3_000
CLOCKS_APART_NS: Final = 1 << 50
"""Every life's clock begins somewhere else."""
MOVING: Final = 7
"""One in so many keys moves from one epoch to the next."""
MOMENTS: Final = ("at_ns", "received_ns", "sent_ns", "began_ns")
"""Columns that a life's clock tells."""
LEDGER_ENTRIES: Final = 50_000


@dataclass(frozen=True, slots=True)
class Messages:
    """Some of them, a place in each array for each."""

    sent_ns: NDArray[np.int64]
    work_ns: NDArray[np.int64]
    worker: NDArray[np.int64]
    key: NDArray[np.int64]
    number: NDArray[np.int64]
    comes_back: NDArray[np.bool_]


def make(plan: Plan, root: Path) -> Known:
    """Write it below `root`, which has no journal yet. Raises OSError."""
    known, size = Known(), plan.file_messages
    seen = np.zeros(plan.keys, np.bool_)
    faults = planted(plan, int(_sent_ns(plan, np.array([plan.messages]))[0]), known) if plan.faults else None
    for first in range(0, plan.messages, size):
        messages = _messages(plan, first, min(size, plan.messages - first))
        seen[messages.key] = True
        rows = _rows(messages, known)
        if faults is not None:
            rows = in_time([rows, faults.where(_begun_with(plan, first, faults))])
        _write_rows(plan, root, first // size, rows)
    known.keys += int(seen.sum())
    _write_told(plan, root, known)
    if plan.policy_faults:
        _write_policies(plan, root, known)
    return known


def _write_policies(plan: Plan, root: Path, known: Known) -> None:
    """The subscription that asks for them."""
    write = partial(_write, plan, root, gateway=0, name=policies.SUBSCRIPTION, subscription=policies.SUBSCRIPTION)
    write(DELIVERIES, columns=policies.policy_rows(plan, known).columns())
    write(EVENTS, columns=_event_columns(policies.policy_events(plan)))
    looks = policies.looks_ns(plan)
    write(METRICS, columns=_numbers(looks, policies.EXTENSIONS, np.zeros(len(looks))))


def _begun_with(plan: Plan, first: int, rows: Rows) -> NDArray[np.bool_]:
    """Of planted rows: those that belong to the file that begins with this message."""
    begin, end = _sent_ns(plan, np.array([first, first + plan.file_messages]))
    is_last = first + plan.file_messages >= plan.messages
    belongs: NDArray[np.bool_] = (rows.at_ns >= begin) & ((rows.at_ns < end) | is_last)
    return belongs


def _messages(plan: Plan, first: int, count: int) -> Messages:
    draw = np.random.default_rng((plan.seed, first))
    number = np.arange(first, first + count, dtype=np.int64)
    key = (plan.keys * draw.random(count) ** 3).astype(np.int64)  # few keys have much, most have little
    epoch = number // plan.epoch_messages
    worker = (key + epoch * (key % MOVING == 0)) % plan.workers
    return Messages(
        sent_ns=_sent_ns(plan, number),
        work_ns=draw.integers(*WORK_NS, count),
        worker=worker,
        key=key,
        number=number,
        comes_back=draw.random(count) < plan.returned_share,
    )


def _sent_ns(plan: Plan, number: NDArray[np.int64]) -> NDArray[np.int64]:
    return number * (1_000_000_000 // plan.rate_per_s) + (number // plan.epoch_messages) * PAUSE_NS


def _rows(messages: Messages, known: Known) -> Rows:
    again = messages.comes_back
    back_ns = messages.sent_ns + messages.work_ns // 3
    done_ns = messages.sent_ns + messages.work_ns
    count, came_back = len(again), int(again.sum())
    known.messages += count
    known.deliveries += count + came_back
    known.acked += count
    known.returned += came_back
    known.rows += 2 * (count + came_back)
    last_sent_ns = np.where(again, back_ns, messages.sent_ns)
    ledger, entry = 1 + messages.number // LEDGER_ENTRIES, messages.number % LEDGER_ENTRIES
    given = Deliveries(messages.key, messages.worker, ledger, entry, messages.sent_ns - MS)
    return in_time(
        [
            given.rows("sent", messages.sent_ns, messages.sent_ns, 1),
            given.rows("returned", back_ns, messages.sent_ns, 1).where(again),
            given.rows("sent", back_ns, back_ns, 2).where(again),
            given.rows("acked", done_ns, last_sent_ns, np.where(again, 2, 1)),
        ]
    )


def _write_rows(plan: Plan, root: Path, number: int, rows: Rows) -> None:
    for gateway in range(plan.gateways):
        columns = rows.where(rows.key % plan.gateways == gateway).columns()
        _write(plan, root, DELIVERIES, gateway, f"{number:06d}", columns)


def _write_told(plan: Plan, root: Path, known: Known) -> None:
    """Events and hand-overs of every gateway."""
    epochs = -(-plan.messages // plan.epoch_messages)
    began = _sent_ns(plan, np.arange(epochs, dtype=np.int64) * plan.epoch_messages)
    for gateway in range(plan.gateways):
        told: list[Told] = [(0, "subscription_began", None, {"ordering_mode": "key_exclusive"})]
        told += [(0, "worker_joined", f"w{worker}", {}) for worker in range(plan.workers)]
        told += [event for epoch, at in enumerate(began[1:], 1) for event in _restart(plan, epoch, int(at))]
        _write(plan, root, EVENTS, gateway, "told", _event_columns(told))
        moved = [
            (int(at), drain * SLOTS_APART, _worker(plan, epoch + 1), _worker(plan, epoch), (drain + 1) * MS)
            for epoch, at in enumerate(began[1:], 1)
            for drain in range(DRAINS_PER_EPOCH)
        ]
        known.hand_overs += len(moved)
        known.hand_over_ns += sum(duration for *_, duration in moved)
        if moved:
            _write(plan, root, DRAINS, gateway, "told", _drain_columns(moved))
        _write(plan, root, METRICS, gateway, "told", _metric_columns(began))


def _worker(plan: Plan, number: int) -> str:
    return f"w{number % plan.workers}"


def _restart(plan: Plan, epoch: int, at_ns: int) -> list[Told]:
    """A worker leaves in the pause and comes again as the epoch begins, which takes slots from its neighbour."""
    name, neighbour = _worker(plan, epoch), _worker(plan, epoch + 1)
    slots = [drain * SLOTS_APART for drain in range(DRAINS_PER_EPOCH)]
    lost = [{"start": slot, "end": slot, "source": name, "target": neighbour} for slot in slots]
    gained = [{"start": slot, "end": slot, "source": neighbour, "target": name} for slot in slots]
    return [
        (at_ns - PAUSE_NS // 2, "worker_left", name, {"moves_count": len(lost), "moves": lost}),
        (at_ns, "worker_joined", name, {"moves_count": len(gained), "moves": gained}),
    ]


def _event_columns(events: list[Told]) -> dict[str, Any]:
    return {
        "at_ns": np.array([at for at, *_ in events], np.int64),
        "number": np.arange(1, len(events) + 1),
        "kind": pa.array([kind for _, kind, _, _ in events]).dictionary_encode(),
        "consumer": pa.array([name for _, _, name, _ in events], pa.string()).dictionary_encode(),
        "facts": [json.dumps({**facts, "worker": name}) for _, _, name, facts in events],
    }


def _drain_columns(drains: list[tuple[int, int, str, str, int]]) -> dict[str, Any]:
    ends = np.array([at + duration for at, *_, duration in drains], np.int64)
    return {
        "at_ns": ends,
        "slot": np.array([slot for _, slot, *_ in drains], np.int32),
        "source": pa.array([source for _, _, source, _, _ in drains]).dictionary_encode(),
        "target": pa.array([target for _, _, _, target, _ in drains]).dictionary_encode(),
        "began_ns": np.array([at for at, *_ in drains], np.int64),
        "duration_ns": np.array([duration for *_, duration in drains], np.int64),
        "waiting_messages": np.ones(len(drains), np.int64),
        "cause": "worker_joined",
        "cause_consumer": pa.array([target for _, _, _, target, _ in drains]).dictionary_encode(),
    }


def _metric_columns(began: NDArray[np.int64]) -> dict[str, Any]:
    """Hashes drain as an epoch begins, and none a second later."""
    at_ns = np.sort(np.concatenate([began, began + 1_000 * MS]))
    values = np.where(np.isin(at_ns, began), float(DRAINS_PER_EPOCH), 0.0)
    return _numbers(at_ns, "keyline_subscription_draining_hashes", values)


def _numbers(at_ns: NDArray[np.int64], name: str, values: NDArray[np.float64]) -> dict[str, Any]:
    """What a metric was at these moments."""
    count = len(at_ns)
    return {
        "at_ns": at_ns,
        "name": name,
        "consumer": pa.nulls(count, pa.string()).dictionary_encode(),
        "labels": pa.array([[]] * count, pa.map_(pa.string(), pa.string())),
        "value": values,
    }


def _write(
    plan: Plan,
    root: Path,
    table: Table,
    gateway: int,
    name: str,
    columns: Mapping[str, Any],
    subscription: str = SUBSCRIPTION,
) -> None:
    """As the gateway of this number has it, whose life's clock is its own."""
    life, clock_ns = f"life-{gateway}", gateway * CLOCKS_APART_NS
    at_ns = np.asarray(columns["at_ns"])
    own = {
        name: values + clock_ns for name, values in columns.items() if name.endswith("_ns") and name != "duration_ns"
    }
    batch = batch_of(
        table,
        {
            **columns,
            **own,
            "life": life,
            "topic": TOPIC,
            "subscription": subscription,
            "wall_ns": at_ns + plan.begin_s * 1_000_000_000,
        },
    )
    facts = {"gateway": f"gw-{gateway}", "life": life, "gateway_version": "made"}
    for hour, rows in by_hour(batch):
        place = root / place_of(table, hour, f"gw-{gateway}", f"{life}-{name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        with parquet_writer(place, with_facts(table, facts), table) as file:
            file.write_batch(rows)
