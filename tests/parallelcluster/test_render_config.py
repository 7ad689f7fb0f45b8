from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.clusters.parallelcluster.render_config import dump_scalar
from clusterjobs.clusters.parallelcluster.render_config import fit as fit_document
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError, Problem

CONFIG = """\
# Ours. {{ site.in_a_comment }}
Region: "{{ site.region }}"   # where we are
Image: {Os: ubuntu2204, CustomAmi: '{{ site.ami }}'}   # in a flow
Scheduling:
  SlurmQueues:
    - Name: train
      Networking:
        SubnetIds: [&net "{{ site.subnet }}", fixed]
      ComputeResources:
        - Name: p4d
          MaxCount: "{{ site.nodes }}"

          # the same subnet again
          Where: *net
  Script: |
    echo {{ site.region }}
    # not a comment
      and {{ site.region }}


  Folded: >-
    one
    {{ site.subnet }}
  Plain: from {{ site.region }}
    to {{ site.subnet }}
Tags:
  - {Key: literal, Value: "{{ '{{' }} x }}"}
  - Key: last
    Value: "s3://{{ site.bucket }}/a"
"""

SITE: dict[str, object] = {
    "region": "us-east-1",
    "ami": "ami-1",
    "subnet": "subnet-1",
    "nodes": 16,
    "bucket": "lab-data",
}


def fit(config: str, site: dict[str, object], *site_files: str) -> str:
    _, document = read_cluster(config, "ours.yaml", site)
    return fit_document(document, site, site_files).text


def problems_of(config: str, site: dict[str, object], *site_files: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        fit(config, site, *site_files)
    return caught.value.problems


def test_fit_replaces_scalars_and_nothing_else() -> None:
    assert fit(CONFIG, SITE) == (
        "# Written by clusterjobs from ours.yaml and the values of the site.\n"
        "# Do not edit: change those, and render again.\n"
        "\n"
        """\
# Ours. {{ site.in_a_comment }}
Region: us-east-1   # where we are
Image: {Os: ubuntu2204, CustomAmi: ami-1}   # in a flow
Scheduling:
  SlurmQueues:
    - Name: train
      Networking:
        SubnetIds: [&net subnet-1, fixed]
      ComputeResources:
        - Name: p4d
          MaxCount: 16

          # the same subnet again
          Where: *net
  Script: "echo us-east-1\\n# not a comment\\n  and us-east-1\\n"


  Folded: "one subnet-1"
  Plain: "from us-east-1 to subnet-1"
Tags:
  - {Key: literal, Value: "{{ x }}"}
  - Key: last
    Value: s3://lab-data/a
"""
    )


def test_fit_leaves_a_config_without_references_as_it_is() -> None:
    config = "Scheduling:\n  SlurmQueues:   # none\n  - {Name: q, N: 0o17, Y: yes}"
    assert fit(config, {}).endswith("\n\n" + config)


@pytest.mark.parametrize("value", [8, True, False, 1.5, 1e-05, 2**70, -1, 0])
def test_fit_keeps_the_type_of_a_value_that_stands_alone(value: object) -> None:
    read_back = yaml.safe_load(fit("Scheduling: {SlurmQueues: '{{ site.x }}'}", {"x": value}))
    assert repr(read_back["Scheduling"]["SlurmQueues"]) == repr(value)


def test_fit_makes_text_of_a_number_within_text() -> None:
    read_back = yaml.safe_load(
        fit("Scheduling: {SlurmQueues: '{{ site.x }}{{ site.x }}'}", {"x": 4})
    )
    assert read_back["Scheduling"]["SlurmQueues"] == "44"


def test_fit_names_every_missing_site_value_at_once() -> None:
    problems = problems_of(CONFIG, {"region": "r", "regoin": 1}, "exp/site.yaml", "home/site.yaml")
    (problem,) = problems
    assert problem.what == ("site.ami, site.subnet, site.nodes and site.bucket are not given")
    assert problem.where
    assert (problem.where.line, problem.where.column) == (3, 36)
    assert problem.hint == (
        "fill them in after `clusterjobs clusters site ours.yaml >> site.yaml` "
        "(searched: exp/site.yaml, home/site.yaml)"
    )


def test_fit_hints_at_misspelt_site_values() -> None:
    config = "Scheduling: {SlurmQueues: '{{ site.fsx.id }}', R: '{{ site.region }}'}"
    (problem,) = problems_of(config, {"regoin": "r"})
    assert problem.what == "site.fsx.id and site.region are not given"
    assert problem.hint.endswith("; site.region: did you mean site.regoin?")


@pytest.mark.parametrize("blank", [None, {}, ["x"], {"y": 1}])
def test_fit_refuses_site_values_that_are_no_scalar(blank: object) -> None:
    (problem,) = problems_of("Scheduling: {SlurmQueues: '{{ site.x }}'}", {"x": blank})
    assert "site.x is not" in problem.what


@pytest.mark.parametrize(
    ("scalar", "what"),
    [
        ("{{ subnet }}", "subnet is not known here"),
        ("{{ site.a + 1 }}", "is not a reference"),
        ("{{ }}", "is not a reference"),
        ("a {{ site.region", "is not a reference"),
        ("{{ site.region | upper }}", "is not a reference"),
        ("{{ site }}", "site is not known here"),
    ],
)
def test_fit_refuses_whatever_is_no_site_value(scalar: str, what: str) -> None:
    (problem,) = problems_of(f'Scheduling:\n  SlurmQueues: "{scalar}"', SITE)
    assert what in problem.what
    assert (problem.where and problem.where.line) == 2
    assert "{{ '{{' }}" in problem.hint


def test_fit_refuses_a_config_inside_a_template() -> None:
    (problem,) = problems_of("A: {B: {Scheduling: {SlurmQueues: [{Name: q}]}}}", {})
    assert "inside another file" in problem.what


def test_fit_refuses_unquoted_placeholders_where_they_stand() -> None:
    (problem,) = problems_of("Region: {{ REGION }}\nScheduling: {SlurmQueues: []}", SITE)
    assert problem.where
    assert (problem.where.line, problem.where.source) == (1, "Region: {{ REGION }}")


def test_fit_reads_what_the_reader_reads() -> None:
    before, _ = read_cluster(CONFIG, "c.yaml", SITE)
    after, _ = read_cluster(fit(CONFIG, SITE), "c.yaml", {})
    assert after == before


def test_header_cannot_be_left_by_a_file_name() -> None:
    _, document = read_cluster("Scheduling: {SlurmQueues: }", "a\nb: c", {})
    assert fit_document(document, {}).text.startswith("# Written by clusterjobs from a?b: c and")


# ------------------------------------------------------------------ whatever a site holds

HOSTILE = [
    "",
    " ",
    "'",
    '"',
    "\\",
    "a: b",
    "a #b",
    "#",
    "- x",
    "*alias",
    "&anchor",
    "!!python/object/apply:os.system [x]",
    "{{ site.region }}",
    "{{",
    "}}",
    "%TAG",
    "@x",
    "`x`",
    "|",
    ">",
    "[",
    "{a: b}",
    "? x",
    "---",
    "...",
    "\n",
    "\na: b",
    "a\r\nb",
    "\t",
    "\x07\x1b\x7f",
    "\x85\u2028\u2029\ufeff\xa0",
    "yes",
    "NULL",
    "~",
    "0x10",
    "1e3",
    "12:30:00",
    "2026-11-20",
    "=",
    "<<",
    "ключ: значение",
    "😀",
    "a" * 20_000,
    "$(rm -rf /) ${HOME} `id`",
]
SCALARS = (
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
    | st.sampled_from(HOSTILE)
    | st.integers()
    | st.booleans()
    | st.floats()
)


def shape(value: Any) -> Any:
    """The structure alone: keys, lengths, and where the scalars are."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else "scalar"


@given(st.fixed_dictionaries(dict.fromkeys(SITE, SCALARS)))
def test_fit_never_changes_structure(site: dict[str, object]) -> None:
    read_back = yaml.safe_load(fit(CONFIG, site))
    assert shape(read_back) == shape(yaml.safe_load(CONFIG))
    assert repr(read_back["Region"]) == repr(site["region"])
    assert repr(read_back["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["MaxCount"]) == (
        repr(site["nodes"])
    )


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_text_arrives_unchanged(value: str) -> None:
    read_back = yaml.safe_load(fit(CONFIG, SITE | {"subnet": value}))
    queue = read_back["Scheduling"]["SlurmQueues"][0]
    assert queue["Networking"]["SubnetIds"] == [value, "fixed"]
    assert queue["ComputeResources"][0]["Where"] == value
    assert read_back["Scheduling"]["Plain"] == f"from us-east-1 to {value}"


@given(SCALARS)
def test_dumped_scalar_is_one_line_that_reads_back(value: Any) -> None:
    dumped = dump_scalar(value)
    assert not re.search("[\r\n\x85\u2028\u2029]", dumped)
    for text, steps in [("a: %s # c", "a"), ("{a: %s, b: c}", "a"), ("{a: [%s]}", "a")]:
        found = yaml.safe_load(text % dumped)[steps]
        assert repr(found[0] if isinstance(found, list) else found) == repr(value)


def test_plain_words_stay_without_quotes() -> None:
    for word in ("us-east-1", "subnet-0a1b", "s3://lab-data/a/b", "p4d.24xlarge"):
        assert dump_scalar(word) == word
    for word in ("yes", "null", "a:", "s3://", "a b", "1.5", "x.", "on", "é"):
        assert dump_scalar(word) == f'"{word}"'
