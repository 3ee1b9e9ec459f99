"""The part `compiled`: a wheel with compiled modules is built, and tests and simulator run on what is in it.

Problem: compiled modules differ from their sources in what types, names and truth tests mean, and no test that runs the
sources sees it. Rule kept: the very files that the wheel has are tested, beside a copy of the checkout, which itself
stays pure Python. Without a compiler this says what is missing, and counts as skipped.

    python -m tests.compiled
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hatch_build import PACKAGES, ROOT, SOURCES, VARIABLE
from proxy.app.compiled import COMPILED
from tests.part_results import Totals, judged

SEEDS: Final = 200
DEPLOYMENTS: Final = 50
FOLDERS: Final = ("tests/core", "tests/wire", "tests/net", "tests/fuzz")
"""Whose subjects are compiled, groups' work on subscriptions included."""
OF_THE_CHECKOUT: Final = {"PYTEST_ADDOPTS": "", "PYTHONPYCACHEPREFIX": ""}
"""What a runner may set for the checkout: pytest would end where it is given options twice, and bytecode would stay."""
TOLD: Final = "from proxy.app import compiled; print(compiled.running(), compiled.__file__)"


class CompiledCopy:
    """A copy of the checkout with compiled modules beside its sources."""

    def __init__(self, folder: Path) -> None:
        """Nothing is there yet."""
        self.folder = folder

    def fill(self) -> None:
        """Copy what git knows, and what it does not ignore."""
        listed = self._run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)

    def build(self) -> str:
        """Build the wheel, and unpack it here; what is wrong, or nothing."""
        wheels = self.folder / "build" / "compiled"
        pip = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), ".")
        done = self._run(sys.executable, "-m", *pip, environment={VARIABLE: "1"})
        if done.returncode:
            return done.stdout
        (wheel,) = wheels.iterdir()
        if wheel.name.endswith("-any.whl"):
            return f"{wheel.name} says that it runs everywhere"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(wheels)
        shutil.copytree(wheels / PACKAGES, self.folder, dirs_exist_ok=True)
        modules = [name for name in SOURCES if not list(self.folder.glob(name.removesuffix(".py") + ".*.so"))]
        told = self._run(sys.executable, "-c", TOLD).stdout.strip()
        if modules or told != f"{COMPILED} {self.folder / 'proxy/app/compiled.py'}":
            return f"{told}; not compiled: {modules}"
        return ""

    def pytest(self) -> Totals:
        """Run the tests of what is compiled."""
        done = self._run(
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--part", "fast", "-m", "not broker", *FOLDERS
        )
        print(done.stdout)
        return judged(done.stdout, done.returncode)

    def simulate(self) -> Totals:
        """Run some seeds of the simulator."""
        sizes = ("--seeds", str(SEEDS), "--deployments", str(DEPLOYMENTS))
        done = self._run(sys.executable, "-m", "tests.sim", *sizes, "--jobs", "1")
        print(done.stdout)
        return Totals(passed=int(done.returncode == 0), failed=int(done.returncode != 0))

    def _run(
        self, *command: str, cwd: Path | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=os.environ | OF_THE_CHECKOUT | {"PYTHONPATH": str(self.folder)} | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def main() -> int:
    """Return the exit code."""
    compiler = [str(ROOT / "integration/setup.sh"), "compiler", sys.executable]
    if (found := subprocess.run(compiler, capture_output=True, text=True, check=False)).returncode:
        print(f"nothing is compiled here: {found.stderr}\n{Totals(skipped=1)}")
        return 0
    with TemporaryDirectory(prefix="keyline-compiled-") as directory:
        copy = CompiledCopy(Path(directory).resolve())
        copy.fill()
        if wrong := copy.build():
            print(f"not built: {wrong}\n{Totals(failed=1)}")
            return 1
        totals = Totals(passed=1) + copy.simulate() + copy.pytest()
    print(totals)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
