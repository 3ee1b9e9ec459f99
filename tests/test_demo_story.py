"""The demo's story on a busy machine, without a broker: it comes late, and is told to its end."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from integration.demo import __main__ as demo
from integration.demo import story

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
