"""The points of a sweep, each loaded as a spec of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.spec.defaults import Queues
from clusterjobs.spec.load import Below, BrokenSpecError, LoadedSpec, load_points, load_spec
from clusterjobs.text import show

TEXT = """\
name: exp
cluster: p4d-a100
framework: torchrun
script: train.py
batch: {micro: 4}
args: {lr: 1e-3, optimizer.lr: 1, out: "/fsx/{{ args.lr }}"}
checkpoints: {path: /fsx/ck}
"""
GRID = "sweep: {grid: {args.lr: [1e-3, 3e-4], batch.micro: [4, 8]}}\n"
HOSTILE = ["$(id)", "`id`", "a b", "'", '"', "\\", "\n", "ü", "-x", "--", "*", "~", "a" * 300, "\t"]


def loaded(text: str, *settings: str, below: Below | None = None) -> tuple[LoadedSpec, ...]:
    return load_points(text, "exp.yaml", option_models(), settings, below)


def problems(text: str, *settings: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        loaded(text, *settings)
    return caught.value.problems


def args_of(loaded: LoadedSpec) -> dict[str, Any]:
    assert isinstance(loaded.spec.args, dict)
    return loaded.spec.args


def test_each_point_has_its_own_values_and_the_rest_of_the_spec() -> None:
    specs = loaded(TEXT + GRID)
    assert [args_of(one)["lr"] for one in specs] == ["1e-3", "1e-3", "3e-4", "3e-4"]
    assert [one.spec.batch and one.spec.batch.micro for one in specs] == [4, 8, 4, 8]
    assert {one.spec.script for one in specs} == {"train.py"}
    assert [one.point and one.point.index for one in specs] == [0, 1, 2, 3]


def test_a_spec_without_a_sweep_is_its_only_point() -> None:
    (spec,) = loaded(TEXT)
    assert spec.point is None
    assert spec.spec == load_spec(TEXT, "exp.yaml", option_models()).spec


def test_a_sweep_set_to_null_leaves_the_spec_itself() -> None:
    (spec,) = loaded(TEXT + GRID, "batch.micro=2", "sweep=null")
    assert spec == loaded(TEXT, "batch.micro=2")[0]._replace(
        source=spec.source, merged=spec.merged, layers=spec.layers
    )
    (other,) = loaded(TEXT + GRID, "sweep=null", "sweep.grid.args.lr=[5]")
    assert other.point
    assert other.point.values == {"args.lr": 5}


def test_an_empty_sweep_in_a_file_is_an_error() -> None:
    (problem,) = problems(f"{TEXT}sweep:\n")
    assert problem.what == "expected a mapping"


def test_load_spec_of_a_sweep_gives_its_first_point() -> None:
    assert load_spec(TEXT + GRID, "exp.yaml", option_models()).point == loaded(TEXT + GRID)[0].point


def test_references_see_the_values_of_the_point() -> None:
    assert [args_of(one)["out"] for one in loaded(TEXT + GRID)][1:3] == ["/fsx/1e-3", "/fsx/3e-4"]


def test_a_value_may_refer_to_others() -> None:
    text = TEXT + 'sweep: {grid: {args.name: ["{{ args.lr }}-a", "{{ point.name }}"]}}\n'
    assert [show(args_of(one)["name"]) for one in loaded(text)] == ["1e-3-a", "$point_name"]


def test_values_of_the_point_itself_are_variables_of_the_script() -> None:
    text = TEXT.replace(
        "lr: 1e-3", 'lr: 1, x: "{{ point.name }}/{{ point.label }}{{ point.index }}"'
    )
    assert show(args_of(loaded(text + GRID)[0])["x"]) == "$point_name/$point_label$point_index"


def test_config_files_get_the_values_themselves() -> None:
    text = TEXT.replace("torchrun", "deepspeed") + 'ds_config: {tag: "{{ point.label }}"}\n' + GRID
    tags = [one.expanded["ds_config"]["tag"] for one in loaded(text)]
    assert tags == [one.point.label for one in loaded(text) if one.point]


@pytest.mark.parametrize(("name", "known"), [("", "exp"), ('name: "{{ name }}-lr", ', "exp-lr")])
def test_the_sweep_has_the_name_of_the_spec_or_its_own(name: str, known: str) -> None:
    text = TEXT.replace("lr: 1e-3", 'lr: 1, of: "{{ sweep.name }}"')
    spec = loaded(text + f"sweep: {{{name}grid: {{args.lr: [1, 2]}}}}\n")[0]
    assert spec.spec.sweep
    assert spec.spec.sweep.name == known == args_of(spec)["of"]


def test_a_value_is_located_in_the_list_of_the_sweep_and_its_key_at_that_of_the_sweep() -> None:
    spec = loaded(TEXT + "sweep:\n  grid:\n    batch.micro: [4, 8]\n")[1]
    assert str(spec.source.locate(("batch", "micro"))) == "exp.yaml:10:22"
    assert str(spec.source.locate_key(("batch", "micro"))) == "exp.yaml:10:5"
    assert str(spec.source.locate(("args", "lr"))) == "exp.yaml:6:12"


def test_points_do_not_change_each_others_positions() -> None:
    text = TEXT + "sweep: {grid: {args.lr: [1, 2]}, include: [{batch.micro: 8}]}\n"
    where = [str(one.source.locate(("args", "lr"))) for one in loaded(text)]
    assert where == ["exp.yaml:8:26", "exp.yaml:8:29", "exp.yaml:6:12"]


def test_an_argument_with_dots_in_its_name_is_swept() -> None:
    specs = loaded(TEXT + "sweep: {grid: {args.optimizer.lr: [1, 2]}}\n", "args.optimizer.lr=3")
    assert [args_of(one)["optimizer.lr"] for one in specs] == ["1", "2"]
    assert args_of(loaded(TEXT, "args.optimizer.lr=3")[0])["optimizer.lr"] == "3"


def test_set_changes_the_spec_below_the_points_and_the_sweep_itself() -> None:
    assert {one.spec.nodes for one in loaded(TEXT + GRID, "nodes=2")} == {2}
    specs = loaded(TEXT + GRID, "sweep.grid.args.lr=[7]", "sweep.grid.batch.micro=[1, 2, 3]")
    assert [args_of(one)["lr"] for one in specs] == ["7"] * 3
    drawn = "sweep: {random: {args.lr: {uniform: [0, 1]}}, samples: 2}\n"
    assert len(loaded(TEXT + drawn, "sweep.samples=30")) == 30


def test_a_sweep_may_be_given_by_set_alone() -> None:
    specs = loaded(
        TEXT,
        "sweep.grid.args.lr=[1, 2]",
        "sweep.random.args.x={uniform: [0, 1]}",
        "sweep.samples=2",
    )
    assert len(specs) == 4
    assert str(specs[1].source.locate(("args", "lr"))) == "--set"


# ------------------------------------------------------------------ folders


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/fsx/ck", "/fsx/ck/$point_label"),
        ("/fsx/ck/", "/fsx/ck/$point_label"),
        ("/fsx/{{ name }}/{{ args.lr }}", "/fsx/exp/1e-3/$point_label"),
        ("/fsx/{{ point.name }}", "/fsx/$point_name"),
        ("/fsx/{{ point.index }}/x", "/fsx/$point_index/x"),
        ("{{ job.dir }}/ck", "$job_dir/ck"),
        ("/fsx/{{ job.array_index }}", "/fsx/$SLURM_ARRAY_TASK_ID/$point_label"),
    ],
)
def test_no_two_points_have_the_same_checkpoint_folder(path: str, expected: str) -> None:
    text = TEXT.replace("path: /fsx/ck", f'path: "{path}"') + GRID
    text = text.replace("lr: 1e-3", 'lr: 1, save: "{{ checkpoints.path }}"')
    spec = loaded(text)[0]
    assert spec.spec.checkpoints
    assert show(spec.spec.checkpoints.path) == expected == show(args_of(spec)["save"])
    appended = [one for one in spec.notes if one.path == "checkpoints.path"]
    assert bool(appended) is ("$point_label" in expected)
    assert all(one.info and one.warning for one in appended)


def test_points_that_share_a_job_id_do_not_share_its_folder() -> None:
    text = TEXT.replace("/fsx/ck", '"/fsx/ck/{{ job.id }}"')
    for sweep, expected in (
        ("{grid: {args.lr: [1, 2]}}", "/fsx/ck/$SLURM_JOB_ID"),
        ("{grid: {args.lr: [1, 2]}, per_node: 1}", "/fsx/ck/$SLURM_JOB_ID"),
        ("{grid: {args.lr: [1, 2]}, per_node: 2}", "/fsx/ck/$SLURM_JOB_ID/$point_label"),
    ):
        spec = loaded(f"{text}sweep: {sweep}\n")[0]
        assert spec.spec.checkpoints
        assert show(spec.spec.checkpoints.path) == expected


@pytest.mark.parametrize("target", ["s3://bucket/ck", "/efs/ck"])
def test_no_two_points_have_the_same_export(target: str) -> None:
    text = TEXT.replace("/fsx/ck", f"/fsx/ck, export: {target}") + GRID
    for spec in loaded(text):
        assert spec.spec.checkpoints
        assert show(spec.spec.checkpoints.export or "") == f"{target}/$point_label"


@pytest.mark.parametrize("key", ["path", "export"])
def test_two_names_that_make_one_folder_are_a_problem(key: str) -> None:
    sweep = "sweep: {zip: {args.out: [%s]}}\n"
    for own, outs, expected in (
        ("{{ args.out }}{{ point.index }}", '"1", a, b, c, d, e, f, g, h, i, ""', "/x/10"),
        ("{{ args.out }}/{{ point.index }}", '../x/../1/0/.., "."', None),
        ("{{ args.out }}/../{{ point.index }}/.", '"1", b', None),
        ("{{ args.out }}{{ job.id }}", '"1", b', None),
        ("{{ point.index }}{{ args.out }}", '"/../1", "/."', "/x/1"),
    ):
        folder = f'"/x/{own}"' if key == "path" else f'/fsx/ck, export: "/x/{own}"'
        text = TEXT.replace("/fsx/ck", folder) + sweep % outs
        if expected is None:
            assert len(loaded(text)) == 2
            continue
        (problem,) = problems(text)
        assert problem.path == f"checkpoints.{key}"
        assert problem.what.startswith(f"{expected} is also that of the point 0000-")


def test_gpt_neox_gets_the_folder_itself_because_its_config_file_expands_nothing() -> None:
    text = TEXT.replace("torchrun", "gpt-neox") + "configs: [a.yml]\n" + GRID
    for spec in loaded(text):
        assert spec.spec.checkpoints
        assert spec.point
        assert spec.spec.checkpoints.path == f"/fsx/ck/{spec.point.label}"


@pytest.mark.parametrize(
    ("args", "warned"),
    [
        ("{output_dir: /fsx/x}", ["args.output_dir"]),
        ("{train.save-dir: /fsx/x}", ["args.train.save-dir"]),
        ("[--lr, 1, --output_dir, /fsx/x, --save=/fsx/y]", ["args[3]", "args[4]"]),
        ('{output_dir: "/fsx/{{ point.name }}"}', []),
        ('{output_dir: "/fsx/{{ batch.micro }}"}', []),
        ("{output_dir: out}", []),
        ("{data: /fsx/x}", []),
        ("[--output_dir]", []),
    ],
)
def test_an_argument_that_names_one_folder_for_all_points_is_a_warning(
    args: str, warned: list[str]
) -> None:
    text = "".join(line for line in TEXT.splitlines(True) if not line.startswith("args"))
    text += f"args: {args}\nsweep: {{grid: {{batch.micro: [1, 2]}}}}\n"
    for spec in loaded(text):
        notes = [one for one in spec.notes if one.path.startswith("args")]
        assert [one.path for one in notes] == warned


# ------------------------------------------------------------------ problems


def test_a_problem_of_some_points_names_them_once() -> None:
    (problem,) = problems(TEXT + "sweep: {grid: {args.lr: [1, 2, 3], batch.micro: [4, x]}}\n")
    assert problem.path == "batch.micro"
    assert str(problem.where) == "exp.yaml:8:53"
    assert [name.partition("-")[0] for name in problem.points] == ["0001", "0003", "0005"]


def test_a_problem_of_all_points_is_that_of_a_plain_spec() -> None:
    with pytest.raises(InputError) as caught:
        loaded(TEXT + "nodes: x\n")
    assert problems(TEXT + "nodes: x\n" + GRID) == caught.value.problems


def test_points_without_a_problem_are_given_with_the_problems_of_the_others() -> None:
    with pytest.raises(BrokenSpecError) as caught:
        loaded(TEXT + "sweep: {grid: {batch.micro: [4, x, 8]}}\n")
    assert [one.point and one.point.index for one in caught.value.points] == [0, 2]
    assert caught.value.rest


def test_other_problems_are_reported_with_those_of_a_wrong_sweep() -> None:
    found = problems(TEXT + "nodes: x\nsweep: {grid: {args.lr: []}}\n")
    assert [one.path for one in found] == ["nodes", "sweep.grid.args.lr"]


def test_two_spellings_of_a_place_in_a_list_are_no_two_keys() -> None:
    text = TEXT.replace(
        'args: {lr: 1e-3, optimizer.lr: 1, out: "/fsx/{{ args.lr }}"}', "args: [a, b]"
    )
    (problem,) = problems(text + "sweep: {grid: {args.01: [1, 2], args.1: [3, 4]}}\n")
    assert (problem.path, problem.hint) == ("sweep.grid.args.01", "write args.1")


def test_a_problem_of_every_value_is_one_for_each_of_them() -> None:
    values = ", ".join(f"x{number}" for number in range(200))
    found = problems(TEXT + f"sweep: {{grid: {{args.lr: [1, 2], batch.micro: [{values}]}}}}\n")
    assert len(found) == 200
    assert all(len(one.points) == 2 for one in found)


# ------------------------------------------------------------------ layers

QUEUES = """\
clusters:
  p4d-a100:
    queues:
      big: {env: {A: of-big}}
      small: {env: {A: of-small}, nodes: 2}
"""


@pytest.mark.parametrize(
    "keys",
    [
        "sweep: {grid: {queue: [big, small], args.lr: [1]}}\n",
        'queue: "{{ env.Q }}"\nenv: {Q: big}\nsweep: {grid: {env.Q: [big, small]}}\n',
    ],
)
def test_a_swept_queue_brings_its_own_defaults(keys: str) -> None:
    below = Below(
        [("defaults.yaml", QUEUES)],
        lambda: ("p4d-a100",),
        lambda _cluster, queue, _gpus: Queues(queue, ("big", "small")),
    )
    specs = loaded(TEXT + keys, below=below)
    assert [one.spec.env["A"] for one in specs] == ["of-big", "of-small"]
    assert [one.spec.nodes for one in specs] == [1, 2]


def test_the_sweep_of_a_site_is_for_specs_with_a_sweep_alone() -> None:
    defaults = "all: {sweep: {max_running: 3}}\n"
    below = Below([("defaults.yaml", defaults)])
    (plain,) = loaded(TEXT, below=below)
    assert plain.spec.sweep is None
    for text, settings in ((TEXT + GRID, []), (TEXT, ["sweep.grid.args.lr=[1, 2]"])):
        specs = loaded(text, *settings, below=below)
        assert len(specs) > 1
        assert all(one.spec.sweep and one.spec.sweep.max_running == 3 for one in specs)


def test_a_setting_of_a_swept_key_is_a_warning_that_it_has_no_effect() -> None:
    sweep = "sweep: {grid: {args.lr: [1, 2]}, include: [{args.out: /fsx/y}]}\n"
    for text, setting, expected in (
        (TEXT + GRID, "args.lr=5", ["--set args.lr"]),
        (TEXT + GRID, "args.out=/fsx/x", []),
        (TEXT + GRID, "sweep.grid.args.lr=[5]", []),
        (TEXT + sweep, "args.lr=5", []),  # the point of `include` has it
    ):
        for spec in loaded(text, setting):
            notes = [one for one in spec.notes if "swept" in one.what]
            assert [f"{one.where} {one.path}" for one in notes] == expected
            assert all(one.warning for one in notes)


def test_a_list_that_is_added_to_can_be_swept() -> None:
    text = TEXT + "setup: [a]\nsweep: {grid: {setup: [[b], {append: [c]}]}}\n"
    assert [one.spec.setup for one in loaded(text)] == [("b",), ("a", "c")]


# ------------------------------------------------------------------ hostile values


_CHARACTERS = st.characters(exclude_categories=["C", "Zl", "Zp"])


@given(
    st.lists(
        st.sampled_from(HOSTILE)
        | st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=8),
        min_size=1,
        max_size=8,
        unique=True,
    )
)
def test_values_arrive_byte_for_byte_in_the_spec_of_their_point(values: list[str]) -> None:
    kept = [value for value in values if "{{" not in value]
    if not kept:
        return
    sweep = {"grid": {"args.x": kept, "env.Y": ["1", "2"]}}
    specs = loaded(TEXT + f"sweep: {json.dumps(sweep, ensure_ascii=False)}\n")
    assert [args_of(one)["x"] for one in specs] == [value for value in kept for _ in "12"]
    assert [one.point and one.point.values["args.x"] for one in specs] == [
        value for value in kept for _ in "12"
    ]
