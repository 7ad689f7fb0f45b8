"""The names of GPT-NeoX's config files, the user's and ours, as deepy.py takes them."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.frameworks.gpt_neox.launch_config import LAUNCH_NAME, MASTER_NAME

OUR_FILES = (f"{JOB_DIR}/{LAUNCH_NAME}", f"{JOB_DIR}/{MASTER_NAME}")


def with_suffix(name: str) -> str:
    """deepy.py takes `small` for `small.yml`."""
    return name if name.endswith((".yml", ".json")) else f"{name}.yml"


def check_names(files: tuple[str, ...], diagnostics: Diagnostics) -> None:
    """deepy.py copies each file beside the checkpoints, under its name without the folder."""
    names = [file.rpartition("/")[2] for file in (*OUR_FILES, *files)]
    for index, name in enumerate(names[2:]):
        if name.endswith(".yaml.yml"):
            what = f"deepy.py would look for {name}"
            diagnostics.problem(
                ("configs", index), what, "rename the file: its name must end in .yml"
            )
        if name in names[: index + 2]:
            diagnostics.problem(
                ("configs", index),
                f"two configs have the name {name}: deepy.py refuses that",
                "rename one of them",
            )


def warn_of_unread(
    files: tuple[str, ...], texts: Mapping[str, str], diagnostics: Diagnostics
) -> None:
    """Warn of files whose content was not checked."""
    for index, file in enumerate(files):
        if file not in texts:
            diagnostics.problem(
                ("configs", index),
                f"{file} is not on this machine and was not checked",
                "put a copy next to the spec, under the same path",
                warning=True,
            )
