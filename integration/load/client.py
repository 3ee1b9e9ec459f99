"""What producers and workers share: the official client's log, and how a process that used it ends.

The library tells of a lost and a regained connection in its log only, so two of its lines are watched for.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATION_TIMEOUT_S: Final = 60
"""A broker on a busy machine may take its time to create a topic."""
_LOST: Final = "Schedule reconnection"
_CONNECTED: Final = "Created consumer on broker"


class ConnectionWatch(logging.Handler):
    """Calls back on the two lines."""

    def __init__(self, lost: Callable[[], None], connected: Callable[[], None]) -> None:
        """Remember whom to call; the calls come from the library's threads."""
        super().__init__()
        self._lost = lost
        self._connected = connected

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one line."""
        text = record.getMessage()
        if _CONNECTED in text:
            self._connected()
        elif _LOST in text:
            self._lost()


def client_logger(watch: ConnectionWatch) -> logging.Logger:
    """Return a logger for one client, watched; each client needs its own."""
    logger = logging.getLogger(f"pulsar-client-{id(watch):x}")
    logger.setLevel(logging.INFO)
    logger.addHandler(watch)
    return logger


def log_to_stderr() -> None:
    """Write all log lines to standard error, which is the process' log file; on SIGUSR1 where every thread is, too."""
    faulthandler.register(signal.SIGUSR1)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def end_process() -> NoReturn:
    """End with success, skipping the interpreter's shutdown.

    Some of the library's threads still run then, and now and then one aborts the process while it is torn down.
    Everything worth keeping is in files.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
