"""What `plan` and the summary of a render say of a job."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

SPEC = {
    "name": "gpt",
    "cluster": "p4d-a100",
    "nodes": 2,
    "framework": "deepspeed",
    "script": "train.py",
    "batch": {"micro": 4, "global": 128},
}


def planned(clusterjobs: Callable[..., Any], *arguments: str, **keys: object) -> str:
    spec = {key: value for key, value in {**SPEC, **keys}.items() if value is not None}
    pathlib.Path("exp.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    outcome = clusterjobs("plan", "exp.yaml", *arguments)
    assert outcome.code == 0, outcome.err
    return str(outcome.out)


def test_the_plan_for_scripts_keeps_its_names(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    data = json.loads(planned(clusterjobs, "--json"))
    sections = data.pop("sections")
    assert data == {
        "name": "gpt",
        "cluster": "p4d-a100",
        "partition": "train",
        "instance_type": "p4d.24xlarge",
        "framework": "deepspeed",
        "launcher": "srun",
        "nodes": 2,
        "ranks_per_node": 8,
        "gpus_per_node": 8,
        "world_size": 16,
        "data_parallel": 16,
        "batch": {"micro": 4, "accumulation": 2, "global": 128},
        "roles": [],
        "foresight": None,
        "merged": [],
    }
    assert list(sections) == ["derived", "sbatch", "srun", "environment", "command"]
    assert sections["command"][0] == {
        "name": "python3 train.py",
        "value": "",
        "reason": "script (exp.yaml:5)",
    }
    names = [row["name"] for row in sections["derived"]]
    assert len(names) == len(set(names))


def test_each_argument_of_a_list_has_its_origin(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    def origins(*arguments: str, **keys: object) -> dict[str, str]:
        data = json.loads(planned(clusterjobs, "--json", *arguments, **keys))
        return {row["name"]: row["reason"] for row in data["sections"]["command"]}

    listed = origins(args=["--lr", "0.1", "--bf16"])
    assert listed["--lr"] == "args[0] (exp.yaml:10)"
    assert listed["--bf16"] == "args[2] (exp.yaml:12)"
    assert origins("--set", "args=[--lr, 0.1]")["--lr"] == "args[0] (--set args=[--lr, 0.1])"
    assert origins("--set", "args={lr: 0.1}")["--lr"] == "args.lr (--set args={lr: 0.1})"
    own = {"framework": "command", "script": None, "batch": None}
    started = origins(command=["./run", "--lr=0.1", "--out", "x"], **own)
    assert set(started.values()) == {"command (exp.yaml:5)"}


def test_an_option_and_its_value_in_one_word_are_shown_as_one_and_warned_of(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    given = ["--lr 1e-4", "--wd", "0.1", "--name", "a b", "--x=--y z", "-1 2"]
    own = {"framework": "torchrun", "batch": None, "args": given}
    rows = command_of(clusterjobs, **own)
    assert rows[1][:2] == ("'--lr 1e-4'", "")
    assert ("--name", "'a b'") in [row[:2] for row in rows]
    warned = clusterjobs("plan", "exp.yaml").err
    assert warned.count("is one word") == 1
    assert "args[0]: --lr 1e-4 is one word, with a blank in it: the program finds no --lr" in warned
    assert 'write two items: --lr, "1e-4"' in warned
    command = {"framework": "command", "script": None, "batch": None}
    planned(clusterjobs, **command, command=["bash", "-c", "-x y; ./train --lr 3", "-o a"])
    assert "command: -o a is one word" in clusterjobs("plan", "exp.yaml").err


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("90", "1 hour 30 minutes"),
        ("24:00", "24 minutes"),
        ("00:30", "30 seconds"),
        ("01:00:00", "1 hour"),
        ("23:59:59", "23 hours 59 minutes 59 seconds"),
        ("1-0", "1 day"),
        ("2-03:04:05", "2 days 3 hours 4 minutes 5 seconds"),
    ],
)
def test_a_time_limit_is_told_with_what_it_means(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, written: str, meaning: str
) -> None:
    assert f"{written} ({meaning})\n" in planned(clusterjobs, time_limit=written)


def test_a_limit_that_is_none_has_no_meaning_beside_it(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    for written in ("UNLIMITED", "INFINITE"):
        lines = planned(clusterjobs, time_limit=written).splitlines()
        assert [line.split()[2:] for line in lines if line.startswith("time limit")] == [[written]]
    assert "the partition's own" in planned(clusterjobs)


def command_of(clusterjobs: Callable[..., Any], **keys: object) -> list[tuple[str, str, str]]:
    rows = json.loads(planned(clusterjobs, "--json", **keys))["sections"]["command"]
    return [(row["name"], row["value"], row["reason"].partition(" (")[0]) for row in rows]


def test_the_command_has_a_row_for_each_argument_with_its_key(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    args = {"lr": "1e-4", "flag": True, "files": ["a", "b c"], "note": "{{ parameters.NOTE }}"}
    assert command_of(
        clusterjobs, prefix=["nsys", "profile"], args=args, parameters={"NOTE": "x"}
    ) == [
        ("nsys profile", "", "prefix"),
        ("python3 train.py", "", "script"),
        ("--lr", "1e-4", "args.lr"),
        ("--flag", "", "args.flag"),
        ("--files", "a 'b c'", "args.files"),
        ("--note", '"$NOTE"', "args.note"),
        ("--deepspeed", "", "framework: deepspeed"),
        ("--deepspeed_config", '"$job_dir/ds_config.json"', "batch, precision, zero and ds_config"),
    ]


def test_arguments_in_a_list_have_the_key_of_their_item(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    keys = {"framework": "torchrun", "args": ["--lr=1e-4", "--seed", "3"]}
    assert command_of(clusterjobs, **keys)[1:] == [
        ("--lr", "1e-4", "args[0]"),
        ("--seed", "3", "args[1]"),
    ]
    keys = {"framework": "jax", "args": ["base.yml", "run_name=a", "steps=9"]}
    assert command_of(clusterjobs, **keys, batch=None)[1:] == [
        ("run_name", "a", "args[1]"),
        ("steps", "9", "args[2]"),
    ]


def test_derived_arguments_of_a_framework_name_the_key_they_come_from(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    model = {"layers": 2, "hidden": 64, "heads": 2, "sequence": 8}
    keys = {"framework": "megatron-deepspeed", "model": model, "precision": "bf16"}
    args = {"train-iters": 10, "lr": "1e-4"}
    rows = command_of(clusterjobs, **keys, args=args, ds_config={"gradient_clipping": 0.5})
    origins = {name: origin for name, _, origin in rows}
    assert origins["--num-layers"] == "model.layers"
    assert origins["--max-position-embeddings"] == "model.sequence"
    assert origins["--clip-grad"] == "ds_config.gradient_clipping"
    assert origins["--lr"] == "args.lr"
    assert origins["--bf16"] == "precision"
    assert origins["--global-batch-size"] == "batch.global"
    fairseq = {"cli": "fairseq-hydra-train", "arch": "roberta_base", "data": "/fsx/d"}
    args = {"optimizer": "adam", "lr": "5e-4"}
    keys = {"framework": "fairseq", "script": None, "fairseq": fairseq, "model": model}
    keys["args"] = args
    rows = command_of(clusterjobs, **keys)
    origins = {name: origin for name, _, origin in rows}
    assert origins["++model.encoder_layers"] == "model.layers"
    assert origins["optimization.update_freq"] == "batch"
    assert origins["task.data"] == "fairseq.data"


def test_the_table_of_the_command_shows_where_an_argument_comes_from(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    table = planned(clusterjobs, args={"lr": "1e-4"}).partition("\ncommand\n")[2]
    rows = [line.split() for line in table.splitlines()]
    assert ["--lr", "1e-4", "args.lr", "(exp.yaml:10)"] in rows


def test_a_plan_with_roles_counts_the_training_and_shows_both(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    serve = ["./serve", "--host", "{{ roles.server.addr }}", "--of", "{{ nodes }}"]
    roles = {"roles": {"server": {"command": serve, "nodes": 2, "port": 8000}}, "nodes": 4}
    data = json.loads(planned(clusterjobs, "--json", **roles))
    assert (data["nodes"], data["world_size"], data["batch"]["accumulation"]) == (2, 16, 2)
    log = "server.log"
    assert data["roles"] == [
        {"name": "server", "first_node": 2, "nodes": 2, "port": 8000, "log": log}
    ]
    rows = {row["name"]: row["value"] for row in data["sections"]["sbatch"]}
    assert rows["--nodes"] == 4
    command, *options = data["sections"]["role server"]
    assert command["name"] == './serve --host "$CLUSTERJOBS_SERVER_ADDR" --of 4'
    assert all(row["reason"] for row in options)
    text = planned(clusterjobs, **roles)
    assert "ranks:       16 = nodes 2 x ranks per node 8\n" in text
    assert "server:      nodes 3-4 of 4, port 8000\n" in text
    assert "2 nodes x 8 GPUs (p4d.24xlarge) + 2 nodes for server, deepspeed" in text
    assert "\0" not in text
