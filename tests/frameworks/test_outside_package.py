"""A package of somebody else adds a launcher and a framework; no file of clusterjobs changes."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("outside_package")

SHELLCHECK = pathlib.Path(sys.executable).with_name("shellcheck")
LAUNCH = """\
    exec accelerate launch --multi_gpu --num_machines=2 --num_processes=16 \\
      --machine_rank="$SLURM_NODEID" --same_network --rdzv_backend=static \\
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \\
      "$@"' node "${command[@]}"
"""


def write_spec(folder: pathlib.Path, **keys: Any) -> None:
    common = {"name": "a", "cluster": "p4d-a100", "nodes": 2, "script": "train.py"}
    (folder / "exp.yaml").write_text(json.dumps({**common, **keys}))


def render(clusterjobs: Callable[..., Any], folder: pathlib.Path, **keys: Any) -> str:
    write_spec(folder, **keys)
    outcome = clusterjobs("render", "exp.yaml", "-o", "out")
    assert outcome.code == 0, outcome.err
    return (folder / "out" / "job.sh").read_text()


def test_its_framework_is_started_by_its_launcher(clusterjobs, folder) -> None:
    text = render(
        clusterjobs, folder, framework="my-trainer", precision="bf16", trainer={"steps": 500}
    )
    assert LAUNCH in text
    assert "\n    train.py\n    --steps 500\n    --precision bf16\n" in text
    assert "# ---- launch: one accelerate launch per node starts the node's ranks" in text
    assert "#SBATCH --ntasks-per-node=1\n" in text


def test_its_script_is_bash_in_which_shellcheck_finds_nothing(clusterjobs, folder) -> None:
    render(clusterjobs, folder, framework="my-trainer")
    script = folder / "out" / "job.sh"
    subprocess.run(["bash", "-n", script], check=True)
    found = subprocess.run([SHELLCHECK, "--norc", script], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


def test_its_launcher_starts_a_framework_that_does_not_know_it(clusterjobs, folder) -> None:
    assert LAUNCH in render(clusterjobs, folder, framework="torchrun", launcher="my-accelerate")


def test_its_launcher_runs_python_behind_a_prefix(clusterjobs, folder) -> None:
    text = render(clusterjobs, folder, framework="my-trainer", prefix="nice -n 5")
    assert '      --no_python "$@"\' node' in text
    assert "\n    nice -n 5\n    python3 train.py\n" in text


def test_its_launcher_has_options_of_its_own(clusterjobs, folder) -> None:
    keys = {"framework": "my-trainer", "my-accelerate": {"mixed_precision": "bf16"}}
    text = render(clusterjobs, folder, **keys)
    assert "\n  launcher_options=(\n    --mixed_precision=bf16\n  )\n" in text
    assert 'node "${launcher_options[@]}" "${command[@]}"' in text


def test_the_manifest_has_its_template(clusterjobs, folder) -> None:
    render(clusterjobs, folder, framework="my-trainer")
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert "launch/my-accelerate.sh.j2" in manifest["inputs"]["templates"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"framework": "my-trainr"}, "hint: did you mean my-trainer?"),
        (
            {"framework": "my-trainer", "launcher": "my-acelerate"},
            "hint: did you mean my-accelerate?",
        ),
        (
            {"framework": "torchrun", "launcher": "my-acelerate"},
            "hint: did you mean my-accelerate?",
        ),
        ({"framework": "nonesuch"}, "my-trainer, torchrun"),
        (
            {"framework": "command", "script": None, "command": "a", "launcher": "my-accelerate"},
            "launcher: command is not started by my-accelerate",
        ),
        ({"framework": "my-trainer", "trainer": {"stepz": 1}}, "did you mean steps?"),
        ({"framework": "my-trainer", "args": {"steps": 1}}, "steps is derived from trainer.steps"),
        ({"framework": "torchrun", "trainer": {}}, "choose a framework that has it: my-trainer"),
        ({"framework": "my-trainer", "my-accelerate": {"mixed_precison": 1}}, "mixed_precision?"),
        (
            {"framework": "torchrun", "my-accelerate": {}},
            "these are options of the launcher my-accelerate, and this job uses torchrun",
        ),
        (
            {"framework": "my-trainer", "nodes": 1, "ranks_per_node": 1, "my-accelerate": {}},
            "launcher: my-accelerate needs two ranks or more",
        ),
    ],
)
def test_its_names_are_in_the_messages(clusterjobs, folder, keys, message: str) -> None:
    write_spec(folder, **keys)
    spec = json.loads((folder / "exp.yaml").read_text())
    (folder / "exp.yaml").write_text(json.dumps({k: v for k, v in spec.items() if v is not None}))
    outcome = clusterjobs("plan", "exp.yaml")
    assert outcome.code == 1
    assert message in outcome.err


def test_preflight_looks_for_its_packages(clusterjobs, folder) -> None:
    text = render(clusterjobs, folder, framework="my-trainer", preflight=True)
    assert "packages=torch,accelerate" in text
