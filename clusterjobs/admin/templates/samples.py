"""The specs that show what templates do: the packaged samples, and the site's own tests."""

from __future__ import annotations

import functools
import pathlib
from typing import Any, NamedTuple

from clusterjobs import resources
from clusterjobs.admin.site_tests import example_user
from clusterjobs.errors import InputError, Problem
from clusterjobs.runs.load import load
from clusterjobs.script.site.templates import INSERTION_POINTS, NO_SITE, SiteFile, SiteTemplates
from clusterjobs.script.site.variables import Shape, merged, shape_of
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.points.arrays import PointTable
from clusterjobs.sections.render import Inputs, Script, render_script, template_context
from clusterjobs.sites.folders import TESTS, SiteFolders, is_refusal
from clusterjobs.sites.policy_check import User


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
    shapes = [shape_of(one.context(all_points)) for one in samples]
    found = shapes[0]
    for shape in shapes[1:]:
        found = merged(found, shape)
    return found
