"""Commands that the documentation shows, as a shell would see them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:keyline|make) [^`]+)`")
SHELLS = ("", "console", "sh")
PROMPT = "$ "
COMMENT = re.compile(r"(?:^|\s+)# .*$")
VARIABLE = re.compile(r"[A-Z_]+=.*")
PROGRAMS: Final = frozenset({"keyline", "export", "pulsar-admin", "helm", "curl"})
"""Those that `tests/integration/test_docs_commands.py` runs, as a document shows them."""
ELSEWHERE: Final = {
    r"make test\b": ".ci/run",
    r"make (demo|report)\b": "tests/integration/test_demo.py",
    r"make (lint|types|fmt|parts)\b": "Makefile",
    r"make bench\b": "tests/integration/test_bench.py",
    r"make pulsar(-stop)?\b": "tests/integration/test_launcher.py",
    r"head -c 32 |export KEYLINE_GROUPS_ENABLED=|.*KEYLINE_REPLICA_LISTEN=": "tests/integration/test_owners.py",
    r"keyline serve --processes\b": "tests/integration/test_host_processes.py",
    r"make site\b": "tests/test_site.py",
    r"docker network\b": "tests/integration/test_image.py",
    r"make image\b": "tests/integration/test_image.py",
    r"docker build\b": "tests/integration/test_image.py",
    r"docker run\b": "tests/integration/test_image.py",
    r"python -m dashboards\.alert_rules\b": "tests/integration/test_dashboards.py",
    r"pip install 'keyline-gateway\[tracing\]'": "tests/test_requirements.py",
    r"kubectl\b": "tests/helm/test_notes.py",
    r"helm test\b": "tests/helm/test_smoke.py",
    r"keyline report\b": "tests/integration/test_journal.py",
    r"keyline export-metrics\b": "tests/integration/test_export_metrics.py",
    r"(python -m zipfile|spark-submit)\b": "tests/reports/test_cluster.py",
    r"python -c .*pyarrow": "tests/journal",
    r"curl -X POST .*/configuration/reload": "tests/test_reload.py",
    r"cp /opt/keyline/|systemctl\b": "tests/test_service.py",
    r"docker compose\b": "tests/integration/test_compose.py",
    r"python -m venv\b|KEYLINE_COMPILE=1 pip wheel\b": "tests/test_wheel.py",
}
"""Commands that a test of their own runs, or that need more than `tests/integration/test_docs_commands.py` has."""


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

    @property
    def parts(self) -> tuple[dict[str, str], list[str]]:
        """The variables that it sets before it, and its words."""
        words = self.words
        count = next((at for at, word in enumerate(words) if not VARIABLE.fullmatch(word)), len(words))
        return dict(word.split("=", 1) for word in words[:count]), words[count:]

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


def documents() -> list[str]:
    """Those with commands that are run here."""
    return [str(path.relative_to(ROOT)) for path in DOCUMENTS if any(not elsewhere(one) for one in shown(path))]


def elsewhere(command: Shown) -> bool:
    """Whether a test of its own runs it."""
    line = command.line.replace(".venv/bin/", "")
    return any(re.match(pattern, line) for pattern in ELSEWHERE)
