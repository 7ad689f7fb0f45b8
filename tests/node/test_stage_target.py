"""stage.py and a target that has files already: whose they are decides what happens to them."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from node_programs import STAGE_FOLDER, command, content, write_tree


def source_in(tmp_path: pathlib.Path, **files: str) -> pathlib.Path:
    for name, text in files.items():
        path = tmp_path / "source" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "source"


# ------------------------------------------------------------------ files that were not staged


@pytest.mark.parametrize("text", ["mine", "other"])  # as long as the source's, and not
def test_a_users_own_file_is_not_overwritten_unless_the_spec_says_so(
    tmp_path, staged, text
) -> None:
    source, target = source_in(tmp_path, a="data", b="data", sub__c="more"), tmp_path / "to"
    target.mkdir()
    (target / "a").write_text(text)
    (target / "sub").mkdir()
    (target / "sub" / "c").write_text("more")  # the same contents are no conflict
    os.utime(target / "sub" / "c", ns=(0, (source / "sub" / "c").stat().st_mtime_ns))
    done = staged(source, target)
    assert done.returncode == 1
    assert f"{target}/a exists and was not staged by a job: choose another target" in done.stdout
    assert "set overwrite: true for this data set" in done.stdout
    assert (target / "a").read_text() == text
    assert not (target / "b").exists()
    done = staged("--overwrite", source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)
    assert "up to date" in staged(source, target).stdout


def test_other_files_that_were_not_staged_are_counted(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="data", b="data", c="data"), tmp_path / "to"
    target.mkdir()
    (target / "a").write_text("my own")
    for name, others in (("b", "and 1 other file"), ("c", "and 2 other files")):
        (target / name).write_text("my own")
        what = f"{target}/a {others} exist and were not staged by a job: choose"
        assert what in staged(source, target).stdout


def test_a_users_own_file_keeps_its_name_when_the_source_gets_one_later(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="data"), tmp_path / "to"
    assert staged(source, target).returncode == 0
    (target / "notes").write_text("mine")
    source_in(tmp_path, notes="data")
    done = staged(source, target)
    assert done.returncode == 1
    assert f"{target}/notes exists and was not staged by a job" in done.stdout
    assert (target / "notes").read_text() == "mine"


def test_a_users_own_link_is_not_replaced(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="data"), tmp_path / "to"
    (source / "link").symlink_to("a")
    target.mkdir()
    (target / "link").symlink_to("elsewhere")
    done = staged(source, target)
    assert done.returncode == 1
    assert f"{target}/link exists and was not staged by a job" in done.stdout
    assert os.readlink(target / "link") == "elsewhere"


def test_a_conflict_is_not_tried_again(tmp_path, staged) -> None:
    source = source_in(tmp_path, a="data")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "a").write_text("mine")
    staged(source, tmp_path / "to", STAGE_DIR=str(tmp_path))
    assert (tmp_path / "source_failed").exists()


def test_files_that_were_not_staged_are_named_each_time(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="data"), tmp_path / "to"
    staged(source, target)
    (target / "mine").write_text("mine")
    said = f"stage {target}: also contains files that were not staged: mine (1 file)"
    assert said in staged(source, target).stdout
    (source / "a").write_text("new")
    assert said in staged(source, target).stdout
    assert (target / "mine").read_text() == "mine"


# ------------------------------------------------------------------ files that left the source


def test_what_left_the_source_leaves_the_target(tmp_path, staged) -> None:
    source = source_in(tmp_path, a="1", b="2", old__c="3", old__d="4", kept__e="5")
    (source / "link").symlink_to("a")
    (source / "old").chmod(0o555)
    target = tmp_path / "to"
    staged(source, target)
    (target / "kept" / "mine").write_text("mine")
    (source / "old").chmod(0o755)
    for name in ("b", "old/c", "old/d", "kept/e", "link"):
        (source / name).unlink()
    for name in ("old", "kept"):
        (source / name).rmdir()
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    names = "b, kept/e, link, old/c, old/d (5 files)"
    said = f"stage {target}: removed, as no longer in the source: {names}"
    assert said in done.stdout
    assert "also contains files that were not staged: kept/mine (1 file)" in done.stdout
    assert sorted(os.listdir(target)) == ["a", "kept"]


def test_what_left_the_source_stays_if_somebody_has_changed_it(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="1", b="2"), tmp_path / "to"
    staged(source, target)
    (target / "b").write_text("mine")
    (source / "b").unlink()
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert "no longer in the source, kept because changed since staged: b (1 file)" in done.stdout
    assert (target / "b").read_text() == "mine"


def test_a_file_that_became_a_folder_or_a_link_is_one_in_the_target_too(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="1", b="2"), tmp_path / "to"
    staged(source, target)
    (source / "b").unlink()
    source_in(tmp_path, b__c="3")
    (source / "a").unlink()
    (source / "a").symlink_to("b")
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)
    (source / "a").unlink()
    source_in(tmp_path, a="1")
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)


_KILLED_IN_THE_COMMIT = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import stage, stage_commit
stage_commit._sync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
stage.main()
"""


def test_after_a_kill_in_the_commit_staged_files_are_still_known(tmp_path, staged) -> None:
    """Those that it has written, those that it would have, and those that were there before."""
    source, target = source_in(tmp_path, a="1", b="2"), tmp_path / "to"
    staged(source, target)
    source_in(tmp_path, a="new", c="3")
    words = [sys.executable, "-Bc", _KILLED_IN_THE_COMMIT, str(STAGE_FOLDER), source, target]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert (target / "c").read_text() == "3"
    source_in(tmp_path, a="newer", b="newer", c="newer")
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)


# ------------------------------------------------------------------ what is replaced


def test_a_staged_file_that_somebody_has_changed_is_replaced_and_named(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="1", b="2", c="3"), tmp_path / "to"
    (source / "link").symlink_to("a")
    staged(source, target)
    (target / "a").write_text("mine")
    (target / "link").unlink()
    (target / "link").symlink_to("b")
    (source / "b").write_text("newer")
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    changed = "replaced, although changed in the target since staged: a, link (2 files)"
    assert f"stage {target}: {changed}\n" in done.stdout
    assert f"stage {target}: replaced by the source's: b (1 file)\n" in done.stdout
    assert content(target) == content(source)


def test_what_overwrite_overwrites_is_named(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="1", b="2"), tmp_path / "to"
    (source / "link").symlink_to("a")
    target.mkdir()
    (target / "a").write_text("mine")
    (target / "link").write_text("mine")
    done = staged("--overwrite", source, target)
    assert done.returncode == 0, done.stdout
    said = "overwritten, although not staged by a job (overwrite: true): a, link (2 files)"
    assert f"stage {target}: {said}\n" in done.stdout
    assert "replaced" not in done.stdout


def test_of_many_replaced_files_the_first_twenty_are_named(tmp_path, staged) -> None:
    names = [f"{number:02}" for number in range(30)]
    source, target = source_in(tmp_path, **dict.fromkeys(names, "1")), tmp_path / "to"
    staged(source, target)
    source_in(tmp_path, **dict.fromkeys(names, "newer"))
    said = f"replaced by the source's: {', '.join(names[:20])} (30 files)\n"
    assert said in staged(source, target).stdout


def test_a_file_and_a_folder_do_not_take_each_others_place(tmp_path, staged) -> None:
    source, target = source_in(tmp_path, a="1", b="2"), tmp_path / "to"
    target.mkdir()
    done = staged(source / "a", target, STAGE_DIR=str(tmp_path))
    said = f"{target} is a folder, but its source {source}/a is a file: set target to {target}/a\n"
    assert said in done.stdout
    assert (tmp_path / "source_failed").exists()
    (target / "b").mkdir()
    said = f"{target}/b is a folder, but a file in the source: move it away, or choose another"
    assert said in staged(source, target).stdout
    target = tmp_path / "file"
    target.write_text("mine")
    done = staged(source, target)
    said = f"{target} is a file, but its source {source} is a folder: move the file away, or choose"
    assert said in done.stdout
    assert target.read_text() == "mine"


# ------------------------------------------------------------------ another source


def test_a_target_of_another_source_is_refused(tmp_path, staged) -> None:
    one, other = write_tree(tmp_path / "one", 3), write_tree(tmp_path / "other", 3)
    target = tmp_path / "to"
    staged(one, target, SLURM_JOB_ID="17")
    for words in ([], ["--overwrite"], ["--unpack"]):
        done = staged(*words, other, target)
        assert done.returncode == 1
        what = f"{target} contains the data of another source, {one}, staged by job 17: choose"
        assert what in done.stdout
    assert content(target) == content(one)
    subprocess.run(done.stdout.strip().split(": ")[-1].split(), check=True)  # as it says
    assert content(tmp_path / "to.old") == content(one)
    assert staged(other, target).returncode == 0
    assert content(target) == content(other)


def test_the_suggested_command_is_quoted_and_names_no_job_that_is_unknown(tmp_path, staged) -> None:
    one, other = write_tree(tmp_path / "one", 3), write_tree(tmp_path / "other", 3)
    target = tmp_path / "a; touch b"
    staged(one, target, SLURM_JOB_ID="")
    done = staged(other, target, SLURM_JOB_ID="")
    assert f"contains the data of another source, {one}: choose another target" in done.stdout
    assert f"mv '{target}' '{target}.old'\n" in done.stdout
    (tmp_path / "a; touch b.old").mkdir()
    assert f"mv '{target}' '{target}.old2'\n" in staged(other, target).stdout


def test_a_source_is_known_by_its_path_even_if_that_is_a_link(tmp_path, staged) -> None:
    """To the newest version of a data set."""
    for version, names in (("v1", "ab"), ("v2", "bc")):
        (tmp_path / version).mkdir()
        for name in names:
            (tmp_path / version / name).write_text(version)
    current, target = tmp_path / "current", tmp_path / "to"
    for version in ("v1", "v2"):
        current.unlink(missing_ok=True)
        current.symlink_to(version)
        done = staged(f"{tmp_path}/v1/..//current/", target)
        assert done.returncode == 0, done.stdout
        assert content(target) == content(tmp_path / version)
    assert f"{current} has changed" in done.stdout
    assert "removed, as no longer in the source: a (1 file)" in done.stdout
    assert "up to date" in staged(current, target).stdout


def test_of_two_sources_at_once_one_is_refused(tmp_path) -> None:
    target = tmp_path / "to"
    sources = [write_tree(tmp_path / name, 30) for name in ("one", "other")]
    jobs = [
        subprocess.Popen(command("stage.py", one, target), stdout=subprocess.PIPE, text=True)
        for one in sources
    ]
    said = [job.communicate(timeout=120)[0] for job in jobs]
    codes = [job.returncode for job in jobs]
    assert sorted(codes) == [0, 1], said
    first, second = codes.index(0), codes.index(1)
    assert f"contains the data of another source, {sources[first]}" in said[second]
    assert content(target) == content(sources[first])


# ------------------------------------------------------------------ a source that looks the same


@pytest.mark.parametrize("words", [[], ["--reread"]])
@pytest.mark.parametrize("size", [3000, 3 << 20])
def test_a_source_rewritten_with_its_size_and_times_is_noticed(
    tmp_path, staged, words, size
) -> None:
    source, target = write_tree(tmp_path / "source", 4, size), tmp_path / "to"
    staged(source, target)
    status = (source / "large").stat()
    (source / "large").write_bytes(os.urandom(size))
    os.utime(source / "large", ns=(status.st_atime_ns, status.st_mtime_ns))
    done = staged(*words, source, target)
    assert "complete" in done.stdout
    assert content(target) == content(source)
    assert "up to date" in staged(source, target).stdout


def test_rereading_does_not_rely_on_the_sources_time_of_change(tmp_path, staged) -> None:
    """Some file systems have none: the record is made to say what is there now."""
    import json

    source, target = write_tree(tmp_path / "source", 4), tmp_path / "to"
    staged(source, target)
    status = (source / "large").stat()
    (source / "large").write_bytes(os.urandom(status.st_size))
    os.utime(source / "large", ns=(status.st_atime_ns, status.st_mtime_ns))
    record = tmp_path / ".to.stage" / "record.json"
    data = json.loads(record.read_text())
    data["files"]["large"][3] = (source / "large").stat().st_ctime_ns
    record.write_text(json.dumps(data))
    assert "up to date" in staged(source, target).stdout
    assert "complete" in staged("--reread", source, target).stdout
    assert content(target) == content(source)


def test_a_rewritten_source_is_not_taken_from_a_partial_copy(tmp_path, staged) -> None:
    source, target = write_tree(tmp_path / "source", 4, 40 << 20), tmp_path / "to"
    kill = _KILLED_IN_THE_COMMIT
    words = [sys.executable, "-Bc", kill, str(STAGE_FOLDER), source, target]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    for name in ("large", "part 1/0001"):
        status = (source / name).stat()
        (source / name).write_bytes(os.urandom(status.st_size))
        os.utime(source / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)


def test_a_rewritten_archive_is_unpacked_again(tmp_path, staged) -> None:
    folder, archive, target = source_in(tmp_path, a="old"), tmp_path / "x.tar", tmp_path / "to"
    subprocess.run(["tar", "-cf", archive, "-C", folder, "a"], check=True)
    staged("--unpack", archive, target)
    assert "up to date" in staged("--unpack", archive, target).stdout
    status = archive.stat()
    archive.write_bytes(archive.read_bytes().replace(b"old", b"new"))
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "complete" in staged("--unpack", archive, target).stdout
    assert (target / "a").read_text() == "new"
