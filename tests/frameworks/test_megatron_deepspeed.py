"""Megatron-DeepSpeed's command line and ds_config.json, held against what its parser takes."""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import pytest
from parsers import FlagError, megatron_arguments
from plans import plan_of, problems_of

from clusterjobs.runs.load import load_first
from clusterjobs.sections.plan import Plan
from clusterjobs.text import show

ARGS: dict[str, Any] = {"train-iters": 1000, "lr": "1e-4"}
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
NAMES = ("gpt2-345m-4gpu", "gpt2-7b", "gpt3-175b-p5")
SMALL: dict[str, Any] = {
    "framework": "megatron-deepspeed",
    "script": "pretrain_gpt.py",
    "model": {"layers": 24, "hidden": 1024, "heads": 16, "sequence": 1024},
    "batch": {"micro": 2, "global": 128},
    "args": ARGS,
}


def example(name: str) -> Plan:
    return load_first(EXAMPLES / f"{name}.yaml").plan


def config_of(plan: Plan) -> dict[str, Any]:
    (file,) = plan.files.configs
    assert file.name == "ds_config.json"
    return json.loads(file.text)


def check_agreement(plan: Plan) -> None:
    """Both sides say the same, and what DeepSpeed and Megatron assert is true."""
    arguments, config = megatron_arguments(plan), config_of(plan)
    tensor = int(arguments["tensor-model-parallel-size"])
    pipeline = int(arguments["pipeline-model-parallel-size"])
    world = plan.placement.shape.world_size
    data_parallel, rest = divmod(world, tensor * pipeline)
    assert rest == 0
    assert tensor * pipeline <= world  # else it would be clamped in silence
    assert ("no-pipeline-parallel" in arguments) is (pipeline == 1)
    assert int(arguments["global-batch-size"]) == config["train_batch_size"]
    assert int(arguments["micro-batch-size"]) == config["train_micro_batch_size_per_gpu"]
    product = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"]
    assert product * data_parallel == config["train_batch_size"]
    assert int(arguments["zero-stage"]) == config["zero_optimization"]["stage"]
    for precision in ("fp16", "bf16"):
        assert (precision in arguments) is config.get(precision, {}).get("enabled", False)
    assert float(arguments.get("clip-grad", 1.0)) == config["gradient_clipping"]
    assert int(arguments["num-attention-heads"]) % tensor == 0
    assert arguments["seq-length"] == arguments["max-position-embeddings"]
    both = {"checkpoint-activations", "deepspeed-activation-checkpointing"}
    assert (both & arguments.keys() == both) is ("activation_checkpointing" in config)


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_taken_by_the_parser_and_agree_with_their_config(name: str) -> None:
    check_agreement(example(name))


LAYOUTS = list(
    itertools.product(
        (1, 2, 4), (1, 2, 4, 8), (1, 2, 3, 4, 8, 16), (0, 1, 2), (None, "fp16", "bf16")
    )
)


def test_every_parallel_layout_is_right_or_refused() -> None:
    """A grid: what renders satisfies both parsers, and what is refused could not have run."""
    rendered = 0
    for nodes, tensor, pipeline, stage, precision in LAYOUTS:
        keys = {
            **SMALL,
            "nodes": nodes,
            "parallel": {"tensor": tensor, "pipeline": pipeline},
            "zero": {"stage": stage},
            "precision": precision,
            "activation_checkpointing": stage == 1,
        }
        errors = [one for one in problems_of(**keys) if not one.warning]
        data_parallel, rest = divmod(nodes * 8, tensor * pipeline)
        impossible = bool(rest) or (stage >= 2 and pipeline > 1)
        indivisible = not impossible and 128 % (2 * data_parallel) != 0
        assert bool(errors) is (impossible or indivisible), keys
        if not errors:
            check_agreement(plan_of(**keys))
            rendered += 1
    assert 200 < rendered < len(LAYOUTS)


def test_without_deepspeed_megatron_gets_none_of_its_arguments_and_no_config() -> None:
    plan = plan_of(**SMALL, zero=False, activation_checkpointing=True)
    arguments = megatron_arguments(plan)
    assert not [name for name in arguments if "deepspeed" in name or "zero" in name]
    assert "checkpoint-activations" in arguments
    assert plan.files.configs == ()
    keys = {"zero": False, "ds_config": {"steps_per_print": 1}}
    (problem,) = (one for one in problems_of(**SMALL, **keys) if not one.warning)
    assert problem.what == "zero: false starts Megatron without DeepSpeed, which would read this"


def test_vocabulary_is_padded_for_the_tensor_ranks() -> None:
    padded = {one.name: one.value for one in example("gpt3-175b-p5").derived}["model.vocab_padded"]
    assert padded == 51200
    assert padded % (128 * 8) == 0


def test_ranks_are_told_what_no_launcher_tells_them() -> None:
    said = {one.name: one for one in plan_of(**SMALL, gpus_per_node=4).environment.variables}
    assert said["LOCAL_SIZE"].value == "4"
    folder = show(said["TORCH_EXTENSIONS_DIR"].value)
    assert folder == "/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token"
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in said


def test_sequence_parallelism_gets_the_variable_that_it_insists_on() -> None:
    keys = {**SMALL, "parallel": {"tensor": 2}, "args": {**ARGS, "sequence-parallel": True}}
    said = {one.name: one.value for one in plan_of(**keys).environment.variables}
    assert said["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"


def test_a_relative_checkpoint_folder_counts_from_where_sbatch_was_called() -> None:
    keys = {**SMALL, "checkpoints": {"path": "out"}, "args": {**ARGS, "save-interval": 5}}
    arguments = megatron_arguments(plan_of(**keys))
    assert arguments["save"] == arguments["load"] == "$SLURM_SUBMIT_DIR/out"


def test_activation_checkpointing_is_switched_on_and_off_on_both_sides() -> None:
    on = plan_of(**SMALL, activation_checkpointing={"partition": True, "cpu": True, "layers": 2})
    arguments = megatron_arguments(on)
    assert {"partition-activations", "checkpoint-in-cpu"} <= arguments.keys()
    assert arguments["checkpoint-num-layers"] == "2"
    wanted = {"partition_activations": True, "cpu_checkpointing": True}
    assert config_of(on)["activation_checkpointing"] == wanted
    off = plan_of(**SMALL, activation_checkpointing=False)
    assert "checkpoint-activations" not in megatron_arguments(off)
    assert "activation_checkpointing" not in config_of(off)


def test_an_argument_in_the_other_spelling_is_refused_too() -> None:
    args = ["--train-iters=1000", "--lr", "1e-4", "--hidden_size=2048"]
    (problem,) = (one for one in problems_of(**{**SMALL, "args": args}) if not one.warning)
    assert "model.hidden (exp.yaml:1)" in problem.what


@pytest.mark.parametrize("args", [{"num-layer": 2}, {"fp32": True}])
def test_the_described_parser_refuses_unknown_flags(args: dict[str, Any]) -> None:
    with pytest.raises(FlagError):
        megatron_arguments(plan_of(**{**SMALL, "args": {**ARGS, **args}}))


@pytest.mark.parametrize(
    ("args", "positions"),
    [
        ({}, "1024"),
        ({"max-position-embeddings": 4096}, "4096"),
        ({"max-position-embeddings": False}, None),
        ({"position-embedding-type": "rotary"}, None),
        ({"position-embedding-type": "alibi"}, "1024"),
    ],
)
def test_the_number_of_positions_is_the_sequence_length_unless_args_say_it(
    args: dict[str, Any], positions: str | None
) -> None:
    arguments = megatron_arguments(plan_of(**{**SMALL, "args": {**ARGS, **args}}))
    assert arguments.get("max-position-embeddings") == positions


@pytest.mark.parametrize(
    ("args", "ds_config", "flag", "value"),
    [
        ({}, {}, None, 1.0),
        ({"clip-grad": 0.5}, {}, "0.5", 0.5),
        ({}, {"gradient_clipping": 0.5}, "0.5", 0.5),
        ({"clip-grad": 0}, {}, "0", 0.0),
        ({"clip-grad": 0.5}, {"gradient_clipping": 0.5}, "0.5", 0.5),
    ],
)
def test_both_sides_clip_gradients_at_the_same_norm(
    args: dict[str, Any], ds_config: dict[str, Any], flag: str | None, value: float
) -> None:
    plan = plan_of(**{**SMALL, "args": {**ARGS, **args}}, ds_config=ds_config)
    assert megatron_arguments(plan).get("clip-grad") == flag
    assert config_of(plan)["gradient_clipping"] == value


def test_the_loss_scale_of_the_flags_is_deepspeeds() -> None:
    flags = {"initial-loss-scale": 4096, "loss-scale-window": 500, "hysteresis": 4}
    plan = plan_of(**{**SMALL, "args": {**ARGS, **flags}}, precision="fp16")
    wanted = {"initial_scale_power": 12, "loss_scale_window": 500, "hysteresis": 4}
    assert config_of(plan)["fp16"] == {"enabled": True, **wanted}
    static = plan_of(**{**SMALL, "args": {**ARGS, "loss-scale": 12}}, precision="fp16")
    assert config_of(static)["fp16"] == {"enabled": True, "loss_scale": 12}


def test_a_loss_scale_that_deepspeed_cannot_have_is_refused() -> None:
    keys = {**SMALL, "args": {**ARGS, "initial-loss-scale": 1000}, "precision": "fp16"}
    (problem,) = problems_of(**keys)
    assert problem.path == "args.initial-loss-scale"
    assert "a power of two" in problem.hint


def test_clipping_that_is_known_only_when_the_job_runs_is_refused() -> None:
    keys = {**SMALL, "precision": "fp16", "parameters": {"CLIP": 1.0}}
    args = {**ARGS, "clip-grad": "{{ parameters.CLIP }}"}
    (problem,) = problems_of(**{**keys, "args": args})
    assert "must equal gradient_clipping in ds_config" in problem.what
