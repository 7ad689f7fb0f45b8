"""Reading logs for `clusterjobs report`: speed beside grep and a plain loop, and memory over 5 GB.

All read the same file from the page cache, in CPU time of whole processes. The loop is what a
script of one's own would do at least: take each line, and look for a word in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.log_lines import FORMATS
from benchmarks.timing import Row, medians_in_turns, processor_seconds

TITLE = "Report: reading logs"
_MB = 1_000_000
_SIZE, _DENSE = 1000 * _MB, 200 * _MB
_LONG = 5_000 * _MB
_FORMAT = 60 * _MB  # of each form of lines
_RUNS = 3
_OTHERS = 30  # lines of other kinds for each line with a step, as libraries print at log level INFO
_LEAST = 100  # MB/s
_MOST_GROWTH = 1.3
_LOOP = """
import sys
found = 0
with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    for line in file:
        found += "iteration" in line
print(found)
"""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        usual, dense = Path(name) / "usual.log", Path(name) / "dense.log"
        _write(usual, _OTHERS, _SIZE)
        _write(dense, 0, _DENSE)
        rows = [
            *_rows("1 GB, a step in 31 lines", usual, _LEAST),
            *_rows("200 MB, every line a step", dense),
        ]
        for title, (line, least) in FORMATS.items():
            log = Path(name) / "format.log"
            _write_format(log, line)
            rows += _rows(f"{_FORMAT // _MB} MB, {title}", log, least)
    return [*rows, _memory()]


def _write_format(log: Path, line: Callable[[int], str]) -> None:
    size = number = 0
    with log.open("w", encoding="utf-8") as file:
        while size < _FORMAT:
            number += 1
            size += file.write(line(number))


def _rows(what: str, log: Path, least: float | None = None) -> list[Row]:
    program = str(Path(sys.executable).with_name("clusterjobs"))
    start = log.with_name("start.log")
    start.write_bytes(b"".join(map(_step, range(10))))
    commands = {
        # Through a pipe: grep stops at the first match if its output is /dev/null.
        "grep": ["sh", "-c", 'grep -c iteration "$1" | cat', "sh", str(log)],
        "loop": [sys.executable, "-c", _LOOP, str(log)],
        "report": [sys.executable, program, "report", str(log)],
        "start": [sys.executable, program, "report", str(start)],
    }
    measured = {
        name: (lambda command=command: processor_seconds(command, os.environ))  # type: ignore[misc]
        for name, command in commands.items()
    }
    seconds = medians_in_turns(measured, _RUNS)
    reading = seconds["report"] - seconds["start"]
    size = log.stat().st_size / _MB
    rate = {name: size / seconds[name] for name in ("grep", "loop")}
    ours = size / reading
    target = f">= {least:g} MB/s" if least else ""
    return [
        Row(f"{what}: grep -c, then report", "MB/s", rate["grep"], ours),
        Row(
            *(f"{what}: a loop over lines, then report", "MB/s", rate["loop"], ours),
            *(target, ours >= least if least else None),
        ),
    ]


def _memory() -> Row:
    """The largest memory of the process for 5 GB of step lines, against a hundredth of it."""
    few, many = _peak_mib(_LONG // 100), _peak_mib(_LONG)
    is_flat = many <= _MOST_GROWTH * few + 200
    what = "memory for 5 GB, every line a step / for 50 MB"
    return Row(what, "MiB", few, many, "<= 1.3 x baseline + 200 MiB", is_flat)


def _peak_mib(size: int) -> float:
    """Of a process that reads so many bytes from a pipe, as /proc says at its end."""
    program = str(Path(sys.executable).with_name("clusterjobs"))
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, sys.executable, program, "report", "-", "--json"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stderr
    number = written = 0
    while written < size:
        block = b"".join(_step(number + one) for one in range(5000))
        number += 5000
        written += len(block)
        process.stdin.write(block)
    process.stdin.close()
    text = process.stderr.read().decode()
    assert process.wait() == 0, text
    return int(text.split()[-1]) / 1024


def _write(log: Path, others: int, least: int) -> None:
    size = number = 0
    with log.open("wb") as file:
        while size < least:
            lines = [
                b"%d: [2026-11-23 01:00:00,000] [INFO] a library says %d\n" % (one % 8, number)
                for one in range(others)
            ]
            size += file.write(b"".join([*lines, _step(number)]))
            number += 1


def _step(number: int) -> bytes:
    """A line of Megatron-LM."""
    return (
        b" [2026-11-23 01:00:00.000000] iteration %8d/  500000 | consumed samples: %12d | "
        b"elapsed time per iteration (ms): %.1f | learning rate: 1.070E-04 | "
        b"global batch size:    64 | lm loss: %.6E | loss scale: 131072.0 | grad norm: 0.774 | "
        b"number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        % (number + 1, 64 * number, 350 + number % 7, 11 / (1 + number / 1000))
    )
