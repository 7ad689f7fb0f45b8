"""A job is the same from a ParallelCluster config and from the import of its Slurm.

A lab has no Lustre, so a person writes `shared:` into the description, as /proc/mounts of the real
cluster would show it. The cluster's name and the file system's are in comments alone.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from imported_facts import imported, source_of

from clusterjobs import resources
from clusterjobs.lab.lab import running_lab
from clusterjobs.lab.shape import lab_spec
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

EXAMPLES = resources.cluster_configs_dir().parent / "examples"
SPECS = {
    "p4d-a100": (
        "gpt-neox-20b",
        "gpt-neox-2node",
        "gpt-neox-2node-docker",
        "gpt2-345m",
        "gpt2-345m-1gpu",
    ),
    "p5-h100": ("gpt3-175b-p5", "mixtral-8x7b", "sft-llama-8b"),
    "p3dn-v100": ("bert-large-p3dn",),
    "small": ("tiny-gpt",),
    "one-gpu": ("horovod-2node", "horovod-2node-docker"),
}
EFS = "shared: {/fsx: efs}\n"
HINTS = {"small": EFS, "one-gpu": EFS}
LUSTRE = "shared: {/fsx: lustre}\n"


@pytest.fixture(scope="module", params=SPECS)
def described(
    request: pytest.FixtureRequest, slurm: Slurm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """A ready config's name, and the description that is imported from a lab of that config."""
    name = request.param
    ready = resources.cluster_configs_dir() / f"{name}.yaml"
    file = ready if ready.exists() else EXAMPLES / "clusters" / f"{name}.yaml"
    spec = lab_spec(source_of(file.read_text(encoding="utf-8"), name).shape(), controller_only=True)
    with running_lab(spec, tmp_path_factory.mktemp(name), slurm) as lab:
        yield name, imported(lab, "--name", name) + HINTS.get(name, LUSTRE)


def test_a_job_of_an_imported_cluster_is_that_of_its_config(
    described: tuple[str, str], tmp_path: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    cluster, description = described
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    (folder / "imported.yaml").write_text(description, encoding="utf-8")
    for name in SPECS[cluster]:
        spec = folder / f"{name}.yaml"
        assert clusterjobs("render", spec, "-o", tmp_path / "config").code == 0
        text = spec.read_text(encoding="utf-8")
        written = re.sub(r"(?m)^cluster: .*", "cluster: ./imported.yaml", text)
        spec.write_text(written, encoding="utf-8")
        done = clusterjobs("render", spec, "-o", tmp_path / "import")
        assert done.code == 0, done.err
        assert script_in(tmp_path / "import") == script_in(tmp_path / "config"), name
        assert other_files(tmp_path / "import") == other_files(tmp_path / "config"), name


def script_in(folder: pathlib.Path) -> list[str]:
    """The lines of job.sh, without the hashes of files and the names in comments on mounts."""
    lines = (folder / "job.sh").read_text(encoding="utf-8").splitlines()
    return [_record(line) if line.startswith('{"name"') else _mount(line) for line in lines]


def _record(line: str) -> str:
    record = json.loads(line)
    del record["content"], record["spec"]["sha256"]
    return json.dumps(record)


def _mount(line: str) -> str:
    return re.sub(r"(=/fsx # )\w+ of ", r"\1file system of ", line)


def other_files(folder: pathlib.Path) -> dict[str, str]:
    """A described cluster runs already: it needs no cluster.yaml."""
    own = {"job.sh", "cluster.yaml", "manifest.json"}
    return {file.name: file.read_text() for file in folder.iterdir() if file.name not in own}
