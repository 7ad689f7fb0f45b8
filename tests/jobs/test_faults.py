"""No step is lost but those since the last complete checkpoint, whatever breaks, whenever."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import yaml
from faults import CASES, LIMITED, NODES, SAVE_EVERY, Case, Running

from clusterjobs import resources
from clusterjobs.cli import main
from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.shape import lab_spec
from clusterjobs.lab.slurm import Slurm

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Ended = tuple[Running, int]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The cluster `small`, with nodes enough for all cases at once."""
    text = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    assert "MaxCount: 2" in text
    file = tmp_path_factory.mktemp("faults") / "many.yaml"
    file.write_text(text.replace("MaxCount: 2", f"MaxCount: {NODES}"))
    site = pathlib.Path(__file__).parents[2] / "examples" / "site.yaml"
    (file.parent / "site.yaml").write_text(site.read_text())
    return file


@pytest.fixture(scope="module")
def ended(
    slurm: Slurm, cluster: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Ended]]]:
    """Each case's job, after it has ended."""
    facts, document = read_cluster(cluster.read_text(encoding="utf-8"), str(cluster), {})
    spec = lab_spec(slurm_shape(facts, document), NODES)
    with (
        running_lab(spec, tmp_path_factory.mktemp("faults-lab"), slurm) as lab,
        ThreadPoolExecutor(len(CASES) + len(LIMITED)) as pool,
    ):
        yield {
            case.name: pool.submit(run, case, submit(case, cluster, lab), lab)
            for case in (*CASES, *LIMITED)
        }


def submit(case: Case, cluster: pathlib.Path, lab: Lab) -> str:
    folder = cluster.parent / case.name
    folder.mkdir()
    (folder / "site.yaml").symlink_to("../site.yaml")
    (folder / "exp.yaml").write_text(yaml.safe_dump(case.spec(cluster)))
    assert main.run(["render", str(folder / "exp.yaml"), "-o", str(folder / "out")]) == 0
    script = folder / "out" / "job.sh"
    program = '/watchdog.py" '
    assert program in script.read_text()
    script.write_text(script.read_text().replace(program, f"{program}{case.watchdog} "))
    return lab.sbatch(script, cwd=folder)


def run(case: Case, job_id: str, lab: Lab) -> Ended:
    job = Running(lab, job_id, lab.folder.shared("/fsx") / "faults" / case.name)
    case.inject(job)
    return job, job.wait()


def lost_steps(job: Running) -> list[int]:
    """For each restart, how many steps had been done behind the checkpoint it began from."""
    attempts, done, lost = job.trace(), 0, []
    for begin, *steps in attempts:
        if done:
            lost.append(done - begin)
        done = max([done, *steps])
    return lost


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_costs_the_steps_since_the_last_checkpoint(
    case: Case,
    slurm: Slurm,
    ended: dict[str, Future[Ended]],
    fault_table: list[str],
    fault_counts: Counter[str],
) -> None:
    job, exit_code = ended[case.name].result()
    lost = lost_steps(job)
    fault_counts["lost_steps"] += sum(max(0, steps - SAVE_EVERY) for steps in lost)
    reasons = tuple(one["reason"] for one in job.records())
    fault_table.append(
        f"{case.fault}, {case.moment}: {', '.join(reasons)}; exit code {exit_code}; "
        f"steps repeated: {', '.join(map(str, lost)) or 'none'}"
    )
    accepted = case.accepts(reasons, slurm.version)
    fault_counts["wrong_records"] += not accepted
    assert accepted, (reasons, job.log())
    assert exit_code in case.exit_codes, job.log()
    assert all(0 <= steps <= SAVE_EVERY for steps in lost), (lost, job.log())
    if exit_code == 0:
        assert job.trace()[-1][-1] == 60


def test_at_the_time_limit_20_of_20_jobs_save_and_are_requeued(
    ended: dict[str, Future[Ended]], fault_table: list[str], fault_counts: Counter[str]
) -> None:
    fault_counts["tried"] = len(LIMITED)
    jobs = [ended[case.name].result() for case in LIMITED]
    for job, exit_code in jobs:
        reasons = [one["reason"] for one in job.records()]
        fault_counts["lost_steps"] += sum(map(abs, lost_steps(job)))
        fault_counts["wrong_records"] += set(reasons[:-1]) != {"time_limit"}
        assert exit_code == 0, job.log()
        assert reasons[-1] == "completed", job.log()
        assert set(reasons[:-1]) == {"time_limit"}, job.log()
        assert set(lost_steps(job)) == {0}, job.log()
        assert job.trace()[-1][-1] == 300
    fault_table.append(f"a real time limit: {len(jobs)} of {len(LIMITED)} saved and requeued")
