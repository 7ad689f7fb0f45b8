"""The folder of one lab: its layout, and the files that a lab needs to start.

This module knows the file system; it must not start processes.

    shared/fsx        mounted as /fsx on the nodes; kept when the lab stops
    buckets/NAME      stands for s3://NAME; kept, too
    nodes/NAME/       one node: its scratch disk, slurmd's spool, its pid
    log/              logs of the controller, every slurmd and the lab's init; jobs.txt
    bin/              sbatch, squeue, ... for the user's shell
    commands/         the same inside the lab: Slurm's own binaries
"""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clusterjobs.errors import one_problem
from clusterjobs.lab import namespaces, slurm_conf
from clusterjobs.lab.packages import COMMANDS, Slurm
from clusterjobs.lab.root_view import root_view
from clusterjobs.lab.shape import HEAD_NODE, NETWORK, LabSpec

SCRIPTS = Path(__file__).with_name("scripts")
_HOSTS = Path("/etc/hosts")
_RECREATED = ("nodes", "spool", "state", "log", "dev", "commands", "bin", "root")


@dataclass(frozen=True)
class LabFacts:
    """The content of lab.json. `slurm` is the version of Slurm, "22.05"."""

    cluster: str
    slurm: str
    nodes: tuple[str, ...]
    shared: tuple[str, ...]


@dataclass(frozen=True)
class LabFolder:
    """Paths below `path`, and methods that write a lab's files."""

    path: Path

    def __truediv__(self, part: str) -> Path:
        return self.path / part

    def shared(self, directory: str) -> Path:
        """The path on this machine of the folder that is `directory` on the nodes."""
        return self.path / "shared" / directory.strip("/")

    def write(self, spec: LabSpec, slurm: Slurm) -> None:
        """Write all files for a start; of an earlier lab, only `shared/` is kept."""
        self._check_not_hidden(spec)
        self._clear()
        self._write_nodes(spec)
        self._write_slurm_files(spec, slurm)
        self._write_commands(slurm)
        self._write_view(spec)
        (self / "replies").touch()
        os.mkfifo(self / "requests", 0o600)
        facts = LabFacts(
            cluster=spec.cluster,
            slurm=".".join(f"{part:02}" for part in slurm.version),
            nodes=tuple(node.name for node in spec.nodes),
            shared=spec.shared,
        )
        (self / "lab.json").write_text(json.dumps(dataclasses.asdict(facts), indent=2) + "\n")

    @property
    def facts(self) -> LabFacts:
        """The facts of the lab that was written last."""
        facts = json.loads((self / "lab.json").read_text())
        return LabFacts(
            facts["cluster"], facts["slurm"], tuple(facts["nodes"]), tuple(facts["shared"])
        )

    def host_path(self, path: str) -> Path:
        """The path on this machine of the file that is `path` for the lab's jobs."""
        for directory in self.facts.shared:
            if PurePosixPath(path).is_relative_to(directory):
                return self.shared(directory) / PurePosixPath(path).relative_to(directory)
        return Path(path)

    def _check_not_hidden(self, spec: LabSpec) -> None:
        for directory in (*spec.shared, *(node.scratch for node in spec.nodes)):
            if Path(directory) in (self.path, *self.path.parents):
                raise one_problem(
                    f"the cluster's {directory} would hide the lab's own folder {self.path}",
                    hint="set XDG_STATE_HOME to a folder elsewhere",
                )

    def _clear(self) -> None:
        for name in _RECREATED:
            shutil.rmtree(self / name, ignore_errors=True)
            (self / name).mkdir(parents=True)
        for name in ("requests", "replies", "init", "ld.so.cache"):
            (self / name).unlink(missing_ok=True)

    def _write_nodes(self, spec: LabSpec) -> None:
        bits = NETWORK.prefixlen
        for number, node in enumerate(spec.nodes, start=1):
            for part in ("scratch", "spool"):
                (self / "nodes" / node.name / part).mkdir(parents=True)
            wiring = f"{number} {node.name} {node.address}/{bits} {node.scratch}\n"
            (self / "nodes" / node.name / "wiring").write_text(wiring)
        for number in range(slurm_conf.gpu_count(spec)):
            (self / "dev" / f"nvidia{number}").symlink_to("/dev/null")

    def _write_slurm_files(self, spec: LabSpec, slurm: Slurm) -> None:
        user = _user_name()
        plugins = str(slurm.plugin_dir) if slurm.plugin_dir else None
        # Each start uses other job ids: otherwise job 1 of a new lab would append to an old log.
        first_job_id = 1000 + int(time.time()) % 1_000_000
        conf = slurm_conf.slurm_conf(spec, user, plugins, first_job_id)
        (self / "slurm.conf").write_text(conf)
        (self / "gres.conf").write_text(slurm_conf.gres_conf(spec))
        (self / "cgroup.conf").write_text(slurm_conf.cgroup_conf(slurm.version))
        (self / "hosts").write_text(slurm_conf.hosts(spec))
        (self / "daemons.sh").write_text(_daemons(spec, slurm))
        if slurm.library_dirs:
            _write_loader_cache(self / "ld.so.cache", slurm)

    def _write_commands(self, slurm: Slurm) -> None:
        for script in SCRIPTS.glob("*.sh"):
            shutil.copyfile(script, self / script.name)
        (self / "entrance.sh").write_text(_array("entrance", namespaces.entrance_options()))
        enter = shlex.quote(str(self / "enter.sh"))
        for name in COMMANDS:
            if command := slurm.find(name):
                (self / "commands" / name).symlink_to(command)
                _write_script(
                    self / "bin" / name, f'exec bash {enter} {slurm_conf.LAB}/commands/{name} "$@"'
                )

    def _write_view(self, spec: LabSpec) -> None:
        added = {directory: self.shared(directory) for directory in spec.shared}
        added |= {node.scratch: self / "nodes" for node in spec.nodes}  # each node has its own
        added[slurm_conf.LAB] = self.path
        added["/opt/slurm/bin"] = self / "commands"  # where ParallelCluster has Slurm's commands
        if not _HOSTS.exists():  # on a minimal system, init.sh needs a file to mount over
            added["/etc/hosts"] = self / "hosts"
        for directory in spec.shared:
            self.shared(directory).mkdir(parents=True, exist_ok=True)
        (self / "view").write_text(root_view(added))


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # in a container, the user id may have no name
        return str(os.geteuid())


def without_slurm(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without Slurm's variables, which may belong to a job of another cluster."""
    return {name: value for name, value in env.items() if not name.startswith("SLURM")}


def _daemons(spec: LabSpec, slurm: Slurm) -> str:
    """The settings of init.sh and node.sh, as bash."""
    stepd = ["-d", str(slurm.slurmstepd)] if slurm.slurmstepd else []
    folders = [f"{slurm_conf.LAB}/commands", *(str(folder) for folder in slurm.folders)]
    drop = namespaces.drop_capabilities()
    return "".join(
        [
            f"export PATH={shlex.quote(':'.join(folders))}\n",
            f"export SLURM_CONF={slurm_conf.LAB}/slurm.conf\n",
            f"head_node={HEAD_NODE} head_address={spec.head_address}/{NETWORK.prefixlen}\n",
            _array("shared", list(spec.shared)),
            _array("slurmctld", [*drop, "slurmctld", "-D"]),
            _array("slurmd", [*drop, "slurmd", "-D", *stepd]),
        ]
    )


def _array(name: str, words: list[str]) -> str:
    return f"{name}=({shlex.join(words)})\n"


def _write_script(file: Path, line: str) -> None:
    file.write_text(f"#!/bin/bash\n{line}\n")
    file.chmod(0o755)


def _write_loader_cache(file: Path, slurm: Slurm) -> None:
    """Write a loader cache that includes Slurm's libraries; the lab uses it as its own.

    LD_LIBRARY_PATH would work too, but sbatch would pass it on to every job.
    """
    conf = file.with_name("ld.so.conf")
    folders = "".join(f"{folder}\n" for folder in slurm.library_dirs)
    conf.write_text(f"include /etc/ld.so.conf\n{folders}")
    command = ["/sbin/ldconfig", "-X", "-C", str(file), "-f", str(conf)]
    done = subprocess.run(command, capture_output=True, text=True)
    if not file.exists():
        raise one_problem(f"ldconfig wrote no cache: {done.stderr.strip()}")
