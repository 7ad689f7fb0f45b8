"""A sweep of twelve points on a real Slurm: some fail, one is requeued, one is cancelled."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from clusterjobs import resources
from clusterjobs.cli import main
from clusterjobs.lab.lab import until
from clusterjobs.lab.slurm import Slurm, cache_dir

pytestmark = pytest.mark.lab

# What each point does, by its index; the others write a result.
POINT = r"""
import json, os, pathlib, sys, time
shared, _, lr, _, width = sys.argv[1:]
result = pathlib.Path(os.environ["CLUSTERJOBS_RESULT"])
started = pathlib.Path(shared, os.environ["CLUSTERJOBS_POINT"])
with started.open("a") as file:
    print(os.environ["SLURM_JOB_ID"], file=file)
kind = {"1e-3,512": "exit", "3e-4,512": "crash", "1e-4,512": "missing file",
        "3e-4,256": "time limit", "1e-4,1024": "waits"}.get(f"{lr},{width}")
attempt = int(os.environ.get("SLURM_RESTART_COUNT", "0")) + 1
print(f"step 1 loss={float(lr) * int(width):.4f}", flush=True)
mended = pathlib.Path(f"{shared}-mended").exists()
if kind == "exit" and not mended:
    sys.exit(7)
if kind == "crash" and not mended:
    os.kill(os.getpid(), 11)
if kind == "missing file" and not mended:
    open("/fsx/nowhere/data.bin")
while kind == "time limit" and attempt == 1 or kind == "waits" and not mended:
    if pathlib.Path(os.environ["CLUSTERJOBS_STOP_FILE"]).exists():
        sys.exit(0)
    time.sleep(0.05)
result.write_text(json.dumps({"loss": float(lr) * int(width)}))
"""


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """The shared folder of a lab with four nodes; commands of these tests find the lab."""
    folder = tmp_path_factory.mktemp("sweep")
    small = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    (folder / "four.yaml").write_text(small.replace("MaxCount: 2", "MaxCount: 4"))
    site = pathlib.Path(__file__).parents[2] / "examples" / "site.yaml"
    (folder / "config" / "clusterjobs").mkdir(parents=True)
    (folder / "config" / "clusterjobs" / "site.yaml").write_text(site.read_text())
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("CLUSTERJOBS_LAB", raising=False)
        patched.setenv("XDG_STATE_HOME", str(folder / "state"))
        patched.setenv("XDG_CACHE_HOME", str(cache_dir().parent))
        patched.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patched.chdir(folder)
        assert main.run(["lab", "up", "four.yaml", "--nodes", "4"]) == 0
        home = folder / "state" / "clusterjobs" / "labs" / "lab"
        patched.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
        patched.setenv("CLUSTERJOBS_LAB", "lab")
        try:
            yield home / "shared" / "fsx"
        finally:
            assert main.run(["lab", "down", "--delete"]) == 0


def run(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints."""
    capfd.readouterr()
    ended = main.run(list(words))
    shown = capfd.readouterr()
    assert ended == code, shown.out + shown.err
    return shown.out


def _array_id(folder: pathlib.Path) -> int:
    """The job id of the sweep's latest array."""
    lines = (folder / "submissions.jsonl").read_text().splitlines()
    return int(json.loads(lines[-1])["job_id"])


def write(name: str, **keys: Any) -> str:
    common = {"name": name, "cluster": "four.yaml", "framework": "command", "logs": "/fsx/logs"}
    spec = {**common, "ranks_per_node": 1, **keys}
    pathlib.Path(f"{name}.yaml").write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return f"{name}.yaml"


def points_of(capfd: pytest.CaptureFixture[str], spec: str) -> dict[int, dict[str, Any]]:
    """The points as `status --points --json` shows them, by their indexes."""
    found = json.loads(run(capfd, "status", spec, "--points", "--json"))
    return {one["index"]: one for one in found["sweeps"][0]["points"]}


def wait_for(capfd: pytest.CaptureFixture[str], spec: str, wanted: dict[int, str]) -> None:
    """Wait until the points have these states, by their indexes."""

    def states() -> dict[int, str]:
        return {index: one["state"] for index, one in points_of(capfd, spec).items()}

    def logs() -> str:
        points = points_of(capfd, spec).values()
        folders = [pathlib.Path(one["folder"]) for one in points if one["state"] == "failed"]
        return "\n".join((folder / "job.log").read_text() for folder in folders)

    def is_over() -> bool:
        return states() == wanted or not {"pending", "running"}.intersection(states().values())

    until(is_over, 120, lambda: f"{states()}, not {wanted}: {logs()}")
    assert states() == wanted, logs()


def starts(folder: pathlib.Path) -> dict[int, list[str]]:
    """By the index of a point: the job id of each of its attempts."""
    return {int(file.name[:4]): file.read_text().split() for file in folder.iterdir()}


def test_twelve_points_of_which_some_fail_and_the_second_submit(
    lab: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (lab / "twelve").mkdir()
    grid = {"args.lr": ["1e-3", "3e-4", "1e-4"], "args.width": [256, 512, 1024, 2048]}
    spec = write(
        "twelve",
        command=[sys.executable, "-c", POINT, "/fsx/twelve"],
        args={"lr": 0, "width": 0},
        checkpoints={"path": "/fsx/checkpoints/twelve"},
        restarts={"time_limit": 1, "grace_seconds": 5},
        time_limit="00:30:00",
        sweep={"grid": grid, "max_running": 4},
    )
    run(capfd, "submit", spec)
    done = dict.fromkeys(range(12), "completed")
    failed = dict.fromkeys((1, 5, 9), "failed")
    wait_for(capfd, spec, {**done, **failed, 4: "running", 10: "running"})

    array = _array_id(lab / "logs/twelve")
    # What Slurm does for --signal=B:USR1@...
    subprocess.run(["scancel", "--batch", "--signal=USR1", f"{array}_4"], check=True)
    subprocess.run(["scancel", f"{array}_10"], check=True)
    wait_for(capfd, spec, {**done, **failed, 10: "cancelled"})
    check_table(run(capfd, "status", spec, "--points", "--metric", "loss=([0-9.]+)"))
    assert "FileNotFoundError" in run(capfd, "logs", spec, "9")
    first = starts(lab / "twelve")
    once = dict.fromkeys(range(12), 1)
    assert {index: len(jobs) for index, jobs in first.items()} == {**once, 4: 2}
    assert len(set(first[4])) == 1

    (lab / "twelve-mended").touch()
    (job,) = json.loads(run(capfd, "submit", spec, "--json"))["jobs"]
    assert job["array"] == "1,5,9-10%4"
    wait_for(capfd, spec, done)
    second = {index: jobs[len(first[index]) :] for index, jobs in starts(lab / "twelve").items()}
    again = {index: len(jobs) for index, jobs in second.items() if jobs}
    assert again == dict.fromkeys((1, 5, 9, 10), 1)
    assert json.loads(run(capfd, "submit", spec, "--json"))["jobs"] == []


def check_table(table: str) -> None:
    """The table of the points after the first submission."""
    assert table.startswith("twelve: 12 points: 8 completed, 3 failed, 1 cancelled\n")
    shown = {line.split()[0]: line for line in table.splitlines() if line.strip()}
    whys = {
        1: "failure, exit code 7",
        5: "failure, exit code 139",
        9: "failure, exit code 1",
        10: "cancelled, exit code 143",
    }
    states = {**dict.fromkeys(range(12), "completed"), 1: "failed", 5: "failed", 9: "failed"}
    for index, state in {**states, 10: "cancelled"}.items():
        row = shown[str(index)]
        lr, width = ("1e-3", "3e-4", "1e-4")[index // 4], 256 << index % 4
        attempts, loss = 2 if index == 4 else 1, f"{float(lr) * width:.4f}"
        values = [str(index), lr, str(width), state]
        assert row.split()[:4] == values
        assert row.split()[5:8] == [str(attempts), "1", loss]
        assert row.split(loss)[1].strip() == whys.get(index, "")


HOSTILE = (
    'it\'s "quoted" \\ `touch owned`',
    "$(touch owned) ${HOME} $HOME; touch owned &",
    "one line\nand another\n",
    "ünïcode — 学習 \u202e",
    "300 " + "'\"$(touch owned)" * 20,
)
# Every rank writes down its words, byte for byte.
WORDS = r"""
import os, pathlib, sys
file = pathlib.Path(sys.argv[1], os.environ["CLUSTERJOBS_POINT"][:4] + "." + os.environ["RANK"])
new = file.with_name(file.name + ".new")  # one for each rank
new.write_bytes(b"\0".join(map(os.fsencode, sys.argv[2:])))
new.rename(file.with_name(file.name + ".words"))
"""


def test_hostile_values_reach_the_ranks_of_their_point(
    lab: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = lab / "hostile"
    folder.mkdir()
    value, node = "{{ args.value }}/{{ point.index }}", "{{ job.node_rank }}/{{ world_size }}"
    spec = write(
        "hostile",
        nodes=2,
        command=[sys.executable, "-c", WORDS, "/fsx/hostile", value, node],
        args={"value": "", "node": "{{ job.node_rank }}"},
        sweep={"grid": {"args.value": list(HOSTILE)}},
    )
    run(capfd, "submit", spec)
    wait_for(capfd, spec, dict.fromkeys(range(5), "completed"))
    for index, text in enumerate(HOSTILE):
        for rank in range(2):
            words = (folder / f"{index:04}.{rank}.words").read_bytes().decode().split("\0")
            expected = [f"{text}/{index}", f"{rank}/2", "--value", text, "--node", str(rank)]
            assert words == expected
    assert not list(lab.parents[3].rglob("owned"))
