"""Numbers that no job can have: each numeric key of a spec refuses them at its position."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator

import pydantic
import pytest

from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.spec import experiment
from clusterjobs.spec.load import load_spec

BASE = "name: a\ncluster: small\nframework: command\ncommand: [./run]\n"
NUMBERS = ["1" + "0" * 20, "-1", "-1" + "0" * 20, ".nan", ".inf", "1.0e+308", "1" + "0" * 5000]
NUMBERS += ["1e400", "9223372036854775808", "100000000000000000000-00:00:00", "0x" + "f" * 40]


def numeric_keys(model: type[pydantic.BaseModel], above: str = "") -> Iterator[str]:
    """The dotted names of all numbers; `data[]` is a list."""
    for name, one in model.model_fields.items():
        parts = [one.annotation, *typing.get_args(one.annotation)]
        models = [p for p in parts if isinstance(p, type) and issubclass(p, pydantic.BaseModel)]
        key = f"{above}{one.alias or name}"
        if models:
            is_list = typing.get_origin(one.annotation) in (tuple, list)
            yield from numeric_keys(models[0], f"{key}[]." if is_list else f"{key}.")
        elif re.search(r"\b(int|float)\b", str(one.annotation)):
            yield key


KEYS = [*numeric_keys(experiment.Experiment), "time_limit"]


def spec_with(key: str, number: str) -> str:
    *above, last = key.split(".")
    text = f"{last}: {number}"
    for name in reversed(above):
        text = f"{name[:-2]}: [{{{text}}}]" if name.endswith("[]") else f"{name}: {{{text}}}"
    return f"{BASE}{text}\n"


@pytest.mark.parametrize("key", KEYS)
def test_a_number_that_no_job_can_have_is_refused_at_its_position(key: str) -> None:
    for number in NUMBERS:
        with pytest.raises(InputError) as error:
            load_spec(spec_with(key, number), "exp.yaml", option_models())
        paths = {problem.path.replace("[0]", "[]") for problem in error.value.problems}
        unreadable = len(number) > 4300  # not even YAML's parser takes it
        assert ("" if unreadable else key) in paths, (number, error.value.problems)
        for problem in error.value.problems:
            assert problem.where is not None
            assert len(problem.what) < 300


@pytest.mark.parametrize("time", ["24856-00", "35791394", "999999999:00:00", "999999999-0:0:0"])
def test_a_time_limit_that_slurm_reads_as_another_is_refused(time: str) -> None:
    with pytest.raises(InputError, match="Slurm reads at most 24,855 days"):
        load_spec(spec_with("time_limit", f'"{time}"'), "exp.yaml", option_models())


@pytest.mark.parametrize("time", ["24855-00", "35791393", "UNLIMITED"])
def test_the_longest_time_limit_is_taken(time: str) -> None:
    loaded = load_spec(spec_with("time_limit", time), "exp.yaml", option_models())
    assert loaded.spec.time_limit == time
