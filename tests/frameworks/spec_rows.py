"""Specs of specs/*.yaml, right and wrong, and the numbers that a framework would read of a plan."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import yaml
from parsers import megatron_arguments

from clusterjobs import resources
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.parallelcluster.facts import cluster_facts
from clusterjobs.parallelcluster.read import read_cluster
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.resolve import resolve
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
            spec = _merged(page["base"], row.get("spec", {}))
            files = {name: _text(file) for name, file in row.get("files", {}).items()}
            found.append(Row(f"{path.stem}:{row['name']}", spec, files, row))
    return found


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**base, **more}
    for key in ("args", "model"):
        if isinstance(base.get(key), dict) and isinstance(more.get(key), dict):
            merged[key] = {**base[key], **more[key]}
    return {key: value for key, value in merged.items() if value is not None}


def _text(file: Any) -> str:
    return file if isinstance(file, str) else yaml.safe_dump(file)


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
    return (plan.placement.shape.world_size, *plan.parallelism, *plan.batch)


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


READERS: dict[str, Callable[[Plan], Numbers]] = {
    "megatron-deepspeed": _megatron,
    "deepspeed": _deepspeed,
}


def numbers_of(row: Row) -> Numbers:
    """The numbers as the framework reads them from what is rendered."""
    return READERS.get(row.spec["framework"], _planned)(plan_of_row(row))
