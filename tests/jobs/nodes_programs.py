"""fairseq, Horovod and the programs of the nodes, prepared once, and a lab in which they run.

Programs that were unpacked and not installed look for their own parts in /usr: each has a small
script in front that says where they are.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from rendered_jobs import shape_of

from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.slurm import Slurm

PREPARE = pathlib.Path(__file__).parents[1] / "prepare_frameworks.py"
IMPOSSIBLE = 75
PATIENCE_SECONDS = 1500
# pdsh takes modules from no folder but its own, whose name stands in the program. /fsx exists
# only in the lab, and the name may not become longer.
PDSH_MODULES, PDSH_MODULES_HERE = b"/usr/lib/x86_64-linux-gnu/pdsh", b"/fsx/pdsh-modules"


@dataclass(frozen=True)
class Prepared:
    """`venv`: what a spec's `software` names; `environment`: what sbatch is called with."""

    venv: pathlib.Path
    environment: dict[str, str]


@pytest.fixture(scope="session")
def prepared_folders() -> tuple[pathlib.Path, pathlib.Path]:
    """The folders of Python packages and of programs; a skip where this machine cannot."""
    pytest.importorskip("torch", reason="needs the extra 'train'")
    done = subprocess.run(
        [sys.executable, str(PREPARE)], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    if done.returncode == IMPOSSIBLE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    site, root = done.stdout.splitlines()[-2:]
    return pathlib.Path(site), pathlib.Path(root)


COMMANDS = {
    "deepspeed": "deepspeed.launcher.runner:main",
    "fairseq-hydra-train": "fairseq_cli.hydra_train:cli_main",
    "fairseq-preprocess": "fairseq_cli.preprocess:cli_main",
    "fairseq-train": "fairseq_cli.train:cli_main",
    "horovodrun": "horovod.runner.launch:run_commandline",
    "torchrun": "torch.distributed.run:main",
}


@pytest.fixture(scope="session")
def prepared(
    prepared_folders: tuple[pathlib.Path, pathlib.Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Prepared:
    """An environment with fairseq, Horovod and the project's own torch, DeepSpeed and numpy."""
    site, root = prepared_folders
    folder = tmp_path_factory.mktemp("frameworks") / "venv"
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    projects = next(pathlib.Path(sys.prefix).glob("lib/python*/site-packages"))
    (packages / "prepared.pth").write_text(f"{site}\n{projects}\n")
    for name, entry in COMMANDS.items():
        module, function = entry.split(":")
        program = f"#!{folder}/bin/python3\nfrom {module} import {function}\n"
        program += f"if __name__ == '__main__':\n    {function}()\n"  # multiprocessing reads it
        _write_program(folder / "bin" / name, program)
    libraries = [root / part / f"{os.uname().machine}-linux-gnu" for part in ("usr/lib", "lib")]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "OPAL_PREFIX": f"{root}/usr",
        "PMIX_INSTALL_PREFIX": f"{libraries[0]}/pmix2",
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
    }
    for name, there in (("mpirun", "mpirun.openmpi"), ("orted", "orted"), ("sshd", "")):
        target = root / "usr/bin" / there if there else root / "usr/sbin/sshd"
        _write_program(folder / "bin" / name, f'#!/bin/sh\nexec {target} "$@"\n')
    _write_program(folder / "bin" / "pdsh", '#!/bin/bash\nexec -a pdsh /fsx/pdsh.bin "$@"\n')
    return Prepared(folder, environment)


def _write_program(file: pathlib.Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


@pytest.fixture(scope="module")
def lab(
    slurm: Slurm,
    prepared_folders: tuple[pathlib.Path, pathlib.Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lab]:
    """Two nodes on which an sshd can be started, by root too."""
    shape = shape_of("small")
    shape = dataclasses.replace(shape, shared=(*shape.shared, "/run/sshd"))
    with running_lab(shape, tmp_path_factory.mktemp("ssh"), slurm) as running:
        _bring_pdsh(running, prepared_folders[1])
        if os.geteuid() == 0:
            _name_sshds_user(running)
        yield running


def _bring_pdsh(lab: Lab, root: pathlib.Path) -> None:
    shared = lab.folder.shared("/fsx")
    modules = shared / PDSH_MODULES_HERE.decode().removeprefix("/fsx/")
    modules.mkdir(mode=0o755)
    for module in root.glob("usr/lib/*/pdsh/*.so"):
        (modules / module.name).write_bytes(module.read_bytes())
    program = (root / "usr/bin/pdsh.bin").read_bytes()
    padded = PDSH_MODULES_HERE.ljust(len(PDSH_MODULES), b"\0")
    (shared / "pdsh.bin").write_bytes(program.replace(PDSH_MODULES, padded))
    (shared / "pdsh.bin").chmod(0o755)


def _name_sshds_user(lab: Lab) -> None:
    """Started by root, sshd gives up its rights to a user of this name, whom a package makes."""
    users = lab.folder.shared("/fsx") / "passwd"
    users.write_text(
        pathlib.Path("/etc/passwd").read_text() + "sshd:x:99:65534::/run/sshd:/usr/sbin/nologin\n"
    )
    for node in lab.facts.nodes:
        done = lab.node_run(node, ["mount", "--bind", "/fsx/passwd", "/etc/passwd"])
        assert done.returncode == 0, done.stderr
