"""The container that the ranks run in: its mounts, its options, the variables set inside.

Sources: pyxis 0.20 (its options, args.c), enroot's hooks and mounts, the user guides of Apptainer
1.3 and Docker 28; SingularityCE 3.10; Shifter's documentation and shifter.c; issues of
aws-ofi-nccl; NCCL issue 290.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clusterjobs.frameworks.base import JOB_DIR, folder_on_the_node
from clusterjobs.script import shell
from clusterjobs.script.lines import heading, once_per_node, option_lines, with_reason, wrapped
from clusterjobs.script.shell import ShellText, TemplateName
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.fabrics import EFA_LIBRARIES, fabric_of
from clusterjobs.sections.plan import Container, Environment, Mounted, Placement
from clusterjobs.sections.storage import is_below, path_parts
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.keys.container import Container as WrittenContainer
from clusterjobs.spec.keys.environment import NOT_IN_KIB
from clusterjobs.spec.known_references import role_variables
from clusterjobs.text import (
    ShellVariable,
    Text,
    Value,
    changed,
    expanding,
    is_absolute,
    joined,
    literals,
    parts_of,
    show,
    split_text,
    variable,
)
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ checks
# What cannot be combined with a container, with the reason and what to do instead.


_KEY = ("software", "container")


def check_container(context: Context, container: WrittenContainer) -> None:
    _check_launcher(context, container)
    _check_image(context, container)
    _check_keys(context, container)


def _check_launcher(context: Context, container: WrittenContainer) -> None:
    if refused := context.launcher.refused_runtimes.get(container.runtime):
        context.problem((*_KEY, "runtime"), *refused)
    if container.runtime == "docker" and not context.placement.exclusive:
        context.problem(
            (*_KEY, "runtime"),
            "Docker's containers are outside of Slurm's limits: they see all GPUs of a node, "
            "and this job shares its nodes",
            "whole nodes, or runtime: pyxis",
        )


# ------------------------------------------------------------------ the image's name

_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_PATH = rf"{_NAME}(?:/{_NAME})*"
_TAG = r"(?::[A-Za-z0-9_][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
_HOST = r"[A-Za-z0-9.-]+(?::[0-9]+)?"
_FORMS = {
    "pyxis": re.compile(rf"(?:docker://)?(?:[\w.$-]+@)?(?:{_HOST}#)?{_PATH}{_TAG}"),
    "apptainer": re.compile(rf"(?:docker|oras|library)://(?:{_HOST}/)?{_PATH}{_TAG}"),
    "docker": re.compile(rf"(?:{_HOST}/)?{_PATH}{_TAG}"),
    "shifter": re.compile(rf"(?!docker:|id:)(?:{_HOST}/)?{_PATH}{_TAG}"),
}
_FORMS["singularity"] = _FORMS["apptainer"]
_EXAMPLES = {
    "pyxis": "nvcr.io#nvidia/pytorch:24.01-py3 (# behind the registry), or /fsx/images/a.sqsh",
    "apptainer": "/fsx/images/a.sif, ./a.sif, or docker://nvcr.io/nvidia/pytorch:24.01-py3",
    "docker": "nvcr.io/nvidia/pytorch:24.01-py3",
    "shifter": "nvcr.io/nvidia/pytorch:24.01-py3 (the script adds docker:)",
}
_EXAMPLES["singularity"] = _EXAMPLES["apptainer"]
_HOST_AS_PATH = re.compile(r"(?:docker://)?[\w-]+(?:\.[\w-]+)+(?::\d+)?/")


def _file(image: Value) -> Value:
    """The image on the node: `./a.sif` is below the folder where sbatch is called."""
    return folder_on_the_node(image) if image.startswith("./") else expanding(image)


def _check_image(context: Context, container: WrittenContainer) -> None:
    runtime, image = container.runtime, container.image
    is_file = is_absolute(_file(image)) and runtime not in ("docker", "shifter")
    is_name = bool(_FORMS[runtime].fullmatch(image))
    if runtime == "pyxis" and _HOST_AS_PATH.match(image):
        is_name = False  # enroot would search nvcr.io/nvidia/pytorch on Docker Hub
    if not is_file and not is_name:
        context.problem(
            (*_KEY, "image"), f"{image} is no image of {runtime}", f"write {_EXAMPLES[runtime]}"
        )
    elif not is_file and ":" not in re.split("[/#]", image)[-1]:
        context.problem(
            (*_KEY, "image"),
            "without a tag, the image changes over time",
            "add the tag that you have tested, image:24.01-py3",
            warning=True,
        )
    elif runtime in ("apptainer", "singularity") and not is_file:
        context.problem(
            (*_KEY, "image"),
            "every rank of every node would fetch and convert it",
            f"once: {runtime} build /fsx/images/a.sif {image}",
            warning=True,
        )


def _check_keys(context: Context, container: WrittenContainer) -> None:
    if container.shm and container.runtime != "docker":
        context.problem(
            (*_KEY, "shm"),
            f"{container.runtime} shows the node's own /dev/shm, half of its memory",
            "remove it; only docker has one of its own",
        )
    if container.home and container.runtime == "docker":
        hint = "remove it; mounts: ['${HOME}:/inside'] brings it in"
        context.problem((*_KEY, "home"), "docker does not mount the home folder", hint)
    if container.runtime == "shifter":
        for key, (what, hint) in _NOT_IN_SHIFTER.items():
            if getattr(container, key) not in (False, "image"):
                context.problem((*_KEY, key), what, hint)


_NOT_IN_SHIFTER = {
    "home": ("Shifter mounts the folders that the site has configured", "remove it"),
    "writable": ("images of Shifter are read-only", "remove it; write into a folder of the node"),
    "efa": (
        "Shifter takes libraries of the node from the modules of the site",
        "remove it, and name a module: sbatch: {module: NAME}",
    ),
}


def check_venv(context: Context, venv: Value | None) -> None:
    """A venv is a folder inside the container; a parameter in front of it decides by its value."""
    parameters = context.spec.parameters
    if not venv:
        return
    first = parts_of(venv)[0]
    if isinstance(first, ShellVariable) and first.name in parameters:
        default = parameters[first.name].default
        if not is_absolute(default):
            context.problem(
                ("parameters", first.name),
                f"{first.name} starts the path of software.venv, a folder inside the container: it "
                f"must be absolute, not {show(default)}",
                "write an absolute path: /opt/venv",
            )
    elif not is_absolute(venv):
        context.problem(
            ("software", "venv"),
            "with a container, venv is a folder inside it: the path must be absolute",
            "write an absolute path: venv: /opt/venv",
        )


# ------------------------------------------------------------------ container mounts
# The mounts of a container: those that the job needs, and the spec's own.


def plan_mounts(context: Context, container: WrittenContainer) -> tuple[Mounted, ...]:
    folders = _each_once(_needed_folders(context, container))
    automatic = (*folders, *_of_the_fabric(container, context.placement))
    whose = dict.fromkeys(automatic, "the job mounts it by itself")
    mounts = list(automatic)
    for one in _own(container):
        same = [other for other in mounts if _shows_the_same(one, other)]
        overlapping = [other for other in mounts if other not in same and _overlap(one, other)]
        for other in overlapping:
            _refuse(context, one, other, whose[other])
        if not any(is_below(one.target, other.target) for other in same):
            mounts = [other for other in mounts if other not in same]  # `one` contains them
            mounts.append(one)
            whose[one] = context.diagnostics.line_of(one.path)
    if container.runtime == "shifter":  # it mounts what the site shares (siteFs in udiRoot.conf)
        mounts = [one for one in mounts if one not in automatic]
    for mount in mounts:
        _check_writable(context, container.runtime, mount)
        if mount in automatic:
            context.record(f"mount {show(mount.target)}", show(mount.source), mount.reason)
    return tuple(mounts)


def _overlap(one: Mounted, other: Mounted) -> bool:
    return is_below(one.target, other.target) or is_below(other.target, one.target)


def _shows_the_same(one: Mounted, other: Mounted) -> bool:
    """Whether one of them is needless: the other shows the same folder at the same path."""
    if one.read_only != other.read_only or not _overlap(one, other):
        return False
    inner, outer = (one, other) if is_below(one.target, other.target) else (other, one)
    below = path_parts(inner.target)[len(path_parts(outer.target)) :]
    return path_parts(inner.source) == (*path_parts(outer.source), *below)


def _refuse(context: Context, one: Mounted, other: Mounted, whose: str) -> None:
    target, others = _normal(one.target), _normal(other.target)
    if target != others:
        what = f"{show(target)} and {show(others)} overlap: one is inside the other: {whose}"
        context.problem(one.path, what, "choose another target")
    elif _normal(one.source) == _normal(other.source):
        what = f"{show(target)} is mounted both read-only and writable: {whose}"
        context.problem(one.path, what, "remove one of the two")
    else:
        what = f"{show(target)} is mounted twice: {whose}"
        context.problem(one.path, what, "remove one of the two")


def _normal(path: Value) -> Value:
    return changed(path, lambda text: re.sub("/+", "/", text).rstrip("/"))


def _own(container: WrittenContainer) -> Iterator[Mounted]:
    for index, one in enumerate(container.mounts):
        source, target = expanding(one.source), expanding(one.target)
        path = ("software", "container", "mounts", index)
        yield Mounted(source, target, one.read_only, "mounts: of the spec", path)


Folder = tuple[Path, Value, str]  # the key of the spec that needs it, the folder, the reason


def _needed_folders(context: Context, container: WrittenContainer) -> Iterator[Folder]:
    """The folders that the job needs inside, at their path on the node."""
    key = ("software", "container")
    facts, job, checkpoints = context.facts, context.job, context.checkpoints.path
    for mount in facts.mounts:
        yield key, mount.path, f"shared storage of {facts.name}"
    if job.workdir or not container.workdir:
        yield ("workdir",), job.workdir or folder_on_the_node("."), "where the program runs"
    logs = split_text(job.folder, lambda text: text.rpartition("/"))[0]
    folder = JOB_DIR if isinstance(logs, Text) else logs
    yield ("logs", "path"), folder, "the job's own folder: its configs and records"
    if checkpoints:
        yield ("checkpoints", "path"), checkpoints, "checkpoints"
    for index, one in enumerate(context.spec.data):
        yield ("data", index, "target"), folder_on_the_node(one.target), "data"


def _each_once(folders: Iterable[Folder]) -> Iterator[Mounted]:
    """Each at its path on the node; a folder below another one needs no mount of its own."""
    seen: list[Value] = []
    for path, folder, reason in folders:
        if not any(is_below(folder, other) for other in seen):
            seen.append(folder)
            yield Mounted(folder, folder, False, reason, path)


def _of_the_fabric(container: WrittenContainer, placement: Placement) -> Iterator[Mounted]:
    fabric = fabric_of(placement.fabric)
    if fabric.verbs and container.runtime == "pyxis":
        # enroot shows all of /dev, unless the site restricts it (ENROOT_RESTRICT_DEV).
        yield Mounted("/dev/infiniband", "/dev/infiniband", False, f"{fabric.title}'s devices")
    for folder in fabric.folders if placement.all_nodes > 1 else ():
        yield Mounted(folder, folder, False, f"{fabric.title}: NCCL's plugin and its devices")
    if placement.fabric == "efa" and container.efa == "host":
        yield Mounted("/opt/amazon", "/opt/amazon", True, "EFA's libraries, by efa: host")


def _check_writable(context: Context, runtime: str, mount: Mounted) -> None:
    """Refuse paths with the characters that separate mounts or their parts."""
    separators = {"pyxis": ' :,"\\', "shifter": ':,;"'}.get(runtime, ':,"')
    for sign in separators:
        if any(sign in text for one in (mount.source, mount.target) for text in literals(one)):
            context.problem(
                mount.path,
                f"{runtime} cannot mount {show(mount.source)}: {sign!r} separates its mounts",
                "rename the folder",
            )
            return


def plan(context: Context) -> Container:
    spec = context.spec
    wanted, venv = spec.software.container, spec.software.venv
    assert wanted
    check_container(context, wanted)
    check_venv(context, venv)
    mounts = plan_mounts(context, wanted)
    return Container(
        wanted.runtime,
        _file(wanted.image),
        mounts,
        tuple(_options(context, wanted)),
        (*_names(context.environment, venv), *role_variables(spec.roles)),
        wanted.runtime in context.launcher.ssh_inside,
        venv and expanding(venv),
        _fabric_libraries(wanted, context.placement),
        bool(wanted.setup),
    )


def _fabric_libraries(wanted: WrittenContainer, placement: Placement) -> str | None:
    """Folders of the node with NCCL's plugin that the ranks use; None: the image's own."""
    if placement.fabric == "efa":
        return EFA_LIBRARIES if wanted.efa == "host" else None
    return (placement.all_nodes > 1 and fabric_of(placement.fabric).libraries) or None


# ------------------------------------------------------------------ the environment inside


def _names(environment: Environment, venv: Value | None) -> Iterator[str]:
    yield from ("MASTER_ADDR", "MASTER_PORT")
    yield from (one.name for one in environment.variables)
    yield from (one.name for one in environment.secrets)
    if venv:
        yield "VIRTUAL_ENV"


# ------------------------------------------------------------------ options of each runtime


def _folder_of_ranks(container: WrittenContainer) -> Value:
    """The folder in which the ranks start: by default the script's own, which is `workdir`."""
    return expanding(container.workdir) if container.workdir else variable("PWD")


def _pyxis(container: WrittenContainer) -> Iterator[Directive]:
    yield Directive("container-image", _file(container.image), "software.container")
    yield Directive("container-mounts", variable("container_mounts"), "")
    yield Directive("container-workdir", _folder_of_ranks(container), "else the image's own")
    yield Directive("container-env", variable("container_env"), "else the image's values win")
    if container.home:
        yield Directive("container-mount-home", True, "software.container.home")
    else:
        yield Directive(
            "no-container-mount-home", True, "packages in it would mix with the image's"
        )
    if container.writable:
        yield Directive("container-writable", True, "software.container.writable")


def _apptainer(container: WrittenContainer, placement: Placement) -> Iterator[Directive]:
    if placement.shape.gpus_per_node and placement.node_type.has_amd_gpus:
        yield Directive("rocm", True, "AMD's devices and the driver's libraries of the node")
    elif placement.shape.gpus_per_node:
        yield Directive("nv", True, "NVIDIA's devices and the driver's libraries of the node")
    if not container.home:
        yield Directive("no-home", True, "packages in it would mix with the image's")
    if container.writable:
        yield Directive("writable-tmpfs", True, "software.container.writable; in memory, 64 MB")
    yield Directive("no-eval", True, "else a shell evaluates the values of variables")
    yield Directive("pwd", _folder_of_ranks(container), "where the job runs")


def _shifter(container: WrittenContainer) -> Iterator[Directive]:
    yield Directive("image", joined("docker:", expanding(container.image)), "software.container")
    yield Directive("workdir", _folder_of_ranks(container), "else the image's own")


def _docker(context: Context, container: WrittenContainer) -> Iterator[Directive]:
    placement = context.placement
    yield Directive("network", "host", "the nodes' own addresses and network cards")
    if placement.shape.gpus_per_node and placement.node_type.has_amd_gpus:
        yield Directive("device", "/dev/kfd", "AMD's GPUs: ROCm's driver")
        yield Directive("device", "/dev/dri", "AMD's GPUs")
    elif placement.shape.gpus_per_node:
        yield Directive("gpus", "all", "by NVIDIA's container toolkit")
    fabric = fabric_of(placement.fabric)
    if fabric.verbs:
        reason = f"{fabric.title}; without it NCCL takes TCP (aws-ofi-nccl issue 1020)"
        yield Directive("device", "/dev/infiniband", reason)
    yield Directive("shm-size", _shm(context, container), "Docker's own 64 MB break NCCL")
    limits = context.spec.ulimit
    if "as" in limits:  # source: go-units, ulimit.go
        context.problem(("ulimit", "as"), "Docker cannot set this limit", "remove it")
    if "memlock" not in limits:
        yield Directive("ulimit", "memlock=-1:-1", "the network and NCCL pin memory")
    for name, value in limits.items():
        yield Directive("ulimit", _limit(name, value), "ulimit; Docker does not pass on the job's")
    yield Directive("workdir", _folder_of_ranks(container), "where the job runs")


def _limit(name: str, value: str) -> str:
    """Docker has bytes where `ulimit` has KiB. Source: go-units, ulimit.go."""
    number = -1 if value == "unlimited" else int(value) * (1 if name in NOT_IN_KIB else 1024)
    return f"{name}={number}:{number}"


def _shm(context: Context, container: WrittenContainer) -> str:
    if container.shm:
        return container.shm
    memory_mib = context.placement.node_type.memory_mib
    if memory_mib is None:
        return context.record("container.shm", "16g", "the instance type is unknown")
    half = max(1, memory_mib // 2048)
    reason = "half of the node's memory, as without a container; only what is used is taken"
    return context.record("container.shm", f"{half}g", reason, "NCCL issue 290")


def _options(context: Context, container: WrittenContainer) -> Iterator[Directive]:
    if container.runtime == "pyxis":
        return _pyxis(container)
    if container.runtime in ("apptainer", "singularity"):
        return _apptainer(container, context.placement)
    if container.runtime == "shifter":
        return _shifter(container)
    return _docker(context, container)


# ------------------------------------------------------------------ text
# Mounts, names of variables and options.


_TITLES: Mapping[str, str] = {
    "pyxis": "pyxis starts it on every node, by srun",
    "apptainer": "apptainer starts each rank in it",
    "singularity": "singularity starts each rank in it",
    "docker": "docker starts one on every node",
    "shifter": "shifter starts each rank in it",
}
# Docker passes on only the named variables; the other runtimes pass on all.
_SLURM_NAMES = (
    *("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NNODES", "SLURM_NODEID"),
    *("SLURMD_NODENAME", "SLURM_RESTART_COUNT", "USER"),
)


def render(rendering: Rendering) -> dict[str, Any]:
    plan = rendering.plan
    container = plan.container
    assert container
    runtime = container.runtime
    return {
        "title": heading(f"container: {_TITLES[runtime]}"),
        "template": TemplateName(f"containers/{_same_options(runtime)}.sh.j2"),
        "program": ShellText(runtime),
        "env_prefix": ShellText(f"{runtime.upper()}ENV"),
        "has_functions": runtime == "docker",
        "functions_template": TemplateName("containers/docker_functions.sh.j2"),
        "options": [] if runtime == "pyxis" else option_lines(container.options),
        "image": shell.quote(container.image),
        "mounts": [line for one in container.mounts for line in _mount(runtime, one)],
        "names": _names_text(container),
        "has_venv": container.venv is not None,
        "venv": shell.quote(container.venv or ""),
        "ssh_inside": container.ssh_inside,
        "once_per_node": once_per_node(plan.placement.all_nodes),
    }


def _same_options(runtime: str) -> str:
    """Singularity takes Apptainer's options; its variables have its own name."""
    return "apptainer" if runtime == "singularity" else runtime


def _mount(runtime: str, mount: Mounted) -> list[ShellText]:
    source, target = mount.source, mount.target
    if runtime == "docker":  # --volume would create a missing source, owned by root
        text = joined(
            *("type=bind,source=", source, ",target=", target), ",readonly" * mount.read_only
        )
    else:
        text = joined(source, ":", target, ":ro" * mount.read_only)
    return with_reason(shell.quote(text), mount.reason)


def _names_text(container: Container) -> tuple[ShellText, ...]:
    names = (*container.names, *(_SLURM_NAMES if container.runtime == "docker" else ()))
    return wrapped(tuple(dict.fromkeys(names)))
