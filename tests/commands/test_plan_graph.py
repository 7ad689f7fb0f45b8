"""plan --graph: what a spec needs, as a tree, as Mermaid and as data."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.runs import needs as need_drawing

Run = Callable[..., Any]


def write(file: str, more: str = "") -> None:
    path = pathlib.Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"name: x\ncluster: small\nframework: command\ncommand: ['true']\n{more}")


@pytest.fixture
def pipeline(folder: pathlib.Path) -> None:
    write("data/prepare.yaml", "time_limit: 1:00:00\n")
    write(
        "train.yaml",
        "needs: [data/prepare.yaml]\nenv: {LR: a}\n"
        "sweep: {grid: {env.LR: [a, b, c], nodes: [1, 2]}}\n",
    )
    write(
        "final.yaml",
        "needs: [{spec: train.yaml, on: end}, data/prepare.yaml, {job: 4711, on: start}]\n",
    )


@pytest.mark.usefixtures("pipeline")
def test_the_tree_has_nodes_points_and_limits(clusterjobs: Run) -> None:
    done = clusterjobs("plan", "--graph", "final.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "spec                     on       nodes  points  time limit\n"
        "final.yaml                        1              the partition's\n"
        "├─ train.yaml            end      1-2    6       the partition's\n"
        "│  └─ data/prepare.yaml  success  1              1:00:00\n"
        "├─ data/prepare.yaml     success  1              1:00:00\n"
        "└─ job 4711              start\n"
        "\n"
        "order: data/prepare.yaml -> train.yaml -> final.yaml\n"
    )


@pytest.mark.usefixtures("pipeline")
def test_plain_lines_where_the_terminal_has_no_others(
    clusterjobs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(need_drawing, "_can_print", lambda _: False)
    lines = clusterjobs("plan", "--graph", "final.yaml").out.splitlines()
    starts = [line.split()[0] for line in lines[2:6]]
    assert starts == ["|-", "|", "|-", "`-"]
    assert "\n".join(lines).isascii()


def test_what_was_drawn_above_is_not_drawn_again(clusterjobs: Run, folder: pathlib.Path) -> None:
    write("a.yaml")
    write("b.yaml", "needs: [a.yaml]\n")
    write("c.yaml", "needs: [b.yaml]\n")
    write("d.yaml", "needs: [b.yaml, c.yaml]\n")
    out = clusterjobs("plan", "--graph", "d.yaml").out
    assert "b.yaml (above)" in out
    assert out.count("a.yaml  ") == 1
    assert out.endswith("order: a.yaml -> b.yaml -> c.yaml -> d.yaml\n")


@pytest.mark.usefixtures("pipeline")
def test_mermaid_has_an_arrow_for_each_need(clusterjobs: Run) -> None:
    assert clusterjobs("plan", "--mermaid", "final.yaml").out.splitlines() == [
        "flowchart LR",
        '  spec1["data/prepare.yaml<br>1 node, 1:00:00"]',
        '  spec2["train.yaml<br>1-2 nodes, 6 points, the partition\'s"]',
        '  spec3["final.yaml<br>1 node, the partition\'s"]',
        '  job4711(["job 4711"])',
        "  spec1 -->|success| spec2",
        "  spec2 -->|end| spec3",
        "  spec1 -->|success| spec3",
        "  job4711 -->|start| spec3",
    ]


def test_hostile_names_cannot_leave_their_label(clusterjobs: Run, folder: pathlib.Path) -> None:
    name = 'a"]; click x call alert() %% <b> `#é.yaml'
    write(name)
    write("final.yaml", f"needs: [{json.dumps(name)}]\n")
    out = clusterjobs("plan", "--mermaid", "final.yaml").out
    label = out.splitlines()[1].removeprefix('  spec1["').removesuffix('"]')
    assert label.startswith("a#34;#93;#59; click x call alert#40;#41; #37;#37; #60;b#62; #96;#35;é")
    assert not {'"', "]", "`", "("} & set(label)


@pytest.mark.usefixtures("pipeline")
def test_the_graph_as_data(clusterjobs: Run) -> None:
    found = json.loads(clusterjobs("plan", "--graph", "--json", "final.yaml").out)["specs"]
    assert [one["spec"] for one in found] == ["data/prepare.yaml", "train.yaml", "final.yaml"]
    assert (found[1]["nodes"], found[1]["points"], found[0]["points"]) == (2, 6, None)
    assert found[2]["needs"] == [
        {"spec": "train.yaml", "job_id": None, "on": "end"},
        {"spec": "data/prepare.yaml", "job_id": None, "on": "success"},
        {"spec": None, "job_id": "4711", "on": "start"},
    ]


def test_a_chain_that_is_too_long_is_an_error(clusterjobs: Run, folder: pathlib.Path) -> None:
    for number in range(60):
        write(
            f"{number}.yaml",
            f"needs: [{{spec: {number + 1}.yaml, as: next}}]\n"
            'env: {LR: "{{ needs.next.env.LR }}"}\n',
        )
    write("60.yaml", "env: {LR: a}\n")
    done = clusterjobs("plan", "--graph", "0.yaml")
    assert done.code == 1
    assert "more than 100 specs are needed, or a chain of more than 20" in done.err
    write("45.yaml", "env: {LR: deep}\n")
    done = clusterjobs("show", "30.yaml")
    assert done.code == 0
