"""What the demo shows, read from the gateway's statistics at intervals: values only, no drawing.

The gateway speaks of slots; people speak of keys. The demo knows its keys, so it turns each slot back into the key
that has it. Two of a few hundred keys may share a slot; then they share their fate too, and both are named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integration.load.payload import key_name
from proxy.core.sticky_key import consistent_slot, murmur31


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker."""

    name: str
    share: float
    """Of all keys, 0 to 1."""
    in_hand: int
    """Messages it has and has not acknowledged."""
    done: int
    """Messages it has acknowledged since it joined."""
    draining: int
    """Keys it no longer owns but still has messages of."""
    replica: str = ""
    """Where it is connected, if there are several gateways."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One gateway of several."""

    name: str
    state: str
    leads: bool = False
    owns: bool = False
    """Whether it serves the demo's subscription."""
    bundles: int = 0
    """Parts of all subscriptions that it owns."""
    bundles_count: int = 0
    """All there are; 0 before it knows."""


@dataclass(frozen=True, slots=True)
class WaitView:
    """A key that waits for its old worker."""

    keys: str
    holder: str
    in_hand: int
    owner: str
    waiting: int
    """Messages of it that are held back."""
    seconds: float


@dataclass(frozen=True, slots=True)
class HandOverView:
    """A key that was finished at its old worker and now goes to its new one."""

    keys: str
    holder: str
    owner: str
    waiting: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything at one moment."""

    workers: tuple[WorkerView, ...] = ()
    waits: tuple[WaitView, ...] = ()
    """Keys that drain, longest first."""
    hand_overs: tuple[HandOverView, ...] = ()
    """Since the scene before."""
    hand_over_count: int = 0
    """Since the start."""
    held_back: int = 0
    """Messages that wait for their key's old worker."""
    replicas: tuple[ReplicaView, ...] = ()
    """If there are several gateways."""


class SceneSource:
    """Makes scenes of one topic, remembering which hand-overs were shown."""

    def __init__(self, topic: str, key_count: int) -> None:
        """Work out each key's slot."""
        self._topic = topic
        self._names: dict[int, list[str]] = defaultdict(list)
        for key in range(key_count):
            name = key_name(key)
            self._names[consistent_slot(murmur31(name.encode()))].append(name)
        self._shown = 0

    def scene(
        self, statistics: dict[str, Any], replica: ReplicaView | None = None, doors: Mapping[str, str] | None = None
    ) -> Scene:
        """Read the gateway's answer, or that of one replica; `doors` has where each worker is connected."""
        replicas = () if replica is None else (replica,)
        found = [item for item in statistics["subscriptions"] if item["topic"] == self._topic]
        if not found:
            # No worker at the moment. The next one opens the subscription anew, and its counts begin again.
            self._shown = 0
            return Scene(replicas=replicas)
        subscription = found[0]
        now = subscription["now"]
        workers = sorted(subscription["dispatcher"]["workers"], key=lambda worker: str(worker["name"]))
        waits = [self._wait(worker["name"], item, now) for worker in workers for item in worker["draining_hashes"]]
        new = max(0, subscription["hand_over_count"] - self._shown)
        self._shown = subscription["hand_over_count"]
        latest = subscription["hand_overs"][-new:] if new else []
        return Scene(
            workers=tuple(_worker(worker, doors or {}) for worker in workers),
            waits=tuple(sorted(waits, key=lambda wait: -wait.seconds)),
            hand_overs=tuple(self._hand_over(item) for item in latest),
            hand_over_count=subscription["hand_over_count"],
            held_back=subscription["dispatcher"]["waiting_messages"],
            replicas=replicas,
        )

    def _keys(self, slot: int) -> str:
        return " and ".join(self._names.get(slot, [f"slot {slot}"]))

    def _wait(self, holder: str, item: dict[str, Any], now: float) -> WaitView:
        return WaitView(
            keys=self._keys(item["hash"]),
            holder=holder,
            in_hand=item["unack_msgs"],
            owner=item["owner"] or "nobody",
            waiting=item["waiting_messages"],
            seconds=now - item["since"],
        )

    def _hand_over(self, item: dict[str, Any]) -> HandOverView:
        return HandOverView(
            keys=self._keys(item["slot"]),
            holder=item["holder"],
            owner=item["owner"] or "nobody",
            waiting=item["waiting_messages"],
            seconds=item["duration_s"],
        )


def merged(scenes: Sequence[Scene]) -> Scene:
    """What several replicas show, as one."""
    return Scene(
        workers=tuple(sorted((each for scene in scenes for each in scene.workers), key=lambda worker: worker.name)),
        waits=tuple(sorted((each for scene in scenes for each in scene.waits), key=lambda wait: -wait.seconds)),
        hand_overs=tuple(each for scene in scenes for each in scene.hand_overs),
        hand_over_count=sum(scene.hand_over_count for scene in scenes),
        held_back=sum(scene.held_back for scene in scenes),
        replicas=tuple(each for scene in scenes for each in scene.replicas),
    )


def _worker(worker: dict[str, Any], doors: Mapping[str, str]) -> WorkerView:
    return WorkerView(
        name=worker["name"],
        share=worker["hash_space_share"],
        in_hand=worker["unacked_messages"],
        done=worker["acked_messages"],
        draining=worker["draining_hashes_count"],
        replica=doors.get(worker["name"], ""),
    )
