"""The folder of one lab: its layout, and the files that a lab needs to start.

shared/fsx        mounted as /fsx on the nodes; kept when the lab stops
buckets/NAME      stands for s3://NAME; kept, too
nodes/NAME/       one node: its scratch disk, slurmd's spool, its pid
log/              logs of the controller, every slurmd and the lab's init; jobs.txt
bin/              sbatch, squeue, ... for the user's shell
commands/         the same inside the lab, and the daemons: what starts Slurm's own binaries
slurm/            Slurm's unpacked packages, mounted in the lab
"""

import dataclasses
import json
import os
import pwd
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clusterjobs.errors import one_problem
from clusterjobs.lab import namespaces, shape
from clusterjobs.lab.shape import HEAD_NODE, NETWORK, LabSpec
from clusterjobs.lab.slurm import COMMANDS, DAEMONS, SYSTEM, Slurm

# ------------------------------------------------------------------ the lab's root folder
# The root folder of the lab's processes, as a list of instructions for init.sh. It contains
# everything of this machine, and the cluster's folders. A parent folder of an added folder is
# rebuilt, with its entries bound one by one, so that nothing is created on this machine.

# A new pid namespace needs a /proc of its own, which init.sh mounts.
_NOT_BOUND = frozenset({PurePosixPath("/proc")})


def root_view(added: Mapping[str, Path], root: Path = Path("/")) -> str:
    """Lines of `KIND<TAB>SOURCE<TAB>TARGET`: `folder`, `link` (SOURCE is the link's text), `bind`.

    `added` maps a folder in the lab to a folder on this machine.
    """
    targets = {PurePosixPath(target): source for target, source in added.items()}
    parents = {parent for target in targets for parent in target.parents}
    lines = [
        line for folder in sorted(parents) for line in _rebuilt(root, folder, parents, targets)
    ]
    lines += [f"bind\t{targets[target]}\t{target}" for target in sorted(targets)]
    return "".join(f"{line}\n" for line in lines)


def _rebuilt(
    root: Path,
    folder: PurePosixPath,
    parents: set[PurePosixPath],
    targets: Mapping[PurePosixPath, Path],
) -> Iterator[str]:
    yield f"folder\t-\t{folder}"
    for entry in _entries(root / folder.relative_to("/")):
        path = folder / entry.name
        if path in parents or path in targets or path in _NOT_BOUND:
            continue
        if entry.is_symlink():
            yield f"link\t{entry.readlink()}\t{path}"
        else:
            yield f"bind\t{entry}\t{path}"


def _entries(folder: Path) -> list[Path]:
    """The entries of a folder, except names with tabs or newlines, which separate instructions."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if not set("\t\n") & set(entry.name))


DEFAULT_NAME = "lab"
SCRIPTS = Path(__file__).with_name("scripts")
_HOSTS = Path("/etc/hosts")
_PASSWD = Path("/etc/passwd")
_RECREATED = ("nodes", "spool", "state", "log", "dev", "commands", "bin", "root", "slurm")
_SLURM = Path(shape.LAB, "slurm")  # in the lab: a disk over its path on this machine hides it


@dataclass(frozen=True)
class LabFacts:
    """The content of lab.json. `slurm` is the version of Slurm, "22.05.8"."""

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

    @property
    def name_option(self) -> str:
        """The option that selects this lab in a further command: the lab has its folder's name."""
        return "" if self.path.name == DEFAULT_NAME else f" --name {self.path.name}"

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
        self._write_view(spec, slurm)
        (self / "replies").touch()
        os.mkfifo(self / "requests", 0o600)
        facts = LabFacts(
            cluster=spec.cluster,
            slurm=slurm.name,
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

    def facts_if_readable(self) -> LabFacts | None:
        """The facts of the lab; None if lab.json is damaged."""
        try:
            return self.facts
        except (OSError, ValueError, KeyError, TypeError):
            return None

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
        for name in ("requests", "replies", "init", "ld.so.conf", "passwd"):
            (self / name).unlink(missing_ok=True)

    def _write_nodes(self, spec: LabSpec) -> None:
        bits = NETWORK.prefixlen
        for number, node in enumerate(spec.nodes, start=1):
            for part in ("scratch", "spool"):
                (self / "nodes" / node.name / part).mkdir(parents=True)
            wiring = f"{number} {node.name} {node.address}/{bits} {node.scratch}\n"
            (self / "nodes" / node.name / "wiring").write_text(wiring)
        for number in range(shape.gpu_count(spec)):
            (self / "dev" / f"nvidia{number}").symlink_to("/dev/null")

    def _write_slurm_files(self, spec: LabSpec, slurm: Slurm) -> None:
        user = self._write_user()
        plugins = slurm.path_in(_SLURM, slurm.plugin_dir) if slurm.plugin_dir else None
        # Each start uses other job ids: otherwise job 1 of a new lab would append to an old log.
        first_job_id = 1000 + int(time.time()) % 1_000_000
        conf = shape.slurm_conf(spec, user, plugins, first_job_id, slurm.version)
        (self / "slurm.conf").write_text(conf)
        (self / "gres.conf").write_text(shape.gres_conf(spec))
        (self / "cgroup.conf").write_text(shape.cgroup_conf(slurm.version))
        (self / "hosts").write_text(shape.hosts(spec))
        (self / "daemons.sh").write_text(_daemons(spec, slurm))
        if slurm.library_dirs and not slurm.loader:
            # For the lab's own loader cache, which init.sh makes. LD_LIBRARY_PATH would work too,
            # but sbatch would pass it on to every job.
            folders = [slurm.path_in(_SLURM, folder) for folder in slurm.library_dirs]
            (self / "ld.so.conf").write_text("\n".join(["include /etc/ld.so.conf", *folders, ""]))

    def _write_user(self) -> str:
        """The name of this user. Slurm refuses a number without one, as containers may have."""
        uid, gid = namespaces.user_id(), os.getegid()
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            name = f"user{uid}"
            known = _PASSWD.read_text() if _PASSWD.exists() else ""
            line = f"{name}:x:{uid}:{gid}::{Path.home()}:/bin/bash\n"
            (self / "passwd").write_text(known + line)
            return name

    def _write_commands(self, slurm: Slurm) -> None:
        for script in SCRIPTS.glob("*.sh"):
            shutil.copyfile(script, self / script.name)
        (self / "entrance.sh").write_text(_array("entrance", namespaces.entrance_options()))
        enter = shlex.quote(str(self / "enter.sh"))
        for name in (*COMMANDS, *DAEMONS, "ip"):
            if slurm.find(name):
                self._write_command(name, slurm)
            if slurm.find(name) and name in COMMANDS:
                _write_script(
                    self / "bin" / name, f'exec bash {enter} {shape.LAB}/commands/{name} "$@"'
                )

    def _write_command(self, name: str, slurm: Slurm) -> None:
        file, found = self / "commands" / name, slurm.find(name)
        assert found
        if slurm.loader and slurm.root and found.is_relative_to(slurm.root):
            loader, option, _, *arguments = slurm.command(name, root=_SLURM)
            _write_script(file, f'exec {loader} {option} "$0" {shlex.join(arguments)} "$@"')
        else:
            file.symlink_to(slurm.path_in(_SLURM, found))

    def _write_view(self, spec: LabSpec, slurm: Slurm) -> None:
        added = {directory: self.shared(directory) for directory in spec.shared}
        added |= {node.scratch: self / "nodes" for node in spec.nodes}  # each node has its own
        added[shape.LAB] = self.path
        if spec.commands and spec.commands.rstrip("/") not in SYSTEM:  # they are on PATH, too
            added[spec.commands] = self / "commands"
        if slurm.root:
            added[str(_SLURM)] = slurm.root
        if not _HOSTS.exists():  # on a minimal system, init.sh needs a file to mount over
            added["/etc/hosts"] = self / "hosts"
        for directory in spec.shared:
            self.shared(directory).mkdir(parents=True, exist_ok=True)
        (self / "view").write_text(root_view(added))


def without_slurm(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without Slurm's variables, which may belong to a job of another cluster."""
    return {name: value for name, value in env.items() if not name.startswith("SLURM")}


def _daemons(spec: LabSpec, slurm: Slurm) -> str:
    """The settings of init.sh and node.sh, as bash."""
    commands = f"{shape.LAB}/commands"
    stepd = ["-d", f"{commands}/slurmstepd"] if slurm.root else []  # else its own path is right
    drop = namespaces.drop_capabilities()
    return "".join(
        [
            f"export PATH={':'.join((commands, *SYSTEM))}\n",
            f"export SLURM_CONF={shape.LAB}/slurm.conf\n",
            f"head_node={HEAD_NODE} head_address={spec.head_address}/{NETWORK.prefixlen}\n",
            _array("shared", list(spec.shared)),
            _array("drop", drop),
            _array("slurmctld", [*drop, "slurmctld", "-D"]),
            _array("slurmd", [*drop, "slurmd", "-D", *stepd]),
        ]
    )


def _array(name: str, items: list[str]) -> str:
    return f"{name}=({shlex.join(items)})\n"


def _write_script(file: Path, line: str) -> None:
    file.write_text(f"#!/bin/bash\n{line}\n")
    file.chmod(0o755)
