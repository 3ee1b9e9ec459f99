"""Subscriptions, workers and keys as tables: what is wrong comes first, with who causes it and what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.text import Text

from proxy.cli.tables import LISTED_MAX, add, seconds, table
from proxy.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType
    from rich.table import Table

URGENCIES: Final = {"act": 0, "watch": 1, "none": 2}
STYLES: Final = {"act": "bold red", "watch": "yellow", "none": ""}
TROUBLES_MAX: Final = 5
"""Subscriptions of a list that are explained below it."""


def words(state: str) -> str:
    """A state of the API as people write it."""
    return state.replace("look_ahead", "look-ahead").replace("_", " ")


def short(topic: str) -> str:
    """As commands take it."""
    return topic.removeprefix("persistent://public/default/").removeprefix("persistent://")


def _state(found: dict[str, Any]) -> Text:
    return Text(printable(words(found["state"])), style=STYLES[found["urgency"]])


def _verdict(subject: str, found: dict[str, Any], waited_s: float | None = None) -> RenderableType:
    """State, cause, advice and command, each on its own line."""
    head = Text.assemble((printable(subject), "bold"), ": ", _state(found))
    if waited_s is not None:
        head.append(f", waits for {seconds(waited_s)}")
    lines = [head, Text(printable(found["says"]))]
    if found["advice"]:
        lines.append(Text(printable(found["advice"])))
    if found["command"]:
        lines.append(Text(f"    {printable(found['command'])}", style="bold", no_wrap=True, overflow="ignore"))
    return Group(*lines, Text(""))


# ---- all subscriptions


def _by_trouble(item: dict[str, Any]) -> tuple[int, float, str, str]:
    numbers = item["dispatcher"]
    waited_s = item["now"] - numbers["oldest_wait_since"] if numbers["oldest_wait_since"] is not None else 0.0
    return URGENCIES[numbers["verdict"]["urgency"]], -waited_s, item["topic"], item["subscription"]


def subscriptions(answer: dict[str, Any]) -> RenderableType:
    """One row a subscription, those in trouble first; in owner mode with its owner, or for each that has streams."""
    items = sorted(answer["subscriptions"], key=_by_trouble)
    if not items:
        return Text("No worker consumes a Key_Shared subscription here. Let a client's service URL be this gateway's.")
    columns = ["topic", "subscription", "state", "worker", "#workers", "#waiting", "#oldest", "#unacked", "#draining"]
    owned = any(item["served_by"] for item in items)
    count = answer["subscriptions_count"]
    title = f"{count} Key_Shared subscription{'s' * (count != 1)}"
    made = table(title, columns + (["replica"] if owned else []))
    for item in items:
        numbers = item["dispatcher"]
        oldest = numbers["oldest_wait_since"]
        add(
            made,
            item["topic"].removeprefix("persistent://"),
            item["subscription"],
            _state(numbers["verdict"]),
            numbers["verdict"]["worker"] or "",
            len(numbers["workers"]),
            numbers["waiting_messages"],
            seconds(item["now"] - oldest if oldest is not None else None),
            sum(worker["unacked_messages"] for worker in numbers["workers"]),
            numbers["draining_hashes_count"],
            *([item["served_by"] + _streams(item)] if owned else []),
        )
    return made


def _streams(item: dict[str, Any]) -> str:
    """How many streams the replica has of a subscription that has no owner; one before this release does not say."""
    if item.get("groups_mode") != "streams":
        return ""
    group = item["group"]
    return ": no streams" if group is None else f": {group['streams_here']} of {group['streams_count']} streams"


def troubles(answer: dict[str, Any]) -> RenderableType:
    """What is wrong with the first subscriptions that need an operator."""
    found = [item for item in answer["subscriptions"] if item["dispatcher"]["verdict"]["urgency"] == "act"]
    shown = [
        _verdict(f"{short(item['topic'])} {item['subscription']}", item["dispatcher"]["verdict"])
        for item in sorted(found, key=_by_trouble)[:TROUBLES_MAX]
    ]
    rest = len(found) - TROUBLES_MAX
    if rest > 0:
        shown.append(Text(f"and {rest} more; `keyline stats TOPIC SUBSCRIPTION` says what is wrong with each"))
    return Group(*shown)


def unanswered(answer: dict[str, Any]) -> RenderableType:
    """One row for each replica whose subscriptions are missing."""
    if not answer["unanswered"]:
        return Group()
    made = table("Replicas that did not answer: their subscriptions are missing", ("replica", "problem"))
    for row in answer["unanswered"]:
        add(made, row["replica"], row["problem"])
    return made


# ---- one subscription


def verdict_on_one(item: dict[str, Any]) -> RenderableType:
    """What is wrong with it, first."""
    at = f" at {item['served_by']}{_streams(item)}" if item["served_by"] else ""
    return _verdict(f"{short(item['topic'])} {item['subscription']}{at}", item["dispatcher"]["verdict"])


def workers(item: dict[str, Any]) -> Table:
    """One row a worker of a subscription, those in trouble first."""
    columns = (
        "worker", "address", "state", "#share", "#permits", "#unacked", "#oldest", "#acked", "#acked/s", "#wait for it",
        "#draining", "#last ack",
    )  # fmt: skip
    numbers = item["dispatcher"]
    count = len(numbers["workers"])
    made = table(f"{count} worker{'s' * (count != 1)}, {words(numbers['ordering_mode'])}", columns)
    addresses: dict[str, list[str]] = {}
    for name, address in item["addresses"]:
        addresses.setdefault(name, []).append(address)
    rows = [(worker, (addresses.get(worker["name"]) or ["-"]).pop(0)) for worker in numbers["workers"]]
    for worker, address in sorted(rows, key=lambda row: URGENCIES[row[0]["health"]["urgency"]]):
        health = worker["health"]
        acked_at = worker["last_acked_at"]
        add(
            made,
            worker["name"],
            address,
            _state(health),
            f"{worker['hash_space_share']:.1%}",
            worker["available_permits"],
            worker["unacked_messages"],
            seconds(health["oldest_unacked_s"]),
            worker["acked_messages"],
            f"{health['acked_rate']:.1f}",
            health["waiting_for_it"],
            worker["draining_hashes_count"],
            f"{seconds(item['now'] - acked_at)} ago" if acked_at else "never",
        )
    return made


def draining(item: dict[str, Any]) -> RenderableType:
    """The slots that drain, longest first."""
    found = [(worker, drain) for worker in item["dispatcher"]["workers"] for drain in worker["draining_hashes"]]
    if not found:
        return Group()
    made = table("Draining hashes", ("#slot", "held by", "goes to", "#pending", "#waiting", "#for"))
    found.sort(key=lambda pair: float(pair[1]["since"]))
    for worker, drain in found[:LISTED_MAX]:
        age = seconds(item["now"] - drain["since"])
        owner = drain["owner"] or "none"
        add(made, drain["hash"], worker["name"], owner, drain["unack_msgs"], drain["waiting_messages"], age)
    rest = item["dispatcher"]["draining_hashes_count"] - LISTED_MAX
    if rest > 0:
        made.caption = f"and {rest} more; --json has them"
    return made


# ---- keys


def verdict_on_key(key: str | None) -> Callable[[dict[str, Any]], RenderableType]:
    """Why it waits, first."""

    def drawn(answer: dict[str, Any]) -> RenderableType:
        subject = f"slot {answer['slot']}" if key is None else f"{key} (slot {answer['slot']})"
        return _verdict(subject, answer["verdict"], answer["waiting_age_s"])

    return drawn


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def explanation(answer: dict[str, Any]) -> Table:
    """A slot, field by field."""
    made = table("", ("slot", str(answer["slot"])))
    add(made, "waits because of", words(answer["state"]))
    add(made, "owner", answer["owner"] or "none")
    add(made, "held by", answer["holder"] or "none")
    waiting = _counted(answer["waiting_messages"], "message")
    if answer["waiting_age_s"] is not None:
        waiting += f", for {seconds(answer['waiting_age_s'])}"
    add(made, "waiting", waiting)
    add(
        made,
        "unacked",
        f"{_counted(answer['unacked_messages'], 'message')} in {_counted(answer['pending_acks'], 'pending ack')}",
    )
    for delivery in answer["blocking"]:
        sent = f"sent {seconds(delivery['sent_age_s'])} ago to {delivery['holder']}" if delivery["holder"] else "waits"
        add(made, "blocked by", f"{delivery['position']}: {sent}, attempt {delivery['attempts']}")
    add(made, "unblocks", answer["unblocks"])
    return made


def stuck(answer: dict[str, Any]) -> RenderableType:
    """Slots that wait, oldest first."""
    if not answer["slots"]:
        return Text("No key waits.")
    columns = ("#slot", "key", "#waits for", "#messages", "why", "worker", "worker is", "first message")
    count = answer["waiting_slots"]
    title = f"{count} hash slot{'s wait' if count != 1 else ' waits'}, with {answer['waiting_messages']} messages"
    made = table(title, columns)
    for row in answer["slots"]:
        found = {"state": row["worker_state"] or "", "urgency": row["urgency"]}
        add(
            made,
            row["slot"],
            "-" if row["key"] is None else row["key"],
            seconds(row["waiting_s"]),
            row["waiting_messages"],
            words(row["state"]),
            row["worker"] or "none",
            _state(found),
            row["position"],
        )
    rest = answer["waiting_slots"] - len(answer["slots"])
    if rest > 0:
        made.caption = f"and {rest} more; --limit shows them"
    return made


def hot(answer: dict[str, Any]) -> RenderableType:
    """Keys with the most messages."""
    if not answer["keys"]:
        return Text("No message came lately.")
    made = table(
        f"{answer['messages_per_s']:,.1f} messages/s lately",
        ("key", "#slot", "#messages/s", "#share", "#waiting", "#unacked", "#oldest", "state", "worker"),
    )
    for row in answer["keys"]:
        add(
            made,
            row["key"],
            row["slot"],
            f"{row['messages_per_s']:,.1f}",
            f"{row['share_percent']:.1f} %",
            row["waiting_messages"],
            row["unacked_messages"],
            "-" if row["oldest_s"] is None else seconds(row["oldest_s"]),
            words(row["state"]),
            row["worker"] or "none",
        )
    return made


def parked(answer: dict[str, Any]) -> RenderableType:
    """Slots that are parked."""
    if not answer["slots"]:
        return Text("No key is parked.")
    count = answer["parked_slots"]
    title = f"{count} hash slot{'s are' if count != 1 else ' is'} parked, with {answer['parked_messages']} messages"
    made = table(title, ("#slot", "keys", "state", "#messages", "#attempts"))
    for row in answer["slots"]:
        add(made, row["slot"], ", ".join(row["keys"]) or "-", row["state"], row["messages"], row["attempts"])
    trouble = f"; {answer['trouble']}" if answer["trouble"] else ""
    made.caption = Text(printable(f"in {answer['parking_topic']}{trouble}"))
    return made


def parked_messages(answer: list[dict[str, Any]]) -> RenderableType:
    """Messages of a slot, in order."""
    if not answer:
        return Text("Nothing of it is parked.")
    made = table("parked", ("position", "#batch index", "key", "#attempts", "#bytes", "in the parking topic"))
    for row in answer:
        index = "-" if row["batch_index"] is None else row["batch_index"]
        add(made, row["position"], index, row["key"], row["attempts"], row["size_bytes"], row["parked_position"])
    return made
