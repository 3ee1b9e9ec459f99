"""What the gateway counts, somebody can see: a counter that nothing reads costs every event and tells nobody.

Read off the source, as `test_settings_are_read`: an attribute that is added to must be read, or be shown by its name in
a metric, a schema of the admin API, or a table.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("proxy", "admin_api")
SHOWN = ROOT / "admin_api" / "schemas"


class Attributes(NamedTuple):
    """What becomes of attributes, by their names."""

    added_to: set[str]
    read: Counter[str]
    fields: set[str]
    """Declared in a class, which shows all of them where it is an answer's schema."""


def attributes_in(source: str) -> Attributes:
    """Of one module."""
    nodes = list(ast.walk(ast.parse(source)))
    added_to = {
        node.target.attr
        for node in nodes
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Attribute)
    }
    read = Counter(node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    read.update(
        part
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "." in node.value
        and " " not in node.value
        for part in node.value.split(".")  # a metric's source, "server.counters.frames_received_total"
    )
    declared = [
        item.target
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.AnnAssign)
    ]
    return Attributes(added_to, read, {name.id for name in declared if isinstance(name, ast.Name)})


def unread(modules: list[Attributes], shown: set[str]) -> set[str]:
    """Counters that nothing reads and nothing shows."""
    read = {name for module in modules for name in module.read}
    return {name for module in modules for name in module.added_to} - read - shown


def test_every_counter_is_read_or_shown() -> None:
    """By the product: a test that reads it is no use of it."""
    modules = [attributes_in(path.read_text()) for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    shown = {name for path in SHOWN.glob("*.py") for name in attributes_in(path.read_text()).fields}
    assert len(modules) > 100
    assert unread(modules, shown) == set()


def test_a_counter_that_nothing_reads_is_found() -> None:
    """To set it, to add to it and to name it in a sentence are no reads."""
    lines = '"lost counts."', "self.lost = 0", "self.lost += 1", "self.seen += 1", "return self.seen"
    module = attributes_in("def f(self):\n " + "\n ".join(lines))
    assert unread([module], set()) == {"lost"}
    assert unread([module], {"lost"}) == set()
    assert unread([module, attributes_in('SOURCE = "mail.lost"')], set()) == set()
