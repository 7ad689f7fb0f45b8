"""Specs of specs/*.yaml, right and wrong, and the numbers that a framework would read of a plan."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from parsers import megatron_arguments, neox_configs

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.load import load_spec
from clusterjobs.yaml import document

FOLDER = pathlib.Path(__file__).with_name("specs")


class Row(NamedTuple):
    """A spec, the framework's own files beside it, and what is expected of it."""

    id: str
    spec: dict[str, Any]
    files: dict[str, str]
    expected: dict[str, Any]


def rows(kind: str) -> list[Row]:
    """All rows of the kind "right" or "wrong"."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        page = document.load(path.read_text(encoding="utf-8"), path.name).value
        for row in page[kind]:
            spec = merged(page["base"], row.get("spec", {}))
            file = {"a.yml": merged(page["file"], row.get("file", {}))} if "file" in page else {}
            named = {**file, **row.get("files", {})}
            files = {name: _text(file) for name, file in named.items() if file is not None}
            found.append(Row(f"{path.stem}:{row['name']}", spec, files, row))
    return found


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    found = {**base, **more}
    for key in ("args", "model", "neox"):
        if isinstance(base.get(key), dict) and isinstance(more.get(key), dict):
            found[key] = merged(base[key], more[key])
    return {key: value for key, value in found.items() if value is not None}


def _text(file: Any) -> str:
    return file if isinstance(file, str) else json.dumps(file)


def plan_of_row(row: Row) -> Plan:
    spec = load_spec(json.dumps(row.spec), "exp.yaml", option_models())
    name = f"{row.spec['cluster']}.yaml"
    text = (resources.cluster_configs_dir() / name).read_text(encoding="utf-8")
    return resolve(spec, cluster_facts(read_cluster(text, name, {})[0]), row.files)


def problems_of_row(row: Row) -> list[Problem]:
    """Errors and warnings."""
    try:
        return list(plan_of_row(row).warnings)
    except InputError as error:
        return list(error.problems)


# ------------------------------------------------------------------ numbers

Numbers = tuple[int, ...]  # world, tensor, pipeline, data parallel, micro, accumulation, global


def _planned(plan: Plan) -> Numbers:
    assert plan.batch
    ranks = plan.parallelism
    return (plan.placement.shape.world_size, ranks.tensor, ranks.pipeline, ranks.data, *plan.batch)


def ds_config_of(plan: Plan) -> dict[str, Any]:
    """The rendered ds_config.json."""
    (file,) = plan.files.configs
    config: dict[str, Any] = json.loads(file.text)
    return config


def _deepspeed(plan: Plan) -> Numbers:
    config = ds_config_of(plan)
    keys = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")
    micro, accumulation, total = (config[key] for key in keys)
    return (*_planned(plan)[:3], total // (micro * accumulation), micro, accumulation, total)


def _megatron(plan: Plan) -> Numbers:
    """As validate_args computes them, with Slurm's number of ranks."""
    arguments, config = megatron_arguments(plan, strict=False), ds_config_of(plan)
    world = plan.placement.shape.nodes * plan.placement.shape.ranks_per_node
    tensor = int(arguments["tensor-model-parallel-size"])
    pipeline = int(arguments["pipeline-model-parallel-size"])
    data = world // (tensor * pipeline)
    micro, total = int(arguments["micro-batch-size"]), int(arguments["global-batch-size"])
    assert (micro, total) == _deepspeed(plan)[4::2]
    assert float(arguments.get("clip-grad", 1.0)) == config["gradient_clipping"]
    return world, tensor, pipeline, data, micro, total // (micro * data), total


def _megatron_lm(plan: Plan) -> Numbers:
    """As validate_args computes them, with Slurm's number of ranks."""
    arguments = megatron_arguments(plan, framework="megatron-lm")
    world = plan.placement.shape.nodes * plan.placement.shape.ranks_per_node
    tensor = int(arguments["tensor-model-parallel-size"])
    pipeline = int(arguments["pipeline-model-parallel-size"])
    data = world // (tensor * pipeline * int(arguments.get("context-parallel-size", 1)))
    micro, total = int(arguments["micro-batch-size"]), int(arguments["global-batch-size"])
    return world, tensor, pipeline, data, micro, total // (micro * data), total


def _gpt_neox(plan: Plan, files: Mapping[str, str]) -> Numbers:
    """As calculate_derived computes them, with the number of GPUs in the host file."""
    (launch,) = plan.files.configs
    config = neox_configs({**files, launch.name: launch.text}, strict=False)
    world = plan.placement.shape.world_size
    tensor = max(1, config.get("model_parallel_size", 1))
    pipeline = max(1, config.get("pipe_parallel_size", 0))
    data, rest = divmod(world, tensor * pipeline)
    micro, total = config.get("train_micro_batch_size_per_gpu"), config.get("train_batch_size")
    accumulation = config.get("gradient_accumulation_steps", 1)
    micro = micro or total // data // accumulation
    total = total or micro * accumulation * data
    assert (rest, total) == (0, micro * accumulation * data)
    return world, tensor, pipeline, data, micro, accumulation, total


def fairseq_command(plan: Plan) -> list[str]:
    """The program and its arguments, without those that are known only when the job runs."""
    words = plan.launch.words
    first = next(i for i, word in enumerate(words) if word.startswith("fairseq-"))
    return [word for word in words[first:] if isinstance(word, str)]


def _fairseq(plan: Plan) -> Numbers:
    """As the trainer computes them; 0 where only max-tokens limits a batch."""
    found: dict[str, str] = {}
    words = fairseq_command(plan)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.lstrip("+").partition("=")
        if equals and not name.startswith("-"):
            found[name.rpartition(".")[2]] = value.strip("[]")
        elif word.startswith("--"):
            found[word[2:].replace("-", "_")] = following
    world, micro = int(found["distributed_world_size"]), int(found.get("batch_size", 0))
    steps = int(found.get("update_freq", "1").partition(",")[0])
    return world, 1, 1, world, micro, steps, micro * steps * world


def numbers_of(row: Row) -> Numbers:
    """The numbers as the framework reads them from what is rendered."""
    plan, framework = plan_of_row(row), row.spec["framework"]
    if framework == "gpt-neox":
        return _gpt_neox(plan, row.files)
    readers = {
        "megatron-deepspeed": _megatron,
        "megatron-lm": _megatron_lm,
        "deepspeed": _deepspeed,
        "fairseq": _fairseq,
    }
    return readers.get(framework, _planned)(plan)
