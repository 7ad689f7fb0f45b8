"""stage.py ended, killed, without room, in competition: the data is whole or not there."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib

import pytest
from node_programs import STAGE_FOLDER, command, content, write_tree
from small_disk import on_a_small_disk

from clusterjobs.lab.lab import until


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("stage.py", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str], number: int) -> str:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    return process.communicate(timeout=120)[0]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12, pytest.param(50, marks=pytest.mark.faults)])
def test_killed_at_random_points_it_is_never_half_there(
    tmp_path, staged, fault_table, kills
) -> None:
    source = write_tree(tmp_path / "source", 400, 70 << 20)  # the large one in three blocks
    target, chance = tmp_path / "to", random.Random(7)
    before = time.monotonic()
    assert staged(source, tmp_path / "whole").returncode == 0
    whole = time.monotonic() - before
    wanted, broken = content(source), False
    states = {"not there": 0, "broken": 0, "whole": 0}
    for number in range(kills):
        process = start(source, target)
        time.sleep(whole * chance.random())
        if number % 2:
            said = kill(process, signal.SIGKILL)
        else:  # the main process alone: the others have to notice
            process.kill()
            said = process.communicate(timeout=120)[0]
        state = state_of(target, wanted)
        states[state] += 1
        assert state == "whole" or "complete" not in said
        assert state != "broken" or broken
        if state == "whole" and number % 3:  # the next ones are a repair
            (target / "large").write_bytes(b"broken")
            broken = True
        elif state == "whole":  # or begin anew
            shutil.rmtree(target)
            broken = False
    assert staged(source, target).returncode == 0
    assert content(target) == wanted
    assert states["not there"], states
    assert not (target.with_name(".to.stage") / "copy").exists()
    fault_table.append(
        f"staging killed at {kills} random moments: not there {states['not there']} times, "
        f"not mended {states['broken']}, whole {states['whole']}, half there 0; at the end whole"
    )


@pytest.mark.parametrize("kills", [4, pytest.param(10, marks=pytest.mark.faults)])
@pytest.mark.parametrize("end", ["tar.gz", "zip"])
def test_killed_while_it_unpacks_it_is_never_half_there(
    tmp_path, staged, fault_table, end, kills
) -> None:
    """Also by SIGKILL to the first process alone, so that tar has to notice."""
    source, target = write_tree(tmp_path / "source", 200, 8 << 20), tmp_path / "to"
    pack = ["tar", "-czf"] if end == "tar.gz" else ["zip", "-qr"]
    subprocess.run([*pack, tmp_path / f"a.{end}", "."], cwd=source, check=True)
    chance = random.Random(end)
    before = time.monotonic()
    words = ["--unpack", tmp_path / f"a.{end}", target]
    assert staged(*words).returncode == 0
    whole, wanted = time.monotonic() - before, files_in(source)
    found = 0
    for number in range(kills):
        shutil.rmtree(target, ignore_errors=True)
        process = start(*words)
        time.sleep(1.5 * whole * chance.random())
        if number % 2:
            kill(process, signal.SIGKILL)
        else:
            process.kill()
            process.communicate(timeout=120)
        if target.exists():
            found += 1
            assert files_in(target) == wanted
    assert staged(*words).returncode == 0
    assert files_in(target) == wanted
    assert sorted(os.listdir(tmp_path / ".to.stage")) == ["record.json"]
    fault_table.append(
        f"{end} killed at {kills} random moments while it is unpacked: "
        f"not there {kills - found} times, "
        f"whole {found}, half there 0; at the end whole"
    )


def files_in(folder: pathlib.Path) -> dict[bytes, object]:
    return {name: one[1] for name, one in content(folder).items() if isinstance(one, tuple)}


def state_of(target: pathlib.Path, wanted: dict[bytes, object]) -> str:
    """What a job would find, were it to look without asking stage.py."""
    if not target.exists():
        return "not there"
    found = content(target)
    if (target / "large").stat().st_size == len(b"broken"):
        found[b"/large"] = wanted[b"/large"]
        assert found == wanted
        return "broken"
    assert found == wanted
    return "whole"


_KILLED_AT_THE_END = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import stage
stage.TargetFiles.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
stage.main()
"""


def test_a_copy_that_was_killed_goes_on_where_it_was(tmp_path, staged) -> None:
    """What the journal says and the copy holds is not copied again, and what it lacks is."""
    source, target = write_tree(tmp_path / "source", 30, 70 << 20), tmp_path / "to"
    words = [sys.executable, "-Bc", _KILLED_AT_THE_END, str(STAGE_FOLDER), str(source), str(target)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert not target.exists()
    copy = target.with_name(".to.stage") / "copy"
    inodes = {name: (copy / name).stat().st_ino for name in ("large", "part 1/0001")}
    (copy / "part 2/0002").write_bytes(b"!" * (2 * 37))
    with (copy / "large").open("r+b") as file:
        file.seek(40 << 20)
        file.write(b"!")
    (copy / "part 3/0003").unlink()
    os.utime(copy / "part 1/0001", ns=(1, 1))  # killed before it had the source's time
    assert staged(source, target).returncode == 0
    assert content(target) == content(source)
    kept = [name for name, inode in inodes.items() if (target / name).stat().st_ino == inode]
    assert kept == ["large", "part 1/0001"]


def test_what_was_copied_and_is_gone_from_the_source_does_not_come(tmp_path, staged) -> None:
    source, target = write_tree(tmp_path / "source", 3, 10), tmp_path / "to"
    words = [sys.executable, "-Bc", _KILLED_AT_THE_END, str(STAGE_FOLDER), str(source), str(target)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    (source / "part 1" / "0001").unlink()
    assert staged(source, target).returncode == 0
    assert content(target) == content(source)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_ends_at_once_with_a_true_code(tmp_path, staged, number) -> None:
    source, target = write_tree(tmp_path / "source", 50), tmp_path / "to"
    holder = held(target)
    process = start(source, target)
    assert "waiting for" in process.stdout.readline()
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "stopped" in said
    holder.close()
    assert staged(source, target).returncode == 0


def held(target: pathlib.Path):
    """The lock of a target, held by this process."""
    import fcntl

    folder = target.with_name(f".{target.name}.stage")
    folder.mkdir()
    lock = (folder / "lock").open("w")
    lock.write("job 17 on node-1, process 4")
    lock.flush()
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


# ------------------------------------------------------------------ many jobs


def test_ten_jobs_that_start_together_copy_once(tmp_path, fault_table) -> None:
    source, target = write_tree(tmp_path / "source", 60), tmp_path / "to"
    processes = [start(source, target) for _ in range(10)]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 10
    assert sum("complete" in text for text in said) == 1
    assert sum("up to date" in text for text in said) == 9
    assert content(target) == content(source)
    fault_table.append(
        "ten jobs staging the same data: exit code 0 x 10; copied once, found 9 times"
    )


def test_who_waits_says_for_whom_and_goes_on_when_the_holder_dies(tmp_path) -> None:
    source, target = write_tree(tmp_path / "source", 10), tmp_path / "to"
    lock = held(target)
    process = start(source, target)
    assert "waiting for job 17 on node-1, process 4" in process.stdout.readline()
    lock.close()  # as the kernel does for a process that is killed
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "complete" in said


@pytest.fixture
def no_flock(modules, monkeypatch: pytest.MonkeyPatch) -> object:
    """The module of the lock, on a file system without flock."""
    import fcntl

    import stage_lock

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    return stage_lock


def test_without_flock_a_lease_is_kept_and_taken_from_the_dead(
    tmp_path, no_flock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = no_flock.Lock(str(tmp_path / "lock"), "stage x")
    first.acquire()
    first._stop_renewing.set()  # as if it were frozen
    monkeypatch.setattr(no_flock, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(no_flock, "LEASE_SECONDS", 0.2)
    second = no_flock.Lock(str(tmp_path / "lock"), "stage x")
    second._holder_id = "job 2"
    assert not second._try_lease()
    second._file = os.open(tmp_path / "lock", os.O_RDWR)
    until(second._try_lease, 120, lambda: "never taken over")
    with pytest.raises(sys.modules["stage_log"].StageError, match="took over the lease"):
        first.assert_held()
    second.assert_held()
    second.release()
    assert not (tmp_path / "lock.lease").exists()


def test_a_lease_is_kept_alive_whatever_its_holder_is_at(
    tmp_path, no_flock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(no_flock, "_RENEW_SECONDS", 0.01)
    first, second = (no_flock.Lock(str(tmp_path / "lock"), "stage x") for _ in range(2))
    first.acquire()
    second._holder_id, lease = "job 2", tmp_path / "lock.lease"
    for _ in range(3):  # without a call of `check_lease`
        os.utime(lease, (1, 1))
        until(lambda: lease.stat().st_mtime > 1, 120, lambda: "not touched")
        assert not second._try_lease()
    first.release()
    assert second._try_lease()


@pytest.mark.parametrize("moment", ["_sync", "record_rows"])
def test_who_has_lost_the_lease_meanwhile_puts_nothing_in_place(
    tmp_path, no_flock, monkeypatch: pytest.MonkeyPatch, moment
) -> None:
    import stage
    import stage_commit

    source, target = write_tree(tmp_path / "source", 3, 10), tmp_path / "to"
    module = stage_commit if moment == "_sync" else stage
    work = getattr(module, moment)

    def lose(*words: object, **options: object) -> object:
        (tmp_path / ".to.stage" / "lock.lease").write_text("job 2")
        return work(*words, **options)

    monkeypatch.setattr(module, moment, lose)
    with pytest.raises(stage.StageError, match="took over the lease"):
        stage.Stage(stage.Options(str(source), str(target))).run()
    assert target.exists() == (moment == "record_rows")
    assert not (tmp_path / ".to.stage" / "record.json").exists()
    assert (tmp_path / ".to.stage" / "lock.lease").read_text() == "job 2"


@pytest.mark.parametrize("unpack", [False, True])
def test_who_has_lost_the_lease_removes_nothing(
    tmp_path, no_flock, monkeypatch: pytest.MonkeyPatch, unpack
) -> None:
    """The copy is then another job's, though this one has an error and the disk is full."""
    import stage
    import stage_space

    monkeypatch.setattr(stage_space, "_measure", lambda _: (0, 1))
    source, theirs = tmp_path / "a.tar", tmp_path / ".to.stage" / "copy" / "theirs"

    def lose(*_: object) -> None:
        theirs.parent.mkdir()
        theirs.write_text("")
        (tmp_path / ".to.stage" / "lock.lease").write_text("job 2")
        raise OSError(errno.EIO, "broken", str(source))

    source.write_bytes(b"x")
    module = importlib.import_module("stage_archive" if unpack else "stage")
    monkeypatch.setattr(module, "_unpack_archive" if unpack else "copy_files", lose)
    with pytest.raises(stage.StageError, match="took over the lease"):
        stage.Stage(stage.Options(str(source), str(tmp_path / "to"), unpack=unpack)).run()
    assert theirs.exists()


# ------------------------------------------------------------------ no room


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(tmp_path, fault_table) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    large = write_tree(tmp_path / "large", 2, 4 << 20)
    done = on_a_small_disk(disk, *command("stage.py", large, disk / "to"))
    assert done.returncode == 1
    assert f"{disk}/to: not enough space: 4.19 MB needed, {disk} has 3.1" in done.stdout
    many = write_tree(tmp_path / "many", 300, 10)
    done = on_a_small_disk(disk, *command("stage.py", many, disk / "to"))
    assert done.returncode == 1
    assert "not enough inodes: 305 inodes needed" in done.stdout
    fault_table.append("disk too small for the data: exit code 1; nothing written, said how much")


def test_a_disk_that_becomes_full_is_an_error_and_is_not_left_full(tmp_path, fault_table) -> None:
    """The check beforehand is left out, as if another job had filled the disk since."""
    disk = tmp_path / "disk"
    disk.mkdir()
    source = write_tree(tmp_path / "source", 2, 4 << 20)
    program = (
        f"import sys; sys.path.insert(0, {str(STAGE_FOLDER)!r}); import stage_copy, stage; "
        "stage_copy.check_space = lambda *_: None; "
        f"sys.argv = ['stage.py', {str(source)!r}, {str(disk / 'to')!r}]; code = stage.main(); "
        f"import os; print('left:', os.listdir({str(disk)!r})); sys.exit(code)"
    )
    done = on_a_small_disk(disk, sys.executable, "-Bc", program)
    assert done.returncode == 1, done.stdout + done.stderr
    reasons = rf"{re.escape(str(disk))}/\.to\.stage/(copy/large|journal): No space left"
    reasons += "|not enough space: others have used it"
    assert re.search(f"stage failed: .*({reasons})", done.stdout), done.stdout
    assert f"{disk} is full: partial copy removed" in done.stdout
    assert "left: []" in done.stdout
    fault_table.append(
        "disk full while staging: exit code 1; target not there, no partial copy left"
    )


# ------------------------------------------------------------------ one block


@pytest.fixture
def copied(tmp_path, modules):
    """`copied(size, mtime)` copies a file of 100 bytes, of which this is what was listed."""
    import stage_copy
    import stage_record

    source = tmp_path / "source"
    source.write_bytes(b"x" * 100)
    paths = stage_record.StagePaths(str(tmp_path / "to"))
    pathlib.Path(paths.folder).mkdir()

    def copy(size: int = 100, mtime: int | None = None):
        mtime = source.stat().st_mtime_ns if mtime is None else mtime
        (block,) = stage_copy.blocks_of("", (size, mtime, 0o640, 17))
        return stage_copy.Copier(paths, str(source), {})._have(block)

    return copy


def test_a_file_that_changes_while_it_is_copied_is_an_error_that_names_it(tmp_path, copied) -> None:
    import stage_log

    for listed in ((100, 1), (99,), (101,)):
        with pytest.raises(stage_log.StageError, match="source: changed while it was copied"):
            copied(*listed)
    (tmp_path / "source").unlink()
    with pytest.raises(stage_log.StageError, match="source: No such file"):
        copied(100, 1)


def test_what_is_read_back_must_be_what_was_written(tmp_path, copied, monkeypatch) -> None:
    import stage_copy

    answers = [0, 0]  # the copy is spoilt twice before it is read back
    holds = stage_copy._contains

    def spoilt(file: int, data: memoryview, offset: int) -> bool:
        if answers:
            os.pwrite(file, b"y", offset + answers.pop())
        return holds(file, data, offset)

    monkeypatch.setattr(stage_copy, "_contains", spoilt)
    crc, is_new = copied()
    copy = tmp_path / ".to.stage" / "copy"
    assert (crc, is_new) == (zlib.crc32(b"x" * 100), True)
    assert copy.stat().st_mtime_ns == (tmp_path / "source").stat().st_mtime_ns
    assert copy.stat().st_mode & 0o777 == 0o640
    assert copy.read_bytes() == b"x" * 100
    answers += [0, 0, 99]
    with pytest.raises(stage_copy.StageError, match="copy: differs from what was written"):
        copied()
