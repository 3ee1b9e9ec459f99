"""Names for a shell's completion, asked of the gateway in the environment. Without an answer there are none."""

from __future__ import annotations

import os
from typing import Any, Final

import typer

from proxy.cli.admin_client import AdminClient, Unanswered, WrongUsage, subscription_path

PATIENCE_S: Final = 2.0
"""A shell waits meanwhile."""
_DEFAULT_PLACE: Final = "persistent://public/default/"


def topics(incomplete: str) -> list[str]:
    """Topics with subscriptions, as short as commands take them."""
    names = {_short(item["topic"]) for item in _subscriptions()}
    return sorted(name for name in names if name.startswith(incomplete))


def subscriptions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Subscriptions of the topic before."""
    topic = ctx.params.get("topic")
    found = {item["subscription"] for item in _subscriptions() if topic in (item["topic"], _short(item["topic"]))}
    return sorted(name for name in found if name.startswith(incomplete))


def workers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Workers of the subscription before."""
    topic, subscription = ctx.params.get("topic"), ctx.params.get("subscription")
    if not topic or not subscription:
        return []
    try:
        answer = _client().ask("GET", subscription_path(topic, subscription), timeout_s=PATIENCE_S)
    except (Unanswered, WrongUsage):
        return []
    return sorted(
        {worker["name"] for worker in answer["dispatcher"]["workers"] if worker["name"].startswith(incomplete)}
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
