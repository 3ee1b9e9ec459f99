"""Kubernetes' own command line, and what a caller wants of it: values instead of text, an error instead of a code."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

from integration.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path

COMMAND_S_MAX: Final = 300.0


class Kubectl:
    """Of one cluster."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        """`kubeconfig` says which."""
        self.command = [str(program), "--kubeconfig", str(kubeconfig)]

    def __call__(self, *words: str, said: str = "", check: bool = True) -> str:
        """Run it to its end and return what it printed.

        Args:
            words: its command line.
            said: its standard input, for `--filename -`.
            check: whether to raise if it fails; else what it complained of is returned too.

        Raises:
            StartError: it failed; the text is its own.
        """
        done = subprocess.run(
            [*self.command, *words], input=said, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
        )
        if not done.returncode:
            return done.stdout
        if check:
            raise StartError(f"kubectl {' '.join(words)}: {done.stderr}{done.stdout}")
        return done.stdout + done.stderr

    def get(self, *words: str) -> Any:
        """What `kubectl get` gives, as values."""
        return json.loads(self("get", *words, "--output", "json"))

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Make these what they say."""
        for manifest in manifests:
            self("apply", "--filename", "-", said=json.dumps(manifest))

    def condition(self, kind: str, *words: str) -> bool:
        """Whether a condition of an object (`node/one`, or more words of `get`) is true; no object has none."""
        try:
            conditions = json.loads(self("get", *words, "--output", "json", check=False))["status"]["conditions"]
        except (ValueError, KeyError):
            return False
        return any(one["type"] == kind and one["status"] == "True" for one in conditions)
