"""clusterjobs templates check: whether the templates of a site keep what a job script promises."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence

import click

from clusterjobs.commands.script_syntax import bash_problem
from clusterjobs.commands.show import show_problems
from clusterjobs.commands.site_folders import TEMPLATES, SiteFolders, find_site_folders, is_folder
from clusterjobs.commands.site_templates import read_site_templates
from clusterjobs.commands.templates.lint import (
    NO_SHELLCHECK,
    Rendered,
    shellcheck_problems,
    shellcheck_program,
)
from clusterjobs.commands.templates.overrides import outdated
from clusterjobs.commands.templates.samples import (
    Sample,
    packaged_samples,
    site_samples,
    template_variables,
)
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.launchers import LAUNCHERS
from clusterjobs.render.invariants.all import INVARIANTS
from clusterjobs.render.site.check import check_site
from clusterjobs.render.site.templates import SiteTemplates

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
    templates = read_site_templates(folders)
    problems, summary = _check(folders, templates)
    if as_json:
        click.echo(json.dumps([_as_data(one) for one in problems], indent=2, ensure_ascii=False))
    else:
        show_problems(problems)
        if not problems:
            click.echo(summary)
    show_problems(list(outdated(folders)))
    if not shellcheck_program():
        click.echo(NO_SHELLCHECK, err=True)
    return 1 if problems else 0


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


def _as_data(problem: Problem) -> dict[str, str | int | None]:
    where = problem.where
    return {
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "path": problem.path,
        "what": problem.what,
        "hint": problem.hint,
    }


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
    found = [
        (problem, one.name)
        for one in rendered
        if (problem := bash_problem(one.text, one.templates))
    ]
    found += _broken_invariants(rendered)
    if (program := shellcheck_program()) and not found and not skip_lint:
        found += shellcheck_problems(program, rendered)
    return found


def _render(sample: Sample, templates: SiteTemplates) -> Rendered:
    script = sample.rendered(templates)
    secrets = tuple(one.name for one in sample.plan.environment.secrets)
    return Rendered(sample.name, sample.script, script.text, secrets, templates)


def _broken_invariants(rendered: Sequence[Rendered]) -> Iterator[tuple[Problem, str]]:
    for one in rendered:
        scripts = one.scripts()
        for invariant in INVARIANTS:
            for broken in invariant.broken(scripts):
                where = one.position(broken.line, broken.template)
                what = f"{broken.what}: {invariant.why}"
                yield Problem(what, where, invariant.name, broken.hint), one.name


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
