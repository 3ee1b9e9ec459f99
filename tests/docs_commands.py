"""Commands that the documentation shows, as a shell would see them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:keyline|make) [^`]+)`")
SHELLS = ("", "console", "sh")
PROMPT = "$ "
COMMENT = re.compile(r"(?:^|\s+)# .*$")


@dataclass(frozen=True)
class Shown:
    """One command of a document."""

    document: str
    line: str
    """Without prompt and comment."""

    @property
    def words(self) -> list[str]:
        """As the shell cuts it."""
        return shlex.split(self.line)

    def __str__(self) -> str:
        """For a test's name."""
        return f"{self.document}: {self.line}"


def shown(document: Path) -> list[Shown]:
    """All commands in fenced blocks of shells, in order. What is no command there is output."""
    found = []
    for _indent, language, body in BLOCK.findall(document.read_text()):
        if language not in SHELLS:
            continue
        lines = re.sub(r"\\\n\s*", "", body).splitlines()
        prompts = any(line.lstrip().startswith(PROMPT) for line in lines)
        for line in map(str.strip, lines):
            if prompts and not line.startswith(PROMPT):
                continue
            command = COMMENT.sub("", line.removeprefix(PROMPT)).strip()
            if command:
                found.append(Shown(str(document.relative_to(ROOT)), command))
    return found


def mentioned(document: Path) -> list[Shown]:
    """Commands within sentences and tables."""
    text = BLOCK.sub("", document.read_text())
    return [Shown(str(document.relative_to(ROOT)), command) for command in INLINE.findall(text)]
