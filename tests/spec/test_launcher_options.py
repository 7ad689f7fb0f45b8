"""Options of a launcher, below its name in a spec: where they may be, and who reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.launchers.torchrun import Options
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.sites.policy import load_policy
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Below, LoadedSpec, load_spec

SPEC = {"name": "a", "cluster": "small", "framework": "torchrun", "script": "t.py"}
RULES = "rules: [{name: none, message: None., forbid: [torchrun.max_restarts]}]"


def loaded(defaults: str = "{}", **keys: Any) -> LoadedSpec:
    below = Below(defaults=[("defaults.yaml", defaults)])
    return load_spec(json.dumps({**SPEC, **keys}), "exp.yaml", option_models(), below=below)


def planned(loaded: LoadedSpec) -> Plan:
    text = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    return resolve(loaded, cluster_facts(read_cluster(text, "small.yaml", {})[0]))


def test_options_of_defaults_are_for_the_specs_with_that_launcher() -> None:
    defaults = "all: {torchrun: {tee: 3}}"
    assert planned(loaded(defaults)).launch.own_options == ("--tee=3",)
    assert planned(loaded(defaults, launcher="srun")).launch.own_options == ()


def test_a_spec_adds_to_the_options_of_defaults() -> None:
    spec = loaded("all: {torchrun: {tee: 3, role: a}}", torchrun={"role": "b"})
    assert planned(spec).launch.own_options == ("--role=b", "--tee=3")


def test_an_unknown_option_in_defaults_is_found() -> None:
    with pytest.raises(InputError) as raised:
        loaded("all: {torchrun: {teee: 3}}")
    (problem,) = raised.value.problems
    assert (problem.path, problem.hint) == ("torchrun.teee", "did you mean tee?")


def test_options_without_a_value_are_a_problem() -> None:
    with pytest.raises(InputError) as raised:
        loaded(torchrun=None)
    assert [(one.path, one.what) for one in raised.value.problems] == [
        ("torchrun", "expected a mapping")
    ]


def test_a_rule_of_the_site_can_name_an_option() -> None:
    assert load_policy(RULES, "policy.yaml", option_models())
    with pytest.raises(InputError, match="torchrun has no key max_restart") as raised:
        load_policy(RULES.replace("restarts]", "restart]"), "policy.yaml", option_models())
    assert raised.value.problems[0].hint == "did you mean max_restarts?"


def test_no_launcher_with_options_has_the_name_of_a_key() -> None:
    models = option_models()
    launchers = {name for name, options in models.launchers.items() if options}
    keys = {key for one in models.frameworks.values() if one for key in one.model_fields}
    assert "torchrun" in launchers
    assert launchers & {*Experiment.model_fields, *keys} == set()


def test_every_option_has_a_default() -> None:
    assert Options().words  # a spec without the key has them all
    for options in filter(None, option_models().launchers.values()):
        assert options.model_validate({})
