"""render, plan, diff, validate, show and impact of a spec with a sweep."""

from __future__ import annotations

import csv
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from clusterjobs.runs import warnings

Run = Callable[..., Any]
SPEC = {
    "name": "tiny",
    "cluster": "small",
    "framework": "command",
    "command": ["./train"],
    "env": {"LR": "0"},
    "logs": "logs",
    "sweep": {"grid": {"env.LR": ["1e-3", "1e-4"], "nodes": [1, 2]}},
}


def write(**changes: Any) -> None:
    pathlib.Path("exp.yaml").write_text(yaml.safe_dump({**SPEC, **changes}, sort_keys=False))


@pytest.fixture(autouse=True)
def _spec(folder: pathlib.Path) -> None:
    write()


def test_render_prints_points_scripts_and_how_to_submit(clusterjobs: Run) -> None:
    done = clusterjobs("render", "exp.yaml")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:3] == [
        "sweep:      tiny: 4 points in 2 scripts",
        "  job-1.sh  2 points: nodes: 1",
        "  job-2.sh  2 points: nodes: 2",
    ]
    assert lines[-2:] == [
        "submit it with: sbatch generated/job-1.sh",
        "submit it with: sbatch generated/job-2.sh",
    ]
    with pathlib.Path("generated/points.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["index", "name", "script", "task", "env.LR", "nodes"]
    assert [row[:1] + row[2:] for row in rows[1:]] == [
        ["0", "job-1.sh", "0", "1e-3", "1"],
        ["1", "job-2.sh", "1", "1e-3", "2"],
        ["2", "job-1.sh", "2", "1e-4", "1"],
        ["3", "job-2.sh", "3", "1e-4", "2"],
    ]


def test_scripts_that_are_not_needed_any_more_are_removed(clusterjobs: Run) -> None:
    clusterjobs("render", "exp.yaml")
    assert clusterjobs("render", "exp.yaml", "--check").out == "generated: current\n"
    write(sweep={"grid": {"env.LR": [1, 2]}})
    done = clusterjobs("render", "exp.yaml", "--check")
    assert done.code == 1
    assert "generated/job.sh: missing" in done.err
    assert "generated/job-1.sh: stale" in done.err
    assert "+++ generated/job.sh" in clusterjobs("diff", "exp.yaml").out
    clusterjobs("render", "exp.yaml")
    assert not list(pathlib.Path("generated").glob("job-*.sh"))


def test_values_in_points_csv_are_intact(clusterjobs: Run) -> None:
    values = ['a,"b"\nc', "é", "=1+1", " x "]
    write(sweep={"grid": {"env.LR": values}})
    assert clusterjobs("render", "exp.yaml").code == 0
    with pathlib.Path("generated/points.csv").open(newline="") as file:
        assert [row["env.LR"] for row in csv.DictReader(file)] == values


def test_plan_shows_scripts_and_the_first_point(clusterjobs: Run) -> None:
    out = clusterjobs("plan", "exp.yaml").out
    assert out.startswith("sweep:      tiny: 4 points in 2 scripts\n")
    assert "\nthe point 0000-LR=1e-3,nodes=1-" in out
    assert "\nranks:       1 = nodes 1 x" in out


@pytest.mark.parametrize("point", ["3", "0003-*", "LR=1e-4,nodes=2"])
def test_plan_of_another_point(clusterjobs: Run, point: str) -> None:
    out = clusterjobs("plan", "exp.yaml", "--point", point).out
    assert "\nthe point 0003-LR=1e-4,nodes=2-" in out
    assert "\nranks:       2 = nodes 2 x" in out


def test_plan_of_no_point(clusterjobs: Run) -> None:
    done = clusterjobs("plan", "exp.yaml", "--point", "nosuch")
    assert done.code == 1
    assert done.err.startswith("no point is named 'nosuch'\n   hint: the points are 0 to 3;")
    write(sweep=None)
    without = pathlib.Path("exp.yaml").read_text().replace("sweep: null", "")
    pathlib.Path("exp.yaml").write_text(without)
    for option in ("--points", "--point=1"):
        assert "exp.yaml has no sweep" in clusterjobs("plan", "exp.yaml", option).err


def test_plan_has_a_table_of_points(clusterjobs: Run) -> None:
    rows = [line.split() for line in clusterjobs("plan", "exp.yaml", "--points").out.splitlines()]
    assert rows[0] == ["index", "name", "script", "task", "env.LR", "nodes"]
    assert [[row[0], *row[2:]] for row in rows[1:]] == [
        ["0", "job-1.sh", "0", "1e-3", "1"],
        ["1", "job-2.sh", "1", "1e-3", "2"],
        ["2", "job-1.sh", "2", "1e-4", "1"],
        ["3", "job-2.sh", "3", "1e-4", "2"],
    ]


def test_plan_as_json(clusterjobs: Run) -> None:
    data = json.loads(clusterjobs("plan", "exp.yaml", "--point", "3", "--json").out)
    assert data["nodes"] == 2
    sweep = data["sweep"]
    assert sweep["scripts"] == [
        {"script": "job-1.sh", "points": 2, "reason": "nodes: 1"},
        {"script": "job-2.sh", "points": 2, "reason": "nodes: 2"},
    ]
    assert sweep["points"][3]["values"] == {"env.LR": "1e-4", "nodes": "2"}
    assert len({one["content"] for one in sweep["points"]}) == 4


def test_validate_show_and_impact(clusterjobs: Run, site_home: pathlib.Path) -> None:
    assert clusterjobs("validate", "exp.yaml").out.startswith("exp.yaml: ok")
    shown = clusterjobs("show", "exp.yaml")
    assert "with the values of the first point, 0000-LR=1e-3,nodes=1-" in shown.err
    assert "sweep.grid.nodes[1]" in shown.out
    whole = clusterjobs("show", "exp.yaml", "--effective").out
    points = clusterjobs("plan", "exp.yaml", "--points").out
    pathlib.Path("whole.yaml").write_text(whole)
    assert clusterjobs("plan", "whole.yaml", "--points").out == points
    pathlib.Path("whole.yaml").unlink()
    shutil.copytree(site_home / "clusterjobs", "site")
    done = clusterjobs("impact", ".", "--before", "site")
    assert "1 spec rendered: 1 unchanged" in done.out, done.err


def test_one_wrong_point_among_many_is_named(clusterjobs: Run) -> None:
    write(sweep={"grid": {"env.LR": list(range(100))}, "include": [{"nodes": 5000}]})
    done = clusterjobs("plan", "exp.yaml")
    assert done.code == 1
    assert done.err.startswith("exp.yaml:")
    assert "nodes: 5000 is more than queue train can have" in done.err.splitlines()[0]
    assert "in the point 0100-nodes=5000-" in done.err


def test_wrong_values_and_wrong_plans_are_reported_together(clusterjobs: Run) -> None:
    write(sweep={"grid": {"nodes": [1, "many", 5000]}})
    done = clusterjobs("plan", "exp.yaml")
    assert done.code == 1
    assert "in the point 0001-nodes=many-" in done.err
    assert "in the point 0002-nodes=5000-" in done.err


def test_a_warning_of_all_points_is_shown_once(clusterjobs: Run) -> None:
    spec = {key: value for key, value in SPEC.items() if key != "command"}
    further = {"framework": "torchrun", "script": "nosuch.py", "workdir": str(pathlib.Path.cwd())}
    pathlib.Path("exp.yaml").write_text(yaml.safe_dump({**spec, **further}, sort_keys=False))
    done = clusterjobs("render", "exp.yaml")
    assert done.code == 0, done.err
    assert done.err.count("there is no") == 1
    assert "in the point" not in done.err


def test_files_are_looked_up_once_for_all_points(
    clusterjobs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    missing_inputs = warnings.missing_inputs

    def counted(*inputs: Any) -> Any:
        calls.append(inputs)
        return missing_inputs(*inputs)

    monkeypatch.setattr(warnings, "missing_inputs", counted)
    write(sweep={"grid": {"env.LR": list(range(50))}})
    assert clusterjobs("render", "exp.yaml").code == 0
    assert len(calls) == 1
