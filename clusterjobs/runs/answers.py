"""What `render`, `diff`, `run` and `logs` print with --json.

`clusterjobs schema --of run` prints its schema. Names are stable across versions.
"""

from typing import Any, Literal

from typing_extensions import TypedDict  # of pydantic, which needs this one before Python 3.12

Change = Literal["new", "changed", "unchanged", "stale"]


class File(TypedDict):
    """A file of the output folder. `stale`: it is no longer needed, so it is removed."""

    name: str
    change: Change


class RenderAnswer(TypedDict):
    """`render`. `scripts`: the files for sbatch. `problems`: warnings, as with every --json."""

    folder: str
    files: list[File]
    scripts: list[str]
    problems: list[dict[str, Any]]


class FileDiff(TypedDict):
    """A file that a render would change. `diff`: in the unified format; "" for the manifest."""

    name: str
    change: Change
    diff: str


class DiffAnswer(TypedDict):
    """`diff`: empty `files` if nothing would change."""

    folder: str
    files: list[FileDiff]


class PointEnd(TypedDict):
    """How a point, a task or the job ended: `completed`, or why it did not."""

    name: str
    state: str


class RunAnswer(TypedDict):
    """`run`, once all has ended. `exit_code` is that of the command, too."""

    job_ids: list[str]
    exit_code: int
    points: list[PointEnd]


class LogsAnswer(TypedDict):
    """`logs`. `log`: the file on this machine. `lines`: the last ones, of all attempts."""

    job_id: str
    log: str
    lines: list[str]


ANSWERS = {"render": RenderAnswer, "diff": DiffAnswer, "run": RunAnswer, "logs": LogsAnswer}
