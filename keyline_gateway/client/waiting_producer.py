"""A producer that waits for its topic, by priority, with the official client.

Problem: `create_producer` blocks while a `WaitForExclusive` producer waits, yet gives up after the client's operation
timeout without informing the server, which later promotes it in vain. A restarted broker or gateway loses its queue.
Rule: while `acquire` runs, one request of this producer waits at the gateway, or the next one follows after a delay;
`close` from any thread ends it. Each attempt has its own client, so that a failed attempt leaves nothing behind: a
closed connection leaves the queue.

A promoted producer announces itself in the topic: an announcement record is its first message (`parse_announcement`).

Source: PIP-440, "Spec"; PIP-68 for the access modes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import pulsar

PRIORITY_PROPERTY: Final = "keyline.queue-priority"
"""The producer's property that the gateway reads."""
ANNOUNCEMENT_PROPERTY: Final = "keyline.announcement"
"""The message property of announcement records; its value is "1"."""
PRIORITY_MIN: Final = -(1 << 31)
PRIORITY_MAX: Final = (1 << 31) - 1
WAIT_S_MAX: Final = 2_147_483
"""The client's operation timeout, 24 days: its milliseconds still fit 32 bits."""
RETRY_S: Final = 0.2
"""Least time between two attempts; the delay by priority comes on top."""

NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})
LASTING: Final = (
    pulsar.AuthenticationError,
    pulsar.AuthorizationError,
    pulsar.IncompatibleSchema,
    pulsar.InvalidConfiguration,
    pulsar.InvalidTopicName,
    pulsar.InvalidUrl,
    pulsar.TopicTerminated,
    pulsar.UnsupportedVersionError,
)
"""Errors that another attempt does not fix."""

log = logging.getLogger("keyline.waiting_producer")


class WaitingProducerClosedError(Exception):
    """`close` was called: nothing can be acquired any more, make a new `WaitingProducer`."""


def reconnect_delay_s(priority: int, *, highest: int = 0, step_s: float = 1.0, max_s: float = 10.0) -> float:
    """Time to wait before reconnecting to a lost topic, in seconds.

    Zero for the `highest` priority in use, `step_s` more for each number below it, at most `max_s`: the preferred
    producer reconnects first. PIP-440 grants the time to "significantly lower priorities", which taken literally gives
    every restart to the standby, against the PIP's own motivation; this helper reverses it.
    """
    return min(max(highest - priority, 0) * step_s, max_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """The announcement of a promoted producer."""

    producer_name: str
    priority: int
    promoted_at: datetime
    """With its time zone."""
    attributes: Mapping[str, str]
    """Added by the application: its host, how to resume its work."""

    def encode(self) -> bytes:
        """Return the record's content, JSON in UTF-8."""
        fields = {
            "kind": ANNOUNCEMENT_PROPERTY,
            "producer_name": self.producer_name,
            "priority": self.priority,
            "promoted_at": self.promoted_at.astimezone(UTC).isoformat(),
            "attributes": dict(self.attributes),
        }
        return json.dumps(fields).encode()


def parse_announcement(data: bytes, properties: Mapping[str, str]) -> Announcement | None:
    """Read a message's content as an announcement; None if it is not a valid one."""
    if properties.get(ANNOUNCEMENT_PROPERTY) != "1":
        return None
    try:
        fields = json.loads(data)
        if fields["kind"] != ANNOUNCEMENT_PROPERTY:
            return None
        promoted_at = datetime.fromisoformat(fields["promoted_at"])
        attributes = {str(name): str(value) for name, value in fields["attributes"].items()}
        return Announcement(
            producer_name=str(fields["producer_name"]),
            priority=_checked_priority(fields["priority"]),
            promoted_at=promoted_at if promoted_at.tzinfo else promoted_at.replace(tzinfo=UTC),
            attributes=attributes,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


class WaitingProducer:
    """Acquires exclusive access to one topic. As a context manager it closes itself at the end."""

    def __init__(
        self,
        service_url: str,
        topic: str,
        priority: int = 0,
        *,
        announcement: Mapping[str, str] | None = NO_ATTRIBUTES,
        delay_s: Callable[[int], float] = reconnect_delay_s,
        client_options: Mapping[str, Any] | None = None,
        **producer_options: Any,
    ) -> None:
        """Describe it; nothing is connected before `acquire`.

        Args:
            service_url: the gateway's.
            topic: to be owned, not partitioned.
            priority: signed 32 bits; the highest is promoted first, equal ones in the order of their arrival.
            announcement: attributes for the announcement record; None publishes no record.
            delay_s: gives the seconds to wait before reconnecting after a loss, for a priority; if priorities
                above zero are in use: `functools.partial(reconnect_delay_s, highest=...)`. The client repairs a broken
                connection itself, at its own pace: the gateway's grace time keeps the order then.
            client_options: for `pulsar.Client`.
            producer_options: for `create_producer`.

        Raises:
            TypeError: an option was given that is the helper's own.
            ValueError: the priority is not a signed 32-bit number, or the options contradict each other.
        """
        self._service_url = service_url
        self._topic = topic
        self._priority = _checked_priority(priority)
        self._announcement = None if announcement is None else dict(announcement)
        self._delay_s = delay_s
        self._client_options = _checked_client_options(client_options or {})
        self._producer_options = _checked_producer_options(producer_options, self._priority)
        if self._announcement is not None and "schema" in producer_options:
            raise ValueError("an announcement record has no schema: give announcement=None to a producer with one")
        self._acquiring = threading.Lock()
        self._lock = threading.Lock()
        """Protects the two below, which `close` takes from any thread."""
        self._client: pulsar.Client | None = None
        self._producer: pulsar.Producer | None = None
        self._closed = threading.Event()

    @property
    def priority(self) -> int:
        """Its priority; fixed at construction."""
        return self._priority

    @property
    def producer(self) -> pulsar.Producer | None:
        """What `acquire` returned last; None before, and after `close`."""
        return self._producer

    def acquire(self) -> pulsar.Producer:
        """Wait until this producer owns the topic and return it, after the announcement was stored.

        It tries again, after a delay, as often as a broker or gateway that restarts makes it. Call it again when a
        send raised `ProducerFenced`: what was acquired before is closed first.

        Raises:
            WaitingProducerClosedError: `close` was called, before or meanwhile.
            RuntimeError: another thread is in `acquire`.
            KeyboardInterrupt: Ctrl-C, or another signal whose handler raised.
            pulsar.PulsarException: an error that another attempt would not fix: the topic's name, rights, the schema.
        """
        if not self._acquiring.acquire(blocking=False):
            raise RuntimeError("another thread is waiting in acquire() already")
        try:
            again = self._give_up()
            while True:
                if again:
                    self._closed.wait(RETRY_S + self._delay_s(self._priority))
                producer = self._attempt()
                if producer is not None:
                    return producer
                again = True
        finally:
            self._acquiring.release()

    def close(self) -> None:
        """Leave the topic, or the queue, at once; an `acquire` that waits in another thread raises.

        Unflushed messages are lost. Idempotent.
        """
        with self._lock:
            self._closed.set()
        self._give_up()

    def __enter__(self) -> Self:
        """Nothing happens yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _attempt(self) -> pulsar.Producer | None:
        """Wait for the topic once; None if that failed and should be tried again."""
        client = self._connect()
        try:
            producer = self._create(client)
            self._announce(producer)
        except pulsar.PulsarException as error:
            self._give_up()
            if self._closed.is_set():
                raise WaitingProducerClosedError("closed while it waited") from error
            if isinstance(error, pulsar.Interrupted):
                raise KeyboardInterrupt from error
            if isinstance(error, LASTING):
                raise
            log.warning("%s: could not wait as a producer, trying again: %s", self._topic, error)
            return None
        except BaseException:
            self._give_up()
            raise
        with self._lock:
            if self._closed.is_set():
                raise WaitingProducerClosedError("closed at the moment of the promotion")
            self._producer = producer
        return producer

    def _connect(self) -> pulsar.Client:
        with self._lock:
            if self._closed.is_set():
                raise WaitingProducerClosedError("closed; make a new one")
            self._client = pulsar.Client(self._service_url, **self._client_options)
            return self._client

    def _create(self, client: pulsar.Client) -> pulsar.Producer:
        mode = pulsar.ProducerAccessMode.WaitForExclusive
        producer = client.create_producer(self._topic, access_mode=mode, **self._producer_options)
        if not producer.topic():
            # Shut down while it looks the topic up, the client (3.13) gives an empty producer instead of an error, on
            # which most calls crash the process.
            raise pulsar.NotConnected("the connection was lost while the topic was looked up")
        return producer

    def _announce(self, producer: pulsar.Producer) -> None:
        if self._announcement is None:
            return
        announcement = Announcement(
            producer_name=producer.producer_name(),
            priority=self._priority,
            promoted_at=datetime.now(UTC),
            attributes=self._announcement,
        )
        producer.send(announcement.encode(), properties={ANNOUNCEMENT_PROPERTY: "1"})

    def _give_up(self) -> bool:
        """Let go of client and producer, and answer whether there were any."""
        with self._lock:
            client, self._client, self._producer = self._client, None, None
        if client is None:
            return False
        # `close` would wait for the server's answer, up to the operation timeout.
        with contextlib.suppress(pulsar.PulsarException):
            client.shutdown()
        return True


def _checked_priority(priority: object) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        raise ValueError(f"priority {priority!r}: it should be a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}")
    return priority


def _checked_client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    if "operation_timeout_seconds" in options:
        raise TypeError("operation_timeout_seconds must not be given: a producer may wait for days")
    return {**options, "operation_timeout_seconds": WAIT_S_MAX}


def _checked_producer_options(options: Mapping[str, Any], priority: int) -> dict[str, Any]:
    if "access_mode" in options:
        raise TypeError("access_mode must not be given: a WaitingProducer waits for exclusive access")
    properties = options.get("properties") or {}
    if PRIORITY_PROPERTY in properties:
        raise ValueError(f"property {PRIORITY_PROPERTY} must not be given: priority=... sets it")
    return {**options, "properties": {**properties, PRIORITY_PROPERTY: str(priority)}}
