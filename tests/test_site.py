"""The documentation as a site: every page is in it, and a link that leads nowhere fails the build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = (
    "docs",
    "mkdocs.yml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "helm/keyline/README.md",
)

pytestmark = pytest.mark.slow


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build it."""
    pytest.importorskip("material", reason="mkdocs-material is missing: run `make setup`")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=400)


def test_every_document_is_a_page(tmp_path: Path) -> None:
    """Those of docs/, and those that stand elsewhere; links and headings lead to each other as in the repository."""
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    for document in (ROOT / "docs").glob("*.md"):
        assert (tmp_path / document.stem / "index.html").is_file(), document.name
    home = (tmp_path / "index.html").read_text()
    assert 'href="deploy/"' in home
    assert "overview.svg" in home
    assert 'href="../chart/"' in (tmp_path / "deploy" / "index.html").read_text()
    assert "imagePullSecrets" in (tmp_path / "chart" / "index.html").read_text()
    assert 'class="mermaid"' in (tmp_path / "architecture" / "index.html").read_text()


@pytest.mark.parametrize("link", ["[x](nowhere.md)", "[x](deploy.md#no-such-heading)"])
def test_a_link_that_leads_nowhere_fails_it(tmp_path: Path, link: str) -> None:
    """With the page and the link."""
    copy = tmp_path / "copy"
    for name in SOURCES:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
        else:
            shutil.copy2(ROOT / name, copy / name)
    with (copy / "docs" / "operate.md").open("a") as document:
        document.write(f"\n{link}\n")
    done = build(copy, tmp_path / "site")
    assert done.returncode != 0
    assert "operate.md" in done.stderr
