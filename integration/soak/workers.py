"""A helper process with some hundreds of workers: `python -m integration.soak.workers idle|active NUMBER FILE PLAN`.

Idle ones are connected, subscribed and granted permits for messages that never come. Active ones acknowledge after a
few milliseconds, each message on its own. Both come and go one by one: every other time they close their consumer as a
client that shuts down, every other time they are simply gone.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from itertools import count
from pathlib import Path
from typing import Final

from integration.bench import frames_made
from integration.errors import IntegrationError
from integration.soak.audit import Held, KeyAudit
from integration.soak.child import Samples, every, finish_asked, raise_descriptor_limit
from integration.soak.content import contents
from integration.soak.histogram import Histogram
from integration.soak.peer import Peer
from integration.soak.plan import Plan
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import parse_command
from proxy.wire.messages import parse_message

PERMITS: Final = 100
ACK_S_MAX: Final = 0.02
CONNECTING_AT_ONCE: Final = 40
RETRY_S: Final = 0.5
CONSUMER_ID: Final = 1


class Crowd:
    """All workers of this process, and what they saw together."""

    def __init__(self, plan: Plan, kind: str, number: int) -> None:
        """No worker yet."""
        self.plan = plan
        self.audit = KeyAudit()
        self.latencies = Histogram()
        self.losses: list[str] = []
        """Who lost its connection to the gateway, and why, as far as a client can tell."""
        self.refusals = 0
        self.restarts = 0
        self.unasked = 0
        self.messages = 0
        self.chance = random.Random(number)  # noqa: S311 - a load, no secret
        self.workers = [self._worker(kind, number, index) for index in self._indexes(kind, number)]
        self._turn = count()

    def _indexes(self, kind: str, number: int) -> range:
        return self.plan.idle_of(number) if kind == "idle" else self.plan.active_of(number)

    def _worker(self, kind: str, number: int, index: int) -> SoakWorker:
        if kind == "idle":
            return SoakWorker(self, f"idle-{index}", *self.plan.idle_place(index))
        place = self.plan.active_place(number, index)
        return SoakWorker(self, f"active-{number}-{index}", self.plan.active_topic(place), "s")

    async def come(self) -> None:
        """Let all of them join, some at a time."""
        gate = asyncio.Semaphore(CONNECTING_AT_ONCE)

        async def join(worker: SoakWorker) -> None:
            async with gate:
                await worker.join()

        await asyncio.gather(*(join(worker) for worker in self.workers))

    async def restart_one(self) -> None:
        """Let the next one leave and come again."""
        turn = next(self._turn)
        worker = self.workers[turn % len(self.workers)]
        self.restarts += 1
        await worker.leave(politely=bool(turn % 2))
        await worker.join()

    def sample(self, samples: Samples, kind: str = "sample") -> None:
        """Write down what happened since the last sample."""
        latencies, self.latencies = self.latencies, Histogram()
        samples.write(
            kind,
            at=time.monotonic(),
            latencies=latencies.to_json(),
            delivered=self.audit.delivered,
            duplicates=self.audit.duplicates,
            violations=self.audit.violations,
            examples=self.audit.examples,
            losses=self.losses,
            refusals=self.refusals,
            restarts=self.restarts,
            unasked=self.unasked,
            messages=self.messages,
        )


class SoakWorker:
    """One worker: a name and a place, and a connection at most times."""

    def __init__(self, crowd: Crowd, name: str, topic: str, subscription: str) -> None:
        """Not connected yet."""
        self._crowd = crowd
        self._name = name
        self._topic = topic
        self._subscription = subscription
        self._peer: Peer | None = None
        self._used = 0
        self._rejoining: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Connect, subscribe, grant permits; again until it works."""
        while True:
            self._used = 0
            peer = self._peer = Peer(self._pushed, self._lost)
            try:
                await peer.connect(self._crowd.plan.service_url)
                await peer.ask(frames_made.subscribe(CONSUMER_ID, self._name, self._topic, self._subscription))
            except (IntegrationError, OSError, TimeoutError):
                self._crowd.refusals += 1
                peer.close()
                await asyncio.sleep(RETRY_S)
                continue
            peer.send(frames_made.flow(CONSUMER_ID, PERMITS))
            return

    async def leave(self, *, politely: bool) -> None:
        """Close the consumer and the connection, or just the connection."""
        if self._rejoining is not None:
            await self._rejoining
        peer = self._peer
        self._crowd.audit.gone(self._name)
        if peer is None or peer.closed:
            return
        self._peer = None
        if politely:
            try:
                await peer.ask(commands.close_consumer(CONSUMER_ID, 2))
            except (IntegrationError, TimeoutError):
                self._crowd.refusals += 1
        peer.close()

    def _pushed(self, kind: int, frame: bytes) -> None:
        if self._peer is None:
            return  # it has said good-bye
        if kind == pb.BaseCommand.MESSAGE:
            self._message(self._peer, frame)
        elif kind == pb.BaseCommand.CLOSE_CONSUMER:
            self._peer.close()
            self._lost(f"CLOSE_CONSUMER: {parse_command(frame).close_consumer}")
        else:
            self._crowd.unasked += 1

    def _message(self, peer: Peer, frame: bytes) -> None:
        head = parse_message(frame)
        crowd, now = self._crowd, time.monotonic_ns()
        got = contents(head.tail)
        for message in got:
            crowd.messages += 1
            crowd.latencies.add((now - message.sent_ns) / 1e3)
            crowd.audit.received(self._name, Held((message.topic, message.key), message.sequence))
        self._used += len(got)
        if self._used >= PERMITS // 2:
            peer.send(frames_made.flow(CONSUMER_ID, self._used))
            self._used = 0
        held = [Held((message.topic, message.key), message.sequence) for message in got]
        place = pb.MessageIdData(ledgerId=head.ledger, entryId=head.entry)
        asyncio.get_running_loop().call_later(crowd.chance.uniform(0, ACK_S_MAX), self._acknowledge, peer, place, held)

    def _acknowledge(self, peer: Peer, place: pb.MessageIdData, held: list[Held]) -> None:
        if peer is self._peer and not peer.closed:
            for message in held:
                self._crowd.audit.acknowledged(self._name, message)
            peer.send(frames_made.ack(CONSUMER_ID, [place]))

    def _lost(self, why: str) -> None:
        """Not our doing: counted, and made good."""
        self._crowd.losses.append(f"{self._name}: {why}")
        self._crowd.audit.gone(self._name)
        self._rejoining = asyncio.get_running_loop().create_task(self.join())


async def main(kind: str, number: int, path: Path, plan: Plan) -> None:
    """Come, live, and report."""
    samples = Samples(path)
    crowd = Crowd(plan, kind, number)
    finish = finish_asked()
    await crowd.come()
    samples.write("ready", workers=len(crowd.workers))
    processes = plan.idle_processes if kind == "idle" else plan.active_processes
    sampling = asyncio.create_task(every(plan.sample_s, lambda: crowd.sample(samples), finish))
    restarting = asyncio.create_task(every(processes / plan.restarts_per_s, crowd.restart_one, finish))
    await finish.wait()
    await asyncio.gather(restarting, sampling)
    crowd.sample(samples)
    samples.write("end", next=[[topic, key, sequence] for (topic, key), sequence in crowd.audit.next.items()])
    await asyncio.Event().wait()


if __name__ == "__main__":
    raise_descriptor_limit()
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Plan.from_json(sys.argv[4])))
