"""The clients' own tests, fetched from their package registries and compiled once into the cache.

None of it is in the repository. A registry serves the tests of Go's module and Rust's crate with the sources. Python's
`pulsar-client` is published as wheels without tests and without a source package, and the tests of Java's client start
brokers of their own within their process, so neither can be run here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration import artifacts
from integration.building import run_build
from integration.compatibility.clients import protoc
from integration.errors import DownloadError, ToolMissingError
from integration.go_tool import module_files, require_go
from integration.once import made_once
from integration.suites.outcomes import Test

GO_MODULE: Final = "github.com/apache/pulsar-client-go@v0.21.0"
CRATE: Final = "pulsar"
CRATE_VERSION: Final = "6.9.1"
BUILD_S_MAX: Final = 3_600.0
"""Both are large: 3 and 4 minutes of CPU time, and several times that on a machine that does other things."""
_NOTHING_BESIDE: Final = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
"""What a debugger or the next compilation would need is most of the work and of the disk."""
LIST_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Suite:
    """One client's tests."""

    name: str
    title: str
    tests: Callable[[], list[Test]]
    """Fetches and compiles them where need be.

    Raises ToolMissingError or DownloadError where that is not possible; the text says why.
    """


def go_files() -> Path:
    """The Go client's module: tests, certificates, tokens and the passwords of its test broker.

    Raises:
        ToolMissingError: Go is missing or too old.
        DownloadError: it could not be fetched.
    """
    return module_files(GO_MODULE, "the Go client's tests")


def go_tests() -> list[Test]:
    """All tests of its package `pulsar`: clients."""
    return _go_package("go", "pulsar")


def go_admin_tests() -> list[Test]:
    """All tests of its package for the admin API."""
    return _go_package("go-admin", "pulsaradmin/pkg/admin")


def _go_package(suite: str, package: str) -> list[Test]:
    go, source = require_go("the Go client's tests"), go_files()

    def compile_tests(directory: Path) -> Path:
        program = directory / "pulsar.test"
        command = [go, "test", "-C", str(source), "-c", "-o", str(program), f"./{package}"]
        run_build(command, "compiling the Go client's tests", BUILD_S_MAX)
        return program

    program = _made(f"{suite}-{GO_MODULE.rpartition('@')[2]}.test", compile_tests)
    # Go knows tests by their function's names; examples and benchmarks are none.
    names = (line for line in _listed(program, "-test.list", "^Test") if line.startswith("Test"))
    return [
        Test(f"{suite} {name}", (str(program), "-test.v", "-test.run", f"^{name}$"), str(source / package))
        for name in names
    ]


def rust_tests() -> list[Test]:
    """All tests of the crate that are compiled with its default features."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise ToolMissingError("the Rust client's tests need a recent Cargo to be built, and there is no `cargo`")
    home = _made(f"rust-{CRATE_VERSION}", lambda directory: _compile_crate(cargo, directory))
    program = home / "pulsar.test"
    names = (line.removesuffix(": test") for line in _listed(program, "--list", "--format", "terse"))
    return [Test(f"rust {name}", (str(program), "--exact", name), str(home)) for name in names]


SUITES: Final = (
    Suite("go", "Go", go_tests),
    Suite("go-admin", "Go's admin package", go_admin_tests),
    Suite("rust", "Rust", rust_tests),
)


def _compile_crate(cargo: str, directory: Path) -> Path:
    source = directory / "source"
    shutil.copytree(_crate_files(cargo, directory), source)
    # Warnings of their code are none of our business, and a toolchain that it names need not be here.
    (source / "rust-toolchain.toml").unlink(missing_ok=True)
    command = [cargo, "test", "--no-run", "--lib", "--locked", "--message-format", "json"]
    target = directory / "target"
    arguments = ["--manifest-path", str(source / "Cargo.toml"), "--target-dir", str(target)]
    environment = {**_NOTHING_BESIDE, "PROTOC": str(protoc())}
    said = run_build([*command, *arguments], "compiling the Rust client's tests", BUILD_S_MAX, environment)
    shutil.copy2(executable_of(said.splitlines()), directory / "pulsar.test")
    shutil.rmtree(target)  # a gigabyte
    return directory


def _crate_files(cargo: str, directory: Path) -> Path:
    """Where Cargo has a crate's files, fetched for a project that does nothing but want it."""
    project = directory / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "lib.rs").touch()
    manifest = project / "Cargo.toml"
    manifest.write_text(
        '[package]\nname = "wants"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{CRATE} = "={CRATE_VERSION}"\n'
    )
    command = [cargo, "metadata", "--format-version", "1", "--manifest-path", str(manifest)]
    packages = json.loads(run_build(command, "fetching the Rust client", BUILD_S_MAX))["packages"]
    return next(Path(package["manifest_path"]).parent for package in packages if package["name"] == CRATE)


def executable_of(lines: Iterable[str]) -> Path:
    """The crate's compiled tests, in the messages that Cargo printed.

    Raises:
        DownloadError: they name no such program.
    """
    for line in lines:
        message = json.loads(line)
        if message.get("executable") and message.get("target", {}).get("name") == CRATE:
            return Path(message["executable"])
    raise DownloadError("Cargo compiled the Rust client's tests and names no program of theirs")


def _listed(program: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=LIST_S_MAX, check=False, cwd=program.parent
    )
    if done.returncode:
        raise DownloadError(f"{program} does not list its tests:\n{done.stderr}")
    return done.stdout.splitlines()


def _made(name: str, make: Callable[[Path], Path]) -> Path:
    root = artifacts.cache_root() / "suites"
    return made_once(
        root / name, root / f"{name}.lock", f"another process is compiling the tests of {name}; waiting", make
    )
