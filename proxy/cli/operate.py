"""Commands for a running gateway: tables for people, `--json` for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from proxy.cli import group_tables, tables
from proxy.cli.admin_client import AdminClient, Unanswered, group_path, producers_path, subscription_path, worker_path
from proxy.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

ADMIN_URL_VARIABLE = "KEYLINE_ADMIN_URL"

EXIT_REFUSED = 1
REPLAY_S_MAX = 120.0
"""Replicas first wait for workers, then a broker searches the message."""
NAME_BOTH = "name the subscription after the topic, or neither"

Topic = Annotated[str, typer.Argument(help="persistent://tenant/namespace/name, tenant/namespace/name, or a name.")]
SubscriptionName = Annotated[str, typer.Argument(metavar="SUBSCRIPTION")]
Worker = Annotated[str, typer.Argument(help="Its consumer name.")]
Key = Annotated[str | None, typer.Option("--key", help="A message key.")]
Slot = Annotated[int | None, typer.Option("--slot", help="A slot, by its number.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Url = Annotated[
    str, typer.Option("--admin-url", envvar=ADMIN_URL_VARIABLE, help="The gateway's admin API.", show_default=True)
]
LOCAL = "http://127.0.0.1:8750"

preview_commands = typer.Typer(help="Show what a join or a leave would move. Nothing changes.", no_args_is_help=True)


def stats(
    topic: Annotated[str, typer.Argument(help="Show the workers of one of its subscriptions.")] = "",
    subscription: Annotated[str, typer.Argument()] = "",
    as_json: AsJson = False,  # noqa: FBT002 - the form typer takes a flag in
    url: Url = LOCAL,
) -> None:
    """Show the subscriptions, or one with its workers and draining hashes."""
    with _refusals_told():
        if not topic:
            _show(AdminClient(url).pages("/subscriptions", "subscriptions"), as_json, tables.subscriptions)
            return
        if not subscription:
            raise Unanswered(NAME_BOTH)
        answer = AdminClient(url).ask("GET", subscription_path(topic, subscription))
        _show(answer, as_json, tables.workers, *([tables.draining] if _drains(answer) else []))


def producers(
    topic: Annotated[str, typer.Argument(help="Show who waits for it.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Most of those that wait.")] = 100,
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """Show the topics with exclusive producers, or one topic with its owner and queue."""
    with _refusals_told():
        if not topic:
            _show(AdminClient(url).pages("/exclusive-producers", "elections"), as_json, tables.elections)
            return
        path, query = producers_path(topic)
        answer = AdminClient(url).ask("GET", path, query=query | {"limit": str(limit)})
        _show(answer, as_json, tables.election)


def groups(
    topic: Annotated[str, typer.Argument(help="Show the replica's part in one group.")] = "",
    subscription: Annotated[str, typer.Argument()] = "",
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """Show the subscriptions that this replica shares with others, or one with its streams."""
    with _refusals_told():
        if not topic:
            _show(AdminClient(url).pages("/groups", "groups"), as_json, group_tables.groups)
            return
        if not subscription:
            raise Unanswered(NAME_BOTH)
        answer = AdminClient(url).ask("GET", group_path(topic, subscription))
        _show(answer, as_json, group_tables.streams, *([group_tables.sessions] if answer["leading"] else []))


def explain(
    topic: Topic,
    subscription: SubscriptionName,
    key: Key = None,
    slot: Slot = None,
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """Explain why a key's messages wait, or that they flow."""
    with _refusals_told():
        path = subscription_path(topic, subscription) + "/explain"
        _show(AdminClient(url).ask("GET", path, query={"key": key, "slot": slot}), as_json, tables.explanation)


def pending(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Worker,
    key: Key = None,
    slot: Slot = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Most deliveries shown.")] = 100,
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """List a worker's unacknowledged messages, in topic order."""
    with _refusals_told():
        path = worker_path(topic, subscription, worker) + "/pending-acks"
        query = {"key": key, "slot": slot, "limit": limit}
        _show(AdminClient(url).ask("GET", path, query=query), as_json, tables.pending)


@preview_commands.command("join")
def preview_join(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Worker,
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """The effect of a join of a worker with this name."""
    with _refusals_told():
        path = subscription_path(topic, subscription) + "/preview/join"
        _show(AdminClient(url).ask("POST", path, json={"worker": worker}), as_json, tables.preview)


@preview_commands.command("leave")
def preview_leave(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Annotated[list[str], typer.Argument(help="Consumer names; they leave together.")],
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """The effect of these workers leaving."""
    with _refusals_told():
        path = subscription_path(topic, subscription) + "/preview/leave"
        _show(AdminClient(url).ask("GET", path, query={"worker": worker}), as_json, tables.preview)


def drain(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Worker,
    undo: Annotated[bool, typer.Option("--undo", help="Deliver to it again.")] = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """Stop new deliveries to a worker; it keeps its slots until it leaves or is evicted."""
    with _refusals_told():
        path = worker_path(topic, subscription, worker) + "/drain"
        done = AdminClient(url).ask("DELETE" if undo else "POST", path)
        state = "takes messages again" if undo else "gets nothing new"
        typer.echo(f"{worker} {state} ({done['workers']} connected)")


def evict(topic: Topic, subscription: SubscriptionName, worker: Worker, url: Url = LOCAL) -> None:
    """Close a worker's consumer; its messages go to other workers, and its client reconnects."""
    with _refusals_told():
        done = AdminClient(url).ask("POST", worker_path(topic, subscription, worker) + "/evict")
        typer.echo(f"{done['workers']} closed")


def pause(topic: Topic, subscription: SubscriptionName, url: Url = LOCAL) -> None:
    """Pause the deliveries of a subscription."""
    with _refusals_told():
        AdminClient(url).ask("POST", subscription_path(topic, subscription) + "/pause")
        typer.echo(f"{subscription} is paused; `keyline resume` resumes it")


def resume(topic: Topic, subscription: SubscriptionName, url: Url = LOCAL) -> None:
    """Resume the deliveries of a subscription."""
    with _refusals_told():
        AdminClient(url).ask("POST", subscription_path(topic, subscription) + "/resume")
        typer.echo(f"{subscription} goes on")


def mode(
    topic: Topic,
    subscription: SubscriptionName,
    ordering_mode: Annotated[Literal["draining_hashes", "last_sent_position"], typer.Argument()],
    url: Url = LOCAL,
) -> None:
    """Change the ordering mode of a subscription."""
    with _refusals_told():
        path = subscription_path(topic, subscription) + "/ordering-mode"
        AdminClient(url).ask("PUT", path, json={"ordering_mode": ordering_mode})
        typer.echo(f"{subscription} uses {ordering_mode}")


def limits(
    topic: Topic,
    subscription: SubscriptionName,
    look_ahead_messages_per_worker: int | None = None,
    look_ahead_messages_per_subscription: int | None = None,
    subscription_memory_bytes: int | None = None,
    max_unacked_messages_per_worker: int | None = None,
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """Set a subscription's limits; limits that are not named follow the configuration."""
    wanted = {
        "look_ahead_messages_per_worker": look_ahead_messages_per_worker,
        "look_ahead_messages_per_subscription": look_ahead_messages_per_subscription,
        "subscription_memory_bytes": subscription_memory_bytes,
        "max_unacked_messages_per_worker": max_unacked_messages_per_worker,
    }
    with _refusals_told():
        path = subscription_path(topic, subscription) + "/limits"
        _show(AdminClient(url).ask("PUT", path, json=wanted), as_json, tables.limits)


def replay(
    topic: Topic,
    subscription: SubscriptionName,
    place: Annotated[
        str,
        typer.Option("--from", help="earliest, latest, a time as 2026-11-22T10:00:00Z, or a message as LEDGER:ENTRY."),
    ],
    url: Url = LOCAL,
) -> None:
    """Redeliver from a position on all replicas of a group."""
    with _refusals_told():
        path = group_path(topic, subscription) + "/replay"
        AdminClient(url).ask("POST", path, json=_place(place), timeout_s=REPLAY_S_MAX)
        typer.echo(f"{subscription} continues from {place} on all replicas")


def _place(text: str) -> dict[str, Any]:
    """The body of the API's request; the API parses a time."""
    if text in ("earliest", "latest"):
        return {"end": text}
    ledger, found, entry = text.partition(":")
    if found and ledger.isdecimal() and entry.isdecimal():
        return {"position": {"ledger": int(ledger), "entry": int(entry)}}
    return {"published_at": text}


COMMANDS: tuple[Callable[..., None], ...] = (
    stats,
    producers,
    groups,
    explain,
    pending,
    drain,
    evict,
    pause,
    resume,
    mode,
    limits,
    replay,
)


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    panel = "A running gateway"
    for command in COMMANDS:
        app.command(rich_help_panel=panel)(command)
    app.add_typer(preview_commands, name="preview", rich_help_panel=panel)


def _drains(answer: dict[str, Any]) -> bool:
    return bool(answer["dispatcher"]["draining_hashes_count"])


def _show(answer: Any, as_json: bool, *drawn: Callable[[Any], Table]) -> None:  # noqa: FBT001
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
        return
    out = tables.console()
    for draw in drawn:
        out.print(draw(answer))


@contextmanager
def _refusals_told() -> Iterator[None]:
    """One line on standard error instead of a traceback."""
    try:
        yield
    except Unanswered as error:
        typer.echo(printable(f"keyline: {error}"), err=True)
        raise typer.Exit(EXIT_REFUSED) from None
