"""Commands that ask a running gateway: tables for people, `--json` for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from proxy.cli import group_tables, subscription_tables, tables
from proxy.cli.admin_client import WrongUsage, group_path, producers_path, subscription_path, worker_path
from proxy.cli.asking import (
    LOCAL,
    AsJson,
    Key,
    Slot,
    SubscriptionName,
    Topic,
    Url,
    Watch,
    Worker,
    Workers,
    key_or_slot,
    ordering,
    refusals_told,
    show,
)
from proxy.cli.orders import ORDERS

if TYPE_CHECKING:
    from proxy.cli.admin_client import AdminClient

REMOVAL_S_MAX = 60.0
"""The gateway waits for half a minute whether a replica of the group shows itself."""
NAME_BOTH = "name the subscription after the topic, or neither"

preview_commands = typer.Typer(help="Show what a join or a leave would move. Nothing changes.", no_args_is_help=True)


def stats(
    topic: Topic = "",
    subscription: SubscriptionName = "",
    as_json: AsJson = False,  # noqa: FBT002 - the form typer takes a flag in
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """Show all subscriptions, those in trouble first, or one with its workers and draining hashes."""
    if not topic:
        show(
            url,
            lambda client: client.pages("/subscriptions", "subscriptions"),
            subscription_tables.subscriptions,
            subscription_tables.troubles,
            subscription_tables.unanswered,
            as_json=as_json,
            watch_s=watch,
        )
        return
    show(
        url,
        _of_one(topic, subscription, subscription_path),
        subscription_tables.verdict_on_one,
        subscription_tables.workers,
        subscription_tables.draining,
        as_json=as_json,
        watch_s=watch,
    )


def producers(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Show its owner and who waits for it.")] = "",
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000, help="Most of those that wait.")] = 100,
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """Show the topics with exclusive producers, or one topic with its owner and queue."""
    if not topic:
        pages = _pages("/exclusive-producers", "elections")
        show(url, pages, tables.elections, as_json=as_json, watch_s=watch)
        return

    def of_one(client: AdminClient) -> Any:
        path, query = producers_path(topic)
        return client.ask("GET", path, query=query | {"limit": str(limit)})

    show(url, of_one, tables.election, as_json=as_json, watch_s=watch)


def groups(
    topic: Topic = "",
    subscription: SubscriptionName = "",
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """Show the subscriptions that this replica shares with others, or one with its streams."""
    if not topic:
        show(url, _pages("/groups", "groups"), group_tables.groups, as_json=as_json, watch_s=watch)
        return
    ask_one = _of_one(topic, subscription, group_path)
    show(url, ask_one, group_tables.streams, group_tables.sessions, as_json=as_json, watch_s=watch)


def replicas(
    drain: Annotated[
        str, typer.Option("--drain", metavar="REPLICA", help="Let this replica hand over all that it owns.")
    ] = "",
    undo: Annotated[str, typer.Option("--undo", metavar="REPLICA", help="End this replica's drain.")] = "",
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """Show all replicas in owner mode: who leads, and how much each owns. Or drain one."""
    for method, replica in (("POST", drain), ("DELETE", undo)):
        if replica:
            with ordering(url) as ask:
                ask(method, f"/deployment/replicas/{quote(replica, safe='')}/drain")
                typer.echo(f"{replica} {'hands over all that it owns' if method == 'POST' else 'owns its share again'}")
    if not drain and not undo:
        show(
            url, lambda client: client.ask("GET", "/deployment"), group_tables.replicas, as_json=as_json, watch_s=watch
        )


def group_topics(
    remove: Annotated[
        str, typer.Option("--remove", metavar="TOPIC", help="Remove this one, if no replica is in its group.")
    ] = "",
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """Show the topics that replicas made for their groups, and why each is in use. Or remove one of a former group."""
    if not remove:
        show(url, _pages("/group-topics", "topics"), group_tables.topics, as_json=as_json, watch_s=watch)
        return
    with ordering(url) as ask:
        ask("DELETE", f"/group-topics/{quote(remove, safe='')}", timeout_s=REMOVAL_S_MAX)
        typer.echo(f"{remove} has no records any more; the broker deletes the empty topic")


def explain(
    topic: Topic,
    subscription: SubscriptionName,
    key: Key = None,
    slot: Slot = None,
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """Explain why a key's messages wait, who causes it, and what helps."""
    with refusals_told():
        query = key_or_slot(key, slot, required=True)
    show(
        url,
        _part_of_one(topic, subscription, "/explain", **query),
        subscription_tables.verdict_on_key(key),
        subscription_tables.explanation,
        as_json=as_json,
        watch_s=watch,
    )


def stuck(
    topic: Topic,
    subscription: SubscriptionName,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000, help="Most slots shown.")] = 20,
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """List the keys that wait, oldest first: why, and for which worker."""
    asked = _part_of_one(topic, subscription, "/stuck", limit=limit)
    show(url, asked, subscription_tables.stuck, as_json=as_json, watch_s=watch)


def hot(
    topic: Topic,
    subscription: SubscriptionName,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Most keys shown.")] = 10,
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """List the keys with the most recent messages: how many, what is not acknowledged, and since when."""
    asked = _part_of_one(topic, subscription, "/hot-keys", limit=limit)
    show(url, asked, subscription_tables.hot, as_json=as_json, watch_s=watch)


def parked(
    topic: Topic,
    subscription: SubscriptionName,
    key: Key = None,
    slot: Slot = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000, help="Most slots or messages shown.")] = 100,
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """List the keys that are parked, or the parked messages of one."""
    with refusals_told():
        query = key_or_slot(key, slot, required=False)
    one = key is not None or slot is not None
    asked = _part_of_one(topic, subscription, "/parked/messages" if one else "/parked", **query, limit=limit)
    drawn = subscription_tables.parked_messages if one else subscription_tables.parked
    show(url, asked, drawn, as_json=as_json, watch_s=watch)


def pending(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Worker,
    key: Key = None,
    slot: Slot = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000, help="Most deliveries shown.")] = 100,
    as_json: AsJson = False,  # noqa: FBT002
    watch: Watch = 0,
    url: Url = LOCAL,
) -> None:
    """List a worker's unacknowledged messages, in topic order."""
    with refusals_told():
        query = key_or_slot(key, slot, required=False) | {"limit": limit}
        path = worker_path(topic, subscription, worker) + "/pending-acks"
    show(url, lambda client: client.ask("GET", path, query=query), tables.pending, as_json=as_json, watch_s=watch)


@preview_commands.command("join")
def preview_join(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Worker,
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """The effect of a join of a worker with this name."""
    with refusals_told():
        path = subscription_path(topic, subscription) + "/preview/join"
    show(url, lambda client: client.ask("POST", path, json={"worker": worker}), tables.preview, as_json=as_json)


@preview_commands.command("leave")
def preview_leave(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Workers,
    as_json: AsJson = False,  # noqa: FBT002
    url: Url = LOCAL,
) -> None:
    """The effect of these workers leaving together."""
    with refusals_told():
        path = subscription_path(topic, subscription) + "/preview/leave"
    show(url, lambda client: client.ask("GET", path, query={"worker": worker}), tables.preview, as_json=as_json)


READS: tuple[Callable[..., None], ...] = (
    stats,
    explain,
    stuck,
    hot,
    parked,
    pending,
    producers,
    groups,
    group_topics,
    replicas,
)


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for panel, commands in (("Look at a running gateway", READS), ("Order something of it", ORDERS)):
        for command in commands:
            app.command(rich_help_panel=panel)(command)
    app.add_typer(preview_commands, name="preview", rich_help_panel="Look at a running gateway")


def _pages(path: str, name: str) -> Callable[[AdminClient], Any]:
    """Ask for a whole list, page by page."""
    return lambda client: client.pages(path, name)


def _of_one(topic: str, subscription: str, path_of: Callable[[str, str], str]) -> Callable[[AdminClient], Any]:
    """Ask about one subscription. Raises `WrongUsage` when it is asked and only a topic is named."""

    def ask(client: AdminClient) -> Any:
        if not subscription:
            raise WrongUsage(NAME_BOTH)
        return client.ask("GET", path_of(topic, subscription))

    return ask


def _part_of_one(topic: str, subscription: str, part: str, **query: Any) -> Callable[[AdminClient], Any]:
    """Ask for a part of what is known of one subscription. Raises `WrongUsage` when it is asked, for a wrong name."""
    return lambda client: client.ask("GET", subscription_path(topic, subscription) + part, query=query)
