"""MosaicML's composer, one per node, and its own options.

Source: Composer 0.32.1, composer/cli/launcher.py.
"""

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
    if path and launched.nodes * launched.ranks_per_node > 1 and "{rank}" not in path:
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
)
