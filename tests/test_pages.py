"""Every command on every page runs, and prints what the page says."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from pages import PAGES, ROOT, Page, environment_of

from clusterjobs.cli import main
from clusterjobs.lab.slurm import Slurm

ALL = [Page(path) for path in PAGES]


def cases(*settings: str) -> list[object]:
    return [
        pytest.param(one, id=one.name)
        for one in ALL
        if one.commands and one.settings == {*settings}
    ]


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path


def check(page: Page, home: pathlib.Path, update: bool) -> None:
    folder = home / "work"
    folder.mkdir()
    printed = page.run(folder, environment_of(home))
    if update:
        page.update(printed)
    assert not (found := page.differences(printed)), "\n\n".join(["", *found])


@pytest.mark.parametrize("page", cases())
def test_the_commands_print_what_the_page_shows(
    page: Page, home: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    check(page, home, request.config.getoption("--update-goldens"))


@pytest.mark.lab
@pytest.mark.parametrize("page", cases("lab"))
def test_the_commands_print_what_the_page_shows_in_a_lab(
    page: Page, home: pathlib.Path, slurm: Slurm, request: pytest.FixtureRequest
) -> None:
    try:
        check(page, home, request.config.getoption("--update-goldens"))
    finally:
        down = [sys.executable, "-m", "clusterjobs", "lab", "down", "--delete"]
        subprocess.run(down, env=environment_of(home), capture_output=True, check=False)


def inline_commands() -> Iterator[tuple[str, str]]:
    """Commands within the text and in tables: the page, and the words after `clusterjobs`."""
    for page in ALL:
        for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page.text):
            for words in re.findall(r"(?:^|[=(|;] ?)clusterjobs ([a-z][^`|;()&]*)", code):
                yield page.name, words


def test_the_commands_and_options_in_the_text_exist() -> None:
    commands = [*inline_commands()]
    assert len(commands) > 150
    wrong = [f"{page}: clusterjobs {words}" for page, words in commands if not exists(words)]
    assert not wrong, "\n".join(["", *wrong])


def exists(words: str) -> bool:
    """Whether the first words are commands, and each option is one of the last command."""
    found: click.Command = main.cli
    context = click.Context(found)
    rest = words.split(" -- ")[0].split()
    while rest and isinstance(found, click.Group) and (sub := found.get_command(context, rest[0])):
        found, rest = sub, rest[1:]
    if found is main.cli:
        return words.startswith("has no block")  # a message
    options = {flag for one in found.params for flag in (*one.opts, *one.secondary_opts)}
    used = [one.partition("=")[0].rstrip(",.") for one in rest if re.match(r"--?[a-z]", one)]
    return {*used} <= options | {"--help", "-h"}


def test_every_block_of_commands_is_run_or_says_why_not() -> None:
    """Commands stand in blocks of `console`: what is in `bash` is an excerpt of a file."""
    unseen = [f"{page.name}: {line}" for page in ALL for line in page.unseen]
    assert not unseen, "\n".join(["", *unseen])


def test_an_output_that_differs_is_found(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "page.md"
    shown = ["$ echo a", "b", "$ false", "$ echo $?", "1", r"$ printf '1\n2\n3\n'", "1", "...", "3"]
    path.write_text("\n".join(["# A", "```console", *shown, "```", ""]))
    page = Page(path)
    printed = page.run(tmp_path, environment_of(tmp_path))
    assert [*printed.values()] == ["a\n", "", "1\n", "1\n2\n3\n"]
    page.path = ROOT / "page.md"
    (found,) = page.differences(printed)
    assert found.startswith("page.md:3: $ echo a\n")
    assert "-b\n+a" in found
