"""What render and submit say where the cluster needs more than its config has."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from clusterjobs import resources

DATA = [{"source": "s3://my-corpus/books", "target": "/fsx/books"}]


@pytest.fixture
def spec(folder: pathlib.Path) -> dict[str, Any]:
    config = (resources.cluster_configs_dir() / "p4d-a100.yaml").read_text()
    (folder / "mine.yaml").write_text(config)
    return {
        "name": "gpt",
        "cluster": "./mine.yaml",
        "nodes": 2,
        "framework": "command",
        "command": ["true"],
        "data": DATA,
    }


def rendered(clusterjobs: Callable[..., Any], spec: dict[str, Any], *arguments: str) -> str:
    pathlib.Path("exp.yaml").write_text(yaml.safe_dump(spec))
    outcome = clusterjobs("render", "exp.yaml", *arguments)
    assert outcome.code == 0, outcome.err
    return str(outcome.out)


def test_render_says_what_the_cluster_needs_before_the_job(
    clusterjobs: Callable[..., Any], spec: dict[str, Any]
) -> None:
    said = rendered(clusterjobs, spec, "-o", "my jobs")
    assert "my jobs/cluster.yaml has more than mine.yaml:" in said
    assert "added books, /books with s3://my-corpus/books (data of the experiment gpt)" in said
    command = "pcluster update-cluster --cluster-name NAME --cluster-configuration"
    assert f"  {command} 'my jobs/cluster.yaml'\n" in said
    assert "put what stands there below `Added by clusterjobs` into mine.yaml." in said


def test_of_a_ready_config_a_copy_is_to_be_kept(
    clusterjobs: Callable[..., Any], spec: dict[str, Any]
) -> None:
    said = rendered(clusterjobs, {**spec, "cluster": "p4d-a100"})
    ready = resources.cluster_configs_dir() / "p4d-a100.yaml"
    assert f"into a copy of {ready}, and let `cluster:` name that copy." in said


def test_what_the_config_has_is_not_said_to_be_added(
    clusterjobs: Callable[..., Any], spec: dict[str, Any], folder: pathlib.Path
) -> None:
    assert "update-cluster" not in rendered(clusterjobs, {**spec, "data": []})
    rendered(clusterjobs, spec)
    (folder / "mine.yaml").write_text((folder / "generated" / "cluster.yaml").read_text())
    assert "update-cluster" not in rendered(clusterjobs, spec)


def test_two_specs_associations_stay_in_a_config_that_has_both(
    clusterjobs: Callable[..., Any], spec: dict[str, Any], folder: pathlib.Path
) -> None:
    other = {**spec, "data": [{"source": "s3://my-corpus/words", "target": "/fsx/words"}]}
    for one in (spec, other):
        rendered(clusterjobs, one)
        (folder / "mine.yaml").write_text((folder / "generated" / "cluster.yaml").read_text())
    for one in (spec, other):
        rendered(clusterjobs, one)
        config = yaml.safe_load((folder / "generated" / "cluster.yaml").read_text())
        (storage,) = config["SharedStorage"]
        kept = storage["FsxLustreSettings"]["DataRepositoryAssociations"]
        assert [entry["Name"] for entry in kept][-2:] == ["books", "words"]


def test_submit_says_it_too(
    clusterjobs: Callable[..., Any],
    spec: dict[str, Any],
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "sbatch").write_text("#!/bin/sh\necho 7\n")
    (folder / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    pathlib.Path("exp.yaml").write_text(yaml.safe_dump(spec))
    outcome = clusterjobs("submit", "exp.yaml", "--json")
    assert outcome.code == 0, outcome.err
    assert "generated/cluster.yaml has more than mine.yaml:" in outcome.err
