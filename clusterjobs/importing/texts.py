"""Reads the texts for an import: files that a person names, or Slurm's answers on this node.

Slurm's JSON is not read, because files have the texts, and it would be a second reader: `scontrol`
22.05 has no `--json`, 24.11 prints `show config` as text, and sinfo's has another form in each.
"""

import codecs
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clusterjobs.console import show_problems
from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.importing.collect import WANTED, Given, Include, Kind, given, included_lines
from clusterjobs.importing.nodes import Seen, nodes_in
from clusterjobs.importing.records import Line, Text, conf_lines, scontrol_records
from clusterjobs.sites.folders import is_file, read_bytes, shown_name

# ------------------------------------------------------------------ cluster texts
# Runs the commands of Slurm that describe a cluster, each with a timeout.


COMMANDS = {
    "nodes": ("scontrol", "--oneliner", "show", "node"),
    "partitions": ("scontrol", "--oneliner", "show", "partition"),
    "config": ("scontrol", "show", "config"),
    "version": ("scontrol", "--version"),
    "associations": (
        *("sacctmgr", "--parsable2", "show", "associations", "user=USER"),
        "format=Account,Partition,QOS,DefaultQOS",
    ),
    "srun help": ("srun", "--help"),
}
# They change what is printed.
_LEFT_OUT = ("SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "SLURM_JSON", "SLURM_YAML", "SLURM_DEBUG")
_LEAST_SECONDS = 5.0  # for a command that only waited for its output to be read


class Answer(NamedTuple):
    """What a command printed, or why it printed nothing that can be used."""

    name: str
    command: str
    text: str
    failure: str = ""


def ask_slurm(seconds: float, say: Callable[[str], None]) -> Iterator[Answer]:
    """The answer of each command, in order; none is waited for longer than that.

    All are started at once. They are killed if the caller stops.
    """
    running = {name: _start(command) for name, command in COMMANDS.items()}
    until = time.monotonic() + seconds
    try:
        for name, process in running.items():
            command = " ".join(_with_user(COMMANDS[name]))
            say(command)
            if isinstance(process, str):
                yield Answer(name, command, "", process)
            else:
                left = max(until - time.monotonic(), min(_LEAST_SECONDS, seconds))
                yield _answer(name, command, process, left, seconds)
    finally:
        for process in running.values():
            if not isinstance(process, str):
                _kill(process)


def _start(command: tuple[str, ...]) -> subprocess.Popen[bytes] | str:
    """The process, in a group of its own; or why it cannot be started."""
    environment = {key: value for key, value in os.environ.items() if key not in _LEFT_OUT}
    environment |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    try:
        return subprocess.Popen(
            _with_user(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError:
        return f"there is no {command[0]} on the PATH"
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror}"


def _with_user(command: tuple[str, ...]) -> list[str]:
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user that no directory knows
        name = str(os.getuid())
    return [word.replace("=USER", f"={name}") for word in command]


def _answer(
    name: str, command: str, process: subprocess.Popen[bytes], left: float, seconds: float
) -> Answer:
    try:
        out, error = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Answer(name, command, "", f"it has not answered in {seconds:g} s")
    text = out.decode(errors="replace")
    if process.returncode:
        said = (error.decode(errors="replace").strip() or text.strip()).splitlines()
        reason = said[-1].strip()[:200] if said else f"exit code {process.returncode}"
        return Answer(name, command, "", reason)
    return Answer(name, command, text)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it with its children, if it still runs. One in a dead file system cannot be killed."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_LEAST_SECONDS)


def slurm_folder() -> str:
    """The folder of srun on this node, if it is not one that is on every user's PATH."""
    found = shutil.which("srun")
    folder = str(Path(found).parent) if found else ""
    return "" if folder in ("", "/usr/bin", "/bin", "/usr/local/bin") else folder


def container_programs() -> tuple[str, ...]:
    """The programs for containers that this node has."""
    return tuple(name for name in ("apptainer", "singularity", "shifter") if shutil.which(name))


_SLURM_CONF = "/etc/slurm/slurm.conf"
_KINDS: dict[str, Kind] = {
    "nodes": "scontrol",
    "partitions": "scontrol",
    "config": "config",
    "version": "version",
    "associations": "associations",
    "srun help": "srun help",
}
_LACKS = {
    "nodes": "the nodes are taken from slurm.conf",
    "partitions": "the limits of the partitions are unknown",
    "config": "memory_scheduling and the cluster's name are unknown",
    "associations": "accounts and qos are left out",
    "srun help": "container_program is left out",
}


_MAX_BYTES = 1 << 26  # scontrol show node needs about 1 KiB a node
_MAX_LINES, _MAX_LINE = 1_000_000, 1 << 20
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _read(path: pathlib.Path) -> str:
    """The text of a file. A reason or a comment may be in any encoding: Slurm does not care."""
    data, name = read_bytes(path, _MAX_BYTES + 1), shown_name(path)
    if len(data) > _MAX_BYTES:
        raise one_problem(
            f"the file has more than {_MAX_BYTES:,} bytes", Location(name, 1, 1), hint=WANTED
        )
    text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8-sig", errors="replace")
    if "\0" in text:
        what = "the file is binary, and not text that Slurm has printed"
        raise one_problem(what, Location(name, 1, 1), hint=WANTED)
    lines = text.split("\n", _MAX_LINES)
    if len(lines) > _MAX_LINES:
        what = f"more than {_MAX_LINES:,} lines"
        raise one_problem(what, Location(name, _MAX_LINES + 1, 1), hint=WANTED)
    if number := next((at for at, line in enumerate(lines, 1) if len(line) > _MAX_LINE), 0):
        what = f"a line of more than {_MAX_LINE:,} characters"
        raise one_problem(what, Location(name, number, 1), hint=WANTED)
    return text


# ------------------------------------------------------------------ files


def texts_of_files(files: Sequence[pathlib.Path]) -> tuple[list[Given], Include]:
    """The texts of the files, and how the files that slurm.conf includes are found.

    gres.conf beside slurm.conf is read as well. Raises InputError with the problems of all files.
    """
    found: dict[pathlib.Path, Given] = {}
    problems: list[Problem] = []
    others: list[
        Problem
    ] = []  # such as topology.conf: /etc/slurm/*.conf has them beside slurm.conf
    for file in files:
        try:
            found[file] = given(Text(shown_name(file), _read(file)))
        except InputError as error:
            kept = others if file.suffix == ".conf" and file.stem != "slurm" else problems
            kept += error.problems
    if problems or not any(one.kind == "slurm.conf" for one in found.values()):
        problems += others
    if problems:
        raise InputError(problems)
    show_problems([one._replace(warning=True, info=True) for one in others])
    for file in [file for file, one in found.items() if one.kind == "slurm.conf"]:
        _add_gres_conf(file, found)
    included = {
        path.resolve()
        for file, one in found.items()
        if one.kind == "slurm.conf"
        for line in conf_lines(one.text)
        if (path := _included(line.text, file, files))
    }
    return [one for file, one in found.items() if file.resolve() not in included], _include(files)


def _add_gres_conf(file: pathlib.Path, found: dict[pathlib.Path, Given]) -> None:
    beside = file.parent / "gres.conf"
    if beside not in found and is_file(beside):
        found[beside] = Given(Text(str(beside), _read(beside)), "gres.conf")


def _include(files: Sequence[pathlib.Path]) -> Include:
    def include(name: str, line: Line) -> Text:
        path = _included(f"Include {name}", pathlib.Path(line.file), files)
        if path is None:
            hint = "give the file, too: --from-files slurm.conf " + pathlib.PurePath(name).name
            raise one_problem(f"there is no file {name}", line.where, hint=hint)
        return Text(str(path), _read(path))

    return include


def _included(line: str, conf: pathlib.Path, files: Sequence[pathlib.Path]) -> pathlib.Path | None:
    """The file of an Include line: as written, beside slurm.conf, or one that was given."""
    word, _, name = line.partition(" ")
    wanted = name.strip().strip('"')
    if word.lower() != "include" or not wanted:
        return None
    base = pathlib.PurePath(wanted).name
    given_files = [file for file in files if file.name == base]
    places = [*given_files, conf.parent / wanted, conf.parent / base]
    return next((path for path in places if is_file(path)), None)


# ------------------------------------------------------------------ Slurm


def texts_of_slurm(
    seconds: float, say: Callable[[str], None]
) -> tuple[list[Given], Include, list[Problem], Seen]:
    """Slurm's answers, what this node itself shows, and warnings about what is missing."""
    answers = {answer.name: _checked(answer) for answer in ask_slurm(seconds, say)}
    found = [
        Given(Text(answer.command, answer.text), _KINDS[name])
        for name, answer in answers.items()
        if not answer.failure
    ]
    warnings = [
        _warning(answer) for name, answer in answers.items() if answer.failure and name in _LACKS
    ]
    conf = _conf_file(answers["config"])
    if answers["nodes"].failure and not is_file(conf):
        raise InputError([_no_slurm(answers["nodes"], conf)])
    if answers["nodes"].failure or _hides_nodes(answers):
        found += _own_conf(conf, warnings)
    for path, kind in _FILES.items():
        found += _own_file(pathlib.Path(path), kind, warnings)
    found += _own_file(conf.parent / "gres.conf", "gres.conf", [])
    here = Seen(found_programs=container_programs(), slurm_commands=slurm_folder())
    return found, _include([]), warnings, here


def _checked(answer: Answer) -> Answer:
    """The answer; a failure if it has no node: users do not see cloud nodes that are off."""
    if answer.name != "nodes" or answer.failure or "NodeName=" in answer.text:
        return answer
    failure = "it shows no nodes: those that are powered down need PrivateData=cloud in slurm.conf"
    return answer._replace(failure=failure)


_FILES: dict[str, Kind] = {"/proc/mounts": "mounts", "/etc/exports": "exports"}


def _own_file(path: pathlib.Path, kind: Kind, warnings: list[Problem]) -> list[Given]:
    if not is_file(path):
        return []
    try:
        return [Given(Text(str(path), _read(path)), kind)]
    except InputError as error:
        warnings += [problem._replace(warning=True) for problem in error.problems]
        return []


def _hides_nodes(answers: dict[str, Answer]) -> bool:
    """Whether partitions have nodes that `scontrol show node` does not show."""
    nodes, partitions = (Text(name, answers[name].text) for name in ("nodes", "partitions"))
    shown = {record.get("NodeName") for record in scontrol_records(nodes, "nodename")}
    try:
        return any(
            name not in shown
            for record in scontrol_records(partitions, "partitionname")
            for name in nodes_in(record)
        )
    except InputError:  # it is reported when the texts are read
        return False


def _own_conf(conf: pathlib.Path, warnings: list[Problem]) -> list[Given]:
    """This cluster's slurm.conf, if it can be read with all that it includes."""
    found = _own_file(conf, "slurm.conf", warnings)
    try:
        for one in found:
            for _ in included_lines(one.text, _include([])):
                pass
    except InputError as error:
        warnings += [problem._replace(warning=True) for problem in error.problems]
        return []
    return found


def _conf_file(config: Answer) -> pathlib.Path:
    """slurm.conf as Slurm itself names it, else where it usually is."""
    for line in config.text.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "SLURM_CONF" and value.strip():
            return pathlib.Path(value.strip())
    return pathlib.Path(os.environ.get("SLURM_CONF") or _SLURM_CONF)


def _warning(answer: Answer) -> Problem:
    what = f"{answer.command}: {answer.failure}"
    return Problem(what, hint=_LACKS[answer.name], warning=True)


def _no_slurm(answer: Answer, conf: pathlib.Path) -> Problem:
    hint = (
        "run this on a login node; or save the output of scontrol --oneliner show node there, "
        f"and use --from-files ({conf} cannot be read either)"
    )
    return Problem(f"{answer.command}: {answer.failure}", hint=hint)
