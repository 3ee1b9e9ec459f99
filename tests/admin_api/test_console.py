"""The console's files as a browser gets them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.admin_api.rig import AdminRig

FOLDER = Path(__file__).parents[2] / "admin_api" / "console"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.is_file())
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOREIGN = re.compile(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)


def test_the_page_is_at_the_root() -> None:
    """As HTML, and nothing else."""
    answer = AdminRig().ask("GET", "/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.text == (FOLDER / "index.html").read_text()


def test_the_api_is_shown_from_files_of_the_gateway() -> None:
    """At /docs, which loads nothing from elsewhere, of the document at /openapi.json."""
    answer = AdminRig().ask("GET", "/docs")
    assert (answer.status_code, answer.text) == (200, (FOLDER / "docs.html").read_text())
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_served_as_what_it_is(name: str) -> None:
    """A browser told not to guess refuses a module of another type."""
    answer = AdminRig().ask("GET", f"/console/{name}")
    assert answer.status_code == 200
    assert answer.content == (FOLDER / name).read_bytes()
    assert answer.headers["content-type"] == TYPES[Path(name).suffix]


@pytest.mark.parametrize("path", ["/", "/console/main.js", "/console/console.css"])
def test_each_answer_forbids_what_the_console_does_not_need(path: str) -> None:
    """No other host, no inline script, no frame around it, no guessing of types."""
    headers = AdminRig().ask("GET", path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-cache"


def test_what_a_browser_has_is_not_sent_again() -> None:
    """It asks each time, so that it never runs yesterday's page against today's gateway."""
    rig = AdminRig()
    etag = rig.ask("GET", "/").headers["etag"]
    for had in (etag, f'"other", W/{etag}', "*"):
        answer = rig.ask("GET", "/", headers={"if-none-match": had})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
        assert answer.headers["content-security-policy"] == POLICY
    assert rig.ask("GET", "/", headers={"if-none-match": '"other"'}).status_code == 200


def test_a_head_request_tells_the_same() -> None:
    """As health checks of proxies ask."""
    rig = AdminRig()
    assert rig.ask("HEAD", "/").headers["etag"] == rig.ask("GET", "/").headers["etag"]


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/absent.js",
        "/console/__init__.py",
        "/console/..%2fapp.py",
        "/console/%2e%2e/app.py",
        "/console/..%5capp.py",
        "/console/%2fetc%2fpasswd",
        "/console/main.js%00",
        "/console/main.js/..",
    ],
)
def test_nothing_else_is_there(path: str) -> None:
    """Files are served by name out of a list, so there is no path to climb."""
    answer = AdminRig().ask("GET", path)
    assert answer.status_code in {404, 307}, answer.text
    assert answer.status_code == 307 or answer.json()["status"] == 404


def test_it_takes_no_writes() -> None:
    """A page is read."""
    assert AdminRig().ask("POST", "/").status_code == 405


def test_it_is_no_part_of_the_apis_document() -> None:
    """Which is for programs."""
    assert not {"/", "/console/{file}"} & set(AdminRig().app.openapi()["paths"])


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_host(name: str) -> None:
    """But for the namespace of SVG, which is no address."""
    text = (FOLDER / name).read_text().replace("http://www.w3.org/2000/svg", "")
    assert FOREIGN.findall(text) == []


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_no_script_takes_text_for_markup(name: str) -> None:
    """Names come from clients: they are put in as text only."""
    text = (FOLDER / name).read_text()
    forbidden = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"]
    assert [word for word in forbidden if word in text] == []


def test_every_script_is_reached_from_a_page() -> None:
    """Each import names a file that is there, and no file is left over."""
    reached: set[str] = set()
    pages = "".join((FOLDER / page).read_text() for page in ("index.html", "docs.html"))
    ahead = re.findall(r'src="console/([^"]+)"', pages)
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += re.findall(r'from "\./([^"]+)"', (FOLDER / name).read_text())
    assert reached == {name for name in FILES if name.endswith(".js")}


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_a_script_imports_what_there_is_and_what_it_uses(name: str) -> None:
    """A name that is not exported there stops the whole page; one that is not used is a leftover."""
    text = (FOLDER / name).read_text()
    used = re.sub("^import .*$", "", text, flags=re.MULTILINE)
    for names, source in re.findall(r'^import \{ ([^}]+) \} from "\./([^"]+)";$', text, re.MULTILINE):
        exported = re.findall(
            r"^export (?:async )?(?:function|const|class) (\w+)", (FOLDER / source).read_text(), re.MULTILINE
        )
        for imported in names.split(", "):
            assert imported in exported, f"{imported} is not exported by {source}"
            assert re.search(rf"\b{imported}\b", used), f"{imported} is not used"
