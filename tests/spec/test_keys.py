"""Every key of a spec says what is known of it, and what says so is true."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from clusterjobs.frameworks import option_models
from clusterjobs.runs.content import content_hash
from clusterjobs.slurm.options import known_options
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.key_names import owners_of_options
from clusterjobs.spec.keys.job import EXTENDS
from clusterjobs.spec.model import Key, SpecModel, TopLevelKeys, known_keys, models_in
from clusterjobs.yaml import document

MODELS: Mapping[str, type[SpecModel]] = {
    "": Experiment,
    **{name: one for name, one in option_models().frameworks.items() if one},
    **{name: one for name, one in option_models().launchers.items() if one},
}


def fields(model: type[SpecModel], above: str) -> Iterator[Any]:
    """The dotted path, the key and the type of everything in a model."""
    keys = known_keys(model).items()
    for (name, key), field in zip(keys, model.model_fields.values(), strict=True):
        path = f"{above}.{name}".lstrip(".")
        kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else None
        yield pytest.param(key, kind, id=path)
        for inner in models_in(field.annotation):
            yield from fields(inner, path)


FIELDS = list(itertools.chain(*(fields(model, name) for name, model in MODELS.items())))


@pytest.mark.parametrize("name", [name for name, one in option_models().launchers.items() if one])
def test_the_options_of_a_launcher_have_a_meaning_and_a_valid_example(name: str) -> None:
    model: Any = option_models().launchers[name]
    assert model.about.doc
    model.model_validate(document.load(model.about.example, "example").value)


@pytest.mark.parametrize(("key", "kind"), FIELDS)
def test_a_key_has_a_meaning_and_a_valid_example(key: Key | None, kind: Any) -> None:
    assert key is not None
    assert key.doc
    assert not key.doc.endswith(".")
    value = document.load(key.example, "example").value
    TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize("key", [Key("the priority", "100"), None])
def test_a_key_that_does_not_say_whether_it_schedules_cannot_be_imported(key: Key | None) -> None:
    kind = Annotated[int, key] if key else int
    with pytest.raises(TypeError, match=r"Keys\.nice: does this key change what the ranks compute"):
        type("Keys", (TopLevelKeys,), {"__annotations__": {"nice": kind}, "__module__": __name__})


def test_the_content_hash_of_the_first_keys_stays_equal() -> None:
    """Of all keys that 0.1.0 has, as it computes it: another hash runs finished points again."""
    keys = """
        after args batch before checkpoints cluster command cpus_per_task data env framework
        gpus_per_node instance_type job_arguments launcher logs model name needs nodes parallel
        parameters precision prefix preflight queue ranks_per_node report restarts roles sbatch
        script secrets setup sidecars software srun ssh sweep time_limit training workdir
    """
    spec = {key: key for key in keys.split()}
    assert content_hash(spec, {}) == "a08d3c9cffc5acdc"
    assert content_hash(spec, {"a.yml": "b: 1"}) == "9200dc67dea2156a"
    scheduling = "logs name needs preflight queue report restarts sbatch sweep time_limit"
    computed = {key: key for key in spec if key not in scheduling.split()}
    assert content_hash(computed, {}) == "a08d3c9cffc5acdc"


def test_options_that_a_key_owns_are_options_of_sbatch() -> None:
    assert owners_of_options().keys() - known_options("sbatch").takes_value.keys() == {"walltime"}


def test_a_framework_s_own_scheduling_key_is_not_in_the_content_hash() -> None:
    class Options(TopLevelKeys):
        nice: Annotated[int, Key("the priority", "100", schedules=True)] = 0

    assert content_hash({"nice": 1}, {}, Options) == content_hash({}, {}, Options)


def test_what_a_spec_extends_has_a_valid_example() -> None:
    assert document.load(EXTENDS.example, "example").value == ["base.yaml", "gpus.yaml"]
