"""The probe programs, one for each language, and how each is made ready.

What is built goes into the cache. A client that cannot be had here says why, and the run goes on without it.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration import artifacts
from integration.building import run_build
from integration.errors import ToolMissingError
from integration.go_tool import require_go
from integration.java import java
from integration.locks import exclusive_lock
from integration.standalone_files import LOG4J

HERE: Final = Path(__file__).parent
BUILD_S_MAX: Final = 900.0
HEAP_MIB: Final = 256
JAVA_LOG4J: Final = LOG4J.replace("rootLogger.level = info", "rootLogger.level = error")


@dataclass(frozen=True, slots=True)
class Client:
    """One column of the table."""

    name: str
    title: str
    prepare: Callable[[], list[str]]
    """Builds the program where need be, and returns its command line.

    Raises ToolMissingError or DownloadError where that is not possible; the text says why.
    """


def python_program() -> list[str]:
    """It runs where we run."""
    return [sys.executable, "-m", "integration.compatibility.python_probe"]


def java_program() -> list[str]:
    """Compiled against the tools' client, once for each change of its source."""
    libraries = artifacts.ensure(artifacts.TOOLS)
    sources = sorted((HERE / "java").glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = _cache() / f"java-{artifacts.TOOLS.version}-{digest}"
    with _building("java"):
        if not classes.is_dir():
            with tempfile.TemporaryDirectory(prefix=".java-", dir=_cache()) as work:
                _compile_java(sources, libraries, Path(work, "classes")).rename(classes)
    options = [f"-Xmx{HEAP_MIB}m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={classes}/log4j2.properties"]
    return [str(java()), *options, "-cp", f"{classes}:{libraries}/*", "Probe"]


def go_program() -> list[str]:
    """Go knows by itself what is to be built anew."""
    go = require_go("Go's probe")
    program = _cache() / "go-probe"
    with _building("go"):
        run_build([go, "build", "-C", str(HERE / "go"), "-o", str(program), "."], "building Go's probe", BUILD_S_MAX)
    return [str(program)]


def rust_program() -> list[str]:
    """Cargo knows by itself what is to be built anew; it takes minutes the first time."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise ToolMissingError("Rust's probe needs a recent Cargo to be built, and there is no `cargo`")
    source, target = _cache() / "rust-source", _cache() / "rust"
    with _building("rust"):
        # Built from a copy, for Cargo writes beside its sources.
        shutil.copytree(HERE / "rust", source, dirs_exist_ok=True)
        command = [
            cargo,
            "build",
            "--release",
            "--manifest-path",
            str(source / "Cargo.toml"),
            "--target-dir",
            str(target),
        ]
        run_build(command, "building Rust's probe", BUILD_S_MAX, {"PROTOC": str(protoc())})
    return [str(target / "release" / "keyline-compatibility")]


def node_program() -> list[str]:
    """There is none: a program that cannot be run here would prove nothing."""
    raise ToolMissingError(LEFT_OUT["Node.js"])


LEFT_OUT: Final = {
    "Node.js": "npm's `pulsar-client` (1.18.0) fetches its compiled part from outside the npm registry while it is "
    "installed, and building it needs the C++ client's headers, which no package registry has; so it was not tried. "
    "It is a layer above the same C++ client as Python's."
}
"""Clients without a program, by title, and why."""
CLIENTS: Final = (
    Client("python", "Python", python_program),
    Client("java", "Java", java_program),
    Client("go", "Go", go_program),
    Client("rust", "Rust", rust_program),
    Client("node", "Node.js", node_program),
)


def _compile_java(sources: list[Path], libraries: Path, classes: Path) -> Path:
    classes.mkdir()
    (classes / "log4j2.properties").write_text(JAVA_LOG4J)
    # The runtime's own compiler: a `javac` on the path may be another version's.
    compiler = [str(java()), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-Xlint:all,-path,-processing", "-Werror"]
    jars = ":".join(map(str, sorted(libraries.glob("*.jar"))))
    command = [*compiler, "-cp", jars, "-d", str(classes), *map(str, sources)]
    run_build(command, "building Java's probe", BUILD_S_MAX)
    return classes


def protoc() -> Path:
    """The protocol compiler that comes with the development packages, as a program of its own."""
    program = _cache() / "protoc"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "$@"\n')
    program.chmod(0o755)
    return program


def _building(name: str) -> AbstractContextManager[None]:
    return exclusive_lock(_cache() / f"{name}.lock", f"another process is building the {name} probe; waiting")


def _cache() -> Path:
    directory = artifacts.cache_root() / "compatibility"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
