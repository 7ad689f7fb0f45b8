"""Which points of a sweep share an array, why others do not, and the table of an array."""

from __future__ import annotations

import pytest
from planned_sweeps import arrays_of, points_of

from clusterjobs.sections.context import PointArray
from clusterjobs.sections.points.arrays import point_arrays
from clusterjobs.text import joined, show, variable


def columns(array: PointArray) -> dict[str, tuple[str, ...]]:
    return dict(zip(array.table.columns, zip(*array.table.rows, strict=True), strict=True))


def directives(array: PointArray) -> dict[str, object]:
    return {one.name: one.value for one in array.plan.job.directives}


TORCH = {
    "cluster": "p4d-a100",
    "framework": "torchrun",
    "command": None,
    "script": "t.py",
    "args": {"lr": 1},
}


def test_points_that_differ_in_values_share_one_array_with_a_table() -> None:
    (array,) = arrays_of(**TORCH, sweep={"grid": {"args.lr": [0.1, "1e-2"]}})
    assert array.reason == ""
    assert columns(array)["lr"] == ("0.1", "1e-2")
    assert array.table.columns[0] == "point_name"
    assert array.table.indexes == (0, 1)
    assert variable("lr") in array.plan.launch.words


def test_the_directives_of_an_array_have_its_indexes_limit_and_log() -> None:
    sweep = {"grid": {"args.lr": [1, 2, 3]}, "max_running": 2}
    (array,) = arrays_of(**TORCH, sweep=sweep)
    assert directives(array)["array"] == "0-2%2"
    assert directives(array)["output"] == "%x-%A_%a.out"


def test_a_log_of_the_specs_own_keeps_its_name() -> None:
    (array,) = arrays_of(
        **TORCH, sbatch={"output": "/fsx/%A.%a.log"}, sweep={"grid": {"args.lr": [1, 2]}}
    )
    assert directives(array)["output"] == "/fsx/%A.%a.log"


@pytest.mark.parametrize(
    ("key", "values", "reasons"),
    [
        ("nodes", [1, 2], ["nodes: 1", "nodes: 2"]),
        ("time_limit", ["1:00:00", "2:00:00"], ["--time: 1:00:00", "--time: 2:00:00"]),
        ("sbatch.comment", ["a", "b"], ["--comment: a", "--comment: b"]),
        ("args.fp16", [True, False], ["args.fp16: true", "args.fp16: false"]),
        ("setup", ["echo a", "echo b"], ["setup: echo a", "setup: echo b"]),
    ],
)
def test_other_differences_need_an_array_each_with_the_reason(
    key: str, values: list[object], reasons: list[str]
) -> None:
    found = arrays_of(**TORCH, sweep={"grid": {key: values, "args.lr": [1, 2]}})
    assert [one.reason for one in found] == reasons
    assert [one.table.indexes for one in found] == [(0, 1), (2, 3)]


def test_arrays_are_in_the_order_of_their_first_points_with_the_points_indexes() -> None:
    found = arrays_of(**TORCH, sweep={"grid": {"args.lr": [1, 2, 3], "nodes": [1, 2]}})
    assert [one.table.indexes for one in found] == [(0, 2, 4), (1, 3, 5)]
    assert [directives(one)["array"] for one in found] == ["0-4:2", "1-5:2"]


def test_two_reasons_are_given_where_one_does_not_tell_the_arrays_apart() -> None:
    grid = {"nodes": [1, 2], "time_limit": ["1:00:00", "2:00:00"], "args.lr": [1, 2]}
    found = arrays_of(**TORCH, sweep={"grid": grid})
    assert [one.reason for one in found][:2] == [
        "nodes: 1, --time: 1:00:00",
        "nodes: 1, --time: 2:00:00",
    ]


def test_a_point_that_is_alone_is_a_plain_job() -> None:
    first, second = arrays_of(
        **TORCH, sweep={"grid": {"args.lr": [1, 2]}, "include": [{"nodes": 2}]}
    )
    assert (first.table.is_array, second.table.is_array) == (True, False)
    assert "array" not in directives(second)
    assert directives(second)["output"] == "%x-%j.out"


def test_separate_points_are_plain_jobs() -> None:
    points = points_of(**TORCH, sweep={"grid": {"args.lr": [1, 2]}})
    found = point_arrays(points, separate=True)
    assert [one.table.is_array for one in found] == [False, False]
    assert {one.reason for one in found} == {"array: false"}


def test_arrays_larger_than_slurm_allows_are_split_and_the_later_ones_count_from_0() -> None:
    points = points_of(**TORCH, sweep={"grid": {"args.lr": list(range(1, 24))}})
    found = point_arrays(points, max_array_size=10)
    assert [directives(one).get("array") for one in found] == ["0-9", "0-9", "0-2"]
    assert found[0].reason == "points 0 to 9 (MaxArraySize is 10)"
    assert [one.table.points[0].point.index for one in found] == [0, 10, 20]


# ------------------------------------------------------------------ what becomes of the texts


def test_a_value_inside_other_text_is_that_swept_value() -> None:
    (array,) = arrays_of(
        command=["./run", "--out=/fsx/{{ batch.micro }}/{{ env.TAG }}.pt", "{{ env.TAG }}"],
        env={"TAG": "x"},
        batch={"micro": 1},
        sweep={"grid": {"env.TAG": ["a", "b"], "batch.micro": [1, 2]}},
    )
    out = joined("--out=/fsx/", variable("micro"), "/", variable("tag"), ".pt")
    assert array.plan.launch.words == ("./run", out, variable("tag"))


def test_a_number_is_not_cut_in_two() -> None:
    (array,) = arrays_of(
        command=["./run", "0.1{{ env.N }}", "{{ env.N }}.5", "-{{ env.N }}"],
        env={"N": "0"},
        sweep={"grid": {"env.N": ["1", "2"]}},
    )
    assert columns(array)["value"] == ("0.11", "0.12")
    assert columns(array)["value_2"] == ("1.5", "2.5")
    assert array.plan.launch.words[-1] == joined("-", variable("n"))


def test_a_text_of_very_many_values_is_a_value_of_its_own() -> None:
    (array,) = arrays_of(
        command=["./run", "{{ env.N }}" * 8, "{{ env.N }}" * 9],
        env={"N": "0"},
        sweep={"grid": {"env.N": ["a", "b"]}},
    )
    assert array.plan.launch.words[1:] == (joined(*[variable("n")] * 8), variable("value"))


def test_a_derived_value_has_the_name_that_the_plan_has_for_it() -> None:
    (array,) = arrays_of(
        cluster="p4d-a100",
        framework="deepspeed",
        command=None,
        script="t.py",
        batch={"micro": 4, "global": 256},
        sweep={"grid": {"batch.micro": [4, 8]}},
    )
    assert columns(array)["accumulation"] == ("8", "4")
    (config,) = array.plan.files.configs
    assert '"gradient_accumulation_steps": $accumulation' in show(config.text)
    assert '"train_micro_batch_size_per_gpu": $micro' in show(config.text)
    assert '"train_batch_size": 256' in show(config.text)


def test_configs_of_different_keys_are_whole_columns() -> None:
    (array,) = arrays_of(
        cluster="p4d-a100",
        framework="deepspeed",
        command=None,
        script="t.py",
        batch={"micro": 4},
        sweep={"grid": {"ds_config": [{}, {"steps_per_print": 5}]}},
    )
    (config,) = array.plan.files.configs
    assert config.text == variable("config")


def test_equal_last_words_get_longer_names_and_reserved_names_others() -> None:
    grid = {"args.a.lr": [1, 2], "env.LR": [3, 4], "args.name": [5, 6], "env.PATH_TO": [7, 8]}
    (array,) = arrays_of(
        **{**TORCH, "args": {"a.lr": 0, "name": 0}},
        env={"LR": 0, "PATH_TO": 0, "path_to": "taken"},
        sweep={"grid": {key: values for key, values in grid.items() if "a.lr" not in key}},
    )
    assert array.table.columns == ("point_name", "lr", "args_name", "env_path_to")


def test_names_in_the_users_own_code_are_not_used() -> None:
    (array,) = arrays_of(**TORCH, setup="lr=5", sweep={"grid": {"args.lr": [1, 2]}})
    assert array.table.columns == ("point_name", "args_lr")


def test_a_variable_of_the_node_keeps_its_name_for_itself() -> None:
    for other in ("{{ env.data }}", "{{ env.data | default('x') }}"):
        (array,) = arrays_of(args={"data": "a", "b": other}, sweep={"grid": {"args.data": [1, 2]}})
        assert columns(array)["args_data"] == ("1", "2")
        assert "data" not in columns(array)


def test_names_in_the_code_of_the_site_are_not_used() -> None:
    points = points_of(**TORCH, sweep={"grid": {"args.lr": [1, 2]}})
    (array,) = point_arrays(points, code="for lr in 1 2; do :; done")
    assert array.table.columns == ("point_name", "args_lr")


def test_texts_with_other_marks_need_an_array_each() -> None:
    """They are set after the table is read, so that no value of the table may contain one."""
    found = arrays_of(
        **TORCH, parameters={"P": "x"}, sweep={"grid": {"args.lr": ["{{ parameters.P }}", "2"]}}
    )
    assert len(found) == 2
    assert found[0].plan.launch.words[-1] == variable("P")


def test_texts_with_the_same_marks_share_an_array() -> None:
    (array,) = arrays_of(
        **TORCH,
        parameters={"P": "x"},
        sweep={"grid": {"args.lr": ["a{{ parameters.P }}", "b{{ parameters.P }}"]}},
    )
    assert array.plan.launch.words[-1] == joined(variable("lr"), variable("P"))
    assert columns(array)["lr"] == ("a", "b")


def test_marks_in_a_value_tell_arrays_apart_and_other_text_does_not() -> None:
    values = ["{{ parameters.P }}", "2", "3", "x{{ parameters.P }}"]
    found = arrays_of(**TORCH, parameters={"P": "x"}, sweep={"grid": {"args.lr": values}})
    assert [one.table.indexes for one in found] == [(0, 3), (1, 2)]
    assert [one.reason for one in found] == ["command: with $P", "command: without variables"]
