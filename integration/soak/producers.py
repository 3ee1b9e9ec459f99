"""The helper process with all producers: `python -m integration.soak.producers FILE PLAN`.

One connection, one producer for each active topic, a steady rate over all of them. Topics with even numbers get single
messages, the others batches of several keys.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Final

from integration.bench import frames_made
from integration.errors import IntegrationError
from integration.soak.child import Samples, every, finish_asked, raise_descriptor_limit
from integration.soak.content import BATCH_MESSAGES, Content, send_frame
from integration.soak.peer import Peer, lookup
from integration.soak.plan import Plan
from proxy.wire import pulsar_pb2 as pb

TICK_S: Final = 0.01
BEHIND_S_MAX: Final = 1.0
"""What a producer that was held up makes up for, at most."""
RECEIPTS_S_MAX: Final = 60.0


class Producers:
    """All producers, on one connection."""

    def __init__(self, plan: Plan) -> None:
        """Not connected yet."""
        self._plan = plan
        self._peer = Peer(self._pushed, self._lost)
        self._next: Counter[tuple[int, int]] = Counter()
        self._entries: Counter[int] = Counter()
        self._unconfirmed = 0
        self._turn = count()
        self._keys = count()
        self._due = 0.0
        self._last = 0.0
        self.failure: str | None = None

    async def open(self) -> None:
        """Connect and make every producer."""
        await self._peer.connect(self._plan.service_url)
        for number in range(self._plan.active_subscriptions):
            topic = self._plan.active_topic(number)
            await self._peer.ask(lookup(topic))
            await self._peer.ask(frames_made.producer(topic, number))
        self._last = time.monotonic()

    def tick(self) -> None:
        """Send what is due."""
        now = time.monotonic()
        rate = self._plan.messages_per_s
        self._due = min(self._due + (now - self._last) * rate, rate * BEHIND_S_MAX)
        self._last = now
        while self._due >= 1:
            topic = next(self._turn) % self._plan.active_subscriptions
            messages = [self._message(topic) for _ in range(BATCH_MESSAGES if topic % 2 else 1)]
            self._due -= len(messages)
            self._unconfirmed += 1
            self._peer.send(send_frame(topic, self._entries[topic], messages))
            self._entries[topic] += 1

    async def confirmed(self) -> None:
        """Wait until the broker has everything.

        Raises:
            IntegrationError: it has not.
        """
        deadline = time.monotonic() + RECEIPTS_S_MAX
        while self._unconfirmed and self.failure is None:
            if time.monotonic() > deadline:
                raise IntegrationError(f"{self._unconfirmed} messages were not confirmed")
            await asyncio.sleep(TICK_S)

    def sent(self) -> list[list[int]]:
        """(topic, key, count) of everything."""
        return [[topic, key, number] for (topic, key), number in self._next.items()]

    @property
    def total(self) -> int:
        """All messages sent."""
        return self._next.total()

    def _message(self, topic: int) -> Content:
        place = (topic, next(self._keys) * 7 % self._plan.keys)
        sequence = self._next[place]
        self._next[place] += 1
        return Content(*place, sequence, time.monotonic_ns())

    def _pushed(self, kind: int, frame: bytes) -> None:
        _ = frame
        if kind == pb.BaseCommand.SEND_RECEIPT:
            self._unconfirmed -= 1
        else:
            self.failure = f"a command of type {kind}"

    def _lost(self, why: str) -> None:
        self.failure = why


async def main(path: Path, plan: Plan) -> None:
    """Produce until asked to stop, then report."""
    samples = Samples(path)
    producers = Producers(plan)
    finish = finish_asked()
    await producers.open()
    samples.write("ready", workers=plan.active_subscriptions)
    producing = asyncio.create_task(every(TICK_S, producers.tick, finish))
    sampling = asyncio.create_task(every(plan.sample_s, lambda: samples.write("sample", sent=producers.total), finish))
    await finish.wait()
    await asyncio.gather(producing, sampling)
    await producers.confirmed()
    samples.write("end", sent=producers.sent(), total=producers.total, failure=producers.failure)
    await asyncio.Event().wait()


if __name__ == "__main__":
    raise_descriptor_limit()
    asyncio.run(main(Path(sys.argv[1]), Plan.from_json(sys.argv[2])))
