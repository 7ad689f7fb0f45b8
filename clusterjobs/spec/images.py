"""The texts of a container: names of images, mounts and sizes, judged each by itself.

Which form of a name a runtime takes is the plan's to say; here stands what none of them takes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from clusterjobs.spec.field_types import first_control_character, path, plain, word
from clusterjobs.spec.references import has_variable


def _fixed(value: Any, what: str) -> str:
    text = word(value)
    if has_variable(text):
        raise ValueError(f"{what} is fixed when the job is rendered: --set changes it")
    return text


def image(value: Any) -> str:
    """An image: a path on the nodes, or a name in a registry."""
    text = _fixed(value, "the image")
    if bad := first_control_character(text):
        raise ValueError(f"an image with {bad}: remove it")
    if text.startswith("-"):
        raise ValueError("an image with '-' in front would be read as an option: remove it")
    if " " in text:
        raise ValueError("an image with a blank: rename the file; registries have no blanks either")
    if re.match(r"(?:[a-z]+://)?[^/@#]+:[^/@#]+@", text):
        raise ValueError("a password in an image's name: the runtime's own login file keeps it")
    return text


_SEPARATORS = re.compile(r'[:,"]')


def mount(value: Any) -> Any:
    """`source:target`, with `:ro` behind it if nothing may be written; or a map of the same."""
    if not isinstance(value, str):
        return value
    parts = value.split(":")
    if len(parts) == 3 and parts[2] in ("ro", "rw"):
        return {"source": parts[0], "target": parts[1], "read_only": parts[2] == "ro"}
    if len(parts) != 2:
        raise ValueError("not a mount: write /on/the/node:/inside, or /on/the/node:/inside:ro")
    return {"source": parts[0], "target": parts[1]}


def mount_path(value: Any) -> str:
    """An absolute path that every runtime can write as a mount."""
    text = path(_fixed(value, "a mount"))
    if not text.startswith(("/", "${")):
        raise ValueError("a mount from or to a relative path: write the whole path, /fsx/data")
    if sign := _SEPARATORS.search(text):
        raise ValueError(f"a mount with {sign[0]!r}, which separates mounts: rename the folder")
    return text


# What a container brings itself, or what the kernel shows there.
_OF_THE_IMAGE = re.compile(
    "/|/(?:bin|boot|dev|etc|lib|lib32|lib64|opt|root|run|sbin|usr|usr/local|var)|/(?:proc|sys)(?:/.*)?"
)


def mount_target(value: Any) -> str:
    """A folder inside the container; none that would hide what the container is made of."""
    text = mount_path(value)
    folder = re.sub("/+", "/", text).rstrip("/") or "/"
    if ".." in folder.split("/"):
        raise ValueError("a mount with '..' in it: write where it leads to")
    if _OF_THE_IMAGE.fullmatch(folder):
        raise ValueError(f"a mount over {folder} would hide the image's own: choose another target")
    return text


_SIZE = re.compile(r"[1-9][0-9]*[kmg]", re.IGNORECASE)


def size(value: Any) -> str:
    """A size as Docker writes it: 16g."""
    text = plain(value)
    if not _SIZE.fullmatch(text):
        raise ValueError("not a size: write 16g")
    return text.lower()


Image = Annotated[str, BeforeValidator(image)]
MountPath = Annotated[str, BeforeValidator(mount_path)]
MountTarget = Annotated[str, BeforeValidator(mount_target)]
Size = Annotated[str, BeforeValidator(size)]
