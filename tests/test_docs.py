"""What the documentation names exists: files it leads to, headings, commands with options, targets of make, tests.

The commands in its blocks are run by `tests/integration/test_docs_commands.py`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from proxy.cli.main import app
from tests.docs_commands import BLOCK, DOCUMENTS, ELSEWHERE, PROGRAMS, ROOT, Shown, elsewhere, mentioned, shown

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TARGETS = frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
DOTS = ("--...", "--…")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
TESTS = sorted({(document, *named) for document in DOCUMENTS for named in TEST.findall(document.read_text())})


def anchor(heading: str) -> str:
    """As the pages of code hosts make it."""
    words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Within the repository: to a file, and to a heading of it."""
    for link in LINK.findall(BLOCK.sub("", document.read_text())):
        if "://" in link:
            continue
        name, _, fragment = link.partition("#")
        target = document.parent / name if name else document
        assert target.exists(), f"{document.name} leads to {link}"
        if fragment:
            anchors = {anchor(heading) for heading in HEADING.findall(BLOCK.sub("", target.read_text()))}
            assert fragment in anchors, f"{document.name} leads to {link}"


@cache
def keyline() -> Any:
    """The program with its commands, made once: it takes longer than to look a command up."""
    return typer.main.get_command(app)


COMMANDS = [command for document in DOCUMENTS for command in shown(document) + mentioned(document)]


@pytest.mark.parametrize("command", [c for c in COMMANDS if "keyline " in c.line], ids=str)
def test_commands_of_keyline_exist(command: Shown) -> None:
    """Each with the options that it is shown with."""
    words = command.line.split()
    start = next((place for place, word in enumerate(words) if word.rpartition("/")[2] == "keyline"), None)
    if start is None or (start and "=" not in words[start - 1] and words[0] != words[start]):
        return  # a word of another command
    found = keyline()
    for word in words[start + 1 :]:
        inner = getattr(found, "commands", None)  # of a command that has commands
        if inner is not None:
            if word.startswith("--"):
                break
            assert word.rstrip(",") in inner, f"{command}: there is no command {word!r}"
            found = inner[word.rstrip(",")]
        elif word.startswith("--") and word not in DOTS:
            options = {option for parameter in found.params for option in parameter.opts}
            assert word.partition("=")[0] in options | {"--help"}, f"{command}: it has {sorted(options)}"


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.line.startswith("make ")], ids=str)
def test_targets_of_make_exist(command: Shown) -> None:
    """Whatever stands before a variable."""
    for word in command.line.split()[1:]:
        if "=" in word:
            break
        assert word.rstrip(",") in TARGETS, command


@pytest.mark.parametrize(("document", "file", "name"), TESTS, ids=lambda part: getattr(part, "name", part))
def test_tests_that_are_named_exist(document: Path, file: str, name: str) -> None:
    """A promise that names its test can be checked for as long as the test is there."""
    assert (ROOT / file).is_file(), f"{document.name} names {file}"
    if name:
        defined = re.search(rf"^ *(?:async )?(?:def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE)
        assert defined, f"{document.name} names {file}::{name}"


def test_something_is_looked_at() -> None:
    """A pattern that finds nothing would let everything pass."""
    assert len(TESTS) > 20
    assert len([c for c in COMMANDS if "keyline " in c.line]) > 50
    assert len([c for c in COMMANDS if c.line.startswith("make ")]) > 10


def test_every_document_is_on_the_site() -> None:
    """In its navigation, or its build fails (`tests/test_site.py`)."""
    shown_there = set(re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {document.name for document in ROOT.glob("docs/*.md")} <= shown_there


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_shown_command_is_run_by_a_test(document: Path) -> None:
    """By the one that runs what documents show, or by one that is named."""
    for command in shown(document):
        _, words = command.parts
        run = elsewhere(command) or words[0].rpartition("/")[2] in PROGRAMS
        assert run, f"{command}: no test runs this; add it to ELSEWHERE with the test that does"


@pytest.mark.parametrize(("pattern", "where"), ELSEWHERE.items())
def test_what_is_run_elsewhere_is_shown_and_is_there(pattern: str, where: str) -> None:
    """No row is superfluous, and none leads nowhere."""
    assert (ROOT / where).exists()
    commands = [command.line.replace(".venv/bin/", "") for document in DOCUMENTS for command in shown(document)]
    assert any(re.match(pattern, line) for line in commands)
