"""Why sessions end: counted for metrics."""

from __future__ import annotations

import enum
from typing import Final


class EndCause(enum.Enum):
    """Why a client's connection ended; each is counted on its own."""

    CLIENT_LEFT = "client_left"
    SHUT_DOWN = "shut_down"
    HANDSHAKE_TIMEOUT = "handshake_timeout"
    SILENT = "silent"
    READS_NOTHING = "reads_nothing"
    BAD_FRAME = "bad_frame"
    UNKNOWN_COMMAND = "unknown_command"
    NOT_CONNECTED = "not_connected"
    CONNECTED_TWICE = "connected_twice"
    BAD_FLOW = "bad_flow"
    BAD_REQUEST_ID = "bad_request_id"
    TARGET_REFUSED = "target_refused"
    CERTIFICATE_REFUSED = "certificate_refused"
    CERTIFICATE_EXPIRED = "certificate_expired"
    BROKER_UNREACHABLE = "broker_unreachable"
    BROKER_REFUSED = "broker_refused"
    BROKER_LOST = "broker_lost"


NOT_AT_FAULT: Final = frozenset(
    {
        EndCause.CLIENT_LEFT,
        EndCause.SHUT_DOWN,
        EndCause.TARGET_REFUSED,
        EndCause.BROKER_UNREACHABLE,
        EndCause.BROKER_LOST,
    }
)
"""Ends that clients meet again at each retry, and all at once when a broker goes: counted, but not each logged."""
