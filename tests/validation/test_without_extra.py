"""Everything else works without the optional extra, whose modules are forbidden here."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from single_changes import base_text

from clusterjobs import resources

ROOT = resources.cluster_configs_dir().parent
FORBIDDEN = ("pcluster", "moto", "boto3", "botocore", "marshmallow")

PROGRAM = f"""
import importlib.abc, importlib.util, sys

class Forbid(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {FORBIDDEN!r}:
            raise ModuleNotFoundError(name) if MODE == "raise" else SystemExit(f"imported {{name}}")

MODE = sys.argv.pop(1)
find_spec = importlib.util.find_spec
hidden = {FORBIDDEN!r}
importlib.util.find_spec = lambda name, *more: None if name in hidden else find_spec(name, *more)
sys.meta_path.insert(0, Forbid())
from clusterjobs.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def clusterjobs(*arguments: str, mode: str = "raise") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, mode, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_validate_reports_once_what_was_skipped(tmp_path: pathlib.Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(base_text("small"))
    bad.write_text(base_text("p4d-a100").replace("- UnkillableStep", "- UnkilableStep"))
    done = clusterjobs("validate", str(good), str(bad), "examples/tiny-gpt.yaml")
    assert done.returncode == 1, done.stderr
    assert re.search(r"good\.yaml\s+ok", done.stdout)
    assert "did you mean UnkillableStepTimeout?" in done.stderr
    assert done.stderr.count("skipped:") == 1
    assert "pip install aws-parallelcluster==" in done.stderr


@pytest.mark.parametrize(
    ("base", "old", "new", "what"),
    [
        ("small", "Region: us-east-1", "Region: us-east1", "did you mean us-east-1?"),
        ("p4d-a100", "p4d.24xlarge\n", "g5.4xlarge\n", "g5.4xlarge has no EFA"),
        ("p3dn-v100", "  CustomAmi: ami-0a1b2c3d4e5f60001\n", "", "does not run with the driver"),
        ("small", "Os: ubuntu2204", "Os: alinux2", "Os: alinux2023"),
        ("wide", "MountDir: /apps", "MountDir: /tools/apps", "overlap"),
    ],
)
def test_our_own_checks_need_no_parallelcluster(
    tmp_path: pathlib.Path, base: str, old: str, new: str, what: str
) -> None:
    file = tmp_path / "c.yaml"
    assert old in base_text(base)
    file.write_text(base_text(base).replace(old, new))
    done = clusterjobs("validate", str(file))
    assert done.returncode == 1
    assert what in done.stderr


def test_a_real_account_without_the_extra_is_a_usage_error(tmp_path: pathlib.Path) -> None:
    done = clusterjobs("validate", "--aws", "small")
    assert done.returncode == 2
    assert "pip install aws-parallelcluster==" in done.stderr


def test_clusters_diff_reports_what_was_skipped() -> None:
    done = clusterjobs("clusters", "diff", "p4d-a100", "p4de-a100")
    assert done.returncode == 0, done.stderr
    assert "ComputeResources[p4d]" in done.stdout
    assert "pip install aws-parallelcluster==" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("render", "examples/tiny-gpt.yaml", "-o", "{tmp}/out"),
        ("plan", "examples/tiny-gpt.yaml"),
        ("clusters", "list"),
        ("clusters", "show", "p4d-a100"),
        ("clusters", "upgrade", "cluster-configs/small.yaml"),
        ("--help",),
        ("validate", "--help"),
    ],
)
def test_other_commands_never_import_the_extra(
    tmp_path: pathlib.Path, arguments: tuple[str, ...]
) -> None:
    filled = [argument.format(tmp=tmp_path) for argument in arguments]
    done = clusterjobs(*filled, mode="stop")
    assert done.returncode == 0, done.stderr
