"""What tar, gzip, bzip2, xz and unzip accept is unpacked; what is not whole is refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pathlib
import random
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from archives import pack, unpack, write_source
from node_programs import content


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    return write_source(tmp_path / "source", random.Random(1))


def refusal(archive: pathlib.Path, data: bytes) -> str:
    """Why stage.py refuses an archive, without the archive's name."""
    import stage_log

    archive.write_bytes(data)
    with pytest.raises(stage_log.StageError) as caught:
        unpack(archive, archive.parent)
    assert not (archive.parent / ".to.stage" / "copy").exists()
    assert isinstance(caught.value, stage_log.SourceError)  # a retry would be refused, too
    said = str(caught.value).replace(f"{archive}: ", "")
    return said.removesuffix(": copy or pack it again").removesuffix(
        ": pack the archive again without it"
    )


def end_of_members(data: bytes) -> int:
    """Where the end-of-archive marker of a tar begins."""
    with tarfile.open(fileobj=io.BytesIO(data)) as file:
        last = file.getmembers()[-1]
        return last.offset_data + -(-last.size // 512) * 512


def in_two(compress: Callable[[bytes], bytes], data: bytes, between: bytes = b"") -> bytes:
    middle = len(data) // 2
    return compress(data[:middle]) + between + compress(data[middle:])


@pytest.mark.parametrize(
    ("kind", "compress"),
    [
        ("tar.gz", lambda data: in_two(gzip.compress, data)),
        ("tar.gz", lambda data: gzip.compress(data) + bytes(1001)),
        ("tar.bz2", lambda data: in_two(bz2.compress, data)),
        ("tar.xz", lambda data: in_two(lzma.compress, data, bytes(8)) + bytes(4)),
        ("tar.xz", lambda data: lzma.compress(data, check=lzma.CHECK_SHA256)),
        ("tar.xz", lambda data: lzma.compress(data, check=lzma.CHECK_NONE)),
        ("tar", lambda data: data + bytes(100_001)),  # records may be of any size
        ("tar", lambda data: data[: end_of_members(data) + 512]),
    ],
)
def test_streams_and_padding_are_read_as_the_programs_read_them(
    tmp_path, modules, source, kind, compress
) -> None:
    data = compress(pack("tar", 1, source, tmp_path).read_bytes())
    (tmp_path / f"a.{kind}").write_bytes(data)
    (tmp_path / "theirs").mkdir()
    words = ["tar", "-xf", tmp_path / f"a.{kind}", "-C", tmp_path / "theirs"]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0
    assert unpack(tmp_path / f"a.{kind}", tmp_path) == content(tmp_path / "theirs")


@pytest.mark.parametrize(
    "options",
    [
        ["--format=v7", "--exclude=*long*"],
        ["--format=oldgnu"],
        ["--format=ustar", "--exclude=*long*"],
        ["--format=gnu", "--label=corpus", "--mtime=@99999999999"],
        ["--format=gnu", "--incremental", "--mtime=@-5"],
        ["--format=posix", "--mtime=@-1.5", "--pax-option=comment=x,globexthdr.name=g"],
        ["--sparse", "--blocking-factor=1"],
    ],
)
def test_each_format_of_tar_is_unpacked_as_tar_does(tmp_path, modules, source, options) -> None:
    os.link(source / "link", source / "another link", follow_symlinks=False)
    words = ["tar", *options, "-C", str(source), "-cf", str(tmp_path / "a.tar"), "."]
    subprocess.run(words, check=True, capture_output=True)
    (tmp_path / "theirs").mkdir()
    words = ["tar", "-xf", str(tmp_path / "a.tar"), "-C", str(tmp_path / "theirs")]
    subprocess.run(words, check=True, capture_output=True)
    assert unpack(tmp_path / "a.tar", tmp_path) == content(tmp_path / "theirs")


def test_the_last_member_of_a_name_counts(tmp_path, modules, source) -> None:
    archive = pack("tar", 0, source, tmp_path)
    (source / "part 0/0 name").write_text("newer")
    (source / "link").unlink()
    (source / "link").write_text("no link any more")
    (source / "part 1/1 name").unlink()
    (source / "part 1/1 name").symlink_to("0 name")
    subprocess.run(["tar", "-C", source, "-rf", archive, "."], check=True)
    found = unpack(archive, tmp_path)
    assert found[b"/part 0/0 name"][1] == b"newer"
    assert found[b"/link"][1] == b"no link any more"
    assert found[b"/part 1/1 name"] == b"0 name"


def test_archives_that_tar_takes_and_that_are_not_whole_are_refused(
    tmp_path, modules, source
) -> None:
    whole = pack("tar", 0, source, tmp_path).read_bytes()
    end = end_of_members(whole)
    archive = tmp_path / "a.tar"
    assert refusal(archive, whole[:end]) == "is cut off: it has no end-of-archive marker of tar"
    said = refusal(archive, whole[:end] + bytes(1024) + whole)
    assert said.startswith(f"has more data after tar's end-of-archive marker at byte {end}: ")
    said = refusal(archive, whole[:1024] + bytes(512) + whole[1536:])
    assert said.startswith("has more data after tar's end-of-archive marker")
    packed = bz2.compress(whole)
    for rest in (b"rest", bytes(8) + packed, bytes(1001)):  # bzip2 ignores them
        said = refusal(tmp_path / "a.tar.bz2", packed + rest)
        assert said.startswith("damaged bzip2 data: ")
        assert said.endswith("trailing garbage after EOF ignored")


def test_damages_are_named(tmp_path, modules, source) -> None:
    whole = pack("tar", 0, source, tmp_path).read_bytes()
    archive = tmp_path / "a.tar"
    assert refusal(archive, b"") == "is empty"
    for text in (
        b"version https://git-lfs.github.com\nsize 12",
        b"version https://git-lfs.github.com" * 99,
    ):
        said = refusal(archive, text)
        assert said.startswith(
            "is no tar archive, or damaged at its start: it starts with 'version"
        )
        assert said.endswith(": put the archive itself there, or leave unpack out")
    said = refusal(archive, whole[:1024] + b"!" + whole[1025:])
    assert said in (
        "tar: Skipping to next header",
        "tar: Archive contains obsolescent base-64 headers",
    )
    assert refusal(archive, whole[:700]) == "tar: Unexpected EOF in archive"
    packed = gzip.compress(whole)
    said = refusal(archive, packed[:-9])
    assert said == "damaged gzip data: gzip: stdin: unexpected end of file"
    wrong = packed[:-8] + b"!!!!" + packed[-4:]
    assert "crc error" in refusal(archive, wrong)
    for data in (packed + b"!", lzma.compress(whole) + bytes(3), b"\x28\xb5\x2f\xfd" + whole):
        assert refusal(archive, data).startswith("damaged ")


def test_zstd_without_its_program_says_what_to_install(tmp_path, modules, monkeypatch) -> None:
    (tmp_path / "tar").symlink_to(shutil.which("tar") or "tar")
    monkeypatch.setenv("PATH", str(tmp_path))
    said = refusal(tmp_path / "a.tar.zst", b"\x28\xb5\x2f\xfd")
    assert "this node has no program zstd: install it, or pack the archive with gzip" in said


def test_a_zstd_that_was_killed_says_nothing_about_the_archive(
    tmp_path, modules, monkeypatch
) -> None:
    import stage_log

    (tmp_path / "zstd").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "zstd").chmod(0o755)
    (tmp_path / "a.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(stage_log.StageError, match="zstd was killed by signal 9") as caught:
        unpack(tmp_path / "a.tar.zst", tmp_path)
    assert not isinstance(caught.value, stage_log.SourceError)  # a retry may succeed


def test_an_archive_that_changes_meanwhile_is_not_called_damaged(
    tmp_path, modules, source, monkeypatch
) -> None:
    """It may still be copied there: a retry can help."""
    import stage_archive
    import stage_log

    archive = tmp_path / "a.tar"
    archive.write_bytes(pack("tar", 0, source, tmp_path).read_bytes()[:2000])
    check_space = stage_archive.check_space

    def grow(*arguments: object) -> None:
        check_space(*arguments)
        os.utime(archive, (1, 1))

    monkeypatch.setattr(stage_archive, "check_space", grow)
    with pytest.raises(stage_log.StageError, match="changed while it was unpacked") as caught:
        unpack(archive, tmp_path)
    assert not isinstance(caught.value, stage_log.SourceError)


def test_a_zip_is_known_by_its_start(tmp_path, modules, source) -> None:
    archive = pack("zip", 0, source, tmp_path)
    expected = unpack(archive, tmp_path)
    assert unpack(archive.rename(tmp_path / "a.tar.gz"), tmp_path) == expected


def test_a_zip_with_a_name_like_a_pattern_is_checked_itself(tmp_path, modules, source) -> None:
    archive = pack("zip", 0, source, tmp_path)
    pattern = archive.rename(tmp_path / "a[1].zip")
    (tmp_path / "a1.zip").write_text("no zip")
    assert b"/link" in unpack(pattern, tmp_path)


def tar_of(one: tarfile.TarInfo) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as file:
        file.addfile(one, io.BytesIO(bytes(one.size)))
    return archive.getvalue()


@pytest.mark.parametrize("key", ["mtime", "size", "uid"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e30", "1" * 30, "0x1", "1 2"])
def test_an_impossible_value_of_an_extended_header_is_named(tmp_path, modules, key, value) -> None:
    one = tarfile.TarInfo("x")
    one.pax_headers = {key: value}
    if key == "mtime" and value[:2] not in ("na", "in", "11"):  # tar takes the first digits
        (tmp_path / "a.tar").write_bytes(tar_of(one))
        assert b"/x" in unpack(tmp_path / "a.tar", tmp_path)
        return
    said = refusal(tmp_path / "a.tar", tar_of(one))
    assert "xtended header" in said
    assert f"{key}={value}" in said


@pytest.mark.parametrize("value", ["-1.5", "-99999999999", "9" * 12, str((1 << 63) - 1)])
def test_an_unusual_time_is_taken(tmp_path, modules, value) -> None:
    one = tarfile.TarInfo("x")
    one.pax_headers = {"mtime": value}
    (tmp_path / "a.tar").write_bytes(tar_of(one))
    assert b"/x" in unpack(tmp_path / "a.tar", tmp_path)


def test_permissions_obey_the_umask(tmp_path, modules) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        for name, kind, mode in (("d", tarfile.DIRTYPE, 0o2777), ("f", tarfile.REGTYPE, 0o6777)):
            one = tarfile.TarInfo(name)
            one.type, one.mode = kind, mode
            file.addfile(one)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for name, mode in (("d/", 0o40777), ("f", 0o106777)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            file.writestr(entry, b"")
    before = os.umask(0o027)
    try:
        for name in ("a.tar", "a.zip"):
            unpack(tmp_path / name, tmp_path)
            copy = tmp_path / ".to.stage" / "copy"
            modes = [oct((copy / one).stat().st_mode & 0o7777) for one in (".", "d", "f")]
            assert modes == ["0o750"] * 3
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", [".", "a/.."])
def test_a_file_without_a_possible_name_is_refused(tmp_path, modules, name) -> None:
    one = tarfile.TarInfo("x")
    one.pax_headers = {"path": name}
    said = refusal(tmp_path / "a.tar", tar_of(one))
    assert said.endswith(("has no possible name", "Member name contains '..'")), said


def test_a_file_in_place_of_a_folder_is_refused(tmp_path, modules, source) -> None:
    """tar refuses it as well, because the folder is not empty."""
    archive = pack("tar", 0, source, tmp_path)
    (tmp_path / "part 0").write_text("a file")
    subprocess.run(["tar", "-C", tmp_path, "-rf", archive, "part 0"], check=True)
    assert refusal(archive, archive.read_bytes()).endswith('part 0": Cannot open: File exists')


def test_names_of_a_zip_keep_their_bytes(tmp_path, modules) -> None:
    name = os.fsdecode(b"\xff\xfe \xc3\xbc")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / name).write_text("x")
    words = ["zip", "-qr", tmp_path / "a.zip", "."]
    subprocess.run(words, cwd=tmp_path / "source", check=True, env={**os.environ, "LC_ALL": "C"})
    assert list(unpack(tmp_path / "a.zip", tmp_path)) == [b"/" + os.fsencode(name)]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_look_like_the_listing_of_tar_are_names(tmp_path, modules, kind) -> None:
    """What was unpacked is compared with lines such as `block 9: lrwx... DATE NAME -> TARGET`."""
    source = tmp_path / "source"
    for name in (
        "a -> b", "c link to d", "  two spaces", "back\\slash", "back\\nslash", "-rf", "*?[x]", "~",
        "line\nbreak", "tab\t", "x\nblock 1: ** Block of NULs **\n", "Creating directory: x",
        "block 1: -rw-r--r-- 0/0 7 1970-01-01 00:00 x", "d -> e/f link to g/h", "\x7f\x01é",
    ):  # fmt: skip
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (source / "l -> m").symlink_to("a -> b")
    for name in ("h", "h link to a", "h link to a -> b link to a -> b"):
        (source / name).hardlink_to(source / "a -> b")
    words = ["tar", "-cf", "../a.tar", "."] if kind == "tar" else ["zip", "-qyr", "../a.zip", "."]
    subprocess.run(words, cwd=source, check=True)
    found, wanted = unpack(tmp_path / f"a.{kind}", tmp_path), content(source)
    assert {name: row[1] for name, row in found.items() if isinstance(row, tuple)} == {
        name: row[1] for name, row in wanted.items() if isinstance(row, tuple)
    }
    assert found.keys() == wanted.keys()
