"""Names of strangers reach a terminal as text: no command to it, no line of their own, no markup."""

from __future__ import annotations

import json
import subprocess
import sys
from urllib.parse import quote

import pytest
from typer.testing import Result

from proxy.printable import printable
from tests.admin_api.rig import AdminRig
from tests.admin_api.test_producers import ProducersRig
from tests.net.producer_rig import want
from tests.net.subscription_rig_broker import TOPIC, single
from tests.test_cli_operate import run

NASTY = "w\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\nq\x00\x7f[red]x[/red]\u2028"
SHOWN = r"w\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\nq\x00\x7f[red]x[/red]\u2028"
COMMANDS = [("stats",), ("stats", "orders", NASTY), ("explain", "orders", NASTY, "--key", "k"),
            ("pending", "orders", NASTY, NASTY), ("preview", "leave", "orders", NASTY, NASTY)]  # fmt: skip


def nasty_rig() -> AdminRig:
    """A subscription and two workers of such a name, of which the first holds something of the second's."""
    rig = AdminRig()
    rig.worker(NASTY, permits=9, subscription=NASTY)
    rig.link.deliver(*[(entry, single(f"k{entry}")) for entry in range(30)])
    rig.worker(NASTY + "2", permits=9, subscription=NASTY)
    return rig


def is_tame(text: str) -> bool:
    """Lines of printable text, and nothing else."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (NASTY, SHOWN),
        ("a plain \u00fcml\u00e4ut and \u65e5\u672c", "a plain \u00fcml\u00e4ut and \u65e5\u672c"),
        ("", ""),
        ("\ud800", r"\ud800"),
        ("\u200f\u2066\u061c", r"\u200f\u2066\u061c"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_has_no_picture_is_shown_by_its_escape(text: str, shown: str) -> None:
    """And everything else as it is."""
    assert printable(text) == shown
    assert shown.isprintable()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_tables_hold_no_commands_to_a_terminal(command: tuple[str, ...]) -> None:
    """Titles and cells; markup is text as well."""
    done: Result = run(nasty_rig(), *command)
    assert done.exit_code == 0, done.output
    assert is_tame(done.output), repr(done.output)
    assert "owned" in done.output or command[0] == "pending", "that one names nobody"


def test_refusals_hold_none_either() -> None:
    """They name what there is, and what was asked for."""
    done = run(nasty_rig(), "pending", "orders", NASTY, "nobody\x1b[2J")
    assert done.exit_code == 1
    assert is_tame(done.output), repr(done.output)
    assert r"nobody\x1b[2J" in done.output


def test_json_for_programs_is_the_name_itself() -> None:
    """In escapes of its own."""
    done = run(nasty_rig(), "stats", "--json")
    assert is_tame(done.output)
    assert json.loads(done.stdout)["subscriptions"][0]["subscription"] == NASTY


def test_producers_hold_none() -> None:
    """Owners and those that wait are named by clients too."""
    rig = ProducersRig()
    rig.owned()
    rig.client().client.deliver(want(10, 1, producer_id=1, name=NASTY))
    done = run(rig, "producers", "primary")
    assert done.exit_code == 0, done.output
    assert "owned" in done.output
    assert is_tame(done.output)


@pytest.mark.parametrize("line_format", ["json", "console"])
def test_a_line_of_the_log_stays_one_line_without_commands(line_format: str) -> None:
    """In names, in lists of them, and in the event itself, by our loggers and the standard library's."""
    program = (
        "import logging, sys, structlog; from proxy.app.log import configure_logging\n"
        "from time import monotonic; from proxy.app.log_limiter import LineLimiter\n"
        "configure_logging('info', sys.argv[1], 'r', LineLimiter(monotonic, 0))\n"
        "name = sys.stdin.buffer.read().decode()\n"
        "structlog.get_logger('a').info('worker joined', consumer=name, all=[name], of={name: name})\n"
        "structlog.get_logger('a').info(name)\n"
        "logging.getLogger('b').warning('saw %s', name)\n"
    )
    command = [sys.executable, "-c", program, line_format]
    done = subprocess.run(command, input=NASTY.encode(), capture_output=True, timeout=240, check=True)
    lines = done.stderr.decode().removesuffix("\n").split("\n")
    assert len(lines) == 3, lines
    assert all(line.replace("\x7f", "").isprintable() for line in lines), lines
    if line_format == "json":
        assert json.loads(lines[0])["consumer"] == NASTY


def test_the_api_answers_with_any_name() -> None:
    """As JSON, whose lines a name can neither end nor begin."""
    rig = nasty_rig()
    path = f"/api/v1/subscriptions/{TOPIC.removeprefix('persistent://')}/{quote(NASTY, safe='')}"
    answer = rig.ask("GET", path)
    assert answer.status_code == 200
    assert [worker["name"] for worker in answer.json()["dispatcher"]["workers"]] == [NASTY, NASTY + "2"]
