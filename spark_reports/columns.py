"""Columns that many jobs have in common."""

from __future__ import annotations

from typing import Final

SUBSCRIPTION: Final = ("topic", "subscription")
WORKER: Final = (*SUBSCRIPTION, "consumer")
LIFE: Final = (*SUBSCRIPTION, "life")
