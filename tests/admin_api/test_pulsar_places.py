"""How many merged statistics are in memory at once: each counts until it was sent, or its client is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from admin_api.routes import pulsar
from admin_api.routes.pulsar import MERGES_MAX
from tests.admin_api.shared_app import SharedApp
from tests.admin_api.test_pulsar_proxy import STATS, PulsarRig, with_workers

TURNS_MAX = 10_000
"""Of the loop; what has not happened by then waits for something."""

WALL_S = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _new_applications() -> None:
    """What one keeps is looked at here."""
    SharedApp.forget()


class Reader:
    """A client of the app that reads when it is told to."""

    def __init__(self, rig: PulsarRig) -> None:
        self._rig = rig
        self.reads = asyncio.Event()
        self.left = asyncio.Event()
        self.status = 0
        self.body = b""
        self.task = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        path = STATS.encode()
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": STATS, "raw_path": path, "query_string": b"", "headers": [],
            "scheme": "http", "server": ("gateway", 80), "client": None, "root_path": "", "http_version": "1.1",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }  # fmt: skip
        await self._rig.app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            await self.reads.wait()
            self.body += message["body"]


async def settled(*readers: Reader) -> None:
    """Every one of these has the beginning of its answer, and all that could happen has."""
    for turn in range(TURNS_MAX):
        if turn > TURNS_MAX // 10 and all(reader.status for reader in readers):
            return
        await asyncio.sleep(0)
    raise AssertionError("some have no answer yet")


async def as_many_as_may_and_one_more(rig: PulsarRig) -> tuple[list[Reader], Reader]:
    """Readers that have not read their answers yet, and one that waits for theirs."""
    slow = [Reader(rig) for _ in range(MERGES_MAX)]
    await settled(*slow)
    late = Reader(rig)
    await settled(*slow)
    assert late.status == 0
    return slow, late


async def ended(*readers: Reader) -> None:
    """They read the rest, or have left."""
    for reader in readers:
        reader.reads.set()
    async with asyncio.timeout(30):
        await asyncio.gather(*(reader.task for reader in readers))


def test_an_answer_counts_until_its_last_byte_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow readers cannot hold more of them than the bound says; one that has read makes room."""
    monkeypatch.setattr("time.time", lambda: WALL_S)  # the rig's own clock stands still as well

    async def scenario() -> None:
        slow, late = await as_many_as_may_and_one_more(with_workers())
        await ended(slow[0])
        await settled(late)
        assert late.status == 200
        await ended(*slow, late)
        assert len({reader.body for reader in (*slow, late)} - {b""}) == 1

    asyncio.run(scenario())


def test_a_client_that_leaves_makes_room() -> None:
    """Its answer is nobody's."""

    async def scenario() -> None:
        slow, late = await as_many_as_may_and_one_more(with_workers())
        slow[0].left.set()
        await settled(late)
        assert slow[0].task.done()
        assert (slow[0].body, late.status) == (b"", 200)
        await ended(*slow[1:], late)

    asyncio.run(scenario())


def test_a_client_that_takes_nothing_for_long_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may never leave, and the others would wait for good."""

    async def scenario() -> None:
        rig = with_workers()
        monkeypatch.setattr(pulsar, "STALL_S_MAX", 0.0)
        slow = [Reader(rig) for _ in range(MERGES_MAX + 1)]
        async with asyncio.timeout(30):
            await asyncio.gather(*(reader.task for reader in slow))
        assert [(reader.status, reader.body) for reader in slow] == [(200, b"")] * len(slow)

    asyncio.run(scenario())


def test_an_answer_that_could_not_be_merged_makes_room() -> None:
    """As does one that the broker refused."""
    rig = with_workers()
    good = rig._answer
    rig._answer = lambda _: httpx.Response(200, content=b"{")
    for _ in range(MERGES_MAX + 1):
        assert rig.ask("GET", STATS).status_code == 502
    rig._answer = good
    assert rig.ask("GET", STATS).status_code == 200
