"""MosaicML's composer: its launcher, up to the start of the ranks.

Source: Composer 0.32.1, composer/cli/launcher.py.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any, List

from argument_request import Request, imported


def check(request: Request) -> None:
    """Report what the launcher refuses, and what it would start that is not planned."""
    composer = imported("composer", request.title)
    request.version = f"composer {composer.__version__}"
    launcher = imported("composer.cli.launcher", request.title)
    shape = [f"--nproc={request.ranks_per_node}", f"--world_size={request.world_size}"]
    place = ["--node_rank=0", "--master_addr=localhost", "--master_port=12345"]
    options = [*shape, *place, *request.launcher_words]
    with request.refusals(IndexError, config="composer"):
        request.parse(launcher._get_parser().parse_args, [*options, *request.words])
        sys.argv = ["composer", *options, *request.words]
        args = launcher._parse_args()
        for command in commands_of(launcher, args, os.devnull):
            report_changes(request, command[-len(request.words) :])
        for key in ("stdout", "stderr"):
            with request.refusals(IndexError, AttributeError, config="composer", key=key):
                file = getattr(args, key)
                commands_of(launcher, args, file or os.devnull)


def commands_of(launcher: Any, args: Any, files: str) -> List[List[str]]:
    """The commands of the node's ranks, by the launcher's own function; none is started."""
    found: List[List[str]] = []

    def popen(command: List[str], **_: Any) -> Any:
        found.append(command)
        return types.SimpleNamespace()

    launcher.subprocess = types.SimpleNamespace(Popen=popen, STDOUT=None)
    launcher.open = lambda *_: None  # the files of the ranks
    names = (
        *("nproc", "world_size", "base_rank", "node_rank", "master_addr", "master_port"),
        *("module_mode", "command_mode", "training_script", "training_script_args"),
    )
    launcher._launch_processes(
        **{name: getattr(args, name) for name in names},
        stdout_file_format=files,
        stderr_file_format=None,
        processes={},
    )
    return found


def report_changes(request: Request, words: List[str]) -> None:
    """It replaces `~` and `$NAME` in the script's arguments."""
    flag = ""
    for planned, started in zip(request.words, words):
        flag = planned.partition("=")[0] if planned.startswith("-") else flag
        if planned != started:
            what = f"composer would pass {started}, and not {planned}"
            request.problem(what, "composer/cli/launcher.py", flag)
