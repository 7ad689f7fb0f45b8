"""Finds the launch of the ranks among the calls of a script, and what it is made of.

`srun --mpi=pmix torchrun --nnodes 2 train.py --lr 1e-4` is peeled from the outside: Slurm's srun,
a container, programs in front (numactl), the launcher, and what the ranks run.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.importing.scripts.record import Call, names_in
from clusterjobs.slurm.options import known_options

_PYTHON = re.compile(r"python[0-9.]*")
_LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "composer", "horovodrun", "torch.distributed")
_MPI = ("mpirun", "mpiexec", "orterun", "mpirun.real", "prterun")
_CONTAINERS = ("singularity", "apptainer", "docker", "podman", "shifter", "enroot")
# A mount that no spec can say, of singularity: the container's program stays part of the command.
_MOUNT_WITH_OPTIONS = re.compile(r"(?:^| )(?:-B|--bind)[ =]\S+:(?:image-src|id|upper)=")
_IN_FRONT = ("numactl", "nsys", "ncu", "time", "nice", "taskset", "stdbuf", "timeout", "nohup")
# They start Python with the script that follows.
_RUNNERS = (*((one, "run") for one in ("uv", "poetry", "pipenv", "pixi", "conda")), ("kernprof",))
_NO_SCRIPT = (("-c",), ("-",), ())  # what follows python
_INSTALLERS = (("pip",), ("venv",), ("virtualenv",), ("ensurepip",))  # what follows python -m
# They never train.
TOOLS = names_in(
    "hostname ip mkdir cp rm ls echo cat bash_only nvidia-smi dcgmi rsync tar chmod env "
    "ln mv touch killall pkill sync df du lscpu lstopo ibstat fi_info printenv uname date "
    "sleep aws azcopy bzip2 chown curl dd find gsutil gunzip gzip pigz rclone rmdir s5cmd scp "
    "unsquashfs unzip wget xz zstd"
)
# Options of torchrun that the job sets itself: torch/distributed/run.py.
_DERIVED = {
    "torchrun": (
        "nnodes nproc-per-node node-rank master-addr master-port rdzv-id rdzv-backend"
        " rdzv-endpoint rdzv-conf standalone use-env local-addr"
    ),
    "deepspeed": (
        "num_nodes num_gpus hostfile master_addr master_port include exclude launcher"
        " no_local_rank no_ssh no_ssh_check force_multi"
    ),
    "accelerate": (
        "num_machines num_processes machine_rank main_process_ip main_process_port multi_gpu"
        " rdzv_backend rdzv_conf same_network config_file"
    ),
    "composer": "nproc world_size node_rank master_addr master_port base_rank",
    "horovodrun": "np num-proc hosts hostfile ssh-port network-interfaces",
}
_FLAGS = {
    "torchrun": "standalone no-python run-path use-env m module",
    "deepspeed": "no_python module no_local_rank no_ssh no_ssh_check force_multi save_pid",
    "accelerate": (
        "multi_gpu cpu tpu use_deepspeed use_fsdp use_megatron_lm same_network quiet debug m module"
        " no_python use_mps_device mixed_precision_flag"
    ),
    "composer": "module_mode m command_mode c",
    "horovodrun": "gloo mpi verbose use-gloo use-mpi disable-cache check-build",
}
# Short options with a value, of launchers that have none of our tables.
_TORCHRUN_KEYS = {
    "max-restarts": "max_restarts",
    "monitor-interval": "monitor_interval",
    "role": "role",
    "log-dir": "log_dir",
    "redirects": "redirects",
    "r": "redirects",
    "tee": "tee",
    "t": "tee",
    "local-ranks-filter": "local_ranks_filter",
}


class Launch(NamedTuple):
    """How the ranks are started, and what they run.

    `launcher`: torchrun, deepspeed, accelerate, composer, horovodrun, mpirun, or "" for tasks of
    srun. `options`: its options by name. `srun`: those of srun. `runtime`, `image`, `mounts`: of a
    container, "" without one. `prefix`: programs in front of the ranks. `words`: what a rank runs.
    `has_srun`: srun starts it; else it runs on the first node. `environment`: the exported
    variables. `command`: the launcher with its options and what it starts.
    """

    call: Call
    launcher: str
    options: Mapping[str, str]
    srun: Mapping[str, str]
    runtime: str
    image: str
    mounts: tuple[str, ...]
    prefix: tuple[str, ...]
    words: tuple[str, ...]
    has_srun: bool
    environment: Mapping[str, str]
    code: str = ""
    command: tuple[str, ...] = ()

    @property
    def derived(self) -> dict[str, str]:
        """Options of the launcher that every job of clusterjobs sets itself."""
        names = set(_DERIVED.get(self.launcher, "").replace("-", "_").split())
        return {one: value for one, value in self.options.items() if one.replace("-", "_") in names}

    @property
    def own_options(self) -> dict[str, str]:
        """The other options of the launcher."""
        return {one: value for one, value in self.options.items() if one not in self.derived}


def launches(calls: Sequence[Call]) -> list[Launch]:
    """The calls that start ranks, in their order."""
    found = [peel(call) for call in calls]
    return [one for one in found if one is not None and _trains(one)]


def _trains(launch: Launch) -> bool:
    if launch.code:
        return True
    if not launch.words:
        return False
    name = posixpath.basename(launch.words[0])
    if name in TOOLS or (_PYTHON.fullmatch(name) and launch.words[1:2] in _NO_SCRIPT):
        return False
    if launch.words[1:2] == ("-m",) and launch.words[2:3] in _INSTALLERS:
        return False
    if launch.has_srun or launch.launcher or name in _CONTAINERS:
        return True
    if any((name, *launch.words[1:])[: len(one)] == one for one in _RUNNERS):
        return True
    return bool(_PYTHON.fullmatch(name)) or name.endswith((".py", ".sh"))


def peel(call: Call) -> Launch | None:
    """What a call starts; None if it is no program that starts others or Python."""
    peeled = _Peeled(call)
    peeled.all(list(call.words))
    if not (peeled.has_srun or peeled.launcher or peeled.words or peeled.runtime):
        return None
    return Launch(
        call,
        peeled.launcher,
        peeled.options,
        peeled.srun,
        peeled.runtime,
        peeled.image,
        tuple(peeled.mounts),
        tuple(peeled.prefix),
        tuple(peeled.words),
        peeled.has_srun,
        {**call.environment, **peeled.environment},
        peeled.code,
        tuple(peeled.command),
    )


def without_srun(call: Call) -> tuple[Mapping[str, str], str, list[str]]:
    """The options of a call of srun, the image of pyxis among them, and what each task runs."""
    peeled = _Peeled(call)
    words = peeled.of_srun(list(call.arguments))
    return peeled.srun, peeled.image, words


class _Peeled:
    """The layers of a launch that were found so far."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.launcher = self.runtime = self.image = self.code = ""
        self.options: dict[str, str] = {}
        self.srun: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.mounts: list[str] = []
        self.prefix: list[str] = []
        self.words: list[str] = []
        self.command: list[str] = []
        self.has_srun = False

    def all(self, words: list[str]) -> None:
        """Peel one layer after the other."""
        while words:
            name = posixpath.basename(words[0])
            if name == "srun":
                self.has_srun = True
                words = self.of_srun(words[1:])
            elif name in _MPI:
                self.launcher = "mpirun"
                words = self._mpirun(words[1:])
            elif name == "env":
                words = self._env(words[1:])
            elif name in _CONTAINERS and not _MOUNT_WITH_OPTIONS.search(" ".join(words)):
                words = self._container(name, words[1:])
            elif name in _IN_FRONT:
                words = self._in_front(words)
            elif name in ("bash", "sh") and "-c" in words[1:3]:
                after = words[words.index("-c") + 1 :]
                self.code = with_arguments(after[0], after[2:]) if after else ""
                return
            elif name in _LAUNCHERS:
                self.launcher, self.command = name, words
                words = self._launcher(words[1:])
                self.words = words
                return
            elif module := _module_launcher(words):
                self.command = words
                self.launcher, words = module
                self.words = self._launcher(words)
                return
            else:
                self.words = words
                return

    def of_srun(self, words: list[str]) -> list[str]:
        """Take the options of srun; what is left is what it starts."""
        known = known_options("srun")
        while words and words[0].startswith("-"):
            word = words.pop(0)
            if word == "--":
                break
            if word.startswith("--"):
                name, sign, value = word[2:].partition("=")
                full = [one for one in known.takes_value if one.startswith(name)]
                name = name if name in known.takes_value or len(full) != 1 else full[0]
                dashed = name.replace("_", "-")  # srun takes --cpu_bind, too
                name = dashed if dashed in known.takes_value else name
                if not sign and known.takes_value.get(name) == "required" and words:
                    value = words.pop(0)
            else:
                letter, value = word[1], word[2:].removeprefix("=")
                name = known.short.get(letter, letter)
                if not value and known.takes_value.get(name) == "required" and words:
                    value = words.pop(0)
            self.srun[name] = value
        self._container_of_pyxis()
        return words

    def _container_of_pyxis(self) -> None:
        if image := self.srun.pop("container-image", ""):
            self.runtime, self.image = "pyxis", image
        if mounts := self.srun.pop("container-mounts", ""):
            self.mounts += mounts.split(",")

    def _mpirun(self, words: list[str]) -> list[str]:
        """Options of Open MPI, all with one value but for some flags; `-x NAME[=VALUE]`."""
        while words and words[0].startswith("-"):
            name, sign, value = words.pop(0).lstrip("-").partition("=")
            if not sign and name not in _MPI_FLAGS and words:
                value = words.pop(0)
            if name == "mca" and words:
                value = f"{value} {words.pop(0)}"
            if name == "x":
                variable, has_value, text = value.partition("=")
                if has_value:
                    self.environment[variable] = text
            else:
                self.options[name if name != "mca" else f"mca {value.split()[0]}"] = value
        return words

    def _env(self, words: list[str]) -> list[str]:
        while words and (words[0].startswith("-") or "=" in words[0]):
            word = words.pop(0)
            if word in ("-u", "--unset"):
                words = words[1:]
            elif not word.startswith("-"):
                name, _, value = word.partition("=")
                self.environment[name] = value
        return words

    def _container(self, name: str, words: list[str]) -> list[str]:
        if name in ("singularity", "apptainer"):
            words = words[1:] if words[:1] in (["exec"], ["run"], ["shell"]) else words
        elif name in ("docker", "podman"):
            words = words[1:] if words[:1] in (["run"], ["exec"]) else words
        self.runtime = "docker" if name == "podman" else name
        while words and words[0].startswith("-"):
            option, sign, value = words.pop(0).partition("=")
            if not sign and option not in _CONTAINER_FLAGS and words:
                value = words.pop(0)
            if option in ("-B", "--bind", "--mount", "-v", "--volume", "-V"):
                self.mounts += value.split(",") if option != "--mount" else [value]
            elif option in ("--env", "-e"):
                variable, has_value, text = value.partition("=")
                if has_value:
                    self.environment[variable] = text
            elif option == "--image":
                self.image = value
        if not self.image and words and name != "shifter":  # its image may be an option of sbatch
            self.image = words.pop(0)
        if self.image.endswith((".sif", ".img")) and "/" not in self.image:
            self.image = f"./{self.image}"  # a file, and not a name in a registry
        return words

    def _in_front(self, words: list[str]) -> list[str]:
        """A program and its options, as far as the program that it starts."""
        end = next((n for n, word in enumerate(words) if n and _starts_ranks(word)), 0)
        self.prefix += words[: end or len(words)]
        return words[end:] if end else []

    def _launcher(self, words: list[str]) -> list[str]:
        flags = set(_FLAGS.get(self.launcher, "").replace("-", "_").split())
        words = words[1:] if self.launcher == "accelerate" and words[:1] == ["launch"] else words
        found: dict[str, str] = {}
        while words and words[0].startswith("-"):
            name, sign, value = words.pop(0).lstrip("-").partition("=")
            if not sign and name.replace("-", "_") not in flags and words:
                value = words.pop(0)
            found[name.replace("_", "-") if self.launcher == "torchrun" else name] = value
        self.options = found
        if {"m", "module"} & found.keys():
            found.pop("m", found.pop("module", ""))
            return ["python", "-m", *words]
        if {"no-python", "no_python"} & found.keys():
            found.pop("no-python", found.pop("no_python", ""))
            return words
        return ["python", *words]


_MPI_FLAGS = names_in(
    "allow-run-as-root oversubscribe report-bindings tag-output v verbose q quiet "
    "display-map nooversubscribe bind-to-core"
)
_CONTAINER_FLAGS = names_in(
    "--nv --rocm --cleanenv -e_ --contain -c --containall -C --writable --writable-tmpfs "
    "--rm -it -i -t -ti --privileged --no-home --fakeroot --compat --init --pid --ipc_ "
    "--userns -u --no-mount_ --nvccli"
)


def _starts_ranks(word: str) -> bool:
    name = posixpath.basename(word)
    starts_others = ("srun", *_MPI, *_CONTAINERS, *_LAUNCHERS, "bash", "sh")
    return bool(_PYTHON.fullmatch(name)) or name in starts_others


def _module_launcher(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """`python -m torch.distributed.run ...` as (launcher, the words after it)."""
    if not _PYTHON.fullmatch(posixpath.basename(words[0])):
        return None
    rest = list(words[1:])
    while rest[:1] and rest[0] in ("-u", "-O", "-I", "-s"):
        rest = rest[1:]
    if rest[:1] != ["-m"] or len(rest) < 2:
        return None
    known = {
        "torch.distributed.run": "torchrun",
        "torch.distributed.launch": "torchrun",
        "deepspeed.launcher.runner": "deepspeed",
        "accelerate.commands.launch": "accelerate",
    }
    launcher = known.get(rest[1])
    return (launcher, rest[2:]) if launcher else None


def torchrun_keys(options: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Options of torchrun as keys below `torchrun:`, and those that have none."""
    keys = {
        _TORCHRUN_KEYS[name]: value for name, value in options.items() if name in _TORCHRUN_KEYS
    }
    return keys, [name for name in options if name not in _TORCHRUN_KEYS]


def with_arguments(code: str, arguments: Sequence[str]) -> str:
    """Code of bash that has these arguments as `$1` and `$@`."""
    return f"set -- {shlex.join(arguments)}\n{code}" if arguments else code


def program_words(launch: Launch) -> Iterator[str]:
    """The words that a rank runs, Python's own path left out: what an import must keep."""
    words = list(launch.words)
    if words and _PYTHON.fullmatch(posixpath.basename(words[0])):
        words = words[1:]
        while words[:1] in (["-u"], ["-O"]):
            words = words[1:]
    yield from words
