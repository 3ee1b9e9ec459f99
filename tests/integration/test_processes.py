"""Children that are surely ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from integration.ports import BLOCK_PORTS, PORT_MAX, PORT_MIN, PortBlocks, free_ports
from integration.processes import OwnedProcess

WAIT_S = 20.0
STARTS_ONE_AND_WAITS = """
import sys
from pathlib import Path
from integration.processes import OwnedProcess
child = OwnedProcess(["sleep", "1000"], Path(sys.argv[1]))
print(child.pid, flush=True)
sys.stdin.read()
"""
TAKES_PORTS = f"""
import json, sys
from integration.ports import free_ports
print(json.dumps(free_ports({2 * BLOCK_PORTS})), flush=True)
sys.stdin.read()
"""


def test_a_child_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL leaves no time to clean up, and still no broker stays behind."""
    owner = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE_AND_WAITS, str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        child = psutil.Process(int(owner.stdout.readline()))
        assert child.is_running()
        owner.kill()
    child.wait(WAIT_S)


def test_a_child_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    """`stop` is bounded, and everything the child started goes with it."""
    log = tmp_path / "log"
    stubborn = OwnedProcess(["sh", "-c", "trap '' TERM; echo ready; sleep 1000 & while :; do wait; done"], log)
    while "ready" not in log.read_text():
        assert stubborn.running
    family = [psutil.Process(stubborn.pid), *psutil.Process(stubborn.pid).children()]
    stubborn.stop(timeout_s=0.2)
    assert stubborn.process.returncode == -signal.SIGKILL
    psutil.wait_procs(family, WAIT_S)
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)


def test_a_paused_child_can_be_stopped(tmp_path: Path) -> None:
    """A stopped process would not see SIGTERM, so it is continued first."""
    child = OwnedProcess(["sleep", "1000"], tmp_path / "log")
    child.signal(signal.SIGSTOP)
    child.stop(WAIT_S)
    assert child.process.returncode == -signal.SIGTERM


def test_a_child_that_ended_can_be_ended_again(tmp_path: Path) -> None:
    """Both ways to end are free to call twice."""
    child = OwnedProcess(["true"], tmp_path / "log")
    child.process.wait(WAIT_S)
    child.stop()
    child.kill()
    assert not child.running


def test_chosen_ports_are_different_and_below_the_ephemeral_range() -> None:
    """A client that reconnects to a broker that is down must not be given its port."""
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(PORT_MIN <= port <= PORT_MAX < 32_768 for port in ports)


def test_no_port_is_given_twice_before_its_server_listens() -> None:
    """A gateway chose its own ports after those of its replica, and at times the same one."""
    given = [port for _ in range(BLOCK_PORTS) for port in free_ports(2)]
    assert len(set(given)) == 2 * BLOCK_PORTS


def test_no_port_is_given_to_two_processes() -> None:
    """A gateway that was killed found its port taken by a server of another test run."""
    command = [sys.executable, "-c", TAKES_PORTS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = set(json.loads(other.stdout.readline()))
        ours = {port for _ in range(BLOCK_PORTS) for port in free_ports(2)}
    assert len(theirs) == 2 * BLOCK_PORTS
    assert not theirs & ours


def test_where_all_blocks_are_taken_the_oldest_ports_are_given_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And without any block it is said what is wrong."""
    monkeypatch.setenv("KEYLINE_CACHE", str(tmp_path))
    monkeypatch.setattr("integration.ports.PORT_MAX", PORT_MIN + BLOCK_PORTS)
    blocks = PortBlocks()
    given = [blocks.next() for _ in range(2 * BLOCK_PORTS)]
    assert given == 2 * list(range(PORT_MIN, PORT_MIN + BLOCK_PORTS))
    with pytest.raises(OSError, match="all blocks of ports between 15000 and 15200 are taken"):
        PortBlocks().next()
