"""export.py: what is new goes to a folder or a bucket; what fails is tried again and said."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from typing import IO, Any

import pytest
from node_programs import STAND_INS, command, content, write_tree

from clusterjobs.lab.lab import until


def exported(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("export.py", *arguments),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


def without_record(target: pathlib.Path) -> dict[bytes, object]:
    """The exported contents: all but the hidden file that says what was exported."""
    found = content(target)
    return {name: data for name, data in found.items() if not name.startswith(b"/.exported-")}


def test_a_folder_is_brought_up_to_date_and_nothing_is_removed(tmp_path) -> None:
    source, target = write_tree(tmp_path / "saved", 10, 1000), tmp_path / "kept" / "here"
    done = exported(source, target)
    assert done.returncode == 0, done.stdout
    assert f"export {source}: to {target}, 11 files" in done.stdout
    assert without_record(target) == content(source)
    assert exported(source, target).stdout == ""
    (source / "large").write_text("newer")
    (source / "part 1" / "0001").unlink()
    assert "1 file" in exported(source, target).stdout
    assert (target / "large").read_text() == "newer"
    assert (target / "part 1" / "0001").exists()


def test_what_names_the_latest_goes_last(tmp_path, modules) -> None:
    import export_folder

    saved = tmp_path / "saved"
    (saved / "step-9").mkdir(parents=True)
    for number, name in enumerate(["latest", "step-9/b", "step-9/a"]):
        (saved / name).write_text(name)
        os.utime(saved / name, ns=(number, number))
    found = [name for name, _ in export_folder.files_of(str(saved))]
    assert found == [
        "step-9/b",
        "step-9/a",
        "latest",
    ]


def states(folder: pathlib.Path) -> list[tuple[str, str]]:
    """What `clusterjobs status` is told of exports."""
    text = (folder / "data.jsonl").read_text()
    return [(one["what"], one["said"]) for one in map(json.loads, text.splitlines())]


def test_the_state_of_an_export_is_recorded_for_status(tmp_path) -> None:
    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    target.mkdir()
    (target / "latest").write_text("mine")
    assert exported(source, target, STAGE_DIR=str(tmp_path)).returncode == 1
    what, begun = f"export {source} to {target}", "INCOMPLETE: the last copy has not ended"
    (_, first), (name, said) = states(tmp_path)
    assert (name, first) == (what, begun)
    assert said.startswith(f"INCOMPLETE: {target}/latest exists and was not exported from {source}")
    assert exported("--overwrite", source, target, STAGE_DIR=str(tmp_path)).returncode == 0
    assert states(tmp_path)[2:] == [(what, begun), (what, "complete")]


def test_the_state_of_an_export_is_recorded_only_if_it_is_new(
    tmp_path, modules, monkeypatch
) -> None:
    """The folder that has the record may itself be exported."""
    import export

    monkeypatch.setenv("STAGE_DIR", str(tmp_path))
    one = export.Export(str(checkpoints(tmp_path / "saved")), str(tmp_path / "file" / "kept"))
    (tmp_path / "file").touch()
    for _ in range(3):
        assert not export._export_with_retries(one, 10, 1)
    (tmp_path / "file").unlink()
    for _ in range(3):
        assert export._export_with_retries(one, 10, 1)
    (_, failed), (_, good) = states(tmp_path)
    assert failed.startswith(f"failed: {tmp_path}/file/kept")
    assert good == "up to date"


def test_several_folders_and_one_that_is_not_there_yet(tmp_path) -> None:
    write_tree(tmp_path / "a", 3, 10)
    done = exported(tmp_path / "a", tmp_path / "A", tmp_path / "no", tmp_path / "N")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "A" / "large").exists()
    assert not (tmp_path / "N").exists()


@pytest.mark.slow
def test_an_export_that_cannot_be_is_tried_again_and_said(tmp_path) -> None:
    write_tree(tmp_path / "a", 3, 10)
    (tmp_path / "file").touch()
    done = exported(tmp_path / "a", tmp_path / "file" / "x", tmp_path / "a", tmp_path / "B")
    assert done.returncode == 1
    assert done.stdout.count(f"export failed: {tmp_path}/file/x") == 3
    assert f"export {tmp_path}/a: INCOMPLETE in {tmp_path}/file/x" in done.stdout
    assert (tmp_path / "B" / "large").exists()


def test_beside_a_training_it_goes_on_until_it_is_told_to_end(tmp_path) -> None:
    source = write_tree(tmp_path / "saved", 3, 10)
    old = 1_000_000_000
    os.utime(source / "large", (old, old))
    process = subprocess.Popen(command("export.py", "--every", "0.1", source, tmp_path / "kept"))
    try:
        until((tmp_path / "kept" / "large").exists, 120, lambda: "not exported")
        assert not (tmp_path / "kept" / "part 1").exists()  # written just now: may not be whole
        os.utime(source / "part 1" / "0001", (old, old))
        until((tmp_path / "kept/part 1/0001").exists, 120, lambda: "not exported")
    finally:
        process.terminate()
        assert process.wait(30) == 143


@pytest.fixture(params=["aws", "s5cmd"])
def bucket(request, tmp_path) -> dict[str, str]:
    """The environment in which a stand-in has the bucket `corpus`."""
    tools, buckets = tmp_path / "bin", tmp_path / "buckets"
    tools.mkdir()
    path = tools / request.param
    path.write_text(f"#!{sys.executable}\n" + (STAND_INS / "bucket_tool.py").read_text())
    path.chmod(0o755)
    (buckets / "corpus").mkdir(parents=True)
    faults = str(tmp_path / "faults")
    return {"PATH": f"{tools}:/usr/bin:/bin", "BUCKETS": str(buckets), "FAULTS": faults}


def names(root: pathlib.Path) -> set[str]:
    found = {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()}
    return {name for name in found if not name.startswith(".exported-")}


@pytest.mark.slow
def test_a_bucket_gets_the_same(tmp_path, bucket) -> None:
    buckets, faults = tmp_path / "buckets", tmp_path / "faults"
    faults.write_text('{"fail": 3}')  # its listing is tried three times
    source = write_tree(tmp_path / "saved", 5, 1000)
    (source / "latest").write_text("step-1")
    done = exported(source, "s3://corpus/saved", **bucket)
    assert done.returncode == 0, done.stdout
    assert "export failed: s3://corpus/saved: An error occurred (InternalError)" in done.stdout
    assert names(buckets / "corpus" / "saved") == names(source)
    calls = (buckets / ".calls").read_text().splitlines()
    uploads = [call for call in calls if '"sync"' in call]
    assert "latest" in uploads[0]
    assert "latest" not in uploads[1]
    faults.write_text('{"fail": 99}')
    done = exported(source, "s3://corpus/saved", **bucket)
    assert done.returncode == 1
    assert f"export {source}: INCOMPLETE in s3://corpus/saved" in done.stdout


def test_in_a_bucket_the_latest_is_one_that_was_there_before_all_was_copied(
    tmp_path, bucket
) -> None:
    kept = tmp_path / "buckets" / "corpus"
    source = tmp_path / "the latest run"
    (source / "step-latest").mkdir(parents=True)
    (source / "step-1").write_text("step-1")
    (source / "latest").write_text("step-1")
    (source / "step-latest" / "weights").write_bytes(b"w" * (2 << 20))
    (tmp_path / "faults").write_text('{"train": 1}')
    assert exported(source, "s3://corpus", **bucket).returncode == 0
    assert (source / "latest").read_text() == "step-2"
    assert (kept / "latest").read_text() == "step-1"
    assert names(kept) == {"step-1", "latest", "step-latest/weights"}
    assert exported(source, "s3://corpus", **bucket).returncode == 0
    assert (kept / "latest").read_text() == "step-2"
    assert names(kept) == names(source)


def checkpoints(folder: pathlib.Path) -> pathlib.Path:
    """Three, and a file that names the third; all written long ago."""
    folder.mkdir()
    for number, name in enumerate(["step-1", "step-2", "step-3", "latest"]):
        (folder / name).write_text(name)
        os.utime(folder / name, (number, number))
    return folder


def test_the_latest_is_held_back_while_something_is_new(tmp_path, modules) -> None:
    import export

    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    later = time.time() + 3600
    os.utime(source / "step-3", (later, later))
    one = export.Export(str(source), str(target))
    export.export(one, 10)
    assert names(target) == {"step-1", "step-2"}
    export.export(one, 0)
    assert names(target) == names(source)


def test_the_latest_is_held_back_while_something_is_written_to(
    tmp_path, modules, monkeypatch, capsys
) -> None:
    import export
    import export_folder

    copy = shutil.copyfileobj

    def training(origin: IO[bytes], *rest: Any) -> None:
        copy(origin, *rest)
        if origin.name.endswith("step-2"):
            os.utime(origin.name, (os.stat(origin.name).st_mtime + 1,) * 2)

    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    one = export.Export(str(source), str(target))
    monkeypatch.setattr(export.time, "sleep", lambda _: None)
    monkeypatch.setattr(export_folder.shutil, "copyfileobj", training)
    assert not export._export_with_retries(one, 0, export.ROUNDS)
    assert names(target) == {"step-1", "step-3"}
    said = capsys.readouterr().out
    assert f"export failed: {source}/step-2: changed while it was copied" in said
    assert f"export {source}: INCOMPLETE in {target}" in said
    monkeypatch.setattr(export_folder.shutil, "copyfileobj", copy)
    assert export._export_with_retries(one, 0, export.ROUNDS)
    assert names(target) == names(source)


def test_what_links_name_stays_where_it_is(tmp_path, bucket) -> None:
    """A user's secret, for example."""
    folder, wanted = tmp_path / "17", {"out.log", "attempt/log"}
    (folder / "attempt").mkdir(parents=True)
    for name in wanted:
        (folder / name).write_text(name)
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    done = exported(folder, tmp_path / "kept", folder, "s3://corpus/logs", **bucket)
    assert done.returncode == 0, done.stdout
    assert names(tmp_path / "kept") == names(tmp_path / "buckets/corpus/logs") == wanted


def test_a_copy_that_does_not_fit_leaves_the_old_one(tmp_path, modules, monkeypatch) -> None:
    import errno

    import export
    import export_folder

    source, target = tmp_path / "saved", tmp_path / "kept"
    source.mkdir()
    (source / "w").write_text("old")
    one = export.Export(str(source), str(target))
    export.export(one, 0)

    def full(_: object, file: object, __: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "ignored")

    (source / "w").write_text("newer")
    monkeypatch.setattr(export_folder.shutil, "copyfileobj", full)
    with pytest.raises(export.StageError, match="kept/w: No space left on device"):
        export.export(one, 0)
    assert (target / "w").read_text() == "old"
    assert names(target) == {"w"}


# ------------------------------------------------------------------ what was not exported


def test_a_users_own_file_is_not_overwritten_unless_the_spec_says_so(tmp_path) -> None:
    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    target.mkdir()
    (target / "latest").write_text("of another training")
    done = exported(source, target)
    assert done.returncode == 1
    said = f"export failed: {target}/latest exists and was not exported from {source}: NOTHING IS"
    assert done.stdout.count(said) == 1  # another try would get the same answer
    assert "set overwrite: true beside export" in done.stdout
    assert f"export {source}: INCOMPLETE in {target}" in done.stdout
    assert names(target) == {"latest"}
    assert (target / "latest").read_text() == "of another training"
    assert exported("--overwrite", source, target).returncode == 0
    assert (target / "latest").read_text() == "latest"
    (source / "latest").write_text("newer")
    assert exported(source, target).returncode == 0
    assert (target / "latest").read_text() == "newer"


def test_what_somebody_has_changed_in_the_target_is_not_overwritten(tmp_path) -> None:
    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    assert exported(source, target).returncode == 0
    (target / "latest").write_text("mine")
    (source / "latest").write_text("newer")
    done = exported(source, target)
    assert done.returncode == 1
    said = f"{target}/latest was changed there since the last export: NOTHING IS COPIED: choose"
    assert f"export failed: {said}" in done.stdout
    assert (target / "latest").read_text() == "mine"
    (target / "step-1").write_text("mine")
    said = f"{target}/latest and 1 other file were changed there since the last export: NOTHING"
    (source / "step-1").write_text("newer")
    assert f"export failed: {said}" in exported(source, target).stdout


def test_a_bucket_keeps_objects_that_were_not_exported(tmp_path, bucket) -> None:
    source, kept = checkpoints(tmp_path / "saved"), tmp_path / "buckets" / "corpus" / "kept"
    kept.mkdir()
    (kept / "latest").write_text("of another training")
    done = exported(source, "s3://corpus/kept", **bucket)
    assert done.returncode == 1
    assert "s3://corpus/kept/latest exists and was not exported from " in done.stdout
    assert names(kept) == {"latest"}
    assert (kept / "latest").read_text() == "of another training"
    assert exported("--overwrite", source, "s3://corpus/kept", **bucket).returncode == 0
    assert (kept / "latest").read_text() == "latest"
    (source / "latest").write_text("newer")
    (source / "step-4").write_text("step-4")
    assert exported(source, "s3://corpus/kept", **bucket).returncode == 0
    assert (kept / "latest").read_text() == "newer"
    assert names(kept) == names(source)


@pytest.mark.parametrize("lost", ["removed by the user", "copied back", "copied back with times"])
@pytest.mark.parametrize("to", ["folder", "bucket"])
def test_after_the_source_was_lost_its_export_goes_on(tmp_path, bucket, to, lost) -> None:
    """In the same place the training starts anew, or continues with what was copied back."""
    source, kept = checkpoints(tmp_path / "saved"), tmp_path / "buckets" / "corpus" / "kept"
    target = kept if to == "folder" else "s3://corpus/kept"
    assert exported(source, target, **bucket).returncode == 0
    shutil.rmtree(source)
    if "copied back" in lost:
        shutil.copytree(
            kept, source, copy_function=shutil.copy2 if "times" in lost else shutil.copy
        )
    source.mkdir(exist_ok=True)
    (source / "latest").write_text("newer")
    (source / "step-1").write_text("newer")
    done = exported(source, target, **bucket)
    assert done.returncode == 0, done.stdout
    assert (kept / "latest").read_text() == (kept / "step-1").read_text() == "newer"
    assert names(kept) == {"step-1", "step-2", "step-3", "latest"}
    assert len([one for one in os.listdir(kept) if one.startswith(".exported-")]) == 1


def test_another_source_does_not_overwrite_what_one_has_exported(tmp_path, bucket) -> None:
    one, other = checkpoints(tmp_path / "one"), checkpoints(tmp_path / "other")
    (other / "latest").write_text("of the other")
    for target in (tmp_path / "kept", "s3://corpus/kept"):
        assert exported(one, target, **bucket).returncode == 0
        assert exported(other, target, **bucket).returncode == 1
    for kept in (tmp_path / "kept", tmp_path / "buckets" / "corpus" / "kept"):
        assert (kept / "latest").read_text() == "latest"


@pytest.mark.parametrize("has_times", [True, False])
def test_files_that_are_the_same_count_as_exported(tmp_path, has_times) -> None:
    """Those that a user has copied to the target, for example."""
    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    shutil.copytree(source, target, copy_function=shutil.copy2 if has_times else shutil.copy)
    for text in ("latest", "newer"):
        (source / "latest").write_text(text)
        done = exported(source, target)
        assert done.returncode == 0, done.stdout
        assert (target / "latest").read_text() == text


def test_other_files_that_were_not_exported_are_counted(tmp_path) -> None:
    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    target.mkdir()
    for name, others in (("step-1", "and 1 other file"), ("step-2", "and 2 other files")):
        (target / name).write_text("mine")
        (target / "latest").write_text("mine")
        what = f"{target}/latest {others} exist and were not exported from {source}: NOTHING"
        assert what in exported(source, target).stdout


def test_a_record_of_an_export_is_no_data_of_a_bucket(tmp_path, bucket, staged) -> None:
    source, target = checkpoints(tmp_path / "saved"), tmp_path / "back"
    assert exported(source, "s3://corpus/kept", **bucket).returncode == 0
    done = staged("s3://corpus/kept", target, **bucket)
    assert done.returncode == 0, done.stdout
    assert sorted(os.listdir(target)) == ["latest", "step-1", "step-2", "step-3"]


@pytest.mark.parametrize("moment", ["replace", "copyfileobj"])
def test_an_export_that_was_killed_is_continued(tmp_path, modules, monkeypatch, moment) -> None:
    """Whatever was replaced by then, and even if the training has gone on since."""
    import export

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    source, target = checkpoints(tmp_path / "saved"), tmp_path / "kept"
    one = export.Export(str(source), str(target))
    export.export(one, 0)
    for text in ("newer", "newest"):
        (source / "step-1").write_text(text)
        (source / "step-2").write_text(text)
        module = os if moment == "replace" else shutil
        with monkeypatch.context() as patch:
            patch.setattr(module, moment, kill)
            with pytest.raises(Killed):
                export.export(one, 0)
    export.export(one, 0)
    assert (target / "step-1").read_text() == (target / "step-2").read_text() == "newest"
