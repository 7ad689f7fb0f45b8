"""A lab's beginning and end, and what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from lab_fixtures import a100_nodes, output_of, spec_of
from lab_mounts import mount_tmpfs
from slurm_versions import slurm_or_skip

from clusterjobs.errors import InputError
from clusterjobs.lab.breakage import KILLS, kill_node, start_node
from clusterjobs.lab.folder import SCRIPTS
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.shape import LabSpec
from clusterjobs.lab.slurm import Slurm, find_slurm, unpacked_slurm

pytestmark = pytest.mark.lab

KINDS = ("mnt", "net", "pid", "uts", "ipc")


def namespaces() -> dict[str, list[int]]:
    """Every namespace of this machine with its processes."""
    found: dict[str, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        for kind in KINDS:
            try:
                link = str((process / "ns" / kind).readlink())
            except OSError:
                continue
            found.setdefault(link, []).append(int(process.name))
    return found


def left_behind(lab: Lab, held: set[str]) -> list[str]:
    """Namespaces, processes, mounts and cables that are still there."""
    folder = str(lab.folder.path)
    left = [link for link in namespaces() if link in held]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if folder in words:
            left.append(words)
    left += [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line
    ]
    return left + [path.name for path in Path("/sys/class/net").glob("node[0-9]*")]


@contextmanager
def held_by(lab: Lab) -> Iterator[set[str]]:
    """The namespaces of the lab and of its nodes, which are not this process's.

    They are kept open meanwhile: the kernel gives the number of a freed one to the next lab.
    """
    init = lab.init
    assert init is not None
    here = {str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in KINDS}
    inner = lab.node_run("train-dy-p4d-1", ["sleep", "0"])
    assert inner.returncode == 0
    pids = [init.pid, lab._node_pid("train-dy-p4d-1")]
    links = [Path(f"/proc/{pid}/ns/{kind}") for pid in pids for kind in KINDS]
    with ExitStack() as kept:
        for link in links:
            kept.enter_context(link.open())
        yield {str(link.readlink()) for link in links} - here


def test_down_leaves_nothing(slurm: Slurm, tmp_path: Path) -> None:
    with ExitStack() as kept:
        with running_lab(spec_of(a100_nodes()), tmp_path, slurm) as lab:
            (tmp_path / "job.sh").write_text("#!/bin/bash\nsrun sleep 100\n")
            job_id = lab.sbatch(tmp_path / "job.sh", "--nodes=2", "--output=/dev/null")
            until(lambda: lab.job(job_id).state == "RUNNING", 120, lambda: "not running")
            held = kept.enter_context(held_by(lab))
            assert len(held) == 10
            assert left_behind(lab, held)
        assert left_behind(lab, held) == []


def test_after_a_crash_nothing_is_left_and_the_lab_comes_up_again(
    slurm: Slurm, tmp_path: Path
) -> None:
    lab = Lab(tmp_path)
    lab.up(spec_of(a100_nodes()), slurm)
    init = lab.init
    assert init is not None
    with held_by(lab) as held:
        os.kill(init.pid, signal.SIGKILL)
        until(lambda: not init.is_alive(), 120, lambda: "init lives")
        until(lambda: not left_behind(lab, held), 120, lambda: f"left: {left_behind(lab, held)}")
    with pytest.raises(InputError, match="no lab is running"):
        lab.run(["sinfo"])
    with running_lab(spec_of(a100_nodes()), tmp_path, slurm) as again:
        assert set(again.node_states().values()) == {"idle"}


def test_a_second_up_is_an_error_and_harms_nothing(own_lab: Lab, slurm: Slurm) -> None:
    with pytest.raises(InputError, match="a lab is already running"):
        Lab(own_lab.folder.path).up(spec_of(a100_nodes()), slurm)
    assert set(own_lab.node_states().values()) == {"idle"}


def test_two_labs_do_not_meet(own_lab: Lab, slurm: Slurm, tmp_path: Path) -> None:
    with running_lab(spec_of(a100_nodes(0, 1)), tmp_path, slurm) as other:
        assert set(other.node_states()) == {"train-dy-p4d-1"}
        assert set(own_lab.node_states()) == {"train-dy-p4d-1", "train-st-p4d-1"}
    assert set(own_lab.node_states().values()) == {"idle"}


def test_a_start_that_fails_says_why_and_leaves_nothing(slurm: Slurm, tmp_path: Path) -> None:
    refused = a100_nodes()._replace(name="no such thing, Slurm")
    spec = LabSpec("test", (refused,), shared=("/fsx",))
    lab = Lab(tmp_path)
    with pytest.raises(InputError, match="slurmctld ended"):
        lab.up(spec, slurm)
    assert lab.init is None
    assert left_behind(lab, set()) == []


def test_shared_folders_outlive_the_lab_and_scratch_does_not(slurm: Slurm, tmp_path: Path) -> None:
    with running_lab(spec_of(a100_nodes(0, 1)), tmp_path, slurm) as lab:
        lab.node_run("train-dy-p4d-1", ["touch", "/fsx/kept", "/scratch/lost"])
    with running_lab(spec_of(a100_nodes(0, 1)), tmp_path, slurm) as lab:
        found = lab.node_run("train-dy-p4d-1", ["ls", "/fsx", "/scratch"]).stdout
    assert found.split() == ["/fsx:", "kept", "/scratch:"]
    assert (tmp_path / "shared/fsx/kept").exists()
    lab.delete()
    assert not tmp_path.exists()


def read(path: Path) -> str:
    return path.read_text() if path.exists() else f"no {path.name}"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["power", "network"])
def test_a_job_on_a_lost_node_is_requeued_and_the_node_comes_back(
    own_lab: Lab, tmp_path: Path, how: str
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/bash\n[[ ${SLURM_RESTART_COUNT:-0} == 0 ]] || exit 5\n"
        "srun bash -c 'touch /fsx/begun.$SLURM_JOB_ID.$SLURMD_NODENAME; sleep 600'\n"
    )
    log = tmp_path / "job.log"
    job_id = own_lab.sbatch(script, "--nodes=2", "--requeue", f"--output={log}")
    # A step that is still being started fails at once instead, and the job ends with it.
    begun = own_lab.folder.shared("/fsx")
    until(
        lambda: len(list(begun.glob(f"begun.{job_id}.*"))) == 2,
        90,
        lambda: f"not begun: {own_lab.job(job_id)} {own_lab.node_states()} {read(log)}",
    )
    kill_node(own_lab, "train-st-p4d-1", how)
    until(lambda: own_lab.job(job_id).restarts == 1, 120, lambda: "not requeued")
    start_node(own_lab, "train-st-p4d-1")
    assert own_lab.wait(job_id, 120).exit_code == 5


def test_a_node_that_was_only_just_started_can_be_killed_and_started(own_lab: Lab) -> None:
    for how in KILLS:
        kill_node(own_lab, "train-dy-p4d-1", how)
        start_node(own_lab, "train-dy-p4d-1")
        # The last step may still be completing: a node without storage is no news to Slurm.
        until(lambda: own_lab.node_states()["train-dy-p4d-1"] == "idle", 120, lambda: "not idle")
        assert own_lab.run(["srun", "-w", "train-dy-p4d-1", "true"]).returncode == 0


def test_a_node_without_storage_sees_no_shared_folder(own_lab: Lab) -> None:
    file = own_lab.folder.shared("/fsx") / "seen"
    file.touch()
    look = ["test", "-e", "/fsx/seen"]
    kill_node(own_lab, "train-dy-p4d-1", "storage")
    assert own_lab.node_run("train-dy-p4d-1", look).returncode != 0
    assert own_lab.node_run("train-st-p4d-1", look).returncode == 0
    start_node(own_lab, "train-dy-p4d-1")
    assert own_lab.node_run("train-dy-p4d-1", look).returncode == 0


def test_a_node_without_power_runs_nothing(own_lab: Lab) -> None:
    kill_node(own_lab, "train-dy-p4d-1", "power")
    with pytest.raises(InputError, match="is not running"):
        own_lab.node_run("train-dy-p4d-1", ["true"])
    start_node(own_lab, "train-dy-p4d-1")
    assert own_lab.node_run("train-dy-p4d-1", ["hostname"]).stdout == "train-dy-p4d-1\n"


def test_a_cable_that_is_out_reaches_nobody(own_lab: Lab) -> None:
    connect = ["bash", "-c", "timeout 5 bash -c ': < /dev/tcp/head-node/6817'"]
    assert own_lab.node_run("train-dy-p4d-1", connect).returncode == 0
    kill_node(own_lab, "train-dy-p4d-1", "network")
    assert own_lab.node_run("train-dy-p4d-1", connect).returncode != 0
    start_node(own_lab, "train-dy-p4d-1")
    assert own_lab.node_run("train-dy-p4d-1", connect).returncode == 0


def test_a_shared_folder_must_not_hide_the_lab_itself(slurm: Slurm, tmp_path: Path) -> None:
    spec = LabSpec("test", (a100_nodes(),), shared=(str(tmp_path),))
    with pytest.raises(InputError, match="would hide the lab's own folder"):
        Lab(tmp_path / "lab").up(spec, slurm)


def test_only_slurmd_killed_is_started_again_in_the_same_node(own_lab: Lab) -> None:
    own_lab.node_run("train-st-p4d-1", ["touch", "/dev/shm/still-the-same"])
    kill_node(own_lab, "train-st-p4d-1", "slurmd")
    with pytest.raises(InputError, match="already broken"):
        kill_node(own_lab, "train-st-p4d-1", "slurmd")
    start_node(own_lab, "train-st-p4d-1")
    assert own_lab.node_run("train-st-p4d-1", ["ls", "/dev/shm"]).stdout == "still-the-same\n"
    assert own_lab.run(["srun", "-w", "train-st-p4d-1", "true"]).returncode == 0


def test_a_controller_alone_judges_directives_for_500_nodes(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --gpus-per-node=8\n")
    spec = LabSpec("big", (a100_nodes(0, 500),), controller_only=True)
    with running_lab(spec, tmp_path / "lab", slurm) as lab:
        test = ["sbatch", "--test-only", str(tmp_path / "job.sh")]
        assert lab.run([*test[:2], "--nodes=500", test[2]]).returncode == 0
        assert lab.run([*test[:2], "--nodes=501", test[2]]).returncode != 0
        assert lab.run([*test[:2], "--gpus-per-node=9", test[2]]).returncode != 0


@pytest.mark.slow
def test_64_nodes_come_up(slurm: Slurm, tmp_path: Path) -> None:
    with running_lab(spec_of(a100_nodes(0, 64)), tmp_path, slurm) as lab:
        hosts = lab.run(["srun", "--nodes=64", "hostname"]).stdout.split()
    assert len(set(hosts)) == 64


def test_packages_are_unpacked_whole_though_two_start_together(
    slurm: Slurm, tmp_path: Path
) -> None:
    if slurm.root is None:
        pytest.skip("Slurm is installed on this machine")
    cache = tmp_path / "cache"
    (cache / "unpacking-left-by-a-crash").mkdir(parents=True)
    code = (
        "import sys, pathlib, clusterjobs.lab.slurm as p;"
        "print(p.find_slurm(pathlib.Path(sys.argv[1])).root)"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(cache)], stdout=-1, text=True)
        for _ in range(2)
    ]
    roots = {process.communicate()[0].strip() for process in both}
    (kept,) = cache.glob("slurm-*")
    assert roots == {str(kept)}
    assert find_slurm(cache).root == kept
    assert [path.name for path in cache.glob("unpacking-*")] == ["unpacking-left-by-a-crash"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
@pytest.mark.parametrize(
    ("user", "seen_as", "version"),
    [(4242, 4242, "own"), (65534, 65533, "own"), (65534, 65533, "26.05")],
    ids=["a number without a name", "nobody", "nobody, whom Slurm refuses from 25.11 on"],
)
def test_an_ordinary_user_needs_no_rights(
    slurm: Slurm, open_folder: Path, user: int, seen_as: int, version: str
) -> None:
    """Slurm refuses a number without a name in every version.

    The watchdog takes a process whose environment is unreadable for a rank, so a node has none.
    """
    chosen = slurm if version == "own" else slurm_or_skip(version)
    version = os.environ["CLUSTERJOBS_SLURM"] if version == "own" else version
    if chosen.root:
        cache = open_folder / ".cache/clusterjobs"
        shutil.copytree(chosen.root, cache / chosen.root.name, symlinks=True)
    output_of(["chown", "-R", str(user), str(open_folder)])
    script = Path(__file__).with_name("as_ordinary_user.py")
    seen = output_of([sys.executable, str(script), str(open_folder), str(user), version])
    assert seen.splitlines() == [
        f"train-dy-p4d-1 {seen_as} 0,1 CapEff: 0000000000000000 unreadable: 0",
        f"train-st-p4d-1 {seen_as} 0,1 CapEff: 0000000000000000 unreadable: 0",
        "init is gone",
    ]


def test_slurm_runs_on_though_a_disk_is_mounted_over_its_cache(
    slurm: Slurm, tmp_path: Path
) -> None:
    """A node of these jobs has a full disk over /tmp, where the cache may lie."""
    if slurm.root is None:
        pytest.skip("Slurm is installed on this machine")
    cached = tmp_path / "cache" / slurm.root.name
    shutil.copytree(slurm.root, cached, symlinks=True)
    node = "train-dy-p4d-1"
    with running_lab(spec_of(a100_nodes(0, 1)), tmp_path / "lab", unpacked_slurm(cached)) as lab:
        mount_tmpfs(lab, node, str(tmp_path / "cache"), "size=16k")
        assert lab.node_run(node, ["ls", str(tmp_path / "cache")]).stdout == ""
        assert lab.run(["srun", "-w", node, "hostname"]).stdout == f"{node}\n"
        assert lab.node_run(node, ["squeue", "--noheader"]).returncode == 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A home for another user; pytest's own folders are closed to other users."""
    for folder in SCRIPTS.parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            pytest.skip(f"{folder} is closed to other users")
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
