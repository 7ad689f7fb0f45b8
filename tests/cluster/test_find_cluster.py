from __future__ import annotations

import pathlib

import pytest

from clusterjobs import resources
from clusterjobs.clusters.source import cluster_names, find_cluster
from clusterjobs.errors import InputError, Location

WHERE = Location("exp.yaml", 3, 10)


def test_ready_configs_are_found_by_name(tmp_path: pathlib.Path) -> None:
    assert cluster_names() == (
        "gcp-a2",
        "gcp-a3-high",
        "gcp-a3-mega",
        "p3dn-v100",
        "p4d-a100",
        "p4de-a100",
        "p5-h100",
        "p5-h100-capacity-block",
        "small",
    )
    for name in cluster_names():
        assert find_cluster(name, tmp_path).is_file()


@pytest.mark.parametrize("written", ["c.yaml", "./c.yaml", "sub/../c.yaml", "other.yml"])
def test_paths_are_seen_from_the_folder_of_the_spec(tmp_path: pathlib.Path, written: str) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("c.yaml", "other.yml"):
        (tmp_path / name).touch()
    assert find_cluster(written, tmp_path) == tmp_path / written


def test_an_absolute_path_stays_one(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "c.yaml"
    file.touch()
    assert find_cluster(str(file), pathlib.Path("elsewhere")) == file


def test_a_file_of_the_users_never_stands_in_for_a_name(tmp_path: pathlib.Path) -> None:
    (tmp_path / "small").touch()
    assert find_cluster("small", tmp_path) == resources.cluster_configs_dir() / "small.yaml"


@pytest.mark.parametrize(
    ("written", "what", "hint"),
    [
        ("p4d-a10", "there is no cluster config 'p4d-a10'", "did you mean p4d-a100?"),
        ("zzzz", "there is no cluster config 'zzzz'", "known: gcp-a2, gcp-a3-high"),
        ("../small", "there is no file ../small", "looked at"),
        ("none.yaml", "there is no file none.yaml", "or write a name: gcp-a2"),
        ("./notes.txt", "./notes.txt does not end in .yaml or .yml", "is it a cluster's config?"),
        ("./folder.yaml", "there is no file ./folder.yaml", "looked at"),
        (
            "nodes.txt",
            "nodes.txt is a file of Slurm, not a cluster's config",
            "import --from-files",
        ),
    ],
)
def test_what_is_not_there_is_a_problem(
    tmp_path: pathlib.Path, written: str, what: str, hint: str
) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "nodes.txt").write_text("NodeName=n1 Arch=x86_64 CoresPerSocket=4\n")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(InputError) as caught:
        find_cluster(written, tmp_path, WHERE)
    (problem,) = caught.value.problems
    assert (problem.what, problem.where, problem.path) == (what, WHERE, "cluster")
    assert hint in problem.hint


def test_packaged_files_go_before_those_of_a_checkout(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "clusterjobs"
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert resources.cluster_configs_dir() == tmp_path / "cluster-configs"
    (package / "_data" / "cluster-configs").mkdir(parents=True)
    assert resources.cluster_configs_dir() == package / "_data" / "cluster-configs"
    assert resources.templates_dir() == tmp_path / "templates"
