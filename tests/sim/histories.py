"""What seeds give in other processes, where Python keeps its sets of text in another order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def histories(program: str, seeds: Iterable[int], hash_seeds: Iterable[str]) -> set[str]:
    """What the program prints of the seeds, once with each order of sets."""
    return {
        subprocess.run(
            [sys.executable, "-c", program, *map(str, seeds)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in hash_seeds
    }
