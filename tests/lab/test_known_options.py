"""The table of sbatch's and srun's options against the programs themselves."""

from __future__ import annotations

import os
import re
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusterjobs.lab.slurm import Slurm
from clusterjobs.slurm.options import Program, known_options

pytestmark = pytest.mark.lab

CONF = """\
ClusterName=none
SlurmctldHost=localhost
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
NodeName=a
PartitionName=a Nodes=a
"""


@pytest.fixture
def refusal(slurm: Slurm, tmp_path: Path) -> Any:
    """What a program answers to an option that it does not accept as it is given."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF.format(plugins=slurm.plugin_dir or ""))
    env = {**os.environ, "SLURM_CONF": str(conf)}
    if not slurm.loader:
        env["LD_LIBRARY_PATH"] = ":".join(map(str, slurm.library_dirs))

    def ask(program: str, *options: str) -> str:
        done = subprocess.run(
            [*slurm.command(program), *options, "--no-such-option"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr

    return ask


@pytest.mark.parametrize("program", ["sbatch", "srun"])
def test_every_option_of_the_program_is_known(program: Program, refusal: Any) -> None:
    """A first letter alone is ambiguous: the parser lists the options that start with it."""
    found = set()
    for letter in string.ascii_lowercase:
        answer = refusal(program, f"--{letter}")
        if "is ambiguous" in answer:
            found |= set(re.findall(r"'--([a-z0-9-]+)'", answer.partition("possibilities:")[2]))
    assert len(found) > 80
    assert found - known_options(program).takes_value.keys() == set()


@pytest.mark.parametrize("program", ["sbatch", "srun"])
def test_the_options_take_values_as_the_table_says(program: Program, refusal: Any) -> None:
    for name, kind in known_options(program).takes_value.items():
        with_value = refusal(program, f"--{name}=x")
        if "unrecognized option '--no-such" not in with_value and "unrecognized" in with_value:
            continue  # of another version, or of pyxis
        if kind != "optional":  # which it may be in some versions only
            assert (kind == "none") == ("doesn't allow an argument" in with_value), name


@pytest.mark.parametrize("program", ["sbatch", "srun"])
def test_the_table_says_which_versions_have_an_option(
    program: Program, refusal: Any, slurm: Slurm
) -> None:
    options, version = known_options(program), slurm.name.rpartition(".")[0]
    if version not in options.versions:
        pytest.skip(f"the table knows nothing of Slurm {version}")
    for name, versions in options.only_in.items():
        unknown = f"unrecognized option '--{name}" in refusal(program, f"--{name}=x")
        assert unknown == (version not in versions), name
