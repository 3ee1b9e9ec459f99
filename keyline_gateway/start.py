"""Lets a command of Keyline find Keyline's own packages, whatever else is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).resolve().parent
_INSTALLED: Final = _HERE / "packages"
PACKAGES: Final = _INSTALLED if _INSTALLED.is_dir() else _HERE.parent
"""Folder of `proxy`, `admin_api` and `spark_reports`: a wheel's, or a checkout's root."""


def own_packages_first() -> None:
    """Put our packages before all others of their names, for this process.

    Raises:
        SystemExit: a package of such a name is loaded already, and is not ours. Nothing has changed then.
    """
    for name in ("proxy", "admin_api", "spark_reports"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if name in sys.modules and not _is_ours(file):
            sys.exit(
                f"keyline: another package called {name} was loaded at Python's start: {file or 'one without code'}. "
                f"Keyline needs its own of that name. Run it in a virtual environment of its own, or remove the .pth "
                f"file that loads the other."
            )
    if sys.path[:1] != [str(PACKAGES)]:
        sys.path.insert(0, str(PACKAGES))


def _is_ours(file: str | None) -> bool:
    return file is not None and Path(file).resolve().is_relative_to(PACKAGES)
