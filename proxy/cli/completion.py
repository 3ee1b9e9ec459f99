"""Names for a shell's completion, asked of the gateway in the environment. Without an answer there are none.

Clients choose names, and a shell takes what it is offered into its line as it is; zsh even evaluates it. So only names
are offered that mean nothing else to any shell; others are to be typed.
"""

from __future__ import annotations

import os
from shlex import quote
from typing import Any, Final

import typer

from proxy.cli.admin_client import AdminClient, Unanswered, WrongUsage, subscription_path

PATIENCE_S: Final = 2.0
"""A shell waits meanwhile."""
_DEFAULT_PLACE: Final = "persistent://public/default/"


def topics(incomplete: str) -> list[str]:
    """Topics with subscriptions, as short as commands take them."""
    names = {_short(item["topic"]) for item in _subscriptions()}
    return _offered(names, incomplete)


def subscriptions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Subscriptions of the topic before."""
    topic = ctx.params.get("topic")
    found = {item["subscription"] for item in _subscriptions() if topic in (item["topic"], _short(item["topic"]))}
    return _offered(found, incomplete)


def workers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Workers of the subscription before."""
    topic, subscription = ctx.params.get("topic"), ctx.params.get("subscription")
    if not topic or not subscription:
        return []
    try:
        answer = _client().ask("GET", subscription_path(topic, subscription), timeout_s=PATIENCE_S)
    except (Unanswered, WrongUsage):
        return []
    return _offered({worker["name"] for worker in answer["dispatcher"]["workers"]}, incomplete)


def _offered(names: set[str], incomplete: str) -> list[str]:
    """Those that begin so, are one word without quotes, and no option."""
    return sorted(
        name for name in names if name.startswith(incomplete) and quote(name) == name and not name.startswith("-")
    )


def _short(topic: str) -> str:
    return topic.removeprefix(_DEFAULT_PLACE).removeprefix("persistent://")


def _subscriptions() -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = _client().pages("/subscriptions", "subscriptions", timeout_s=PATIENCE_S)[
            "subscriptions"
        ]
    except Unanswered:
        return []
    return found


def _client() -> AdminClient:
    return AdminClient(os.environ.get("KEYLINE_ADMIN_URL", "http://127.0.0.1:8750"))
