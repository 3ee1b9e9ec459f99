"""What a node leaves on its machine outside its own directory, and how it goes: kernel settings, files, processes.

A kubelet takes the machine for its own: it sets what the kernel does when memory is short or it panics, and keeps some
files at fixed places whatever it is told.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from integration.errors import ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS: Final = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
"""Below /proc/sys; a kubelet's `--protect-kernel-defaults` names them."""
PLACES: Final = tuple(map(Path, ("/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", "/var/log/pods")))
OURS: Final = PLACES[0] / "keyline-cluster"
"""Says that it was we who made the directory."""
GROUPS: Final = Path("/sys/fs/cgroup")
KILL_S_MAX: Final = 10.0
INTERVAL_S: Final = 0.1


@contextmanager
def nothing_left() -> Iterator[None]:
    """As long as the block lasts a kubelet may run here; afterwards the machine is as it was.

    Raises:
        ToolMissingError: the machine is somebody's node already, whose files a second kubelet would take.
    """
    if PLACES[0].exists() and not OURS.exists():
        raise ToolMissingError(f"this machine seems to be a node of a cluster already: there is {PLACES[0]}")
    _end_pods()  # of a run that was killed
    OURS.parent.mkdir(exist_ok=True)
    OURS.touch()
    files = [Path("/proc/sys") / name for name in SETTINGS]
    before = {file: file.read_text() for file in files if file.exists()}
    made = [PLACES[0], *(place for place in PLACES if not place.exists())]
    try:
        yield
    finally:
        _end_pods()
        for file, value in before.items():
            with suppress(OSError):
                file.write_text(value)
        for place in made:
            shutil.rmtree(place, ignore_errors=True)


def _end_pods() -> None:
    """Kill whatever runs in a pod's control group, and remove the groups."""
    deadline = time.monotonic() + KILL_S_MAX
    while (left := _processes()) and time.monotonic() < deadline:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(INTERVAL_S)
    for top in _tops():
        for directory, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(directory).rmdir()


def _processes() -> set[int]:
    found: set[int] = set()
    for top in _tops():
        for directory, _, _ in os.walk(top):
            with suppress(OSError):
                found.update(map(int, (Path(directory) / "cgroup.procs").read_text().split()))
    return found


def _tops() -> list[Path]:
    """In one tree, or in a tree for each controller."""
    return [top for top in (GROUPS / "kubepods", *GROUPS.glob("*/kubepods")) if top.is_dir()]
