"""stage.py --unpack: archives of each kind, and those that nobody should unpack."""

from __future__ import annotations

import io
import pathlib
import tarfile
import zipfile

import pytest
from node_programs import content, write_tree

KINDS = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}


def tar_of(folder: pathlib.Path, archive: pathlib.Path) -> pathlib.Path:
    mode = next(mode for end, mode in KINDS.items() if archive.name.endswith(end))
    with tarfile.open(archive, mode) as file:
        file.add(folder, ".")
    return archive


def without_times(folder: pathlib.Path) -> dict[bytes, object]:
    return {
        name: found[:2] if isinstance(found, tuple) else found
        for name, found in content(folder).items()
    }


@pytest.mark.parametrize("end", [*KINDS, ".zip"])
def test_an_archive_of_each_kind_is_unpacked_as_it_was(tmp_path, staged, end) -> None:
    source = write_tree(tmp_path / "source", 10, 40 << 20 if end == ".tar" else 100_000)
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o755)
    if end == ".zip":
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
            for path in sorted(source.rglob("*")):
                file.write(path, path.relative_to(source))
    else:
        (source / "link").symlink_to("part 1/0001")
        (source / "hard").hardlink_to(source / "large")
        tar_of(source, tmp_path / f"a{end}")
    done = staged("--unpack", tmp_path / f"a{end}", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert without_times(tmp_path / "to") == without_times(source)
    assert "up to date" in staged("--unpack", tmp_path / f"a{end}", tmp_path / "to").stdout
    (tmp_path / "to" / "large").write_bytes(b"broken")
    assert "complete" in staged("--unpack", tmp_path / f"a{end}", tmp_path / "to").stdout
    assert without_times(tmp_path / "to") == without_times(source)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    one = tarfile.TarInfo(name)
    one.type, one.linkname = kind, link
    return one


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([member("../out")], 'tar: "../out": Member name contains'),
        ([member("/tmp/out")], "member /tmp/out leads out of the target"),
        ([member("a/../../out")], 'tar: "a/../../out": Member name contains'),
        ([member("a", tarfile.SYMTYPE, "/etc")], "member a is a link that leads out of the target"),
        ([member("a", tarfile.SYMTYPE, "../x")], "member a is a link that leads out of the target"),
        (
            [
                member("d1/d2", tarfile.DIRTYPE),
                member("d1/d2/x", tarfile.SYMTYPE, "../.."),
                member("y", tarfile.SYMTYPE, "d1/d2/x/../secret"),
            ],
            "member y is a link that leads out of the target",
        ),
        (
            [
                member("d1/d2", tarfile.DIRTYPE),
                member("d1/d2/x", tarfile.SYMTYPE, "../.."),
                member("y", tarfile.SYMTYPE, "d1/d2/x/.."),
                member("y/made", tarfile.SYMTYPE, "z"),
            ],
            'tar: "y/made": Cannot create symlink to',
        ),
        ([member("a", tarfile.LNKTYPE, "../x")], 'tar: "a": Cannot hard link to'),
        (
            [member("x"), member("a", tarfile.LNKTYPE, "../x")],
            "tar: Removing leading `../' from hard link targets",
        ),
        ([member("a", tarfile.LNKTYPE, "nothing")], 'tar: "a": Cannot hard link to'),
        ([member("a", tarfile.CHRTYPE)], "member a is not a file, a folder or a link"),
        ([member("a", tarfile.FIFOTYPE)], "member a is not a file, a folder or a link"),
    ],
)
def test_members_that_reach_out_are_refused_by_name(tmp_path, staged, members, why) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        for one in [member("good"), *members]:
            file.addfile(one)
    done = staged("--unpack", tmp_path / "a.tar", tmp_path / "to")
    assert done.returncode == 1
    assert f"stage failed: {tmp_path}/a.tar: {why}" in done.stdout
    assert not (tmp_path / "to").exists()


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path, staged) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        file.addfile(member("real", tarfile.DIRTYPE))
        file.addfile(member("a", tarfile.SYMTYPE, "real"))
        one = member("a/x")
        one.size = 1
        file.addfile(one, io.BytesIO(b"1"))
    done = staged("--unpack", tmp_path / "a.tar", tmp_path / "to")
    assert done.returncode == 1
    assert not (tmp_path / "to").exists()


def test_an_archive_that_is_cut_off_or_none_is_named(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source", 10, 300_000)
    for end in (".tar", ".tar.gz", ".tar.xz"):
        archive = tar_of(source, tmp_path / f"a{end}")
        archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
        done = staged("--unpack", archive, tmp_path / "to")
        assert done.returncode == 1, end
        assert f"stage failed: {archive}: " in done.stdout
        assert "Traceback" not in done.stdout
    (tmp_path / "b.zip").write_text("no zip")
    done = staged("--unpack", tmp_path / "b.zip", tmp_path / "to")
    assert done.returncode == 1
    said = f"{tmp_path}/b.zip: is no zip archive, or damaged at its start: it starts with 'no zip'"
    assert said in done.stdout
    assert not (tmp_path / "to").exists()
