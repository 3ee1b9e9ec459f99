"""The product's rooms today beside those of an earlier commit: `make rooms BEFORE=<commit>` prints it as a table.

Both trees are measured by the same rules, which need no list of rooms: a room is a folder, and an arrow runs up if it
goes against that order of a tree's own rooms which has the fewest against it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.rooms import PRODUCT, ROOT, Arrow, House, circles, read

LONG_LINES: Final = 400
"""A file with more is long."""
COPIED_LINES: Final = 5
"""So many lines of code in a row that stand elsewhere too are a copy. Fewer are mostly two uses of one thing."""


@dataclass(frozen=True)
class Measures:
    """One tree of the product."""

    files: int
    lines: int
    code_lines: int
    """See the function of that name."""
    long_files: int
    rooms: int
    files_of_largest_room: int
    arrows: int
    """Imports of one module by another."""
    arrows_between_rooms: int
    """Pairs of rooms of which one knows the other."""
    up: int
    """Imports against the order of rooms."""
    circles: tuple[int, ...]
    """Modules in each."""
    copies: int
    """Places with code that stands elsewhere too."""


def measured(root: Path) -> Measures:
    """Of the product that stands below `root`."""
    house = read(root)
    files = [file for folder in PRODUCT for file in sorted((root / folder).rglob("*.py"))]
    sources = {file: file.read_text(encoding="utf-8") for file in files}
    code = {file: list(code_lines(source)) for file, source in sources.items()}
    sizes = [source.count("\n") for source in sources.values()]
    return Measures(
        files=len(files),
        lines=sum(sizes),
        code_lines=sum(map(len, code.values())),
        long_files=sum(size > LONG_LINES for size in sizes),
        rooms=len(set(house.rooms.values())),
        files_of_largest_room=max(Counter(house.rooms.values()).values(), default=0),
        arrows=len(house.arrows),
        arrows_between_rooms=len(_between(house)),
        up=arrows_up(house),
        circles=tuple(map(len, house.circles())),
        copies=len(copies(code)),
    )


def code_lines(source: str) -> Iterator[str]:
    """What a source does, line by line, as Python would write it: the same code is the same lines, however it is set.

    Not what it says or declares: comments, docstrings, imports, and fields and methods without a value or a body, which
    a protocol has from the class that it describes.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _declares(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    lines = map(str.strip, ast.unparse(tree).splitlines())
    return (line for line in lines if line not in {"", "pass"})


def _declares(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return all(isinstance(each, ast.Pass) or _is_text(each) for each in node.body)
    field = isinstance(node, ast.AnnAssign) and node.value is None
    return field or isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def copies(code: Mapping[Path, list[str]]) -> list[tuple[Path, int, int]]:
    """Where `COPIED_LINES` and more stand elsewhere too: the file, and which of its lines of code they are."""
    seen: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for file, lines in code.items():
        for start in range(len(lines) - COPIED_LINES + 1):
            seen[tuple(lines[start : start + COPIED_LINES])].append((file, start))
    copied: dict[Path, set[int]] = defaultdict(set)
    for places in seen.values():
        if len(places) > 1:
            for file, start in places:
                copied[file].update(range(start, start + COPIED_LINES))
    return [(file, first, last) for file, numbers in copied.items() for first, last in _runs(numbers)]


def _runs(numbers: set[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run without a gap."""
    for _, run in groupby(enumerate(sorted(numbers)), lambda each: each[1] - each[0]):
        first, *rest = [number for _, number in run]
        yield first, rest[-1] if rest else first


def arrows_up(house: House) -> int:
    """Imports against the order of the rooms that has the fewest: none where no rooms know each other in a circle."""
    counts = _between(house)
    return sum(_fewest_up(sorted(circle), counts) for circle in circles(house.rooms.values(), counts))


def _between(house: House) -> Counter[Arrow]:
    """How many imports go from one room to another."""
    return Counter((house.rooms[tail], house.rooms[head]) for tail, head in house.between())


def _fewest_up(rooms: list[str], counts: Counter[Arrow]) -> int:
    """Over all sets of the lowest rooms, each made of a smaller one and the room on top of it (Held and Karp)."""
    best = [0]
    for lowest in range(1, 1 << len(rooms)):
        inside = [number for number in range(len(rooms)) if lowest >> number & 1]
        best.append(
            min(
                best[lowest ^ 1 << top] + sum(counts[rooms[below], rooms[top]] for below in inside if below != top)
                for top in inside
            )
        )
    return best[-1]


def unpack(commit: str, folder: Path, repository: Path) -> None:
    """Write the product as it was at a commit into a folder. Raises `CalledProcessError` for an unknown commit."""
    there = _git(repository, "ls-tree", "--name-only", commit).decode().split()
    archive = _git(repository, "archive", commit, "--", *(name for name in PRODUCT if name in there))
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")


def _git(repository: Path, *arguments: str) -> bytes:
    command = "git", "-C", str(repository), *arguments
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def compared(before: Measures, today: Measures) -> Iterable[str]:
    """A table in Markdown."""
    rows: list[tuple[str, object, object]] = [
        ("files", before.files, today.files),
        ("lines", f"{before.lines:,}", f"{today.lines:,}"),
        ("lines of code", f"{before.code_lines:,}", f"{today.code_lines:,}"),
        (f"files with more than {LONG_LINES} lines", before.long_files, today.long_files),
        ("rooms: folders", before.rooms, today.rooms),
        ("files of the largest room", before.files_of_largest_room, today.files_of_largest_room),
        ("imports of one module by another", f"{before.arrows:,}", f"{today.arrows:,}"),
        ("arrows between rooms", before.arrows_between_rooms, today.arrows_between_rooms),
        ("imports that run up", before.up, today.up),
        ("circles of modules", _circles(before), _circles(today)),
        (f"places with {COPIED_LINES} or more copied lines", before.copies, today.copies),
        ("the same, in 10,000 lines of code", _share(before), _share(today)),
    ]
    yield "| | before | today |"
    yield "|---|---:|---:|"
    for name, *values in rows:
        yield f"| {name} | {values[0]} | {values[1]} |"


def _circles(measures: Measures) -> str:
    sizes = measures.circles
    return f"{len(sizes)}, of {sum(sizes)} modules" if sizes else "0"


def _share(measures: Measures) -> str:
    return f"{10_000 * measures.copies / max(1, measures.code_lines):.1f}"


def main() -> int:
    """Compare with the commit that is named."""
    with TemporaryDirectory() as folder:
        try:
            unpack(sys.argv[1], Path(folder), ROOT)
        except subprocess.CalledProcessError as error:
            return error.returncode  # git has said why
        sys.stdout.writelines(f"{line}\n" for line in compared(measured(Path(folder)), measured(ROOT)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
