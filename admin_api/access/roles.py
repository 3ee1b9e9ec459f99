"""Roles, and which of them a request needs.

A viewer sees everything. An operator besides moves work about, which harms no message: pauses, resumes, drains and
evicts. An admin besides changes how a subscription is served, delivers again, and writes to the broker.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

SEES: Final = frozenset({"GET", "HEAD", "OPTIONS"})
ANSWERS: Final = "/preview/join"
"""Asks with a body, and changes nothing."""
OF_BROKER: Final = "/admin/"
REPLAY: Final = "/replay"
OPEN: Final = ("/livez", "/readyz", "/login", "/logout")
"""For orchestrators, and for who has not said yet who it is."""
OPEN_BELOW: Final = ("/console/", "/ws/")
"""Files without a secret; and workers, whom the broker asks for their tokens."""
PAGE: Final = "/"
METRICS: Final = "/metrics"


class Role(IntEnum):
    """Each may do what those before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """For people."""
        return self.name.lower()


def needed(method: str, path: str, *, metrics_open: bool) -> Role | None:
    """The least role that may; None if nobody is asked who it is."""
    if path in OPEN or path.startswith(OPEN_BELOW) or (path == METRICS and metrics_open):
        return None
    if method in SEES or path.endswith(ANSWERS):
        return Role.VIEWER
    if path.startswith(OF_BROKER) or method == "PUT" or path.endswith(REPLAY):
        return Role.ADMIN
    return Role.OPERATOR
