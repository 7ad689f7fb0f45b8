"""What torchtitan gets: overrides with the numbers of the spec, by torchrun itself and by srun.

torchtitan needs GPUs. The trainer here is a stand-in that writes its arguments down.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from script_runs import Run, run_script, script

from clusterjobs.frameworks.flags import Table, table

TRAINER = """
import json, os, pathlib, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
seen = {name: os.environ[name] for name in names} | {"arguments": sys.argv[1:]}
pathlib.Path(f"rank.{seen['RANK']}").write_text(json.dumps(seen))
"""
NEW = {"module": "llama3", "config": "llama3_8b"}
OLD = {"config_file": "llama3_8b.toml"}


def run(folder: pathlib.Path, **keys: Any) -> Run:
    for name in ("torchtitan/__init__.py", "torchtitan/train.py", "my_train.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("" if "init" in name else TRAINER)
    one_task = 'while [[ $1 == --* ]]; do shift; done; SLURM_NODEID=0 SLURM_PROCID=0 exec "$@"'
    environment = {"PATH": f"{folder / 'bin'}:{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"}
    text = script(**{"framework": "torchtitan", "nodes": 1, "script": None, **keys})
    environment |= {"SLURM_NTASKS": "1"}
    here = "[[ $1 != show ]] || echo localhost"  # torchrun meets at its name
    stand_ins = {"srun": one_task, "scontrol": here}
    return run_script(folder, text, stand_ins=stand_ins, environment=environment)


def overrides(words: list[str]) -> dict[str, str]:
    """As tyro reads them: each name once, with its value."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word[2:]
            assert name not in found, f"{name} twice"
            found[name] = ""
        else:
            assert not found[name], f"two values of {name}"
            found[name] = word
    return found


def accepted(words: list[str], known: Table) -> dict[str, str]:
    """The overrides, all of which the parser has."""
    found = overrides(words)
    own = {"module", "config"} if known.version.startswith("0.3") else set()
    assert set(found) - own <= set(known.types)
    return found


def test_torchrun_starts_the_trainer_as_a_module(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch", reason="torchrun is torch's")
    end = run(tmp_path, torchtitan=NEW, ranks_per_node=2, batch={"micro": 4, "global": 16})
    assert (end.code, end.reasons) == (0, ["completed"]), end.log
    ranks = [json.loads((tmp_path / f"rank.{rank}").read_text()) for rank in (0, 1)]
    assert [(one["LOCAL_RANK"], one["WORLD_SIZE"]) for one in ranks] == [("0", "2"), ("1", "2")]
    assert ranks[0]["arguments"] == ranks[1]["arguments"]
    assert accepted(ranks[0]["arguments"], table("torchtitan")) == {
        "module": "llama3",
        "config": "llama3_8b",
        "parallelism.tensor_parallel_degree": "1",
        "parallelism.pipeline_parallel_degree": "1",
        "parallelism.context_parallel_degree": "1",
        "training.local_batch_size": "4",
        "training.global_batch_size": "16",
    }


@pytest.mark.parametrize("own_script", [None, "my_train.py"])
def test_srun_starts_it_with_a_toml_file(tmp_path: pathlib.Path, own_script: str | None) -> None:
    keys = {"torchtitan": OLD, "launcher": "srun", "precision": "bf16", "script": own_script}
    checkpoints = {"path": str(tmp_path / "checkpoints")}
    end = run(tmp_path, **keys, checkpoints=checkpoints, args={"training.steps": 5})
    assert (end.code, end.reasons) == (0, ["completed"]), end.log
    seen = json.loads((tmp_path / "rank.0").read_text())
    assert accepted(seen["arguments"], table("torchtitan-0.2")) == {
        "job.config_file": "llama3_8b.toml",
        "training.mixed_precision_param": "bfloat16",
        "checkpoint.enable": "",
        "checkpoint.folder": str(tmp_path / "checkpoints"),
        "training.steps": "5",
    }
