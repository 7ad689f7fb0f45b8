"""`script: -m package.module`: what each launcher gets, and what is no module."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from clusterjobs.errors import InputError
from clusterjobs.runs.load import load
from clusterjobs.text import show

BASE = {"name": "a", "cluster": "p4d-a100", "nodes": 2, "args": {"lr": 1e-4}}


def words(folder: pathlib.Path, **keys: object) -> list[str]:
    path = folder / "exp.yaml"
    path.write_text(yaml.safe_dump({**BASE, **keys}))
    [job] = load(path, (), to_write=False).planned_jobs
    assert not job.plan.staging.inputs  # no file has to be there
    return [show(word) for word in job.plan.launch.words]


@pytest.mark.parametrize(
    ("keys", "start"),
    [
        ({"framework": "torchrun"}, ["-m"]),
        ({"framework": "torchrun", "launcher": "srun"}, ["python3", "-m"]),
        ({"framework": "torchrun", "prefix": ["nsys", "profile"]}, ["python3", "-m"]),
        ({"framework": "accelerate"}, ["-m"]),
        ({"framework": "huggingface"}, ["-m"]),
        ({"framework": "lightning"}, ["python3", "-m"]),
        ({"framework": "jax"}, ["python3", "-m"]),
        ({"framework": "composer"}, ["-m"]),
        ({"framework": "horovod"}, ["python3", "-m"]),
        (
            {"framework": "deepspeed", "launcher": "deepspeed", "batch": {"micro": 1}},
            ["--module"],
        ),
    ],
    ids=str,
)
def test_each_launcher_gets_the_module(
    tmp_path: pathlib.Path, keys: dict[str, object], start: list[str]
) -> None:
    found = words(tmp_path, script="-m axolotl.cli.train", **keys)
    assert found[: len(start) + 1] == [*start, "axolotl.cli.train"]
    assert "--lr" in found


@pytest.mark.parametrize(
    "script", ["-m", "-m ", "-m a b", "-m a..b", "-m /x/y.py", "-m a;b", "-x a.b", "-mpkg", "-m 1a"]
)
def test_anything_else_with_a_dash_is_no_script(tmp_path: pathlib.Path, script: str) -> None:
    with pytest.raises(InputError, match="starts with '-'"):
        words(tmp_path, framework="torchrun", script=script)


def test_megatron_needs_the_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError) as caught:
        words(tmp_path, framework="megatron-lm", script="-m pkg.pretrain_gpt")
    hints = [one.hint for one in caught.value.problems if one.path == "script"]
    assert hints == ["write the module's file, pkg/pretrain_gpt.py"]
