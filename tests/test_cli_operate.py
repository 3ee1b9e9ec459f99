"""The commands to a running gateway, over a served admin API of subscriptions between fakes."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from admin_api.server import AdminServer
from proxy.app.reload import Change, NotReloaded, Reloaded
from proxy.cli.main import app
from proxy.errors import Conflict
from proxy.groups.messages import FindLeader, LeaseStreams, Report, SessionId, Version
from proxy.net.group.settings import GroupSettings
from proxy.net.owner.deployment import Deployment
from proxy.views.deployment import DeploymentView
from tests.admin_api.rig import AdminRig
from tests.admin_api.test_deployment import OwnerRig
from tests.admin_api.test_group_topics import TOPIC, Topics
from tests.admin_api.test_groups import GROUP, GroupsRig
from tests.admin_api.test_producers import ProducersRig
from tests.admin_api.test_routes import draining_rig
from tests.net.assignment_rig import NoBrokers
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
    assert [line.split()[2] for line in text.splitlines() if line.startswith(" b ")] == ["ready"]
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
    assert (refused.exit_code, "name the subscription after the topic" in refused.output) == (2, True)


class BesideOwners(GroupsRig):
    """A replica in owner mode that shares one subscription by streams."""

    def __init__(self) -> None:
        super().__init__(mode="owner")

    def new_deployment(self) -> DeploymentView:
        """Without a record; nothing has an owner."""
        settings = GroupSettings(groups_enabled=True, groups_mode="owner", streamed_subscriptions=("* s",))
        return DeploymentView(Deployment("here-1", "pulsar://here:6670", NoBrokers(), self.clock, settings), self.clock)


def test_a_subscription_of_streams_is_told_with_those_of_the_replica() -> None:
    """It has no owner: the replica is one of those that have a part."""
    rig = BesideOwners()
    rig.worker("a", 1)
    assert "here-1: 0 of 0 streams" in _in_one_line(printed(rig, "stats"))
    rig.hear(LeaseStreams(rig.header(1), Version(3, 7), (1, 3), 4))
    assert "here-1: 2 of 4 streams" in _in_one_line(printed(rig, "stats"))
    assert "at here-1: 2 of 4 streams" in _in_one_line(printed(rig, "stats", *TARGET))
    text = _in_one_line(printed(rig, "groups"))
    assert "1 groups of replica here-1; other subscriptions have one owner" in text


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def test_replicas_are_a_table_in_owner_mode() -> None:
    """Elsewhere the gateway says by which settings there would be one."""
    rig = OwnerRig()
    rig.learn(here=3, there=4)
    text = printed(rig, "replicas")
    assert "1 of 8 bundles without owner" in text
    assert "pulsar://there:6670" in text
    refused = run(AdminRig(), "replicas")
    assert refused.exit_code == 1
    assert "groups_mode=owner" in refused.output


def test_topics_of_groups_are_a_table_and_one_can_be_removed() -> None:
    """With what the broker says of each, and of the one that is not removed."""
    topics = Topics()
    rig = AdminRig(app_options={"group_topics": topics})
    text = printed(rig, "group-topics")
    assert "1 topics of groups in public/default" in text
    assert f"{TOPIC} group no: `--remove` removes it" in " ".join(text.split())
    assert f"{TOPIC} has no records any more" in printed(rig, "group-topics", "--remove", TOPIC)
    topics.problem = Conflict("a replica uses it")
    refused = run(rig, "group-topics", "--remove", TOPIC)
    assert (refused.exit_code, "a replica uses it" in refused.output) == (1, True)


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
    assert "1,234" in printed(rig, "limits", *TARGET, "--set", "max_unacked_messages_per_worker=1234")
    assert "1 closed" in printed(rig, "evict", *TARGET, "a")
    assert worker.forgotten
    rig.worker("a")
    assert "a owns no slots (1 connected)" in printed(rig, "exclude", *TARGET, "a")
    rig.subscribe("a")
    assert "a takes part again (1 connected)" in printed(rig, "exclude", *TARGET, "a", "--undo")


def test_a_quarantine_is_shown_and_ended() -> None:
    """By the command that the verdict names, and which readmits an excluded worker."""
    rig = AdminRig(ack_lease_ms=2_000, quarantine_after=1)
    rig.worker("a", permits=9)
    rig.worker("b")
    rig.link.deliver((0, single(rig.key_for("a"))))
    rig.clock.advance(2.0)
    rig.subscribe("a")
    told = printed(rig, "stats", *TARGET)
    assert "a lost its ack lease too often" in told
    assert "keyline exclude orders s a --undo" in told
    assert "a takes part again (1 connected)" in printed(rig, "exclude", *TARGET, "a", "--undo")
    assert "too often" not in printed(rig, "stats", *TARGET)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("stats", "payments", "s"), "no worker of this gateway consumes topic"),
        (("drain", "orders", "s", "nobody"), "has no worker nobody"),
        (
            ("limits", "orders", "s", "--set", "subscription_memory_bytes=7"),
            "subscription_memory_bytes must be at least",
        ),
    ],
)
def test_a_refusal_is_one_line_with_the_gateways_name_and_exit_code_1(arguments: tuple[str, ...], words: str) -> None:
    """On standard error, without a stack."""
    rig = AdminRig(app_options={"gateway": "keyline-0"})
    rig.worker("a")
    done = run(rig, *arguments)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert words in done.stderr
    assert "answered by keyline-0 at http://127.0.0.1:" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("stats", "orders"), "name the subscription after the topic"),
        (("explain", "orders", "s"), "name a key (--key customer-17) or a slot (--slot 4711)"),
        (("explain", "orders", "s", "--key", "k", "--slot", "1"), "give --key or --slot, not both"),
        (("explain", "orders", "s", "--slot", "70000"), "--slot"),
        (("explain", "a/b", "s", "--key", "k"), "expected persistent://"),
        (("pause", "kafka://a/b/c", "s"), "expected persistent://"),
        (("move", "orders", "s"), "name the replica"),
        (("mode", "orders", "s", "random"), "MODE"),
        (("limits", "orders", "s", "--set", "memory=1"), "no limit is called memory; there are look_ahead_messages"),
        (
            ("limits", "orders", "s", "--set", "subscription_memory_bytes=much"),
            "expected NAME=VALUE with a number",
        ),
        (("limits", "orders", "s", "--reset", "memory"), "no limit is called memory"),
        (("stats", "--watch", "often"), "--watch"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_asks_no_gateway(arguments: tuple[str, ...], words: str) -> None:
    """In the words of the command line, not of the API."""
    done = CliRunner().invoke(app, [*arguments, "--admin-url", "http://127.0.0.1:9"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in " ".join(done.stderr.split())


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


def stopped_rig() -> AdminRig:
    """A worker has acknowledged nothing for 100 s, and two messages wait for it."""
    rig = AdminRig(app_options={"gateway": "keyline-0"})
    rig.worker("a", permits=1)
    for number in range(3):
        rig.link.deliver((number, single("k")))
    rig.clock.advance(100)
    return rig


def test_a_worker_that_stopped_is_the_first_that_is_read() -> None:
    """Who, since when, what it holds, what waits and which command helps: in the list, of one, and of a key."""
    rig = stopped_rig()
    for arguments in (("stats",), ("stats", *TARGET), ("explain", *TARGET, "--key", "k")):
        text = printed(rig, *arguments)
        head = " ".join(text[text.index("orders s: " if "stats" in arguments else "k (slot") :].split())
        assert head.split(": ")[1].startswith("stopped acknowledging")
        assert "a has acknowledged nothing for 100 s and never did before; it holds 1 message" in head
        assert "2 messages wait for it" in head
        assert "Restart a" in head
        assert "keyline pending orders s a" in head


def test_stats_show_subscriptions_in_trouble_first() -> None:
    """With words that alarm, and not the ordering mode."""
    rig = stopped_rig()
    rig.worker("well", subscription="audit")
    rows = [line for line in printed(rig, "stats").splitlines() if line.startswith(" public/default")]
    assert [(row.split()[1], "stopped acknowledging" in row) for row in rows] == [("s", True), ("audit", False)]
    assert "draining_hashes" not in "".join(rows)


def test_keys_that_wait_are_listed() -> None:
    """Oldest first; or it is said that none does."""
    rig = stopped_rig()
    (row,) = [line for line in printed(rig, "stuck", *TARGET).splitlines() if "no permits" in line]
    assert row.split()[1:] == ["k", "100.0", "s", "2", "no", "permits", "a", "stopped", "acknowledging", "7:1"]
    rig = AdminRig()
    rig.worker("a")
    assert "No key waits." in printed(rig, "stuck", *TARGET)


def test_keys_with_the_most_messages_are_listed() -> None:
    """What clients chose cannot command the terminal."""
    rig = AdminRig()
    rig.worker("a", permits=1)
    for number, key in enumerate(("hot", "hot", "\x1b[2J")):
        rig.link.deliver((number, single(key)))
    shown = printed(rig, "hot", *TARGET)
    first, second = [line.split() for line in shown.splitlines() if " a" in line and " % " in line]
    assert first[:1] + first[3:7] == ["hot", "66.7", "%", "1", "1"]
    assert first[-3:] == ["no", "permits", "a"]
    assert "\x1b" not in shown
    assert second[0].startswith("\\x1b")
    rig = AdminRig()
    rig.worker("a")
    assert "No message came lately." in printed(rig, "hot", *TARGET)


def test_every_output_names_the_gateway_that_answered() -> None:
    """Of JSON on standard error, so that programs can read the rest."""
    rig = stopped_rig()
    for arguments in (("stats",), ("stuck", *TARGET), ("limits", *TARGET), ("pause", *TARGET)):
        assert printed(rig, *arguments).splitlines()[-1].startswith("Answered by keyline-0 at http://127.0.0.1:")
    done = run(rig, "stats", "--json")
    assert json.loads(done.stdout)["subscriptions_count"] == 1
    assert "Answered by keyline-0" in done.stderr


def test_limits_are_shown_and_only_those_named_change() -> None:
    """And go back to the configuration's by their names."""
    rig = AdminRig()
    rig.worker("a")

    def shown(*arguments: str) -> dict[str, list[str]]:
        rows = printed(rig, "limits", *TARGET, *arguments).splitlines()
        return {row.split()[0]: row.split()[1:] for row in rows if row.startswith(" ") and "_" in row}

    before = shown()
    assert before["max_unacked_messages_per_worker"] == ["50,000", "50,000"]
    changed = shown("--set", "max-unacked-messages-per-worker=70", "--set", "look_ahead_messages_per_worker=1_000")
    assert changed["max_unacked_messages_per_worker"] == ["70", "50,000", "by", "an", "operator"]
    assert shown() == changed
    assert shown("--reset", "max_unacked_messages_per_worker")["look_ahead_messages_per_worker"][0] == "1,000"
    assert shown("--reset", "look_ahead_messages_per_worker") == before


def test_a_reload_tells_what_changed_and_what_needs_a_restart() -> None:
    """As the gateway answers; a configuration with a mistake is refused."""
    rig = AdminRig(app_options={"gateway": "keyline-0"})
    asked: list[str] = []
    changes = {
        "workers_max": Change(50_000, 7),
        "admin_viewers": Change((), ("vera",)),
        "dead_letter_topic": Change("a", None),
    }

    def reload(by: str) -> Reloaded:
        asked.append(by)
        if len(asked) == 1:
            return Reloaded(changes, ("broker_url",))
        if len(asked) == 2:
            return Reloaded({}, ())
        raise NotReloaded("nothing has changed: workers_max: expected a number")

    rig.admin.reloads = reload
    told = printed(rig, "reload")
    rows = [line.split() for line in told.splitlines()]
    assert ["workers_max", "50000", "7"] in rows
    assert ["admin_viewers", "[]", '["vera"]'] in rows
    assert ["dead_letter_topic", "a", "none"] in rows
    assert "Needs a restart: broker_url.\n" in told
    told = printed(rig, "reload")
    assert "No setting changed." in told
    assert "restart" not in told
    done = run(rig, "reload")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "nothing has changed: workers_max: expected a number" in done.stderr


def test_rows_in_a_file_are_lines_however_long_names_are() -> None:
    """Nothing wraps without a terminal."""
    rig = AdminRig()
    name = "worker-" + "x" * 500
    rig.worker(name)
    assert [line for line in printed(rig, "stats", *TARGET).splitlines() if line.startswith(f" {name} ")]


def test_watching_shows_it_again_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is how it ends, and no error. Only this module's `sleep` is another: threads of other tests sleep, too."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("proxy.cli.asking.time", SimpleNamespace(sleep=sleep, strftime=time.strftime))
    rig = stopped_rig()
    assert printed(rig, "stats", "--watch", "7").count("1 Key_Shared subscription") == 2
    assert slept == [7, 7]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    "name", ["w; touch x #", r"w\$(touch x)", r"w\`touch x`", "w'", 'w"', "w*", "w\nw", "--undo", "$IFS", "w x", "w>x"]
)
def test_a_shell_is_offered_no_name_that_means_something_to_it(
    monkeypatch: pytest.MonkeyPatch, shell: str, name: str
) -> None:
    """A client chose it, and the shell takes it into its line; zsh evaluates what it is offered, backslashes too."""
    rig = AdminRig()
    rig.worker("worker-1")
    rig.worker(name)
    line = "keyline evict orders s "
    words = {"COMP_WORDS": line, "COMP_CWORD": "4", "_TYPER_COMPLETE_ARGS": line}
    variables = {"_KEYLINE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **words}
    with served(rig) as url:
        monkeypatch.setenv("KEYLINE_ADMIN_URL", url)
        offered = CliRunner().invoke(app, [], env=variables, prog_name="keyline").stdout
    expected = """_arguments '*: :(("worker-1"))'""" if shell == "zsh" else "worker-1"
    assert offered.strip() == expected


def test_a_shell_completes_names_from_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics, their subscriptions, their workers; without a gateway nothing, and no error."""
    rig = AdminRig()
    rig.worker("worker-1")
    rig.worker("other")

    def completed(words: str) -> list[str]:
        variables = {"_KEYLINE_COMPLETE": "complete_bash", "COMP_WORDS": f"keyline {words}"}
        variables["COMP_CWORD"] = str(len(words.split(" ")))
        return CliRunner().invoke(app, [], env=variables, prog_name="keyline").stdout.split()

    with served(rig) as url:
        monkeypatch.setenv("KEYLINE_ADMIN_URL", url)
        assert completed("stats or") == ["orders"]
        assert completed("stats orders ") == ["s"]
        assert completed("evict orders s wo") == ["worker-1"]
    monkeypatch.setenv("KEYLINE_ADMIN_URL", "http://127.0.0.1:9")
    assert completed("evict orders s wo") == []
