"""clusterjobs explain: a key as the reference page has it."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from click.testing import CliRunner

from clusterjobs.cli.main import cli, run
from clusterjobs.clusters.described.description import Description
from clusterjobs.reference.commands import _example
from clusterjobs.reference.keys import all_keys, keys_of
from clusterjobs.reference.schema import file_schema
from clusterjobs.sites.policy import Policy
from clusterjobs.sites.prices import SitePrices
from clusterjobs.spec.model import SpecModel
from clusterjobs.yaml import document


def _explain(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["explain", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_key_has_its_type_meaning_default_and_example() -> None:
    assert _explain("batch.micro") == (
        "key      batch.micro\n"
        "value    integer from 1 to 1,000,000\n"
        "meaning  samples on each GPU, in each forward pass\n"
        "default  derived\n"
        "example  batch: {micro: 8}\n"
    )


def test_a_section_lists_the_keys_below_it() -> None:
    assert "keys below it\nbatch.micro         samples on each GPU" in _explain("batch")


def test_a_key_of_some_frameworks_names_them() -> None:
    assert "only in  accelerate, deepspeed, gpt-neox, huggingface, megatron-deepspeed" in _explain(
        "zero.stage"
    )


@pytest.mark.parametrize(
    "typed", ["data.source", "data[].source", "data[0].source", "data.0.source"]
)
def test_an_index_does_not_matter(typed: str) -> None:
    assert "example  data: [{source: s3://my-bucket/pile}]" in _explain(typed)


@pytest.mark.parametrize(
    ("of", "typed", "example"),
    [
        ("cluster", "memory_mib", "node_types: {NAME: {memory_mib: 515000}}"),
        ("cluster", "partitions.gpu.max_time", "partitions: {NAME: {max_time: 1-00:00:00}}"),
        ("policy", "rules.limits.gpus", "rules: [{limits: {gpus: 16}}]"),
        ("site", "prices.usd_per_hour", "prices: [{usd_per_hour: 18.5}]"),
    ],
)
def test_keys_of_other_files_are_explained(of: str, typed: str, example: str) -> None:
    assert f"example  {example}" in _explain("--of", of, typed)


def test_a_key_of_another_file_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "memory_mib"]) == 1
    assert "hint: clusterjobs explain --of cluster memory_mib" in capsys.readouterr().err


@pytest.mark.parametrize("model", [Description, Policy, SitePrices])
def test_the_example_of_a_key_of_another_file_is_a_value_of_it(model: type[SpecModel]) -> None:
    optional = re.sub(
        r'"required": \[[^]]*\]', '"required": []', json.dumps(file_schema("", model))
    )
    validator = jsonschema.Draft202012Validator(json.loads(optional))
    for key in keys_of(model):
        value = document.load(f"{_example(key)}\n".replace("NAME", "X"), "example").value
        errors = validator.iter_errors(json.loads(json.dumps(value)))
        assert [one.message for one in errors] == [], key.path


@pytest.mark.parametrize("path", [one.path for one in all_keys()])
def test_every_key_can_be_explained(path: str) -> None:
    assert f"key      {path}\n" in _explain(path)


def test_json_has_the_same() -> None:
    (found,) = json.loads(_explain("time_limit", "--json"))
    assert found["key"] == "time_limit"
    assert found["sbatch"] == ["time"]
    assert not found["changes_content"]


def test_an_unknown_key_is_an_error_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "batch.mirco"]) == 1
    assert "did you mean batch.micro?" in capsys.readouterr().err
