"""What is legal and probably not meant."""

from __future__ import annotations

import pytest
from plans import config_of, plan_of, problems_of, queue

from clusterjobs.launchers import LAUNCHERS
from clusterjobs.sections.launch import LIKE_AN_OPTION


def warned(config: str | None = None, **keys: object) -> list[str]:
    return [one.path for one in plan_of(config, **keys).warnings]


def test_gpus_that_idle_are_a_warning() -> None:
    assert warned(ranks_per_node=2) == ["ranks_per_node"]
    assert warned(gpus_per_node=4) == ["gpus_per_node"]
    assert warned(gpus_per_node=8) == []


@pytest.mark.parametrize(
    "command",
    [
        ["accelerate", "launch", "--num_processes", "8", "t.py"],
        ["/fsx/env/bin/torchrun", "t.py"],
        ["python3", "-m", "torch.distributed.run", "t.py"],
        ["bash", "-c", "cd /fsx && deepspeed t.py"],
    ],
)
def test_a_launcher_in_the_command_uses_all_gpus(command: list[str]) -> None:
    keys = {"framework": "command", "script": None, "command": command}
    assert warned(ranks_per_node=1, **keys) == []
    other = {**keys, "command": ["python3", "deepspeed.py"]}
    assert warned(ranks_per_node=1, **other) == ["ranks_per_node"]


@pytest.mark.parametrize(
    ("command", "warnings"),
    [
        (["bash", "-c", 'exec ./t --rank="$SLURM_PROCID" "$@"', "t"], []),
        (["env", "-u", "A", "/bin/bash", "-euxc", "./t ${HOME}/x ~/y"], []),
        ("bash -c './t $SLURM_PROCID'", []),
        (["bash", "t.sh", "$SLURM_PROCID"], ["command"]),
        (["./t", "-c", "$SLURM_PROCID"], ["command"]),
        (["bash", "-c", "./t", "$SLURM_PROCID"], ["command"]),
    ],
)
def test_variables_in_code_of_a_shell_are_expanded_by_it(
    command: object, warnings: list[str]
) -> None:
    keys = {"framework": "command", "script": None, "command": command}
    assert warned(**keys) == warnings


def test_precision_in_the_command_is_passed_on() -> None:
    command = ["accelerate", "launch", "--mixed_precision=bf16", "t.py"]
    keys = {"framework": "command", "script": None, "command": command, "ranks_per_node": 1}
    assert warned(precision="bf16", **keys) == []
    assert warned(precision="fp16", **keys) == ["precision"]


def test_many_nodes_without_efa_are_a_warning_and_one_is_not() -> None:
    slow = config_of(queue("q", ("r", "p4d.24xlarge", 8)))
    assert warned(slow, nodes=2) == ["nodes"]
    assert warned(slow, nodes=1) == []
    assert warned(nodes=2) == []


def test_folders_that_are_not_shared_are_a_warning() -> None:
    assert warned(logs="/tmp/x", workdir="/fxs/code") == ["workdir", "logs.path"]
    assert warned(checkpoints={"path": "/scratch/x"}) == ["checkpoints.path"]
    for shared in ("/fsx/x", "/home/me/x", "${HOME}/x", "relative"):
        assert warned(logs=shared) == []


def test_precision_that_nobody_reads_is_a_warning() -> None:
    assert warned(precision="bf16") == ["precision"]
    assert warned(framework="deepspeed", precision="bf16", batch={"micro": 1}) == []


def test_more_ranks_than_cpus_is_a_warning_and_an_all_reduce_may_share_them() -> None:
    keys = {
        "cluster": "small",
        "nodes": 2,
        "ranks_per_node": 6,
        "preflight": {"bandwidth_percent": 9},
    }
    plan = plan_of(**keys)
    assert [one.what for one in plan.warnings] == [
        "6 ranks share 4 CPUs, all that the job has of a node"
    ]
    options = {one.name: one.value for one in plan.preflight.all_reduce.srun_options}
    assert (options["cpus-per-task"], options["overcommit"]) == (1, True)
    assert not plan_of(**{**keys, "ranks_per_node": 4}).warnings


@pytest.mark.parametrize(
    ("sizes", "warns"),
    [
        ("-b 8 -e 8G", True),
        ("--minbytes 512K -e 8G", True),
        ("-b 1G -e 8G", False),
        ("-b 268435456 -e 8G", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("more", ["", " -f 2 -g 8"])
def test_small_sizes_in_a_bandwidth_test_are_a_warning(sizes: str, warns: bool, more: str) -> None:
    step = {"command": f"all_reduce_perf {sizes}{more}", "per": "node", "min_bus_bandwidth": 300}
    assert (warned(before=[step]) == ["before[0].min_bus_bandwidth"]) == warns


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("torchrun --nproc_per_node=8 t.py", "framework: torchrun"),
        ("/fsx/env/bin/torchrun t.py", "framework: torchrun"),
        ("python3 -u -m torch.distributed.run t.py", "framework: torchrun"),
        ("python -m torch.distributed.launch t.py", "framework: torchrun"),
        ("accelerate launch t.py", "framework: accelerate"),
        ("deepspeed t.py", "framework: deepspeed"),
        ("composer t.py", "framework: composer"),
        ("horovodrun -np 8 python t.py", "framework: horovod"),
        ("mpirun -np 8 ./t", "launcher: mpirun"),
        ("srun ./t", "launcher: srun"),
        ("env A=b torchrun t.py", "framework: torchrun"),
        ("numactl --localalloc torchrun t.py", "framework: torchrun"),
        ("uv run accelerate launch t.py", "framework: accelerate"),
        (["bash", "-c", "cd /fsx && exec torchrun t.py"], "framework: torchrun"),
        (["bash", "-lc", "cd /fsx; python -m torch.distributed.run t.py"], "framework: torchrun"),
    ],
)
def test_a_command_that_starts_ranks_is_refused_beside_several_ranks(
    command: object, instead: str
) -> None:
    keys = {"framework": "command", "script": None, "command": command}
    (problem,) = [one for one in problems_of(ranks_per_node=8, **keys) if not one.warning]
    assert problem.path == "command"
    assert problem.what.startswith("each of the ")
    assert problem.hint.startswith(instead)
    step = {"command": command, "per": "rank"}
    if "srun" not in str(command):
        (problem,) = [one for one in problems_of(before=[step]) if not one.warning]
        assert problem.path == "before[0].command"


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --launcher torchrun",
        "python train.py deepspeed",
        "./train torchrun",
        "python -m my.module torchrun",
        "uv run train.py deepspeed",
        "env A=b ./train accelerate launch",
        ["bash", "-c", "./train --with torchrun"],
        ["bash", "train.sh", "torchrun"],
    ],
)
def test_the_name_of_a_launcher_as_an_argument_is_none(command: object) -> None:
    keys = {"framework": "command", "script": None, "command": command}
    assert warned(ranks_per_node=8, **keys) == []


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ({"nnodes": 2}, "an option of torchrun, and the script gets it: of this job it is 2, from"),
        ({"nproc-per-node": 8}, "of this job it is 8, from ranks_per_node"),
        (["--nproc_per_node=8"], "of this job it is 8, from ranks_per_node"),
        ({"rdzv-backend": "c10d"}, "in a spec it is torchrun: {rdzv: {backend: c10d}}"),
        ({"rdzv_endpoint": "node-1:29400"}, "the job sets it"),
    ],
)
def test_options_of_torchrun_that_a_script_would_get_are_a_warning(args: object, what: str) -> None:
    for launcher in ("torchrun", "srun"):
        (warning,) = plan_of(nodes=2, launcher=launcher, args=args).warnings
        assert what in warning.what
        assert warning.hint.startswith("remove it; if the script has such an argument, write known")


def test_options_of_accelerate_and_deepspeed_that_a_script_would_get_are_a_warning() -> None:
    (warning,) = plan_of(nodes=2, framework="accelerate", args={"num_processes": 16}).warnings
    assert "an option of accelerate, and the script gets it: of this job it is 16" in warning.what
    keys = {"framework": "deepspeed", "batch": {"micro": 1, "global": 64}}
    (warning,) = plan_of(nodes=2, args={"num_gpus": 8}, **keys).warnings
    assert "an option of deepspeed, and the script gets it: of this job it is 8" in warning.what


def test_options_of_launchers_that_are_the_programs_own_pass() -> None:
    assert warned(args={"num_gpus": 8, "nodes": 1}) == []
    assert (
        warned(args={"nnodes": 1, "nproc-per-node": 8}, known_args=["nnodes", "nproc_per_node"])
        == []
    )
    assert warned(args={"node_rank": "{{ job.node_rank }}"}) == []
    keys = {"framework": "command", "script": None, "ranks_per_node": 1}
    assert warned(args={"nnodes": 1}, command=["torchrun"], **keys) == []


def test_the_names_of_all_options_of_launchers_are_looked_up() -> None:
    options = {name for one in LAUNCHERS.values() for name in one.program_options}
    assert {"nnodes", "num_processes", "num_gpus"} <= options
    assert [name for name in options if not LIKE_AN_OPTION.search(name)] == []
