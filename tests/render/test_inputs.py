"""What a job looks for before it starts ranks: whole scripts in bash, over real folders."""

from __future__ import annotations

import os
import pathlib
import re
import sys

import pytest
from script_runs import Run, run_script, script


def complaint(folder: pathlib.Path, **keys: object) -> str:
    """Why the job does not start, "" if it gets past its inputs."""
    run = run_script(folder, script(**keys), stand_ins={"srun": "exit 0"})
    found = re.search(
        r"(?m)^clusterjobs: ((?:no script|no executable program|the data source) .*)$", run.log
    )
    assert bool(found) == (run.reasons == ["not_started"]), run.log
    return found[1] if found else ""


def python(**keys: object) -> dict[str, object]:
    return {"framework": "torchrun", "launcher": "srun", **keys}


def test_a_missing_script_is_named_with_its_folder_and_the_keys_to_correct(
    tmp_path: pathlib.Path,
) -> None:
    keys = "correct the spec's script or workdir, or put it there"
    told = complaint(tmp_path, **python(script="trian.py"))
    assert told == f"no script trian.py in {tmp_path}: {keys}"
    told = complaint(tmp_path, **python(script=f"{tmp_path}/trian.py"))
    whole = f"no script {tmp_path}/trian.py here"
    assert told == f"{whole}: correct the spec's script, or put it there"


def test_a_script_that_can_be_read_is_no_complaint(tmp_path: pathlib.Path) -> None:
    for name in ("train.py", "==", "]]", "it's $(false)", "!", "("):
        (tmp_path / name).touch()
        written = name.replace("$", "$$")  # a dollar that is one
        assert complaint(tmp_path, **python(script=written)) == "", name


def test_a_missing_program_or_script_of_a_command_is_named(tmp_path: pathlib.Path) -> None:
    keys = "correct the spec's command or workdir, or put it there"
    told = complaint(tmp_path, command=["./train", "--fast"])
    assert told == f"no executable program ./train in {tmp_path}: {keys}"
    (tmp_path / "train").touch()
    assert complaint(tmp_path, command=["./train"]) == told  # it cannot be executed
    (tmp_path / "train").chmod(0o755)
    assert complaint(tmp_path, command=["./train"]) == ""
    for first in ("python3", "bash", "/usr/bin/python3"):
        told = complaint(tmp_path, command=[first, "train.py", "--fast"])
        assert told == f"no script train.py in {tmp_path}: {keys}"
    (tmp_path / "train.py").touch()
    assert complaint(tmp_path, command=["python3", "train.py"]) == ""


def test_what_is_no_file_of_a_command_is_not_looked_for(tmp_path: pathlib.Path) -> None:
    for command in (["true"], ["bash", "-c", "./x"], ["python3", "-m", "x"], ["echo", "x.py"]):
        assert complaint(tmp_path, command=command) == "", command
    software = {"container": {"image": "/fsx/a.sif", "runtime": "apptainer"}}
    assert "[[ -x" not in script(command=["/opt/nccl/all_reduce"], software=software)


def test_a_program_that_is_missing_is_not_tried_again(tmp_path: pathlib.Path) -> None:
    checkpoints = {"path": f"{tmp_path}/saved"}
    run = run_script(tmp_path, script(checkpoints=checkpoints, **TRIED_AGAIN))
    assert "no executable program ./run" in run.log
    assert (run.code, run.reasons, run.requeues) == (1, ["not_started"], 0), run.log


def test_a_link_to_nothing_is_no_script(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.py").symlink_to(tmp_path / "nowhere")
    assert complaint(tmp_path, **python(script="train.py")).startswith("no script train.py")


def test_a_source_is_missed_until_its_data_is_there(tmp_path: pathlib.Path) -> None:
    data = [{"source": f"{tmp_path}/from", "target": f"{tmp_path}/to", "scope": "node"}]
    hint = "correct the spec's data[0].source, or put the data there"
    ran = {"command": ["true"], "data": data}
    told = complaint(tmp_path, **ran)
    assert re.fullmatch(rf"the data source {tmp_path}/from does not exist on node \S+: (.*)", told)
    assert told.endswith(hint)
    (tmp_path / "to").mkdir()  # staged by an earlier job: its source may be gone since
    run = run_script(tmp_path, script(**ran), stand_ins={"srun": "exit 0"})
    assert "the data source" not in run.log


@pytest.mark.parametrize(
    ("end", "programs"),
    [
        ("tar", ["tar"]),
        ("tgz", ["tar", "gzip"]),
        ("tar.bz2", ["tar", "bzip2"]),
        ("TAR.XZ", ["tar", "xz"]),
        ("tar.zst", ["tar", "zstd"]),
        ("zip", []),
    ],
)
def test_a_node_without_a_program_to_unpack_is_found_before_data_is_copied(
    tmp_path: pathlib.Path, end: str, programs: list[str]
) -> None:
    archive = {"source": f"{tmp_path}/a.{end}", "target": f"{tmp_path}/to", "scope": "node"}
    text = script(command=["true"], data=[{**archive, "unpack": True}])
    before, _, _ = text.partition('"$job_dir/stage.py" --unpack')
    wanted = [f"[[ -n $(type -P {one}) ]] || fail 'no program {one} on this" for one in programs]
    assert [one in before for one in wanted] == [True] * len(programs)
    assert text.count("to unpack an archive of data: install the package") == len(programs)
    assert "to unpack an archive" not in script(command=["true"], data=[archive])


def test_the_inputs_are_checked_after_the_nodes_and_before_data_is_copied() -> None:
    text = script(**python(script="t.py"), preflight=True, data=[{"source": "/a", "target": "/b"}])
    checked, staged = text.index("\n  check_nodes"), text.index('"$job_dir/stage.py"')
    assert checked < text.index("[[ -e /a") < staged
    assert text.index("[[ -r t.py") < staged


def test_what_a_command_before_or_the_data_may_make_is_checked_after_them() -> None:
    text = script(**python(script="t.py"), before=[["git", "clone", "x"]])
    assert text.index("git clone") < text.index("[[ -r t.py") < text.index("  run_ranks")
    data = [{"source": "s3://bucket/code", "target": "/fsx/code"}]
    text = script(**python(script="t.py", workdir="/fsx/code"), data=data)
    assert text.index("\n  stage python3") < text.index("[[ -r t.py")
    data.append({"source": "/fsx/code/one", "target": "/scratch/one", "scope": "node"})
    assert "[[ -e /fsx/code/one" not in script(**python(script="t.py"), data=data)


def test_a_script_that_only_the_container_has_is_not_looked_for() -> None:
    software = {"container": {"image": "/fsx/a.sif", "runtime": "apptainer"}}
    assert "[[ -r" not in script(**python(script="/opt/train.py"), software=software)
    assert "[[ -r train.py" in script(**python(script="train.py"), software=software)


# ------------------------------------------------------------------ buckets

FSX = """
Region: us-east-1
Image: {Os: ubuntu2204}
HeadNode: {InstanceType: t3.medium, Networking: {SubnetId: subnet-12345678}}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: train
      Networking: {SubnetIds: [subnet-12345678]}
      ComputeResources: [{Name: c, InstanceType: c6i.xlarge, MaxCount: 2}]
SharedStorage:
  - {Name: fsx, MountDir: "@", StorageType: FsxLustre, FsxLustreSettings: {StorageCapacity: 1200}}
"""
DENIED = """
echo "aws $*" >> "$REQUESTS"
[[ "$*" != *denied* ]] || {
  echo "An error occurred (AccessDenied) when calling the ListObjectsV2 operation" >&2; exit 254
}
[[ "$*" != *missing* ]] || {
  echo "An error occurred (NoSuchBucket) when calling the ListObjectsV2 operation" >&2; exit 254
}
[[ "$*" != *failing* ]] || {
  echo "An error occurred (InternalError) when calling the ListObjectsV2 operation" >&2; exit 254
}
echo '{"rows": null, "next": null}'
"""
TRIED_AGAIN = {"restarts": {"failure": 3}, "time_limit": "1-00:00:00"}


def staged(folder: pathlib.Path, source: str, **keys: str) -> Run:
    """A job with restarts that copies a folder, and then brings data from a bucket."""
    shared = folder / "shared"
    (shared / "from").mkdir(parents=True)
    (shared / "from" / "words").touch()
    data = [
        {"source": f"{shared}/from", "target": f"{shared}/copied"},
        {"source": source, "target": f"{shared}/books", **keys},
    ]
    checkpoints = {"path": f"{shared}/saved"}
    cluster = FSX.replace("@", str(shared))
    more = {"data": data, "checkpoints": checkpoints, "command": ["true"], **TRIED_AGAIN}
    text = script(cluster_text=cluster, nodes=1, **more)
    python = f'exec {sys.executable} "$@"'
    # with s5cmd, which the environment of the tests has, aws would not be used
    folders = [str(folder / "bin"), *os.environ["PATH"].split(":")]
    path = ":".join(one for one in folders if not pathlib.Path(one, "s5cmd").exists())
    stand_ins = {"aws": DENIED, "python3": python}
    return run_script(folder, text, stand_ins=stand_ins, environment={"PATH": path})


def test_a_missing_association_is_found_before_data_is_copied_and_not_retried(
    tmp_path: pathlib.Path,
) -> None:
    run = staged(tmp_path, "s3://corpus/books")
    assert (run.code, run.reasons, run.requeues) == (1, ["not_started"], 0), run.log
    what = f"nothing in {tmp_path}/shared/books: is it associated with s3://corpus/books"
    assert what in run.log
    assert not (tmp_path / "shared" / "copied").exists()


def test_an_associated_folder_with_files_is_no_complaint(tmp_path: pathlib.Path) -> None:
    (tmp_path / "shared" / "books").mkdir(parents=True)
    (tmp_path / "shared" / "books" / "one").touch()
    run = staged(tmp_path, "s3://corpus/books")
    assert "nothing in" not in run.log
    assert "no lfs on this node" in run.log  # the preload comes after the copy
    assert (run.reasons, run.requeues) == (["not_started"], 0), run.log
    assert (tmp_path / "shared" / "copied").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("s3://denied/books", "(AccessDenied)"),
        ("s3://missing/books", "(NoSuchBucket)"),
        ("s3://empty/books", "s3://empty/books: no objects found"),
    ],
)
def test_a_bucket_that_cannot_be_read_is_found_before_data_is_copied_and_not_retried(
    tmp_path: pathlib.Path, source: str, said: str
) -> None:
    run = staged(tmp_path, source, via="copy")
    assert said in run.log
    assert (run.code, run.reasons, run.requeues) == (1, ["not_started"], 0), run.log
    assert not (tmp_path / "shared" / "copied").exists()
    calls = sum(line.startswith("aws") for line in run.requests)
    assert calls == (2 if "empty" in source else 1)  # a prefix, and an object of that name


def test_a_bucket_that_fails_may_be_asked_again(tmp_path: pathlib.Path) -> None:
    run = staged(tmp_path, "s3://failing/books", via="copy")
    assert (run.code, run.reasons, run.requeues) == (1, ["failure"], 1), run.log
