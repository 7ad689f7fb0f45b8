"""clusterjobs validate: all that can be proven of specs and configs without a cluster."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from clusterjobs.commands.configs import Config, config_of, find_config_file, is_spec
from clusterjobs.commands.files import read_text
from clusterjobs.commands.options import set_option
from clusterjobs.commands.show import show_problems
from clusterjobs.errors import InputError, Location, Problem

if TYPE_CHECKING:
    from clusterjobs.parallelcluster.validation.account_overrides import Facts
    from clusterjobs.parallelcluster.validation.check import Ask
    from clusterjobs.yaml.document import Document

_EXAMPLES = """\b
Examples:
  clusterjobs validate exp.yaml
  clusterjobs validate my-cluster.yaml --account account.yaml
  clusterjobs validate p4d-a100 p5-h100 --site examples/site.yaml --json
  clusterjobs validate my-cluster.yaml --aws      (asks your own account, read-only)
"""

_path = click.Path(path_type=pathlib.Path, dir_okay=False)


@dataclass
class _Options:
    settings: tuple[str, ...]
    site: pathlib.Path | None
    facts: Facts
    ask: Ask | None
    asked: bool = True  # becomes False where ParallelCluster could not be asked


@click.command(epilog=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@set_option
@click.option("--site", type=_path, help="The site.yaml to use for ParallelCluster configs.")
@click.option("--account", type=_path, help="What differs from the account that is supposed.")
@click.option("--aws", is_flag=True, help="Ask your own AWS account, read-only, and suppose none.")
@click.option("--json", "as_json", is_flag=True, help="The results as JSON.")
def validate(
    files: tuple[str, ...],
    settings: tuple[str, ...],
    site: pathlib.Path | None,
    account: pathlib.Path | None,
    aws: bool,
    as_json: bool,
) -> int:
    """Check experiment specs and ParallelCluster configs without a cluster or an account.

    A config goes through ParallelCluster's own schema and validators, with whatever it names
    (subnets, keys, images, buckets, file systems) supposed to exist.
    """
    options = _Options(settings, site, _facts(account), _ask(aws))
    found = {name: _check(name, options) for name in files}
    problems = [problem for one in found.values() for problem in one]
    if as_json:
        click.echo(json.dumps(_report(found, options.asked), indent=2, ensure_ascii=False))
    else:
        show_problems(problems)
        _say_the_rest(found, options)
    return 1 if any(not problem.warning for problem in problems) else 0


def _facts(account: pathlib.Path | None) -> Facts:
    from clusterjobs.parallelcluster.validation.account_overrides import load_account_file

    return load_account_file(read_text(account), str(account)) if account else {}


def _ask(aws: bool) -> Ask | None:
    from clusterjobs.parallelcluster.validation.check import ask_account
    from clusterjobs.parallelcluster.validation.optional_deps import HOW_TO_INSTALL, is_installed

    if aws and not is_installed():
        raise click.UsageError(f"--aws needs ParallelCluster: {HOW_TO_INSTALL}")
    return ask_account if aws else None


def _check(name: str, options: _Options) -> list[Problem]:
    """Everything about one file: what stops its reading is a problem like any other."""
    file = find_config_file(name)
    try:
        text = read_text(file)
        return _check_spec(file, options) if is_spec(text) else _check_config(text, file, options)
    except InputError as error:
        return list(error.problems)


def _check_config(text: str, file: pathlib.Path, options: _Options) -> list[Problem]:
    from clusterjobs.parallelcluster.validation.upgrade import shell_problems

    config = config_of(text, file, options.site)
    if config.unresolved:
        return [*config.unresolved]
    found = [*shell_problems(text, config.cluster.file), *_about_wrapping(config)]
    return found + _ask_about(config.document, config.cluster.path, config.data, options)


def _about_wrapping(config: Config) -> list[Problem]:
    """A config inside a CloudFormation template, whose `!Ref` only CloudFormation can fill in."""
    if not config.cluster.path:
        return []
    where = config.document.locate_key(config.cluster.path)
    what = "a config inside another file: pcluster reads only a file of its own"
    hint = f"save what stands under {config.cluster.path[-1]} in a file of its own"
    return [Problem(what, where, hint=hint, warning=True, info=True)]


def _check_spec(file: pathlib.Path, options: _Options) -> list[Problem]:
    from clusterjobs.commands.pipeline import load_project  # all of planning and rendering
    from clusterjobs.parallelcluster.source import ConfigFiles, ConfigSource

    project = load_project(file, options.settings)
    outputs = project.outputs()
    found = [*project.warnings, *_check_shell(outputs)]
    source, fitted = project.source, project.fitted
    if isinstance(source, ConfigSource) and isinstance(fitted, ConfigFiles):
        found += _ask_about(source.document, (), fitted.data, options)
    return found


def _ask_about(
    document: Document, base: tuple[str | int, ...], data: dict[str, Any], options: _Options
) -> list[Problem]:
    from clusterjobs.parallelcluster.validation.check import check_config
    from clusterjobs.parallelcluster.validation.finding import problems

    verdict = check_config(data, options.facts, ask=options.ask)
    options.asked = options.asked and verdict.asked
    return problems(document, base, verdict.findings)


def _check_shell(outputs: dict[str, str]) -> list[Problem]:
    """`bash -n` of the job script, where there is a bash."""
    bash = shutil.which("bash")
    if bash is None:
        return []
    done = subprocess.run(
        [bash, "-n"], input=outputs["job.sh"], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return []
    return [Problem(f"bash does not take it: {done.stderr.strip()}", Location("job.sh", 1, 1))]


# ------------------------------------------------------------------ telling


def _say_the_rest(found: dict[str, list[Problem]], options: _Options) -> None:
    from clusterjobs.parallelcluster.validation.optional_deps import HOW_TO_INSTALL, is_installed

    for name, problems in found.items():
        if not any(not problem.warning for problem in problems):
            told = sum(problem.warning for problem in problems)
            click.echo(f"{name}: ok" + (f", {told} to know" if told else ""))
    if not options.asked and not is_installed():
        click.echo(
            f"skipped: ParallelCluster's own schema and validators; {HOW_TO_INSTALL} adds them",
            err=True,
        )


def _report(found: dict[str, list[Problem]], asked: bool) -> dict[str, Any]:
    return {
        "parallelcluster_asked": asked,
        "files": [
            {"file": name, "ok": not _errors(problems), "problems": [_row(p) for p in problems]}
            for name, problems in found.items()
        ],
    }


def _errors(problems: Sequence[Problem]) -> int:
    return sum(not problem.warning for problem in problems)


def _row(problem: Problem) -> dict[str, Any]:
    where = problem.where
    return {
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "path": problem.path,
        "level": "info" if problem.info else "warning" if problem.warning else "error",
        "what": problem.what,
        "hint": problem.hint,
        "validator": problem.validator,
    }
