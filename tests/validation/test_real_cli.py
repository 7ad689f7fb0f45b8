"""The real command line of ParallelCluster has the same results. Both need Node.js."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from single_changes import Change, base_text, load_changes

from clusterjobs import resources
from clusterjobs.clusters.source import is_description

pytestmark = [pytest.mark.aws, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pcluster")
pytest.importorskip("moto.server")

from moto_server import PCLUSTER, SUCCEEDED, dry_run  # noqa: E402

READY = sorted(
    path.stem
    for path in resources.cluster_configs_dir().glob("*.yaml")
    if not is_description(path.read_text())
)
SAMPLE = {
    "EFA on a type without it",
    "no placement group decision beside EFA",
    "a capacity that FSx does not sell",
    "throughput on scratch",
    "an RSA key on Ubuntu",
    "a denied Slurm setting",
    "a capacity block of another type",
    "p3dn with an official image",
    "a head node too small for its nodes",
    "a subnet with public addresses",
}


@pytest.fixture(autouse=True)
def _node() -> None:
    if not shutil.which("node") or not PCLUSTER.is_file():
        pytest.skip("needs Node.js and pcluster")


@pytest.mark.parametrize("name", READY)
def test_dry_run_of_ready_config_succeeds(name: str, tmp_path: pathlib.Path) -> None:
    answer = dry_run(base_text(name), tmp_path)
    assert answer["message"] == SUCCEEDED, answer
    levels = {row["type"]: row["level"] for row in answer.get("validationMessages", [])}
    assert levels.items() <= {"DeletionPolicyValidator": "INFO"}.items()


@pytest.mark.parametrize(
    "change",
    [change for change in load_changes() if change.name in SAMPLE],
    ids=lambda change: change.name,
)
def test_dry_run_of_a_bad_config_names_the_same_validator(
    change: Change, tmp_path: pathlib.Path
) -> None:
    answer = dry_run(change.config(), tmp_path, change.account)
    errors = answer["configurationValidationErrors"]
    assert (change.validator, change.level.upper()) in {(r["type"], r["level"]) for r in errors}
    assert any(change.text in row["message"] for row in errors)


def test_sample_is_of_the_table() -> None:
    assert {change.name for change in load_changes()} >= SAMPLE
