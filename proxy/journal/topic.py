"""The gateway's events as JSON messages on a Pulsar topic, for other teams' programs to subscribe to.

It uses the official client: simplicity matters more here than speed. Messages of one subscription have one partition
key, so they keep their order on a partitioned topic and in Key_Shared subscriptions. Each arrives at least once:
unconfirmed messages are sent again, with the same `number`. Events that the broker does not accept in time are dropped
and counted, oldest first; nothing waits for them.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import pulsar
import structlog

from proxy.journal.summary import TopicSummary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.net.events import Event, Events

WAITING_MAX: Final = 10_000
"""Events that wait for the broker."""
TOGETHER_MAX: Final = 500
"""Unconfirmed events at a time."""
AGAIN_S: Final = 2.0
"""Pause after a failure."""
VERSION: Final = 1
"""Version of the messages; it grows when a field changes its meaning, not when fields or kinds are added."""

log = structlog.get_logger("keyline.journal")


class Producer(Protocol):
    """The required part of the client's producer."""

    async def send(self, content: Any, properties: dict[str, str], partition_key: str) -> Any:
        """Until the broker has it; raises `pulsar.PulsarException`."""

    async def close(self) -> None:
        """End."""


class EventTopic:
    """Sends from `run`'s first turn until the events end."""

    def __init__(
        self,
        events: Events,
        open_producer: Callable[[], Awaitable[Producer]],
        gateway: str,
        wall_s: Callable[[float], float],
    ) -> None:
        """`wall_s` gives the wall clock's time, in seconds since 1970, of a moment of the gateway's own clock."""
        self.summary = TopicSummary(kept=True)
        self._events = events
        self._open_producer = open_producer
        self._gateway = gateway
        self._wall_s = wall_s
        self._producer: Producer | None = None
        self._waiting: deque[Event] = deque()

    async def run(self) -> None:
        """Send all events; ends with their stream, when everything was sent or cannot be sent."""
        wake = asyncio.Event()
        listener = self._events.listen(wake.set)
        while True:
            ended = listener.ended  # read before taking events: the end may follow directly after the last event
            missed, events = listener.take()
            self.summary.dropped += missed
            self._waiting.extend(events)
            while len(self._waiting) > WAITING_MAX:
                self._waiting.popleft()
                self.summary.dropped += 1
            if self._waiting:
                if await self._send():
                    continue
                if listener.ended:
                    missed, events = listener.take()
                    self.summary.dropped += missed + len(events) + len(self._waiting)
                    break
                await asyncio.sleep(AGAIN_S)
            elif ended:
                break
            else:
                await wake.wait()
                wake.clear()
        listener.close()
        await self._close()

    async def _send(self) -> bool:
        """Send some waiting events, in order; False if the broker did not accept them."""
        events = [self._waiting[place] for place in range(min(TOGETHER_MAX, len(self._waiting)))]
        try:
            if self._producer is None:
                self._producer = await self._open_producer()
            producer = self._producer
            sends = [producer.send(self._body(event), self._properties(event), _key(event)) for event in events]
            await asyncio.gather(*sends)
        except pulsar.PulsarException as error:
            if self.summary.well:
                log.warning("event publishing failed", reason=str(error))
            self.summary.well = False
            await self._close()
            return False
        if not self.summary.well:
            log.info("event publishing resumed")
        self.summary.well = True
        self.summary.sent += len(events)
        for _ in events:
            self._waiting.popleft()
        return True

    def _body(self, event: Event) -> bytes:
        said = {
            "version": VERSION,
            "gateway": self._gateway,
            "number": event.number,
            "at": datetime.fromtimestamp(self._wall_s(event.at), UTC).isoformat(timespec="milliseconds"),
            "kind": event.kind,
            "topic": event.topic,
            "subscription": event.subscription,
            "facts": event.facts,
        }
        return json.dumps(said, separators=(",", ":"), default=str).encode()

    def _properties(self, event: Event) -> dict[str, str]:
        return {"kind": event.kind, "gateway": self._gateway}

    async def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                await producer.close()
            except pulsar.PulsarException as error:
                log.debug("event producer not closed", reason=str(error))


def _key(event: Event) -> str:
    return f"{event.topic} {event.subscription}"
