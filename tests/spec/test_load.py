"""A spec's text to an Experiment: overrides, references, and where each value was written."""

from __future__ import annotations

import pytest

from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import LoadedSpec, load_spec
from clusterjobs.text import show

TEXT = """\
name: exp
cluster: p4d-a100
nodes: 2
framework: deepspeed
script: train.py
batch: {micro: 4, global: 64}
args: [a, "{{ name }}"]
logs: "/fsx/{{ name }}/{{ batch.micro }}"
"""


LONG = "9" * 5000  # longer than the integers that Python reads


def loaded(text: str = TEXT, *settings: str) -> LoadedSpec:
    return load_spec(text, "exp.yaml", option_models(), settings)


def problems(text: str = TEXT, *settings: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        loaded(text, *settings)
    return caught.value.problems


def test_set_changes_a_value_with_the_types_of_yaml() -> None:
    spec = loaded(TEXT, "nodes=4", "time_limit=12:00:00", "args.0=on", "batch.micro=2").spec
    assert spec.nodes == 4
    assert spec.time_limit == "12:00:00"
    assert spec.args == ("on", "exp")
    assert spec.batch
    assert (spec.batch.micro, spec.batch.global_) == (2, 64)


def test_set_makes_maps_on_the_way_and_the_last_one_wins() -> None:
    spec = loaded(TEXT, "env.A=1", "env.B=x y", "env.A=2", "software.venv=/v")
    assert spec.spec.env == {"A": "2", "B": "x y"}
    assert spec.spec.software.venv == "/v"


def test_set_takes_lists_and_maps() -> None:
    spec = loaded(TEXT, "args={lr: 1e-4, flag: true}", "batch={micro: 1}")
    assert spec.spec.args == {"lr": "1e-4", "flag": True}


def test_set_is_seen_by_references() -> None:
    assert loaded(TEXT, "name=other").spec.logs.path == "/fsx/other/4"


def test_set_leaves_the_rest_and_the_text_alone() -> None:
    before, after = loaded().spec, loaded(TEXT, "nodes=3").spec
    assert before != after
    assert before == after.model_copy(update={"nodes": before.nodes})


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("nodes=x", "--set"),
        ("nodes", "--set"),
        ("=4", "--set"),
        ("nodes.x=4", "--set"),
        ("args.2=4", "--set"),
        ("nodes=[1", "--set"),
        ("nods=1", "--set"),
        ("nodes=!x 1", "--set"),
    ],
)
def test_a_bad_set_is_shown_on_the_command_line(setting: str, place: str) -> None:
    found = problems(TEXT, setting)
    assert str(found[0].where) == place
    assert found[0].where
    assert found[0].where.source == setting


def test_positions_of_overridden_values_are_on_the_command_line() -> None:
    source = loaded(TEXT, "args.0=z", "batch={micro: 1}").source
    assert str(source.locate(("args", 0))) == "--set"
    assert str(source.locate(("batch", "micro"))) == "--set"
    assert str(source.locate(("args", 1))) == "exp.yaml:7:11"
    assert str(source.locate(("args",))) == "exp.yaml:7:7"
    assert str(source.locate_key(("nodes",))) == "exp.yaml:3:1"


def test_references_are_followed_and_keep_their_type() -> None:
    text = TEXT + 'workdir: "{{ logs }}/x"\ncpus_per_task: "{{ nodes }}"\n'
    spec = loaded(text).spec
    assert spec.workdir == "/fsx/exp/4/x"
    assert spec.cpus_per_task == 2


def test_code_is_never_expanded_by_us() -> None:
    text = (
        TEXT
        + "setup: 'echo {{ name }} ${X}'\nsoftware: {setup: '{{ nope }}', venv: '/{{ name }}'}\n"
    )
    spec = loaded(text).spec
    assert spec.setup == ("echo {{ name }} ${X}",)
    assert spec.software.setup == ("{{ nope }}",)
    assert spec.software.venv == "/exp"


def test_a_parameter_becomes_a_shell_variable_wherever_it_stands() -> None:
    text = TEXT.replace("[a,", '["{{ parameters.LR }}x",') + "parameters: {LR: 1e-4}\n"
    args = loaded(text).spec.args
    assert isinstance(args, tuple)
    assert [show(word) for word in args] == ["$LRx", "exp"]


def test_keys_of_other_frameworks_are_named_with_their_framework() -> None:
    (problem,) = problems(TEXT.replace("deepspeed", "torchrun") + "zero: {stage: 1}\n")
    assert problem.what == "torchrun has no key zero"
    assert "deepspeed" in problem.hint


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    found = problems("name: a/b\nnodes: x\nframework: deepspeed\nlogs: '{{ z }}'\nclustre: small\n")
    lines = [problem.where.line for problem in found if problem.where]
    assert lines == sorted(lines) == [1, 2, 4, 5]


def test_a_misspelt_key_is_not_also_missing() -> None:
    (problem,) = problems(TEXT.replace("cluster:", "clutser:"))
    assert problem.hint == "did you mean cluster?"


@pytest.mark.parametrize("key", ["before", "after", "sidecars"])
def test_keys_inside_lists_get_a_nearest_one_too(key: str) -> None:
    (problem,) = problems(TEXT + f"{key}:\n  - {{comand: ls}}\n")
    assert (problem.hint, problem.path) == ("did you mean command?", f"{key}[0].comand")


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("=4", "'=4' is not KEY=VALUE"),
        ("nodes", "'nodes' is not KEY=VALUE"),
        ("name=\udcff", "not UTF-8 text"),
        ("args.x=4", "there is no x in args, which has 2 items"),
        ("args.2=4", "there is no 2 in args, which has 2 items"),
        ("args.²=4", "there is no ² in args, which has 2 items"),
        (f"args.{LONG}=4", f"there is no {LONG} in args, which has 2 items"),
        ("name.x=4", "there is no x in name, which is a single value"),
        ("batch.0=4", "unknown key 0"),
    ],
)
def test_a_bad_set_says_what_is_wrong(setting: str, what: str) -> None:
    assert problems(TEXT, setting)[0].what == what


def test_the_position_of_a_mapping_that_only_set_has_written_is_on_the_command_line() -> None:
    source = loaded(TEXT, "env.A=1", "batch.micro=2").source
    assert str(source.locate(("env",))) == "--set"
    assert str(source.locate(("env", "A"))) == "--set"
    assert str(source.locate(("batch",))) == "exp.yaml:6:8"


def chain(length: int) -> str:
    """Variables that each refer to the next one: following the first takes `length` references."""
    links = [f'  A{number}: "{{{{ env.A{number + 1} }}}}"\n' for number in range(length)]
    return f"{TEXT}env:\n{''.join(links)}  A{length}: end\n"


def test_a_chain_of_references_is_followed_and_a_very_long_one_refused() -> None:
    assert loaded(chain(50)).spec.env["A0"] == "end"
    (problem,) = problems(chain(51))
    assert (problem.path, problem.what) == (
        "env.A0",
        "more than 50 references lead to env.A51",
    )


def test_many_references_to_the_same_values_take_no_longer() -> None:
    """Two references in each of forty values would be a million million look-ups."""
    links = [
        f'  A{number}: "{{{{ env.A{number + 1} }}}}{{{{ env.A{number + 1} }}}}"\n'
        for number in range(40)
    ]
    text = f"{TEXT}env:\n{''.join(links)}  A40: ''\n"
    assert loaded(text).spec.env["A0"] == ""
