"""What the commands do with a description of a Slurm cluster."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.sites import folders as site_folders

Run = Callable[..., Any]

CLUSTER = """\
kind: slurm
slurm_version: 23.02.7
node_types:
  a100:
    cpus: 96
    memory_mib: 512000
    gpus: 4
    gpu_type: a100
    gpu_memory: 40
    features: [gpu]
    fabric: infiniband
    fabric_interfaces: 4
    scratch: /local
partitions:
  batch: {nodes: {a100: 936}, max_time: 1-00:00:00, max_nodes: 384}
shared: {/p/scratch: gpfs}
"""
SPEC = """\
name: exp
cluster: %s
nodes: 2
time_limit: 12:00:00
framework: torchrun
script: /p/scratch/train.py
logs: /p/scratch/logs
"""


@pytest.fixture
def here(folder: pathlib.Path) -> pathlib.Path:
    """A folder with a description and a spec that names it."""
    (folder / "booster.yaml").write_text(CLUSTER)
    (folder / "spec.yaml").write_text(SPEC % "booster.yaml")
    return folder


def test_a_job_of_a_described_cluster_needs_no_cluster_yaml(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    outcome = clusterjobs("render", "spec.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    assert "booster, partition batch" in outcome.out
    assert sorted(path.name for path in (here / "generated").iterdir()) == [
        "job.sh",
        "manifest.json",
    ]
    script = (here / "generated" / "job.sh").read_text()
    assert "#SBATCH --gpus-per-node=4\n" in script
    assert "#SBATCH --cpus-per-task=96\n" in script
    assert "OMP_NUM_THREADS=24 " in script


def test_a_site_folder_names_clusters_of_both_kinds(
    clusterjobs: Run, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = folder / "site" / "clusters"
    clusters.mkdir(parents=True)
    (clusters / "juwels.yaml").write_text(CLUSTER)
    monkeypatch.setenv(site_folders.VARIABLE, str(folder / "site"))
    (folder / "spec.yaml").write_text(SPEC % "juwels")
    assert "juwels, partition batch" in clusterjobs("render", "spec.yaml").out
    listed = clusterjobs("clusters", "list").out
    row = r"juwels +batch +936 x a100 +4 x a100 40 GB +4 x infiniband +/p/scratch +- +\S+\n"
    assert re.search(row, listed)
    assert re.search(r"p4d-a100 +train +16 x p4d.24xlarge", listed)
    rows = {row["name"]: row for row in json.loads(clusterjobs("clusters", "list", "--json").out)}
    assert rows["juwels"].keys() - rows["small"].keys() == {"slurm_version", "description"}
    ours, theirs = rows["juwels"]["nodes"][0], rows["small"]["nodes"][0]
    assert theirs.keys() <= ours.keys()
    assert (rows["juwels"]["kind"], rows["small"]["kind"]) == ("slurm", "parallelcluster")


def test_defaults_can_be_for_a_partition_of_a_described_cluster(
    clusterjobs: Run, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = folder / "site" / "clusters"
    clusters.mkdir(parents=True)
    (clusters / "juwels.yaml").write_text(CLUSTER)
    defaults = folder / "site" / "defaults.yaml"
    defaults.write_text("clusters: {juwels: {queues: {batch: {sbatch: {account: a1}}}}}\n")
    monkeypatch.setenv(site_folders.VARIABLE, str(folder / "site"))
    (folder / "spec.yaml").write_text(SPEC % "juwels")
    assert clusterjobs("render", "spec.yaml").code == 0
    assert "#SBATCH --account=a1\n" in (folder / "generated" / "job.sh").read_text()
    assert clusterjobs("site").code == 0
    defaults.write_text("clusters: {juwels: {queues: {bach: {sbatch: {account: a1}}}}}\n")
    assert "did you mean batch?" in clusterjobs("site").err


@pytest.mark.usefixtures("here")
def test_show_has_all_that_the_site_adds(clusterjobs: Run, here: pathlib.Path) -> None:
    more = """\
request_gpus: gres
write_partition: false
master_addr_suffix: i
accounts: [p1, p2]
env: {NCCL_IB_HCA: {value: mlx5_0, reason: "the other port is for management\\u200b"}}
setup: [module purge]
"""
    (here / "booster.yaml").write_text(CLUSTER + more)
    out = clusterjobs("clusters", "show", "booster.yaml").out
    for words in (
        "description        booster.yaml",
        "Slurm              23.02.7",
        "batch      936 x a100  384               1-00:00:00  on request",
        "/p/scratch  gpfs",
        "accounts            p1, p2",
        "NCCL_IB_HCA=mlx5_0  # the other port is for management?",
        "setup               module purge",
    ):
        assert words in out
    assert "unknown" not in out


@pytest.mark.usefixtures("folder")
def test_show_says_what_unknown_values_decide(clusterjobs: Run, folder: pathlib.Path) -> None:
    (folder / "c.yaml").write_text(
        "kind: slurm\nnode_types: {n: {}}\npartitions: {p: {nodes: {n: 1}}}"
    )
    out = clusterjobs("clusters", "show", "c.yaml").out
    assert "gpus of n        decides gpus_per_node and the ranks of a node" in out
    assert "shared folders: unknown" in out


@pytest.mark.usefixtures("here")
def test_diff_of_two_descriptions_shows_changed_values_alone(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    spelled_out = CLUSTER.replace("fabric: infiniband", "fabric:   infiniband # HDR")
    (here / "other.yaml").write_text(spelled_out + "write_partition: true\n")
    assert clusterjobs("clusters", "diff", "booster.yaml", "other.yaml").out == "no difference\n"
    (here / "other.yaml").write_text(CLUSTER.replace("936", "940") + "qos: [long]\n")
    outcome = clusterjobs("clusters", "diff", "booster.yaml", "other.yaml")
    assert set(outcome.out.splitlines()) == {
        "partitions.batch.nodes.a100: 936 -> 940",
        'qos: nothing -> ["long"]',
    }
    assert outcome.err == ""
    rows = json.loads(clusterjobs("clusters", "diff", "booster.yaml", "other.yaml", "--json").out)
    assert {"partitions.batch.nodes.a100", "qos"} == {row["path"] for row in rows}


@pytest.mark.usefixtures("here")
def test_diff_of_two_kinds_compares_what_a_plan_knows(clusterjobs: Run) -> None:
    out = clusterjobs("clusters", "diff", "p4d-a100", "booster.yaml").out
    assert 'slurm_version: "25.11.8" -> "23.02.7"\n' in out
    assert 'mounts./p/scratch: nothing -> "gpfs"\n' in out
    assert "update policies" not in out


@pytest.mark.usefixtures("here")
def test_validate_of_a_description_and_of_its_spec(clusterjobs: Run, here: pathlib.Path) -> None:
    outcome = clusterjobs("validate", "booster.yaml", "spec.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    (here / "booster.yaml").write_text(CLUSTER.replace("    fabric: infiniband\n", ""))
    outcome = clusterjobs("validate", "booster.yaml")
    assert outcome.code == 0
    assert "info: node_types.a100: unknown: fabric\n" in outcome.err


@pytest.mark.usefixtures("here")
def test_validate_says_once_what_is_unknown_of_several_node_types(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    more = "  v100: {cpus: 40, memory_mib: 1000, gpus: 0, scratch: /x}\n"
    more += "  v100b: {cpus: 40, memory_mib: 1000, gpus: 0, scratch: /x}\npartitions:\n"
    (here / "booster.yaml").write_text(CLUSTER.replace("partitions:\n", more))
    err = clusterjobs("validate", "booster.yaml").err
    assert "info: node_types.v100: unknown: fabric, also of v100b\n" in err
    assert err.count("unknown: fabric") == 1


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (385, "385 is more than queue batch can have (a100: MaxNodes 384)"),
        (9, "9 is more than queue batch can have (a100: the number of nodes 8)"),
    ],
)
def test_too_many_nodes_are_refused_with_the_limit_that_counts(
    clusterjobs: Run, here: pathlib.Path, nodes: int, message: str
) -> None:
    if nodes < 384:
        (here / "booster.yaml").write_text(CLUSTER.replace("936", "8"))
    assert message in clusterjobs("render", "spec.yaml", "--set", f"nodes={nodes}").err


def test_validate_warns_of_node_types_that_no_feature_tells_apart(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    text = CLUSTER.replace("{a100: 936}", "{a100: 936, v100: 4}")
    text = text.replace("partitions:", "  v100: {gpus: 4, features: [gpu]}\n  old: {}\npartitions:")
    (here / "booster.yaml").write_text(text)
    err = clusterjobs("validate", "booster.yaml").err
    assert "warning: partitions.batch.nodes.a100: no feature tells a100 from v100" in err
    assert "warning: node_types.old: no partition has nodes of it" in err


@pytest.mark.usefixtures("here")
def test_a_description_has_no_values_of_a_site(clusterjobs: Run) -> None:
    outcome = clusterjobs("clusters", "site", "booster.yaml")
    assert (outcome.code, outcome.out) == (0, "")
    assert "booster.yaml describes a Slurm cluster" in outcome.err


def test_a_huge_description_is_refused_at_once(clusterjobs: Run, here: pathlib.Path) -> None:
    (here / "booster.yaml").write_text(CLUSTER + "# padding\n" * 200_000)
    outcome = clusterjobs("render", "spec.yaml")
    assert outcome.code == 1
    assert "booster.yaml:1:1 the file has more than 1,048,576 bytes" in outcome.err


def test_a_description_with_thousands_of_types_is_read(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    types = "".join(f"  t{i}: {{gpus: 4, features: [f{i}]}}\n" for i in range(2000))
    nodes = "".join(f"  p{i}: {{nodes: {{t{i}: 2}}}}\n" for i in range(2000))
    (here / "booster.yaml").write_text(f"kind: slurm\nnode_types:\n{types}partitions:\n{nodes}")
    outcome = clusterjobs("render", "spec.yaml", "--set", "queue=p7")
    assert outcome.code == 0, outcome.err


MIXED = """\
kind: slurm
node_types:
  a100: {cpus: 96, gpus: 4, gpu_type: a100, scratch: /local}
  v100: {cpus: 40, gpus: 4, gpu_type: v100, scratch: /nvme}
partitions: {batch: {nodes: {a100: 8, v100: 8}}}
shared: {/p/scratch: gpfs}
"""


def test_a_job_that_may_get_nodes_of_another_type_causes_a_warning(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    (here / "booster.yaml").write_text(MIXED)
    assert "one of a100, v100" in clusterjobs("render", "spec.yaml").err
    err = clusterjobs("render", "spec.yaml", "--set", "instance_type=v100").err
    assert "warning: instance_type: no feature tells v100 from the other nodes" in err
    assert "hint: gpus_per_node: v100:4\n" in err
    typed = ("--set", "instance_type=v100", "--set", "gpus_per_node=v100:4")
    outcome = clusterjobs("render", "spec.yaml", *typed)
    assert (outcome.code, outcome.err) == (0, "")
    (here / "booster.yaml").write_text(MIXED.replace("cpus: 40", "features: [volta], cpus: 40"))
    outcome = clusterjobs("render", "spec.yaml", "--set", "instance_type=v100")
    assert (outcome.code, outcome.err) == (0, "")
    assert "#SBATCH --constraint=volta\n" in (here / "generated" / "job.sh").read_text()


def test_each_node_type_has_its_own_scratch(clusterjobs: Run, here: pathlib.Path) -> None:
    (here / "booster.yaml").write_text(MIXED)
    data = "data=[{source: /p/scratch/d, target: /nvme/d, scope: node}]"
    for kind, code in (("v100", 0), ("a100", 1)):
        outcome = clusterjobs(
            "render", "spec.yaml", "--set", data, "--set", f"instance_type={kind}"
        )
        assert (outcome.code, "/nvme/d" in outcome.err) == (code, code == 1), outcome.err


SITE = """\
request_gpus: %s
write_partition: false
default_partition: batch
master_addr_suffix: i
container_program: apptainer
accounts: [proj1, proj2]
env:
  NCCL_IB_HCA: {value: "mlx5_0,mlx5_1", reason: mlx5_2 is the management network}
  CACHE: {value: "${HOME}/cache", reason: "its file system is fast: a ' and \\" are kept"}
setup: [module purge]
source: [/etc/site.sh]
"""


def script_of(clusterjobs: Run, here: pathlib.Path, form: str, *settings: str) -> str:
    """The job script on the cluster with all of the site's settings."""
    (here / "booster.yaml").write_text(CLUSTER + SITE % form)
    words = (word for one in settings for word in ("--set", one))
    outcome = clusterjobs("render", "spec.yaml", *words)
    assert (outcome.code, outcome.err) == (0, "")
    return (here / "generated" / "job.sh").read_text()


@pytest.mark.parametrize(
    ("form", "settings", "line"),
    [
        ("gpus-per-node", (), "#SBATCH --gpus-per-node=4\n"),
        ("gres", (), "#SBATCH --gres=gpu:4\n"),
        ("gres", ("gpus_per_node=a100:4",), "#SBATCH --gres=gpu:a100:4\n"),
        ("gres", ("sbatch.gpus-per-node=4",), "#SBATCH --gpus-per-node=4\n"),
        ("gres", ("sbatch.gres=gpu:a100:4",), "#SBATCH --gres=gpu:a100:4\n"),
        ("gres", ("sbatch.gres=nvme:1",), "#SBATCH --gpus-per-node=4\n"),
        ("gpus-per-task", (), "#SBATCH --gpus-per-task=4\n"),
        ("gpus-per-task", ("launcher=srun",), "#SBATCH --gpus-per-task=1\n"),
        ("none", (), ""),
        ("gres", ("sbatch.gpus-per-node=false",), ""),
        ("gpus-per-task", ("sbatch.gpus-per-node=false",), ""),
    ],
)
def test_gpus_are_requested_in_the_form_of_the_site(
    clusterjobs: Run, here: pathlib.Path, form: str, settings: tuple[str, ...], line: str
) -> None:
    if form == "none":
        text = CLUSTER.replace("    gpu_type: a100\n", "")
        (here / "booster.yaml").write_text(text + "request_gpus: none\n")
        assert clusterjobs("render", "spec.yaml").code == 0
        script = (here / "generated" / "job.sh").read_text()
    else:
        script = script_of(clusterjobs, here, form, *settings)
    found = re.findall(r"#SBATCH --(?:gpus|gres=gpu).*\n", script)
    assert found == ([line] if line else [])


def test_points_that_share_a_node_need_gpus_that_slurm_counts(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    text = CLUSTER.replace("    gpu_type: a100\n", "")
    (here / "booster.yaml").write_text(text + "request_gpus: none\n")
    (here / "spec.yaml").write_text(
        (SPEC % "booster.yaml").replace("nodes: 2", "nodes: 1")
        + "launcher: srun\nsweep: {grid: {args.lr: [1, 2]}, per_node: 2}\n"
    )
    err = clusterjobs("render", "spec.yaml").err
    assert "sweep.per_node: the Slurm of booster does not count GPUs" in err


def test_the_partition_is_left_to_the_site_unless_the_spec_names_one(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    assert "--partition" not in script_of(clusterjobs, here, "gres")
    assert "#SBATCH --partition=batch\n" in script_of(clusterjobs, here, "gres", "queue=batch")
    more = CLUSTER.replace("shared:", "  long: {nodes: {a100: 10}}\nshared:") + SITE % "gres"
    (here / "booster.yaml").write_text(more)
    outcome = clusterjobs("render", "spec.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    assert "booster, partition batch" in outcome.out


def test_what_the_site_adds_is_in_the_script_with_its_reason(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    script = script_of(clusterjobs, here, "gres", "setup=module load cuda", "env.A=1")
    assert "MASTER_ADDR+=i # the node's address in the fast network\n" in script
    assert "export NCCL_IB_HCA='mlx5_0,mlx5_1' # mlx5_2 is the management network\n" in script
    assert 'export CACHE="${HOME-}/cache" # its file system is fast' in script
    assert "for site_file in /etc/site.sh; do" in script
    order = [script.index(word) for word in ("export NCCL_IB", "\nmodule purge", "\nmodule load")]
    assert order == sorted(order)


def test_values_of_the_spec_win(clusterjobs: Run, here: pathlib.Path) -> None:
    script = script_of(clusterjobs, here, "gres", "env.NCCL_IB_HCA=mlx5_9")
    exports = re.findall(r"export NCCL_IB_HCA=\S+", script)
    assert set(exports) == {"export NCCL_IB_HCA=mlx5_9"}  # again after the site's setup


def test_a_site_setup_runs_before_the_spec_loads_modules(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    script = script_of(clusterjobs, here, "gres", "software.modules=[cuda/12]")
    assert script.index("\nmodule purge\n") < script.index("module load cuda/12")


def test_an_account_that_the_cluster_lacks_causes_a_warning(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    (here / "booster.yaml").write_text(CLUSTER + SITE % "gres")
    err = clusterjobs("render", "spec.yaml", "--set", "sbatch.account=proj3").err
    assert "warning: sbatch.account: proj3 is not in the description of booster" in err
    assert "hint: did you mean proj2?" in err or "hint: did you mean proj1?" in err
    assert clusterjobs("render", "spec.yaml", "--set", "sbatch.account=proj1").err == ""


def test_a_parameter_or_secret_of_the_spec_replaces_a_variable_of_the_site(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    parameter = "parameters={NCCL_IB_HCA: {default: mlx5_9, env: true}}"
    script = script_of(clusterjobs, here, "gres", parameter, "secrets=[CACHE]")
    assert "mlx5_0,mlx5_1" not in script
    assert "/cache" not in script


def test_a_shared_folder_is_no_disk_of_a_node(clusterjobs: Run, here: pathlib.Path) -> None:
    wrong = CLUSTER.replace("scratch: /local", "scratch: /p/scratch")
    (here / "booster.yaml").write_text(wrong)
    outcome = clusterjobs("validate", "booster.yaml")
    assert outcome.code == 0
    assert (
        "booster.yaml:13:5 warning: node_types.a100.scratch: /p/scratch is in shared, but"
        in outcome.err
    )
    (here / "booster.yaml").write_text(CLUSTER + "scratch: /p/scratch\n")
    assert "warning" not in clusterjobs("validate", "booster.yaml").err, "the type's own value wins"


def test_messages_call_a_node_by_its_type_and_not_a_gpu(
    clusterjobs: Run, here: pathlib.Path
) -> None:
    """`a a100` would be read as one GPU."""
    assert "all that a node of type a100 has" in clusterjobs("plan", "spec.yaml").out
