"""Every setting does something: what can be configured is read where it acts, and not only declared and documented.

Read off the source, not by running it: a setting that nothing reads would pass any test of what the gateway does. What
counts is a read from something that holds settings (`settings.selector`, not any `.selector`), outside of what parses
and shows the configuration, and outside of checks that a settings class makes of itself.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from proxy.config.settings import GROUP_OF, GROUPS
from proxy.journal.service import JournalSettings
from proxy.limits import Limits
from proxy.net.broker.settings import BrokerSettings
from proxy.net.election.elections import ElectionSettings
from proxy.net.group.settings import GroupSettings
from proxy.net.session.settings import SessionSettings
from proxy.net.subscription.settings import SubscriptionSettings

ROOT = Path(__file__).parents[1]
ROOMS = ("proxy", "admin_api")
PARSING = ROOT / "proxy" / "config"
HOLDERS = {"settings", "limits", "self", *GROUPS}
"""Names of what holds settings; those of attributes may have an underscore before them."""
CLASSES = (
    Limits,
    BrokerSettings,
    GroupSettings,
    ElectionSettings,
    SessionSettings,
    SubscriptionSettings,
    JournalSettings,
)
"""What the configuration is handed on in; each of their fields must be read, too."""


class Read(NamedTuple):
    """One place at which an attribute is read."""

    holder: str
    name: str


def reads_in(source: str) -> Iterator[Read]:
    """Attributes that a module reads, each with the last name of what it reads them from."""
    for node, fields in _walk(ast.parse(source), frozenset()):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            holder = node.value
            if isinstance(holder, ast.Call):  # picked(GroupSettings, config).groups_namespace
                holder = holder.func
            last = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            if last != "self" or node.attr in fields:
                yield Read(last.lstrip("_"), node.attr)


def _walk(node: ast.AST, fields: frozenset[str]) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Everything but the checks that a class makes of its own fields, with the fields of the class it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and child.name == "__post_init__":
            continue
        inside = fields
        if isinstance(child, ast.ClassDef):
            declared = (item.target for item in child.body if isinstance(item, ast.AnnAssign))
            inside = frozenset(name.id for name in declared if isinstance(name, ast.Name))
        yield child, inside
        yield from _walk(child, inside)


@functools.cache
def all_reads() -> set[Read]:
    """Of the gateway's own rooms."""
    sources = [path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.parent != PARSING]
    assert len(sources) > 100, "the rooms are elsewhere now"
    return {read for path in sources for read in reads_in(path.read_text())}


def unread(names: set[str], reads: set[Read]) -> set[str]:
    """Those that nothing reads from anything that holds settings."""
    return names - {read.name for read in reads if read.holder in HOLDERS or read.holder.endswith("settings")}


def test_every_setting_is_read_somewhere() -> None:
    """One that is documented and does nothing is worse than none: it is believed."""
    assert unread(set(GROUP_OF), all_reads()) == set()


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_what_settings_are_handed_on_in_is_read(kind: type) -> None:
    """The other end of the same chain."""
    assert unread({field.name for field in dataclasses.fields(kind)}, all_reads()) == set()


def test_a_setting_that_nothing_reads_is_found() -> None:
    """A declaration, a check, a write, a keyword and a namesake of another kind are no reads."""
    source = """
class Settings:
    interval_ms: int = 0
    def __post_init__(self):
        assert self.interval_ms >= 0
def of(dispatcher, settings):
    settings.interval_ms = 1
    return Settings(interval_ms=dispatcher.interval_ms)
"""
    assert unread({"interval_ms"}, set(reads_in(source))) == {"interval_ms"}
    assert unread({"interval_ms"}, set(reads_in("def act(it): return it._settings.interval_ms"))) == set()
    own = "class S:\n interval_ms: int = 0\n def get(self): return self.interval_ms"
    assert unread({"interval_ms"}, set(reads_in(own))) == set()
    other = "class S:\n def __init__(self): self.interval_ms = 1\n def get(self): return self.interval_ms"
    assert unread({"interval_ms"}, set(reads_in(other))) == {"interval_ms"}
