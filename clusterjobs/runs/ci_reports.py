"""Reports for CI: JUnit's XML, and SARIF 2.1.0, which GitHub and GitLab show beside the lines."""

import json
import pathlib
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from xml.etree import ElementTree

import click

from clusterjobs.console import format_problem
from clusterjobs.errors import Problem
from clusterjobs.runs.write import write_text
from clusterjobs.version import __version__

_file = click.Path(path_type=pathlib.Path, dir_okay=False)


def ci_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --junit and --sarif; `write_reports` writes the files."""
    for name, what in (("--sarif", "SARIF"), ("--junit", "JUnit's XML")):
        command = click.option(name, type=_file, help=f"Also write {what} for CI.")(command)
    return command


class Case(NamedTuple):
    """One checked file, and what was found in it.

    `rule`: what that is about, for SARIF. `text`: all of it as it is shown; "" for the problems'.
    """

    file: str
    problems: tuple[Problem, ...]
    rule: str = "spec"
    text: str = ""


def write_reports(
    junit: pathlib.Path | None, sarif: pathlib.Path | None, cases: Iterable[Case]
) -> None:
    """Write the reports that are asked for. Raises InputError."""
    cases = list(cases) if junit or sarif else []
    for path, text in ((junit, junit_report), (sarif, sarif_report)):
        if path:
            write_text(path, text(cases).encode(errors="backslashreplace").decode())


def junit_report(cases: Iterable[Case]) -> str:
    """A test case for each file: it fails with errors; warnings are its output."""
    suite = ElementTree.Element("testsuite", name="clusterjobs")
    failed = 0
    cases = list(cases)
    for one in cases:
        test = ElementTree.SubElement(
            suite, "testcase", name=_xml(_from_here(one.file)), classname="specs"
        )
        errors = [problem for problem in one.problems if not problem.warning]
        if errors:
            failed += 1
            failure = ElementTree.SubElement(test, "failure", message=_xml(errors[0].what))
            failure.text = _text(one, errors)
        if warnings := [problem for problem in one.problems if problem.warning]:
            ElementTree.SubElement(test, "system-out").text = _text(one, warnings)
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(failed))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _from_here(name: str) -> str:
    """The path from this folder on: a forge shows results beside its repository's files alone."""
    file, here = pathlib.Path(name), pathlib.Path.cwd()
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()


def _text(case: Case, problems: Iterable[Problem]) -> str:
    shown = (click.unstyle(format_problem(one)) for one in problems)
    return _xml(case.text or "\n".join(shown))


def _xml(text: str) -> str:
    """XML has no way to write most control characters."""
    text = text.encode(errors="backslashreplace").decode()
    return "".join(c if c in "\t\n" or ord(c) > 31 else f"\\x{ord(c):02x}" for c in text)


def sarif_report(cases: Iterable[Case]) -> str:
    """A result for each problem. Its rule: a policy's, a validator, or the key."""
    results = [_result(one, problem) for one in cases for problem in one.problems]
    rules = [{"id": name} for name in dict.fromkeys(one["ruleId"] for one in results)]
    tool = {"driver": {"name": "clusterjobs", "version": __version__, "rules": rules}}
    report = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": tool, "results": results}],
    }
    return json.dumps(report, indent=2) + "\n"


def _result(case: Case, problem: Problem) -> dict[str, Any]:
    where = problem.where
    file = _from_here(where.file if where else case.file)
    place: dict[str, Any] = {"artifactLocation": {"uri": urllib.parse.quote(file)}}
    if where:
        place["region"] = {"startLine": max(1, where.line), "startColumn": max(1, where.column)}
    text = f"{problem.path}: {problem.what}" if problem.path else problem.what
    return {
        "ruleId": (problem.rule.name if problem.rule else "") or problem.validator or case.rule,
        "level": "note" if problem.info else "warning" if problem.warning else "error",
        "message": {"text": f"{text}\n{problem.hint}" if problem.hint else text},
        "locations": [{"physicalLocation": place}],
    }
