"""Lightning's own words: the Trainer's arguments, and its variables as Lightning reads them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.frameworks.flags import table
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.load import load_spec

ROOT = pathlib.Path(__file__).parents[2]
READ = """
import inspect, json
from lightning.pytorch import Trainer
from lightning.pytorch.utilities.argparse import _parse_env_variables
names = list(inspect.signature(Trainer.__init__).parameters)[1:]
print(json.dumps([vars(_parse_env_variables(Trainer)), names]))
"""


def plan_of(cluster: str = "p4d-a100", **keys: Any) -> Plan:
    base = {"name": "a", "cluster": cluster, "framework": "lightning", "script": "train.py"}
    spec = load_spec(json.dumps({**base, **keys}), "exp.yaml", option_models())
    text = (resources.cluster_configs_dir() / f"{cluster}.yaml").read_text(encoding="utf-8")
    return resolve(spec, cluster_facts(read_cluster(text, f"{cluster}.yaml", {})[0]))


def trainer_variables(plan: Plan) -> dict[str, str]:
    variables = plan.environment.variables
    return {one.name: one.value for one in variables if one.name.startswith("PL_TRAINER_")}


def test_lightning_reads_the_variables_and_has_the_arguments_of_the_table(
    tmp_path: pathlib.Path,
) -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed")
    plan = plan_of(
        nodes=2,
        precision="bf16",
        batch={"micro": 2, "accumulation": 3},
        checkpoints={"path": "/fsx/a"},
    )
    environment = {**trainer_variables(plan), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        *([sys.executable, "-c", READ],), env=environment, cwd=tmp_path, capture_output=True
    )
    variables, names = json.loads(done.stdout or "[{}, []]")
    assert variables == {
        "num_nodes": 2,
        "devices": 8,
        "accelerator": "gpu",
        "precision": "bf16-mixed",
        "accumulate_grad_batches": 3,
        "default_root_dir": "/fsx/a",
    }, done.stderr
    assert set(table("lightning").types) == {f"trainer.{name}" for name in names}


def test_the_table_has_the_types_of_the_installed_trainer() -> None:
    installed = pytest.importorskip("lightning", reason="Lightning is not installed")
    known = table("lightning")
    if installed.__version__ != known.version:
        pytest.skip(f"the table is of Lightning {known.version}")
    tool = [sys.executable, str(ROOT / "tools/flag_tables.py"), "lightning", "--print"]
    done = subprocess.run(tool, check=True, stdout=subprocess.PIPE, text=True)
    assert json.loads(done.stdout) == known.types


@pytest.mark.parametrize(
    ("name", "value", "what", "hint"),
    [
        ("benchmark", True, "expects true or false", 'write trainer.benchmark: "true" or "false"'),
        ("fast_dev_run", True, "without a value", 'write trainer.fast_dev_run: "true" or "false"'),
        ("gpus", 8, "is derived from ranks_per_node, as trainer.devices", "remove it"),
        ("precision", "bf16-mixd", "expects one of", "write trainer.precision: bf16-mixed"),
        ("strategy", "dpp", "expects one of", "write trainer.strategy: ddp"),
    ],
)
def test_what_the_trainer_of_a_cli_refuses_is_refused(
    name: str, value: Any, what: str, hint: str
) -> None:
    with pytest.raises(InputError) as error:
        plan_of(lightning={"cli": "fit"}, args={f"trainer.{name}": value})
    (problem,) = error.value.problems
    assert what in problem.what
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("replace_sampler_ddp", "false", "write --trainer.use_distributed_sampler in its place"),
        ("track_grad_norm", 2, "remove it, or write known_args"),
        ("logger", False, 'write trainer.logger: "false", in quotes'),
    ],
)
def test_what_the_trainer_of_a_cli_would_misread_is_warned_of(
    name: str, value: Any, hint: str
) -> None:
    plan = plan_of(lightning={"cli": "fit"}, args={f"trainer.{name}": value})
    (warning,) = plan.warnings
    assert hint in warning.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("benchmark", "true"), ("enable_progress_bar", "False"), ("sync_batchnorm", False)),
        *(("strategy", "ddp"), ("strategy", "DDPStrategy"), ("strategy", "my.own.Strategy")),
        *(("deterministic", "warn"), ("precision", 16)),
    ],
)
def test_what_the_trainer_of_a_cli_takes_passes(name: str, value: Any) -> None:
    assert not plan_of(lightning={"cli": "fit"}, args={f"trainer.{name}": value}).warnings


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {"NUM_NODES": "1", "DEVICES": "8", "ACCELERATOR": "gpu"}),
        ({"gpus_per_node": 0, "ranks_per_node": 4}, {"DEVICES": "4", "ACCELERATOR": "cpu"}),
        ({"nodes": 4, "gpus_per_node": 2}, {"NUM_NODES": "4", "DEVICES": "2"}),
        ({"precision": "fp16"}, {"PRECISION": "16-mixed"}),
        ({"precision": "fp32"}, {"PRECISION": "32-true"}),
    ],
)
def test_the_sizes_are_those_of_slurm(keys: dict[str, Any], expected: dict[str, str]) -> None:
    found = trainer_variables(plan_of(**keys))
    assert {f"PL_TRAINER_{name}": value for name, value in expected.items()}.items() <= (
        found.items()
    )


def test_a_cli_has_flags_instead_of_variables() -> None:
    plan = plan_of(nodes=2, lightning={"cli": "fit"}, args={"trainer.accelerator": "tpu"})
    assert trainer_variables(plan) == {}
    words = " ".join(plan.launch.words)
    assert words.startswith("python3 train.py fit --trainer.num_nodes 2 --trainer.devices 8")
    assert words.count("--trainer.accelerator") == 1


@pytest.mark.parametrize(
    "args",
    [
        {"num-nodes": "{{ nodes }}", "devices": "{{ ranks_per_node }}"},
        {"num_nodes": 2, "devices": 8},
        {"devices": "auto"},
    ],
)
def test_sizes_that_agree_are_accepted(args: dict[str, Any]) -> None:
    assert plan_of(nodes=2, ranks_per_node=8, args=args).warnings == ()


def test_signals_for_the_script_alone_are_accepted() -> None:
    assert plan_of(sbatch={"signal": "B:TERM@90"}).warnings == ()


def test_a_script_finds_the_callback_beside_what_the_spec_adds() -> None:
    path = {"env": {"PYTHONPATH": "/fsx/lib"}, "checkpoints": {"path": "/fsx/a"}}
    variables = [one for one in plan_of(**path).environment.variables if one.name == "PYTHONPATH"]
    assert [one.append for one in variables] == [False, True]
    image = {"runtime": "pyxis", "image": "a/b:1"}
    inside = plan_of(**path, software={"container": image}).environment.variables
    assert [one.append for one in inside if one.name == "PYTHONPATH"] == [False, True]
    assert not [one for one in inside if one.name == "LD_LIBRARY_PATH"]


@pytest.mark.parametrize(
    "args", [{"config": "a.yaml"}, {"trainer": "a.yaml"}, ["--config=a.yaml"], ["--trainer", "a"]]
)
def test_a_file_in_args_does_not_replace_the_derived_flags(args: Any) -> None:
    with pytest.raises(InputError, match="would replace the derived settings"):
        plan_of(lightning={"cli": "fit"}, args=args)
    plan_of(args=args)


@pytest.mark.parametrize(
    ("framework", "name"),
    [("lightning", "PL_TRAINER_DEVICES"), ("jax", "JAX_PROCESS_ID"), ("jax", "JAX_NUM_PROCESSES")],
)
def test_a_variable_that_contradicts_the_spec_is_refused(framework: str, name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is derived from"):
        plan_of(framework=framework, env={name: "1"})


@pytest.mark.parametrize(
    ("framework", "prefix"),
    [("lightning", "PL_TRAINER_*"), ("jax", "JAX_PROCESS_ID*"), ("accelerate", "ACCELERATE_*")],
)
def test_settings_of_the_calling_shell_are_unset(framework: str, prefix: str) -> None:
    assert prefix in plan_of(framework=framework).environment.unset
    assert prefix not in plan_of(framework="torchrun").environment.unset
