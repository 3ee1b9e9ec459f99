"""The product's rooms and who knows whom in them, read from its sources: `make rooms` prints it, the tests hold it.

A room is a folder with a purpose. An arrow is an import of one module by another, wherever it stands: in a function or
for types only, it ties them all the same, since a reader of the one has to read the other. `ROOMS` says which rooms a
room may know.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("keyline_gateway", "proxy", "admin_api", "spark_reports")
SUBROOMS = "proxy.net"
"""The folder whose own folders are rooms; elsewhere a folder's folders belong to it."""

Arrow = tuple[str, str]

ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "proxy.wire": (),
    "proxy.core": (),
    "keyline_gateway.client": (),
    "proxy": ("proxy.wire",),
    "proxy.producers": ("proxy.wire", "proxy"),
    "proxy.groups": ("proxy.core",),
    "proxy.config": ("proxy", "proxy.groups"),
    "proxy.net": ("proxy.wire", "proxy.core", "proxy"),
    "proxy.aio": ("proxy", "proxy.net"),
    "proxy.journal": ("proxy.core", "proxy.net"),
    "proxy.tracing": ("proxy.wire", "proxy.core", "proxy.net"),
    "proxy.exports": ("proxy", "proxy.journal"),
    "proxy.net.broker": ("proxy.wire", "proxy.core", "proxy", "proxy.net"),
    "proxy.net.mail": ("proxy.wire", "proxy.core", "proxy.net", "proxy.net.broker"),
    "proxy.net.relay": ("proxy.wire", "proxy", "proxy.net", "proxy.net.broker"),
    "proxy.net.election": ("proxy.wire", "proxy", "proxy.producers", "proxy.net"),
    "proxy.net.subscription": ("proxy.wire", "proxy.core", "proxy", "proxy.net", "proxy.net.broker"),
    "proxy.net.group": (
        "proxy.wire",
        "proxy",
        "proxy.core",
        "proxy.groups",
        "proxy.net",
        "proxy.net.broker",
        "proxy.net.mail",
        "proxy.net.subscription",
    ),
    "proxy.net.owner": (
        "proxy.wire",
        "proxy",
        "proxy.core",
        "proxy.groups",
        "proxy.net",
        "proxy.net.broker",
        "proxy.net.relay",
        "proxy.net.subscription",
        "proxy.net.group",
    ),
    "proxy.net.session": (
        "proxy.wire",
        "proxy",
        "proxy.producers",
        "proxy.net",
        "proxy.net.broker",
        "proxy.net.relay",
        "proxy.net.election",
        "proxy.net.subscription",
    ),
    "proxy.net.websocket": ("proxy.wire", "proxy", "proxy.net", "proxy.net.broker", "proxy.net.subscription"),
    "proxy.views": (
        "proxy.core",
        "proxy",
        "proxy.groups",
        "proxy.config",
        "proxy.net",
        "proxy.journal",
        "proxy.tracing",
        "proxy.net.owner",
        "proxy.net.broker",
        "proxy.net.election",
        "proxy.net.subscription",
        "proxy.net.group",
    ),
    "admin_api": ("proxy",),
    "spark_reports": ("proxy.core", "proxy", "proxy.journal"),
    "proxy.app": (
        "proxy.core",
        "proxy",
        "proxy.config",
        "proxy.net",
        "proxy.aio",
        "proxy.journal",
        "proxy.tracing",
        "proxy.net.broker",
        "proxy.net.mail",
        "proxy.net.relay",
        "proxy.net.election",
        "proxy.net.subscription",
        "proxy.net.group",
        "proxy.net.owner",
        "proxy.net.session",
        "proxy.net.websocket",
        "proxy.views",
        "admin_api",
    ),
    "proxy.cli": ("proxy", "proxy.config", "proxy.exports", "spark_reports", "proxy.app"),
    "keyline_gateway": ("proxy.app", "proxy.cli"),
}
"""Every room, the lowest first, and which rooms below it may know."""


@dataclass(frozen=True)
class House:
    """The modules of a tree, and which of them name which."""

    modules: frozenset[str]
    arrows: Mapping[Arrow, str]
    """Where each stands, as ``file:line``."""
    rooms: Mapping[str, str]
    """Each module's."""

    def between(self) -> list[Arrow]:
        """The arrows whose ends are in two rooms."""
        return [(tail, head) for tail, head in self.arrows if self.rooms[tail] != self.rooms[head]]

    def forbidden(self, allowed: Mapping[str, tuple[str, ...]] = ROOMS) -> set[Arrow]:
        """The arrows to a room that the tail's room may not know."""
        return {
            (tail, head) for tail, head in self.between() if self.rooms[head] not in allowed.get(self.rooms[tail], ())
        }

    def circles(self) -> list[frozenset[str]]:
        """Modules that reach each other, the largest circle first."""
        return circles(self.modules, self.arrows)


def read(root: Path = ROOT, folders: Iterable[str] = PRODUCT) -> House:
    """All of the product that stands below `root`."""
    files = {}
    for folder in folders:
        for file in sorted((root / folder).rglob("*.py")):
            path = file.relative_to(root).with_suffix("")
            files[".".join(path.parts[:-1] if path.name == "__init__" else path.parts)] = file
    arrows: dict[Arrow, str] = {}
    for module, file in files.items():
        name = file.relative_to(root).as_posix()
        for line, imported in imports(ast.parse(file.read_text(encoding="utf-8")), name):
            head = _module_of(imported, files)
            if head and head != module:
                arrows.setdefault((module, head), f"{name}:{line}")
    return House(frozenset(files), arrows, {module: _room(file.relative_to(root)) for module, file in files.items()})


def _module_of(imported: str, files: Mapping[str, Path]) -> str:
    """The module that holds an imported name, or nothing where it is not of the product."""
    while imported and imported not in files:
        imported = imported.rpartition(".")[0]
    return imported


def _room(file: Path) -> str:
    """The folder that a file belongs to."""
    folders = file.parts[:-1]
    depth = 3 if ".".join(folders[:2]) == SUBROOMS else 2 if folders[0] in {"proxy", "keyline_gateway"} else 1
    return ".".join(folders[:depth])


def imports(tree: ast.Module, name: str) -> list[tuple[int, str]]:
    """Line and module of every import, wherever it stands: in functions, for types only, or by a call.

    ``from x import y`` may import the module x.y: it is told as that, so that a rule about x.y sees it.
    """
    found = []
    package = Path(name).parent.as_posix().split("/")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            what = node.args[0]
            if called in {"__import__", "import_module"} and isinstance(what, ast.Constant):
                found.append((node.lineno, str(what.value)))
    return found


def circles(modules: Iterable[str], arrows: Iterable[Arrow]) -> list[frozenset[str]]:
    """The sets of modules that reach each other (Kosaraju: in order of leaving, then against the arrows)."""
    ahead, back = defaultdict(list), defaultdict(list)
    for tail, head in sorted(arrows):
        ahead[tail].append(head)
        back[head].append(tail)
    left: dict[str, None] = {}
    seen: set[str] = set()
    for module in sorted(modules):
        _leave(module, ahead, seen, left)
    taken: set[str] = set()
    found = []
    for module in reversed(left):
        circle: dict[str, None] = {}
        _leave(module, back, taken, circle)
        if len(circle) > 1:
            found.append(frozenset(circle))
    return sorted(found, key=lambda circle: (-len(circle), min(circle)))


def _leave(start: str, arrows: Mapping[str, list[str]], seen: set[str], left: dict[str, None]) -> None:
    """Walk depth first from `start` over what is not seen yet; `left` gets each module after all that it reaches."""
    if start in seen:
        return
    seen.add(start)
    way = [(start, iter(arrows[start]))]
    while way:
        module, heads = way[-1]
        head = next((head for head in heads if head not in seen), None)
        if head is None:
            left[module] = None
            way.pop()
        else:
            seen.add(head)
            way.append((head, iter(arrows[head])))


def describe(house: House) -> Iterable[str]:
    """The house in lines: its rooms with what each knows, what runs up, and the circles."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tail, head in house.between():
        counts[house.rooms[tail]][house.rooms[head]] += 1
    sizes = Counter(house.rooms.values())
    for room in ROOMS:
        known = ", ".join(f"{other} {count}" for other, count in sorted(counts[room].items()))
        yield f"{room:24} {sizes[room]:3} modules, knows {known or 'nothing'}"
    forbidden, found = house.forbidden(), house.circles()
    yield ""
    yield f"modules                  {len(house.modules)}"
    yield f"rooms                    {len(set(house.rooms.values()))}"
    yield f"arrows between modules   {len(house.arrows)}, {len(house.between())} of them between rooms"
    yield f"arrows between rooms     {sum(map(len, counts.values()))}"
    yield f"arrows that run up       {len(forbidden)}"
    yield f"circles                  {len(found)}, of {sum(map(len, found))} modules"
    for tail, head in sorted(forbidden):
        yield f"runs up: {house.arrows[tail, head]} imports {head}"
    for circle in found:
        yield f"circle: {', '.join(sorted(circle))}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in describe(read()))
