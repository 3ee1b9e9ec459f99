"""The command line, as a shell sees it."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from proxy import __version__
from proxy.app.compiled import running
from proxy.cli.main import app
from proxy.net.owner.proof import Secret


def keyline(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with no ``KEYLINE_`` variable but those given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KEYLINE_")}
    command = [sys.executable, "-m", "proxy.cli", *arguments]
    return subprocess.run(
        command, env=inherited | environment, capture_output=True, text=True, timeout=180, check=False
    )


def test_version_prints_the_distributions_version() -> None:
    """And whether what runs is compiled; nothing else."""
    done = keyline("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"keyline {__version__} ({running()})\n", "")


def test_garbage_is_collected_once_a_gateway_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is loaded there is none to look for."""
    collects: list[bool] = []
    monkeypatch.setattr("proxy.app.log.configure_logging", lambda *_: None)
    monkeypatch.setattr("proxy.app.run.run", lambda *_: collects.append(gc.isenabled()))
    monkeypatch.setattr(gc, "freeze", lambda: None)  # what this process has is not a gateway's
    app(["serve"], standalone_mode=False)
    assert collects == [True]


def test_arguments_are_named_in_one_style() -> None:
    """In capitals, in the help text of every command."""

    def names(command: object) -> list[str]:
        own = [each.metavar for each in getattr(command, "params", ()) if each.param_type_name == "argument"]
        return own + [name for each in getattr(command, "commands", {}).values() for name in names(each)]

    found = names(typer.main.get_command(app))
    assert {"TOPIC", "SUBSCRIPTION", "JOURNAL", "SOURCE"} <= set(found)
    assert all(re.fullmatch("[A-Z]+", str(name)) for name in found), found


def test_check_config_prints_what_is_in_effect() -> None:
    """With each value's origin."""
    done = keyline("check-config", KEYLINE_LISTEN="127.0.0.1:7777", KEYLINE_BROKER_TOKEN="hush")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["listen", "127.0.0.1:7777", "environment"] in rows
    assert ["admin_listen", "127.0.0.1:8750", "default"] in rows
    assert "hush" not in done.stdout + done.stderr


def test_check_config_reads_the_file_named_by_option_or_variable(tmp_path: Path) -> None:
    """Both ways to the same."""
    file = tmp_path / "keyline.toml"
    file.write_text('selector = "auto_split"\n')
    by_option = keyline("check-config", "--config", str(file), "--json")
    by_variable = keyline("check-config", "--json", KEYLINE_CONFIG=str(file))
    assert by_option.stdout == by_variable.stdout
    assert json.loads(by_option.stdout)["settings"]["selector"] == {"value": "auto_split", "origin": "file"}


def test_mistakes_go_to_standard_error_with_exit_code_2() -> None:
    """For `serve` as for `check-config`, and without a stack trace."""
    for command in ("check-config", "serve"):
        done = keyline(command, KEYLINE_LISTEN="x", KEYLINE_BROKER_ULR="y")
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == (
            "keyline: the configuration has 2 mistakes:\n"
            "  KEYLINE_BROKER_ULR: unknown variable; did you mean KEYLINE_BROKER_URL?\n"
            "  KEYLINE_LISTEN: listen = 'x': must be host:port with a port from 0 to 65535, "
            "e.g. 127.0.0.1:6660 or [::1]:6660\n"
        )


def test_a_replica_without_a_secret_is_told_what_to_set_and_how_to_make_it(tmp_path: Path) -> None:
    """One line. The command in it makes a file that is then taken."""
    said = "  KEYLINE_GROUPS_ENABLED: groups_enabled = 'true': groups_mode owner needs replica_secret_file, "
    done = keyline("serve", KEYLINE_GROUPS_ENABLED="true")
    assert done.returncode == 2
    _, line = done.stderr.splitlines()
    assert line.startswith(said)
    made = re.search(r"\(make it with: (.+)\)", line)
    assert made is not None
    subprocess.run(["/bin/sh", "-c", made[1]], cwd=tmp_path, check=True)
    (secret,) = tmp_path.iterdir()
    Secret.of_lines(secret.read_bytes())
    done = keyline("check-config", KEYLINE_GROUPS_ENABLED="true", KEYLINE_REPLICA_SECRET_FILE=str(secret))
    assert done.returncode == 0, done.stderr


def test_mistakes_as_json_go_to_standard_output() -> None:
    """For a program that reads both outcomes from one place."""
    done = keyline("check-config", "--json", KEYLINE_LISTEN="x")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert answer["valid"] is False
    assert [problem["where"] for problem in answer["problems"]] == ["KEYLINE_LISTEN"]


def test_a_wrong_command_is_a_usage_error() -> None:
    """Exit code 2, and the help names the exit codes."""
    assert keyline("srve").returncode == 2
    assert "Exit codes" in keyline("--help").stdout
