"""The commands to a running gateway, over a served admin API of subscriptions between fakes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner, Result

from admin_api.server import AdminServer
from proxy.cli.main import app
from proxy.groups.messages import FindLeader, LeaseStreams, Report, SessionId, Version
from tests.admin_api.rig import AdminRig
from tests.admin_api.test_groups import GROUP, GroupsRig
from tests.admin_api.test_producers import ProducersRig
from tests.admin_api.test_routes import draining_rig
from tests.net.producer_rig import not_ready, want
from tests.net.subscription_rig_broker import single

TARGET = ("orders", "s")


@contextmanager
def served(rig: AdminRig) -> Iterator[str]:
    """Its admin API's URL, from another thread's loop; the test leaves the rig alone meanwhile."""
    started, done = threading.Event(), threading.Event()
    where: list[str] = []

    async def serve() -> None:
        server = AdminServer(rig.app)
        host, port = await server.start("127.0.0.1", 0)
        where.append(f"http://{host}:{port}")
        started.set()
        await asyncio.to_thread(done.wait)
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(30)
    try:
        yield where[0]
    finally:
        done.set()
        thread.join(30)
    rig.clock.settle()


def run(rig: AdminRig, *arguments: str) -> Result:
    """One command to its end."""
    with served(rig) as url:
        return CliRunner().invoke(app, [*arguments, "--admin-url", url])


def printed(rig: AdminRig, *arguments: str) -> str:
    """What a successful command prints."""
    done = run(rig, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_stats_show_the_subscriptions() -> None:
    """One row each, from however many pages."""
    rig = AdminRig()
    for name in ("billing", "audit"):
        rig.worker(subscription=name)
    text = printed(rig, "stats")
    assert "2 Key_Shared subscriptions" in text
    assert [line.split()[:2] for line in text.splitlines() if "public/default" in line] == [
        ["public/default/orders", "audit"],
        ["public/default/orders", "billing"],
    ]


def test_stats_of_one_show_workers_and_what_drains() -> None:
    """As one reads them; JSON has the rest."""
    rig, _ = draining_rig()
    text = printed(rig, "stats", *TARGET)
    assert "takes messages" in text
    assert "Draining hashes" in text
    shown = json.loads(printed(rig, "stats", *TARGET, "--json"))
    assert shown["dispatcher"]["draining_hashes_count"] == 1


def test_producers_show_topics_with_their_owners() -> None:
    """One owned, one that is owned elsewhere, one vacant."""
    rig = ProducersRig()
    rig.owned()
    client = rig.client()
    client.client.deliver(want(1, topic="elsewhere", producer_id=1) + want(2, topic="vacant", producer_id=2))
    client.broker.deliver(not_ready(1))
    rig.clock.advance(50)
    text = printed(rig, "producers")
    assert "3 topics, 1 owned from here, 2 waiting" in text
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if "public/default" in line}
    assert rows["public/default/primary"] == "first 5 2 50.0 s 0"
    assert rows["public/default/elsewhere"] == "connected elsewhere - - - 1"
    assert rows["public/default/vacant"] == "no owner for 50.0 s - - - 1"


def test_producers_of_one_topic_are_shown_in_order() -> None:
    """With what each of them is; JSON has the rest."""
    rig = ProducersRig()
    rig.owned()
    client = rig.client()
    for number in range(3):
        client.client.deliver(want(10 + number, number, producer_id=number, name=f"p{number}"))
    text = printed(rig, "producers", "primary", "--limit", "2")
    assert "persistent://public/default/primary: first, priority 5, epoch 2" in text
    assert [line.split()[:5] for line in text.splitlines() if "waits here" in line] == [
        ["1", "p2", "2", "waits", "here"],
        ["2", "p1", "1", "waits", "here"],
    ]
    assert "and 1 more; --limit shows them" in text
    assert json.loads(printed(rig, "producers", "primary", "--json"))["summary"]["owner"]["producer_name"] == "first"
    refused = run(rig, "producers", "non-persistent://public/default/primary")
    assert refused.exit_code == 1
    assert "no producer of this gateway owns topic non-persistent://public/default/primary" in refused.output


def test_groups_show_this_replicas_part() -> None:
    """Where it shares nothing, so; then with its lease, and one with its streams."""
    assert "groups are not enabled" in printed(AdminRig(), "groups")
    rig = GroupsRig()
    rig.worker("a", 1)
    rig.hear(LeaseStreams(rig.header(1), Version(3, 7), (1, 2), 4))
    text = printed(rig, "groups")
    assert "1 groups of replica here-1" in text
    (row,) = [line.split() for line in text.splitlines() if "public/default/orders" in line]
    assert row == ["public/default/orders", "s", "replaying", "there-1", "3", "2", "of", "4", "1", "5.0", "s"]
    text = printed(rig, "groups", "orders", "s")
    assert "replaying at here-1, led by there-1" in text
    assert [line.split()[:4] for line in text.splitlines() if "delivered" in line] == [
        ["1", "16384-32767", "delivered", "ready"],
        ["2", "32768-49151", "delivered", "ready"],
    ]
    refused = run(rig, "groups", "orders")
    assert (refused.exit_code, "name the subscription after the topic" in refused.output) == (1, True)


def test_groups_of_the_leader_show_all_replicas() -> None:
    """And the streams that nobody has."""
    rig = GroupsRig()
    rig.worker("a")
    rig.lead()
    rig.hear(FindLeader(Report(GROUP, SessionId("other-9", 4), 1, 3), ()))
    text = printed(rig, "groups", "orders", "s")
    assert "which leads the group" in " ".join(text.split())
    assert [line.split()[:3] for line in text.splitlines() if "other-9" in line] == [
        ["other-9", "waiting_replaying", "3"]
    ]
    assert "no replica has streams 0-3" in text


def test_explain_says_who_must_do_what() -> None:
    """In a sentence."""
    rig, key = draining_rig()
    text = " ".join(printed(rig, "explain", *TARGET, "--key", key).split())
    assert "draining" in text
    assert "a must acknowledge" in text


def test_pending_lists_what_a_worker_holds() -> None:
    """By message id."""
    rig, key = draining_rig()
    assert "7:0" in printed(rig, "pending", *TARGET, "a", "--key", key)
    assert json.loads(printed(rig, "pending", *TARGET, "a", "--limit", "1", "--json"))["total"] == 1


def test_previews_change_nothing() -> None:
    """Of a join and of leaves."""
    rig, _ = draining_rig()
    assert "joins" in printed(rig, "preview", "join", *TARGET, "c")
    assert "leaves" in printed(rig, "preview", "leave", *TARGET, "a", "b")
    assert sorted(worker.name for worker in rig.subscription.state.dispatcher.workers.values()) == ["a", "b"]


def test_orders_are_carried_out_and_taken_back() -> None:
    """Each says what it did."""
    rig = AdminRig()
    worker = rig.worker("a", permits=9)
    assert "is paused" in printed(rig, "pause", *TARGET)
    rig.link.deliver((0, single("k")))
    assert worker.entries() == []
    assert "goes on" in printed(rig, "resume", *TARGET)
    assert worker.entries() == [0]
    assert "a gets nothing new (1 connected)" in printed(rig, "drain", *TARGET, "a")
    assert "a takes messages again (1 connected)" in printed(rig, "drain", *TARGET, "a", "--undo")
    assert "last_sent_position" in printed(rig, "mode", *TARGET, "last_sent_position")
    assert "1,234" in printed(rig, "limits", *TARGET, "--max-unacked-messages-per-worker", "1234")
    assert "1 closed" in printed(rig, "evict", *TARGET, "a")
    assert worker.forgotten


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("stats", "orders"), "name the subscription after the topic"),
        (("stats", "payments", "s"), "no worker of this gateway consumes topic"),
        (("explain", "orders", "s"), "name a key"),
        (("explain", "a/b", "s", "--key", "k"), "expected persistent://"),
        (("pause", "kafka://a/b/c", "s"), "expected persistent://"),
        (("drain", "orders", "s", "nobody"), "has no worker nobody"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_1(arguments: tuple[str, ...], words: str) -> None:
    """On standard error, without a stack."""
    rig = AdminRig()
    rig.worker("a")
    done = run(rig, *arguments)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_nobody_answering_is_said_with_the_address() -> None:
    """And how to name another."""
    done = CliRunner().invoke(app, ["stats", "--admin-url", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert "no gateway answers at http://127.0.0.1:9" in done.stderr
    assert "--admin-url" in done.stderr


def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    """A client may call itself anything."""
    rig = AdminRig()
    rig.worker("[red]x[/red]")
    assert "[red]x[/red]" in printed(rig, "stats", *TARGET)
