"""File names and --set, which come from a command line and may be any bytes."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hostile import dump
from page import base
from sbatch_lines import read_directives

HOSTILE_FILES = (
    b"a b.yaml",
    b"x\n#SBATCH --nodes=99\n.yaml",
    b"x\ntouch CANARY\n.yaml",
    b"$(touch CANARY).yaml",
    b"-o.yaml",
    b"not utf-8 \xff.yaml",
    "\u202e é.yaml".encode(),
)


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_spec_may_have_any_name(
    name: bytes, clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    import os

    file = folder / os.fsdecode(name)
    file.write_text(dump(base("/fsx/t")))
    outcome = clusterjobs("render", file, "-o", "out")
    assert outcome.code == 0, outcome.err
    script = (folder / "out/job.sh").read_text()
    assert dict(read_directives(script))["nodes"] == "2"
    assert len([line for line in script.split("\n") if line.startswith("#SBATCH")]) == len(
        read_directives(script)
    )
    assert "\ntouch" not in script
    subprocess.run(["bash", "-n", folder / "out/job.sh"], check=True)


@pytest.mark.parametrize(
    "setting",
    [
        "args.a=\udcff",
        "args.\udcff=1",
        'name="a\\nb"',
        "name='a\n\nb'",
        'name="a\\0"',
        "env.A-B=1",
        "sbatch.comment='x\n\n#SBATCH --nodes=99'",
        "args.a=x\u2028y",
        "nodes=$(touch CANARY)",
    ],
)
def test_a_setting_is_refused_with_its_position(
    setting: str, clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    (folder / "exp.yaml").write_text(dump(base("/fsx/t")))
    outcome = clusterjobs("render", "exp.yaml", "-o", "out", "--set", setting)
    assert outcome.code == 1, outcome.err
    assert "--set " in outcome.err
    assert not (folder / "out").exists()


def test_a_setting_arrives_as_it_is(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    (folder / "exp.yaml").write_text(dump(base("/fsx/t")))
    value = "$(touch CANARY)'; `x` \\ a,b"
    outcome = clusterjobs("render", "exp.yaml", "-o", "out", "--set", f"args.a={value}")
    assert outcome.code == 0, outcome.err
    quoted = value.replace("'", "'\\''")
    assert f"--a '{quoted}'" in (folder / "out/job.sh").read_text()


def test_a_path_that_starts_with_a_parameter_is_what_the_parameter_says(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    spec = base("/fsx/t") | {
        "parameters": {"P_DIR": "/fsx/x"},
        "workdir": "{{ parameters.P_DIR }}/w",
    }
    (folder / "exp.yaml").write_text(dump(spec))
    assert clusterjobs("render", "exp.yaml", "-o", "out").code == 0
    assert 'cd -- "$P_DIR/w"' in (folder / "out/job.sh").read_text()
