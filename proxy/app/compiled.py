"""Whether the modules that every message passes run as mypyc compiled them, or as Python.

Files beside the sources tell nothing: they may be of another Python, or not be found first. So what was imported is
asked: a function of Python is of Python's own type, a compiled one is not.
"""

from __future__ import annotations

from types import FunctionType
from typing import Final

from proxy.core.dispatcher import Dispatcher
from proxy.net.broker.connection import BrokerConnection
from proxy.net.session.session import ClientSession
from proxy.net.subscription.receiving import Receiving

COMPILED: Final = "compiled"
PURE_PYTHON: Final = "pure Python"
MIXED: Final = "compiled in part"
"""What no build makes: some of the files are missing, or of another Python."""


def running() -> str:
    """Say which runs in this process: one of the three words above."""
    probes = (Dispatcher.receive, Receiving.message, ClientSession.received, BrokerConnection.received)
    interpreted = sum(isinstance(probe, FunctionType) for probe in probes)
    if not interpreted:
        return COMPILED
    return PURE_PYTHON if interpreted == len(probes) else MIXED
