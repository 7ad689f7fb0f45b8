"""`make docs`: no warning, a search that needs no network, and pages that a phone can show."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import click
import pytest
from browser import Browser, chromium, find_chromium

from clusterjobs.cli import main
from clusterjobs.errors import InputError
from clusterjobs.reference.keys import all_keys

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("material"), reason="without the extra docs"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: pathlib.Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Prints nothing."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    try:
        program = find_chromium()
    except InputError as error:
        pytest.skip(f"no Chromium: {error.problems[0].what}")
    with chromium(program, tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def _open(browser: Browser, address: str, width: int) -> None:
    browser.resize(width, 900)
    browser.events.clear()
    browser.call("Page.navigate", url=address)
    browser.wait_for(f"document.readyState === 'complete' && location.href === '{address}'")


def test_the_site_has_every_page(site: pathlib.Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    made = {path.relative_to(site) for path in site.rglob("*.html")}
    assert made - pages == {pathlib.Path("404.html")}
    assert not pages - made


def test_the_index_links_every_page() -> None:
    links = set(re.findall(r"\]\(([^)#]+\.md)", (DOCS / "index.md").read_text("utf-8")))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert pages - links == {"index.md"}


def test_each_row_of_the_reference_has_the_key_as_its_anchor(site: pathlib.Path) -> None:
    html = (site / "spec.html").read_text("utf-8")
    anchors = re.findall(r' id="([^"]+)"', html)  # of rows, and of headings with the same name
    rows = re.findall(r"(?m)^\| `([^`]+)` \|", (DOCS / "spec.md").read_text("utf-8"))
    keys = {one.path for one in all_keys()} & {*rows}
    assert len(keys) > 80
    assert {key.replace("[]", "") for key in keys} <= {*anchors}
    rows_with_anchor = re.findall(r'<tr id="([^"]+)"', html)
    assert len(rows_with_anchor) == len(set(rows_with_anchor))


def test_the_page_of_commands_has_each_command() -> None:
    page = (DOCS / "commands.md").read_text("utf-8")
    listed = set(re.findall(r"(?m)^\| `clusterjobs ([\w-]+)", page))
    own = set(main.cli.list_commands(click.Context(main.cli)))
    assert own - listed - {"schema"} == set()
    assert "`schema` prints" in page
    assert listed <= own


def test_a_page_loads_nothing_from_the_network(browser: Browser, address: str) -> None:
    _open(browser, f"{address}/spec.html", 1280)
    outside = [one for one in browser.requests() if not one.startswith((address, "data:"))]
    assert not outside
    assert not browser.complaints()


def test_the_search_finds_a_page_without_a_network(browser: Browser, address: str) -> None:
    _open(browser, f"{address}/index.html", 1280)
    browser.run(
        "(() => { const box = document.querySelector('[data-md-component=search-query]');"
        "box.focus(); box.value = 'preflight'; box.dispatchEvent(new Event('keyup'));"
        "box.dispatchEvent(new Event('input')); })()"
    )
    browser.wait_for("!!document.querySelector('.md-search-result a[href*=\"preflight.html\"]')")


@pytest.mark.parametrize("page", ["index.html", "spec.html", "lab.html", "commands.html"])
def test_a_phone_shows_a_page_without_scrolling_sideways(
    browser: Browser, address: str, page: str
) -> None:
    _open(browser, f"{address}/{page}", 390)
    assert browser.run("document.documentElement.scrollWidth") <= 390
