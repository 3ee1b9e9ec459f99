"""Pulsar from its published Maven artifacts, kept in a cache outside the repository.

Problem: tests and the demo need real brokers of several versions on machines that reach a package registry and
nothing else: no container images, no distribution archives. Rule kept: a directory of jars in the cache is whole or
absent. It is filled under another name and renamed when Maven has succeeded, and one process fetches at a time.

Why Maven and not a downloader here: the 330 jars follow from the versions that Pulsar's own POM pins, and Maven is
the only program that reads those rules right. `python -m integration.artifacts` fetches everything (`make test`
does so first, in order that a test's time limit never pays for a download).
"""

from __future__ import annotations

import os
import sys
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from integration.errors import DownloadError, IntegrationError
from integration.maven import copy_dependencies
from integration.once import made_once

if TYPE_CHECKING:
    from collections.abc import Sequence

PULSAR_VERSIONS = ("4.2.4", "4.0.7")
"""Versions whose parts are all published: the current line, and the last one with long support."""

DEFAULT_VERSION = PULSAR_VERSIONS[0]
PULSAR = "org.apache.pulsar"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A set of artifacts that live in one directory of jars."""

    name: str
    version: str
    artifacts: tuple[str, ...]
    pins: dict[str, str] = field(default_factory=dict)
    """Artifacts that were not published in `version`, with the version to take instead."""
    jar_count: int = 380
    """About how many jars a first download brings, Maven's own included, for the progress shown."""

    @property
    def libraries(self) -> Path:
        """Where its jars are, once fetched."""
        return cache_root() / f"{self.name}-{self.version}"

    def classes(self, java: Path) -> Path:
        """Where a Java's archive of its classes is, once made (`integration.class_archive`)."""
        program = java.resolve()
        made_by = zlib.crc32(f"{program} {program.stat().st_mtime_ns}".encode())
        return cache_root() / f"{self.name}-{self.version}-{made_by:08x}.jsa"

    def pom(self) -> str:
        """Return a project that depends on these artifacts in the versions Pulsar's own POM manages."""
        managed = [dependency(PULSAR, artifact, version) for artifact, version in self.pins.items()]
        # The first entry for an artifact wins, so the pins go before the import.
        managed.append(dependency(PULSAR, "pulsar", self.version, "<type>pom</type><scope>import</scope>"))
        wanted = [dependency(PULSAR, artifact, self.version) for artifact in self.artifacts]
        return project("pulsar", wanted, managed)


# 4.2.4 and 4.0.7 of the tools were never published; 4.0.8 is the newest that was, lacking two parts that exist
# in 4.0.7. Clients of 4.0 speak to both brokers: the protocol is compatible in both directions.
TOOLS = Bundle(
    "pulsar-tools",
    "4.0.8",
    ("pulsar-testclient", "pulsar-client-tools", "pulsar-proxy"),
    {"pulsar-opentelemetry": "4.0.7", "jetcd-core-shaded": "4.0.7"},
)


def broker(version: str) -> Bundle:
    """Return the broker's bundle. A version that was not tried is allowed; Maven tells whether it exists."""
    return Bundle("pulsar", version, ("pulsar-broker",))


def cache_root() -> Path:
    """Return the cache: KEYLINE_CACHE, else `keyline` in XDG_CACHE_HOME, else in `~/.cache`."""
    if own := os.environ.get("KEYLINE_CACHE"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "keyline"


def ensure(bundle: Bundle) -> Path:
    """Return the bundle's directory of jars, fetching it first when the cache lacks it.

    A second process that wants to fetch at the same time waits for the first. After an error or an interruption
    the cache holds no directory of that name; what Maven had already fetched is used by the next attempt.

    Raises:
        ToolMissingError: Java or Maven are not installed.
        DownloadError: Maven failed twice or stalled.
    """
    # One lock for all of them: they share Maven's repository.
    waiting = "another process is fetching artifacts; waiting for it"
    return made_once(bundle.libraries, cache_root() / "download.lock", waiting, partial(_fetch, bundle))


def _fetch(bundle: Bundle, work: Path) -> Path:
    name = bundle.libraries.name
    log = cache_root() / f"{name}.log"
    (work / "pom.xml").write_text(bundle.pom())
    copy_dependencies(
        work, cache_root() / "maven-repository", log, label=f"{bundle.name} {bundle.version}", jars=bundle.jar_count
    )
    jars = work / "jars"
    if not jars.is_dir() or not any(jars.iterdir()):
        msg = f"Maven succeeded but copied no jars for {name}; see {log}"
        raise DownloadError(msg)
    return jars


def project(name: str, wanted: list[str], managed: Sequence[str] = ()) -> str:
    """Return the POM of a project that is nothing but its dependencies."""
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>keyline</groupId><artifactId>{escape(name)}</artifactId><version>1</version>"
        "<packaging>pom</packaging>"
        f"<dependencyManagement><dependencies>{''.join(managed)}</dependencies></dependencyManagement>"
        f"<dependencies>{''.join(wanted)}</dependencies></project>\n"
    )


def dependency(group: str, artifact: str, version: str, more: str = "") -> str:
    """Return one entry of a POM; `more` are further elements of it."""
    return (
        f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(artifact)}</artifactId>"
        f"<version>{escape(version)}</version>{more}</dependency>"
    )


def main() -> int:
    """Fetch what the command line names (`4.2.4`, `tools`), by default everything the tests use."""
    names = sys.argv[1:] or [*PULSAR_VERSIONS, "tools"]
    try:
        for name in names:
            ensure(TOOLS if name == "tools" else broker(name))
    except IntegrationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next attempt goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
