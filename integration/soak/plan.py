"""The size of a soak and the role of each process: one value, passed to every process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, Self

SUBSCRIPTIONS_PER_IDLE_TOPIC: Final = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of one soak."""

    service_url: str = ""
    seconds: float = 1800.0
    idle_workers: int = 5_000
    active_workers: int = 200
    subscriptions: int = 2_000
    active_subscriptions: int = 20
    """Of those: each has a topic of its own, with messages."""
    keys: int = 50
    """Of each active topic."""
    messages_per_s: float = 400.0
    """Over all active topics; half of these are sent in batches of several keys."""
    restarts_per_s: float = 2.0
    """Workers that leave and come again, over all active ones; as many idle ones do."""
    idle_processes: int = 4
    active_processes: int = 2
    sample_s: float = 5.0
    name: str = "soak"
    """Part of every topic's name."""

    def to_json(self) -> str:
        """For the command line of a child."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        return cls(**json.loads(text))

    def active_topic(self, number: int) -> str:
        """The topic of an active subscription."""
        return f"persistent://public/default/{self.name}-active-{number}"

    def idle_place(self, worker: int) -> tuple[str, str]:
        """Topic and subscription of an idle worker: they are dealt round."""
        number = worker % (self.subscriptions - self.active_subscriptions)
        topic, subscription = divmod(number, SUBSCRIPTIONS_PER_IDLE_TOPIC)
        return f"persistent://public/default/{self.name}-idle-{topic}", f"s{subscription}"

    def idle_of(self, process: int) -> range:
        """Idle workers of one process."""
        return range(process, self.idle_workers, self.idle_processes)

    def active_of(self, process: int) -> range:
        """Active workers of one process: all of a subscription are in one, so that it can judge their order."""
        per_subscription = self.active_workers // self.active_subscriptions
        chosen = [number for number in range(self.active_subscriptions) if number % self.active_processes == process]
        return range(len(chosen) * per_subscription)

    def active_place(self, process: int, worker: int) -> int:
        """The active subscription of one of them."""
        per_process = len(range(process, self.active_subscriptions, self.active_processes))
        return process + self.active_processes * (worker % per_process)

    @property
    def connections(self) -> int:
        """Connections of clients, the producers' one among them."""
        return self.idle_workers + self.active_workers + 1
