"""stage.py and export.py beside another user of the cluster, who plants links and records.

The attacker and the victim are two ordinary users; the victim runs the program.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
from node_programs import STAGE_FOLDER, write_tree

from clusterjobs.lab.lab import until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can run programs as two other users"
)

ATTACKER, VICTIM = 64_001, 64_002
_AS_USER = """
import os, runpy, sys
user, groups, umask, program, *words = sys.argv[1:]
os.setgroups([int(one) for one in groups.split(",") if one])
os.setresgid(int(user), int(user), int(user))
os.setresuid(int(user), int(user), int(user))
os.umask(int(umask, 8))
os.chdir("/")
sys.argv = [program, *words]
sys.path.insert(0, os.path.dirname(program))
runpy.run_path(program, run_name="__main__")
"""


# Stages; but just before it creates a certain folder, it waits until that exists.
_LATE = """
import os, sys, time
folder, ready = sys.argv[3:]
del sys.argv[3:]
mkdir = os.mkdir
def late(path, mode=0o777, **options):
    if os.fspath(path) == folder:
        open(ready, "w").close()
        while not os.path.lexists(os.path.join(folder, "lock")):
            time.sleep(0.01)
    mkdir(path, mode, **options)
os.mkdir = late
import stage
sys.exit(stage.main())
"""


class Cluster:
    """A folder that all users may write to, and the files of a victim."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.scratch, self.home = root, root / "scratch", root / "victim"
        root.chmod(0o755)
        self.scratch.mkdir()
        self.scratch.chmod(0o1777)
        self.home.mkdir()
        self.programs = shutil.copytree(STAGE_FOLDER, root / "programs")
        self.source = write_tree(self.home / "data", 8, 1000)
        self.precious = self.home / "bashrc"
        self.precious.write_text("precious")
        self.give(VICTIM, self.home)

    def give(self, user: int, path: pathlib.Path) -> None:
        for folder, names, files in os.walk(path):
            for name in (".", *names, *files):
                os.chown(os.path.join(folder, name), user, user, follow_symlinks=False)
        os.chown(path, user, user, follow_symlinks=False)

    def plant(self, path: pathlib.Path, mode: int = 0o777) -> pathlib.Path:
        """A folder of the attacker, open to all: the victim can write into it."""
        path.mkdir()
        path.chmod(mode)
        os.chown(path, ATTACKER, ATTACKER)
        return path

    def link(self, path: pathlib.Path, target: pathlib.Path) -> None:
        path.symlink_to(target)
        os.chown(path, ATTACKER, ATTACKER, follow_symlinks=False)

    def run(
        self,
        program: str,
        *words: object,
        user: int = VICTIM,
        groups: str = "",
        umask: str = "022",
    ) -> subprocess.CompletedProcess[str]:
        user_words = [str(user), groups, umask, str(self.programs / program)]
        return subprocess.run(
            [_python(), "-Bc", _AS_USER, *user_words, *map(str, words)],
            env={"PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )

    def stage(self, target: pathlib.Path, **how: str) -> subprocess.CompletedProcess[str]:
        return self.run("stage.py", self.source, target, **how)

    def is_unharmed(self) -> bool:
        return self.precious.read_text() == "precious"


def _python() -> str:
    """An interpreter that ordinary users can start: root's own may lie in a closed folder."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    return found or sys.executable


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    root = pathlib.Path(tempfile.mkdtemp(prefix="users."))  # pytest's own folders are closed
    try:
        yield Cluster(root)
    finally:
        shutil.rmtree(root)


def refused(done: subprocess.CompletedProcess[str], what: str) -> None:
    assert done.returncode == 1, done.stdout
    assert what in done.stdout
    assert "Traceback" not in done.stdout


# ------------------------------------------------------------------ what must work


def test_in_a_folder_of_all_users_data_is_staged_and_found_again(cluster) -> None:
    target = cluster.scratch / "data"
    done = cluster.stage(target)
    assert done.returncode == 0, done.stdout
    assert "up to date" in cluster.stage(target).stdout
    assert (cluster.scratch / ".data.stage").stat().st_mode & 0o077 == 0
    done = cluster.stage(cluster.scratch / "mine" / "data")
    assert done.returncode == 0, done.stdout


def test_a_group_shares_data_in_a_folder_that_only_it_may_write_to(cluster) -> None:
    """The usual project folder: set-group-id, of another owner, in a folder of all users."""
    project, group = cluster.scratch / "project", 64_100
    project.mkdir()
    os.chown(project, ATTACKER, group)
    project.chmod(0o2775)
    how = {"groups": str(group), "umask": "002"}
    done = cluster.stage(project / "data", **how)
    assert done.returncode == 0, done.stdout
    cluster.home.chmod(0o755)
    done = cluster.stage(project / "data", user=ATTACKER, **how)
    assert "up to date" in done.stdout


# ------------------------------------------------------------------ what must not


def test_a_group_that_the_folder_above_gives_proves_nothing(cluster) -> None:
    """Whoever makes a folder there need not be in its group."""
    project, group = cluster.scratch / "project", 64_100
    os.chown(cluster.scratch, 0, group)
    cluster.scratch.chmod(0o3777)
    cluster.plant(project, 0o2775)
    os.chown(project, ATTACKER, group)
    project.chmod(0o2775)
    done = cluster.stage(project / "data", groups=str(group))
    refused(done, f"belongs to {ATTACKER}, and everyone may write to {cluster.scratch}")


@pytest.mark.parametrize("name", ["lock", "journal", "record.json.new"])
def test_links_planted_beside_the_target_change_nothing(cluster, name) -> None:
    folder = cluster.plant(cluster.scratch / ".data.stage")
    cluster.link(folder / name, cluster.precious)
    done = cluster.stage(cluster.scratch / "data")
    refused(done, f"{folder} belongs to 64001, and everyone may write to")
    assert "for example: mkdir -m 700" in done.stdout
    assert cluster.is_unharmed()


def test_a_link_planted_as_the_folder_beside_the_target_is_not_followed(cluster) -> None:
    cluster.link(cluster.scratch / ".data.stage", cluster.home)
    refused(
        cluster.stage(cluster.scratch / "data"),
        ".data.stage: not a folder, but staging needs one there: move",
    )
    assert sorted(os.listdir(cluster.home)) == ["bashrc", "data"]


def test_a_forged_record_does_not_make_poisoned_data_up_to_date(cluster) -> None:
    """The record is a true one, of a copy that the attacker has staged from the same source."""
    target = cluster.scratch / "data"
    cluster.home.chmod(0o755)
    assert cluster.stage(target, user=ATTACKER).returncode == 0
    (cluster.scratch / ".data.stage").chmod(0o755)
    (target / "large").write_bytes(b"poison")
    record = cluster.scratch / ".data.stage" / "record.json"
    data = json.loads(record.read_text())
    status = (target / "large").stat()
    row = [len(b"poison"), *data["files"]["large"][1:4], status.st_mtime_ns, status.st_ctime_ns]
    data["files"]["large"] = [*row, [0]]
    record.write_text(json.dumps(data))
    done = cluster.stage(target)
    refused(done, f"{target} belongs to 64001")
    shutil.rmtree(target)
    refused(cluster.stage(target), ".data.stage belongs to 64001")


def test_a_planted_target_is_not_filled(cluster) -> None:
    target = cluster.plant(cluster.scratch / "data")
    refused(cluster.stage(target), f"{target} belongs to 64001")
    assert not list(target.iterdir())
    assert not (cluster.scratch / ".data.stage").exists()


@pytest.mark.parametrize("name", [".data.stage", "sets"])
def test_a_folder_planted_between_the_check_and_its_creation_is_not_used(cluster, name) -> None:
    program = cluster.programs / "late.py"
    program.write_text(_LATE)
    ready = cluster.home / "ready"
    target = cluster.scratch / ("data" if name == ".data.stage" else "sets/data")
    words = [cluster.source, target, cluster.scratch / name, ready]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        future = pool.submit(cluster.run, "late.py", *words)
        until(lambda: ready.exists() or future.done(), 60, lambda: "never created")
        planted = cluster.plant(cluster.scratch / name)
        cluster.link(planted / "lock", cluster.precious)
        done = future.result()
    refused(done, f"{planted} belongs to 64001")
    assert cluster.is_unharmed()
    assert os.listdir(planted) == ["lock"]


def test_a_planted_folder_above_the_target_is_not_trusted(cluster) -> None:
    """Whoever owns it could exchange the data at any time, whatever it is made of now."""
    above = cluster.plant(cluster.scratch / "victim", 0o755)
    inner = above / "sets"
    inner.mkdir()
    cluster.give(VICTIM, inner)
    refused(cluster.stage(inner / "data"), f"{above} belongs to 64001")


def test_a_planted_link_above_the_target_is_not_followed(cluster) -> None:
    elsewhere = cluster.plant(cluster.root / "elsewhere")
    elsewhere.chmod(0o755)
    inner = elsewhere / "sets"
    inner.mkdir()
    cluster.give(VICTIM, inner)
    cluster.link(cluster.scratch / "sets", inner)
    done = cluster.stage(cluster.scratch / "sets" / "data")
    refused(done, f"{cluster.scratch}/sets belongs to 64001")
    assert not list(inner.iterdir())


@pytest.mark.parametrize("is_own", [True, False])
def test_a_folder_of_all_users_without_sticky_bit_is_refused(cluster, is_own) -> None:
    """There, everybody may rename everybody's folders. Only its owner can change that."""
    folder = cluster.scratch / "of all"
    folder.mkdir()
    os.chown(folder, VICTIM if is_own else 0, 0)
    folder.chmod(0o777)
    owner = "" if is_own else ", which belongs to root"
    done = cluster.stage(folder / "data")
    refused(done, f"everyone may write to {folder}{owner}: ")
    assert (f": chmod +t '{folder}', or choose a folder that only you" in done.stdout) is is_own
    assert not list(folder.iterdir())
    folder.chmod(0o1777)
    assert cluster.stage(folder / "data").returncode == 0


def test_the_suggested_folder_is_quoted(cluster) -> None:
    folder = cluster.scratch / "of all"
    folder.mkdir()
    folder.chmod(0o1777)
    cluster.plant(folder / "data")
    assert f"mkdir -m 700 '{folder}/{VICTIM}'" in cluster.stage(folder / "data").stdout


def test_links_planted_in_a_folder_of_ones_own_that_was_open_change_nothing(cluster) -> None:
    """As an umask of 000 has left it."""
    folder = cluster.scratch / ".data.stage"
    folder.mkdir()
    cluster.give(VICTIM, folder)
    folder.chmod(0o777)
    cluster.link(folder / "journal", cluster.precious)
    refused(cluster.stage(cluster.scratch / "data"), f"everyone may write to {folder}")
    assert cluster.is_unharmed()


def test_nothing_staged_can_be_written_by_all_users(cluster) -> None:
    """Neither with a umask of 000, nor if the source's own permissions allow it."""
    for path in (cluster.source / "part 1", cluster.source / "large"):
        path.chmod(0o777)
    target = cluster.scratch / "data"
    done = cluster.stage(target, umask="000")
    assert done.returncode == 0, done.stdout
    (cluster.source / "part 1" / "new").write_text("new")
    (cluster.source / "part 1" / "new").chmod(0o666)
    cluster.give(VICTIM, cluster.source)
    done = cluster.stage(target, umask="000")
    assert done.returncode == 0, done.stdout
    found = [target, *target.rglob("*"), *(cluster.scratch / ".data.stage").rglob("*")]
    assert [path for path in found if path.stat().st_mode & 0o002] == []


@pytest.mark.parametrize("is_open", [True, False])
def test_nobody_else_can_hold_the_lock(cluster, is_open) -> None:
    """flock(2) asks only for a file that one may read."""
    above = cluster.scratch if is_open else cluster.home
    cluster.home.chmod(0o755)
    assert cluster.stage(above / "copy").returncode == 0
    lock = above / ".copy.stage" / "lock"
    words = f"import stage_lock; stage_lock._open_lock({str(lock)!r})"
    (cluster.programs / "make_lock.py").write_text(words)
    assert cluster.run("make_lock.py").returncode == 0
    assert lock.exists()
    program = f"import fcntl; fcntl.flock(open({str(lock)!r}), fcntl.LOCK_EX); print('held')"
    path = cluster.programs / "hold.py"
    path.write_text(program)
    done = cluster.run("hold.py", user=ATTACKER)
    assert "Permission denied" in done.stdout


# ------------------------------------------------------------------ exports


def test_a_link_planted_for_an_exported_file_is_not_followed(cluster) -> None:
    cluster.link(cluster.scratch / ".large.export", cluster.precious)
    done = cluster.run("export.py", cluster.source, cluster.scratch)
    refused(done, f"{cluster.scratch}/.large.export belongs to 64001")
    assert cluster.is_unharmed()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_planted_record_of_an_export_is_not_trusted(cluster, kind) -> None:
    """It says that a file of the victim was exported, and may be overwritten."""
    kept = cluster.home / "kept"
    assert cluster.run("export.py", cluster.source, kept).returncode == 0
    [record] = [one for one in kept.iterdir() if one.name.startswith(".exported-")]
    mine, planted = cluster.scratch / "large", cluster.scratch / record.name
    shutil.copy2(kept / "large", mine)
    cluster.give(VICTIM, mine)
    if kind == "link":
        cluster.link(planted, record)
    else:
        shutil.copy(record, planted)
        os.chown(planted, ATTACKER, ATTACKER)
    (cluster.source / "large").write_text("newer")
    before = mine.read_bytes()
    done = cluster.run("export.py", cluster.source, cluster.scratch)
    refused(done, f"{planted} belongs to 64001")
    assert mine.read_bytes() == before
    planted.unlink()
    refused(cluster.run("export.py", cluster.source, cluster.scratch), f"{mine} exists")


@pytest.mark.parametrize("name", ["kept", "kept/part 1"])
def test_a_folder_planted_in_an_exports_target_gets_nothing(cluster, name) -> None:
    target = cluster.scratch / "kept"
    if name != "kept":
        target.mkdir()
        target.chmod(0o1777)
        cluster.give(VICTIM, target)
    elsewhere = cluster.home / "elsewhere"
    elsewhere.mkdir()
    cluster.give(VICTIM, elsewhere)
    cluster.link(cluster.scratch / name, elsewhere)
    done = cluster.run("export.py", cluster.source, target)
    refused(done, f"{cluster.scratch}/{name} belongs to 64001")
    assert not list(elsewhere.iterdir())


def test_an_export_to_a_folder_of_ones_own_works_beside_others(cluster) -> None:
    target = cluster.scratch / "kept"
    done = cluster.run("export.py", cluster.source, target, umask="000")
    assert done.returncode == 0, done.stdout
    assert [one for one in (target, *target.rglob("*")) if one.stat().st_mode & 0o002] == []


def test_a_link_that_replaces_a_checkpoint_does_not_export_what_it_names(cluster) -> None:
    """Between the listing and the copy, in a checkpoint folder that others may write to."""
    program = cluster.programs / "swap.py"
    program.write_text(
        "import os, sys, export_folder\n"
        "source, secret, target = sys.argv[1:]\n"
        "status = os.stat(source)\n"
        "os.unlink(source)\n"
        "os.symlink(secret, source)\n"
        "export_folder.copy_file(source, target, status, set())\n"
    )
    kept = cluster.home / "kept"
    done = cluster.run("swap.py", cluster.source / "large", cluster.precious, kept / "large")
    assert "Too many levels of symbolic links" in done.stdout
    assert not kept.exists()


# ------------------------------------------------------------------ permissions of originals


def test_a_file_that_left_a_read_only_folder_is_removed_by_an_ordinary_user(cluster) -> None:
    """Root may remove it anyway."""
    folder, target = cluster.source / "part 1", cluster.scratch / "data"
    folder.chmod(0o555)
    assert cluster.stage(target).returncode == 0
    folder.chmod(0o755)
    (folder / "0001").unlink()
    folder.chmod(0o555)
    done = cluster.stage(target)
    assert done.returncode == 0, done.stdout
    assert "removed, as no longer in the source: part 1/0001 (1 file)" in done.stdout
    assert not (target / "part 1" / "0001").exists()
    assert (target / "part 1").stat().st_mode & 0o777 == 0o555
