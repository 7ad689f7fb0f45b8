"""Megatron-DeepSpeed and GPT-NeoX in a real Slurm: stand-ins write down what each rank is given."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.lab

STAND_INS = pathlib.Path(__file__).with_name("stand_ins")
MODEL = {"layers": 4, "hidden": 64, "heads": 4, "sequence": 32}


def check_ranks(jobs, ended, world: int = 4) -> None:
    """Each knows who and where it is, on which of the nodes, and has met the others."""
    assert ended.exit_code == 0, ended.log
    assert sorted(ended.ranks) == list(range(world)), ended.log
    for rank, record in ended.ranks.items():
        assert (record["WORLD_SIZE"], record["LOCAL_RANK"]) == (str(world), str(rank % 2))
        assert record["host"] == jobs.lab.facts.nodes[rank // 2]
        assert record["MASTER_ADDR"] == jobs.lab.facts.nodes[0]
        assert record["MASTER_PORT"] == str(12000 + int(ended.job_id) % 20000)
        folder = record["environment"]["TORCH_EXTENSIONS_DIR"]
        assert re.fullmatch(f"/tmp/torch-extensions-{ended.job_id}-1-[A-Za-z0-9]{{12}}", folder)


def hosts_of(jobs, ended) -> str:
    return (jobs.lab.folder.shared("/fsx") / "logs" / ended.job_id / "hostfile").read_text()


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "deepspeed"])
def test_megatron_deepspeed_is_given_ranks_flags_and_config(jobs, launcher: str) -> None:
    name = f"megatron-{launcher}"
    spec = jobs.spec(
        name,
        framework="megatron-deepspeed",
        launcher=launcher,
        script=str(STAND_INS / "pretrain_gpt.py"),
        model=MODEL,
        parallel={"tensor": 2},
        batch={"micro": 2, "global": 16},
        precision="bf16",
        args={"tensorboard-dir": f"/fsx/records/{name}", "train-iters": 10, "lr": 0.1},
    )
    ended = jobs.run(spec)
    check_ranks(jobs, ended)
    for record in ended.ranks.values():
        assert record["environment"]["LOCAL_SIZE"] == "2"
        words = record["arguments"]
        assert words[words.index("--tensor-model-parallel-size") + 1] == "2"
        assert not any(word.startswith(("--local_rank", "--local-rank")) for word in words)
        assert record["config"]["train_batch_size"] == 16
        assert record["config"]["gradient_accumulation_steps"] == 4
        assert record["config"]["bf16"] == {"enabled": True}
    if launcher != "torchrun":
        assert ended.ranks[0]["met"] == [0, 1, 2, 3]
    if launcher == "deepspeed":
        assert hosts_of(jobs, ended) == "".join(
            f"{node} slots=2\n" for node in jobs.lab.facts.nodes
        )


def neox_spec(jobs, name: str, **keys: Any) -> dict[str, Any]:
    """GPT-NeoX's workdir is the stand-ins' folder; the configs lie on shared storage."""
    configs = jobs.folder / f"{name}-configs"
    configs.mkdir()
    records = f"/fsx/records/{name}"
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 64}
    small = {"num-layers": 4, "lr_decay_iters": 9, "train_iters": 9, **sizes}
    (configs / "small.yml").write_text(yaml.safe_dump(small))
    (configs / "setup.yml").write_text(yaml.safe_dump({"tensorboard_dir": records}))
    common = {
        "framework": "gpt-neox",
        "workdir": str(STAND_INS),
        "script": "train.py",
        "args": [],
        "config_dir": str(configs),
        "configs": ["small.yml", "setup.yml"],
        "batch": {"micro": 2, "global": 16},
    }
    return jobs.spec(name, **{**common, **keys})


@pytest.mark.parametrize("nodes", [1, 2])
def test_gpt_neox_has_deepspeed_start_the_ranks_by_slurm(jobs, nodes: int) -> None:
    pytest.importorskip("deepspeed", reason="needs the extra 'train'")
    name = f"neox-{nodes}"
    # DeepSpeed hands UCX_* on as srun's --export=ALL,A=1,B=2: a comma must not cut a value.
    ended = jobs.run(neox_spec(jobs, name, nodes=nodes, env={"UCX_TLS": "a,b"}))
    check_ranks(jobs, ended, world=2 * nodes)
    for record in ended.ranks.values():
        assert record["environment"]["UCX_TLS"] == "a,b"
    assert ended.ranks[0]["met"] == list(range(2 * nodes))
    hosts = jobs.lab.facts.nodes[:nodes]
    assert hosts_of(jobs, ended) == "".join(f"{node} slots=2\n" for node in hosts)
    records = jobs.lab.folder.shared("/fsx") / "records" / name
    composed = json.loads((records / "composed.txt").read_text())
    assert composed["before"]["SLURM_PROCID"] == "0"
    config = composed["config"]
    assert (config["num_layers"], config["train_batch_size"]) == (4, 16)
    assert config["master_addr"] == hosts[0]
    product = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"]
    assert product * 2 * nodes == 16


def test_gpt_neox_ends_at_once_when_a_rank_fails(jobs) -> None:
    pytest.importorskip("deepspeed", reason="needs the extra 'train'")
    spec = neox_spec(jobs, "neox-failing")
    spec["workdir"] = str(failing_stand_ins(jobs.folder))
    ended = jobs.run(spec)
    assert ended.exit_code != 0
    assert "Exited with exit code 17" in ended.log
    assert f"job {ended.job_id} ended with exit code" in ended.log


def failing_stand_ins(folder: pathlib.Path) -> pathlib.Path:
    """A train.py whose last rank dies while the others would go on for five minutes."""
    place = folder / "failing"
    place.mkdir()
    (place / "deepy.py").write_text((STAND_INS / "deepy.py").read_text())
    (place / "train.py").write_text(
        "import os, sys, time\n"
        "sys.exit(17) if os.environ['SLURM_PROCID'] == '3' else time.sleep(300)\n"
    )
    return place
