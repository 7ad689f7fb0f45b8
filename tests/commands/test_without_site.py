"""A user without a site.yaml: what is rendered, what is said, and how the values are added."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

SPEC = "name: a\ncluster: p4d-a100\nframework: torchrun\nscript: t.py\n"
MISSING = "site.region, site.public_subnet, site.key_name, site.bucket and site.private_subnet"


@pytest.fixture
def spec(
    clusterjobs: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "nowhere"))
    (folder / "exp.yaml").write_text(SPEC)
    return folder / "exp.yaml"


def test_everything_but_the_clusters_config_is_rendered(
    clusterjobs: Callable[..., object], spec: pathlib.Path
) -> None:
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 0
    what = f"cluster.yaml is not written (the job runs without it): {MISSING} are not given"
    hint = "fill them in after `clusterjobs clusters site p4d-a100 >> site.yaml`"
    assert outcome.err == f"info: {what}\n   hint: {hint}\n"
    assert sorted(path.name for path in (spec.parent / "generated").iterdir()) == [
        "job.sh",
        "manifest.json",
    ]


def test_only_commands_about_the_files_say_that_the_config_is_not_written(
    clusterjobs: Callable[..., object], spec: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spec.parent / "sbatch").write_text("#!/bin/sh\necho 7\n")
    (spec.parent / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{spec.parent}:{os.environ['PATH']}")
    (spec.parent / "t.py").touch()
    for command in ("plan", "diff", "submit"):
        outcome = clusterjobs(command, "exp.yaml")
        assert (outcome.code, outcome.err) == (0, "")
    for command in ("render", "validate"):
        assert clusterjobs(command, "exp.yaml").err.count("cluster.yaml is not written") == 1


def test_the_command_of_the_hint_leads_to_a_whole_render(
    clusterjobs: Callable[..., object], spec: pathlib.Path
) -> None:
    added = clusterjobs("clusters", "site", "p4d-a100")
    assert added.out.splitlines()[1] == "region:  # Region"
    site = spec.parent / "site.yaml"
    site.write_text(added.out)
    again = clusterjobs("clusters", "site", "p4d-a100")
    assert again.out == ""
    assert "no value for region, public_subnet" in again.err
    site.write_text(added.out.replace(":  #", ": x  #"))
    assert clusterjobs("clusters", "site", "p4d-a100").err == "your site.yaml has all values\n"
    outcome = clusterjobs("render", "exp.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Region: x" in (spec.parent / "generated" / "cluster.yaml").read_text()


def test_nested_values_are_nested_in_the_form(
    clusterjobs: Callable[..., object], spec: pathlib.Path
) -> None:
    config = "Region: '{{ site.aws.region }}'\nScheduling: {SlurmQueues: [], A: '{{ site.b }}'}\n"
    (spec.parent / "c.yaml").write_text(config)
    out = clusterjobs("clusters", "site", "c.yaml").out
    assert out.splitlines()[1:] == ["aws:", "  region:  # Region", "b:  # Scheduling.A"]


def test_a_spec_is_valid_without_them_and_a_config_is_not(
    clusterjobs: Callable[..., object], spec: pathlib.Path
) -> None:
    assert clusterjobs("validate", "exp.yaml").code == 0
    outcome = clusterjobs("validate", "p4d-a100")
    assert outcome.code == 1
    assert outcome.err.count(f"{MISSING} are not given") == 1


def test_problems_of_the_spec_come_without_those_of_the_site(
    clusterjobs: Callable[..., object], spec: pathlib.Path
) -> None:
    outcome = clusterjobs("render", "exp.yaml", "--set", "nodes=1000")
    assert outcome.code == 1
    assert "is more than queue train can have" in outcome.err
    assert "not given" not in outcome.err


def test_a_site_with_blank_values_is_to_be_filled_in(
    clusterjobs: Callable[..., object], spec: pathlib.Path
) -> None:
    (spec.parent / "site.yaml").write_text(clusterjobs("clusters", "site", "p4d-a100").out)
    spec.write_text(f"{SPEC}data: [{{source: 's3://my-bucket/a', target: /fsx/a}}]\n")
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 1
    assert outcome.err.startswith("exp.yaml:5:45 /fsx/a needs an association with s3://my-bucket/a")
    hint = outcome.err.partition("hint: ")[2]
    assert hint.startswith("the site.yaml has these keys without a value: fill them in; or copy")
