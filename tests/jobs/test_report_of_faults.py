"""The report of a run with two time limits, a crash and a lost node, against its own record."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections import Counter

import pytest
import yaml
from faults import SAVE_EVERY, Case, Running, say_the_limit_is_near
from test_faults import lost_steps

from clusterjobs import resources
from clusterjobs.cli import main
from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.lab.breakage import kill_node
from clusterjobs.lab.lab import running_lab
from clusterjobs.lab.shape import lab_spec
from clusterjobs.lab.slurm import Slurm

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def break_four_times(job: Running) -> None:
    job.reach_step(15)
    say_the_limit_is_near(job)
    job.reach_step(27)
    job.kill_rank(3)
    job.reach_step(35)
    say_the_limit_is_near(job)
    job.reach_step(47)
    kill_node(job.lab, job.nodes()[1], "power")


CASE = Case(
    *("four faults", "one run", break_four_times),
    ("time_limit", "failure", "time_limit", "node_failure", "completed"),
    options=("--timed", "--seconds", "0.4"),
)


def test_goodput_and_lost_steps_are_those_of_the_programs_own_record(
    slurm: Slurm,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    cluster = tmp_path / "four.yaml"
    cluster.write_text(text.replace("MaxCount: 2", "MaxCount: 4"))
    site = pathlib.Path(__file__).parents[2] / "examples" / "site.yaml"
    (tmp_path / "site.yaml").write_text(site.read_text())
    facts, document = read_cluster(cluster.read_text(encoding="utf-8"), str(cluster), {})
    (tmp_path / "exp.yaml").write_text(yaml.safe_dump(CASE.spec(cluster)))
    assert main.run(["render", str(tmp_path / "exp.yaml"), "-o", str(tmp_path / "out")]) == 0
    with running_lab(lab_spec(slurm_shape(facts, document), 4), tmp_path / "lab", slurm) as lab:
        job_id = lab.sbatch(tmp_path / "out" / "job.sh", cwd=tmp_path)
        job = Running(lab, job_id, lab.folder.shared("/fsx") / "faults" / CASE.name)
        CASE.inject(job)
        assert job.wait() == 0, job.log()
        records, lost = job.records(), lost_steps(job)
        times = [line.split() for line in (job.folder / "times").read_text().splitlines()]
        folder = lab.folder.shared("/fsx") / "logs" / job_id
        capsys.readouterr()
        assert main.run(["report", str(folder), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]

    assert [one["reason"] for one in records] == list(CASE.reasons), job.log()
    assert [one["reason"] for one in run["attempts"]] == list(CASE.reasons)
    assert run["steps"] == 60
    assert run["lost_steps"] == sum(lost)
    assert 0 < sum(lost) <= 2 * SAVE_EVERY
    # What it did is the last time of each step; a usual step is the median; what was paid for is
    # the time of all attempts.
    kept = {int(step): float(seconds) for step, seconds in times}
    usual = statistics.median(float(seconds) for _, seconds in times)
    paid = sum(one["seconds"] for one in records)
    useful = sum(min(usual, seconds) for seconds in kept.values())
    assert Counter(map(int, dict(times))) == Counter(range(1, 61))
    assert run["paid_seconds"] == paid
    assert run["step_seconds"] == pytest.approx(usual, rel=0.02)
    assert run["goodput"] == pytest.approx(useful / paid, rel=0.02)
    # Waiting for nodes costs nothing; everything else adds up to what was paid for.
    lost_seconds = {kind: seconds or 0.0 for kind, seconds in run["lost_seconds"].items()}
    assert lost_seconds["queue"] >= 0
    unpaid = lost_seconds.pop("queue")
    assert unpaid == sum(one["queue_seconds"] for one in run["attempts"])
    assert sum(lost_seconds.values()) + run["goodput"] * paid == pytest.approx(paid, rel=0.02)
