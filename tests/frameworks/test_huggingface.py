"""What accelerate and transformers make of the derived configs, arguments and variables."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
from spec_rows import Row, plan_of_row

from clusterjobs.errors import InputError
from clusterjobs.frameworks.flags import table
from clusterjobs.resources import template_texts
from clusterjobs.sections.plan import Plan
from clusterjobs.text import show

PARSERS = pathlib.Path(__file__).with_name("huggingface_parsers.py")
ROOT = pathlib.Path(__file__).parents[2]
FSDP = {"wrap": ["LlamaDecoderLayer"], "activation_checkpointing": True}
MEANS: tuple[dict[str, Any], ...] = (
    {"precision": "bf16"},
    {"precision": "bf16", "zero": {"stage": 2}},
    {"precision": "bf16", "fsdp": FSDP},
    {"fsdp": {"version": 1, "reshard_after_forward": False, "state_dict": "full"}},
)


def plan_of(framework: str, files: dict[str, str] | None = None, **keys: Any) -> Plan:
    common = {"name": "a", "cluster": "p4d-a100", "nodes": 2, "script": "t.py"}
    spec = {**common, "framework": framework, "batch": {"micro": 4, "global": 256}, **keys}
    given = {key: value for key, value in spec.items() if value is not None}
    return plan_of_row(Row("", given, files or {}, {}))


def variables_of(plan: Plan) -> dict[str, str]:
    return {
        one.name: one.value
        for one in plan.environment.variables
        if one.name.startswith(("ACCELERATE_", "FSDP_"))
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of one process for all tests, since the imports take seconds."""
    pytest.importorskip("accelerate", reason="needs the extra 'train'")
    pytest.importorskip("transformers", reason="needs the extra 'train'")
    launches, commands = [], []
    for index, keys in enumerate(MEANS):
        folder = tmp_path_factory.mktemp(f"job-{index}")
        launched = plan_of("accelerate", **keys)
        trainer = plan_of("huggingface", checkpoints={"path": "/fsx/saved"}, **keys)
        for file in (*launched.files.configs, *trainer.files.configs):
            (folder / file.name).write_text(file.text)
        launches.append(str(folder / "accelerate.json"))
        words = trainer.launch.words[1:]
        commands.append([show(one).replace("$job_dir", str(folder)) for one in words])
    done = subprocess.run(
        [sys.executable, PARSERS],
        input=json.dumps({"launches": launches, "commands": commands}),
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("index", range(len(MEANS)))
def test_srun_sets_the_variables_that_accelerate_launch_sets(answers, index: int) -> None:
    found = answers["launches"][index]
    by_launch = {**variables_of(plan_of("accelerate", **MEANS[index])), **found}
    by_srun = variables_of(plan_of("accelerate", launcher="srun", **MEANS[index]))
    assert by_srun == {name: by_launch.get(name) for name in by_srun}
    assert by_srun != {}
    shape = {"nnodes": "2", "nproc_per_node": "8", "node_rank": "1", "address": "node-1"}
    assert {name: found[name] for name in shape} == shape


def test_the_table_is_what_the_installed_parser_takes() -> None:
    installed = pytest.importorskip("transformers", reason="transformers is not installed")
    known = table("huggingface")
    if installed.__version__ != known.version:
        pytest.skip(f"the table is of transformers {known.version}")
    tool = [sys.executable, str(ROOT / "tools/flag_tables.py"), "huggingface", "--print"]
    done = subprocess.run(tool, check=True, stdout=subprocess.PIPE, text=True)
    assert json.loads(done.stdout) == known.types


@pytest.mark.parametrize(
    ("args", "what", "hint"),
    [
        ({"learning-rate": "fast"}, "learning_rate: fast", "write for example learning_rate: 0.1"),
        ({"eval_strategy": "step"}, "one of no, steps, epoch", "write eval_strategy: steps"),
        ({"optim": "adamw8bit"}, "optim: adamw8bit", "write optim: adamw_8bit"),
        ({"max_steps": "10.5"}, "expects an integer", "write for example max_steps: 1000"),
        ({"disable_tqdm": True}, "without a value", 'write disable_tqdm: "true" or "false"'),
    ],
)
def test_what_training_arguments_refuse_is_refused(
    args: dict[str, Any], what: str, hint: str
) -> None:
    with pytest.raises(InputError) as error:
        plan_of("huggingface", args=args)
    (problem,) = error.value.problems
    assert what in problem.what
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        ({"learnin_rate": "2e-5"}, "did you mean --learning_rate?"),
        ({"evaluation_strategy": "steps"}, "write --eval_strategy in its place"),
        ({"logging_dir": "/fsx/a"}, "remove it, or write known_args: [logging_dir]"),
        ({"dataloader_pin_memory": False}, 'write dataloader_pin_memory: "false", in quotes'),
    ],
)
def test_arguments_of_another_version_and_near_ones_are_warned_of(
    args: dict[str, Any], hint: str
) -> None:
    (warning,) = plan_of("huggingface", args=args).warnings
    assert hint in warning.hint
    assert not plan_of("huggingface", args=args, known_args=list(args)).warnings


def test_a_scripts_own_arguments_are_not_asked_about() -> None:
    own = ("model_name_or_path", "lora_target_modules", "text_column_name", "model_id", "token")
    more = {"model-name": "a", "load-best-model-at-end": True, "logging-first-step": False}
    args = {**dict.fromkeys(own, "a"), **more, "bf16_full_eval": "True", "learning-rate": "2e-5"}
    assert not plan_of("huggingface", args=args).warnings


def test_the_trainer_takes_the_derived_arguments(answers) -> None:
    plain, zero, fsdp, old = answers["commands"]
    sizes = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    common = {**sizes, "output_dir": "/fsx/saved", "fp16": False, "use_cpu": False}
    assert plain.pop("gradient_checkpointing") is None
    assert plain == {**common, "bf16": True, "deepspeed": None, "plugin": None}
    assert show(zero["deepspeed"]).endswith("/ds_config.json")
    assert fsdp["plugin"]["fsdp_version"] == 2
    assert fsdp["plugin"]["transformer_cls_names_to_wrap"] == "LlamaDecoderLayer"
    assert fsdp["plugin"]["activation_checkpointing"]
    assert fsdp["gradient_checkpointing"] is False  # the Trainer refuses both
    assert fsdp["plugin"]["state_dict_type"] == "SHARDED_STATE_DICT"
    assert old["plugin"]["reshard_after_forward"] == "shard_grad_op"
    assert old["plugin"]["fsdp_version"] == 1


def test_the_callback_of_the_page_is_the_one_that_runs_in_the_lab() -> None:
    page = (ROOT / "docs" / "frameworks" / "huggingface.md").read_text(encoding="utf-8")
    (callback,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    script = ROOT / "tests" / "jobs" / "train_huggingface.py"
    assert callback in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["gradient_checkpointing", "activation_checkpointing"])
def test_activations_are_computed_again_by_fsdp_or_by_the_trainer(name: str) -> None:
    twice = "--gradient_checkpointing"
    words = plan_of("huggingface", fsdp=FSDP).launch.words
    assert words[words.index(twice) + 1] == "False"  # in TRL the default is True
    assert twice not in plan_of("huggingface", fsdp={}).launch.words
    with pytest.raises(InputError, match=f"{name} is derived from fsdp.activation_checkpointing"):
        plan_of("huggingface", fsdp=FSDP, args={name: True})
    assert f"--{name}" in plan_of("huggingface", fsdp={}, args={name: True}).launch.words


# ------------------------------------------------------------------ ds_config from a file


@pytest.mark.parametrize(
    ("size", "batch", "expected"),
    [("auto", True, 256), (256, True, 256), ("auto", False, "auto")],
)
def test_the_plan_has_the_batch_of_the_config(size: object, batch: bool, expected: object) -> None:
    keys: dict[str, Any] = {"ds_config": "a.json", "zero": {"stage": 2}}
    keys |= {} if batch else {"batch": None}
    plan = plan_of("huggingface", {"a.json": json.dumps({"train_batch_size": size})}, **keys)
    names = [one.name for one in plan.derived if one.name.startswith("ds_config")]
    assert names == ["ds_config.train_batch_size"] * batch
    assert ds_config(plan)["train_batch_size"] == expected


def ds_config(plan: Plan) -> Any:
    (text,) = (one.text for one in plan.files.configs if one.name == "ds_config.json")
    return json.loads(text)


@pytest.mark.parametrize(
    "left_open",
    [
        {"train_batch_size": "auto", "gradient_accumulation_steps": "auto"},
        {"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": "auto"}},
        {"bf16": None, "zero_optimization": None},
    ],
)
def test_a_value_that_a_file_leaves_open_is_the_derived_one(left_open: dict[str, Any]) -> None:
    """With bf16 "auto" and no argument for it, Accelerate would train in fp32."""
    keys = {"precision": "bf16", "zero": {"stage": 3}, "ds_config": "ds.json"}
    config = ds_config(plan_of("accelerate", {"ds.json": json.dumps(left_open)}, **keys))
    assert config == {
        "train_batch_size": 256,
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3},
    }


def test_the_file_is_part_of_the_plan_and_keeps_auto() -> None:
    file = {"zero_optimization": {"stage": 3}, "gradient_clipping": "auto", "x": None}
    plan = plan_of("huggingface", {"a.json": json.dumps(file)}, ds_config="a.json")
    assert ds_config(plan) == {
        "train_batch_size": 256,
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 4,
        "zero_optimization": {"stage": 3},
        "gradient_clipping": "auto",
        "x": None,
    }


@pytest.mark.parametrize("framework", ["deepspeed", "huggingface", "accelerate"])
def test_a_file_may_repeat_what_is_derived(framework: str) -> None:
    file = {"train_batch_size": 256, "bf16": {"enabled": True}, "fp16": {"enabled": False}}
    plan = plan_of(
        *(framework, {"a.json": json.dumps(file)}),
        ds_config="a.json",
        precision="bf16",
        zero={"stage": 1},
    )
    assert ds_config(plan)["zero_optimization"] == {"stage": 1}


def test_a_trainer_without_a_batch_decides_itself() -> None:
    plan = plan_of("huggingface", batch=None, zero={"stage": 2}, args={"auto_find_batch_size": 1})
    assert ds_config(plan)["train_batch_size"] == "auto"
    assert "--per_device_train_batch_size" not in plan.launch.words


# ------------------------------------------------------------------ the newest checkpoint


def newest(folder: pathlib.Path) -> str:
    template = template_texts()["functions/resume.sh.j2"]
    text = template.partition("has_resume %}\n")[2].partition("{% endif %}")[0]
    code = f'set -euo pipefail\n{text}\nfound=$(newest_checkpoint "$1")\nprintf %s "$found"'
    done = subprocess.run(
        ["bash", "-c", code, "bash", str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_the_newest_complete_checkpoint_is_found(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "with [a] blank *"
    assert newest(folder) == ""
    folder.mkdir()
    assert newest(folder) == ""
    states = {"2": "{\n}\n", "9": '{\n  "global_step": 9\n}\n', "10": '{\n  "glo', "11": ""}
    for step, state in {**states, "best": "{\n}\n", "12\nx": "{\n}\n"}.items():
        (folder / f"checkpoint-{step}").mkdir()
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    (folder / "checkpoint-20").mkdir()
    (folder / "checkpoint-30").touch()
    assert newest(folder) == "checkpoint-9"


# ------------------------------------------------------------------ without GPUs


def test_ranks_on_cpus_are_told_so_and_train_together() -> None:
    cpus = {"cluster": "small", "ranks_per_node": 2, "batch": None}
    assert plan_of("huggingface", **cpus).launch.words[-2:] == ("--use_cpu", "True")
    for launcher in ("accelerate", "torchrun", "srun"):
        plan = plan_of("accelerate", launcher=launcher, **cpus)
        assert variables_of(plan)["ACCELERATE_USE_CPU"] == "true"
    assert "ACCELERATE_USE_CPU" not in variables_of(plan_of("accelerate"))


@pytest.mark.parametrize("framework", ["huggingface", "accelerate"])
def test_a_variable_that_contradicts_the_spec_is_refused(framework: str) -> None:
    with pytest.raises(InputError, match="ACCELERATE_MIXED_PRECISION is derived from precision"):
        plan_of(framework, precision="bf16", env={"ACCELERATE_MIXED_PRECISION": "fp16"})
