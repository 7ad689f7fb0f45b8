"""Configs are validated by the release of ParallelCluster that the cluster has."""

from __future__ import annotations

import pathlib
import shutil
import sys

import pytest

from clusterjobs.cli.main import run
from clusterjobs.clusters.parallelcluster.config import RELEASES
from clusterjobs.validation import releases

CONFIG = """\
Region: us-east-1
Image: {Os: alinux2023}
HeadNode:
  InstanceType: m6i.xlarge
  Networking: {SubnetId: subnet-0123456789abcdef0}
Monitoring: {DetailedMonitoring: true}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
  - Name: q
    Networking: {SubnetIds: [subnet-0123456789abcdef0]}
    ComputeResources:
    - Name: c
      InstanceType: c5.xlarge
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def config(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A config in a folder of its own, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    releases.release_folder.cache_clear()
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG)
    return file


def cached(tmp_path: pathlib.Path) -> list[str]:
    return sorted(one.name for one in (tmp_path / "cache/clusterjobs/parallelcluster").iterdir())


@pytest.mark.aws
@pytest.mark.slow
def test_a_key_that_the_release_lacks_is_called_newer(
    config: pathlib.Path, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    """The release is a copy of the installed one without the key `Monitoring`."""
    import pcluster

    target = tmp_path / "cache/clusterjobs/parallelcluster/3.9.1"
    shutil.copytree(pathlib.Path(pcluster.__file__).parent, target / "pcluster")
    with (target / "pcluster/schemas/cluster_schema.py").open("a") as schema:
        schema.write('\nClusterSchema._declared_fields.pop("monitoring")\n')
    assert run(["validate", str(config), "--release", "3.9.1"]) == 1
    said = "".join(capsys.readouterr())
    assert "c.yaml:6:1 Monitoring: Monitoring is newer than ParallelCluster 3.9.1" in said
    assert "hint: remove it, or upgrade the cluster: 3.16.1 has it" in said
    assert "installing" not in said
    assert "checked for ParallelCluster 3.9.1\n" in said
    site = tmp_path / "site.yaml"
    site.write_text("parallelcluster: 3.9.1\n")
    assert run(["validate", str(config), "--site", str(site)]) == 1
    assert "is newer than ParallelCluster 3.9.1" in "".join(capsys.readouterr())


@pytest.mark.aws
def test_offline_the_missing_release_is_named_and_nothing_is_left(
    config: pathlib.Path, tmp_path: pathlib.Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert run(["validate", str(config), "--release", "3.9.1"]) == 1
    said = "".join(capsys.readouterr())
    assert "installing ParallelCluster 3.9.1, once, into " in said
    assert "ParallelCluster 3.9.1 cannot be installed: ERROR: " in said
    assert f"copy {tmp_path}/cache/clusterjobs/parallelcluster/3.9.1 from there" in said
    assert cached(tmp_path) == []


@pytest.mark.aws
def test_an_interrupted_installation_leaves_nothing(
    config: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_release: str, target: str) -> None:
        (pathlib.Path(target) / "half").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(releases, "_install", interrupt)
    with pytest.raises(KeyboardInterrupt):
        releases.release_folder("3.9.1")
    assert cached(tmp_path) == []


@pytest.mark.aws
@pytest.mark.faults
@pytest.mark.parametrize("release", ["3.9.1", "3.11.1", "3.13.2", "3.14.2", "3.15.1"])
def test_real_releases_from_the_package_index(
    release: str, config: pathlib.Path, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    config.write_text(CONFIG.replace("alinux2023", "ubuntu2404"))
    code = run(["validate", str(config), "--release", release])
    said = "".join(capsys.readouterr())
    assert f"installing ParallelCluster {release}, once" in said
    assert cached(tmp_path) == [release]
    is_old = release in ("3.9.1", "3.11.1")
    assert (code, "ubuntu2204" in said) == ((1, True) if is_old else (0, False)), said


@pytest.mark.parametrize("release", ["banana", "3.99", "4.0.0"])
def test_an_unknown_release_is_refused_with_the_list(
    release: str, config: pathlib.Path, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"parallelcluster: {release}\n")
    commands = [["validate", str(config), "--site", str(site)]]
    commands.append(["clusters", "upgrade", str(config), "--to", release])
    if "pcluster" in sys.modules:
        commands.append(["validate", str(config), "--release", release])
    for command in commands:
        assert run(command) == 1
        said = "".join(capsys.readouterr())
        assert f"there is no ParallelCluster {release}" in said
        assert all(one in said for one in RELEASES[-10:])


@pytest.mark.parametrize(("series", "last"), [("3.9", "3.9.3"), ("3.10", "3.10.1")])
def test_a_series_on_the_command_line_is_its_last_release(
    series: str, last: str, config: pathlib.Path, tmp_path: pathlib.Path, capsys: Capture
) -> None:
    assert run(["clusters", "upgrade", str(config), "--to", series]) == 0
    said = "".join(capsys.readouterr())
    assert f"ParallelCluster {series}: taking its last release, {last}\n" in said
    site = tmp_path / "site.yaml"
    site.write_text(f"parallelcluster: {series}\n")  # YAML reads 3.10 as 3.1
    assert run(["validate", str(config), "--site", str(site)]) == 1


@pytest.mark.parametrize(
    ("system", "release", "new"),
    [
        ("alinux2", "3.15.1", ""),
        ("alinux2", "3.16.0", "alinux2023"),
        ("ubuntu2004", "3.13.2", ""),
        ("ubuntu2004", "3.14.0", "ubuntu2204"),
    ],
)
def test_upgrade_changes_what_the_release_lacks(
    system: str, release: str, new: str, config: pathlib.Path, capsys: Capture
) -> None:
    config.write_text(CONFIG.replace("alinux2023", system))
    assert run(["clusters", "upgrade", str(config), "--to", release, "--write"]) == 0
    assert config.read_text() == CONFIG.replace("alinux2023", new or system)


def test_upgrade_to_a_release_without_the_successor_leaves_the_choice(
    config: pathlib.Path, capsys: Capture
) -> None:
    config.write_text(CONFIG.replace("alinux2023", "alinux"))
    assert run(["clusters", "upgrade", str(config), "--to", "3.9.1"]) == 1
    said = capsys.readouterr().err
    assert "ParallelCluster 3.9 does not support alinux any more" in said
    assert "alinux2023" not in said
