"""clusterjobs validate: checks specs and configs without a cluster."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from clusterjobs.clusters.described.read import unclear_values
from clusterjobs.clusters.parallelcluster.config import (
    CURRENT,
    last_release,
    release_of,
    wrong_release,
)
from clusterjobs.console import (
    print_json,
    problem_data,
    say_on_stderr,
    set_option,
    show_problems,
    state_of,
    states_table,
)
from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.runs.ci_reports import Case, ci_options, write_reports
from clusterjobs.runs.clusters import Config, Described, cluster_in, find_config_file, is_spec
from clusterjobs.script.shell_check import find_bash
from clusterjobs.sites.folders import read_text

if TYPE_CHECKING:
    from clusterjobs.validation.account import Overrides
    from clusterjobs.validation.schema import Report, Validate
    from clusterjobs.yaml.document import Document


_EXAMPLES = """\b
Examples:
  clusterjobs validate exp.yaml
  clusterjobs validate exp.yaml --in-job
  clusterjobs validate my-cluster.yaml --account account.yaml
  clusterjobs validate p4d-a100 p5-h100 --site examples/site.yaml --json
  clusterjobs validate my-cluster.yaml --release 3.13.2
  clusterjobs validate my-cluster.yaml --aws      (reads your own account)
"""

_path = click.Path(path_type=pathlib.Path, dir_okay=False)


def checked_release(
    _context: click.Context, _option: click.Parameter, release: str | None
) -> str | None:
    """The value of an option that names a release of ParallelCluster; the last one of 3.13."""
    if last := last_release(release or ""):
        say_on_stderr(f"ParallelCluster {release}: taking its last release, {last}")
        return last
    if release:
        _refuse_unknown(release)
    return release


def _refuse_unknown(release: str) -> None:
    if wrong := wrong_release(release):
        raise one_problem(wrong[0], hint=wrong[1])


@dataclass
class _Options:
    settings: tuple[str, ...]
    site: pathlib.Path | None
    overrides: Overrides
    with_aws: bool
    release: str | None
    asks_parser: bool = True
    in_job: bool = False  # ask it in a job
    validators_ran: bool = True  # False if ParallelCluster's validators did not run
    reports: dict[str, Report] = field(default_factory=dict)  # of each config, as JSON
    releases: set[str] = field(default_factory=set)  # of ParallelCluster, which were asked


@click.command(epilog=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@set_option
@click.option("--site", type=_path, help="The site.yaml to use for ParallelCluster configs.")
@click.option("--account", type=_path, help="A file with overrides for the simulated account.")
@click.option("--aws", is_flag=True, help="Use your own AWS account, read-only, not a simulation.")
@click.option(
    "--release",
    callback=checked_release,
    help="The release of ParallelCluster, installed once. By default that of site.yaml, or "
    f"{CURRENT}.",
)
@click.option(
    "--no-parser", is_flag=True, help="Do not ask the framework's own parser about a spec."
)
@click.option(
    "--in-job", is_flag=True, help="Ask it on a node of the spec's cluster, in a job of one task."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@ci_options
def validate(
    files: tuple[str, ...],
    settings: tuple[str, ...],
    site: pathlib.Path | None,
    account: pathlib.Path | None,
    aws: bool,
    release: str | None,
    no_parser: bool,
    in_job: bool,
    as_json: bool,
    junit: pathlib.Path | None,
    sarif: pathlib.Path | None,
) -> int:
    """Check experiment specs and clusters' files without a cluster or an account.

    A config is checked with ParallelCluster's own schema and validators, in a simulated account
    that has every resource the config names (subnets, keys, images, buckets, file systems). Of a
    description of a Slurm cluster, what it leaves unknown is shown. If the Python environment of a
    spec is on this machine, the framework's own parser is asked about the arguments; with --in-job
    it is asked on a node. Ctrl-C cancels that job.
    """
    if in_job and no_parser:
        raise click.UsageError("--in-job asks the parser, and --no-parser does not: choose one")
    if aws or release:
        _require_extra("--aws" if aws else "--release")
    options = _Options(settings, site, _overrides(account), aws, release, not no_parser, in_job)
    found = {name: _check(name, options) for name in files}
    problems = [problem for one in found.values() for problem in one]
    write_reports(junit, sarif, (Case(name, tuple(one)) for name, one in found.items()))
    if as_json:
        print_json(
            {
                "parallelcluster_asked": options.validators_ran,
                "parallelcluster_releases": sorted(options.releases),
                "files": [
                    {
                        "file": name,
                        "ok": not _has_errors(problems),
                        "problems": [problem_data(p) for p in problems],
                    }
                    for name, problems in found.items()
                ],
            }
        )
    else:
        show_problems(problems)
        _show_summary(found, options)
    return 1 if _has_errors(problems) else 0


def _overrides(account: pathlib.Path | None) -> Overrides:
    from clusterjobs.validation.account import load_overrides

    return load_overrides(read_text(account), str(account)) if account else {}


def _require_extra(option: str) -> None:
    from clusterjobs.extras import how_to_install
    from clusterjobs.validation.optional_deps import is_installed

    if not is_installed():
        raise click.UsageError(f"{option} needs ParallelCluster: {how_to_install('aws')}")


def _validators(with_aws: bool, release: str) -> Validate | None:
    from clusterjobs.validation.optional_deps import is_installed
    from clusterjobs.validation.schema import validate_with_aws

    if release == CURRENT or not is_installed():
        return validate_with_aws if with_aws else None
    from clusterjobs.validation.releases import validate_release

    return functools.partial(validate_release, release, with_aws)


def _check(name: str, options: _Options) -> list[Problem]:
    """All problems of one file, including those of reading it."""
    try:
        file = find_config_file(name)
        text = read_text(file)
        return _check_spec(file, options) if is_spec(text) else _check_cluster(text, file, options)
    except InputError as error:
        return list(error.problems)


def _check_cluster(text: str, file: pathlib.Path, options: _Options) -> list[Problem]:
    found = cluster_in(text, file, options.site)
    if isinstance(found, Described):
        return list(unclear_values(found.description, found.document))
    return _check_config(text, found, options)


def _check_config(text: str, config: Config, options: _Options) -> list[Problem]:
    from clusterjobs.validation.finding import problems
    from clusterjobs.validation.upgrade import shell_problems, template_problems
    from clusterjobs.validation.yaml_1_1 import find_misread

    if config.unresolved:
        return [*config.unresolved]
    name = config.cluster.file
    found = [*shell_problems(text, name), *template_problems(text, name), *_about_wrapping(config)]
    found += problems(
        config.document, config.cluster.path, find_misread(config.document, config.cluster.path)
    )
    release = options.release or release_of(config.site)
    where = config.document, config.cluster.path
    return found + _validate_config(*where, config.data, options, release)


def _about_wrapping(config: Config) -> list[Problem]:
    """A notice for a config inside a CloudFormation template; `!Ref` cannot be resolved here."""
    if not config.cluster.path:
        return []
    where = config.document.locate_key(config.cluster.path)
    what = "the config is inside another file, which pcluster cannot read"
    hint = f"save the content of {config.cluster.path[-1]} in a separate file"
    return [Problem(what, where, hint=hint, warning=True, info=True)]


def _check_spec(file: pathlib.Path, options: _Options) -> list[Problem]:
    from clusterjobs.clusters.parallelcluster.source import ConfigFiles, ConfigSource
    from clusterjobs.runs.load import load  # includes all checks of the plan
    from clusterjobs.validation.arguments import argument_problems, problems_in_job

    run = load(file, options.settings)
    outputs = run.outputs()
    found = [*run.warnings, *run.notes, *_check_shell(outputs, run.script_names)]
    if options.asks_parser:
        settings = () if run.spec.preflight else ("preflight=true",)  # which has the request
        asked = load(file, (*options.settings, *settings)) if settings else run
        job = asked.planned_jobs[0]
        found += problems_in_job(job, say_on_stderr) if options.in_job else argument_problems(job)
    source, fitted = run.source, run.fitted
    if isinstance(source, ConfigSource) and isinstance(fitted, ConfigFiles) and fitted.data:
        release = options.release or source.release
        found += _validate_config(source.document, (), fitted.data, options, release)
    return found


def _validate_config(
    document: Document,
    base: tuple[str | int, ...],
    data: dict[str, Any],
    options: _Options,
    release: str,
) -> list[Problem]:
    from clusterjobs.validation.finding import problems
    from clusterjobs.validation.schema import check_config

    _refuse_unknown(release)
    options.releases.add(release)
    config = json.dumps([release, data], default=repr)
    report = options.reports.get(config)
    if report is None:  # it takes seconds, and many specs may have the same config
        validate = _validators(options.with_aws, release)
        report = check_config(data, options.overrides, validate, release)
        options.reports[config] = report
    options.validators_ran = options.validators_ran and report.validators_ran
    return problems(document, base, report.findings)


def _check_shell(outputs: dict[str, str], scripts: Sequence[str]) -> list[Problem]:
    """Check the job scripts with `bash -n`, if there is a bash that has their syntax."""
    bash, found = find_bash(), []
    for name in scripts if bash else ():
        done = subprocess.run(
            [bash or "", "-n"], input=outputs[name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = f"bash reports an error: {done.stderr.strip()}"
            found.append(Problem(said, Location(name, 1, 1)))
    return found


# ------------------------------------------------------------------ output


def _show_summary(found: dict[str, list[Problem]], options: _Options) -> None:
    from clusterjobs.extras import how_to_install
    from clusterjobs.validation.optional_deps import is_installed

    if len(found) > 1:
        click.echo(states_table(state_of(name, problems) for name, problems in found.items()))
    for name, problems in found.items() if len(found) == 1 else ():
        if not _has_errors(problems):
            count = sum(problem.warning for problem in problems)
            click.echo(f"{name}: ok" + (f", warnings and notes: {count}" if count else ""))
    if options.releases - {CURRENT}:
        click.echo(f"checked for ParallelCluster {', '.join(sorted(options.releases))}", err=True)
    if not options.validators_ran and not is_installed():
        click.echo(
            "skipped: ParallelCluster's own schema and validators; "
            f"{how_to_install('aws')} adds them",
            err=True,
        )


def _has_errors(problems: Sequence[Problem]) -> bool:
    return any(not problem.warning for problem in problems)
