"""Options of one producer and of one worker: frozen values that their processes get as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Self

SUBSCRIPTION: Final = "load"


class Batching(Enum):
    """How a producer packs messages into entries."""

    NONE = "none"
    DEFAULT = "default"
    """Any keys in one entry: on a plain broker this breaks Key_Shared, which routes whole entries."""
    KEY_BASED = "key-based"


@dataclass(frozen=True, slots=True)
class Options:
    """Base: to JSON and back."""

    def to_json(self) -> str:
        """Write as one line."""
        return json.dumps(dataclasses.asdict(self), default=lambda value: value.value)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        if "batching" in values:
            values["batching"] = Batching(values["batching"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class ProducerOptions(Options):
    """One producer of numbered messages."""

    service_url: str
    topic: str
    producer: int = 0
    """Its number in every payload; unique within a run."""
    count: int | None = None
    """Messages to send; None goes on until it is stopped."""
    keys: int = 1_000
    skew: float = 0.0
    """Exponent of Zipf's law over the keys: 0 is even, 1 gives the first of 1,000 keys 13% of all messages."""
    run_length: int = 1
    """Consecutive messages of one key, so that key-based batches hold more than one message."""
    rate_per_s: float | None = None
    """Messages per second; None is as fast as the broker confirms."""
    batching: Batching = Batching.NONE
    batch_messages_max: int = 1_000
    batch_delay_ms: int = 10
    compression: str = "NONE"
    """As the official client calls it."""
    payload_bytes: int = 20
    seed: int = 1


@dataclass(frozen=True, slots=True)
class WorkerOptions(Options):
    """One worker. Names are unique among the workers that live; a name may come back after it left."""

    service_url: str
    topic: str
    name: str
    subscription: str = SUBSCRIPTION
    receiver_queue_size: int = 1_000
    work_ms: float = 0.0
    """Time spent with each message before it is acknowledged; nothing is received meanwhile."""
    ack_delay_ms: float = 0.0
    """Time a message stays unacknowledged while further ones are received."""
    nack_fraction: float = 0.0
    """Share of first deliveries that are negatively acknowledged."""
    nack_delay_ms: int = 100
    listener: bool = False
    """Whether the client library calls us, instead of us calling `receive`."""
    batch_index_ack: bool = False
    seed: int = 1
    properties: dict[str, str] = field(default_factory=dict)
    websocket: str = ""
    """For a worker on a WebSocket: ``ws://host:port/ws/v1/`` or v2, and more for its query behind a ``?``."""
