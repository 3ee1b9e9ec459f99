"""An earlier commit's rooms beside today's: what is counted, in trees of which each count is known."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import rooms_before
from tests.rooms import House
from tests.rooms_before import (
    COPIED_LINES,
    Measures,
    arrows_up,
    code_lines,
    compared,
    copies,
    measured,
    unpack,
)

COPY = "\n".join(f"    a{number} = b({number})" for number in range(COPIED_LINES))


def write(root: Path, sources: dict[str, str]) -> None:
    """Files by name."""
    for name, source in sources.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source, encoding="utf-8")


FLAT = {
    "proxy/net/a.py": f"from proxy.net import b\nfrom proxy.core import c\n\n\ndef f():\n{COPY}\n",
    "proxy/net/b.py": f"from proxy.net import a\n\n\ndef g(x):\n{COPY}\n    return x\n",
    "proxy/core/c.py": "from proxy.net import a\n",
    "proxy/core/d.py": "",
    "docs/e.py": "import proxy.net.a\n",
}


def git(repository: Path, *arguments: str) -> None:
    """Run it in the name of one who is not asked for."""
    someone = "-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"
    subprocess.run(("git", "-C", str(repository), *someone, *arguments), check=True, capture_output=True)  # noqa: S607 - git from the path


def test_a_commit_is_compared_with_what_stands_now(tmp_path: Path) -> None:
    """The tree of the commit is measured whatever has become of its files since; what is no product is left out."""
    repository, before = tmp_path / "now", tmp_path / "before"
    write(repository, FLAT)
    git(repository, "init")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "flat")
    (repository / "proxy/net/b.py").unlink()
    write(
        repository,
        {"proxy/net/a.py": "from proxy.core import c\n", "proxy/core/c.py": "", "admin_api/f.py": "\n" * 401},
    )
    before.mkdir()
    unpack("HEAD", before, repository)
    earlier, now = measured(before), measured(repository)
    assert earlier == Measures(
        files=4,
        lines=sum(source.count("\n") for name, source in FLAT.items() if name.startswith("proxy")),
        code_lines=2 * COPIED_LINES + 3,
        long_files=0,
        rooms=2,
        files_of_largest_room=2,
        arrows=4,
        arrows_between_rooms=2,
        up=1,
        circles=(3,),
        copies=2,
    )
    assert (now.files, now.rooms, now.arrows, now.up, now.circles, now.copies) == (4, 3, 1, 0, (), 0)
    assert now.long_files == 1
    table = list(compared(earlier, now))
    assert "| files | 4 | 4 |" in table
    assert "| imports that run up | 1 | 0 |" in table
    assert "| circles of modules | 1, of 3 modules | 0 |" in table
    assert len({line.count("|") for line in table}) == 1, "a row has another number of columns"


def test_an_unknown_commit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Git's own word is shown, and no table."""
    git(tmp_path, "init")
    monkeypatch.setattr(rooms_before, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["rooms_before", "0123456"])
    assert rooms_before.main() != 0
    shown = capfd.readouterr()
    assert "0123456" in shown.err
    assert not shown.out


def test_an_order_of_rooms_with_the_fewest_arrows_up_is_found() -> None:
    """Three rooms in a circle and one beside it: the rarest of the circle's arrows runs up, wherever it is."""
    modules = {"a": "one", "b": "two", "c": "three", "d": "four"}
    arrows = {("a", "b"): 1, ("b", "c"): 2, ("c", "a"): 3, ("d", "a"): 5}
    for rarest in [("a", "b"), ("b", "c"), ("c", "a")]:
        more = {each: (1 if each == rarest else 4) for each in arrows}
        imports = {
            (f"{tail}{number}", f"{head}0"): "" for (tail, head), count in more.items() for number in range(count)
        }
        rooms = {end: modules[end[0]] for arrow in imports for end in arrow}
        assert arrows_up(House(frozenset(rooms), imports, rooms)) == 1, rarest


def test_code_is_compared_however_it_is_set() -> None:
    """Line breaks, comments, docstrings, imports and what a class declares make no difference, and no copy."""
    one = "import os\nclass A:\n    'Says.'\n    b: int\n    def f(self, x: int) -> int:\n        return g(x,\n  1)\n"
    two = "class A:\n    def f(self, x: int) -> int:  # why\n        return g(x, 1)\n\n    def h(self) -> None: pass\n"
    assert list(code_lines(one)) == list(code_lines(two)) != []
    assert list(code_lines("class A:\n    b: int\n    def f(self) -> None:\n        'Says.'\n")) == ["class A:"]


def test_a_copy_is_told_once_where_it_stands_and_a_shorter_one_is_not() -> None:
    """A longer copy is one place of each file; one line less than the bound is two uses of one thing."""
    lines = [f"a{number}" for number in range(COPIED_LINES + 2)]
    one, two, three = Path("one"), Path("two"), Path("three")
    code = {one: ["x", *lines], two: [*lines, "y"], three: lines[: COPIED_LINES - 1]}
    assert copies(code) == [(one, 1, len(lines)), (two, 0, len(lines) - 1)]
