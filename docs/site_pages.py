"""A hook of mkdocs: pages that stand elsewhere in the repository, and links between them and those in docs/.

Rule kept: each text has one place, where people without the site read it too. The site gets copies while it is built,
with their links led to the site's pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[1]
ELSEWHERE: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting-vulnerabilities.md",
    "helm/keyline/README.md": "chart.md",
}
"""Path in the repository -> page of the site."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for path, page in ELSEWHERE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=led(text, path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead the links of pages in docs/ to those that are added."""
    return markdown if page.file.src_uri in ELSEWHERE.values() else led(markdown, f"docs/{page.file.src_uri}")


def led(text: str, path: str) -> str:
    """Give a text of the repository with its links as the site has them; what the site does not have loses its link."""

    def new(link: re.Match[str]) -> str:
        target, _, heading = link[3].partition("#")
        if "://" in target or not target:
            return link[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        page = ELSEWHERE.get(place, place.removeprefix("docs/") if place.startswith("docs/") else "")
        if not page:
            return link[2]
        return f"{link[1]}[{link[2]}]({page}{'#' if heading else ''}{heading})"

    return _LINK.sub(new, text)
