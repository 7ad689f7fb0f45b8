"""Which questions the nodes are asked, and what each of them has to answer."""

from __future__ import annotations

import pathlib
import re

import pytest
from plans import config_of, plan_of, problems_of, queue

from clusterjobs.text import show


def words_of(**keys: object) -> list[str]:
    plan = plan_of(**{"nodes": 2, "preflight": True, **keys})
    assert plan.preflight is not None
    return [show(one.word) for one in plan.preflight.checks]


def test_without_a_word_nothing_is_asked_and_nothing_carried() -> None:
    for wish in (None, False):
        plan = plan_of(nodes=2, preflight=wish)
        assert plan.preflight is None
        assert "NCCL_DEBUG_FILE" not in {one.name for one in plan.environment.variables}


@pytest.mark.parametrize(
    ("cluster", "gpus", "efa"), [("p3dn-v100", 8, 1), ("p4d-a100", 8, 4), ("p5-h100", 8, 32)]
)
def test_hardware_is_what_the_catalogue_says(cluster: str, gpus: int, efa: int) -> None:
    words = words_of(cluster=cluster)
    assert {f"gpus={gpus}", f"efa={efa}", "memlock", "processes", "lustre=/fsx"} <= set(words)


def test_every_wanted_value_is_recorded_with_its_reason() -> None:
    plan = plan_of(nodes=2, preflight=True)
    derived = {one.name: one for one in plan.derived if one.name.startswith("preflight.")}
    assert derived["preflight.efa"].value == "4"
    assert derived["preflight.efa"].source == "catalogue"
    assert derived["preflight.lustre /fsx"].source == "SharedStorage"
    asked = {show(one.word).partition("=")[0] for one in plan.preflight.checks} - {"seconds"}
    assert {f"preflight.{word}" for word in asked} == {name.partition(" ")[0] for name in derived}
    assert all(one.reason for one in derived.values())


def test_a_job_that_shares_its_nodes_is_not_asked_who_else_is_on_the_gpus() -> None:
    words = words_of(gpus_per_node=4, sbatch={"exclusive": False})
    assert "gpus=4" in words
    assert "processes" not in words


def test_one_node_has_nobody_to_agree_with() -> None:
    words = words_of(nodes=1, checkpoints={"path": "/fsx/saved"})
    assert not any(word.startswith("folder=") for word in words)
    assert "space=10:/fsx/saved" in words
    assert not plan_of(nodes=1, preflight=True).preflight.reads_nccl


def test_a_node_without_gpus_is_asked_for_none() -> None:
    words = words_of(cluster="small", framework="command", command="./run", script=None)
    assert not {word.partition("=")[0] for word in words} & {"gpus", "efa", "memlock", "build"}
    assert not any(word.startswith("packages=") for word in words)


def test_packages_are_the_frameworks_and_those_that_are_pinned() -> None:
    words = words_of(software={"requires": {"numpy": "1.26", "torch": "2.10"}})
    assert "packages=torch==2.10,numpy==1.26" in words
    assert "build" not in words
    compiled = words_of(framework="deepspeed", batch={"micro": 1})
    assert "packages=torch,deepspeed" in compiled
    assert "build" in compiled


def test_the_log_of_nccl_is_read_where_efa_joins_nodes() -> None:
    plan = plan_of(nodes=2, preflight=["nccl"])
    assert plan.preflight.programs == ("nccl_log.py",)
    values = {
        one.name: show(one.value)
        for one in plan.environment.variables
        if one.name.startswith("NCCL_DEBUG")
    }
    assert values["NCCL_DEBUG"] == "INFO"
    assert values["NCCL_DEBUG_FILE"].endswith("/nccl/%h.%p")


def test_what_the_spec_sets_itself_has_the_last_word() -> None:
    plan = plan_of(nodes=2, preflight=True, env={"NCCL_DEBUG": "TRACE"})
    assert [one.value for one in plan.environment.variables if one.name == "NCCL_DEBUG"] == [
        "TRACE"
    ]


def test_a_check_that_cannot_apply_is_a_warning() -> None:
    plan = plan_of(nodes=1, preflight=["nccl", "containers", "gpus"])
    said = [problem.what for problem in plan.warnings]
    assert "nccl has nothing to check in this job" in said
    assert [one.word for one in plan.preflight.checks] == ["seconds=60", "gpus=8", "processes"]


def test_a_pinned_package_without_a_preflight_is_a_warning() -> None:
    (problem,) = plan_of(software={"requires": {"torch": "2.6"}}).warnings
    assert problem.hint == "preflight: true, or preflight: [software]"
    assert problems_of(software={"requires": {"torch": "2.6"}}) == ()


def test_an_instance_type_that_is_not_in_the_catalogue_has_no_efa_to_count() -> None:
    own = queue("train", ("new", "p9.48xlarge", 4), Networking={})
    words = words_of(config=config_of(own), gpus_per_node=8, cluster="own")
    assert "gpus=8" in words
    assert not any(word.startswith("efa") for word in words)


def test_an_all_reduce_is_held_against_the_network_of_a_node() -> None:
    plan = plan_of(nodes=2, preflight={"checks": ["port"], "bandwidth_percent": 50})
    reduced = plan.preflight.all_reduce
    assert (reduced.gbps, reduced.percent) == ("400", 50)
    assert ("ntasks", 16) in {(one.name, one.value) for one in reduced.srun_options}
    assert "all_reduce.py" in plan.preflight.programs
    assert plan_of(nodes=2, preflight=True).preflight.all_reduce is None


def test_an_all_reduce_that_cannot_be_is_refused() -> None:
    (problem,) = problems_of(nodes=2, preflight={"bandwidth_percent": 101})
    assert problem.what == "101 % is more than the network gives"
    image = {"container": {"runtime": "pyxis", "image": "a#b:1"}}
    (problem,) = problems_of(nodes=2, preflight={"bandwidth_percent": 50}, software=image)
    assert "the ranks' is in a container" in problem.what
    plan = plan_of(nodes=1, preflight={"bandwidth_percent": 50})
    assert plan.preflight.all_reduce is None
    assert "there is no network within one node" in [one.what for one in plan.warnings]


@pytest.mark.parametrize(
    ("keys", "packages", "compiles"),
    [
        ({}, "torch", False),
        ({"framework": "deepspeed", "batch": {"micro": 1}}, "torch,deepspeed", True),
        (
            {
                "framework": "gpt-neox",
                "script": "train.py",
                "checkpoints": {"path": "/fsx/saved"},
                "configs": ["small.yml"],
            },
            "torch,deepspeed",
            True,
        ),
        ({"framework": "horovod"}, None, False),
    ],
)
def test_each_framework_says_which_packages_it_needs_and_whether_it_compiles(
    keys: dict[str, object], packages: str | None, compiles: bool
) -> None:
    words = words_of(**keys)
    assert [w.partition("=")[2] for w in words if w.startswith("packages=")] == (
        [packages] if packages else []
    )
    assert ("build" in words) is compiles


def test_every_check_of_the_docs_may_be_chosen() -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs/preflight.md").read_text(encoding="utf-8")
    names = re.findall(
        r"^\| `(\w+)` \|", page.partition("## The framework's own parser")[0], re.MULTILINE
    )
    assert {"gpus", "build", "nccl"} < set(names)
    assert not problems_of(preflight=names)


MEGATRON = {
    "framework": "megatron-deepspeed",
    "script": "pretrain_gpt.py",
    "batch": {"micro": 1},
    "args": {"train-iters": 10, "lr": 1e-4},
    "model": {"layers": 2, "hidden": 64, "heads": 4, "sequence": 64, "vocab": 100},
}
NEOX = {"framework": "gpt-neox", "checkpoints": {"path": "/fsx/saved"}, "configs": ["small.yml"]}


@pytest.mark.parametrize(
    ("script", "folder"),
    [
        ("pretrain_gpt.py", "$PWD/megatron/data"),
        ("code/pretrain_gpt.py", "$PWD/code/megatron/data"),
        ("/fsx/Megatron/pretrain_gpt.py", "/fsx/Megatron/megatron/data"),
        ("${HOME}/pretrain_gpt.py", "$HOME/megatron/data"),
    ],
)
def test_apex_and_the_helpers_of_megatron_are_checked(script: str, folder: str) -> None:
    words = words_of(**{**MEGATRON, "script": script})
    assert "imports=torch,apex.multi_tensor_apply,amp_C" in words
    assert f"helpers={folder}" in words


def test_gpt_neox_compiles_helpers_and_needs_no_apex() -> None:
    words = words_of(**NEOX, script="train.py")
    assert "helpers=$PWD/megatron/data" in words
    assert not any(word.startswith("imports") for word in words)


def test_what_only_gpus_need_is_not_checked_without_them() -> None:
    words = words_of(**MEGATRON, cluster="small", ranks_per_node=1)
    assert not any(word.startswith(("imports", "build")) for word in words)


def test_other_frameworks_compile_no_helpers() -> None:
    for keys in ({}, {"framework": "deepspeed", "batch": {"micro": 1}}):
        assert not any(word.startswith(("helpers", "imports")) for word in words_of(**keys))


@pytest.mark.parametrize(
    ("runtime", "image", "checked"),
    [("pyxis", "a/b:1", True), ("singularity", "/fsx/a.sif", False), ("shifter", "a/b:1", False)],
)
def test_pyxis_is_looked_for_only_where_the_ranks_need_it(
    runtime: str, image: str, checked: bool
) -> None:
    container = {"runtime": runtime, "image": image}
    assert ("containers" in words_of(software={"container": container})) is checked
