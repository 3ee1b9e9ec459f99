"""Attacks on a gateway that `bystander` measures beside: one module each, a process of its own while it runs.

A module is run as ``python -m MODULE GATEWAY_URL BROKER_URL TOPIC READY_FILE``, with a topic that only it uses. It
makes what it needs, calls `when_told`, and then attacks until it is killed. Its row in `ATTACKS` is all that has to be
added.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

LOOK_S: Final = 0.01
GO_SUFFIX: Final = ".go"


class Attack(NamedTuple):
    """One of them."""

    name: str
    """As the table's rows say it."""
    module: str


ATTACKS: Final = (
    Attack("2,000 SUBSCRIBEs a connection", "integration.bench.attacks.subscribes"),
    Attack("batches that open to 64 MiB", "integration.bench.attacks.batches"),
)


def when_told(ready: Path) -> None:
    """Say that all is made, and return when the measurement wants the attack to begin."""
    ready.touch()
    go = ready.with_suffix(GO_SUFFIX)
    while not go.exists():
        time.sleep(LOOK_S)
