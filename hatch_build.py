"""What a build of the wheel adds to pyproject.toml: compiled modules, and the project's addresses.

`KEYLINE_PROJECT_URL` is where this source is published, for the wheel's metadata; none is in it by default, because a
build knows that place and a checkout does not.

Compiles with mypyc the modules that every message passes: where it is asked for, and never by default.

Pure Python is the reference: `pip install .` and `make setup` install the sources, need no compiler, and everything
works. Compiled, the gateway takes about half of the CPU for a message (docs/performance.md). The sources stay beside
the compiled modules, which Python prefers; without those files the sources run again.

    make compile                       into this checkout; `make compile-clean` undoes it
    KEYLINE_COMPILE=1 pip wheel .      a wheel of this platform, with both; this file is its build hook

All modules are one shared library, so that calls between them are C calls; beside each source stands a small file that
loads its part of it.
"""

from __future__ import annotations

import os
import shutil
import sys
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # this file is run as a program, by a Python that does not build wheels
    BuildHookInterface = object  # type: ignore[assignment, misc]
    MetadataHookInterface = object  # type: ignore[assignment, misc]

ROOT: Final = Path(__file__).resolve().parent
VARIABLE: Final = "KEYLINE_COMPILE"
URL_VARIABLE: Final = "KEYLINE_PROJECT_URL"
PACKAGES: Final = "keyline_gateway/packages"
"""Where a wheel has our packages, as pyproject.toml maps them: see keyline_gateway/start.py."""
EXTRA: Final = "compile"
"""The optional dependencies that have mypyc, in pyproject.toml."""
LIBRARY: Final = "proxy.compiled_modules"

MODULES: Final = {
    "proxy/core": (
        "acknowledgement chunked contract_monitor contract_violations cutting delivery_key delivery_log dispatcher "
        "dispatcher_tables diversions draining_hashes entry foreign_ids hash_ranges histogram hot_keys index_bits "
        "join_gates kept_back key_policy membership outstanding pace parking position_ranges positions reposition "
        "serving slice_id slots spill spilling sticky_key stream_leases streams_here targets transactional_acks "
        "transactions unblocking upstream_window waiting worker"
    ),
    "proxy/core/selectors": "auto_split consistent_hashing owner_table sticky_ranges",
    "proxy/wire": "batch batch_reader by_hand client_commands commands frames messages metadata opened_batch varints",
    "proxy/net": "frames_in_slices heartbeat keep_alive slices",
    "proxy/net/broker": "connection requests routes",
    "proxy/net/session": "replica_router router session worker workers",
    "proxy/net/subscription": (
        "acks batch_contents batch_slots counters cursor intake openings outbox receive_queue receiving state "
        "subscription upstream_consumers workers"
    ),
    "proxy/net/websocket": (
        "dead_letter_publishing deadlines deliveries dialect_v1 dialect_v2 in_flight json_words message "
        "message_position opening permits pipe receipts requests settling words worker"
    ),
}
"""What is compiled, by folder: all that handles messages, and subclasses of it, which must be compiled with it.

The rest does not: answers to people, configuration, errors, ports (which are protocols), and asyncio's callbacks.
"""

SOURCES: Final = tuple(f"{folder}/{name}.py" for folder, names in MODULES.items() for name in names.split())


def build(folder: Path) -> None:
    """Compile everything into a folder, at the sources' places in it. Takes a minute, and a C compiler."""
    from mypyc.build import mypycify  # noqa: PLC0415 - needed, and there, only where something is compiled
    from setuptools import Distribution  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    with TemporaryDirectory() as made:
        # Types of third parties are not looked for, or a build would depend on what else is installed.
        options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", "--explicit-package-bases"]
        extensions = mypycify(
            [*options, f"--cache-dir={made}/types", *SOURCES],
            opt_level="3",
            debug_level="0",
            group_name=LIBRARY,
            target_dir=made,
        )
        command = build_ext(Distribution({"name": "keyline", "packages": [], "ext_modules": extensions}))
        command.build_temp, command.build_lib = f"{made}/objects", str(folder)
        command.ensure_finalized()
        command.run()


def built(folder: Path = ROOT) -> list[Path]:
    """Compiled modules in the package within a folder."""
    return sorted(chain.from_iterable((folder / "proxy").rglob(pattern) for pattern in ("*.so", "*.pyd")))


def clean() -> None:
    """Remove the compiled modules of this checkout: its sources run again."""
    for path in built():
        path.unlink()


def stale() -> list[str]:
    """Sources that were changed after they were compiled in this checkout: what runs is the older."""
    compiled_at = {path.with_name(path.name.partition(".")[0] + ".py"): path.stat().st_mtime for path in built()}
    return [name for name in SOURCES if (ROOT / name).stat().st_mtime > compiled_at.get(ROOT / name, float("inf"))]


class CompiledModules(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own configuration is not looked at
    """Puts the compiled modules into the wheel, which is then of this platform, if `KEYLINE_COMPILE` is 1."""

    def dependencies(self) -> list[str]:
        """What the build needs besides."""
        return self.metadata.core.optional_dependencies[EXTRA] if _wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is written. An editable installation is of sources."""
        if not _wanted() or version == "editable":
            return
        self._made = TemporaryDirectory()
        build(Path(self._made.name))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"] |= {
            str(path): f"{PACKAGES}/{path.relative_to(self._made.name)}" for path in built(Path(self._made.name))
        }

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's form
        """After it was written."""
        if made := getattr(self, "_made", None):
            made.cleanup()


class ProjectUrls(MetadataHookInterface):
    """Writes where the project is published into the wheel's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Before the metadata is checked."""
        metadata["urls"] = project_urls(os.environ.get(URL_VARIABLE, ""))


def project_urls(address: str) -> dict[str, str]:
    """Name the pages of a repository at a code host; none without an address.

    Raises:
        ValueError: it is no https address.
    """
    if not address:
        return {}
    if not address.startswith("https://"):
        raise ValueError(f"{URL_VARIABLE} = {address!r} must be the repository's address: https://HOST/OWNER/NAME")
    base = address.rstrip("/")
    return {
        "Homepage": base,
        "Source": base,
        "Issues": f"{base}/issues",
        "Changelog": f"{base}/blob/main/CHANGELOG.md",
        "Documentation": f"{base}/tree/main/docs",
    }


def _wanted() -> bool:
    return os.environ.get(VARIABLE) == "1"


def main() -> int:
    """Compile into this checkout, or with `clean` undo it."""
    clean()
    if sys.argv[1:] == ["clean"]:
        return 0
    if shutil.which(os.environ.get("CC", "cc")) is None:
        print("compiling needs a C compiler and Python's headers: `make compile` installs them", file=sys.stderr)
        return 1
    os.chdir(ROOT)
    build(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
