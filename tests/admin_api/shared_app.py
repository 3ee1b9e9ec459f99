"""One application for all rigs that differ only in what stands behind it: to make one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from admin_api.app import admin_app

BEHIND = ("view", "control", "tokens", "metrics", "broker", "group_topics")
"""What an application asks, of its arguments; all others are part of it."""

_made: dict[tuple[object, ...], SharedApp] = {}


class Stand:
    """Passes on what it is asked to what stands behind it now."""

    def __init__(self, behind: object) -> None:
        self.behind = behind

    def __getattr__(self, name: str) -> Any:
        """Of what stands behind it."""
        return getattr(self.behind, name)


class SharedApp:
    """An application, and what may be exchanged behind it: between tests, not while it serves several."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._stands = {name: Stand(options[name]) for name in BEHIND if options.get(name) is not None}
        self.app: FastAPI = admin_app(**{**options, **self._stands})

    @staticmethod
    def of(**options: Any) -> SharedApp:
        """One that was made with equal options, and that asks these; arguments as `admin_app` has them."""
        parts = [(name, name in BEHIND or value) for name, value in options.items() if value is not None]
        key = tuple(sorted(parts, key=str))
        if key not in _made:
            _made[key] = SharedApp(options)
        _made[key].ask(options)
        return _made[key]

    @staticmethod
    def forget() -> None:
        """Make new ones from now on: a test may look at what an application keeps."""
        _made.clear()

    def ask(self, options: Mapping[str, Any]) -> None:
        """Ask these from now on."""
        for name, stand in self._stands.items():
            stand.behind = options[name]
