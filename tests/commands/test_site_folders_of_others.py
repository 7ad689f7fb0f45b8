"""What another user of the machine can change is no site folder: its lines would run in jobs."""

from __future__ import annotations

import codecs
import importlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from clusterjobs.errors import InputError
from clusterjobs.sites.folders import SiteFolders, trusted

OWNER, OTHER, TEAM = 61234, 61235, 61236
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two users")


@pytest.fixture
def place() -> Iterator[pathlib.Path]:
    """A folder that both users can reach."""
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="two-users-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def make(folder: pathlib.Path, mode: int, user: int, group: int = 0) -> pathlib.Path:
    folder.mkdir()
    os.chown(folder, user, group or user)
    folder.chmod(mode)
    return folder


def plant(line: str, folder: pathlib.Path) -> None:
    """A line of bash as OTHER, who is in OWNER's group TEAM."""
    who = {"user": OTHER, "group": TEAM, "extra_groups": [OTHER]}
    subprocess.run(["bash", "-c", line], cwd=folder, check=True, **who)  # type: ignore[call-overload]


def lines(site: pathlib.Path) -> list[str]:
    """The texts of the templates that OWNER, of the same group, would use."""
    codecs.lookup("utf-8-sig")  # OWNER may not be able to read Python's own folder
    importlib.import_module("clusterjobs.script.site.merge")
    os.setegid(TEAM)
    os.seteuid(OWNER)
    try:
        found = SiteFolders((trusted(site),)).templates
    finally:
        os.seteuid(0)
        os.setegid(0)
    return [file.text for file in found.files]


def refusal(site: pathlib.Path) -> str:
    with pytest.raises(InputError) as error:
        lines(site)
    (problem,) = error.value.problems
    return problem.what


ATTACK = "mkdir -p site/templates && echo 'echo planted' > site/templates/before_launch.sh"


def test_the_folder_of_a_third_user_is_refused(place: pathlib.Path) -> None:
    theirs = make(place / "theirs", 0o755, OTHER, TEAM)
    plant(ATTACK, theirs)
    assert "belongs to another user (number 61235)" in refusal(theirs / "site")


def test_a_folder_whose_parent_everyone_may_write_is_refused(place: pathlib.Path) -> None:
    everyones = make(place / "open", 0o777, 0)
    make(everyones / "site", 0o755, 0)
    assert "every user can exchange what is in" in refusal(everyones / "site")
    plant("mv site mine; " + ATTACK, everyones)
    assert "belongs to another user" in refusal(everyones / "site")
    shutil.rmtree(everyones / "site")
    make(everyones / "site", 0o755, 0)
    everyones.chmod(0o1777)  # now only the owner of an entry can exchange it
    assert lines(everyones / "site") == []


@pytest.mark.parametrize(
    "name", ["", "templates", "templates/blocks", "templates/before_launch.sh"]
)
def test_a_link_into_the_folder_of_another_user_is_refused(place: pathlib.Path, name: str) -> None:
    theirs = make(place / "theirs", 0o755, OTHER, TEAM)
    plant(
        f"{ATTACK}; mkdir site/templates/blocks; echo > site/templates/blocks/after.sh.j2", theirs
    )
    site = place / "site"
    (site / name).parent.mkdir(exist_ok=True, parents=True)
    (site / name).symlink_to(theirs / "site" / name)
    assert "belongs to another user" in refusal(site)


@pytest.mark.parametrize("user", [0, OWNER])
def test_the_folders_of_root_and_of_the_user_are_used(place: pathlib.Path, user: int) -> None:
    site = make(place / "site", 0o775, user, TEAM)
    make(site / "templates", 0o755, user)
    (site / "templates/before_launch.sh").write_text("echo own\n")
    assert lines(site) == ["echo own\n"]
