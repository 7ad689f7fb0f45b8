"""Give a job's arguments to the framework's own parser, before the ranks start.

    python3 -B argument_check.py [--json] REQUEST NAME=VALUE...

REQUEST is a JSON file (`sections/argument_check.py` makes it); the values are those of the shell
variables in its arguments. The parser runs in a process of its own, on CPUs. Exits with `FAILED` if
it refuses the arguments, and with 0 in all other cases: if the check itself cannot work, it says
why, and the job starts.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, List

import argument_request
from argument_request import NotCheckedError, Request

FAILED = 69  # as in preflight.py
ANSWER = "CLUSTERJOBS_ANSWER"  # the file descriptor of the answer: frameworks print to stdout


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--parse"]:
        parse(json.loads(sys.stdin.read()))
        return 0
    as_json = arguments[:1] == ["--json"]
    file, *settings = arguments[1:] if as_json else arguments
    with open(file, encoding="utf-8") as opened:
        asked = json.load(opened)
    asked["variables"] = dict(item.partition("=")[::2] for item in settings)
    answer = ask(asked)
    if as_json:
        print(json.dumps(answer))
    else:
        show(asked, answer)
    return FAILED if answer["problems"] else 0


# ------------------------------------------------------------------ a process of its own


def ask(asked: dict[str, Any]) -> dict[str, Any]:
    """The answer of the parser's process: `problems`, `version`, and why `not_checked`."""
    started = time.monotonic()
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-B", os.path.abspath(__file__), "--parse"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, ANSWER: str(writing)},
            pass_fds=[writing],
            start_new_session=True,  # compilers and workers that it starts end with it
        )
        os.close(writing)
        try:
            process.communicate(json.dumps(asked).encode(), timeout=asked["seconds"])
            why = f"the check ended with exit code {process.returncode}: {last_line(log)}"
        except subprocess.TimeoutExpired:
            why = f"no answer in {asked['seconds']:g} s"
        finally:
            kill_group(process)
        with os.fdopen(reading, "rb") as opened:
            text = opened.read().decode("utf-8", "replace")
    answer = {"problems": [], "version": "", "not_checked": why}
    if text:
        answer.update(json.loads(text))
    return {**answer, "seconds": round(time.monotonic() - started, 1)}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended, and all that it started
    process.wait()


def last_line(log: Any) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - 4096))
    lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


def parse(asked: dict[str, Any]) -> None:
    """In the process of its own: write the answer to the descriptor that `ask` reads."""
    descriptor = int(os.environ.pop(ANSWER))
    os.set_inheritable(descriptor, False)
    request = Request(asked)
    why = ""
    try:
        checks = [importlib.import_module(name) for name in asked["checks"]]
        request.prepare()
        for check in checks:
            check.check(request)
    except NotCheckedError as error:
        why = str(error)
    except BaseException as error:  # whatever it is, it is told, and the job starts
        why = argument_request.described(error)
    answer = {"problems": request.problems, "version": request.version, "not_checked": why}
    os.write(descriptor, json.dumps(answer).encode())
    os.close(descriptor)
    sys.stdout.flush()
    os._exit(0)  # threads of a framework may hang at the end


# ------------------------------------------------------------------ what is printed


def show(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The problems, each at the line of the spec that made the flag."""
    name = answer["version"] or asked["title"]
    for problem in answer["problems"]:
        print("\n".join(lines_of(problem, asked)))
    if answer["problems"]:
        print(f"clusterjobs: {name} refuses the arguments ({answer['seconds']} s)", flush=True)
    if answer["not_checked"]:
        why = answer["not_checked"]
        print(f"clusterjobs: {name} could not check all arguments: {why}", flush=True)
    elif not answer["problems"]:
        print(f"clusterjobs: {name} accepts the arguments ({answer['seconds']} s)", flush=True)


def lines_of(problem: dict[str, str], asked: dict[str, Any]) -> List[str]:
    """`exp.yaml:9:7 args.lr: what is wrong`, the spec's line, and the parser's own."""
    lines = [problem["message"]]
    if problem["origin"]:
        path, file, line, column, width = asked["origins"][problem["origin"]]
        lines[0] = f"{file}:{line}:{column} {path}: {problem['message']}"
        source = asked["lines"].get(f"{file}:{line}")
        if source:
            lines.append(f"{line:5d} | {source}")
            lines.append("      | " + " " * (column - 1) + "^" * width)
    elif problem["flag"]:
        lines[0] = f"{problem['flag']}: {problem['message']}"
    if problem["source"]:
        lines.append(f"   in {problem['source']}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
