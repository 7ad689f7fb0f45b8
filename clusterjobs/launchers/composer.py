"""MosaicML's composer, one per node, and its own options.

Source: Composer 0.32.1, composer/cli/launcher.py.
"""

import re
from typing import Annotated, ClassVar

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers import Launched, Launcher, LauncherOptions
from clusterjobs.spec import field_types
from clusterjobs.spec.model import Key
from clusterjobs.text import Value, expanding, joined


class Options(LauncherOptions):
    """Composer's options. It replaces `{rank}` in names of files, and others."""

    about: ClassVar[Key] = Key(
        "options of the launcher `composer`", "{verbose: true}", schedules=False
    )

    stdout: Annotated[
        field_types.Path | None,
        Key(
            "a file for the output of each rank but the first of each node",
            '"/fsx/logs/{rank}.out"',
        ),
    ] = None
    stderr: Annotated[
        field_types.Path | None, Key("the same for errors", '"/fsx/logs/{rank}.err"')
    ] = None
    verbose: Annotated[field_types.Flag, Key("also print what it starts", "true")] = False

    def words(self, launched: Launched, diagnostics: Diagnostics) -> tuple[Value, ...]:
        """The options, in the order of `composer --help`."""
        for key in ("stdout", "stderr"):
            _check_is_per_rank(key, getattr(self, key), launched, diagnostics)
        return (
            *([joined("--stdout=", expanding(self.stdout))] if self.stdout else []),
            *([joined("--stderr=", expanding(self.stderr))] if self.stderr else []),
            *(["--verbose"] if self.verbose else []),
        )


def _check_is_per_rank(
    key: str, path: str | None, launched: Launched, diagnostics: Diagnostics
) -> None:
    fields = set(re.findall(r"{(\w+)[}:!.[]", path or ""))  # {rank:03d} is one, too
    is_per_rank = "rank" in fields or fields >= {"node_rank", "local_rank"}
    if path and launched.nodes * launched.ranks_per_node > 1 and not is_per_rank:
        diagnostics.problem(
            ("composer", key),
            f"{path} has no {{rank}}: the ranks would write into one file",
            f"{key}: {path}.{{rank}}",
        )


COMPOSER = Launcher(
    "composer",
    "one composer per node starts the node's ranks",
    starts_python=True,
    no_python_option="--command_mode",
    shares_nodes=True,
    sets_node_rank=True,
    options=Options,
    argument_check="check_composer",
    variables_of_options=("BASE_RANK",),
)
