"""Starts brokers, gateways and proxies in a `with`, and closes them at its end in any case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Lifetime(ABC):
    """Gives a class with `start` and `close` the `with` that calls both."""

    @abstractmethod
    def start(self) -> Self:
        """Start it and return it."""

    @abstractmethod
    def close(self) -> None:
        """End it and what it made; harmless if it has ended."""

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()
