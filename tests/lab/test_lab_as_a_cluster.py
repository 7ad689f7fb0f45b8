"""A lab stands for a cluster with FSx, buckets and a queue's time limit: specs run as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_fixtures import output_of

from clusterjobs.lab.slurm import Slurm, cache_dir

pytestmark = pytest.mark.lab

CODE = "import sys; from clusterjobs.cli.main import run; sys.exit(run(sys.argv[1:]))"
CLUSTERJOBS = [sys.executable, "-c", CODE]
CLUSTER = """\
Region: us-east-1
Image: {Os: ubuntu2204}
HeadNode: {InstanceType: t3.medium, Networking: {SubnetId: subnet-12345678}}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: short
      CustomSlurmSettings: {MaxTime: "00:10:00"}
      Networking: {SubnetIds: [subnet-12345678]}
      Iam: {S3Access: [{BucketName: corpus}, {BucketName: kept, EnableWriteAccess: true}]}
      ComputeResources: [{Name: c, InstanceType: c6i.xlarge, MaxCount: 2}]
SharedStorage:
  - Name: fsx
    MountDir: /fsx
    StorageType: FsxLustre
    FsxLustreSettings: {StorageCapacity: 1200, DeploymentType: SCRATCH_2}
"""
SPEC = """\
name: staged
cluster: ./cluster.yaml
nodes: 2
ranks_per_node: 1
time_limit: "00:09:00"
framework: command
command: [bash, -c, "cat /fsx/books/words /fsx/eval/one; echo done > /fsx/saved/step-1"]
logs: /fsx/logs
data:
  - {source: "s3://corpus/books", target: /fsx/books}
  - {source: "s3://corpus/eval.zip", target: /fsx/eval, unpack: true}
checkpoints: {path: /fsx/saved, export: "s3://results/saved"}
restarts: {failure: 2, grace_seconds: 30}
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("specs")
    (path / "cluster.yaml").write_text(CLUSTER)
    (path / "exp.yaml").write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def lab(slurm: Slurm, folder: Path) -> Iterator[Path]:
    """The folder of a running lab; the shell of these tests knows where it is."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    os.environ["XDG_CACHE_HOME"] = str(cache_dir().parent)
    output_of([*CLUSTERJOBS, "lab", "up", "cluster.yaml"], cwd=folder)
    yield folder / "state" / "clusterjobs" / "labs" / "lab"
    output_of([*CLUSTERJOBS, "lab", "down", "--delete"], cwd=folder)


@pytest.fixture(autouse=True, scope="module")
def environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def run(lab: Path, folder: Path) -> Run:
    def run_here(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*CLUSTERJOBS, *words],
            cwd=folder,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
        )

    return run_here


@pytest.fixture
def buckets(lab: Path, folder: Path) -> None:
    (lab / "buckets" / "corpus" / "books").mkdir(parents=True, exist_ok=True)
    (lab / "buckets" / "corpus" / "books" / "words").write_text("the words\n")
    (folder / "one").write_text("the eval\n")
    pack = f"import zipfile; zipfile.ZipFile('{lab}/buckets/corpus/eval.zip', 'w').write('one')"
    output_of([sys.executable, "-c", pack], cwd=folder)


def test_a_bucket_without_a_folder_is_named_before_the_job_is_submitted(run: Run, lab: Path):
    done = run("lab", "run", "exp.yaml")
    assert done.returncode == 1
    assert "no folder here stands for s3://corpus/books" in done.stderr
    assert f"cp -r FILES {lab}/buckets/corpus/books" in done.stderr
    assert "submitted" not in done.stderr


def test_a_spec_with_data_in_buckets_runs_as_it_is(run: Run, lab: Path, buckets: None) -> None:
    done = run("lab", "run", "exp.yaml", "--set", "nodes=1", "--set=name=one", "--time=8")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "preload /fsx/books: a folder of the lab, 1 file" in done.stdout
    assert "/.lab/buckets/corpus/eval.zip stands for the bucket" in done.stdout
    assert done.stdout.count("the words\n") == 1
    assert done.stdout.count("the eval\n") == 1
    assert (lab / "buckets" / "results" / "saved" / "step-1").read_text() == "done\n"
    again = run("lab", "run", "exp.yaml")
    assert again.returncode == 0, again.stderr + again.stdout
    assert again.stdout.count("the words\n") == 2


def test_an_export_by_copy_arrives_in_the_buckets_folder(run: Run, lab: Path, buckets: None):
    options = ["--set", "checkpoints.via=copy", "--set", "checkpoints.export=s3://kept/here"]
    done = run("lab", "run", "exp.yaml", *options)
    assert done.returncode == 0, done.stderr + done.stdout
    assert (lab / "buckets" / "kept" / "here" / "step-1").read_text() == "done\n"


def test_without_its_association_a_job_ends_at_once_and_is_not_requeued(run: Run, lab: Path):
    assert run("render", "exp.yaml", "-o", "elsewhere").returncode == 0
    (lab / "shared" / "fsx" / "books").unlink(missing_ok=True)
    done = run("lab", "run", "elsewhere/job.sh")
    assert done.returncode == 1, done.stderr
    assert "nothing in /fsx/books: is it associated with s3://corpus/books" in done.stdout
    assert ": not_started" in done.stdout
    assert "requeued" not in done.stdout + done.stderr


def test_status_and_logs_find_the_jobs_in_the_shell_of_the_lab(run: Run, lab: Path, buckets: None):
    job_id = json.loads(run("lab", "run", "--json", "exp.yaml").stdout)["job_id"]
    path = f"{lab}/bin:{os.environ['PATH']}"
    env = {"CLUSTERJOBS_LAB": "lab", "PATH": path}
    state = json.loads(run("status", "exp.yaml", job_id, "--json", **env).stdout)
    assert state["jobs"][0]["attempts"][0]["reason"] == "completed"
    assert "the words" in run("logs", "exp.yaml", job_id, **env).stdout
    inside = run("lab", "shell", *CLUSTERJOBS, "logs", "exp.yaml", job_id)
    assert "the words" in inside.stdout, inside.stderr


def test_the_queues_time_limit_is_slurms(run: Run, folder: Path) -> None:
    (folder / "job.sh").write_text("#!/bin/bash\n")
    refused = run("lab", "run", "job.sh", "--time=11")
    assert refused.returncode == 1
    assert "time limit" in refused.stderr
    assert run("lab", "run", "job.sh", "--time=10").returncode == 0


def test_a_shell_sees_the_shared_folders_and_ends_with_its_commands_code(run: Run, lab: Path):
    (lab / "shared" / "fsx" / "seen").write_text("seen\n")
    script = "cat /fsx/seen; hostname; exit 7"
    done = run("lab", "shell", "bash", "-c", script)
    assert (done.returncode, done.stdout) == (7, "seen\nhead-node\n")
    done = run("lab", "shell", "--node", "short-dy-c-2", "bash", "-c", script)
    assert (done.returncode, done.stdout) == (7, "seen\nshort-dy-c-2\n")
    asked = subprocess.run(
        [*CLUSTERJOBS, "lab", "shell"],
        cwd=lab,
        env={**os.environ, "SHELL": "/bin/bash"},
        input="squeue --version && echo $CLUSTERJOBS_LAB\n",
        capture_output=True,
        text=True,
    )
    assert asked.stdout.splitlines()[-1] == "lab", asked.stderr
