"""Specs are found among whatever else users have in their folders."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from clusterjobs.runs.find_specs import Found, find_specs
from clusterjobs.yaml.document import MAX_BYTES

SPEC = "name: a\ncluster: small\nframework: command\ncommand: ./run\n"


def put(folder: pathlib.Path, *names: str, text: str = SPEC) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(found: Found, folder: pathlib.Path) -> list[str]:
    return [os.path.relpath(path, folder) for path in found.specs]


def reasons(found: Found, folder: pathlib.Path) -> dict[str, str]:
    return {os.path.relpath(path, folder): reason for path, reason in found.unread}


def test_specs_are_found_in_the_order_of_their_paths(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "b/x.yml", "a/y.yaml", "a/inner/z.yaml", "c.yaml")
    found = find_specs([tmp_path])
    assert names(found, tmp_path) == ["c.yaml", "a/y.yaml", "a/inner/z.yaml", "b/x.yml"]
    assert (found.others, found.unread) == (0, [])


def test_hidden_and_generated_folders_are_skipped(tmp_path: pathlib.Path) -> None:
    put(tmp_path, ".git/a.yaml", "generated/b.yaml", "exp/generated/c.yaml", ".d.yaml", "e.yaml")
    assert names(find_specs([tmp_path]), tmp_path) == ["e.yaml"]


def test_folders_of_the_site_are_left_out(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "site/tests/refused.yaml", "exp.yaml")
    found = find_specs([tmp_path], [tmp_path / "site/tests", tmp_path / "missing"])
    assert names(found, tmp_path) == ["exp.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        "name: env\nchannels: [conda-forge]\ndependencies: [python]\n",
        "name: ci\non: push\njobs: {a: {steps: []}}\n",
        "Region: us-east-1\nImage: {Os: alinux2023}\nScheduling: {Scheduler: slurm}\n",
        "services:\n  web:\n    command: x\n    nodes: 1\n",
        "- name: play\n  hosts: all\n",
        "",
    ],
    ids=["conda", "workflow", "cluster", "nested", "list", "empty"],
)
def test_other_yaml_files_are_counted(text: str, tmp_path: pathlib.Path) -> None:
    put(tmp_path, "other.yaml", text=text)
    found = find_specs([tmp_path])
    assert (found.specs, found.others, found.unread) == ([], 1, [])


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffname: a\ncluster: small\n",
        "extends: base.yaml\nname: b\n",
        "framework: torchrun\nscript: 'broken\n",
        "name: a\r\ncluster : small\r\n",
    ],
    ids=["byte order mark", "extends", "broken", "CRLF"],
)
def test_a_spec_is_known_by_two_of_its_keys(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "exp.yaml").write_bytes(text.encode())
    assert names(find_specs([tmp_path]), tmp_path) == ["exp.yaml"]


def test_a_file_may_be_named_itself(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "a.yaml", "b.yaml")
    assert names(find_specs([tmp_path / "b.yaml"]), tmp_path) == ["b.yaml"]


def test_no_folder_is_visited_twice(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "a/x.yaml", "b/y.yaml")
    (tmp_path / "b/link").symlink_to(tmp_path / "a")
    found = find_specs([tmp_path, tmp_path / "a", tmp_path / "b"])
    assert names(found, tmp_path) == ["a/x.yaml", "b/y.yaml"]
    assert found.unread == []


def test_a_linked_folder_is_followed_once(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "elsewhere/x.yaml")
    (tmp_path / "users").mkdir()
    for name in ("a", "b"):
        (tmp_path / "users" / name).symlink_to(tmp_path / "elsewhere")
    assert names(find_specs([tmp_path / "users"]), tmp_path) == ["users/a/x.yaml"]


def test_loops_and_dangling_links_are_reported(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "a/x.yaml")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "self.yaml").symlink_to("self.yaml")
    (tmp_path / "gone.yaml").symlink_to("nothing")
    found = find_specs([tmp_path])
    assert names(found, tmp_path) == ["a/x.yaml"]
    assert reasons(found, tmp_path) == {
        "a/up": "a link to a folder above it: not followed",
        "self.yaml": "a link that leads to itself",
        "gone.yaml": "a link to a file that does not exist",
    }


def test_pipes_and_huge_files_are_reported_and_not_read(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    put(tmp_path, "huge.yaml", text=SPEC + "# " + 10 * MAX_BYTES * "x")
    put(tmp_path, "fine.yaml")
    found = find_specs([tmp_path])
    assert names(found, tmp_path) == ["fine.yaml"]
    assert "a pipe" in reasons(found, tmp_path)["pipe.yaml"]
    assert reasons(found, tmp_path)["huge.yaml"].startswith("more than 1,048,576 bytes")


def test_names_that_are_not_utf8_are_found(tmp_path: pathlib.Path) -> None:
    folder = os.fsencode(tmp_path) + b"/f\xff"
    os.mkdir(folder)  # noqa: PTH102
    with open(folder + b"/e\xfe.yaml", "w") as file:  # noqa: PTH123
        file.write(SPEC)
    (found,) = find_specs([tmp_path]).specs
    assert os.fsencode(found).endswith(b"/f\xff/e\xfe.yaml")


@pytest.fixture
def as_ordinary_user() -> Iterator[pathlib.Path]:
    """A folder of a user who is not root, and the test runs as that user."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if is_root:
            os.chown(folder, 65534, -1)
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)


def test_what_may_not_be_read_is_reported(as_ordinary_user: pathlib.Path) -> None:
    folder = as_ordinary_user
    put(folder, "closed/x.yaml", "listed/y.yaml", "open/y.yaml", "z.yaml")
    (folder / "closed").chmod(0)
    (folder / "listed").chmod(0o444)
    (folder / "z.yaml").chmod(0)
    found = find_specs([folder])
    (folder / "closed").chmod(0o700)
    (folder / "listed").chmod(0o700)
    assert names(found, folder) == ["open/y.yaml"]
    assert reasons(found, folder) == dict.fromkeys(
        ("closed", "listed/y.yaml", "z.yaml"), "Permission denied"
    )


def test_a_folder_that_vanishes_is_reported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "gone/x.yaml", "y.yaml")
    scandir = os.scandir

    def scan(folder: str) -> object:
        if str(folder).endswith("gone"):
            pathlib.Path(folder).rename(tmp_path / ".gone")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scan)
    found = find_specs([tmp_path])
    assert names(found, tmp_path) == ["y.yaml"]
    assert reasons(found, tmp_path) == {"gone": "it vanished meanwhile"}


def test_files_that_others_extend_are_known(tmp_path: pathlib.Path) -> None:
    put(tmp_path, "base.yaml", "second.yaml")
    put(tmp_path, "a/x.yaml", text="name: x\nextends: [../base.yaml, ../second.yaml]\nnodes: 1\n")
    put(tmp_path, "y.yaml", text="name: y\nextends: base.yaml\nnodes: 1\n")
    put(tmp_path, "broken.yaml", text="name: y\nextends: [\nnodes: 1\n")
    found = find_specs([tmp_path])
    assert {os.path.relpath(path, tmp_path) for path in found.bases} == {
        "base.yaml",
        "second.yaml",
    }
