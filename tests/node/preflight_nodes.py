"""The preflight with a stand-in for srun: the same programs, as many "nodes" as a test wants."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field

from clusterjobs import resources

FAILED = 69
NODE_PROGRAM = ("preflight_hardware.sh", "preflight_software.sh", "preflight_node.sh")

NVIDIA_SMI = """\
#!/bin/bash
case $1 in
  --query-gpu=name,ecc.errors.uncorrected.volatile.total)
    for ((i = 0; i < ${GPUS:-8}; i++)); do
      errors=0
      ((i != ${BROKEN_GPU:--1})) || errors=2
      echo "NVIDIA A100-SXM4-40GB, $errors"
    done ;;
  --query-compute-apps=pid,process_name) [[ -z ${STRANGER:-} ]] || echo "4711, $STRANGER" ;;
  *) echo "Field \\"$1\\" is not a valid field to query." >&2; exit 2 ;;
esac
"""

# Runs the command for each node at once. A test puts what is peculiar to a node into the file of
# its name. Told to end, it ends all that its tasks have started, as Slurm does.
SRUN = """\
#!/bin/bash
pids=()
trap 'for pid in "${pids[@]}"; do kill -KILL -- "-$pid" "$pid" 2> /dev/null; done; exit 1' TERM
for node in $NODES; do
  (
    export SLURMD_NODENAME=$node
    [[ ! -e $FAULTS/$node ]] || . "$FAULTS/$node"
    exec setsid "$@"
  ) &
  pids+=("$!")
done
wait
"""
# As Slurm's own: nodes that follow each other are written once. Real in tests/jobs.
SCONTROL = """\
#!/bin/bash
[[ "$1 $2" == "show hostlist" ]] && echo "[$3]"
"""


def changed(old: str, new: str) -> str:
    """A fault: on its node the program says `new` where it says `old`."""
    assert sum(resources.node_program(name).count(old) for name in NODE_PROGRAM) == 1
    return f'old={shlex.quote(old)} new={shlex.quote(new)}\nset -- "${{@/"$old"/"$new"}}"'


def clock(shift: str) -> str:
    """A fault: its node takes the time for another, `+ 60` seconds."""
    now = f"now=$((EPOCHSECONDS {shift})).${{EPOCHREALTIME#*.}}"
    return changed("now=${EPOCHREALTIME:-}", now)


@dataclass
class Preflight:
    """`program(name, text)` puts a stand-in on PATH; `fault(node, lines)` is run on that node."""

    folder: pathlib.Path
    environment: dict[str, str] = field(default_factory=dict)

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def fault(self, node: str, lines: str) -> None:
        (self.folder / "faults" / node).write_text(lines)

    def start(self, *checks: str, nodes: int = 2) -> subprocess.Popen[str]:
        names = [f"node-{n}" for n in range(1, nodes + 1)]
        command = [sys.executable, "-BEsS", str(self.folder / "preflight.py")]
        return subprocess.Popen(
            [*command, *names, "--", *checks, "--", "srun"],
            env={**self.environment, "NODES": " ".join(names)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *checks: str, nodes: int = 2) -> tuple[int, str]:
        """The exit code and all that was said."""
        started = self.start(*checks, nodes=nodes)
        said, _ = started.communicate(timeout=120)
        return started.returncode, said

    @property
    def bad_nodes(self) -> str:
        file = self.folder / "bad_nodes"
        return file.read_text().strip() if file.exists() else ""


def preflight_in(tmp_path: pathlib.Path) -> Preflight:
    """The preflight's programs and their stand-ins, laid out in a folder."""
    for name in ("bin", "faults"):
        (tmp_path / name).mkdir()
    for name in ("preflight.py", "preflight_table.py", *NODE_PROGRAM):
        (tmp_path / name).write_text(resources.node_program(name))
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    environment = {
        "PATH": f"{tmp_path}/bin:{pathlib.Path(sys.executable).parent}:/usr/bin:/bin",
        "FAULTS": str(tmp_path / "faults"),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "HOME": os.environ.get("HOME", "/"),
    }
    made = Preflight(tmp_path, environment)
    made.program("srun", SRUN)
    made.program("scontrol", SCONTROL)
    assert shutil.which("bash")
    return made
