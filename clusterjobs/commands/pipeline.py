"""From the files that a person names to a plan and its outputs: what several commands share."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from clusterjobs.cluster.source import ClusterFiles, ClusterSource
from clusterjobs.commands.files import read_sites, read_text, shown_path, site_files
from clusterjobs.commands.missing import missing_inputs
from clusterjobs.commands.shell_check import check_code
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.parallelcluster.find import find_cluster, is_path
from clusterjobs.parallelcluster.source import ConfigSource
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.resolve import config_files, resolve
from clusterjobs.render.inputs import Inputs
from clusterjobs.render.outputs import render_outputs
from clusterjobs.spec.load import Spec, load_spec
from clusterjobs.spec.site import load_site


@dataclass(frozen=True)
class Project:
    """A spec with its cluster, read and planned."""

    plan: Plan
    inputs: Inputs
    source: ClusterSource

    @functools.cached_property
    def fitted(self) -> ClusterFiles:
        """What the source writes for the job. Raises InputError where it cannot be as needed."""
        try:
            found = self.source.fit(self.plan.links)
        except InputError as error:
            raise InputError([*self._of_the_spec, *error.problems]) from None
        if any(not problem.warning for problem in found.problems):
            raise InputError([*self._of_the_spec, *found.problems])
        return found

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Of the plan, of the fitting, and of what this machine lacks."""
        return (*self._of_the_spec, *self.fitted.problems)

    @functools.cached_property
    def _of_the_spec(self) -> tuple[Problem, ...]:
        return (*self.plan.warnings, *missing_inputs(self.plan))

    def outputs(self) -> dict[str, str]:
        """The texts of all files of a render. Raises InputError for missing site values."""
        return render_outputs(self.plan, self.fitted.files, self.inputs)


def load_project(
    spec: pathlib.Path, settings: Sequence[str] = (), to_write: bool = True
) -> Project:
    """Read all files that the spec leads to, and make the plan. Raises InputError.

    `to_write`: a config that cannot be written is reported beside the problems of the spec.
    """
    text = read_text(spec)
    loaded = load_spec(text, str(spec), option_models(), settings)
    check_code(loaded)
    where = loaded.source.locate(("cluster",))
    cluster = loaded.experiment.cluster
    config = find_cluster(cluster, spec.parent, where)
    config_text, searched = read_text(config), site_files(spec)
    sites = read_sites(searched)
    names = tuple(map(str, searched))
    source = ConfigSource(
        config_text, shown_path(config), load_site(sites), names, is_path(cluster)
    )
    try:
        plan = resolve(loaded, source.facts, _read_configs(loaded, spec))
    except InputError as error:
        raise InputError([*error.problems, *(_unfit(source) if to_write else ())]) from None
    found = ((_name(pathlib.Path(file)), content) for file, content in sites)
    inputs = Inputs(
        (_name(spec), text), (_name(config), config_text), tuple(found), tuple(settings)
    )
    return Project(plan, inputs, source)


def _unfit(source: ClusterSource) -> tuple[Problem, ...]:
    """Why the source can write nothing, whatever the job is."""
    try:
        source.fit()
    except InputError as error:
        return error.problems
    return ()


def _read_configs(loaded: Spec, spec: pathlib.Path) -> dict[str, str]:
    """The program's own config files that are on this machine: beside the spec, or in workdir."""
    folders = [spec.parent, spec.parent / (loaded.experiment.workdir or ".")]
    found: dict[str, str] = {}
    for name in config_files(loaded):
        places = [folder / name for folder in folders if (folder / name).is_file()]
        if places:
            found[name] = read_text(places[0])
    return found


def _name(path: pathlib.Path) -> str:
    """A file's name as text: Linux allows any bytes in one, a manifest only UTF-8."""
    return path.name.encode("utf-8", "replace").decode()
