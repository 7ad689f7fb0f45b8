"""The program that prints what a node has (`header: true`), beside stand-ins for nvidia-smi."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from clusterjobs import resources

SMI = """\
#!/bin/bash
case $* in
  *driver_version*) echo 550.54.15 ;;
  *) printf 'NVIDIA A100-SXM4-40GB\\n%.0s' 1 2 3 ;;
esac
"""


def described(folder: pathlib.Path, node_id: str, smi: str, *packages: str) -> str:
    (folder / "nvidia-smi").write_text(smi)
    (folder / "nvidia-smi").chmod(0o755)
    (folder / "python3").symlink_to(sys.executable)
    program = resources.node_programs()["describe_node.sh"]
    done = subprocess.run(
        ["bash", program, *packages],
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "SLURM_NODEID": node_id,
            "SLURMD_NODENAME": "node-7",
            "LOADEDMODULES": "cuda/12.4:openmpi/4.1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout


def test_the_first_node_names_its_gpus_and_the_versions(tmp_path: pathlib.Path) -> None:
    first, software, *others = described(
        tmp_path, "0", SMI, "pytest", "no_such_package"
    ).splitlines()
    assert first.startswith("clusterjobs: node-7: 3 x NVIDIA A100-SXM4-40GB, driver 550.54.15; ")
    assert " CPUs, " in first
    assert software.startswith("clusterjobs: Python 3.")
    assert ", pytest " in software
    assert ", no_such_package is missing" in software
    assert others == ["clusterjobs: modules: cuda/12.4 openmpi/4.1"]


def test_another_node_names_only_what_it_has_itself(tmp_path: pathlib.Path) -> None:
    (line,) = described(tmp_path, "1", "#!/bin/bash\nexit 9\n", "pytest").splitlines()
    assert line.startswith("clusterjobs: node-7: ")
    assert "NVIDIA" not in line
