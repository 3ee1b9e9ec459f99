"""What the supervisor of several processes does when the machine is short of something, or slow."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from integration.ports import LOOPBACK, free_ports
from proxy.aio.clock_and_connector import AioClock
from proxy.app import supervisor
from proxy.app.host_process import HostProcess
from proxy.app.owner_mode import OwnerMode
from proxy.app.process_life import PAUSE_S, SILENCE_S_MAX
from proxy.app.supervision import REPORT, Report
from proxy.app.supervisor import Running, Supervisor
from proxy.config.load import Loaded, load
from proxy.config.processes import Place
from proxy.limits import Limits
from proxy.net.owner.proof import NUMBER_BYTES, Secret
from tests.net.assignment_rig import NoBrokers

SETTINGS = {
    "KEYLINE_BROKER_URL": f"pulsar://{LOOPBACK}:1",
    "KEYLINE_LISTEN": f"{LOOPBACK}:0",
    "KEYLINE_ADMIN_LISTEN": f"{LOOPBACK}:0",
    "KEYLINE_PROCESSES": "2",
}
REPORTED = Report("host-0-1", "pulsar://127.0.0.1:1", started=True, not_ready_because=(), reloads=0)


class Rig:
    """A supervisor whose processes are the test's, and its clock, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self.now = 1_000.0
        self.killed: list[int] = []
        self.reading_s = 0.0
        loaded = load(None, SETTINGS)
        self.supervisor = Supervisor(loaded, partial(self._read, loaded), stack)
        monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(os, "waitpid", lambda _pid, _options: (0, 0))
        monkeypatch.setattr(os, "kill", lambda pid, _signal: self.killed.append(pid))
        self._stack = stack

    def process(self, index: int) -> Callable[[Report], None]:
        """A process runs, and reports by this."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._stack.callback(ours.close)
        self._stack.callback(theirs.close)
        life = self.supervisor._lives[index]
        self.supervisor._running[index] = Running(4_000_000 + index, ours)
        self.supervisor._selector.register(ours, selectors.EVENT_READ, life)
        life.begun(self.now)

        def report(said: Report) -> None:
            theirs.send(REPORT.dump_json(said))

        return report

    def _read(self, loaded: Loaded) -> Loaded:
        self.now += self.reading_s
        return loaded


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Without processes."""
    before = structlog.get_config()
    with ExitStack() as stack:
        yield Rig(monkeypatch, stack)
    structlog.configure(**before)


def test_a_process_that_the_system_refuses_is_tried_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many processes, or no memory, for a moment: the host goes on with those that it has."""

    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    life = rig.supervisor._lives[0]
    rig.supervisor._start(life)
    assert not rig.supervisor._running
    assert not life.wanted(rig.now)
    assert life.wanted(rig.now + PAUSE_S)


def test_a_slow_reload_is_no_silence_of_other_processes(rig: Rig) -> None:
    """They reported all the time; one that does not is killed as before."""
    first, second = rig.process(0), rig.process(1)
    first(REPORTED)
    second(REPORTED)
    rig.supervisor._wait()
    rig.reading_s = 2 * SILENCE_S_MAX
    ordered = replace(REPORTED, reloads=1)
    first(ordered)
    rig.supervisor._wait()
    assert rig.killed == []
    first(ordered)
    second(REPORTED)
    rig.supervisor._wait()
    rig.now += SILENCE_S_MAX + 1
    first(ordered)
    rig.supervisor._wait()
    assert rig.killed == [4_000_001]


@pytest.mark.parametrize("of_host", [True, False])
def test_only_an_address_that_the_supervisor_keeps_is_shared(tmp_path: Path, *, of_host: bool) -> None:
    """Ports of replicas that are configured may overlap with another host's by mistake, which is to be noticed."""
    file = tmp_path / "secret"
    file.write_text("a secret of the replicas of this test\n")
    replicas = {"groups_enabled": "true", "groups_mode": "owner", "replica_secret_file": str(file)}
    listen = f"{LOOPBACK}:{free_ports(1)[0]}"
    given = {f"KEYLINE_{name.upper()}": value for name, value in {**replicas, "replica_listen": listen}.items()}
    config = load(None, SETTINGS | given).config
    secret = Secret((bytes(range(NUMBER_BYTES)),)) if of_host else None

    async def listens_twice() -> bool:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            for index in range(2):
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                stack.callback(ours.close)
                stack.callback(theirs.close)
                process = HostProcess(Place(index, 2, {}), secret, theirs, 0)
                brokers: Any = NoBrokers()
                mode = OwnerMode(config, loop, brokers, AioClock(loop), Limits(), None, process)
                door: Any = None
                try:
                    server = await mode._open(door)
                except OSError:
                    return False
                stack.callback(server.close)
        return True

    assert asyncio.run(listens_twice()) == of_host
