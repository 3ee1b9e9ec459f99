"""Errors the core raises, by cause.

The core knows nothing of wire codes or HTTP statuses: the caller translates, in one table for the whole gateway. Each
error leaves the object that raised it as it was before the call.
"""

from __future__ import annotations


class ConsumerAssignError(Exception):
    """A worker cannot be given hash ranges; the broker's ConsumerAssignException."""


class NotHeldError(Exception):
    """A worker acknowledged inside a transaction what it does not have; the broker's TransactionConflictException."""


class OpaqueBatchError(Exception):
    """A worker acknowledged single messages of a batch that only goes whole inside a transaction."""
