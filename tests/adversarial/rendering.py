"""Specs of this folder as plans and scripts, for the cluster `small`."""

from __future__ import annotations

import pathlib
from typing import Any

from hostile import dump

from clusterjobs.clusters.parallelcluster.config import Cluster
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.clusters.source import find_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.spec.load import load_spec

CONFIG = pathlib.Path(__file__).parents[2] / "cluster-configs" / "small.yaml"
SMALL, SMALL_DOCUMENT = read_cluster(CONFIG.read_text(), "small.yaml", {})
FACTS = cluster_facts(SMALL)


def plan_of(spec: dict[str, Any], cluster: Cluster | None = None) -> Plan:
    """The plan of a spec; without a cluster, for the one that the spec names."""
    loaded = load_spec(dump(spec, '"', allow_unicode=False), "exp.yaml", option_models())
    if cluster is None:
        where = loaded.source.locate(("cluster",))
        file = find_cluster(loaded.spec.cluster, pathlib.Path.cwd(), where)
        cluster, _ = read_cluster(file.read_text(), "small.yaml", {})
    return resolve(loaded, cluster_facts(cluster))


def plan_of_text(text: str) -> Plan:
    """The plan of a spec's text for the cluster `small`."""
    return resolve(load_spec(text, "exp.yaml", option_models()), FACTS)


def script_of(plan: Plan, file: str = "exp.yaml") -> str:
    """job.sh as rendered from a spec in `file`."""
    return render_script(plan, Inputs((file, ""), ("small.yaml", ""))).text
