"""`templates override`, `diff` and `test` that cannot do what was asked: the exact messages.

Wrong files of a site folder are cases of tests/test_bad_sites.py.
"""

from __future__ import annotations

import hashlib
import os
import pathlib

import pytest
from test_bad_specs import as_ordinary_user, unprivileged_folder

from clusterjobs.sites import folders as site_folders

LAUNCH = pathlib.Path("site/templates/blocks/launch.sh.j2")


@pytest.fixture
def site(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty site folder in the working folder, and no other."""
    (folder / "site").mkdir()
    monkeypatch.setenv("CLUSTERJOBS_SITE", "site")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "nowhere"))
    return folder / "site"


def said(clusterjobs, *arguments: str) -> str:
    """What is said about a command line that is refused."""
    outcome = clusterjobs("templates", *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    return outcome.err


@pytest.mark.parametrize("command", ["override", "diff"])
def test_an_unknown_block_is_answered_with_the_nearest(clusterjobs, site, command: str) -> None:
    assert said(clusterjobs, command, "lanch") == (
        "there is no block lanch\n   hint: did you mean launch?\n"
    )
    assert not list(site.iterdir())


def test_an_unknown_insertion_point_is_answered_with_the_nearest(clusterjobs, site) -> None:
    assert said(clusterjobs, "override", "--insert", "before_lunch") == (
        "there is no insertion point before_lunch\n   hint: did you mean before_launch?\n"
    )


def test_an_existing_file_is_never_overwritten(clusterjobs, site) -> None:
    LAUNCH.parent.mkdir(parents=True)
    LAUNCH.write_text("  mine\n")
    for way in ("--replace", "--extend"):
        assert said(clusterjobs, "override", "launch", way) == (
            f"{LAUNCH} exists already\n"
            "   hint: edit it; `clusterjobs templates diff launch` shows what it changes\n"
        )
    (site / "templates" / "before_launch.sh").write_text("  mine\n")
    assert said(clusterjobs, "override", "--insert", "before_launch") == (
        "site/templates/before_launch.sh exists already\n"
        "   hint: edit it; its lines are printed in every job script\n"
    )
    assert LAUNCH.read_text() == "  mine\n"
    assert not (site / "templates" / ".base").exists()


def test_a_broken_link_is_not_written_through(clusterjobs, site, tmp_path) -> None:
    LAUNCH.parent.mkdir(parents=True)
    LAUNCH.symlink_to(tmp_path / "elsewhere")
    assert said(clusterjobs, "override", "launch").startswith(f"{LAUNCH} exists already\n")
    assert not (tmp_path / "elsewhere").exists()


def test_a_site_folder_that_may_not_be_written_is_named(clusterjobs, monkeypatch) -> None:
    with unprivileged_folder() as here:
        monkeypatch.chdir(here)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "nowhere"))
        monkeypatch.setenv("CLUSTERJOBS_SITE", str(here / "site"))
        monkeypatch.setattr(site_folders, "SYSTEM_FOLDER", here / "etc")
        (here / "site" / "templates").mkdir(parents=True)
        clusterjobs("templates", "diff")  # imports what the user below may not read
        for folder in ("site/templates", "site"):
            (here / folder).chmod(0o555)
        with as_ordinary_user():
            none = said(clusterjobs, "override", "launch")
        (here / "site").chmod(0o755)
        with as_ordinary_user():
            user = os.geteuid()
        os.chown(here / "site", user, -1)
        with as_ordinary_user():
            templates = said(clusterjobs, "override", "launch")
        monkeypatch.chdir("/")
    assert none == (
        f"you may write to no site folder: {here}/site\n"
        "   hint: --site FOLDER names another, such as your working copy of it\n"
    )
    base = "site/templates/.base/blocks/launch.sh.j2."
    assert templates.startswith(f"cannot write {base}")
    assert templates.endswith(
        ": Permission denied\n   hint: --site FOLDER names another site folder\n"
    )


def test_without_a_site_folder_there_is_nothing_to_override(clusterjobs, site, monkeypatch) -> None:
    monkeypatch.delenv("CLUSTERJOBS_SITE")
    message = "there is no site folder\n   hint: "
    assert said(clusterjobs, "override", "launch") == (
        f"{message}`clusterjobs site init FOLDER` makes one; or --site FOLDER\n"
    )
    assert said(clusterjobs, "test").startswith(message)


def test_a_site_folder_without_tests_is_told_where_they_belong(clusterjobs, site) -> None:
    message = (
        "there are no tests in site/tests\n"
        "   hint: write a spec that uses what your site changes: tests/NAME/spec.yaml\n"
    )
    assert said(clusterjobs, "test") == message
    (site / "tests").mkdir()
    (site / "tests" / "spec.yaml").write_text("name: a\n")  # in no folder of its own
    assert said(clusterjobs, "test") == message


@pytest.mark.parametrize("arguments", [[], ["launch", "--insert", "before_launch"]])
def test_a_block_and_an_insertion_point_exclude_each_other(clusterjobs, site, arguments) -> None:
    outcome = clusterjobs("templates", "override", *arguments)
    assert outcome.code == 2
    message = "Error: name a block, or an insertion point: --insert before_launch\n"
    assert outcome.err.endswith(message)


def test_an_original_of_an_earlier_merge_is_not_overwritten(clusterjobs, site) -> None:
    clusterjobs("templates", "override", "launch")
    text = LAUNCH.read_text()
    base = next((site / "templates/.base/blocks").iterdir())
    older = base.read_text().replace("command=(", "command=( # as it was")
    checksum = hashlib.sha256(older.encode()).hexdigest()
    base.with_name(f"launch.sh.j2.{checksum[:12]}").write_text(older)
    header, _, body = text.partition("##}\n")
    now = header.split("sha256:")[1][:64]
    header = header.replace(now, checksum).replace("0.1.0", "0.0.9")
    LAUNCH.write_text(header + "##}\n" + body.replace("command=(", "command=( # ours"))
    before = LAUNCH.read_text()
    original = LAUNCH.with_name("launch.sh.j2.orig")
    original.write_text("kept\n")
    outcome = clusterjobs("templates", "update")
    assert (outcome.code, outcome.err) == (
        1,
        f"{original} exists already: a merge with conflicts would overwrite it\n"
        "   hint: move it away, or remove it if nothing in it is needed\n",
    )
    assert (LAUNCH.read_text(), original.read_text()) == (before, "kept\n")
