"""What cannot be combined with a container, with the reason and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers import Launcher
from clusterjobs.plan.placement import Placement
from clusterjobs.spec.experiment import Container, Parameter
from clusterjobs.spec.references import Variable, is_absolute, split_variables

_KEY = ("software", "container")


def check_container(
    container: Container,
    placement: Placement,
    launcher: Launcher,
    diagnostics: Diagnostics,
) -> None:
    """Report all of it."""
    _check_launcher(container, placement, launcher, diagnostics)
    _check_image(container, diagnostics)
    _check_keys(container, diagnostics)


def _check_launcher(
    container: Container, placement: Placement, launcher: Launcher, diagnostics: Diagnostics
) -> None:
    if refused := launcher.refused_runtimes.get(container.runtime):
        diagnostics.problem((*_KEY, "runtime"), *refused)
    if container.runtime == "docker" and not placement.exclusive:
        diagnostics.problem(
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
    "apptainer": "/fsx/images/a.sif, or docker://nvcr.io/nvidia/pytorch:24.01-py3",
    "docker": "nvcr.io/nvidia/pytorch:24.01-py3",
    "shifter": "nvcr.io/nvidia/pytorch:24.01-py3 (the script adds docker:)",
}
_EXAMPLES["singularity"] = _EXAMPLES["apptainer"]
_HOST_AS_PATH = re.compile(r"(?:docker://)?[\w-]+(?:\.[\w-]+)+(?::\d+)?/")


def _check_image(container: Container, diagnostics: Diagnostics) -> None:
    runtime, image = container.runtime, container.image
    is_file = image.startswith(("/", "${")) and runtime not in ("docker", "shifter")
    is_name = bool(_FORMS[runtime].fullmatch(image))
    if runtime == "pyxis" and _HOST_AS_PATH.match(image):
        is_name = False  # enroot would search nvcr.io/nvidia/pytorch on Docker Hub
    if not is_file and not is_name:
        diagnostics.problem(
            (*_KEY, "image"), f"{image} is no image of {runtime}", f"write {_EXAMPLES[runtime]}"
        )
    elif not is_file and ":" not in re.split("[/#]", image)[-1]:
        diagnostics.problem(
            (*_KEY, "image"),
            "without a tag, the image changes over time",
            "add the tag that you have tested, image:24.01-py3",
            warning=True,
        )
    elif runtime in ("apptainer", "singularity") and not is_file:
        diagnostics.problem(
            (*_KEY, "image"),
            "every rank of every node would fetch and convert it",
            f"once: {runtime} build /fsx/images/a.sif {image}",
            warning=True,
        )


def _check_keys(container: Container, diagnostics: Diagnostics) -> None:
    if container.shm and container.runtime != "docker":
        diagnostics.problem(
            (*_KEY, "shm"),
            f"{container.runtime} shows the node's own /dev/shm, half of its memory",
            "remove it; only docker has one of its own",
        )
    if container.home and container.runtime == "docker":
        hint = "remove it; mounts: ['${HOME}:/inside'] brings it in"
        diagnostics.problem((*_KEY, "home"), "docker does not mount the home folder", hint)
    if container.runtime == "shifter":
        for key, (what, hint) in _NOT_IN_SHIFTER.items():
            if getattr(container, key) not in (False, "image"):
                diagnostics.problem((*_KEY, key), what, hint)


_NOT_IN_SHIFTER = {
    "home": ("Shifter mounts the folders that the site has configured", "remove it"),
    "writable": ("images of Shifter are read-only", "remove it; write into a folder of the node"),
    "efa": (
        "Shifter takes libraries of the node from the modules of the site",
        "remove it, and name a module: sbatch: {module: NAME}",
    ),
}


def check_venv(
    venv: str | None, parameters: Mapping[str, Parameter], diagnostics: Diagnostics
) -> None:
    """A venv is a folder inside the container; a parameter in front of it decides by its value."""
    if not venv:
        return
    first = split_variables(venv)[0]
    if isinstance(first, Variable) and first.name in parameters:
        default = parameters[first.name].default
        if not is_absolute(default):
            diagnostics.problem(
                ("parameters", first.name),
                f"{first.name} starts the path of software.venv, a folder inside the container: it "
                f"must be absolute, not {default}",
                "write an absolute path: /opt/venv",
            )
    elif not is_absolute(venv):
        diagnostics.problem(
            ("software", "venv"),
            "with a container, venv is a folder inside it: the path must be absolute",
            "write an absolute path: venv: /opt/venv",
        )
