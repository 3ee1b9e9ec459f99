"""The demo's story on a busy machine, without a broker: it comes late, and is told to its end."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from integration.demo import __main__ as demo
from integration.demo import story
from integration.demo.scene import ReplicaView, Scene

SECONDS = 0.2
ACT_S = 0.1
"""So that the time is over after two of eight steps."""


def test_a_story_that_comes_late_is_a_whole_round_of_steps_that_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes several times as long as there is for it; none follows before the one before it was looked at."""
    began: list[float] = []
    over: list[float] = []

    def act(*_: object) -> None:
        began.append(time.monotonic())
        time.sleep(ACT_S)
        over.append(time.monotonic())

    monkeypatch.setattr(story, "steps", lambda *, shared: itertools.repeat(story.Step(f"shared: {shared}", act)))
    monkeypatch.setattr(demo.Performance, "_look", lambda _: None)
    monkeypatch.setattr(demo, "LOOK_INTERVAL_S", 0.001)
    said: list[str] = []
    cluster = cast("Any", SimpleNamespace(shared=False, gateways=[], owner=0))
    demo.Performance(cast("Any", SimpleNamespace(say=said.append)), cluster, cast("Any", None)).play(SECONDS)
    assert said == ["shared: False"] * story.steps_count(shared=False)
    pauses = [after - before for before, after in zip(over, began[1:], strict=False)]
    assert min(pauses) >= story.period_s(SECONDS, shared=False) / 2


def test_what_is_done_to_the_owner_waits_until_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while nobody owns the subscription, nor while a replica that was ended is not back."""
    owned = Scene(replicas=(ReplicaView("replica-1", "running", owns=True),))
    looks = [(Scene(), False)] * 3 + [(owned, True)] * 3 + [(owned, False)]
    coming = iter(looks)
    cluster = SimpleNamespace(shared=True, gateways=[], owner=0, restarting=False)
    seen: list[Scene] = []
    acted: list[int] = []
    said: list[str] = []

    def look() -> Scene:
        scene, cluster.restarting = next(coming, looks[-1])
        cluster.owner = 1 if scene is owned else cluster.owner
        seen.append(scene)
        return scene

    step = story.Step("{owner} is killed.", lambda *_: acted.append(len(seen)))
    monkeypatch.setattr(story, "steps", lambda **_: itertools.repeat(step))
    monkeypatch.setattr(story, "steps_count", lambda *, shared: int(shared))
    monkeypatch.setattr(demo, "LOOK_INTERVAL_S", 0.001)
    run = SimpleNamespace(progress=SimpleNamespace(update=lambda: None, acknowledged=0), producers=[])
    display = SimpleNamespace(say=said.append, show=lambda *_: None)
    performance = demo.Performance(cast("Any", display), cast("Any", cluster), cast("Any", run))
    monkeypatch.setattr(performance, "_source", SimpleNamespace(scene=look))
    performance.play(0.0)
    assert (said, acted) == (["replica-1 is killed."], [len(looks)])
