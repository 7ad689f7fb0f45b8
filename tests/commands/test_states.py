"""Several specs at once: one table, and each problem of a shared file once."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest

SPEC = "name: {}\ncluster: small\nframework: command\ncommand: ./run\nnodes: {}\n"


@pytest.fixture
def specs(folder: pathlib.Path) -> pathlib.Path:
    for name, nodes in (("good", 1), ("other", 2), ("large", 900)):
        (folder / f"{name}.yaml").write_text(SPEC.format(name, nodes))
    return folder


def test_render_check_prints_one_table_of_several_specs(
    specs: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    clusterjobs("render", "good.yaml", "-o", "jobs/good")
    clusterjobs("render", "other.yaml", "-o", "jobs/other")
    (specs / "jobs/other/job.sh").write_text("edited")
    outcome = clusterjobs(
        "render", "--check", "good.yaml", "other.yaml", "large.yaml", "-o", "jobs"
    )
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "file        state        first problem",
        "good.yaml   current",
        "other.yaml  not current  jobs/other/job.sh: changed",
        "large.yaml  fails        large.yaml:5:8 nodes: 900 is more than queue train can have "
        "(small: MaxCount 2)",
    ]


def test_render_check_of_several_current_specs_exits_0(
    specs: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    for name in ("good", "other"):
        clusterjobs("render", f"{name}.yaml", "-o", f"generated/{name}")
    outcome = clusterjobs("render", "--check", "good.yaml", "other.yaml")
    assert (outcome.code, outcome.err) == (0, "")


def test_render_of_several_specs_names_the_command_for_one(
    specs: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    outcome = clusterjobs("render", "good.yaml", "other.yaml", "-o", "jobs")
    assert outcome.code == 2
    assert "clusterjobs render good.yaml -o jobs/good" in outcome.err
    assert not (specs / "jobs").exists()


def test_specs_of_one_name_have_no_folder_each(
    specs: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    outcome = clusterjobs("render", "--check", "a/exp.yaml", "b/exp.yaml")
    assert outcome.code == 2
    assert "a/exp.yaml and b/exp.yaml would both be in generated/exp" in outcome.err


def test_a_problem_of_a_shared_cluster_is_printed_once(
    specs: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    (specs / "cluster.yaml").write_text("Region: [\n")
    for name in ("good", "other"):
        path = specs / f"{name}.yaml"
        path.write_text(path.read_text().replace("small", "cluster.yaml"))
    for command in (("render", "--check"), ("validate",)):
        outcome = clusterjobs(*command, "good.yaml", "other.yaml")
        assert outcome.code == 1
        assert outcome.err.count("cluster.yaml:2:1 ") == 1
        assert outcome.out.count("fails  cluster.yaml:2:1 ") == 2


def test_validate_prints_one_table_of_several_specs(
    specs: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    outcome = clusterjobs("validate", "good.yaml", "large.yaml")
    assert outcome.code == 1
    first, good, large = (line.split(maxsplit=2) for line in outcome.out.splitlines())
    assert (first[:2], good[1].rstrip(","), large[1]) == (["file", "state"], "ok", "fails")
    assert large[2].startswith("large.yaml:5:8 nodes: 900 is more than queue train can have")
    report = json.loads(clusterjobs("validate", "good.yaml", "large.yaml", "--json").out)
    assert [row["ok"] for row in report["files"]] == [True, False]
