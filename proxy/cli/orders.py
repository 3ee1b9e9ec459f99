"""Commands that order something of a running gateway. Each says what it did, and which gateway answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from proxy.cli import tables
from proxy.cli.admin_client import WrongUsage, group_path, subscription_path, worker_path
from proxy.cli.asking import (
    LOCAL,
    AsJson,
    Key,
    Slot,
    SubscriptionName,
    Topic,
    Url,
    Worker,
    key_or_slot,
    ordering,
    refusals_told,
    show,
)

Incomplete = Annotated[
    bool, typer.Option("--incomplete", help="Only chunks of messages of which an earlier chunk is gone.")
]
REPLAY_S_MAX = 120.0
"""Replicas first wait for workers, then a broker searches the message."""
LIMITS = (
    "look_ahead_messages_per_worker",
    "look_ahead_messages_per_subscription",
    "subscription_memory_bytes",
    "max_unacked_messages_per_worker",
    "key_window",
    "retry_delay_ms",
    "retry_multiplier",
    "retry_delay_max_ms",
    "dead_letter_after",
    "ack_lease_ms",
    "quarantine_after",
    "quarantine_ms",
    "key_share_percent",
)


def drain(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Worker,
    undo: Annotated[bool, typer.Option("--undo", help="Deliver to it again.")] = False,  # noqa: FBT002 - typer's form
    url: Url = LOCAL,
) -> None:
    """Stop new deliveries to a worker; it keeps its slots until it leaves or is evicted."""
    path = worker_path(topic, subscription, worker) + "/drain"
    _stand(url, path, worker, "takes messages again" if undo else "gets nothing new", undo=undo)


def exclude(
    topic: Topic,
    subscription: SubscriptionName,
    worker: Worker,
    undo: Annotated[bool, typer.Option("--undo", help="Readmit it.")] = False,  # noqa: FBT002 - as above
    url: Url = LOCAL,
) -> None:
    """Give a worker's slots and messages to other workers, and keep it from taking part until it is readmitted."""
    path = worker_path(topic, subscription, worker) + "/exclude"
    _stand(url, path, worker, "takes part again" if undo else "owns no slots", undo=undo)


def redrive(topic: Topic, subscription: SubscriptionName, key: Key = None, slot: Slot = None, url: Url = LOCAL) -> None:
    """Deliver what is parked of a key, in order and before anything newer of it."""
    _take_out(topic, subscription, key, slot, "redrive", url)


def drop(
    topic: Topic,
    subscription: SubscriptionName,
    key: Key = None,
    slot: Slot = None,
    incomplete: Incomplete = False,  # noqa: FBT002 - as above
    url: Url = LOCAL,
) -> None:
    """Delete what is parked of a key, which goes on with what is newer."""
    _take_out(topic, subscription, key, slot, "drop-incomplete" if incomplete else "drop", url)


def _take_out(topic: str, subscription: str, key: str | None, slot: int | None, order: str, url: str) -> None:
    with ordering(url) as ask:
        done = ask(
            "POST",
            f"{subscription_path(topic, subscription)}/parked/{order}",
            query=key_or_slot(key, slot, required=True),
        )
        verb = "delivers" if order == "redrive" else "deletes"
        typer.echo(f"slot {done['slot']} {verb} {done['messages']} parked messages")


def _stand(url: str, path: str, worker: str, state: str, *, undo: bool) -> None:
    """Give a worker an order that stands until it is undone."""
    with ordering(url) as ask:
        done = ask("DELETE" if undo else "POST", path)
        typer.echo(f"{worker} {state} ({done['workers']} connected)")


def move(
    topic: Topic,
    subscription: SubscriptionName,
    replica: Annotated[str, typer.Argument(metavar="REPLICA", help="Its configured name, or its whole name.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let the leader choose again.")] = False,  # noqa: FBT002 - as above
    url: Url = LOCAL,
) -> None:
    """Let a certain replica serve a subscription, with the others of its bundle (owner mode)."""
    with ordering(url) as ask:
        if bool(replica) == undo:
            raise WrongUsage("name the replica, or give --undo")
        ask("PUT", subscription_path(topic, subscription) + "/owner", json={"replica": replica or None})
        typer.echo("any replica may serve it" if undo else f"{replica} is to serve it")


def evict(topic: Topic, subscription: SubscriptionName, worker: Worker, url: Url = LOCAL) -> None:
    """Close a worker's consumer; its messages go to other workers, and its client reconnects."""
    with ordering(url) as ask:
        done = ask("POST", worker_path(topic, subscription, worker) + "/evict")
        typer.echo(f"{done['workers']} closed")


def pause(topic: Topic, subscription: SubscriptionName, url: Url = LOCAL) -> None:
    """Pause the deliveries of a subscription."""
    with ordering(url) as ask:
        ask("POST", subscription_path(topic, subscription) + "/pause")
        typer.echo(f"{subscription} is paused; `keyline resume` resumes it")


def resume(topic: Topic, subscription: SubscriptionName, url: Url = LOCAL) -> None:
    """Resume the deliveries of a subscription."""
    with ordering(url) as ask:
        ask("POST", subscription_path(topic, subscription) + "/resume")
        typer.echo(f"{subscription} goes on")


def mode(  # the name of the command
    topic: Topic,
    subscription: SubscriptionName,
    mode: Annotated[
        Literal["draining_hashes", "last_sent_position"],
        typer.Argument(metavar="MODE", help="PIP-379's rule, or PIP-282's."),
    ],
    url: Url = LOCAL,
) -> None:
    """Change the ordering mode of a subscription."""
    with ordering(url) as ask:
        ask("PUT", subscription_path(topic, subscription) + "/ordering-mode", json={"ordering_mode": mode})
        typer.echo(f"{subscription} uses {mode}")


def limits(
    topic: Topic,
    subscription: SubscriptionName,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=f"Change one, several if repeated: {', '.join(LIMITS)}."),
    ] = None,
    resets: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="Let the configuration decide again.")
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002 - as above
    url: Url = LOCAL,
) -> None:
    """Show a subscription's limits, or change those that are named."""
    with refusals_told():
        wanted = _wanted(sets or [], resets or [])
        path = subscription_path(topic, subscription) + "/limits"
    method, body = ("PATCH", wanted) if wanted else ("GET", None)
    show(url, lambda client: client.ask(method, path, json=body), tables.limits, as_json=as_json)


def _wanted(sets: list[str], resets: list[str]) -> dict[str, float | None]:
    wanted: dict[str, float | None] = {}
    for name, found, value in (item.partition("=") for item in sets):
        number = value.strip().replace("_", "")
        if not found or not number.replace(".", "", 1).isdecimal():
            raise WrongUsage(f"--set {name}{found}{value}: expected NAME=VALUE with a number")
        wanted[_limit(name)] = float(number) if "." in number else int(number)
    for name in resets:
        if _limit(name) in wanted:
            raise WrongUsage(f"{name} is to be both set and reset")
        wanted[_limit(name)] = None
    return wanted


def _limit(name: str) -> str:
    """The name of a limit, also with dashes."""
    known = name.strip().replace("-", "_")
    if known not in LIMITS:
        raise WrongUsage(f"no limit is called {name}; there are {', '.join(LIMITS)}")
    return known


def replay(
    topic: Topic,
    subscription: SubscriptionName,
    place: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="earliest, latest, a time as 2026-11-22T10:00:00Z, or a message as LEDGER:ENTRY.",
        ),
    ],
    url: Url = LOCAL,
) -> None:
    """Redeliver from a position on all replicas of a group."""
    with ordering(url) as ask:
        ask("POST", group_path(topic, subscription) + "/replay", json=_place(place), timeout_s=REPLAY_S_MAX)
        typer.echo(f"{subscription} continues from {place} on all replicas")


def _place(text: str) -> dict[str, Any]:
    """The body of the API's request; the API parses a time."""
    if text in ("earliest", "latest"):
        return {"end": text}
    ledger, found, entry = text.partition(":")
    if found and ledger.isdecimal() and entry.isdecimal():
        return {"position": {"ledger": int(ledger), "entry": int(entry)}}
    return {"published_at": text}


def reload(as_json: AsJson = False, url: Url = LOCAL) -> None:  # noqa: FBT002 - as above
    """Let the gateway read its configuration again, as SIGHUP does: what changed, and what needs a restart."""
    show(url, lambda client: client.ask("POST", "/configuration/reload"), tables.reloaded, as_json=as_json)


ORDERS = (drain, exclude, evict, redrive, drop, move, pause, resume, mode, limits, replay, reload)
