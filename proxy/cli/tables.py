"""Answers of the admin API as tables for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from proxy.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

LISTED_MAX = 20
"""Rows of long lists; `--json` has them all."""

TWO_MINUTES_S = 120.0

STAGES = {
    "waiting": "waits here",
    "asked": "asked for at the broker",
    "parked": "waits at the broker",
    "withdrawing": "gives its turn to a better one",
}
HELD = {
    "newcomers": "new producers wait for the owner to return",
    "all": "no promotion while the broker reports errors for the topic",
}

WIDTH_PIPED = 100_000
"""Width without a terminal: each row is one line, however long."""


def console() -> Console:
    """Standard output; into a file or a pipe nothing is wrapped."""
    out = Console(highlight=False, soft_wrap=False)
    if not out.is_terminal:
        out = Console(highlight=False, width=WIDTH_PIPED)
    return out


def table(title: str, columns: Sequence[str]) -> Table:
    """An empty one; columns whose names begin with ``#`` hold numbers. The title is text, as that of `add`."""
    made = Table(
        title=Text(printable(title)) if title else None,
        box=SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        pad_edge=False,
    )
    for column in columns:
        made.add_column(column.lstrip("#"), justify="right" if column.startswith("#") else "left", overflow="fold")
    return made


def add(made: Table, *cells: object) -> None:
    """A row; names that clients chose are plain text, never markup or terminal commands."""
    made.add_row(*(cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in cells))


def seconds(value: float | None) -> str:
    """A duration as text."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < TWO_MINUTES_S else f"{value / 60:.0f} min"


def elections(answer: dict[str, Any]) -> Table:
    """One row for each topic with exclusive producers."""
    sums = answer["summary"]
    title = f"{sums['topics_count']} topics, {sums['owners_count']} owned from here, {sums['waiting_count']} waiting"
    made = table(title, ("topic", "owner", "#priority", "#epoch", "#for", "#waiting"))
    for item in answer["elections"]:
        add(made, item["topic"].removeprefix("persistent://"), *_owner(item), item["waiting_count"])
    return made


def election(answer: dict[str, Any]) -> Table:
    """The owner of a topic and its queue in the order of promotion."""
    item = answer["summary"]
    name, priority, epoch, since = _owner(item)
    made = table(
        f"{item['topic']}: {name}" + (f", priority {priority}, epoch {epoch}, for {since}" if item["owner"] else ""),
        ("#", "producer", "#priority", "stage", "#waits for", "address", "client"),
    )
    for row in answer["waiting"]:
        add(
            made,
            row["position"] + 1,
            row["producer_name"] or "not named yet",
            row["priority"],
            STAGES[row["stage"]],
            seconds(item["now"] - row["since"]),
            row["address"],
            row["client_version"],
        )
    rest = item["waiting_count"] - len(answer["waiting"])
    made.caption = f"and {rest} more; --limit shows them" if rest > 0 else HELD.get(item["held"])
    return made


def _owner(item: dict[str, Any]) -> tuple[str, str, str, str]:
    """Name, priority, epoch, and for how long."""
    owner = item["owner"]
    if owner is None:
        vacant = item["vacant_s"]
        return (f"no owner for {seconds(vacant)}" if vacant else "connected elsewhere"), "-", "-", "-"
    priority = owner["access_mode"] if owner["priority"] is None else owner["priority"]
    epoch = "-" if owner["topic_epoch"] is None else str(owner["topic_epoch"])
    return owner["producer_name"], str(priority), epoch, seconds(item["now"] - owner["since"])


def preview(answer: dict[str, Any]) -> Table:
    """The effect of a join or leave on each worker."""
    title = (
        f"{answer['share_moved']:.1%} of the hash space would move ({answer['slots_moved']} slots in "
        f"{answer['moves_count']} ranges); {answer['slots_that_would_drain']} slots would drain, "
        f"{answer['messages_that_would_drain']} messages first; {answer['messages_redelivered']} messages sent again"
    )
    made = table(title, ("worker", "", "#share now", "#then", "#slots draining from it", "#messages"))
    for worker in answer["workers"]:
        what = "joins" if worker["joins"] else "leaves" if worker["leaves"] else ""
        shares = f"{worker['share_before']:.1%}", f"{worker['share_after']:.1%}"
        add(made, worker["name"], what, *shares, worker["slots_that_would_drain"], worker["messages_that_would_drain"])
    return made


def pending(answer: dict[str, Any]) -> Table:
    """A worker's pending acks."""
    made = table(
        f"{answer['total']} pending acks", ("message id", "slots", "#messages", "#attempt", "#sent", "draining")
    )
    for item in answer["deliveries"]:
        slots = ", ".join(map(str, item["slots"]))
        drains = "another waits" if item["draining"] else ""
        sent = f"{seconds(item['sent_age_s'])} ago"
        add(made, item["message_id"], slots, item["messages"], item["attempts"], sent, drains)
    return made


def limits(answer: dict[str, Any]) -> Table:
    """The limits in effect, beside those of the configuration."""
    made = table("", ("limit", "#in effect", "#configured", "ordered"))
    for name, value in answer["in_effect"].items():
        configured = answer["configured"][name]
        add(made, name, f"{value:,}", f"{configured:,}", "" if value == configured else "by an operator")
    return made


def reloaded(answer: dict[str, Any]) -> Group:
    """The settings that a reload changed, and those that wait for a restart."""
    changed, waiting = answer["changed"], answer["needs_restart"]
    told: list[Table | Text] = []
    if changed:
        made = table("now in effect", ("setting", "before", "now"))
        for name, values in changed.items():
            add(made, name, *(_setting(values[when]) for when in ("before", "now")))
        told.append(made)
    else:
        told.append(Text("No setting changed. Keys of the admin API's callers were read again."))
    if waiting:
        told.append(Text(printable(f"Needs a restart: {', '.join(waiting)}.")))
    return Group(*told)


def _setting(value: object) -> str:
    """A value as the configuration has it."""
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
