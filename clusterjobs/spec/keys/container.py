"""The keys of `software.container`: image, runtime, mounts.

The plan checks which form of a name each runtime accepts.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clusterjobs.spec.field_types import (
    EXPANDABLE,
    MAX_ITEMS,
    PATH_PATTERN,
    Code,
    Flag,
    expandable_text,
    first_control_character,
    literal_path,
    literal_text,
    plain,
)
from clusterjobs.spec.model import Also, ExpandedByNode, Key, Only, SpecModel, text_like
from clusterjobs.text import Text, expanding, is_absolute, literals, show, split_text

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.

_NOT_GIVEN: Any = ""  # sections/complete.py takes the cluster's instead


_FIXED = "cannot contain a value that is known only when the job runs: write it out"


def image(value: Any) -> str:
    """An image: a path on the nodes, or a name in a registry."""
    text = literal_text(value, f"the image {_FIXED}")
    if bad := first_control_character(text):
        raise ValueError(f"the image contains {bad}: remove it")
    if text.startswith("-"):
        raise ValueError("the image starts with '-' and would be read as an option: remove it")
    if " " in text:
        raise ValueError("the image contains a space: rename the file")
    if re.match(r"(?:[a-z]+://)?[^/@#]+:[^/@#]+@", text):
        raise ValueError("the image contains a password: log in with the container runtime instead")
    return literal_text(expandable_text(text))


_DOCKER_HUB = ("registry-1.docker.io", "index.docker.io", "registry.hub.docker.com", "docker.io")


def spellings(image: str) -> tuple[str, ...]:
    """The image's name as it is written, and in full: with its registry and its tag.

    `docker://nvcr.io#nvidia/pytorch` is also nvcr.io/nvidia/pytorch:latest. An image of Docker Hub
    has its name without the registry, too.
    """
    name = re.sub(r"^dockerd?://", "", image)
    is_file = is_absolute(image) or image.startswith(".") or image.endswith((".sqsh", ".sif"))
    if is_file or "://" in name:
        return (image,)
    name = re.sub(r"^[^/#@]*@(?=[^/#]*[#/])", "", name, count=1)  # enroot's user@registry#image
    first, separator, rest = name.replace("#", "/", 1).partition("/")
    is_registry = "#" in name or "." in first or ":" in first or first == "localhost"
    if not (separator and is_registry):
        first, rest = "docker.io", f"{first}{separator}{rest}"
    if ":" not in rest.rpartition("/")[2]:  # neither a tag nor a digest
        rest += ":latest"
    registry = first.lower().removesuffix(":443")  # the port that is used without one
    if registry not in _DOCKER_HUB:
        return image, f"{registry}/{rest}"
    short = rest.removeprefix("library/")
    full = short if "/" in short else f"library/{short}"
    return image, f"docker.io/{full}", short


_SEPARATORS = re.compile(r'[:,"]')
_BETWEEN_PATHS = re.compile(r":(?!-[^{}]*\})")  # not that of ${NAME:-default}


def mount(value: Any) -> Any:
    """`source:target`, `source:target:ro` for read-only, or a mapping of the same."""
    if not isinstance(value, (str, Text)):
        return value
    parts = split_text(value, _BETWEEN_PATHS.split)
    if len(parts) == 3 and parts[2] in ("ro", "rw"):
        return {"source": parts[0], "target": parts[1], "read_only": parts[2] == "ro"}
    if len(parts) == 1 and value.startswith("/"):
        raise ValueError(f"not a mount: write {show(value)}:{show(value)}, the same folder inside")
    if len(parts) != 2:
        raise ValueError("not a mount: write /on/the/node:/inside, or /on/the/node:/inside:ro")
    return {"source": parts[0], "target": parts[1]}


def mount_path(value: Any) -> str:
    """An absolute path that every runtime can write as a mount."""
    text = literal_path(value, f"a mount {_FIXED}")
    if not is_absolute(text):
        raise ValueError("the path of a mount is relative: write an absolute one, /fsx/data")
    if sign := _SEPARATORS.search("".join(literals(expanding(text)))):
        raise ValueError(
            f"the path of a mount contains {sign[0]!r}, a separator: rename the folder"
        )
    return text


def folder_inside(value: Any) -> str:
    """An absolute path inside the container."""
    text = literal_path(value, f"a folder of the image {_FIXED}")
    if not text.startswith("/"):
        raise ValueError("a folder inside the container must be absolute: write /workspace")
    return text


# The image's own folders, and the kernel's.
_IMAGE_FOLDERS = re.compile(
    "/|/(?:bin|boot|dev|etc|lib|lib32|lib64|opt|root|run|sbin|usr|usr/local|var)|/(?:proc|sys)(?:/.*)?"
)


def mount_target(value: Any) -> str:
    """A folder inside the container that hides none of the image's own."""
    text = mount_path(value)
    folder = re.sub("/+", "/", text).rstrip("/") or "/"
    if ".." in folder.split("/"):
        raise ValueError("the path of a mount contains '..': write the path without it")
    if _IMAGE_FOLDERS.fullmatch(folder):
        raise ValueError(f"a mount at {folder} would hide the image's own: choose another target")
    return text


_SIZE = re.compile(r"[1-9][0-9]*[kmg]", re.IGNORECASE)


def size(value: Any) -> str:
    """A size as Docker writes it: 16g."""
    text = plain(value)
    if not _SIZE.fullmatch(text):
        raise ValueError("not a size: write one, for example 16g")
    return text.lower()


_ABSOLUTE = rf"(?=[/~$]){EXPANDABLE}[^\x00-\x1f,\"]+"
_VISIBLE = rf"(?!(?:{_IMAGE_FOLDERS.pattern})/*(?::|$))"
Image = Annotated[
    str,
    BeforeValidator(image),
    ExpandedByNode(),
    Only(text_like(rf"(?!-)(?!(?:[a-z]+://)?[^/@#]+:[^/@#]+@){EXPANDABLE}[^ \x00-\x1f]+")),
]
MountPath = Annotated[
    str, BeforeValidator(mount_path), ExpandedByNode(), Only(text_like(_ABSOLUTE))
]
MountTarget = Annotated[
    str, BeforeValidator(mount_target), ExpandedByNode(), Only(text_like(_VISIBLE + _ABSOLUTE))
]
FolderInside = Annotated[
    str, BeforeValidator(folder_inside), ExpandedByNode(), Only(text_like(f"(?=/){PATH_PATTERN}"))
]
Size = Annotated[str, BeforeValidator(size), Only(text_like("[1-9][0-9]*[kmgKMG]"))]
_MOUNT_TEXT = text_like(rf"{_ABSOLUTE}:{_VISIBLE}[/~$][^:,\"]*(?::r[ow])?")


class Mount(SpecModel):
    """A folder of the node, mounted in the container."""

    source: Annotated[MountPath, Key("the folder on the node", "/fsx/data")]
    target: Annotated[MountTarget, Key("the folder inside", "/data")]
    read_only: Annotated[Flag, Key("the ranks cannot write to it", "true")] = False


class Container(SpecModel):
    """The image that the ranks run in, and its runtime: by default that of the cluster."""

    runtime: Annotated[
        Literal["pyxis", "apptainer", "singularity", "docker", "shifter"],
        Key(
            "`pyxis`, `apptainer`, `singularity`, `docker`, `shifter`",
            "pyxis",
            default_is="`container_program` of a "
            "[described cluster](slurm-clusters.md#keys-at-the-top), else required",
        ),
    ] = _NOT_GIVEN
    image: Annotated[
        Image,
        Key(
            "a file on shared storage (pyxis: `.sqsh`; apptainer and singularity: `.sif`), or an "
            "image in a registry. `./a.sif` is below the folder where sbatch is called",
            "/fsx/images/pytorch.sqsh",
            also_called=(
                "docker",
                "docker_image",
                "container",
                "container_image",
                "apptainer",
                "singularity",
            ),
        ),
    ]
    mounts: Annotated[
        tuple[Annotated[Mount, BeforeValidator(mount), Also(_MOUNT_TEXT), ExpandedByNode()], ...],
        Field(max_length=MAX_ITEMS),
        Key(
            "`/on/the/node:/inside`, or `/on/the/node:/inside:ro` for read-only; or a map of "
            "`source`, `target`, `read_only`. `${HOME}` is expanded on the node",
            "[/fsx/data:/data:ro]",
            default_is="the folders that the job needs, see below",
            adds_to="items",
        ),
    ] = ()
    workdir: Annotated[
        FolderInside | None,
        Key(
            "the folder inside the container where the ranks run. `script` and relative paths in "
            "`args` are relative to it, and are not checked on the node",
            "/workspace",
            default_is="the job's `workdir`",
        ),
    ] = None
    setup: Annotated[
        Code,
        Key(
            "lines of bash that run inside the container before the program, with the variables "
            "of the job and of the image",
            "[source /opt/env.sh]",
            adds_to="lines",
            references="none",
            see="containers.md#lines-that-run-inside",
        ),
    ] = ()
    efa: Annotated[
        Literal["image", "host"],
        Key(
            "`image` or `host`: the ranks use the EFA libraries of the image or of the node", "host"
        ),
    ] = "image"
    shm: Annotated[
        Size | None,
        Key(
            "the size of /dev/shm (docker; the others have the node's own)",
            "16g",
            default_is="half of the node's memory, as Slurm counts it",
        ),
    ] = None
    writable: Annotated[
        Flag,
        Key(
            "the ranks can write to the image while they run; the changes are not kept (pyxis, "
            "apptainer, singularity)",
            "true",
            default_is="the site's default",
        ),
    ] = False
    home: Annotated[
        Flag,
        Key(
            "mount the home folder (pyxis, apptainer, singularity)",
            "true",
            default_is="`false`: Python packages in it would mix with the image's",
        ),
    ] = False
