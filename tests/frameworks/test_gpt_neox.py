"""GPT-NeoX: the user's files composed with ours, as deepy.py and its own checks would take them."""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import pytest
import yaml
from parsers import FlagError, neox_configs
from plans import BASE, plan_of

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.runs.load import load_first
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.load import load_spec
from clusterjobs.text import show

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SMALL: dict[str, Any] = {"framework": "gpt-neox", "script": "train.py", "configs": ["a"]}
MODEL: dict[str, Any] = {
    "num-layers": 24,
    "hidden-size": 1024,
    "num-attention-heads": 16,
    "seq-length": 2048,
    "max-position-embeddings": 2048,
    "optimizer": {"type": "Adam", "params": {"lr": 6e-4}},
    "train-iters": 1000,
}


def plan_with(files: dict[str, Any], **keys: Any) -> Plan:
    """The plan of a spec whose files are on this machine; their values are given as data."""
    data = {**BASE, **SMALL, "configs": list(files), **keys}
    spec = load_spec(json.dumps(data), "exp.yaml", option_models())
    text = (resources.cluster_configs_dir() / "p4d-a100.yaml").read_text(encoding="utf-8")
    texts = {name: yaml.safe_dump(values) for name, values in files.items()}
    return resolve(spec, cluster_facts(read_cluster(text, "p4d-a100.yaml", {})[0]), texts)


def problems_with(files: dict[str, Any], **keys: Any) -> tuple[Problem, ...]:
    try:
        plan_with(files, **keys)
    except InputError as error:
        return tuple(one for one in error.problems if not one.warning)
    return ()


def launch_text(plan: Plan) -> str:
    (file,) = plan.files.configs
    assert file.name == "clusterjobs_launch.yml"
    return file.text


def check_composed(plan: Plan, files: dict[str, str]) -> None:
    """Every key once and of its type, and the batch as GPT-NeoX computes and asserts it."""
    config = neox_configs({**files, "launch": launch_text(plan)})
    assert (config["launcher"], config["deepspeed_slurm"]) == ("slurm", True)
    assert config.get("force_multi", False) is (plan.placement.shape.nodes == 1)
    tensor = max(1, config.get("model_parallel_size", 1))
    pipeline = max(1, config.get("pipe_parallel_size", 0))
    data_parallel, rest = divmod(plan.placement.shape.world_size, tensor * pipeline)
    assert (rest, data_parallel) == (0, plan.parallelism.data)
    micro = config["train_micro_batch_size_per_gpu"]
    steps = config.get("gradient_accumulation_steps", 1)
    total = config.get("train_batch_size", micro * steps * data_parallel)
    assert total == micro * steps * data_parallel
    assert pipeline == 1 or config.get("zero_optimization", {}).get("stage", 0) < 2


def test_the_example_and_its_own_files_are_taken_by_the_parser() -> None:
    plan = load_first(EXAMPLES / "gpt-neox-2node.yaml").plan
    names = ("small.yml", "local_setup.yml")
    check_composed(plan, {name: (EXAMPLES / "configs" / name).read_text() for name in names})
    assert plan.batch
    assert (plan.batch.micro, plan.batch.global_) == (4, 64)  # out of small.yml
    assert not plan.warnings


def test_the_command_is_deepy_with_the_files_and_ours_behind_them() -> None:
    plan = load_first(EXAMPLES / "gpt-neox-2node.yaml").plan
    assert tuple(map(show, plan.launch.words)) == (
        *("python3", "deepy.py", "train.py", "-d", "configs", "small.yml"),
        "local_setup.yml",
        "$job_dir/clusterjobs_launch.yml",
        "$job_dir/clusterjobs_master.yml",
    )


LAYOUTS = list(
    itertools.product((1, 2, 4), (1, 2, 8), (0, 1, 2, 3, 4, 16), (0, 1, 2), (True, False))
)


def test_every_parallel_layout_is_right_or_refused_wherever_it_is_said() -> None:
    """The same numbers in the spec and in the user's file lead to the same verdict."""
    rendered = 0
    for nodes, tensor, pipeline, stage, in_file in LAYOUTS:
        sizes = {"pipe_parallel_size": pipeline, "model_parallel_size": tensor}
        theirs = {**MODEL, "zero_optimization": {"stage": stage}, "train_batch_size": 128}
        theirs["train_micro_batch_size_per_gpu"] = 2
        keys: dict[str, Any] = {"nodes": nodes}
        if in_file:
            theirs |= sizes
        else:
            keys["parallel"] = {"tensor": tensor, "pipeline": max(1, pipeline)}
        stages = max(1, pipeline)
        data_parallel, rest = divmod(nodes * 8, tensor * stages)
        has_pipeline = stages > 1 or (in_file and pipeline == 1)
        impossible = bool(rest) or (stage >= 2 and has_pipeline)
        indivisible = not impossible and 128 % (2 * data_parallel) != 0
        if not (impossible or indivisible):
            theirs["gradient_accumulation_steps"] = 128 // (2 * data_parallel)
        assert bool(problems_with({"a.yml": theirs}, **keys)) is (impossible or indivisible), keys
        if not (impossible or indivisible):
            check_composed(plan_with({"a.yml": theirs}, **keys), {"a.yml": yaml.safe_dump(theirs)})
            rendered += 1
    assert 50 < rendered < len(LAYOUTS)


def test_all_that_a_spec_can_say_is_taken_by_the_parser() -> None:
    for precision in ("fp32", "fp16", "bf16"):
        plan = plan_of(
            **SMALL,
            nodes=2,
            model={"layers": 24, "hidden": 1024, "heads": 16, "sequence": 2048},
            parallel={"tensor": 2, "pipeline": 2},
            batch={"micro": 4, "global": 64},
            precision=precision,
            zero={"stage": 1},
            checkpoints={"path": "/fsx/out"},
            neox={"min-lr": 1e-5, "optimizer": {"type": "Adam", "params": {"lr": 6e-5}}},
        )
        check_composed(plan, {})
        config = yaml.safe_load(launch_text(plan))
        assert config["precision"] == {"bf16": "bfloat16"}.get(precision, precision)
        assert config["save"] == config["load"] == "/fsx/out"
        assert config["min_lr"] == 1e-5


def test_a_key_of_the_spec_in_both_spellings_is_one_key() -> None:
    """`neox` with dashes, a file with an underscore: deepy.py would let the last one win."""
    theirs = {**MODEL, "min_lr": 1e-5}
    (problem,) = problems_with({"a.yml": theirs}, batch={"micro": 1}, neox={"min-lr": 2e-5})
    assert "min_lr comes from neox.min-lr (exp.yaml:1)" in problem.what


def test_small_numbers_stay_numbers_in_yaml_1_1() -> None:
    """PyYAML takes 1e-05, which JSON writes, for text, and GPT-NeoX would refuse it."""
    values = {"min_lr": 1e-5, "clip": [-2e-7, 1e20], "note": "x: 1e-05", "a 1e+05": 3}
    text = launch_text(plan_of(**SMALL, batch={"micro": 1}, neox=values))
    read = yaml.load(text, Loader=yaml.FullLoader)
    assert {key: read[key] for key in values} == values
    assert json.loads(text) == read


def test_what_is_rendered_does_not_depend_on_which_files_are_here() -> None:
    keys: dict[str, Any] = {**SMALL, "configs": ["a.yml"], "checkpoints": {"path": "/fsx/out"}}
    here = plan_with(
        {"a.yml": {**MODEL, "train_micro_batch_size_per_gpu": 4, "checkpoint_factor": 9}}, **keys
    )
    away = plan_of(**keys)
    assert (here.files, here.launch) == (away.files, away.launch)
    assert [warning.path for warning in away.warnings] == ["configs[0]"]
    assert "not on this machine" in away.warnings[0].what
    assert not here.warnings


def test_a_key_in_two_files_is_refused_also_where_deepy_would_not_see_it() -> None:
    """`a_b` and then `a-b` pass deepy.py, and the last one wins without a word."""
    (problem,) = problems_with(
        {"a.yml": {"num_layers": 2}, "b.yml": {"num-layers": 4}}, batch={"micro": 1}
    )
    assert "num_layers is already in a.yml:1" in problem.what
    assert problem.where
    assert problem.where.file == "b.yml"


def test_srun_is_deepspeeds_own_call_and_gets_no_options_of_ours() -> None:
    assert plan_of(**SMALL).launch.srun_options == ()
    assert plan_of().launch.srun_options != ()


def test_the_wandb_key_is_warned_of() -> None:
    plan = plan_of(**SMALL, secrets=["WANDB_API_KEY"])
    assert any("command line" in one.what for one in plan.warnings)


@pytest.mark.parametrize(
    "config", [{"num_layer": 2}, {"launcher": "srun"}, {"num_layers": "4"}, {"fp16": True}]
)
def test_the_description_of_the_keys_refuses_what_gpt_neox_would(config: dict[str, Any]) -> None:
    with pytest.raises(FlagError):
        neox_configs({"a": yaml.safe_dump(config)})


SHORT = {name: value for name, value in MODEL.items() if name != "train-iters"}


def train_iters(files: dict[str, Any], **keys: Any) -> object:
    return yaml.safe_load(launch_text(plan_with(files, **keys))).get("train_iters")


def test_the_length_of_the_training_is_an_argument_unless_a_file_may_have_one() -> None:
    keys = {"batch": {"micro": 4, "global": 64}, "training": {"tokens": 64 * 2048 * 1000}}
    assert train_iters({"a.yml": SHORT}, **keys) == 1000
    assert train_iters({"a.yml": SHORT}, training={"steps": 70}, batch={"micro": 4}) == 70
    assert train_iters({"a.yml": MODEL}, **keys) is None
    assert train_iters({"a.yml": {**SHORT, "train_epochs": 2}}, **keys) is None
    assert train_iters({"a.yml": SHORT}, neox={"train-iters": 50}, **keys) == 50
    assert train_iters({"a.yml": SHORT}, configs=["a.yml", "b.yml"], **keys) is None
