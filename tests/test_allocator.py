"""What large messages free is kept for the next ones."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from proxy.app.allocator import KEPT_BYTES, OPERATORS

PROGRAM = """
import resource, sys
from proxy.app.allocator import keep_freed_memory
told = sys.argv[1] == "told" and keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def once():
    return [bytes(200_000) for _ in range(20)]
once()
before = faults()
for _ in range(50):
    once()
print(told, faults() - before)
"""
PAGES = 20 * 200_000 // 4096


def faults_of(how: str, **environment: str) -> tuple[bool, int]:
    """Whether the allocator was told, and page faults while 4 MB are allocated and freed 50 times."""
    own = {name: value for name, value in os.environ.items() if name not in OPERATORS}
    words = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], env=own | environment, capture_output=True, text=True, check=True
    ).stdout.split()
    return words[0] == "True", int(words[1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than glibc's")
def test_what_large_messages_free_is_kept() -> None:
    """Else every page of each of them is a fault."""
    assert KEPT_BYTES > 20 * 200_000
    _, without = faults_of("not")
    told, kept = faults_of("told")
    assert told
    assert without > 25 * PAGES
    assert kept < 2 * PAGES


def test_an_operators_word_counts() -> None:
    """Who tunes the allocator by its own variables is not overruled."""
    told, _ = faults_of("told", MALLOC_TRIM_THRESHOLD_="131072")
    assert not told
