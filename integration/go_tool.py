"""Programs that are built from their Go modules into the cache, once.

Why built: machines that run the tests reach package registries and nothing else, and such programs are published
elsewhere, or not at all.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from integration import artifacts
from integration.building import run_build
from integration.errors import ToolMissingError
from integration.once import made_once

VERSION_MIN: Final = (1, 21)
"""It fetches a newer toolchain by itself where a module wants one."""
INSTALL_S_MAX: Final = 900.0


def ensure_go_program(name: str, module: str, what: str) -> Path:
    """Return a program, built on first use.

    Args:
        name: what `go install` calls it.
        module: with its version, ``example.org/module/cmd/name@latest``.
        what: it is called so in messages.

    Raises:
        ToolMissingError: Go is missing or too old; the text is fit for a skip's reason.
        DownloadError: its modules could not be fetched or built; nothing half is kept.
    """

    def install(directory: Path) -> Path:
        command = [require_go(what), "install", module]
        run_build(command, f"building {module}", INSTALL_S_MAX, {"GOBIN": str(directory)})
        return directory / name

    root = artifacts.cache_root()
    return made_once(
        root / "go" / name, root / f"go-{name}.lock", f"another process is building {what}; waiting", install
    )


def module_files(module: str, what: str) -> Path:
    """Return the directory of a module's files, `example.org/module@v1.2.3`, fetched on first use.

    Raises:
        ToolMissingError: Go is missing or too old; the text is fit for a skip's reason.
        DownloadError: it could not be fetched.
    """
    # Outside any module, whose own rules would have a say.
    command = [require_go(what), "-C", tempfile.gettempdir(), "mod", "download", "-json", module]
    return Path(json.loads(run_build(command, f"fetching {module}", INSTALL_S_MAX))["Dir"])


def require_go(what: str) -> str:
    """Return the `go` program; `what` needs it.

    Raises:
        ToolMissingError: it is missing or too old; the text is fit for a skip's reason.
    """
    go = shutil.which("go")
    least = ".".join(map(str, VERSION_MIN))
    if go is None:
        msg = f"{what} needs Go {least} or newer to be built, and there is no `go` (Debian 12's own is 1.19)"
        raise ToolMissingError(msg)
    answer = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"go(\d+)\.(\d+)", answer)
    if version is None or (int(version[1]), int(version[2])) < VERSION_MIN:
        msg = f"{what} needs Go {least} or newer to be built; this is {answer.strip()!r}"
        raise ToolMissingError(msg)
    return go
