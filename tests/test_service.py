"""The systemd unit: systemd takes it, and what it says of times and codes is what the gateway does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from proxy.cli.main import EXIT_MISCONFIGURED
from proxy.config.client_side import ClientSide
from proxy.config.serving import Serving

ROOT: Final = Path(__file__).resolve().parents[1]
UNIT: Final = ROOT / "keyline_gateway" / "keyline.service"
AFTER_THE_DRAIN_S: Final = 20
"""To close connections and finish the journal's last file, as the chart has it."""


def value(name: str) -> str:
    """What the unit says under a name."""
    found = re.search(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None, name
    return found[1]


@pytest.fixture
def analyze() -> str:
    """The program that judges units; skips where there is no systemd."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing: it is in Debian's package systemd")
    return program


def here(folder: Path) -> Path:
    """The unit with this environment's command, since systemd looks whether it is there."""
    program = Path(sys.executable).with_name("keyline")
    unit = folder / "keyline.service"
    unit.write_text(UNIT.read_text().replace("/opt/keyline/bin/keyline", str(program)))
    return unit


def test_systemd_takes_it(analyze: str, tmp_path: Path) -> None:
    """Without a word: an unknown or misspelt line is a warning."""
    command = [analyze, "verify", "--man=no", str(here(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_may_do_little(analyze: str, tmp_path: Path) -> None:
    """By systemd's own measure, where 10 is everything."""
    command = [analyze, "security", "--offline=true", "--threshold=20", str(here(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout


def test_times_and_codes_are_the_gateways() -> None:
    """It is not killed while it drains, and not started again and again with a mistake in its configuration."""
    assert float(value("TimeoutStopSec")) > Serving.model_fields["drain_timeout_s"].default + AFTER_THE_DRAIN_S
    assert value("RestartPreventExitStatus") == str(EXIT_MISCONFIGURED)
    assert value("KillMode") == "mixed"
    assert value("ExecReload") == "/bin/kill -HUP $MAINPID"


def test_a_client_more_than_the_limit_is_refused_by_the_gateway_not_by_the_system() -> None:
    """Each client has a socket of its own and one to its broker."""
    assert int(value("LimitNOFILE")) > 2 * ClientSide.model_fields["connections_max"].default
