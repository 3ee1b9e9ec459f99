"""Workers of several kinds on one subscription, each restarted once under load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from tests.integration.busy_replicas import note_standstills
from tests.integration.conditions import eventually
from tests.integration.conftest import explain


def share_a_load(
    directory: Path,
    gateway: KeylineGateway,
    topic: str,
    workers: Mapping[str, Mapping[str, Any]],
    topic_statistics: Callable[[str], dict[str, Any]],
    *,
    messages: int,
    keys: int,
    batching: Batching,
) -> None:
    """Nothing lost, reordered or shared, and repeated with a cause only; the broker keeps nothing.

    `gateway` may be the first of several, see `Replicas`. `workers` are options by name; some of them must refuse
    messages now and then.
    """
    with LoadRun(directory, gateway.service_url, topic) as run:
        for name, options in workers.items():
            run.start_workers(name, **options)
        run.produce(count=messages, keys=keys, batching=batching, run_length=5)
        for step, (name, options) in enumerate(workers.items()):
            run.wait_acknowledged(messages * (step + 1) // (len(workers) + 2))
            run.stop_worker(name)
            run.start_workers(name, **options)
        run.wait_acknowledged(messages)
        still = note_standstills(run, *beside(gateway.log))
        result = run.finish()
        assert result.ok, explain(result, gateway)
        assert result.delivered == result.acknowledged == messages, explain(result, gateway)
        assert result.duplicates_by_cause[Cause.NEGATIVE_ACK] > 0, explain(result, gateway)
        causes = {Cause.NEGATIVE_ACK, Cause.WORKER_LEFT, Cause.BATCH_UNFINISHED, *still}
        assert set(result.duplicates_by_cause) <= causes, explain(result, gateway)
        eventually(
            lambda: topic_statistics(topic)["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 0,
            "an empty backlog: every entry acknowledged at the broker too",
        )


def beside(log: Path) -> set[Path]:
    """A gateway's log, and those of the other replicas if there are any."""
    return {log, *log.parent.parent.glob(f"replica-*/{log.name}")}
