"""The preflight in rendered jobs on a real Slurm: faults are put into one node of three.

What the lab has not is acted by stand-ins on PATH (nvidia-smi, fi_info; their words are explained
in tests/node) and, since namespaces share the machine's clock, in what a node reads from its own.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from lab_mounts import bind_over, tmpfs_over
from rendered_jobs import Ended, Jobs, shape_of

from clusterjobs.lab.breakage import kill_node, start_node
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

FAILED = 69
FIRST, SECOND, THIRD = (f"train-dy-p4d-{n}" for n in (1, 2, 3))

NVIDIA_SMI = """\
#!/bin/bash
[[ ! -e /fsx/hang ]] || sleep 600
[[ $1 == --query-gpu=* ]] || exit 0
count=8
[[ $SLURMD_NODENAME != {bad} ]] || count=7
for ((i = 0; i < count; i++)); do echo 'NVIDIA A100-SXM4-40GB, 0'; done
"""
FI_INFO = """\
#!/bin/bash
count=4
[[ $SLURMD_NODENAME != {bad} ]] || count=3
for ((i = 0; i < count; i++)); do
  printf 'provider: efa\\n    fabric: efa\\n    domain: rdmap%ss27-rdm\\n' "$i"
done
"""


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("p4d")
    with running_lab(shape_of("p4d-a100", nodes=3), folder, slurm) as running:
        yield running


def spec_of(jobs: Jobs, name: str, **keys: Any) -> dict[str, Any]:
    common = {"cluster": "p4d-a100", "framework": "command", "preflight": True}
    return jobs.spec(name, **{**common, **keys})


def with_stand_ins(jobs: Jobs, bad: str = "none", **programs: str) -> dict[str, str]:
    """Programs in a folder of all nodes, and the PATH that finds them."""
    folder = jobs.lab.folder.shared("/fsx") / "bin"
    folder.mkdir(exist_ok=True)
    for name, text in programs.items():
        path = folder / name.replace("_", "-" if name == "nvidia_smi" else "_")
        path.write_text(text.replace("{bad}", bad))
        path.chmod(0o755)
    return {"PATH": "/fsx/bin:${PATH}"}


def tell(table: list[str], fault: str, ended: Ended, log: str | None = None) -> None:
    """A line of the faults' table."""
    began = "the training ran on other nodes" if ended.ranks else "no rank was started"
    seen = "; ".join(verdicts(log or ended.log))
    table.append(f"preflight, {fault}: {seen}; {began}; exit code {ended.exit_code}")


def verdicts(log: str) -> list[str]:
    start = "clusterjobs: preflight failed on "
    return [line[len(start) :] for line in log.splitlines() if line.startswith(start)]


def test_a_lab_lacks_hardware_and_says_so(jobs: Jobs) -> None:
    ended = jobs.run(spec_of(jobs, "lab"))
    assert ended.exit_code == 0, ended.log
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    folder = f"/fsx/logs/{ended.job_id}"
    lines = [" ".join(line.split()) for line in ended.log.splitlines()]
    for line in (
        "absent gpus no nvidia-smi 8, no uncorrected ECC errors all 2",
        "absent efa no fi_info 4 domains all 2",
        f"ok folder {folder} the same, writable the batch host's, writable all 2",
        "ok clock within 5 s within 5 s all 2",
        "clusterjobs: this is a lab: absent hardware is no fault",
    ):
        assert line in lines
    assert any(line.startswith("clusterjobs: preflight passed on 2 nodes in ") for line in lines)


def test_hardware_that_a_lab_has_is_judged(jobs: Jobs) -> None:
    env = with_stand_ins(jobs, SECOND, nvidia_smi=NVIDIA_SMI, fi_info=FI_INFO)
    ended = jobs.run(spec_of(jobs, "hardware", env=env, preflight=["gpus", "efa"]))
    assert ended.exit_code == FAILED, ended.log
    assert ended.ranks == {}
    assert verdicts(ended.log) == [
        f"node {SECOND}: gpus: 7 NVIDIA A100-SXM4-40GB; wanted: 8, no uncorrected ECC errors",
        f"node {SECOND}: efa: 3 domains; wanted: 4 domains",
    ]


def test_a_limit_inherited_from_the_submitting_shell_is_seen(jobs: Jobs) -> None:
    """With `propagate`, Slurm hands the limits of the shell that calls sbatch on to the ranks."""
    wish = {"preflight": ["memlock"], "sbatch": {"propagate": "ALL"}}
    script = jobs.render(
        spec_of(jobs, "memlock", env=with_stand_ins(jobs, fi_info=FI_INFO), **wish)
    )
    sbatch = ["bash", "-c", 'ulimit -l 64; exec sbatch --parsable "$1"', "sbatch", str(script)]
    submitted = jobs.lab.run(sbatch, cwd=script.parent)
    ended = jobs.end(submitted.stdout.strip(), "memlock")
    assert ended.exit_code == FAILED, ended.log
    assert verdicts(ended.log) == ["nodes train-dy-p4d-[1-2]: memlock: 64 KiB; wanted: unlimited"]


@contextlib.contextmanager
def without_storage(lab: Lab, node: str) -> Iterator[None]:
    kill_node(lab, node, "storage")
    try:
        yield
    finally:
        start_node(lab, node)


def test_a_missing_mount_is_named_though_the_program_lies_on_it(
    jobs: Jobs, fault_table: list[str]
) -> None:
    with without_storage(jobs.lab, SECOND):
        ended = jobs.run(spec_of(jobs, "storage", checkpoints={"path": "/fsx/saved"}))
    tell(fault_table, "shared mount missing on one node", ended)
    assert ended.exit_code == FAILED, ended.log
    assert ended.ranks == {}
    assert verdicts(ended.log) == [
        f"node {SECOND}: lustre /fsx: a folder of the node's own; wanted: a mount of lustre"
    ]  # what follows from it is in the table alone
    table = [" ".join(line.split()) for line in ended.log.splitlines()]
    assert f"BAD folder /fsx/saved not there the batch host's, writable {SECOND}" in table


def test_a_bad_node_is_left_out_when_the_job_starts_again(
    jobs: Jobs, fault_table: list[str]
) -> None:
    wish = {"on_bad_node": "exclude"}
    with without_storage(jobs.lab, SECOND):
        ended = jobs.run(spec_of(jobs, "excluded", preflight=wish))
    tell(fault_table, "shared mount missing on one node, on_bad_node: exclude", ended)
    assert ended.exit_code == 0, ended.log
    assert f"starting again without {SECOND}" in ended.log
    assert {record["host"] for record in ended.ranks.values()} == {FIRST, THIRD}
    shown = jobs.lab.run(["scontrol", "--oneliner", "show", "job", ended.job_id]).stdout
    assert f" ExcNodeList={SECOND} " in shown
    assert " Requeue=0 Restarts=1 " in shown  # and a lost node ends it, as before


def test_a_batch_host_without_the_mount_is_to_blame_alone(
    jobs: Jobs, fault_table: list[str]
) -> None:
    """The others do not see its files, and are not bad for that."""
    wish = {"checks": ["mounts"], "on_bad_node": "exclude"}
    with without_storage(jobs.lab, FIRST):
        ended = jobs.run(spec_of(jobs, "first", preflight=wish))
    slurms = (jobs.folder / "first/out" / f"first-{ended.job_id}.out").read_text()  # on no mount
    tell(fault_table, "shared mount missing on the batch host", ended, slurms)
    assert ended.exit_code == 0, slurms
    folder = "a folder of the node's own; wanted: a mount of lustre"
    assert verdicts(slurms) == [f"node {FIRST}: lustre /fsx: {folder}"]
    assert {record["host"] for record in ended.ranks.values()} == {SECOND, THIRD}


def test_nodes_are_left_out_beside_those_that_the_user_left_out(jobs: Jobs) -> None:
    script = jobs.render(spec_of(jobs, "beside", nodes=1, preflight={"on_bad_node": "exclude"}))
    # One bad node of one is most of them, and no node's fault: here the program is told otherwise.
    changed(script, "if bad_nodes and 2 * len(bad_nodes) <= len(nodes)", "if bad_nodes")
    with without_storage(jobs.lab, SECOND):
        job_id = jobs.lab.sbatch(script, f"--exclude={FIRST}", cwd=script.parent)
        ended = jobs.end(job_id, "beside")
    assert ended.exit_code == 0, ended.log
    assert {record["host"] for record in ended.ranks.values()} == {THIRD}


def changed(script: pathlib.Path, old: str, new: str) -> pathlib.Path:
    text = script.read_text()
    assert text.count(old) == 1
    script.write_text(text.replace(old, new))
    return script


def test_a_clock_that_is_wrong_is_seen(jobs: Jobs, fault_table: list[str]) -> None:
    script = jobs.render(spec_of(jobs, "clock"))
    skewed = f"[[ $node != {SECOND} ]] || now=$((EPOCHSECONDS + 3600)).5\n  report clock at"
    changed(script, "report clock at", skewed)
    ended = jobs.end(jobs.submit(script), "clock")
    tell(fault_table, "clock skew (acted: the nodes of a lab have one clock)", ended)
    assert ended.exit_code == FAILED, ended.log
    (verdict,) = verdicts(ended.log)
    said = (
        rf"node {SECOND}: clock: 3[56]\d\d s ahead; wanted: within 5 s"  # each answers in its time
    )
    assert re.match(said, verdict), verdict


def test_a_port_that_is_taken_is_seen(jobs: Jobs, fault_table: list[str]) -> None:
    script = jobs.render(spec_of(jobs, "port"))
    take = (
        "import os, socket, time; "
        "s = socket.create_server(('', int(os.environ['MASTER_PORT']))); time.sleep(300)"
    )
    port = '"/dev/tcp/127.0.0.1/$MASTER_PORT"'
    mark = "# ---- preflight:"
    wait = f"until (: < {port}) 2>/dev/null; do :; done"
    changed(script, mark, f'python3 -c "{take}" &\n{wait}\n{mark}')
    ended = jobs.end(jobs.submit(script), "port")
    tell(fault_table, "port taken between its choice and the preflight", ended)
    assert ended.exit_code == FAILED, ended.log
    port = 12000 + int(ended.job_id) % 20000
    assert verdicts(ended.log) == [
        f"node {FIRST}: port: {port}: Address already in use; wanted: a free port"
    ]


def test_a_name_that_one_node_does_not_know_is_seen(
    jobs: Jobs, tmp_path: pathlib.Path, fault_table: list[str]
) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    with bind_over(jobs.lab, SECOND, tmp_path / "hosts", "/etc/hosts"):
        ended = jobs.run(spec_of(jobs, "names", preflight=["names"]))
    tell(fault_table, "MASTER_ADDR unknown to one node", ended)
    assert ended.exit_code == FAILED, ended.log
    (verdict,) = verdicts(ended.log)
    assert verdict.startswith(f"node {SECOND}: names: {FIRST}: ")


def test_a_small_dev_shm_and_a_full_disk_are_seen(jobs: Jobs, fault_table: list[str]) -> None:
    shm = tmpfs_over(jobs.lab, SECOND, "/dev/shm", "size=64m")
    with shm, tmpfs_over(jobs.lab, THIRD, "/tmp", "size=64m"):
        ended = jobs.run(spec_of(jobs, "small", nodes=3, preflight=["shm", "space"]))
    tell(fault_table, "small /dev/shm, and a full /tmp", ended)
    assert ended.exit_code == FAILED, ended.log
    assert verdicts(ended.log) == [
        f"node {SECOND}: shm: 0.06 GiB; wanted: 1 GiB free",
        f"node {THIRD}: space /tmp: 0.06 GiB; wanted: 1 GiB free",
    ]


@pytest.mark.parametrize("script_hears", ["first", "last"])
def test_a_job_can_be_cancelled_while_a_check_hangs(jobs: Jobs, script_hears: str) -> None:
    """Slurm ends the step and tells the script; which of them is quicker changes nothing."""
    name = f"cancelled-{script_hears}"
    env = with_stand_ins(
        jobs, nvidia_smi=NVIDIA_SMI.replace("sleep 600", "touch /fsx/hung; sleep 600")
    )
    shared = jobs.lab.folder.shared("/fsx")
    (shared / "hang").touch()
    try:
        script = jobs.render(spec_of(jobs, name, env=env))
        if script_hears == "last":
            changed(script, "# ---- preflight:", "trap '' TERM\n# ---- preflight:")
        job_id = jobs.submit(script)
        until(lambda: (shared / "hung").exists(), 120, lambda: "nothing hangs")
        assert jobs.lab.run(["scancel", job_id]).returncode == 0
        ended = jobs.end(job_id, name)
    finally:
        (shared / "hang").unlink()
        (shared / "hung").unlink(missing_ok=True)
    assert ended.ranks == {}
    assert re.search(r"ended with exit code 143 after \d+ s: cancelled", ended.log), ended.log


def test_a_check_that_hangs_ends_the_job_and_is_named(jobs: Jobs, fault_table: list[str]) -> None:
    env = with_stand_ins(jobs, nvidia_smi=NVIDIA_SMI)
    shared = jobs.lab.folder.shared("/fsx")
    (shared / "hang").touch()
    try:
        wish = {"checks": ["gpus", "shm"], "seconds": 6}
        ended = jobs.run(spec_of(jobs, "hanging", env=env, preflight=wish))
    finally:
        (shared / "hang").unlink()
    tell(fault_table, "nvidia-smi hangs", ended)
    assert ended.exit_code == FAILED, ended.log
    said = [re.sub(r"\[\d[,-]\d\]", "[A,B]", line) for line in verdicts(ended.log)]
    assert said == [
        f"nodes train-dy-p4d-[A,B]: {check}: no answer in 6 s; wanted: an answer"
        for check in ("gpus", "processes")
    ]
