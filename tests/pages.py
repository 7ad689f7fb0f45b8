"""A page as a reader uses it: its files are written, its commands run, and their output compared.

Each block ```` ```console ```` has commands after `$ `, each with what it prints; `...` stands for
any lines. A block whose first line is `# NAME.yaml` (or another file; after `#!`, the second line)
is that file. All that is on a page runs in one shell, in an empty folder. Comments in the source of
a page say what a reader does not see:

    <!-- run: BASH -->         runs here, too; it must succeed
    <!-- setting: lab -->      the page needs a lab; tests of such a page have the marker `lab`
    <!-- not run: REASON -->   before a block of commands that no test can run
    <!-- varies: REGEX -->     what differs from run to run, and on the page from what is printed

With `--update-goldens`, a block without `...` gets what its commands print.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LANGUAGES_OF_FILES = ("yaml", "python", "bash", "toml")
# What a lab's output has of the moment: times, how long something took, ids of jobs.
IN_A_LAB = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?",
    r"\b\d+:\d\d(:\d\d)?\b",
    r"\b\d+(\.\d+)? (s|min|h)\b",
    r"\b[1-9]\d{5}(?!\d)",
)
_PART = re.compile(
    r"(?ms)^<!-- (?P<word>run|not run|setting|varies):\s(?P<text>.*?)\s?-->$"
    r"|^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<block>.*?)^ *```$"
)
_FILE = re.compile(r"\A(?:#!.*\n)?# ([\w./-]+\.\w+)\n")
_COMMAND = re.compile(r"(?m)^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)")
_JOB = re.compile(r"\bsubmitted job (\d+)")
_PROGRAM = re.compile(r"(\S+=\S* )*(clusterjobs|sbatch|make|python|pip) ")
_SHORTENED = re.compile(r"(?m)^\.\.\.$")
_LINES = r"(?:.*\n)*"  # any
_MARK = "\x1e"


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of a page: what is shown of its output, and where it stands in the text."""

    line: int
    words: str
    shown: str
    span: tuple[int, int]  # of `shown`


@dataclasses.dataclass
class Page:
    """What a page does, in its order: files, hidden lines of bash, and commands."""

    path: pathlib.Path
    steps: list[tuple[str, str] | Command] = dataclasses.field(default_factory=list)
    varies: list[str] = dataclasses.field(default_factory=list)
    unseen: list[str] = dataclasses.field(default_factory=list)  # commands in a block of bash
    not_run: list[str] = dataclasses.field(default_factory=list)
    settings: set[str] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        self.text = self.path.read_text(encoding="utf-8")
        skipped = False
        for part in _PART.finditer(self.text):
            word, text, block = part["word"], part["text"], part["block"]
            if word == "run":
                self.steps.append(("", text))
            elif word == "varies":
                self.varies.append(text)
            elif word == "setting":
                self.settings.add(text)
            elif not word and part["language"] == "console" and not skipped:
                self.steps += self._commands(part)
            elif not word and part["language"] in LANGUAGES_OF_FILES and _FILE.match(block):
                self.steps.append((_FILE.match(block)[1], block))  # type: ignore[index]
            elif not word and part["language"] in ("bash", "sh") and not skipped:
                self.unseen += [one for one in block.splitlines() if _PROGRAM.match(one)]
            skipped = word == "not run"
            if skipped:
                self.not_run.append(text)
        if "lab" in self.settings:
            self.varies = [*IN_A_LAB, *self.varies]

    def _commands(self, part: re.Match[str]) -> Iterator[Command]:
        for found in _COMMAND.finditer(part["block"]):
            start = part.start("block")
            line = self.text.count("\n", 0, start + found.start()) + 1
            span = (start + found.start(2), start + found.end(2))
            yield Command(line, found[1], found[2], span)

    @property
    def commands(self) -> list[Command]:
        return [one for one in self.steps if isinstance(one, Command)]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    # ------------------------------------------------------------------ run and compare

    def run(self, folder: pathlib.Path, environment: Mapping[str, str]) -> dict[Command, str]:
        """What each command prints, with the ids of jobs that the page has. A hidden line that
        fails is an error."""
        printed: dict[Command, str] = {}
        ids: dict[str, str] = {}  # of the page -> of Slurm
        with Shell(folder, environment) as shell:
            for step in self.steps:
                if isinstance(step, Command):
                    output = shell.run(_replaced(step.words, ids))[0]
                    output = output.replace(str(folder.parent), "/home/me")
                    ids |= dict(zip(_JOB.findall(step.shown), _JOB.findall(output), strict=False))
                    printed[step] = _replaced(output, {own: page for page, own in ids.items()})
                elif step[0]:
                    file = folder / step[0]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(step[1], encoding="utf-8")
                else:
                    output, code = shell.run(_replaced(step[1], ids))
                    assert code == 0, f"{self.name}: {step[1]}\n{output}"
        return printed

    def differences(self, printed: Mapping[Command, str]) -> list[str]:
        """For each command that prints something else: where it stands, and how they differ."""
        found = []
        for command, output in printed.items():
            wanted, got = self._masked(command.shown), self._masked(output)
            lines = [
                _LINES if one == "...\n" else re.escape(one) for one in wanted.splitlines(True)
            ]
            pattern = "".join(lines)
            if not re.fullmatch(pattern, got):
                sides = (wanted.splitlines(), got.splitlines(), "the page", "printed")
                diff = "\n".join(difflib.unified_diff(*sides, lineterm="", n=1))
                found.append(f"{self.name}:{command.line}: $ {command.words}\n{diff}")
        return found

    def _masked(self, text: str) -> str:
        return "".join(f"{self._masked_line(line)}\n" for line in text.splitlines())

    def _masked_line(self, line: str) -> str:
        masked = line
        for pattern in self.varies:
            masked = re.sub(pattern, "<varies>", masked)
        return (re.sub(r"  +", "  ", masked) if self.varies else line).rstrip()

    def update(self, printed: Mapping[Command, str]) -> None:
        """Write into the page what is printed, where it differs and the page shows all of it."""
        for command, output in reversed(printed.items()):
            if self.differences({command: output}) and not _SHORTENED.search(command.shown):
                start, end = command.span
                lines = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
                self.text = self.text[:start] + lines + self.text[end:]
        self.path.write_text(self.text, encoding="utf-8")


class Shell:
    """One bash for all commands of a page, which keeps its variables and its folder."""

    def __init__(self, folder: pathlib.Path, environment: Mapping[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.run("last=0")

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.close()
        self._bash.kill()
        self._bash.wait()
        self._bash.stdout.close()

    def run(self, words: str) -> tuple[str, int]:
        """What it prints, and its exit code; `$?` is that of the command before."""
        assert self._bash.stdin
        assert self._bash.stdout
        line = f'(exit "${{last:-0}}"); eval {shlex.quote(words)} </dev/null; last=$?'
        self._bash.stdin.write(f"{line}; printf '{_MARK}%s\\n' \"$last\"\n")
        self._bash.stdin.flush()
        output = ""
        for printed in self._bash.stdout:
            before, mark, code = printed.partition(_MARK)
            output += before
            if mark:
                return output, int(code)
        raise AssertionError(f"the shell has ended: {words}\n{output}")


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for name, new in names.items():
        text = re.sub(rf"\b{name}(?=\b|_)", new, text)
    return text


def environment_of(home: pathlib.Path) -> dict[str, str]:
    """A new user's: clusterjobs is on PATH, and nothing is configured. Labs share a download."""
    from clusterjobs.lab.slurm import cache_dir

    return {
        "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "XDG_CACHE_HOME": str(cache_dir().parent),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "VIRTUAL_ENV": sys.prefix,
        "PROJECT": str(ROOT),
    }
