"""What was asked of keys and workers, and when: read from the journal's events, for the audit of policies.

Few rows, even of a long run: so they are put together here, alike for both engines. All times are of a run's own clock.
A run without such events asked for nothing, as far as the journal tells; journals of schema version 2 and older have
none, so that nothing of them is judged by a policy.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MS: Final = 1_000_000
NEVER: Final = (1 << 63) - 1
"""The end of what has not ended."""
UNBOUNDED: Final = 1 << 60
"""A delay without a greatest: what is added to a time remains a number of 64 bits."""
BEGAN: Final = "subscription_began"
ENDED: Final = "subscription_ended"
CHANGED: Final = "key_policy"
PARKED: Final = "keys_parked"
RELEASED: Final = ("redriven", "parked_dropped")
LEASE_LOST: Final = "ack_lease_lost"
ORDER: Final = "operator_order"
QUARANTINE_BEGAN: Final = "worker_quarantined"
QUARANTINE_ENDED: Final = "quarantine_ended"
KINDS: Final = (BEGAN, ENDED, CHANGED, PARKED, *RELEASED, LEASE_LOST, ORDER, QUARANTINE_BEGAN, QUARANTINE_ENDED)
"""All events that are read here."""
EXCLUDED: Final = "excluded"
QUARANTINED: Final = "quarantined"
OFFENDERS_MAX: Final = 10_000
"""Names whose lost leases a gateway remembers: beyond that it forgets some, and so their quarantines."""
UNTOLD_END_NS: Final = 1_000 * MS
"""A quarantine that ends while its worker is away is told by no event, and its length counts from the look that found
the lost lease: so much before the event at most."""

Row = dict[str, Any]
RUN: Final = ("topic", "subscription", "life")


@dataclass(slots=True)
class PolicySpans:
    """Rows of the tables that the questions are asked of; each has the columns `RUN`."""

    policies: list[Row] = field(default_factory=list)
    """`since_ns`, `until_ns`, and what held then: `key_window`, `retry_delay_ns`, `retry_multiplier`, `retry_max_ns`,
    `ack_lease_ns`; what is 0 was not asked for."""
    parked: list[Row] = field(default_factory=list)
    """`slot`, `since_ns`, `until_ns`."""
    losses: list[Row] = field(default_factory=list)
    """Ack leases that ended: `consumer`, `lost_ns`, `ledger` and `entry` of what it held longest, `ack_lease_ns`."""
    kept_out: list[Row] = field(default_factory=list)
    """Workers that get nothing: `consumer`, `since_ns`, `until_ns`, `why` (`EXCLUDED` or `QUARANTINED`)."""

    def __bool__(self) -> bool:
        """Whether there is anything to judge."""
        return bool(self.policies or self.parked or self.losses or self.kept_out)

    @property
    def runs(self) -> list[Row]:
        """`RUN` of all of them, once each."""
        rows = [*self.policies, *self.parked, *self.losses, *self.kept_out]
        return [
            dict(zip(RUN, run, strict=True)) for run in dict.fromkeys(tuple(row[name] for name in RUN) for row in rows)
        ]


def policy_spans(events: Iterable[Row]) -> PolicySpans:
    """Read events of `KINDS`, in any order; each has the columns of the journal's table."""
    spans = PolicySpans()
    readers: dict[tuple[str, ...], _Reader] = {}
    offenders: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for event in sorted(events, key=lambda row: (row["at_ns"], row["number"])):
        run = tuple(event[name] for name in RUN)
        readers.setdefault(run, _Reader(dict(zip(RUN, run, strict=True)), spans)).read(event)
        if event["kind"] == LEASE_LOST:
            offenders[event["life"]].add((*run, event["consumer"]))
    # Else quarantines may have been forgotten, which is no fault.
    spans.kept_out = [
        row for row in spans.kept_out if row["why"] == EXCLUDED or len(offenders[row["life"]]) <= OFFENDERS_MAX
    ]
    return spans


class _Reader:
    """Reads the events of one subscription in one run, in their order."""

    def __init__(self, run: Row, spans: PolicySpans) -> None:
        self._run = run
        self._spans = spans
        self._policy: Row = {}
        self._parked: dict[int, Row] = {}
        self._kept_out: dict[tuple[str, str], Row] = {}
        """By why, and the worker's name."""
        self._quarantines = False
        """Whether the policy has them: one that is over ends them without an event."""

    def read(self, event: Row) -> None:
        """The next of its run."""
        kind, at_ns = event["kind"], event["at_ns"]
        facts = json.loads(event["facts"])
        if kind in {BEGAN, ENDED, CHANGED}:
            self._asked(kind, at_ns, facts)
        elif kind == PARKED:
            for slot in facts["slots"]:
                self._parked[slot] = {**self._run, "slot": slot, "since_ns": at_ns, "until_ns": NEVER}
                self._spans.parked.append(self._parked[slot])
        elif kind in RELEASED:
            self._released(facts["slot"], at_ns)
        elif kind == LEASE_LOST:
            self._lost(event["consumer"], at_ns, facts)
        else:
            self._worker_told(kind, event["consumer"], at_ns, facts)

    def _asked(self, kind: str, at_ns: int, facts: Row) -> None:
        """The subscription begins or ends, or its policy is another one."""
        self._policy_ended(at_ns)
        if kind != CHANGED:
            for slot in list(self._parked):
                self._released(slot, at_ns)
            self._let_all_in(EXCLUDED, at_ns)  # orders to a subscription that is not here are told when it begins
        if kind == ENDED:
            return
        self._policy_began(at_ns, facts)
        self._quarantines = bool(facts.get("quarantine_after"))
        if not self._quarantines:
            self._let_all_in(QUARANTINED, at_ns)
        for name in facts.get("excluded", ()):
            self._keep_out(EXCLUDED, name, at_ns)

    def _worker_told(self, kind: str, consumer: str, at_ns: int, facts: Row) -> None:
        """It gets nothing more, or may again; or the order was another one."""
        order = facts.get("order")
        if order == "exclude":
            self._keep_out(EXCLUDED, consumer, at_ns)
        elif order == "readmit":
            self._let_in(EXCLUDED, consumer, at_ns)
            self._let_in(QUARANTINED, consumer, at_ns)
        elif kind == QUARANTINE_ENDED:
            self._let_in(QUARANTINED, consumer, at_ns)
        elif kind == QUARANTINE_BEGAN and self._quarantines:
            self._let_in(QUARANTINED, consumer, at_ns)
            self._keep_out(QUARANTINED, consumer, at_ns, at_ns + int(facts["lasts_s"] * 1_000 * MS) - UNTOLD_END_NS)

    def _keep_out(self, why: str, consumer: str, at_ns: int, until_ns: int = NEVER) -> None:
        if (why, consumer) not in self._kept_out:
            row = {**self._run, "consumer": consumer, "why": why, "since_ns": at_ns, "until_ns": until_ns}
            self._kept_out[why, consumer] = row
            self._spans.kept_out.append(row)

    def _let_in(self, why: str, consumer: str, at_ns: int) -> None:
        row = self._kept_out.pop((why, consumer), None)
        if row is not None:
            row["until_ns"] = min(row["until_ns"], at_ns)

    def _let_all_in(self, why: str, at_ns: int) -> None:
        for cause, name in list(self._kept_out):
            if cause == why:
                self._let_in(why, name, at_ns)

    def _policy_began(self, at_ns: int, facts: Row) -> None:
        self._policy = {
            **self._run,
            "since_ns": at_ns,
            "until_ns": NEVER,
            "key_window": int(facts.get("key_window", 0)),
            "retry_delay_ns": int(facts.get("retry_delay_ms", 0) * MS),
            "retry_multiplier": float(facts.get("retry_multiplier", 1.0)),
            "retry_max_ns": int(facts.get("retry_delay_max_ms", 0) * MS) or UNBOUNDED,
            "ack_lease_ns": int(facts.get("ack_lease_ms", 0) * MS),
        }
        if self._policy["key_window"] or self._policy["retry_delay_ns"] or self._policy["ack_lease_ns"]:
            self._spans.policies.append(self._policy)

    def _policy_ended(self, at_ns: int) -> None:
        if self._policy:
            self._policy["until_ns"] = at_ns

    def _released(self, slot: int, at_ns: int) -> None:
        if slot in self._parked:
            self._parked.pop(slot)["until_ns"] = at_ns

    def _lost(self, consumer: str, at_ns: int, facts: Row) -> None:
        lease_ns = self._policy.get("ack_lease_ns", 0)
        if lease_ns:
            ledger, entry = map(int, facts["position"].split(":"))
            lost = {"consumer": consumer, "lost_ns": at_ns, "ledger": ledger, "entry": entry, "ack_lease_ns": lease_ns}
            self._spans.losses.append(self._run | lost)
