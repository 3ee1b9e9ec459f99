"""Groups of replicas as tables for people."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Group

from proxy.cli.tables import add, seconds, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType
    from rich.table import Table

HOLDINGS = {"open": "delivered", "held": "held: no lease", "releasing": "being released"}


def groups(answer: dict[str, Any]) -> Table:
    """One row for each group of the replica."""
    replica = answer["replica"]
    title = f"{len(answer['groups'])} groups of replica {replica}" if replica else "groups are not enabled"
    if answer["mode"] == "owner":
        title = f"replica {replica} is in owner mode: see `keyline replicas`"
        if answer["groups"]:
            title = f"{len(answer['groups'])} groups of replica {replica}; other subscriptions have one owner"
    made = table(title, ("topic", "subscription", "state", "leader", "#epoch", "#streams", "#workers", "#lease left"))
    for item in answer["groups"]:
        add(
            made,
            item["topic"].removeprefix("persistent://"),
            item["subscription"],
            item["state"],
            "this replica" if item["leads"] else item["leader"] or "not found",
            "-" if item["epoch"] is None else item["epoch"],
            f"{item['streams_here']} of {item['streams_count']}",
            item["workers_count"],
            seconds(item["lease_left_s"]),
        )
    return made


def replicas(answer: dict[str, Any]) -> Table:
    """One row for each replica that owns something."""
    unowned = f"{answer['bundles_without_owner']} of {answer['bundles_count']} bundles without owner"
    title = f"epoch {answer['epoch']}, {unowned}; told by {answer['replica']}"
    made = table(title, ("replica", "leads", "#bundles", "address"))
    for row in answer["replicas"]:
        leads = "leads" if row["replica"] == answer["leader"] else ""
        add(made, row["replica"], leads, row["bundles"], row["address"])
    return made


def topics(answer: dict[str, Any]) -> Table:
    """One row for each topic that replicas made for their groups."""
    made = table(f"{len(answer['topics'])} topics of groups in {answer['namespace']}", ("topic", "is", "in use"))
    for row in answer["topics"]:
        add(made, row["topic"], row["kind"], row["in_use_because"] or "no: `--remove` removes it")
    return made


def streams(answer: dict[str, Any]) -> Table:
    """The streams that the replica has, or releases."""
    item = answer["summary"]
    leader = "which leads the group" if item["leads"] else f"led by {item['leader']}" if item["leader"] else "no leader"
    title = f"{item['topic']} {item['subscription']}: {item['state']} at {item['replica']}, {leader}"
    made = table(title, ("#stream", "slots", "is", "upstream", "#pending", "acknowledged up to", "#messages/s"))
    for row in answer["streams"]:
        add(
            made,
            row["stream"],
            f"{row['first_slot']}-{row['last_slot']}",
            HOLDINGS[row["holding"]],
            row["upstream_state"] + (f": {row['upstream_error']}" if row["upstream_error"] else ""),
            row["unacked_messages"],
            row["acknowledged"] or "-",
            f"{row['rate']:.1f}",
        )
    return made


def sessions(answer: dict[str, Any]) -> RenderableType:
    """All replicas of the group, as its leader knows them; nothing at another replica."""
    leading = answer["leading"]
    if not leading:
        return Group()
    unowned = [row["stream"] for row in leading["streams"] if row["owner"] is None]
    made = table(
        f"All replicas, epoch {leading['epoch']}", ("replica", "state", "#workers", "streams", "releasing", "#heard")
    )
    for row in leading["sessions"]:
        releasing = _ranges(row["streams_releasing"])
        heard = f"{seconds(row['heard_s'])} ago"
        add(made, row["replica"], row["state"], row["workers_count"], _ranges(row["streams"]), releasing, heard)
    if unowned:
        made.caption = f"no replica has streams {_ranges(unowned)}"
    return made


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers in order, with consecutive ones joined: ``0-3, 7``."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ends = [(found[0][1], found[-1][1]) for _, run in runs if (found := list(run))]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends) or "-"
