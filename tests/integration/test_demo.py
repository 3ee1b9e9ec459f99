"""The demo as a user runs it: it ends by itself with an audit, and Ctrl-C leaves no process behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from integration.demo.__main__ import PORTS
from integration.ports import is_free
from spark_reports.run import report
from tests.integration.conditions import eventually

ROOT = Path(__file__).parents[2]
REPLICAS = {f"replica-{number}" for number in range(3)}
RUN_S_MAX = 900.0
"""A broker's start, which alone takes minutes on a busy machine, the story, and the end; each has its own limit."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


BROKEN_OFF = (130, -signal.SIGINT)
"""A shell tells both as 130. The second is CPython's: an interrupt inside `exec` of a text, as in making a dataclass,
ends the process so, though it was caught."""


class RunningDemo:
    """One demo with its output in a file, in a directory of its own."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self._output = directory / "output"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "integration.demo", *arguments],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """Everything it printed so far."""
        return self._output.read_text()

    def wait_for(self, words: str) -> None:
        """Return when it has printed these words."""
        eventually(lambda: words in self.output or self.process.poll() is not None, words, RUN_S_MAX)
        assert words in self.output, self.output

    def survivors(self) -> list[str]:
        """Processes that belong to this demo, itself included."""
        found = []
        for process in psutil.process_iter():
            try:
                belongs = process.cwd().startswith(str(self.directory)) and process.status() != psutil.STATUS_ZOMBIE
                if belongs:
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return found


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A place for one demo; whatever the test did, nothing survives it, and its ports are free again."""
    taken = {port for port in PORTS.values() if not is_free(port)}
    yield tmp_path
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(str(tmp_path)):
                process.kill()
        except psutil.Error:
            continue
    eventually(lambda: all(is_free(port) for port in PORTS.values() if port not in taken), "its ports to be free")


def test_the_demo_ends_by_itself_with_an_audit(directory: Path) -> None:
    """Exit code 0, a whole round of the story, hand-overs told, and the audit's numbers."""
    demo = RunningDemo(directory, "--seconds", "20")
    assert demo.process.wait(RUN_S_MAX) == 0, demo.output
    for words in ("dora starts", "cleo is killed", "dora leaves", " moves: ", "messages delivered: "):
        assert words in demo.output
    assert "order violations: 0" in demo.output
    assert "messages lost: 0" in demo.output
    eventually(lambda: not demo.survivors(), "the end of its processes")


def test_replicas_share_the_work_of_the_demo(directory: Path, spark: SparkSession) -> None:
    """Workers are at all of them; the owner is restarted and killed, and keys of batches keep their order."""
    demo = RunningDemo(directory, "--seconds", "40", "--replicas", "3")
    assert demo.process.wait(RUN_S_MAX) == 0, demo.output
    for words in ("3 Keyline gateways are ready", "gateways: replica-0 ", "(leads", "dora leaves"):
        assert words in demo.output
    for question in ("messages lost", "order violations", "keys at two workers"):
        assert f"{question}: 0" in demo.output
    assert set(re.findall(r"\(via (replica-\d)\)", demo.output)) == REPLICAS
    assert re.search(r"batches of several keys: \d+ \([1-9][\d,]* of them went to several workers", demo.output)
    eventually(lambda: not demo.survivors(), "the end of its processes")
    (restarted,) = re.findall(r"(replica-\d), the subscription's owner, which serves all workers", demo.output)
    (killed,) = re.findall(r"(replica-\d), the owner now, is killed", demo.output)
    owners = set(re.findall(r"(replica-\d) \d+ of \d+ bundles \((?:leads, )?owns the subscription", demo.output))
    assert owners >= {restarted, killed}
    assert len(owners) > 1
    judge_journals(spark, demo.directory / ".demo" / "journal", killed)


def judge_journals(spark: SparkSession, root: Path, killed: str) -> None:
    """What the replicas' journals say is what the story was. All clocks are this machine's."""
    found = report(spark, str(root), None)
    assert found.violations == 0, found.evidence
    told = [words for words in found.caveats if " was killed; " in words]
    assert [words.partition(":")[0] for words in told] == [f"gateway {killed}"]


def test_ctrl_c_ends_the_story_and_still_judges(directory: Path) -> None:
    """Without a length the demo goes on until Ctrl-C, and then audits what was."""
    demo = RunningDemo(directory)
    demo.wait_for("Sent ")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(RUN_S_MAX) == 0, demo.output
    assert "Every message was delivered" in demo.output
    eventually(lambda: not demo.survivors(), "the end of its processes")


def test_ctrl_c_while_the_broker_starts_leaves_nothing(directory: Path) -> None:
    """The broker takes its time to start; nobody waits for it to be ready only to stop it."""
    demo = RunningDemo(directory)
    demo.wait_for("Starting a real Apache Pulsar")
    eventually(lambda: any("PulsarStandaloneStarter" in line for line in demo.survivors()), "the broker's process")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(RUN_S_MAX) in BROKEN_OFF, demo.output
    eventually(lambda: not demo.survivors(), "the end of its processes")


def test_not_even_a_killed_demo_leaves_anything(directory: Path) -> None:
    """SIGKILL gives it no chance to tidy up; the guards of its processes do."""
    demo = RunningDemo(directory, "--seconds", "60")
    demo.wait_for("Sent ")
    demo.process.kill()
    demo.process.wait()
    eventually(lambda: not demo.survivors(), "the end of its processes")
