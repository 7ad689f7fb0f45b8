"""Makes a plan and its files from a spec: shared by several commands."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterjobs.clusters.source import ClusterFiles, ClusterSource
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.runs.missing_inputs import missing_inputs, unsafe_logs
from clusterjobs.runs.spec_files import ClusterInput, OwnConfigs, SpecFiles
from clusterjobs.script.shell_check import code_problems
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import Inputs, render_outputs
from clusterjobs.sections.resolve import resolve
from clusterjobs.sites.folders import SiteFolders, read_site_templates
from clusterjobs.sites.policy_files import Policies
from clusterjobs.spec.load import BrokenSpecError, Spec

if TYPE_CHECKING:
    from clusterjobs.runs.sweep_project import SweepProject
    from clusterjobs.sites.policy_check import User
    from clusterjobs.spec.need_graph import NeedGraph


# ------------------------------------------------------------------ plan spec
#
# Makes the plan of a spec that is loaded: its code, the policies and its own configs are checked.


def plan_spec(
    loaded: Spec, source: ClusterSource, policies: Policies, configs: Mapping[str, str]
) -> Plan:
    """The plan. Raises InputError with the problems of code, policies and the spec together.

    `configs`: see `runs/spec_files.py`.
    """
    problems, plan = [*code_problems(loaded)], None
    try:
        plan = resolve(loaded, source.facts, configs)
    except InputError as error:
        problems += error.problems
    broken = policies.check(loaded, plan, source.facts)
    if plan is None or problems or any(not one.warning for one in broken):
        warnings = plan.warnings if plan else ()
        raise InputError(in_order([*problems, *broken, *warnings]))
    return plan._replace(warnings=(*plan.warnings, *broken))


def unfit_problems(source: ClusterSource) -> tuple[Problem, ...]:
    """Why the source cannot write its files for any job."""
    try:
        source.fit()
    except InputError as error:
        return error.problems
    return ()


@dataclass(frozen=True)
class Project:
    """A spec with its cluster, read and planned. `site`: the site folders that were used.

    `needs`: the specs that it needs; None without any. `configs`: the config files that it names.
    """

    plan: Plan
    inputs: Inputs
    source: ClusterSource
    spec: Spec
    site: SiteFolders
    needs: NeedGraph | None = None
    configs: OwnConfigs | None = None

    script_names = ("job.sh",)

    @functools.cached_property
    def fitted(self) -> ClusterFiles:
        """The files of the cluster's source. Raises InputError if it cannot serve the job."""
        try:
            found = self.source.fit(self.plan.links)
        except InputError as error:
            raise InputError([*self._of_the_spec, *error.problems]) from None
        if any(not problem.warning for problem in found.problems):
            raise InputError([*self._of_the_spec, *found.problems])
        return found

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Warnings of the plan, of the cluster's files, and about inputs that are missing here."""
        return (*self._of_the_spec, *(one for one in self.fitted.problems if not one.info))

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Notes about the cluster's files."""
        return tuple(one for one in self.fitted.problems if one.info)

    @functools.cached_property
    def _of_the_spec(self) -> tuple[Problem, ...]:
        from clusterjobs.foresight.of_project import warnings_of

        own = (*self.plan.warnings, *missing_inputs(self.plan), *unsafe_logs(self.plan))
        return (*own, *warnings_of(self))

    def check_strict(self) -> None:
        """Raise InputError if the job does not fit, which is else a warning."""
        from clusterjobs.foresight.of_project import warnings_of

        found = warnings_of(self, strict=True)
        if any(not one.warning for one in found):
            raise InputError(in_order([*self.plan.warnings, *found]))

    def outputs(self) -> dict[str, str]:
        """The texts of all files of a render. Raises InputError for missing site values."""
        outputs = render_outputs(self.plan, self.fitted.files, self.inputs)
        if self.inputs.templates.overrides():
            from clusterjobs.script.site.origin import check_bash

            check_bash([outputs["job.sh"]], self.inputs.templates)
        return outputs


def load_project(
    spec: pathlib.Path,
    settings: Sequence[str] = (),
    to_write: bool = True,
    site: SiteFolders | None = None,
    user: User | None = None,
) -> Project:
    """Read the spec and the files that it names, and make the plan; of a sweep, the first point's.

    `to_write`: a cluster config that cannot be written is reported with the spec's problems.
    `site`: the site folders to use instead of those that are found. `user`: whom their policies
    suppose, instead of the caller. Raises InputError.
    """
    loaded, files = read_spec(spec, settings, site, user)
    graph = _needs(files, files.points if loaded.point else [loaded])
    return _project(loaded, files, settings, to_write, user, graph)


def load(
    spec: pathlib.Path,
    settings: Sequence[str] = (),
    to_write: bool = True,
    site: SiteFolders | None = None,
    user: User | None = None,
) -> Project | SweepProject:
    """The same with all points of a sweep. Raises InputError with the problems of all of them."""
    files = SpecFiles(spec, site)
    broken: Sequence[Problem] = ()
    try:
        specs = files.load_points(settings)
    except BrokenSpecError as error:
        specs, broken = error.points, error.problems
        if not specs:
            raise with_further_problems(error, files, user) from None
    graph = _needs(files, specs)
    if specs[0].point is None:
        return _project(specs[0], files, settings, to_write, user, graph)
    from clusterjobs.runs.sweep_project import plan_points  # only for sweeps

    project = plan_points(specs, broken, files, settings, to_write, user)
    return replace(project, needs=graph)


def _needs(files: SpecFiles, points: Sequence[Spec]) -> NeedGraph | None:
    if not points[0].experiment.needs:
        return None
    from clusterjobs.runs.needs import read_need_graph  # most specs do not need this

    return read_need_graph(files, points)


def _project(
    loaded: Spec,
    files: SpecFiles,
    settings: Sequence[str],
    to_write: bool,
    user: User | None,
    needs: NeedGraph | None,
) -> Project:
    cluster = cluster_of(loaded, files)
    plan = _plan(loaded, cluster.source, files.spec, Policies(files.site, user), to_write)
    inputs = render_inputs(loaded, files, cluster, settings)
    configs = OwnConfigs(files.spec)
    return Project(plan, inputs, cluster.source, loaded, files.site, needs, configs)


def render_inputs(
    loaded: Spec, files: SpecFiles, cluster: ClusterInput, settings: Sequence[str]
) -> Inputs:
    """What the files of a render are made from."""
    return Inputs(
        _named((str(files.spec), files.text)),
        _named(cluster.config),
        tuple(map(_named, cluster.sites)),
        tuple(settings),
        tuple(map(_named, loaded.files("default"))),
        tuple(map(_named, loaded.files("base"))),
        read_site_templates(files.site),
        OwnConfigs(files.spec).content(loaded),
    )


def read_spec(
    spec: pathlib.Path,
    settings: Sequence[str] = (),
    site: SiteFolders | None = None,
    user: User | None = None,
) -> tuple[Spec, SpecFiles]:
    """Read the spec with what is below it. Raises InputError with all problems of single values,
    and with those of the plan that do not depend on them."""
    files = SpecFiles(spec, site)
    try:
        return files.load(settings), files
    except BrokenSpecError as error:
        raise with_further_problems(error, files, user) from None


def with_further_problems(
    error: BrokenSpecError, files: SpecFiles, user: User | None
) -> InputError:
    """The error with the problems of the plan that do not depend on the wrong values."""
    further = _further_problems(error, files, Policies(files.site, user)) if error.rest else ()
    return InputError(in_order([*error.problems, *further]))


def _further_problems(
    error: BrokenSpecError, files: SpecFiles, policies: Policies
) -> tuple[Problem, ...]:

    assert error.rest is not None
    try:
        source = cluster_of(error.rest, files).source
        _plan(error.rest, source, files.spec, policies, to_write=False)
    except InputError as found:
        return tuple(independent(found.problems, error.problems))
    return ()


def cluster_of(loaded: Spec, files: SpecFiles) -> ClusterInput:
    """The cluster that the spec names. Raises InputError."""
    return files.cluster(loaded.experiment.cluster, loaded.source.locate(("cluster",)))


def _plan(
    loaded: Spec, source: ClusterSource, spec: pathlib.Path, policies: Policies, to_write: bool
) -> Plan:
    try:
        return plan_spec(loaded, source, policies, OwnConfigs(spec).texts(loaded))
    except InputError as error:
        unfit = unfit_problems(source) if to_write else ()
        raise InputError(in_order([*error.problems, *unfit])) from None


def _named(file: tuple[str, str]) -> tuple[str, str]:
    """The name of a file as text, and its content: Linux allows any bytes in a name, a manifest
    only UTF-8."""
    name, text = file
    return pathlib.Path(name).name.encode("utf-8", "replace").decode(), text


# ------------------------------------------------------------------ further problems
#
# Problems of the plan that do not depend on the wrong values of a spec.


# Keys that are checked against each other: if one is wrong, problems of the others are left out.
_TOGETHER = (
    {
        *("cluster", "queue", "instance_type", "nodes", "gpus_per_node", "ranks_per_node"),
        *("cpus_per_task", "launcher", "framework", "model", "parallel", "batch", "zero"),
        *("configs", "config_dir", "fairseq"),
    },
    {"time_limit", "restarts", "checkpoints", "framework", "launcher", "cluster", "queue"},
    {"script", "command", "framework", "workdir"},
    {"data", "checkpoints", "logs", "workdir", "cluster", "queue", "instance_type"},
    {"env", "parameters", "secrets"},
    {"ssh", "srun", "launcher", "framework", "software"},
    {"preflight", "software", "nodes", "cluster"},
)


def independent(found: Iterable[Problem], wrong: Sequence[Problem]) -> Iterator[Problem]:
    """The errors in `found` that do not follow from the problems `wrong` of the spec itself."""
    paths = [problem.path for problem in wrong]
    keys = {_key(path) for path in paths} | {meant for one in wrong if (meant := _meant(one))}
    for problem in found:
        key = _key(problem.path)
        if problem.warning or not key or any(_is_related(problem.path, path) for path in paths):
            continue
        if not any(key in group and keys & group for group in _TOGETHER):
            yield problem


def _key(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _meant(problem: Problem) -> str:
    """The known key that an unknown key probably stands for."""
    found = re.match(r"(?:did you mean|write) (\w+)", problem.hint)
    return found[1] if found else ""


def _is_related(path: str, other: str) -> bool:
    """Whether the paths are the same, or one contains the other."""
    short, long = sorted((path, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))
