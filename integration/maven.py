"""Runs Maven for one purpose: copy a project's runtime jars into a directory, showing how far it is.

Maven gets a repository and settings of its own inside the cache. The settings block every repository but `central`:
third-party POMs name repositories that are long gone, and asking them stalls a download for minutes each. They are
passed as global settings, so that a person's own settings (a mirror, a proxy server) still apply and win.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from integration.errors import DownloadError, ToolMissingError
from integration.java import INSTALL_HINT, java
from integration.logs import tail

if TYPE_CHECKING:
    from pathlib import Path

DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
ATTEMPTS_MAX = 2
"""Registries drop a connection now and then; what arrived is kept, so a second attempt is short."""
STALL_S_MAX = 240.0
"""Longest silence of Maven before it is ended. One large jar over a slow line prints nothing until it is there."""
TERMINAL_INTERVAL_S = 0.5
LINE_INTERVAL_S = 10.0

_SETTINGS = """<settings>
  <mirrors>
    <mirror><id>only-central</id><mirrorOf>*,!central</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
  </mirrors>
</settings>
"""
_DOWNLOADED_JAR = re.compile(r"Downloaded from \S+ \S+\.jar \(([\d.]+) (B|kB|MB|GB)")
_DOWNLOADED_POM = re.compile(r"Downloaded from \S+ \S+\.pom ")
_UNIT_MB = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def copy_dependencies(project: Path, repository: Path, log: Path, *, label: str, jars: int) -> None:
    """Copy the runtime jars of `project/pom.xml` into `project/jars`.

    Args:
        project: directory that holds the POM; the settings file is written beside it.
        repository: Maven's local repository, kept between calls.
        log: where Maven's output goes.
        label: what is being fetched, for the progress shown.
        jars: about how many there will be.

    Raises:
        ToolMissingError: Java or Maven are not installed.
        DownloadError: every attempt failed or stalled; the text has the end of Maven's output.
    """
    java()
    maven = shutil.which("mvn")
    if not maven:
        msg = f"Maven is needed to fetch {label} and was not found: {INSTALL_HINT}"
        raise ToolMissingError(msg)
    settings = project / "settings.xml"
    settings.write_text(_SETTINGS)
    command = [
        *(maven, "--batch-mode", "--global-settings", str(settings), "--file", str(project / "pom.xml")),
        f"-Dmaven.repo.local={repository}",
        # Downloads in parallel, retried, and given up after a minute of silence instead of the default half hour.
        *("-Dmaven.artifact.threads=10", "-Dmaven.wagon.rto=60000", "-Dmaven.wagon.http.retryHandler.count=3"),
        *("-Daether.connector.requestTimeout=60000", "-Daether.connector.basic.threads=10"),
        f"{DEPENDENCY_PLUGIN}:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={project / 'jars'}",
    ]
    for _ in range(ATTEMPTS_MAX):
        if _run(command, log, _Progress(label, jars)) == 0:
            return
    errors = [line for line in tail(log, 200).splitlines() if line.startswith("[ERROR]")]
    msg = f"Maven could not fetch {label}, log {log}:\n" + ("\n".join(errors[:8]) or tail(log, 15))
    raise DownloadError(msg)


def _run(command: list[str], log: Path, progress: _Progress) -> int:
    """Run Maven once, reporting on its log as it grows; return its exit code, or -1 when it stalled."""
    with (
        log.open("w") as output,
        log.open() as written,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            heard_at = time.monotonic()
            while True:
                try:
                    code = process.wait(TERMINAL_INTERVAL_S)
                except subprocess.TimeoutExpired:
                    code = None
                if new := written.read():
                    heard_at = time.monotonic()
                progress.read(new, last=code is not None)
                if code is not None:
                    return code
                if time.monotonic() - heard_at > STALL_S_MAX:
                    return -1
        finally:
            process.kill()


class _Progress:
    """Counts jars in Maven's output and shows one live line on a terminal, a line now and then elsewhere."""

    def __init__(self, label: str, jars: int) -> None:
        self._label = label
        self._jars_expected = jars
        self._pom_count = 0
        self._jar_count = 0
        self._mb = 0.0
        self._started_at = time.monotonic()
        self._shown_at = 0.0
        self._live = sys.stderr.isatty()

    def read(self, text: str, *, last: bool) -> None:
        """Take new output of Maven and show the count if it is time to, or if this is the last of it."""
        self._pom_count += len(_DOWNLOADED_POM.findall(text))
        for amount, unit in _DOWNLOADED_JAR.findall(text):
            self._jar_count += 1
            self._mb += float(amount) * _UNIT_MB[unit]
        now = time.monotonic()
        if last or now - self._shown_at >= (TERMINAL_INTERVAL_S if self._live else LINE_INTERVAL_S):
            self._shown_at = now
            elapsed_s = int(now - self._started_at)
            # Versions are resolved first, from one small file after another. What an earlier bundle brought is not
            # downloaded again, so the number of jars is an upper bound.
            files = f"{self._pom_count} POMs, {self._jar_count} of at most {self._jars_expected} jars"
            end = "\n" if last or not self._live else "\r"
            print(f"{self._label}: {elapsed_s} s, {files}, {self._mb:.0f} MB", end=end, file=sys.stderr, flush=True)
