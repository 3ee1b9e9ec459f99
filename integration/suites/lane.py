"""One way of the tests, direct or through the gateway: a broker and the tests, in their own network namespace.

Problem: the tests have localhost's ports 6650 and 8080 written into them. Another program may use these ports, and the
two ways cannot share them. Rule kept: this program is started in a namespace that has nothing but loopback, so the
ports are free, both ways run beside each other, and no test reaches the world outside. Why not a copy of the tests with
other addresses: then they would not be the clients' own any more.

`lanes` starts it, and describes what it reads and writes.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import json
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, TextIO

from integration.processes import OwnedProcess
from integration.suites.broker import SuiteBroker
from integration.suites.outcomes import Outcome, Result, Test, Way

WORK: Final = "tests.jsonl"
OUTCOMES: Final = "outcomes.jsonl"
SIOCGIFFLAGS: Final = 0x8913
SIOCSIFFLAGS: Final = 0x8914
IFF_UP: Final = 0x1
_REQUEST: Final = struct.Struct("16sH14x")
"""`struct ifreq` with flags."""


def main() -> int:
    """Run the tests that `tests.jsonl` names, and write an outcome for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", type=Way)
    parser.add_argument("version")
    parser.add_argument("credentials", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("test_s", type=float)
    options = parser.parse_args()
    directory: Path = options.directory
    raise_loopback()
    tests = [Test.from_json(json.loads(line)) for line in (directory / WORK).read_text().splitlines()]
    with (
        SuiteBroker(options.version, options.way, options.credentials, directory),
        (directory / OUTCOMES).open("w") as file,
    ):
        for test in tests:
            write(file, run_test(test, directory, options.test_s))
    return 0


def raise_loopback() -> None:
    """Let a new namespace reach itself."""
    with socket.socket() as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, _REQUEST.pack(b"lo", 0))
        name, flags = _REQUEST.unpack(answer)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, _REQUEST.pack(name, flags | IFF_UP))


def write(file: TextIO, outcome: Outcome) -> None:
    """Write one line, at once: `lanes` reads along."""
    file.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
    file.flush()


def run_test(test: Test, directory: Path, seconds_max: float) -> Outcome:
    """Run one in a process of its own, and end all that it started."""
    began = time.monotonic()
    log = log_of(directory, test.name)
    process = OwnedProcess(test.command, log, cwd=Path(test.directory))
    try:
        code: int | None = process.process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        process.kill()
    return Outcome(test.name, result_of(code, log.read_text(errors="replace")), round(time.monotonic() - began, 1))


def log_of(directory: Path, name: str) -> Path:
    """Where a test's output goes."""
    return directory / (re.sub(r"[^A-Za-z0-9_.-]+", "-", name) + ".log")


def result_of(code: int | None, output: str) -> Result:
    """What its process's exit code, none if it took too long, and its output say."""
    if code is None:
        return Result.LATE
    if code:
        return Result.FAILED
    # Go says so on a line of its own, Rust in its totals; both exit as after a success.
    if re.search(r"^--- SKIP: |^test \S+ \.\.\. ignored", output, re.MULTILINE):
        return Result.SKIPPED
    return Result.PASSED


if __name__ == "__main__":
    sys.exit(main())
