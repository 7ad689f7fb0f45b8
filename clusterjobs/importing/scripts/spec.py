"""Writes the spec of a script from what it launches, and says what was not carried over."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.importing.scripts.directives import (
    Directive,
    Size,
    is_read,
    read_directives,
    size_of,
    take_options,
)
from clusterjobs.importing.scripts.launch import (
    TOOLS,
    Launch,
    launches,
    peel,
    program_words,
    torchrun_keys,
    with_arguments,
    without_srun,
)
from clusterjobs.importing.scripts.marks import UNKNOWN, Mark, Marks
from clusterjobs.importing.scripts.record import (
    FIRST_NODE,
    NOTHING_GIVEN,
    OF_THE_SCRIPT,
    Call,
    Given,
    Recorded,
    Recording,
    extended_names,
    line_of_index_default,
    names_in,
    optional_names,
)
from clusterjobs.importing.yaml_lines import scalar
from clusterjobs.sections.job.checks import TO_THE_SCRIPT
from clusterjobs.slurm.options import is_slurm_time
from clusterjobs.spec.field_types import module_of
from clusterjobs.spec.keys.environment import LIMITS, command_and_names
from clusterjobs.spec.reserved_names import COMPUTED

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_KEYS_OF_DIRECTIVES = names_in(
    "nodes ntasks ntasks-per-node gpus-per-node gpus gres gpus-per-task job-name time partition"
    " array"
)
_DERIVED_DIRECTIVES = {
    "cpus-per-task": "the job's own follows from the CPUs of a node and its tasks",
    "output": "the log is job.log in the job's folder",
    "error": "the errors are in job.log, too",
    "open-mode": "a job that starts again goes on in the same log",
    "exclusive": "whole nodes are the default",
}
_DERIVED_SRUN = names_in(
    "nodes ntasks ntasks-per-node nodelist gpus gpus-per-node gpus-per-task gres cpus-per-task"
    " jobid job-id kill-on-bad-exit wait output error exclusive unbuffered job-name partition"
    " time account chdir container-workdir container-mount-home no-container-mount-home"
    " container-name container-env label mem"
)
_WRITES = re.compile(
    r"\s*(?:cat|echo|printf|sed|envsubst|jq|yq|awk)\b[^#]*?[^0-9&#>]>{1,2}\s*\"?([^\s\"|;>]+)"
)
_CHOOSES = re.compile(r"\$\(\((?:[^()]|\([^()]*\))*?(?:[?]|[<>](?![<>])|[!=]=|&&|\|\|)")
_TRAP = re.compile(
    r"^\s*trap\s+(?:--\s+)?(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|[\w./-]{2,})\s+([A-Z0-9][A-Z0-9+ ]*)"
)
_REQUEUES = re.compile(r"(?m)^[^#\n]*\b(?:scontrol\s+(?:-\S+\s+)*requeue|sbatch\s+\"?\$\{?0)\b")
_PRINTS = names_in(
    "nvidia-smi hostname scontrol ip which lscpu ibstat fi_info squeue sinfo printenv "
    "uname nvcc ldd clear getent dig date whoami id nproc free df uptime basename dirname realpath"
)
_ULIMIT = re.compile(r"ulimit (?:-[SH] )?-[SH]?([a-z]) (unlimited|[0-9]{1,12})")
_PROGRAM = re.compile(r"(?:\S*/)?python[0-9.]* [^-\s]\S*")
_SETS_UP = ("module", "ml", "conda", "mamba", "micromamba")


class Line(NamedTuple):
    """A line of the script that is not in the spec, and why; 0 if the line is not known."""

    number: int
    what: str
    why: str


class Entry(NamedTuple):
    """A key of the spec with its value in YAML, which may have several lines."""

    key: str
    value: str
    comment: str = ""


class Imported(NamedTuple):
    """A spec made of a script. `words`: what a rank runs, as the script launches it, with marks.

    `variables` has marks, too. `unknown_variables`: those whose value is not known; nothing is
    missing if the job sets them itself. `second`: the same script, run with other marks.
    `missing`: what was not carried over. `derived`: directives that need no key, and why.
    `assumed`: what the script does not say. `submitted`: the jobs that this script gives to sbatch,
    instead of a launch of its own. `launches`: how often one line of it launches. `array`: the
    indexes of `--array`. `has_array`: the spec has them, too. `points`: what each point of a sweep
    was made from. `options`: of sbatch, as the script has them.
    """

    entries: tuple[Entry, ...]
    words: tuple[str, ...]
    variables: Mapping[str, str]
    missing: tuple[Line, ...]
    assumed: tuple[str, ...]
    size: Size
    unknown_variables: Mapping[str, tuple[Line, ...]]
    marks: Marks
    script: str
    derived: Mapping[str, str] = {}
    second: Imported | None = None
    submitted: tuple[Job, ...] = ()
    launches: int = 1
    array: str = ""
    has_array: bool = False
    points: tuple[Imported, ...] = ()
    options: Mapping[str, str] = {}

    def missing_without(
        self, left_out: Mapping[str, str], derived: Mapping[str, str]
    ) -> list[Line]:
        """What was not carried over, if keys are left out; the job sets those of `derived`."""
        found = [one for one in self.missing if one.what not in derived]
        for name, lines in self.unknown_variables.items():
            found += lines if f"env.{name}" not in left_out else ()
        for path, why in left_out.items():
            if path not in derived:
                key, _, name = path.partition(".")
                place = rf"\b{name}=" if key == "env" else rf"--{name}\b"
                found.append(Line(_line_with(place, self.script), path, why))
        return sorted(dict.fromkeys(found))

    def text(self, dropped: Mapping[str, str]) -> str:
        """The spec in YAML, without the keys of `dropped` (path -> why)."""
        lines: list[str] = []
        for entry in self.entries:
            if entry.key not in dropped:
                lines += _lines_of(entry, dropped)
        if secrets := [path[4:] for path, why in dropped.items() if " of a secret" in why]:
            lines.append(f"secrets: [{', '.join(secrets)}]")
        return "\n".join(lines) + "\n"


def _lines_of(entry: Entry, dropped: Mapping[str, str]) -> list[str]:
    first, *rest = entry.value.split("\n")
    comment = f"  # {entry.comment}" if entry.comment else ""
    kept = [
        line
        for line in rest
        if f"{entry.key}.{line.strip().partition(':')[0].strip(chr(34))}" not in dropped
    ]
    if rest and not kept:
        return []
    return [f"{entry.key}:{' ' if first else ''}{first}{comment}", *kept]


class Job(NamedTuple):
    """A script as sbatch gets it. `files`: other scripts beside it, by name.

    `origin`: the file of the script, if another script submits it. `given`: arguments, variables
    and index. `options`: of sbatch's command line, which count more than those of the script.
    `launch`: which of its launches is meant; None for the last.
    """

    text: str
    files: Mapping[str, str]
    cluster: str
    name: str
    origin: str = ""
    given: Given = NOTHING_GIVEN
    options: tuple[Directive, ...] = ()
    launch: int | None = None


def import_job(job: Job) -> Imported:
    """The spec of a job. Raises InputError as `record`.

    The script runs twice, with other stand-ins: what differs in the two specs depends on values
    that only the running job knows.
    """
    first = _Import(job, Marks()).all()
    if not first.words and first.submitted:
        return first
    second = _Import(job, Marks(is_second=True)).all()
    imported = _without_unknown(first, second, job.text)
    return _of_file(job.origin, imported) if job.origin else imported


def _of_file(origin: str, imported: Imported) -> Imported:
    """The lines are those of another file than the script that is imported."""

    def named(lines: Iterable[Line]) -> tuple[Line, ...]:
        return tuple(Line(0, f"{one.what} in {origin}", one.why) for one in lines)

    return imported._replace(
        missing=named(imported.missing),
        assumed=tuple(f"{origin}: {one}" for one in imported.assumed),
        unknown_variables={
            name: named(lines) for name, lines in imported.unknown_variables.items()
        },
        script="",
    )


def _without_unknown(first: Imported, second: Imported, text: str) -> Imported:
    """The first spec; where the second has something else, the value is unknown."""
    missing = list(first.missing)
    if first.words and not second.words:
        missing.append(Line(0, "the launch", _DEPENDS))
        return first._replace(missing=tuple(missing), second=second)
    entries = []
    others = {one.key: one.value.split("\n") for one in second.entries}
    for entry in first.entries:
        lines = entry.value.split("\n")
        other = others.pop(entry.key, [])
        if len(lines) != len(other):
            missing.append(Line(0, entry.key, _DEPENDS))
            lines, other = [entry.value], [entry.value]
        for number, line in enumerate(lines):
            if other[number] != line:
                name = line.strip().partition(":")[0].strip('"')
                is_named = ":" in line and not line.lstrip().startswith("-")
                what = f"{entry.key}.{name}" if is_named else entry.key
                where = _line_with(rf"\b{re.escape(name)}\b", text) if is_named else 0
                missing.append(Line(where, what, _DEPENDS))
                lines[number] = re.sub(r"^(\s*(?:- |[^\s:]+: )?).*", rf"\1{_UNKNOWN}", line)
        entries.append(entry._replace(value="\n".join(lines)))
    missing += [Line(0, key, _DEPENDS) for key in others]
    return first._replace(entries=tuple(entries), missing=tuple(missing), second=second)


def _line_with(pattern: str, text: str) -> int:
    """The first line of code in which the pattern is; 0 without one."""
    lines = enumerate(text.splitlines(), 1)
    found = (
        n for n, line in lines if not re.match(r"#(?!SBATCH)", line) and re.search(pattern, line)
    )
    return next(found, 0)


_IS_PARAMETER = (
    "write it under parameters, for a value at submission, or under sweep, for several:"
    " docs/spec.md"
)
_DEPENDS = "it depends on a value that only the running job knows"
_UNKNOWN = f'"{{{{ env.{UNKNOWN} }}}}"'


class _Import:
    """One import; `_entries`, `_missing` and `_assumed` grow as it goes on."""

    def __init__(self, job: Job, marks: Marks) -> None:
        self._job, self._text, self._files, self._marks = job, job.text, job.files, marks
        self._first_node = marks.text(FIRST_NODE)
        self._all_nodes = marks.text(Mark("SLURM_JOB_NODELIST"), ",Z")
        options = {one.name: one for one in (*read_directives(job.text), *job.options)}
        self._directives = tuple(options.values())
        self._options = {one.name: one.value for one in self._directives}
        self._size = size_of(self._options)
        self._entries: list[Entry] = []
        self._missing: list[Line] = []
        self._assumed: list[str] = []
        self._unknown_variables: dict[str, tuple[Line, ...]] = {}
        self._derived: dict[str, str] = {}
        self._words: tuple[str, ...] = ()  # if they are more than what the ranks run

    def all(self) -> Imported:
        recording = self._recording(self._text)
        recorded = recording.all()
        found = launches(recorded.calls)
        if not found and not self._submits(recorded):
            recorded = recording.again_without_exits()
            found = launches(recorded.calls)
        found = [one for one in found if not one.code or self._programs(one) - TOOLS - _PRINTS]
        started = [one for one in found if one.has_srun or one.launcher]
        is_job = started or (found and self._directives)
        submitted = () if is_job else self._submitted(recorded)
        found = [] if submitted else started or found
        self._assumed += recorded.notes
        self._assumed += [
            f"{name} is not in sbatch's environment: line {line} has its default"
            for name, line in optional_names(self._text)
            if f"export {name}=" not in self._job.given.code
        ]
        self._assumed += [
            f"{name} is not in sbatch's environment: line {line} adds to it"
            for name, line in extended_names(self._text, paths=False).items()
        ]
        if re.search(r"(?m)^[^#\n]*\$[@*]", self._text) and "set --" not in self._job.given.code:
            self._assumed.append("sbatch gives the script no arguments")
        number = self._job.launch
        chosen = found[-1:] if number is None else found[number : number + 1]
        launch = self._inner(chosen[0]) if chosen else None
        if launch and launch.runtime == "shifter" and not launch.image:
            launch = launch._replace(image=self._options.get("image", ""))
            self._directives = tuple(one for one in self._directives if one.name != "image")
            if not launch.image:
                self._missing.append(Line(launch.call.line, "shifter", "no image is named"))
        if launch:
            self._node_number(launch)
        for other in found[:-1] if number is None else ():
            why = (
                "another launch: one job has one; write a spec for each, with needs, or a step in"
                " before: docs/steps.md"
            )
            self._missing.append(
                Line(other.call.line, self._marks.shown(" ".join(other.call.words))[:80], why)
            )
        self._conditions(recording, recorded)
        if launch and self._size.gpus_per_node is None:
            of_srun = {"nodes": str(self._size.nodes), **launch.srun}
            self._size = self._size._replace(gpus_per_node=size_of(of_srun).gpus_per_node)
        self._head(launch)
        if launch is None:
            if not submitted:
                why = "no program that starts ranks was called"
                self._missing.append(Line(0, "the launch", why))
            else:
                self._before_submission(recorded)
            return self._result((), {})._replace(submitted=submitted)
        self._program(launch)
        if launch.has_srun:
            self._part_of_the_job(launch)
        variables = self._variables(launch)
        self._software(recorded, launch)
        self._written_files()
        self._unread_lines()
        self._steps(recorded, launch, [one.call for one in found])
        self._further_options()
        is_loop = len({one.call.line for one in found}) == 1 and found[0].call.line > 0
        return self._result(self._words or tuple(program_words(launch)), variables)._replace(
            launches=len(found) if is_loop else 1,
            array=self._options.get("array", ""),
            has_array=Entry("framework", "command") in self._entries,
        )

    def _result(self, words: tuple[str, ...], variables: Mapping[str, str]) -> Imported:
        text = "\n".join(one.value for one in self._entries)
        computed = {}
        for mark in self._marks.computed():
            name = mark.name.removeprefix(COMPUTED)
            if mark.reference in text:
                computed[name] = (
                    f"{name}: {{command: [{', '.join(map(json.dumps, mark.command))}]}}"
                )
            if f"${{{mark.name}}}" in text:
                self._missing.append(Line(0, f"${name}", "a value of the job, in code of bash"))
        if computed:
            self._add("values", f"{{{', '.join(computed.values())}}}")
        return Imported(
            tuple(self._entries),
            words,
            variables,
            tuple(sorted(dict.fromkeys(self._missing))),
            tuple(self._assumed),
            self._size,
            self._unknown_variables,
            self._marks,
            self._text,
            self._derived,
            options=self._options,
        )

    @staticmethod
    def _submits(recorded: Recorded) -> list[Call]:
        return [one for one in recorded.calls if posixpath.basename(one.program) == "sbatch"]

    def _submitted(self, recorded: Recorded) -> tuple[Job, ...]:
        """The jobs that the script submits: `sbatch -N 2 <<EOF`, `sbatch train.sh 1e-4`."""
        found = [self._job_of(one) for one in self._submits(recorded)]
        return tuple(one for one in found if one) if all(found) else ()

    def _job_of(self, call: Call) -> Job | None:
        """The job of a call of sbatch; None if its script is not here."""
        words, known = [*call.arguments], self._marks.with_variables
        options = {one.name: one._replace(value=known(one.value)) for one in take_options(words, 0)}
        name, origin = posixpath.basename(words[0]) if words else "", ""
        if wrapped := options.pop("wrap", None):
            text = f"#!/bin/sh\n{wrapped.value}\n"
        elif call.stdin:  # its lines keep their numbers
            text = "\n" * call.line + known(call.stdin)
        elif name in self._files:
            text, origin = self._files[name], name
        else:
            return None
        variables = dict(call.environment)
        exported = options["export"].value.split(",") if "export" in options else ["NONE"]
        if "NONE" not in exported:
            del options["export"]
            variables |= dict(one.split("=", 1) for one in exported if "=" in one)
        code = "".join(f"export {one}={self._in_bash(value)}; " for one, value in variables.items())
        if words[1:]:
            code += f"set -- {' '.join(map(self._in_bash, words[1:]))}; "
        files = {one: text for one, text in self._files.items() if one != origin}
        return Job(
            text,
            files,
            self._job.cluster,
            self._job.name,
            origin,
            Given(code),
            tuple(options.values()),
        )

    def _before_submission(self, recorded: Recorded) -> None:
        for line in sorted({one.line for one in self._submits(recorded)}):
            self._assumed.append(f"the job is the script that line {line} gives to sbatch")
        why = "the script does it before it submits the job"
        for other in recorded.calls:
            if other.program not in ("sbatch", "mkdir", *_PRINTS, *recorded.in_substitutions):
                self._missing.append(Line(other.line, " ".join(other.words)[:80], why))

    def _add(self, key: str, value: str, comment: str = "") -> None:
        self._entries.append(Entry(key, value, comment))

    def _value_of(self, key: str) -> str:
        return next((one.value for one in self._entries if one.key == key), "")

    def _keys(self) -> set[str]:
        return {one.key for one in self._entries}

    def _node_number(self, launch: Launch) -> None:
        """The number of a node in the batch script, where it is 0 for all ranks."""

        def has_it(words: Iterable[str]) -> bool:
            return "SLURM_NODEID" in {one.name for one in self._marks.found_in(" ".join(words))}

        call = launch.call
        is_passed_on = has_it(call.words) and has_it(launch.words)
        if self._size.nodes > 1 and (is_passed_on or has_it(call.environment.values())):
            why = "in the batch script it is 0, and the spec has the number of each node"
            line = _line_with(r"\bSLURM_NODEID\b", self._text)
            self._missing.append(Line(line, "$SLURM_NODEID", why))
        elif has_it(call.words):
            self._assumed.append("SLURM_NODEID is each node's number; in the batch script it is 0")

    def _conditions(self, recording: Recording, recorded: Recorded) -> None:
        """Conditions on what is not known, if the launch depends on them."""
        for line in {*recorded.undecided} - {one.number for one in self._missing}:
            ways = [recording.decided(line, is_true) for is_true in (True, False)]
            done = [_done(way) for way in ways if way]
            if len(done) < 2 or (done[0] != done[1] and None not in done):
                what = self._text.splitlines()[line - 1].strip()[:80]
                why = "a condition on what only the running job knows"
                self._missing.append(Line(line, what, why))

    # ------------------------------------------------------------------ the launch

    def _inner(self, launch: Launch) -> Launch:
        """The launch inside `bash -c` or a script that is here, if it is all that runs there."""
        code = launch.code
        script = posixpath.basename(launch.words[-1]) if launch.words else ""
        if launch.words and posixpath.basename(launch.words[0]) in ("bash", "sh"):
            code = (
                self._files.get(posixpath.basename(launch.words[1]), "") if launch.words[1:] else ""
            )
            code = with_arguments(code, launch.words[2:]) if code else ""
        elif script in self._files and len(launch.words) == 1:
            code = self._files[script]
        if not code:
            return launch
        exports = "".join(
            f"export {name}={_quoted(value)}\n" for name, value in launch.call.environment.items()
        )
        inner = self._recording(exports + code, launch.call.folder, launch.srun).all()
        calls = [one for one in inner.calls if posixpath.basename(one.program) not in _PRINTS]
        found = launches(calls)
        is_all = len(found) == len(calls) == 1 and not inner.sourced and not inner.undecided
        if not is_all or found[0].call.folder != launch.call.folder:
            words = ("bash", "-c", code) if launch.code else launch.words
            return launch._replace(words=words, code="")
        own = found[0]
        return own._replace(
            call=launch.call,
            srun=launch.srun,
            has_srun=launch.has_srun,
            runtime=own.runtime or launch.runtime,
            image=own.image or launch.image,
            mounts=own.mounts or launch.mounts,
            prefix=(*launch.prefix, *own.prefix),
            environment={**launch.environment, **own.environment},
        )

    def _recording(
        self, code: str, folder: str = "", srun: Mapping[str, str] | None = None
    ) -> Recording:
        """A run of the script, or of the `code` that a step with these options runs."""
        options = self._options if srun is None else {**self._options, **srun}
        given = self._job.given if srun is None else Given(array_index=self._job.given.array_index)
        in_step = srun is not None
        return Recording(code, self._files, options, self._marks, folder, in_step, given)

    def _programs(self, launch: Launch) -> set[str]:
        """The program that a launch starts; of `bash -c 'mkdir a && tar xf b'`, mkdir and tar."""
        found = self._recording(launch.code).all().programs if launch.code else launch.words[:1]
        return {posixpath.basename(one) for one in found}

    def _patterns(self, words: Sequence[str]) -> None:
        """Words that bash would replace by the names of files."""
        parts = {part for word in words for part in word.split("/") if "*" in part}
        for number, line in enumerate(self._text.splitlines(), 1):
            bare = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "", line)
            for part in sorted(parts):
                if part in bare and not line.startswith("#"):
                    what = f"the files of the pattern {part}"
                    self._missing.append(Line(number, what, "only the running job knows them"))

    def _program(self, launch: Launch) -> None:
        words = [*program_words(launch)]
        self._patterns(words)
        if words[:1] == ["-m"] and module_of(module := " ".join(words[:2])):
            words[:2] = [module]
        is_script = _is_python(launch) and any(
            one.endswith(".py") or module_of(one) for one in words[:1]
        )
        if not launch.launcher and any(self._first_node in word for word in words):
            is_script = False  # bash alone knows that address
        if launch.call.folder != ".":
            self._add("workdir", scalar(self._reference(launch.call.folder)))
        if launch.launcher in ("torchrun", "deepspeed") or (
            launch.has_srun and not launch.launcher
        ):
            self._of_python(launch, words, is_script)
        elif launch.launcher == "mpirun":
            self._command("mpirun", launch.words)
            for name in launch.own_options.keys() - {"np", "n", "N", "hostfile", "H", "host"}:
                self._lost(launch, f"--{name}", "an option of mpirun")
        elif launch.launcher:
            self._whole_launcher(launch)
        else:
            self._command("", launch.words)
            self._add("ranks_per_node", "1", "the script starts it once, without srun")
        srun = {name: value for name, value in launch.srun.items() if name not in _DERIVED_SRUN}
        if srun:
            lines = [
                f"  {name}: {_value(self._reference(value)) if value else 'true'}"
                for name, value in srun.items()
            ]
            self._add("srun", "\n" + "\n".join(lines))
        if launch.prefix:
            self._add("prefix", self._list(launch.prefix))

    def _of_python(self, launch: Launch, words: Sequence[str], is_script: bool) -> None:
        launcher = "torchrun" if launch.launcher else "srun"
        if is_script:
            comment = ""
            if launch.launcher == "deepspeed":
                comment = "torchrun starts the ranks as the deepspeed launcher did"
                self._assumed.append(
                    "torchrun starts the ranks, not the deepspeed launcher: --local_rank is not "
                    "added to the arguments, LOCAL_RANK is set"
                )
            self._add("framework", "torchrun", comment)
            if launcher != "torchrun":
                self._add("launcher", launcher)
            self._add("script", scalar(self._reference(words[0])))
            self._arguments(words[1:])
        else:
            self._command(launcher, launch.words)
        if launch.launcher == "torchrun":
            keys, others = torchrun_keys(launch.own_options)
            keys = {key: value for key, value in keys.items() if not self._name_unknown(value)}
            if keys:
                inside = ", ".join(
                    f"{key}: {_value(self._reference(value))}" for key, value in keys.items()
                )
                self._add("torchrun", f"{{{inside}}}")
            for name in others:
                self._lost(launch, f"--{name}", "an option of torchrun")
        elif launch.launcher:
            for name in launch.own_options:
                self._lost(launch, f"--{name}", f"an option of {launch.launcher}")
        self._ranks(launch)

    def _ranks(self, launch: Launch) -> None:
        """`ranks_per_node`, where it is not the number of GPUs."""
        options = launch.options
        written = options.get("nproc-per-node", options.get("num_gpus", ""))
        if launch.launcher:
            ranks = int(written) if written.isdecimal() else None
            if written and ranks is None and written not in ("gpu", "auto"):
                self._name_unknown(written)
                what = f"{self._marks.shown(written)} ranks on each node"
                self._missing.append(Line(launch.call.line, what, "no number of ranks"))
        else:
            own = size_of({**self._options, **launch.srun})
            ranks = own.tasks_per_node
        if ranks is not None and ranks != self._size.gpus_per_node:
            self._add("ranks_per_node", str(ranks))

    def _part_of_the_job(self, launch: Launch) -> None:
        """Options of srun that start fewer ranks than the job has, or on some of its nodes."""
        srun, nodes = launch.srun, self._size.nodes
        own = size_of({**self._options, **srun})
        per_node = 1 if launch.launcher else own.tasks_per_node or self._size.gpus_per_node
        gpus = size_of({"nodes": str(nodes), **srun}).gpus_per_node
        differs = {
            "nodes": srun.get("nodes") != str(nodes),
            "nodelist": nodes > 1 and srun.get("nodelist") != self._all_nodes,
            "ntasks": bool(per_node) and srun.get("ntasks") != str(nodes * (per_node or 1)),
            "ntasks-per-node": bool(launch.launcher) and srun.get("ntasks-per-node") != "1",
            **dict.fromkeys(
                ("gpus-per-node", "gpus", "gres"), gpus not in (None, self._size.gpus_per_node)
            ),
        }
        for name, value in srun.items():
            if differs.get(name):
                what = f"srun --{name}={self._marks.shown(value)}"
                why = "the ranks of a spec use all nodes and GPUs of its job"
                self._missing.append(Line(launch.call.line, what, why))

    def _whole_launcher(self, launch: Launch) -> None:
        """A launcher with options of its own is the command, once on each node."""
        self._command("srun", launch.command)
        self._words = launch.command
        self._add("ranks_per_node", "1", f"{launch.launcher} starts the ranks of a node")

    def _command(self, launcher: str, words: Sequence[str]) -> None:
        self._add("framework", "command")
        if launcher and launcher != "srun":
            self._add("launcher", launcher)
        program = 2 if _PROGRAM.fullmatch(" ".join(words[:2])) else len(words)
        if _pairs(words[program:]) is None or any(self._first_node in word for word in words):
            program = len(words)
        self._add("command", self._list(words[:program]))
        self._arguments(words[program:])

    def _arguments(self, words: Sequence[str]) -> None:
        if not words:
            return
        given = [self._reference(word) for word in words]
        pairs = _pairs(given)
        if pairs is None:
            self._add("args", "\n" + "\n".join(f"  - {_value(word)}" for word in given))
            return
        lines = []
        for name, values in pairs:
            shown = "true" if values is None else _value(values[0])
            if values and len(values) > 1:
                shown = f"[{', '.join(map(_value, values))}]"
            lines.append(f"  {scalar(name)}: {shown}")
        self._add("args", "\n" + "\n".join(lines))

    def _list(self, words: Sequence[str]) -> str:
        """A command. The address of the first node is known to bash alone."""
        if any(self._first_node in word for word in words):
            code = "exec " + " ".join(map(self._in_bash, words))
            return f"[bash, -c, {scalar(code)}]"
        return f"[{', '.join(_value(self._reference(word)) for word in words)}]"

    def _reference(self, text: str) -> str:
        """The text with references; a value that only a running job computes is missing."""
        self._name_unknown(text)
        if self._first_node in text:
            why = "the address of the first node is no value of a spec"
            shown = self._marks.shown(text)
            self._missing.append(Line(0, shown, why))
        return self._marks.with_references(text)

    def _with_variables(self, text: str) -> str:
        self._name_unknown(text)
        return self._marks.with_variables(text)

    def _name_unknown(self, text: str) -> list[Line]:
        """The values in a text that are not known; they are missing."""
        why = "it is known only when the job runs"
        found = [
            Line(
                mark.line or self._line_of(mark.unknown),
                mark.unknown,
                _IS_PARAMETER if mark.unknown.endswith(OF_THE_SCRIPT) else why,
            )
            for mark in self._marks.found_in(text)
            if mark.unknown
        ]
        self._missing += found
        return found

    def _line_of(self, what: str) -> int:
        """The first line with a name that `what` has; 0 without one."""
        names = re.findall(r"[A-Z_]{3,}|^\$\d|(?<=that )\S+|(?<=of )\S+|(?<=element )\S+", what)
        return _line_with("|".join(map(re.escape, names)), self._text) if names else 0

    def _in_bash(self, word: str) -> str:
        """A word of bash with the same value."""
        if not self._marks.found_in(word):
            return shlex.quote(word)
        escaped = re.sub(r'([\\"`$])', r"\\\1", word)
        return f'"{self._with_variables(escaped)}"'

    def _lost(self, launch: Launch, what: str, why: str) -> None:
        self._missing.append(Line(launch.call.line, what, f"{why} that has no key"))

    # ------------------------------------------------------------------ the rest

    def _head(self, launch: Launch | None) -> None:
        self._add("name", scalar(self._options.get("job-name") or self._job.name))
        self._add("cluster", scalar(self._job.cluster))
        if queue := self._options.get("partition"):
            first, *others = queue.split(",")
            self._add("queue", scalar(first))
            if others:
                self._assumed.append(f"the first of the partitions {queue}")
        self._add("nodes", str(self._size.nodes))
        if self._size.gpus_per_node is not None:
            self._add("gpus_per_node", str(self._size.gpus_per_node))
        if limit := self._options.get("time"):
            self._add("time_limit", limit if is_slurm_time(limit) else scalar(limit))
        if launch and not launch.launcher and (cpus := self._options.get("cpus-per-task")):
            self._add("cpus_per_task", cpus)
        folder = posixpath.dirname(self._options.get("output", ""))
        if folder and "%" not in folder:
            self._add("logs", scalar(folder), "each job has its own folder in it")

    def _variables(self, launch: Launch) -> dict[str, str]:
        """`env`: what the script exports, but what the job sets itself."""
        found: dict[str, str] = {}
        for name, value in launch.environment.items():
            if self._first_node in value:
                is_used = re.search(rf"(?m)^[^#\n]*[$]{{?{name}\b", self._text)
                if is_used and name != "MASTER_ADDR":
                    self._assumed.append(f"{name} is used by the script alone, not by the ranks")
                elif name != "MASTER_ADDR":
                    what, why = f"export {name}", "MASTER_ADDR has the address of the first node"
                    self._missing.append(Line(launch.call.line, what, why))
                continue
            if not re.fullmatch(r"[A-Za-z_]\w*", name) or name == "SLURM_JOB_NODELIST":
                continue
            found[name] = value
        if found:
            lines = []
            for name, value in found.items():
                start = len(self._missing)
                lines.append(f"  {scalar(name)}: {_value(self._reference(value))}")
                self._unknown_variables[name] = tuple(self._missing[start:])
                del self._missing[start:]
            self._add("env", "\n" + "\n".join(lines))
        return found

    def _software(self, recorded: Recorded, launch: Launch) -> None:
        calls = recorded.calls
        if self._job.launch is not None:
            calls = calls[: calls.index(launch.call)]
        modules = [
            item
            for call in calls
            if call.program in ("module", "ml") and call.line <= (launch.call.line or 10**9)
            for item in _modules(call.arguments)
        ]
        activated = [
            call.arguments[1]
            for call in calls
            if posixpath.basename(call.program) in _SETS_UP[2:]
            and call.arguments[:1] == ("activate",)
            and len(call.arguments) > 1
        ]
        lines: list[str] = []
        sources = []
        for sourced in recorded.sourced:
            path, _, name = sourced.partition(" ")
            folder, _, end = path.rpartition("/bin/activate")
            activated[:0] = [name] if name and not end else []  # of conda: activate NAME
            if folder and not end and not activated:
                lines.append(f"  venv: {_value(self._reference(folder))}")
            else:
                sources.append(self._reference(path))
        if sources:
            lines.append(f"  source: [{', '.join(map(_value, sources))}]")
        if modules:
            lines.append(
                f"  modules: [{', '.join(_value(self._reference(one)) for one in modules)}]"
            )
        if activated and not launch.image:
            lines.append(f"  conda: {_value(self._reference(activated[-1]))}")
        if launch.image:
            lines.append("  container:")
            lines.append(f"    runtime: {launch.runtime}")
            lines.append(f"    image: {_value(_image(launch, self._with_variables(launch.image)))}")
            if launch.mounts:
                given = ", ".join(
                    _value(_mount(self._with_variables(one))) for one in launch.mounts
                )
                lines.append(f"    mounts: [{given}]")
        if lines:
            self._add("software", "\n" + "\n".join(lines))
        limits = re.findall(r"(?m)^\s*(ulimit [^;&|\n#]+)", self._text)
        keys = dict(filter(None, map(_limit, limits)))
        if keys:
            self._add("ulimit", f"{{{', '.join(f'{name}: {one}' for name, one in keys.items())}}}")
        if others := [one.strip() for one in limits if not _limit(one)]:
            self._add("setup", f"[{', '.join(map(_value, others))}]")

    def _steps(self, recorded: Recorded, launch: Launch, ranks: Sequence[Call]) -> None:
        """Other programs are steps before and after the ranks, on the first node."""
        before, after = self._around(recorded.calls, launch, ranks)
        for key, calls in (("before", before), ("after", after)):
            others = [one for one in calls if one not in ranks]
            steps = [self._step(one, launch) for one in others if self._is_step(one, recorded)]
            if steps := [one for one in steps if one]:
                self._add(key, "\n" + "\n".join(f"  - {one}" for one in steps))

    def _around(
        self, calls: Sequence[Call], launch: Launch, ranks: Sequence[Call]
    ) -> tuple[Sequence[Call], Sequence[Call]]:
        """What runs before and after a launch; of one in a loop, what belongs to this one."""
        at, number = [calls.index(one) for one in ranks], self._job.launch
        if number is None:
            position = calls.index(launch.call)
            return calls[:position], calls[position + 1 :]
        line = launch.call.line
        turns = [calls[start:end] for start, end in zip([0, *at], [*at, len(calls)], strict=True)]
        latest: dict[int, list[Call]] = {}
        for turn in turns[: number + 1]:
            for one in turn:
                latest[one.line] = [other for other in turn if other.line == one.line]
        is_first = {one.line for one in turns[0]}
        before = [one for n, found in latest.items() if n < line or n in is_first for one in found]
        always = set.intersection(*({one.line for one in turn} for turn in turns[1:]))
        for one in (one for turn in turns[1:] for one in turn):
            if one.line > line and one.line not in always and one not in ranks:
                what, why = " ".join(one.words)[:80], "it runs after several of the launches"
                self._missing.append(Line(one.line, self._marks.shown(what), why))
        return before, [one for one in turns[number + 1] if one.line > line and one.line in always]

    def _is_step(self, call: Call, recorded: Recorded) -> bool:
        name = posixpath.basename(call.program)
        if name in _PRINTS or name in _SETS_UP or call.program in recorded.in_substitutions:
            return False
        started = peel(call) if name == "srun" else None
        if started and ">" not in started.code and self._programs(started) <= _PRINTS:
            return False
        if name == "sbatch":
            what = " ".join(call.words)[:80]
            why = "it submits another job: clusterjobs does that with restarts, or needs"
            self._missing.append(Line(call.line, what, why))
            return False
        if call.stdin:
            what = " ".join(call.words)[:80]
            self._missing.append(Line(call.line, what, "it reads text of the script"))
            return False
        return True

    def _step(self, call: Call, launch: Launch) -> str:
        """The step of a program; "" if none is like its srun."""
        if posixpath.basename(call.program) != "srun":
            return f"{{command: {self._list(call.words)}}}"
        srun, image, words = without_srun(call)
        own, nodes = size_of({**self._options, **srun}), self._size.nodes
        tasks = srun.get("ntasks", str(own.nodes * (own.tasks_per_node or 1)))
        ranks = self._value_of("ranks_per_node") or str(self._size.gpus_per_node or 1)
        per = {str(nodes * int(ranks)): ", per: rank", str(nodes): ", per: node", "1": ""}
        lost = [name for name in srun if name not in _DERIVED_SRUN or name == "chdir"]
        if srun.get("nodelist", self._first_node) not in (self._first_node, self._all_nodes):
            lost.append("nodelist")
        if tasks not in per or (tasks != "1" and own.nodes != nodes):
            lost.append("ntasks")
        if image not in ("", launch.image):
            lost.append("container-image")
        for name in lost:
            what = self._marks.shown(" ".join(call.words))[:80]
            self._missing.append(Line(call.line, what, f"a step has nothing like --{name} of srun"))
        inside = ", container: true" if image else ""
        return "" if lost else f"{{command: {self._list(words)}{per[tasks]}{inside}}}"

    def _written_files(self) -> None:
        """Files that the script itself writes, such as a config of DeepSpeed."""
        for number, line in enumerate(self._text.splitlines(), 1):
            found = _WRITES.match(line)
            if found and not found[1].startswith(("/dev/", "&")):
                what = f"the file {found[1]}"
                why = "the script writes it: keep it beside the spec, or write it in a step"
                self._missing.append(Line(number, what, why))

    def _unread_lines(self) -> None:
        """Handlers of signals, but those at the end of the script; choices in arithmetic."""
        for number, line in enumerate(self._text.splitlines(), 1):
            found = _TRAP.search(line)
            if found and not {"EXIT", "0"} >= {*found[1].split()}:
                why = "a handler of a signal: clusterjobs has restarts, and their signal"
                self._missing.append(Line(number, line.strip()[:80], why))
            if _CHOOSES.search(line) and not line.lstrip().startswith("#"):
                why = "a choice in arithmetic, which may depend on what is not known"
                self._missing.append(Line(number, line.strip()[:80], why))

    def _further_options(self) -> None:
        if line := line_of_index_default(self._text, self._options):
            what, why = "SLURM_ARRAY_TASK_ID", "sbatch --array sets it: write a sweep"
            self._missing.append(Line(line, what, why))
        is_command = Entry("framework", "command") in self._entries
        for one in self._directives:
            key = {"cpus-per-task": "cpus_per_task", "output": "logs"}.get(one.name)
            if not is_read(one):
                what, why = f"--{one.name}={one.value}", "no value of this option"
                self._missing.append(Line(one.line, what, why))
            elif one.name == "array" and not (is_command or self._job.given.array_index):
                self._missing.append(Line(one.line, "--array", "write a sweep: docs/sweeps.md"))
            elif self._is_for_the_script(one):
                why = "its handler is not carried over: the signal would end the job's own script"
                if _REQUEUES.search(self._text):
                    why += "; to start again at the time limit, restarts: {time_limit: N}"
                self._missing.append(Line(one.line, f"--signal={one.value}", why))
            elif one.name in _DERIVED_DIRECTIVES and key not in self._keys():
                self._derived[f"line {one.line}: --{one.name}"] = _DERIVED_DIRECTIVES[one.name]
        known = {*_KEYS_OF_DIRECTIVES, *_DERIVED_DIRECTIVES}
        if is_command and not self._job.given.array_index:
            known.remove("array")  # an array of a command has no points
        kept = [
            one
            for one in self._directives
            if one.name not in known and not self._is_for_the_script(one)
        ]
        if kept:
            lines = [f"  {one.name}: {_value(one.value) if one.value else 'true'}" for one in kept]
            self._add("sbatch", "\n" + "\n".join(dict.fromkeys(lines)))

    @staticmethod
    def _is_for_the_script(directive: Directive) -> bool:
        """Whether it is a signal that the script gets, and not the ranks."""
        return directive.name == "signal" and bool(TO_THE_SCRIPT.match(directive.value))


def _done(recorded: Recorded) -> object:
    """What counts of a run, to compare it with another; None without a launch."""
    found = launches(recorded.calls)
    end = recorded.calls.index(found[-1].call) + 1 if found else 0
    calls = [
        (*one.words, one.folder, *one.environment.items())
        for one in recorded.calls[:end]
        if one.program not in ("mkdir", *_PRINTS) and one.program not in recorded.in_substitutions
    ]
    return (calls, recorded.sourced) if found else None


def _image(launch: Launch, image: str) -> str:
    """The image as a spec has it: pyxis separates the registry with `#`, and paths are absolute."""
    if image.startswith("./") or (image.endswith(".sqsh") and "/" not in image):
        return "${SLURM_SUBMIT_DIR}/" + image.removeprefix("./")
    host, slash, rest = image.removeprefix("docker://").partition("/")
    if launch.runtime == "pyxis" and slash and "." in host and "#" not in image:
        return f"{host}#{rest}"
    return image


def _mount(text: str) -> str:
    """`/a:/b`; a folder alone is mounted under its own path."""
    if re.match(r"\.\.?(?:[/:]|$)", text):
        text = "${SLURM_SUBMIT_DIR}/" + text
    return text if ":" in text else f"{text}:{text}"


def _is_python(launch: Launch) -> bool:
    return bool(launch.words) and posixpath.basename(launch.words[0]).startswith("python")


def _limit(line: str) -> tuple[str, str] | None:
    """`ulimit -l unlimited` as a name and a value of the key `ulimit`; None for other forms."""
    found = _ULIMIT.fullmatch(line.strip())
    name = next((one for one, letter in LIMITS.items() if found and letter == found[1]), "")
    return (name, found[2]) if found and name else None


def _modules(arguments: Sequence[str]) -> list[str]:
    if arguments[:1] in (("load",), ("add",)):
        return list(arguments[1:])
    if command_and_names(text := " ".join(arguments))[0] != "load":
        return [text]
    return list(arguments) if arguments and not arguments[0].startswith("-") else []


def _pairs(words: Sequence[str]) -> list[tuple[str, list[str] | None]] | None:
    """`--name value ...` as (name, values), None for a bare flag; None if a list must stay one."""
    found: list[tuple[str, list[str] | None]] = []
    for word in words:
        if word.startswith("--") and "=" not in word and len(word) > 2 and "{{" not in word:
            found.append((word[2:], None))
        elif not found or (word.startswith("-") and not _NUMBER.fullmatch(word)):
            return None
        else:
            name, values = found[-1]
            found[-1] = (name, [*(values or []), word])
    names = [name for name, _ in found]
    return found if len(set(names)) == len(names) else None


def _value(text: str) -> str:
    """Text in YAML that a spec reads as it is written."""
    return text if _NUMBER.fullmatch(text) else scalar(text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
