"""Snapshots as JSON, written in pieces: the same text as in one, and turns of the loop in between."""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_core import to_json

from admin_api import json_response
from admin_api.json_response import in_slices, snapshot_response
from admin_api.turns import SLICE_S


class Mode(enum.Enum):
    """As the gateway's snapshots have them."""

    STICKY = "sticky"


@dataclass(frozen=True, slots=True)
class Leaf:
    """No tuples within."""

    name: str
    position: int | None


@dataclass(frozen=True, slots=True)
class Branch:
    """Whatever a snapshot may hold."""

    mode: Mode
    leaves: tuple[Leaf, ...]
    numbers: tuple[tuple[int, int], ...]
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Tree:
    """Long things within long things."""

    branches: tuple[Branch, ...]
    note: str = "ü\n"


@dataclass(frozen=True, slots=True)
class Bare:
    """No fields at all."""


def branch(size: int) -> Branch:
    """One of a size."""
    leaves = tuple(Leaf(f"leaf-{number}", number or None) for number in range(size))
    return Branch(Mode.STICKY, leaves, tuple((number, number) for number in range(size)), {"acks": size})


@pytest.mark.parametrize(
    "snapshot",
    [
        Bare(),
        Leaf("ü", None),
        branch(0),
        branch(1),
        branch(json_response.ITEMS_AT_ONCE),
        branch(json_response.ITEMS_AT_ONCE + 1),
        branch(1_000),
        Tree(()),
        Tree(tuple(branch(size) for size in (0, 3, 500))),
        Tree(tuple(branch(1) for _ in range(700))),
        (),
        tuple(Leaf("x", 1) for _ in range(5)),
        {"plain": [1, 2]},
    ],
    ids=lambda snapshot: type(snapshot).__name__,
)
def test_the_pieces_are_the_text(snapshot: Any) -> None:
    """Whatever is long in it, and wherever."""
    answer = asyncio.run(snapshot_response(snapshot))
    assert answer.body == to_json(snapshot)
    assert answer.media_type == "application/json"


def test_the_loop_turns_between_steps_that_take_their_time() -> None:
    """Each step here takes as long as a slice may."""

    def steps() -> Generator[None, None, str]:
        for _ in range(10):
            time.sleep(SLICE_S)
            yield
        return "done"

    async def scenario() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        assert await in_slices(steps()) == "done"
        counting.cancel()
        assert turns >= 10

    asyncio.run(scenario())


def test_a_short_answer_is_given_at_once() -> None:
    """Nobody's turn is needed for it."""

    def steps() -> Generator[None, None, int]:
        yield
        return 7

    pausing = in_slices(steps())
    with pytest.raises(StopIteration) as end:
        pausing.send(None)
    assert end.value.value == 7
