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
        answer.update(json.loads(text.splitlines()[-1]))
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
    request, checks = Request(asked), []
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
    os.write(descriptor, json.dumps(answer).encode() + b"\n")
    find_lines(request, asked, checks)  # if it takes too long, the answer stays as it is
    os.write(descriptor, json.dumps(answer).encode() + b"\n")
    os.close(descriptor)
    sys.stdout.flush()
    os._exit(0)  # threads of a framework may hang at the end


# ------------------------------------------------------------------ refusals that name no flag


def find_lines(request: Request, asked: dict[str, Any], checks: List[Any]) -> None:
    """Give each problem that has no line of the spec the flag or key without which it is not there.

    The check is made again without each flag that has a line, and then without each key of the
    config files, for half of the time at most.
    """
    ends = time.monotonic() + asked["seconds"] / 2
    given = [word.partition("=")[0] for word in request.words if request.origin_of(word)]
    for problem in request.problems:
        message = problem["message"]
        if problem["origin"] or not given or message not in messages_without("", asked, checks):
            continue
        for flag in reversed(given):  # the spec's `args` are the last ones
            left = messages_without(flag, asked, checks) if time.monotonic() < ends else [message]
            is_needed = any(flag in one for one in left)  # says the problem that is there now
            if not left or not (problem["origin"] or is_needed or message in left):
                problem.update(flag=flag, origin=request.origin_of(flag))
            if not left:
                break
    said = {problem["message"] for problem in request.problems}
    keys = [name for name in request.origins if "." in name and not argument_request.is_flag(name)]
    for problem in request.problems:
        for key in reversed(keys):  # the spec's last ones are those of the framework itself
            if problem["origin"] or time.monotonic() > ends:
                break
            others = messages_without(key, asked, checks)
            if problem["message"] not in others and said.issuperset(others):
                problem.update(flag=key, origin=key)


def messages_without(name: str, asked: dict[str, Any], checks: List[Any]) -> List[str]:
    """What the check says without a flag, or without a key of the config files.

    In a fork, since a parser may remember what it read; and with a copy of the files.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with tempfile.TemporaryDirectory() as folder:
            try:
                request = Request(asked)
                if name and not argument_request.is_flag(name):
                    request = Request(argument_request.with_files_without(name, asked, folder))
                request.words = argument_request.without(request.words, [name])
                request.prepare()
                for check in checks:
                    check.check(request)
                said = [one["message"] for one in request.problems]
            except BaseException as error:  # as in `parse`
                said = [str(error)]
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as opened:
        said = json.loads(opened.read() or '["it ended"]')
    os.waitpid(child, 0)
    return list(said)


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
