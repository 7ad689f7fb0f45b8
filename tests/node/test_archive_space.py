"""Archives that are larger than the disk: refused, and the disk is not left full."""

from __future__ import annotations

import bz2
import gzip
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import types
import zipfile

import pytest
from node_programs import STAGE_FOLDER, command, write_tree
from small_disk import on_a_small_disk

# Prints what is left beside the target, and the free space in KiB.
_AND_LOOK = """
"$@"; code=$?; ls -A "$0"; df --output=avail "$0" | tail -n 1; exit $code
"""


def stage(disk: pathlib.Path, archive: pathlib.Path, *program: str) -> tuple[int, str, list[str]]:
    """Exit code and message of stage.py on a disk of 3 MiB, and what is left there."""
    disk.mkdir()
    words = program or command("stage.py", "--unpack", archive, disk / "to")
    done = on_a_small_disk(disk, "bash", "-c", _AND_LOOK, str(disk), *words)
    *lines, free = done.stdout.splitlines()
    assert int(free) > 2900, done.stdout + done.stderr
    said = [line for line in lines if line.startswith("clusterjobs: ")]
    return done.returncode, "\n".join(said), [line for line in lines if line not in said]


def tar_with(*sizes: int) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        for number, size in enumerate(sizes):
            one = tarfile.TarInfo(str(number))
            one.size = size
            file.addfile(one, io.BytesIO(bytes(size)))
    return archive.getvalue()


def write_zip(path: pathlib.Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(3):
            file.writestr(str(number), bytes(2 << 20))


def write_sparse(path: pathlib.Path, form: str = "gnu", size: int = 8 << 30) -> None:
    folder = path.with_name("sparse files")
    folder.mkdir()
    with (folder / "sparse").open("wb") as file:
        file.truncate(size)
    words = ["tar", f"--format={form}", "-S", "-C", folder, "-cf", path, "."]
    subprocess.run(words, check=True)


@pytest.mark.parametrize(
    ("name", "write", "why"),
    [
        ("a.zip", write_zip, "6.29 MB needed, "),
        (
            "a.tar.gz",
            lambda path: path.write_bytes(gzip.compress(tar_with(6 << 20))),
            "6.3 MB needed, ",
        ),
        ("a.tar", lambda path: path.write_bytes(tar_with(6 << 20)), "6.3 MB needed, "),
        (
            "a.tar.bz2",
            lambda path: path.write_bytes(bz2.compress(tar_with(6 << 20))),
            "MB written, at least 1.05 MB more needed, ",
        ),
        (
            "many.tar.bz2",
            lambda path: path.write_bytes(bz2.compress(tar_with(*[1 << 20] * 6))),
            "MB written, at least 1.05 MB more needed, ",
        ),
        ("sparse.tar", write_sparse, "8.59 GB needed, "),
    ],
)
def test_an_archive_larger_than_the_disk_is_refused_with_numbers(
    tmp_path, name, write, why, fault_table
) -> None:
    disk = tmp_path / "disk"
    write(tmp_path / name)
    code, said, left = stage(disk, tmp_path / name)
    assert code == 1
    assert f"stage failed: {disk}/to: not enough space: " in said
    assert f"{why}{disk} has " in said
    assert "free, and 31.5 kB must stay free" in said
    assert left == []
    fault_table.append(f"{name} larger than the disk: exit code 1; {why}nothing left on the disk")


def test_a_disk_that_is_full_without_notice_is_cleaned(tmp_path) -> None:
    """As with a quota: the file system shows more free space than there is."""
    (tmp_path / "a.tar.bz2").write_bytes(bz2.compress(tar_with(6 << 20)))
    words = f"['stage.py', '--unpack', '{tmp_path}/a.tar.bz2', '{tmp_path}/disk/to']"
    program = (
        f"import sys; sys.path.insert(0, {str(STAGE_FOLDER)!r}); import stage_space, stage; "
        "stage_space._measure = lambda _: (1 << 40, 0); "
        f"sys.argv = {words}; sys.exit(stage.main())"
    )
    code, said, left = stage(
        tmp_path / "disk", tmp_path / "a.tar.bz2", sys.executable, "-Bc", program
    )
    assert code == 1
    why = 'written, then: tar: "?0"?: .*(No space|Wrote only)'
    assert re.search(f"not enough space: .* {why}", said)
    assert left == []


@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_a_sparse_file_is_unpacked_as_one(tmp_path, staged, form) -> None:
    write_sparse(tmp_path / "a.tar", form, 64 << 20)
    done = staged("--unpack", tmp_path / "a.tar", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    status = (tmp_path / "to" / "sparse").stat()
    assert (status.st_size, status.st_blocks < 100) == (64 << 20, True)


def test_hard_links_need_no_space_of_their_own(tmp_path) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as file:
        one = tarfile.TarInfo("0")
        one.size = 1 << 20
        file.addfile(one, io.BytesIO(bytes(one.size)))
        for number in range(1, 9):
            one = tarfile.TarInfo(str(number))
            one.type, one.linkname = tarfile.LNKTYPE, "0"
            file.addfile(one)
    disk = tmp_path / "disk"
    disk.mkdir()
    done = on_a_small_disk(disk, *command("stage.py", "--unpack", archive, disk / "to"))
    assert done.returncode == 0, done.stdout
    assert "complete, 9 files, 9.44 MB" in done.stdout


@pytest.fixture
def free(modules, monkeypatch) -> list[int]:
    """The last number is the free space, of which 100 bytes must stay free."""
    import stage_space

    numbers = [1 << 40]

    def measure(_: object) -> tuple[int, int]:
        return (numbers.pop(0) if len(numbers) > 1 else numbers[0]), 100

    monkeypatch.setattr(stage_space, "_measure", measure)
    monkeypatch.setattr(stage_space, "_MEASURE_SECONDS", 0)
    return numbers


def test_a_copy_ends_before_others_have_filled_the_disk(tmp_path, free) -> None:
    import stage

    source = write_tree(tmp_path / "source")
    free[:] = [1 << 40, 1 << 40, 99]  # the others come after the check
    with pytest.raises(stage.StageError, match="not enough space: others have used it"):
        stage.Stage(stage.Options(str(source), str(tmp_path / "to"))).run()
    assert not (tmp_path / ".to.stage").exists()
    assert not (tmp_path / "to").exists()


def test_data_that_is_there_is_used_and_verified_on_a_full_disk(tmp_path, free, capsys) -> None:
    import stage

    source = write_tree(tmp_path / "source")
    options = stage.Options(str(source), str(tmp_path / "to"))
    stage.Stage(options).run()
    free[:] = [0]
    stage.Stage(options).run()
    stage.Stage(options._replace(reread=True)).run()
    assert capsys.readouterr().out.count("complete") == 2


def test_nothing_stays_of_an_object_that_is_a_damaged_archive(
    tmp_path, modules, monkeypatch
) -> None:
    import stage

    def fetch_object(source: str, path: str, *_: object) -> None:
        pathlib.Path(path).write_bytes(tar_with(1000)[:700])

    monkeypatch.setitem(sys.modules, "stage_s3", types.SimpleNamespace(fetch_object=fetch_object))
    options = stage.Options("s3://corpus/a.tar", str(tmp_path / "to"), unpack=True)
    with pytest.raises(stage.StageError, match=r"^s3://corpus/a.tar: tar: Unexpected EOF"):
        stage.Stage(options).run()
    assert not (tmp_path / ".to.stage").exists()
