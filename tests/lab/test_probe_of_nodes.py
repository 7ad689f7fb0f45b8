"""clusters import --probe in a lab: real jobs, on nodes whose GPUs stand-ins describe."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
import yaml

from clusterjobs.lab.lab import Lab, until

pytestmark = pytest.mark.lab

CODE = "import sys; from clusterjobs.cli.main import main; sys.exit(main())"
IMPORT = [sys.executable, "-c", CODE, "clusters", "import", "--from-slurm", "--probe"]
# As NVIDIA's manual describes it: the GPUs that the job may use.
NVIDIA_SMI = """\
#!/bin/bash
[[ $* == '--query-gpu=name,memory.total --format=csv,noheader,nounits' ]] || exit 2
for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do echo 'NVIDIA A100-SXM4-40GB, 40960'; done
"""


def imported(lab: Lab, folder: pathlib.Path, *more: str) -> subprocess.CompletedProcess[str]:
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "nvidia-smi").write_text(NVIDIA_SMI)
    (tools / "nvidia-smi").chmod(0o755)
    environment = lab.environment()
    path = f"{lab.folder / 'bin'}:{tools}:{environment['PATH']}"
    return lab.run([*IMPORT, *more], env={**environment, "PATH": path}, cwd=folder)


def test_each_node_type_says_what_it_has(shared_lab: Lab, folder: pathlib.Path) -> None:
    done = imported(shared_lab, folder)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)
    (gpus,) = [one for one in found["node_types"].values() if one["gpus"]]
    assert (gpus["gpus"], gpus["gpu_model"], gpus["gpu_memory"]) == (8, "A100", 40)
    assert "  # seen on train-" in done.stdout
    assert done.stderr.count("probing ") == len(found["node_types"]) == 2
    assert "python3 3." in done.stdout  # a note of the node


def test_a_node_type_without_a_free_node_is_a_warning(
    shared_lab: Lab, folder: pathlib.Path
) -> None:
    taken = shared_lab.run(["sbatch", "--parsable", "-pcpu", "--exclusive", "--wrap=sleep 600"])
    job = taken.stdout.strip()
    try:
        done = imported(shared_lab, folder, "--partition=cpu", "--probe-seconds=2")
        assert done.returncode == 0, done.stderr
        assert "it did not start within 2 s: try again with --probe-seconds 20" in done.stderr
        until(
            lambda: shared_lab.run(["squeue", "-h", "-o%A"]).stdout.split() == [job],
            120,
            lambda: "the job of the probe is not cancelled",
        )
        assert yaml.safe_load(done.stdout)["node_types"]
    finally:
        shared_lab.run(["scancel", job])
