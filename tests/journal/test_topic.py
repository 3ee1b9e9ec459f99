"""Events on their way to a topic, whatever the broker does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pulsar
import pytest

from proxy.journal import topic as module
from proxy.journal.topic import EventTopic
from proxy.net.events import Events
from tests.journal.rig import KEY, NOON_NS


class Broker:
    """Takes messages, or does not."""

    def __init__(self) -> None:
        """Works."""
        self.taken: list[tuple[dict[str, Any], dict[str, str], str]] = []
        self.refusing = False
        self.opened = self.closed = 0

    async def open(self) -> Broker:
        """A producer."""
        if self.refusing:
            raise pulsar.ConnectError
        self.opened += 1
        return self

    async def send(self, content: bytes, properties: dict[str, str], partition_key: str) -> None:
        """As the protocol says."""
        await asyncio.sleep(0)
        if self.refusing:
            raise pulsar.Timeout
        self.taken.append((json.loads(content), properties, partition_key))

    async def close(self) -> None:
        """As the protocol says."""
        self.closed += 1


async def turns(count: int = 20) -> None:
    """Let others run."""
    for _ in range(count):
        await asyncio.sleep(0)


def started() -> tuple[Events, Broker, EventTopic, asyncio.Task[None]]:
    """With nothing to tell."""
    events, broker = Events(lambda: 100.0), Broker()
    topic = EventTopic(events, broker.open, "gw-1", lambda at: NOON_NS / 1e9 + at - 100.0)
    return events, broker, topic, asyncio.create_task(topic.run())


def test_every_event_is_a_message_with_its_facts() -> None:
    """In their order, keyed by subscription, and what happened last is sent before the end."""

    async def scenario() -> None:
        events, broker, topic, task = started()
        await turns()
        events.happened("worker_joined", KEY, worker="w1", moves=[{"start": 1}])
        events.happened("worker_left", KEY, worker="w1")
        await turns()
        events.happened("subscription_ended", KEY)
        events.close()
        await task
        assert [said["kind"] for said, _, _ in broker.taken] == ["worker_joined", "worker_left", "subscription_ended"]
        said, properties, key = broker.taken[0]
        assert said == {
            "version": 1,
            "gateway": "gw-1",
            "number": 1,
            "at": "2027-01-15T08:00:00.000+00:00",
            "kind": "worker_joined",
            "topic": KEY[0],
            "subscription": KEY[1],
            "facts": {"worker": "w1", "moves": [{"start": 1}]},
        }
        assert properties == {"kind": "worker_joined", "gateway": "gw-1"}
        assert key == " ".join(KEY)
        assert (topic.summary.sent, topic.summary.dropped, broker.closed) == (3, 0, 1)

    asyncio.run(scenario())


def test_what_happens_while_others_are_sent_and_then_the_end() -> None:
    """Is sent too: a gateway that stops tells last of its subscriptions."""

    async def scenario() -> None:
        events, broker, topic, task = started()
        await turns()
        events.happened("worker_left", KEY, worker="w1")
        await turns(2)
        assert not broker.taken, "it is not under way any more"
        events.happened("subscription_ended", KEY)
        events.close()
        await task
        assert [said["kind"] for said, _, _ in broker.taken] == ["worker_left", "subscription_ended"]
        assert (topic.summary.sent, topic.summary.dropped) == (2, 0)

    asyncio.run(scenario())


def test_events_wait_for_a_broker_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are sent by a new producer, all of them, in their order."""
    monkeypatch.setattr(module, "AGAIN_S", 0.0)

    async def scenario() -> None:
        events, broker, topic, task = started()
        await turns()
        broker.refusing = True
        for number in range(700):
            events.happened("worker_joined", KEY, worker=f"w{number}")
            await turns(2)
        well = [topic.summary.well]
        broker.refusing = False
        await turns(5_000)
        assert [*well, topic.summary.well] == [False, True]
        events.close()
        await task
        assert [said["number"] for said, _, _ in broker.taken] == list(range(1, 701))
        assert (topic.summary.sent, topic.summary.dropped) == (700, 0)

    asyncio.run(scenario())


def test_the_oldest_are_lost_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted; and what cannot be sent when the gateway stops is lost and counted too."""
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    monkeypatch.setattr(module, "WAITING_MAX", 10)

    async def scenario() -> None:
        events, broker, topic, task = started()
        await turns()
        broker.refusing = True
        for _ in range(30):
            events.happened("worker_joined", KEY)
            await turns(3)
        assert topic.summary.dropped == 20
        events.close()
        await task
        assert (topic.summary.sent, topic.summary.dropped, broker.taken) == (0, 30, [])

    asyncio.run(scenario())
