"""Reads the end of a job's log: the last step, the first traceback, the script's last message."""

import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clusterjobs.files import open_regular
from clusterjobs.launchers import Launcher

END = 64 << 10  # bytes of a log that are read for its last step
_LAST_LINES = 4 << 10

# For programs whose framework declares no line, the most certain form first. `bar`: of tqdm.
_STEPS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\biteration:? +(?P<step>\d{1,15}) */ *(?P<steps>\d{1,15})",  # Megatron, GPT-NeoX
        r"\b(?:global_step|num_updates)\b\"?[ =:]+\"?(?P<step>\d{1,15})",  # NeMo, fairseq
        r"(?i)\bsteps?\b[\"']?[ =:/#]+(?P<step>\d{1,15})(?![\d.,]*\d|\w)"
        r"(?: */ *(?P<steps>\d{1,15}))?",
        r"\[batch=(?P<step>\d{1,15})(?:/(?P<steps>\d{1,15}))?\]",  # Composer
        r"\bIter(?:ation)? ?#?:? ?(?P<step>\d{1,15})\b",  # Horovod's examples
        r"\|\s*(?P<step>\d{1,15})/(?P<steps>\d{1,15}) \[",  # tqdm: Hugging Face Trainer, Lightning
    )
)
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Step(NamedTuple):
    """The last step in a log; `steps`: the total, None if the log does not have it."""

    step: int
    steps: int | None

    def __str__(self) -> str:
        return str(self.step) if self.steps is None else f"{self.step}/{self.steps}"


def read_log_end(log: pathlib.Path, most: int = END) -> str:
    """The last bytes of a log, without a line that is cut; "" if it is no regular file."""
    try:
        with open_regular(log) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return ""
    text = data.decode(errors="replace")
    return text.partition("\n")[2] or text if size > most else text


def last_logged_step(log: pathlib.Path, patterns: Iterable[str] = ()) -> Step | None:
    """The last step of a log. `patterns`: as of `last_step`."""
    forms = _forms(patterns)
    sizes = (_LAST_LINES, END)  # mostly it is in the very last lines
    found = (_last(read_log_end(log, most), known) for known in forms for most in sizes)
    return next(filter(None, found), None)


def last_step(text: str, patterns: Iterable[str] = ()) -> Step | None:
    """The last step in the text. `patterns`: of the framework, with a group `step`."""
    return next(filter(None, (_last(text, known) for known in _forms(patterns))), None)


_Forms = tuple[re.Pattern[str], ...]


def _forms(patterns: Iterable[str]) -> list[_Forms]:
    """The framework's own come first."""
    return [one for one in (tuple(map(re.compile, patterns)), _STEPS) if one]


def _last(text: str, patterns: _Forms) -> Step | None:
    return next(filter(None, (_step(line, patterns) for line in reversed(_lines(text)))), None)


def _step(line: str, patterns: _Forms) -> Step | None:
    """The last one of a line: a result may follow a progress bar in the same line."""
    for pattern in patterns:
        for found in reversed(list(pattern.finditer(line))):
            numbers = found.groupdict()
            step, steps = _number(numbers.get("step")), _number(numbers.get("steps"))
            if step is not None:
                return Step(step, steps)
    return None


def _number(text: str | None) -> int | None:
    """Python refuses to read numbers of thousands of digits."""
    return int(text) if text and len(text) < 16 and text.isdecimal() else None


def last_match(text: str, pattern: re.Pattern[str]) -> str:
    """What the pattern's one group matched last; "" if nothing did."""
    for line in reversed(_lines(text)):
        if found := list(pattern.finditer(line)):
            return found[-1][1] or ""
    return ""


def _lines(text: str) -> list[str]:
    """The lines without colours. A progress bar overwrites its line with a carriage return."""
    return _COLOURS.sub("", text).replace("\r", "\n").split("\n")


# ------------------------------------------------------------------ tracebacks
# The first Python traceback of a job's last attempt, and the rank that printed it.


MOST = 4 << 20  # bytes of the end of a log that are searched
LINES = 12  # of a traceback that are shown

_START = "Traceback (most recent call last):"
_LONGEST_LABEL = 256
_LONGEST_LINE = 300
_ANSI_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LINE_ENDS = re.compile(r"\r+\n?")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_ENDED = re.compile(r"(?m)^clusterjobs: job [0-9_]+ ended with exit code .*$")
_FAILED_TASK = re.compile(r"(?m)^srun: error: .*?: tasks? (?P<task>\d+)[\d,-]*: (?P<how>.+)$")
_EXITED = "Exited with exit code"  # else srun names the signal: Killed, Out Of Memory
_RANKS = re.compile(r"\[rank(\d+)\]|\[(?:[^][]*,)?(\d+)\]<std\w+>|^ *(\d+): ")
_TASK = re.compile(r" *(\d+): ")
_LOCAL = re.compile(r"\[default(\d+)\]")


# torchrun's summary, after its own traceback: which rank failed first, and how.
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):(?:\n.*){1,4}?\brank +: (?P<rank>\d+) .*"
    r"\n.*exitcode +: (?P<code>-?\d+) (?:.*\n){1,3}?.*traceback +: (?P<cause>.*)"
)
_KILLED = ("-7", "-9", "-11")  # SIGBUS, SIGKILL, SIGSEGV: without a traceback of its own
_OF_TORCHRUN = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_LOG_OF_TORCHRUN = re.compile(r"[A-Z]\d{4} [\d:.]+ .*torch/distributed/")
_SAID_LAST = 3  # lines that are shown of a rank without a traceback


class Traceback(NamedTuple):
    """`rank`: "3", "local rank 3", "node 3" where the label is of a node's launcher, or "" where
    the lines have no label. `what`: the title of the lines."""

    rank: str
    lines: tuple[str, ...]
    what: str = "the first traceback"


def first_traceback(log: str, launcher: Launcher | None = None) -> Traceback | None:
    """The end of the first traceback of the last attempt.

    If srun has named the task that failed first, the first one of that task. Where srun or torchrun
    names a rank that a signal has killed, that signal; where no rank has a traceback, the last
    lines before that of torchrun. `launcher`: of the job, if it is known; srun's number of a task
    is a rank if it is not.
    """
    parts = _ENDED.split(_LINE_ENDS.sub("\n", _ANSI_CODES.sub("", log)))
    # the last attempt, or the one before it, if that alone has a traceback
    text = next((part for part in reversed(parts[-2:]) if _START in part), "")
    starts = list(_starts(text))
    if not starts:
        return None
    failed = _FAILED_TASK.search(text)
    task = re.compile(rf" *{failed['task']}: ") if failed else None
    of_task = next((one for one in starts if task and task.match(one[1])), None)
    if failed and not of_task and not failed["how"].startswith(_EXITED):
        rank = _rank(f"{failed['task']}: ", launcher)
        return Traceback(rank, (failed["how"][:_LONGEST_LINE],), "the failure")
    at, label = of_task or starts[0]
    lines = [line[:_LONGEST_LINE] for line in _log_lines(text[at:], label)]
    cause = _ROOT_CAUSE.search(text)
    if cause and cause["code"] in _KILLED:
        return Traceback(cause["rank"], (cause["cause"][:_LONGEST_LINE],), "the failure")
    if lines[-1].startswith(_OF_TORCHRUN):
        rank = cause["rank"] if cause else _rank(label, launcher)
        return Traceback(rank, _said_before(text[:at], label), "the last lines")
    return Traceback(_rank(label, launcher), tuple(lines[-LINES:]))


def _said_before(text: str, label: str) -> tuple[str, ...]:
    """The last lines with that label, except those of torchrun itself."""
    lines = (line[len(label) :] for line in text.splitlines() if line.startswith(label))
    said = [one[:_LONGEST_LINE] for one in lines if one.strip() and not _LOG_OF_TORCHRUN.match(one)]
    return tuple(said[-_SAID_LAST:])


def _starts(text: str) -> Iterator[tuple[int, str]]:
    """The positions of the first lines of tracebacks, and their labels."""
    found = -1
    while (found := text.find(_START, found + 1)) >= 0:
        start = text.rfind("\n", 0, found) + 1
        if found - start <= _LONGEST_LABEL:
            yield start, text[start:found]


def _log_lines(text: str, label: str) -> list[str]:
    """The lines with that label, to the exception; with those of exceptions that followed it."""
    found: list[str] = []
    labelled = (line[len(label) :] for line in text.splitlines() if line.startswith(label))
    is_open = True
    for line in labelled:
        if is_open:
            found.append(line)
            is_open = not found[1:] or not line.strip() or line[:1].isspace()
        elif line.startswith(_CHAINED):
            found += ["", line]
        elif line.startswith("Traceback ") and found[-1].startswith(_CHAINED):
            found.append(line)
            is_open = True
        elif line.strip():
            break
    return found


def _rank(label: str, launcher: Launcher | None) -> str:
    if local := _LOCAL.search(label):
        return f"local rank {local[1]}"
    if launcher and not launcher.task_per_rank and (task := _TASK.fullmatch(label)):
        return "" if launcher.over_ssh else f"node {task[1]}"
    numbers = [number for match in _RANKS.findall(label) for number in match if number]
    return numbers[-1] if numbers else ""


# ------------------------------------------------------------------ messages
# The last message of the job script itself in a job's last attempt: why it has ended.

_OF_THE_SCRIPT = re.compile(
    r"(?m)^(?:clusterjobs: (?!job [0-9_]+ ended )|/\S*(?:slurm_script|job\.sh): line \d+: )(.+)$"
)
_FAILED_STEP = re.compile(r"step .+ ended with exit code \d+|no (?:answer|progress) .*")
_EXPLAINED = ("cancelled", "time_limit")  # the reason alone says it


def last_message(log: pathlib.Path, reason: str) -> str:
    """What the script has said last in an attempt that ended for `reason`; "" if nothing of use.

    A failure is mostly that of the program, whose output is not quoted here.
    """
    if not reason or reason == "completed":
        return ""
    text = _LINE_ENDS.sub("\n", _ANSI_CODES.sub("", read_log_end(log)))
    attempts = [part for part in _ENDED.split(text) if part.strip()]
    found = _OF_THE_SCRIPT.findall(attempts[-1]) if attempts else []
    no_restart = [one for one in found if one.startswith("no restart: ")]
    if reason in _EXPLAINED:
        found = []
    elif reason == "failure":
        found = [one for one in found if _FAILED_STEP.fullmatch(one)]
    said = [one for one in found if one not in no_restart]
    due = [one for one in no_restart if not one.endswith(" allows 0")]
    return "; ".join(one[:_LONGEST_LINE] for one in (*said[-1:], *due[-1:]))
