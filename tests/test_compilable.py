"""What mypyc compiles to something else than Python says, without a word: read from the sources that it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from hatch_build import ROOT, SOURCES


@cache
def tree_of(name: str) -> ast.Module:
    """A source, read by the process that needs it, not by each that collects tests."""
    return ast.parse((ROOT / name).read_text())


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """All of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def names_of(bases: list[ast.expr]) -> set[str]:
    """The classes that are named there, parameters aside."""
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in bases)
    return {base.id for base in plain if isinstance(base, ast.Name)}


@pytest.mark.parametrize("name", SOURCES)
def test_what_has_a_length_says_itself_whether_it_is_true(name: str) -> None:
    """Compiled, `if found:` of a `Found | None` asks `__bool__` alone: an empty one with a length would be true."""
    for each in classes(tree_of(name)):
        methods = {node.name for node in each.body if isinstance(node, ast.FunctionDef)}
        assert "__len__" not in methods or "__bool__" in methods, each.name


@pytest.mark.parametrize("name", SOURCES)
def test_a_function_gives_a_name_to_errors_of_one_type_only(name: str) -> None:
    """Compiled, a variable has the type of its first value, and the second `except ... as` raises TypeError."""
    for function in ast.walk(tree_of(name)):
        if isinstance(function, ast.FunctionDef):
            caught: dict[str, str] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                    kind = ast.unparse(node.type)
                    assert caught.setdefault(node.name, kind) == kind, f"{function.name}: {node.name}"


@pytest.mark.parametrize("name", SOURCES)
def test_slots_are_not_asked_for(name: str) -> None:
    """A compiled class has no `__slots__`."""
    assert [
        node for node in ast.walk(tree_of(name)) if isinstance(node, ast.Attribute) and node.attr == "__slots__"
    ] == []


@pytest.mark.parametrize("name", SOURCES)
def test_a_constant_of_several_numbers_says_its_type(name: str) -> None:
    """Of a tuple of floats with a type that is inferred nothing is stored."""
    for node in tree_of(name).body:
        if (
            isinstance(node, ast.AnnAssign)
            and ast.unparse(node.annotation) == "Final"
            and isinstance(node.value, ast.Tuple)
        ):
            assert not any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in node.value.elts)


def test_what_inherits_from_a_compiled_class_is_compiled() -> None:
    """An interpreted one cannot be made: `TypeError: interpreted classes cannot inherit from compiled`."""
    compiled = {each.name for name in SOURCES for each in classes(tree_of(name))}
    for path in sorted((ROOT / "proxy").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name not in SOURCES:
            tree = ast.parse(path.read_text())
            imported = {
                alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and f"{(node.module or '').replace('.', '/')}.py" in SOURCES
                for alias in node.names
            }
            for each in classes(tree):
                assert not names_of(each.bases) & imported & compiled, f"{name}: {each.name}"
