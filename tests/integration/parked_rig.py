"""What tests of parked keys do to a gateway with a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pulsar

from integration.gateway import KeylineGateway
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration.clients import available
from tests.integration.conditions import eventually

PARKS: Final = {"park_after": "2", "key_window": "1"}
"""Settings of a gateway that parks a key after two attempts."""


def parked(gateway: KeylineGateway, topic: str, key: str) -> list[dict[str, Any]]:
    """What is parked of a key, as the gateway tells."""
    path = subscription_path(topic, "s") + "/parked/messages"
    found: list[dict[str, Any]] = AdminClient(gateway.admin_url).ask("GET", path, query={"key": key})
    return found


def refuse(consumer: pulsar.Consumer, poisoned: bytes, until: Callable[[], bool], what: str) -> list[bytes]:
    """Give one message back each time it comes and acknowledge the others, until something holds; what came."""
    came: list[bytes] = []

    def done() -> bool:
        for message in available(consumer):
            came.append(message.data())
            (consumer.negative_acknowledge if message.data() == poisoned else consumer.acknowledge)(message)
        return until()

    eventually(done, what)
    return came
