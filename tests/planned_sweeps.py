"""Sweeps written as Python data: the plans of their points, and the scripts of their arrays."""

from __future__ import annotations

import json
import re
from typing import Any

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.sections.context import PointArray, PointPlan
from clusterjobs.sections.order import resolve
from clusterjobs.sections.points.arrays import point_arrays
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.spec.load import load_points

BASE = {"name": "a", "cluster": "small", "framework": "command", "command": ["./run"]}


def as_yaml(data: object) -> str:
    """JSON is YAML, but YAML has no surrogate pairs."""
    pair = re.compile(r"\\ud[89ab]..\\ud[c-f]..")
    return pair.sub(
        lambda m: f"\\U{ord(json.loads(chr(34) + m[0] + chr(34))):08x}", json.dumps(data)
    )


def points_of(**keys: Any) -> tuple[PointPlan, ...]:
    """The planned points of BASE with other keys; None leaves one out."""
    data = {key: value for key, value in {**BASE, **keys}.items() if value is not None}
    text = (resources.cluster_configs_dir() / f"{data['cluster']}.yaml").read_text()
    facts = cluster_facts(read_cluster(text, f"{data['cluster']}.yaml", {})[0])
    specs = load_points(as_yaml(data), "exp.yaml", option_models())
    return tuple(PointPlan(one.point, resolve(one, facts), "0" * 16) for one in specs if one.point)


def arrays_of(**keys: Any) -> tuple[PointArray, ...]:
    """The arrays of BASE with other keys."""
    return point_arrays(points_of(**keys))


def scripts_of(**keys: Any) -> list[str]:
    """The scripts of these arrays."""
    return [text_of(one) for one in arrays_of(**keys)]


def text_of(array: PointArray) -> str:
    inputs = Inputs(("exp.yaml", ""), ("small.yaml", ""))
    return render_script(array.plan, inputs, array.table).text
