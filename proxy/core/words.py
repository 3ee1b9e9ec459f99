"""Counts and durations as people read them, for the sentences of explanations and verdicts."""

from __future__ import annotations

from typing import Final

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3_600.0
_DAY_S: Final = 86_400.0
_LONG_S: Final = 10.0


def counted(count: int, one: str, many: str = "") -> str:
    """``1 worker``, ``3 workers``, ``8,131 messages``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def lasting(seconds: float) -> str:
    """``40 ms``, ``2.5 s``, ``85 s``, ``5 min 40 s``, ``3 h 2 min``, ``5 d``."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < _LONG_S:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if seconds < 2 * _MINUTE_S:
        return f"{whole} s"
    if seconds < _HOUR_S:
        return f"{whole // 60} min {whole % 60} s"
    if seconds < _DAY_S:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d"


def per_second(rate: float) -> str:
    """``0/s``, ``0.4/s``, ``120/s``."""
    return f"{rate:.1f}/s" if 0 < rate < _LONG_S else f"{rate:,.0f}/s"


def listed(names: list[str], most: int = 3) -> str:
    """``a, b and 3 more``."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
