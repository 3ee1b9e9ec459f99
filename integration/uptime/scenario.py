"""The scenario on a running broker and gateway: primaries fail one by one, and who owns what is written down.

Each primary first takes the endpoints it prefers, so that both modes begin alike. Then the standby cluster queues for
every endpoint, and only after it the primaries for the endpoints of each other: in the order of arrival the standby is
always next. Owners are read from the hosts' own reports, and compared with the one producer that the broker has.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import httpx

from integration.errors import IntegrationError
from integration.uptime.host import Wish
from integration.uptime.hosts import HostProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from integration.gateway import KeylineGateway
    from integration.standalone import PulsarStandalone
    from integration.uptime.plan import Plan

SETTLE_S_MAX: Final = 180.0
"""Takes some hundred milliseconds; a loaded machine may need many times that."""
POLL_S: Final = 0.02
REQUEST_S_MAX: Final = 60.0


class UnsettledError(IntegrationError):
    """The hosts did not get where the scenario wants them in time."""


@dataclass(frozen=True)
class Step:
    """Who owns what when everything has settled, at first or after one more failure."""

    failed: str | None
    """Who failed last; None at first."""
    owners: dict[int, list[str]]
    """Living hosts that were promoted, by endpoint: one for each, if all is well."""
    at_broker: dict[int, list[str]]
    """The same as the broker tells it."""
    settled_s: float
    """From the failure until each endpoint was known to have an owner."""

    def load_of(self, host: str) -> int:
        """How many endpoints it owns."""
        return sum(host in owners for owners in self.owners.values())


@dataclass(frozen=True)
class Record:
    """What happened in one mode."""

    plan: Plan
    with_priorities: bool
    steps: list[Step] = field(default_factory=list)

    def loads(self, host: str) -> list[int]:
        """What it owned at each step."""
        return [step.load_of(host) for step in self.steps]


class Scenario:
    """One mode of it. Topics carry the `prefix`, which no other run on the broker may use."""

    def __init__(
        self,
        broker: PulsarStandalone,
        gateway: KeylineGateway,
        directory: Path,
        plan: Plan,
        prefix: str,
        *,
        with_priorities: bool,
    ) -> None:
        """Nothing starts yet; `directory` gets the hosts' reports and logs."""
        self._broker = broker
        self._gateway = gateway
        self._directory = directory
        self._plan = plan
        self._prefix = prefix
        self._with_priorities = with_priorities
        self._hosts: dict[str, HostProcess] = {}
        self._http = httpx.Client(timeout=REQUEST_S_MAX, trust_env=False)

    def run(self) -> Record:
        """Let primaries fail until none is left, and return what was seen. No host survives it.

        Raises:
            UnsettledError: endpoints had no owner for too long.
            HostEndedError: a host ended by itself.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        record = Record(self._plan, self._with_priorities)
        with ExitStack() as stage:
            stage.enter_context(self._http)
            self._set_stage(stage)
            record.steps.append(self._settled(None, time.monotonic()))
            for name in self._plan.primaries:
                failed_at = time.monotonic()
                self._hosts[name].fail()
                record.steps.append(self._settled(name, failed_at))
        return record

    def _set_stage(self, stage: ExitStack) -> None:
        plan, endpoints = self._plan, range(self._plan.endpoint_count)
        for name in plan.primaries:
            own = [endpoint for endpoint in endpoints if plan.first_choice(endpoint) == name]
            self._start(stage, name, own, [endpoint for endpoint in endpoints if endpoint not in own])
        self._wait(self._all_owned, "the primaries to own what they prefer")
        for count, name in enumerate(plan.standbys, 1):
            self._start(stage, name, list(endpoints), [])
            self._wait_for_queues(count)
        for name in plan.primaries:
            self._hosts[name].start_second_wave()
        # Everybody but the owner.
        self._wait_for_queues(plan.standby_count + plan.primary_count - 1)

    def _start(self, stage: ExitStack, name: str, first: list[int], second: list[int]) -> None:
        waves = ([self._wish(name, endpoint) for endpoint in first], [self._wish(name, item) for item in second])
        host = HostProcess(name, self._gateway.service_url, waves, self._directory)
        stage.callback(host.fail)
        self._hosts[name] = host

    def _wish(self, host: str, endpoint: int) -> Wish:
        priority = self._plan.priorities(endpoint)[host] if self._with_priorities else None
        return Wish(endpoint, f"persistent://{self._path(endpoint)}", priority)

    def _path(self, endpoint: int) -> str:
        return f"public/default/{self._prefix}-{endpoint}"

    def _settled(self, failed: str | None, failed_at: float) -> Step:
        self._wait(self._all_owned, f"an owner for each endpoint after the failure of {failed}")
        settled_s = time.monotonic() - failed_at
        at_broker = {endpoint: self._publishers(endpoint) for endpoint in range(self._plan.endpoint_count)}
        return Step(failed, self._owners(), at_broker, settled_s)

    def _owners(self) -> dict[int, list[str]]:
        promoted = {name: host.promoted() for name, host in self._hosts.items() if host.living}
        return {
            endpoint: [name for name, endpoints in promoted.items() if endpoint in endpoints]
            for endpoint in range(self._plan.endpoint_count)
        }

    def _all_owned(self) -> bool:
        return all(self._owners().values())

    def _wait_for_queues(self, count: int) -> None:
        for endpoint in range(self._plan.endpoint_count):
            self._wait(partial(self._queued, endpoint, count), f"{count} hosts in the queue of endpoint {endpoint}")

    def _queued(self, endpoint: int, count: int) -> bool:
        url = f"{self._gateway.admin_url}/api/v1/exclusive-producers/{self._path(endpoint)}"
        answer = self._http.get(url).raise_for_status()
        return int(answer.json()["summary"]["waiting_count"]) >= count

    def _publishers(self, endpoint: int) -> list[str]:
        url = f"{self._broker.admin_url}/admin/v2/persistent/{self._path(endpoint)}/stats"
        answer = self._http.get(url).raise_for_status()
        return [publisher["producerName"] for publisher in answer.json()["publishers"]]

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLE_S_MAX
        while not condition():
            if time.monotonic() > deadline:
                raise UnsettledError(f"waited {SETTLE_S_MAX:.0f} s for {what}; logs are in {self._directory}")
            time.sleep(POLL_S)
