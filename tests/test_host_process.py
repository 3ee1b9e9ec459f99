"""What one process of several says of its host, and what it does when its supervisor tells or ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from integration.ports import LOOPBACK, free_ports
from proxy.app.host_process import HostProcess
from proxy.app.kept_ports import KeptPorts
from proxy.app.supervision import MESSAGE_BYTES_MAX, REPORT, TOLD, ProcessState, Told
from proxy.config.processes import Place
from proxy.errors import StartFailure

OWN = ("broker: away",)


@contextmanager
def process_of(*ready: bool, **told: bool) -> Iterator[tuple[HostProcess, socket.socket]]:
    """Make the process 0 of so many, which are ready or not, with the supervisor's end."""
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = HostProcess(Place(0, len(ready), {}), None, ours, 0)
    states = tuple(ProcessState(index, "", "", each, 0) for index, each in enumerate(ready))
    process.told = Told(**{"all_started": True, **told}, processes=states)
    with theirs, ours:
        yield process, theirs


@pytest.mark.parametrize(
    ("ready", "told", "own", "says"),
    [
        ((True, True), {}, (), ()),
        ((False, True), {}, OWN, ()),
        ((False, False), {}, OWN, OWN),
        ((True, False), {}, OWN, OWN),  # what it was a moment ago does not speak for it
        ((True, False), {"all_started": False}, (), ("other processes are not listening yet",)),
        ((False, True), {"stopping": True}, OWN, OWN),
    ],
)
def test_the_host_is_ready_while_a_process_is(
    ready: tuple[bool, ...], told: dict[str, bool], own: Sequence[str], says: Sequence[str]
) -> None:
    """New clients come to processes that listen; at first to none before all do, or they would all stay at one."""
    with process_of(*ready, **told) as (process, _):
        assert process.not_ready_because(own) == says


def test_it_does_once_what_it_is_told_each_second() -> None:
    """A supervisor tells its whole state again and again; its end is an order to stop."""

    async def live() -> tuple[list[str], list[str]]:
        with process_of(True, True) as (process, theirs):
            did: asyncio.Queue[str] = asyncio.Queue()
            doing = [partial(did.put_nowait, what) for what in ("stop", "hurry", "reload")]
            process.attach(asyncio.get_running_loop(), lambda: OWN, *doing)
            again, stop = replace(process.told, reloads=1), replace(process.told, reloads=1, stopping=True)
            for told in (again, again, stop, stop, replace(stop, hurrying=True)):
                theirs.send(TOLD.dump_json(told))
            done = [await did.get() for _ in range(3)]
            reported = list(REPORT.validate_json(theirs.recv(MESSAGE_BYTES_MAX)).not_ready_because)
            theirs.close()
            return [*done, await did.get()], reported

    did, reported = asyncio.run(asyncio.wait_for(live(), 30))
    assert did == ["reload", "stop", "hurry", "stop"]
    assert reported == list(OWN)


def test_a_kept_address_is_for_those_who_share_it() -> None:
    """Others are refused, even while no process listens; a second supervisor is told that the address is taken."""
    port = free_ports(1)[0]
    kept = KeptPorts()
    assert kept.keep({"listen": f"{LOOPBACK}:{port}"}) == {"listen": f"{LOOPBACK}:{port}"}
    with pytest.raises(OSError, match="in use"):
        socket.create_server((LOOPBACK, port))
    with (
        socket.create_server((LOOPBACK, port), reuse_port=True),
        socket.create_server((LOOPBACK, port), reuse_port=True),
        pytest.raises(StartFailure, match=f"listen {LOOPBACK}:{port}: Address already in use"),
    ):
        KeptPorts().keep({"listen": f"{LOOPBACK}:{port}"})
    kept.close()
    socket.create_server((LOOPBACK, port)).close()


def test_port_0_is_one_port_for_all() -> None:
    """Otherwise each process would listen at another."""
    kept = KeptPorts()
    address = kept.keep({"admin_listen": f"{LOOPBACK}:0"})["admin_listen"]
    assert int(address.rpartition(":")[2]) > 0
    kept.close()
