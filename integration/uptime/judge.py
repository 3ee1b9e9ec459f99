"""Checks the record of a run, and describes what does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration.uptime.scenario import Record, Step


def problems(record: Record) -> list[str]:
    """Return what went wrong; nothing, if all is well. Without priorities only ownership itself is judged."""
    found = [problem for step in record.steps for problem in _ownership(step)]
    if record.with_priorities:
        for failed_count, step in enumerate(record.steps[:-1]):
            found += _standby(record, step) + _balance(record, step, failed_count)
    return found


def _ownership(step: Step) -> list[str]:
    """One owner for each endpoint, and the same one at the broker."""
    after = f"after the failure of {step.failed}" if step.failed else "at first"
    found = []
    for endpoint, owners in step.owners.items():
        if len(owners) != 1:
            found.append(f"{after}, endpoint {endpoint} has {len(owners)} owners: {', '.join(owners)}")
        elif step.at_broker[endpoint] != owners:
            found.append(f"{after}, endpoint {endpoint} is owned by {owners}, at the broker {step.at_broker[endpoint]}")
    return found


def _standby(record: Record, step: Step) -> list[str]:
    busy = {host: load for host in record.plan.standbys if (load := step.load_of(host))}
    return [f"after the failure of {step.failed} the standby owns {busy} while primaries live"] if busy else []


def _balance(record: Record, step: Step, failed_count: int) -> list[str]:
    loads = [step.load_of(host) for host in record.plan.primaries[failed_count:]]
    spread, promised = max(loads) - min(loads), record.plan.promised_spread(failed_count)
    if spread <= promised:
        return []
    return [f"after the failure of {step.failed} living primaries own {loads}, uneven by {spread} > {promised}"]
