"""Who may import what: design 2.1 and habit 1 of the house style, read from the sources themselves."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.rooms import ROOMS, ROOT, House, describe, imports, read

IMPURE = frozenset({
    "asyncio", "concurrent", "datetime", "ftplib", "http", "logging", "multiprocessing", "os", "pathlib",
    "queue", "random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket",
    "socketserver", "ssl", "structlog", "subprocess", "tempfile", "threading", "time", "urllib", "uuid",
    "uvloop", "anyio", "trio",
})  # fmt: skip
"""What makes a value depend on more than its arguments: loops, sockets, clocks, chance, threads, files, logs."""

DEVICES = frozenset({
    "asyncio", "concurrent", "multiprocessing", "random", "sched", "secrets", "select", "selectors", "signal",
    "socket", "socketserver", "subprocess", "threading", "time", "uvloop", "anyio", "trio",
})  # fmt: skip
"""What a state machine reaches through a port. TLS contexts and log lines it may name."""

OUTSIDE = frozenset({"tests", "integration"})
"""Ours, but no part of the product."""


@dataclass(frozen=True)
class Rule:
    """Files that must not import certain modules."""

    files: tuple[str, ...]
    """Folders, or single files, from the root."""
    forbidden: frozenset[str]
    """Modules; with each everything below it."""
    allowed: frozenset[str] = frozenset()
    """Exceptions below the forbidden ones."""
    but: tuple[str, ...] = ()
    """Files that may."""


def rooms(*names: str) -> frozenset[str]:
    """Modules by their dotted names."""
    return frozenset(names)


RULES = {
    "the pure rooms are pure": Rule(("proxy/core", "proxy/wire", "proxy/producers", "proxy/groups"), IMPURE),
    "the core knows no other room": Rule(
        ("proxy/core",), rooms("proxy", "admin_api", "spark_reports"), rooms("proxy.core")
    ),
    "the wire knows no other room": Rule(
        ("proxy/wire",), rooms("proxy", "admin_api", "spark_reports"), rooms("proxy.wire")
    ),
    "producers and groups know no room that does IO": Rule(
        ("proxy/producers", "proxy/groups"),
        rooms("proxy", "admin_api", "spark_reports"),
        rooms("proxy.core", "proxy.wire", "proxy.producers", "proxy.groups", "proxy.errors", "proxy.limits"),
    ),
    "asyncio's room knows net's ports and no more of it": Rule(
        ("proxy/aio",),
        rooms("proxy", "admin_api", "spark_reports"),
        rooms("proxy.aio", "proxy.net.ports", "proxy.errors", "proxy.limits", "proxy.service_url"),
    ),
    "net knows the pure rooms, errors and limits": Rule(
        ("proxy/net",),
        rooms("proxy", "admin_api", "spark_reports"),
        rooms(
            "proxy.net",
            "proxy.core",
            "proxy.wire",
            "proxy.producers",
            "proxy.groups",
            "proxy.errors",
            "proxy.key_policies",
            "proxy.limits",
            "proxy.service_url",
            "proxy.shortened",
            "proxy.socket_request",
            "proxy.subscription_patterns",
        ),
    ),
    "net reaches devices through its ports only": Rule(("proxy/net",), DEVICES),
    "the parts of a subscription share its state and never know the whole": Rule(
        ("proxy/net",),
        rooms("proxy.net.subscription.subscription"),
        but=(
            "proxy/net/subscription/directory.py",  # makes it
            "proxy/net/subscription/durations.py",  # and these read it
            "proxy/net/subscription/summary.py",
        ),
    ),
    "the journal knows the core and what net tells": Rule(
        ("proxy/journal",),
        rooms("proxy", "admin_api", "spark_reports"),
        rooms("proxy.journal", "proxy.core", "proxy.net.events", "proxy.net.ports"),
    ),
    "traces know the core, the wire and what net tells": Rule(
        ("proxy/tracing",),
        rooms("proxy", "admin_api", "spark_reports"),
        rooms("proxy.tracing", "proxy.core", "proxy.wire", "proxy.net.events", "proxy.net.ports"),
    ),
    "the journal's schema knows no other room": Rule(
        ("proxy/journal/schema.py",), IMPURE | rooms("proxy", "pyarrow", "numpy")
    ),
    "the admin API sees snapshots, never the core": Rule(
        ("admin_api",),
        rooms("proxy.core", "proxy.net", "proxy.wire", "proxy.producers", "proxy.groups", "spark_reports"),
    ),
    "the reports know the journal's schema and who would own a slot": Rule(
        ("spark_reports",),
        rooms("proxy", "admin_api"),
        rooms("proxy.journal.schema", "proxy.core.selectors", "proxy.printable"),
    ),
    "applications' helpers know no other room": Rule(
        ("keyline_gateway/client",),
        rooms("keyline_gateway", "proxy", "admin_api", "spark_reports"),
        rooms("keyline_gateway.client"),
    ),
    "the product does not know its tests": Rule(("keyline_gateway", "proxy", "admin_api", "spark_reports"), OUTSIDE),
}


def violations(root: Path, rule: Rule) -> list[str]:
    """Every import that breaks the rule, as ``file:line imports module``."""
    found = []
    for place in rule.files:
        path = root / place
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            name = file.relative_to(root).as_posix()
            if name in rule.but:
                continue
            for line, module in imported(file.read_text(encoding="utf-8"), name):
                if below(module, rule.forbidden) and not below(module, rule.allowed):
                    found.append(f"{name}:{line} imports {module}")
    return found


@cache
def imported(source: str, name: str) -> tuple[tuple[int, str], ...]:
    """What a file imports, and where. Several rules ask for the same file."""
    return tuple(imports(ast.parse(source), name))


def below(module: str, roots: frozenset[str]) -> bool:
    """Whether a module is one of these or in one of them."""
    parts = module.split(".")
    return any(".".join(parts[:depth]) in roots for depth in range(1, len(parts) + 1))


@pytest.mark.parametrize("name", RULES)
def test_imports_keep_the_rules(name: str) -> None:
    """Every import of every source file is allowed where it stands."""
    assert violations(ROOT, RULES[name]) == []


def test_every_room_is_there_to_be_checked() -> None:
    """A rule about a folder that was renamed would hold for ever."""
    for rule in RULES.values():
        for place in rule.files + rule.but:
            assert list(ROOT.glob(place)), place
    assert len(list((ROOT / "proxy/core").rglob("*.py"))) > 15


@pytest.fixture(scope="module")
def house() -> House:
    """The product as it stands."""
    return read()


def test_a_room_knows_only_rooms_below_it(house: House) -> None:
    """Modules import within their room and from the rooms that it may know."""
    assert house.forbidden() == set()


def test_no_modules_know_each_other_in_a_circle(house: House) -> None:
    """Those that only types make are circles too."""
    assert house.circles() == []


def test_the_rooms_are_those_that_are_told(house: House) -> None:
    """Each folder is a room of the table, each knows rooms before it only, and none is allowed what it does not use."""
    assert set(house.rooms.values()) == set(ROOMS)
    order = list(ROOMS)
    assert [(room, other) for room in ROOMS for other in ROOMS[room] if order.index(other) >= order.index(room)] == []
    used = {(house.rooms[tail], house.rooms[head]) for tail, head in house.between()}
    assert {(room, other) for room in ROOMS for other in ROOMS[room]} - used == set()


def test_the_house_is_described(house: House) -> None:
    """`make rooms` names each room, the counts, and each arrow that runs up and each circle with its members."""
    lines = list(describe(house))
    assert {line.split()[0] for line in lines[: len(ROOMS)]} == set(ROOMS)
    assert f"arrows that run up       {len(house.forbidden())}" in lines
    assert len([line for line in lines if line.startswith("runs up: ")]) == len(house.forbidden())
    assert len([line for line in lines if line.startswith("circle: ")]) == len(house.circles())


def test_what_is_planted_in_a_house_is_found(tmp_path: Path) -> None:
    """A way up and a circle, made by types only and by an import in a function: each is named with its place."""
    sources = {
        "proxy/core/a.py": "if TYPE_CHECKING:\n    from proxy.core.b import B\n",
        "proxy/core/b.py": "def f():\n    from proxy.core import c\n",
        "proxy/core/c.py": "from proxy.core.a import A\n",
        "proxy/core/d.py": "import proxy.core.a\nfrom proxy.net.broker import pool\n",
        "proxy/net/broker/__init__.py": "",
        "proxy/net/broker/pool.py": "import asyncio\nfrom proxy.core.d import D\n",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    planted = read(tmp_path)
    up = ("proxy.core.d", "proxy.net.broker.pool")
    assert planted.forbidden() == {up}
    assert planted.arrows[up] == "proxy/core/d.py:2"
    ring = frozenset({"proxy.core.a", "proxy.core.b", "proxy.core.c"})
    assert planted.circles() == [ring, frozenset(up)]
    (tmp_path / "proxy/core/d.py").write_text("", encoding="utf-8")
    assert read(tmp_path).circles() == [ring]
    (tmp_path / "proxy/core/c.py").write_text("", encoding="utf-8")
    assert read(tmp_path).circles() == []


PLANTED = [
    ("the pure rooms are pure", "proxy/core/a.py", "import asyncio"),
    ("the pure rooms are pure", "proxy/core/deep/er.py", "def f():\n    from time import monotonic"),
    ("the pure rooms are pure", "proxy/wire/a.py", "import os.path as p"),
    ("the pure rooms are pure", "proxy/groups/a.py", "if TYPE_CHECKING:\n    import threading"),
    ("the pure rooms are pure", "proxy/producers/a.py", "importlib.import_module('structlog')"),
    ("the pure rooms are pure", "proxy/core/a.py", "class C:\n    def f(self):\n        __import__('socket').socket()"),
    ("the core knows no other room", "proxy/core/a.py", "from proxy import wire"),
    ("the core knows no other room", "proxy/core/a.py", "from .. import net"),
    ("the core knows no other room", "proxy/core/deep/er.py", "from ...aio.clock_and_connector import Loop"),
    ("the core knows no other room", "proxy/core/a.py", "import proxy.errors"),
    ("the wire knows no other room", "proxy/wire/a.py", "from proxy.core.entry import Part"),
    ("producers and groups know no room that does IO", "proxy/groups/a.py", "import proxy.aio.clock_and_connector"),
    ("net knows the pure rooms, errors and limits", "proxy/net/a.py", "from proxy.config.settings import Config"),
    ("asyncio's room knows net's ports and no more of it", "proxy/aio/clock_and_connector.py", "import admin_api.app"),
    ("net reaches devices through its ports only", "proxy/net/session/session.py", "def f():\n    import asyncio"),
    ("net reaches devices through its ports only", "proxy/net/relay/relay.py", "from socket import AF_INET"),
    (
        "the parts of a subscription share its state and never know the whole",
        "proxy/net/group/a.py",
        "from proxy.net.subscription.subscription import Subscription",
    ),
    ("the admin API sees snapshots, never the core", "admin_api/routes/a.py", "from proxy.core import dispatcher"),
    (
        "the journal knows the core and what net tells",
        "proxy/journal/a.py",
        "from proxy.net.subscription.subscription import UpstreamConsumer",
    ),
    ("the journal's schema knows no other room", "proxy/journal/schema.py", "import pyarrow as pa"),
    ("the reports know the journal's schema and who would own a slot", "spark_reports/a.py", "import proxy"),
    (
        "the reports know the journal's schema and who would own a slot",
        "spark_reports/a.py",
        "from proxy.journal import writer",
    ),
    ("the product does not know its tests", "proxy/app/gateway.py", "from tests.core.model import World"),
]


@pytest.mark.parametrize(("rule", "file", "source"), PLANTED)
def test_a_planted_violation_is_found(rule: str, file: str, source: str, tmp_path: Path) -> None:
    """Wherever the forbidden import stands and however it is written, it is named with file and line."""
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"import typing\n{source}\n", encoding="utf-8")
    (found,) = violations(tmp_path, RULES[rule])
    assert found.startswith(f"{file}:{2 + source.count(chr(10))} imports ")


@pytest.mark.parametrize(
    ("rule", "file", "source"),
    [
        (
            "the pure rooms are pure",
            "proxy/core/a.py",
            "from proxy.core.selectors import base\nfrom array import array",
        ),
        ("the pure rooms are pure", "proxy/core/a.py", "clock.time()\nrandom = 3\n'import asyncio'"),
        ("the core knows no other room", "proxy/core/deep/er.py", "from .. import entry\nfrom . import twin"),
        ("net reaches devices through its ports only", "proxy/aio/clock_and_connector.py", "import asyncio, socket"),
        ("net knows the pure rooms, errors and limits", "proxy/net/a.py", "from proxy import errors"),
        (
            "the parts of a subscription share its state and never know the whole",
            "proxy/net/subscription/directory.py",
            "from proxy.net.subscription.subscription import Subscription",
        ),
        ("the admin API sees snapshots, never the core", "admin_api/a.py", "import asyncio\nimport proxy.limits"),
    ],
)
def test_what_is_allowed_is_not_found(rule: str, file: str, source: str, tmp_path: Path) -> None:
    """Our own `selectors` is not the standard library's; names and strings are not imports; exceptions count."""
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    assert violations(tmp_path, RULES[rule]) == []
