"""Helm for the tests of the chart: found on PATH, else built from its Go module: some three minutes, once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from integration.errors import IntegrationError
from integration.go_tool import ensure_go_program

MODULE: Final = "helm.sh/helm/v3/cmd/helm@latest"
RUN_S_MAX: Final = 240.0


def ensure_helm() -> Path:
    """Return Helm, from PATH or built; raises as `ensure_go_program`."""
    found = shutil.which("helm")
    return Path(found) if found else ensure_go_program("helm", MODULE, "Helm, for the chart's tests,")


def run_helm(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run Helm, which reaches no cluster, to its end and return what it said.

    Args:
        arguments: its command line, `"template", "name", "helm/keyline"` for instance.
        home: directory for what it writes; a person's own repositories and plugins are not looked at.
    """
    own = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, **own, "KUBECONFIG": str(home / "none")}
    return subprocess.run(
        [str(ensure_helm()), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=RUN_S_MAX,
        check=False,
    )


def main() -> int:
    """Print where Helm is, building it first if need be."""
    try:
        print(ensure_helm())
    except IntegrationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
