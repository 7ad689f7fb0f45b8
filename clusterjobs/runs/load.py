"""Loads a run: reads a spec with the files that it names, and plans each of its points."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterjobs.clusters.source import ClusterSource
from clusterjobs.errors import Found, InputError, Problem, in_order, of_points
from clusterjobs.frameworks import option_models
from clusterjobs.runs.content import OwnConfigs, origin_of
from clusterjobs.runs.run import Run
from clusterjobs.runs.spec_files import ClusterInput, SpecFiles
from clusterjobs.sections.context import PointPlan
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import Inputs
from clusterjobs.sites.folders import Policies, SiteFolders
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.sweep import Point
from clusterjobs.spec.load import BrokenSpecError, LoadedSpec
from clusterjobs.spec.model import Topic, known_keys

if TYPE_CHECKING:
    from clusterjobs.sites.policy_check import User
    from clusterjobs.spec.need_graph import NeedGraph


# ------------------------------------------------------------------ plan spec
# Makes the plan of a spec that is loaded: its code, the policies and its own configs are checked.


def plan_spec(
    loaded: LoadedSpec, source: ClusterSource, policies: Policies, configs: Mapping[str, str]
) -> Plan:
    """The plan. Raises InputError with the problems of code, policies and the spec together.

    `configs`: see `runs/content.py`.
    """
    problems, plan = [*_code_problems(loaded)], None
    try:
        plan = resolve(loaded, source.facts, configs)
    except InputError as error:
        problems += error.problems
    broken = policies.check(loaded, plan, source.facts)
    if plan is None or problems or any(not one.warning for one in broken):
        warnings = plan.warnings if plan else ()
        raise InputError(in_order([*problems, *broken, *warnings]))
    return plan._replace(warnings=(*plan.warnings, *broken))


def _code_problems(loaded: LoadedSpec) -> tuple[Problem, ...]:
    software = loaded.spec.software
    inside = software.container and software.container.setup
    if not (loaded.spec.setup or software.setup or inside):
        return ()
    from clusterjobs.script.shell_check import code_problems  # most specs have no lines of bash

    return code_problems(loaded)


def unfit_problems(source: ClusterSource) -> tuple[Problem, ...]:
    """Why the source cannot write its files for any job."""
    try:
        source.fit()
    except InputError as error:
        return error.problems
    return ()


def load_first(
    spec: pathlib.Path,
    settings: Sequence[str] = (),
    to_write: bool = True,
    site: SiteFolders | None = None,
    user: User | None = None,
) -> Run:
    """Read the spec and the files that it names, and make the plan; of a sweep, the first point's.

    `to_write`: a cluster config that cannot be written is reported with the spec's problems.
    `site`: the site folders to use instead of those that are found. `user`: whom their policies
    suppose, instead of the caller. Raises InputError.
    """
    loaded, files = read_spec(spec, settings, site, user)
    graph = _needs(files, files.points if loaded.point else [loaded])
    run = _plan_points([loaded], (), files, settings, to_write, user, graph)
    return replace(run, sweep=None)


def load(
    spec: pathlib.Path,
    settings: Sequence[str] = (),
    to_write: bool = True,
    site: SiteFolders | None = None,
    user: User | None = None,
) -> Run:
    """Load and plan a spec with all points of its sweep.

    Raises InputError with the problems of all points.
    """
    files = SpecFiles(spec, site)
    broken: Sequence[Problem] = ()
    try:
        specs = files.load_points(settings)
    except BrokenSpecError as error:
        specs, broken = error.points, error.problems
        if not specs:
            raise with_further_problems(error, files, user) from None
    return _plan_points(specs, broken, files, settings, to_write, user, _needs(files, specs))


def _needs(files: SpecFiles, points: Sequence[LoadedSpec]) -> NeedGraph | None:
    if not points[0].spec.needs:
        return None
    from clusterjobs.runs.needs import read_need_graph  # most specs do not need this

    return read_need_graph(files, points)


def _plan_points(
    specs: Sequence[LoadedSpec],
    broken: Sequence[Problem],
    files: SpecFiles,
    settings: Sequence[str],
    to_write: bool,
    user: User | None,
    needs: NeedGraph | None,
) -> Run:
    """Plan each point. Raises InputError with the problems of all, `broken` included."""
    cluster = cluster_of(specs[0], files)
    source, policies, configs = cluster.source, Policies(files.site, user), OwnConfigs(files.spec)
    points, found = [], []
    for one in specs:
        point = one.point or Point(0, one.spec.name, "", {})
        try:
            plan = plan_spec(one, source, policies, configs.texts(one))
            points.append(PointPlan(point, plan, configs.content(one)))
        except InputError as error:
            found.append(Found(point.name, error.problems))
        else:
            found.append(Found(point.name, plan.warnings))
    if broken or len(points) < len(specs):
        unfit = unfit_problems(source) if to_write else ()
        raise InputError(in_order([*broken, *of_points(found, len(specs)), *unfit]))
    inputs = render_inputs(specs[0], files, cluster, settings, points[0].content)
    inputs = inputs._replace(origin=origin_of(specs))
    return Run(
        tuple(specs),
        tuple(points),
        inputs,
        source,
        files.site,
        specs[0].spec.sweep,
        needs,
        configs,
        file=files.spec,
    )


def render_inputs(
    loaded: LoadedSpec,
    files: SpecFiles,
    cluster: ClusterInput,
    settings: Sequence[str],
    content: str,
) -> Inputs:
    """What the files of a render are made from. `content`: the hash of the first point."""
    return Inputs(
        _named((str(files.spec), files.text)),
        _named(cluster.config),
        tuple(map(_named, cluster.sites)),
        tuple(settings),
        tuple(map(_named, loaded.files("default"))),
        tuple(map(_named, loaded.files("base"))),
        files.site.templates,
        content,
    )


def read_spec(
    spec: pathlib.Path,
    settings: Sequence[str] = (),
    site: SiteFolders | None = None,
    user: User | None = None,
) -> tuple[LoadedSpec, SpecFiles]:
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
        plan_spec(error.rest, source, policies, OwnConfigs(files.spec).texts(error.rest))
    except InputError as found:
        return tuple(independent(found.problems, error.problems))
    return ()


def cluster_of(loaded: LoadedSpec, files: SpecFiles) -> ClusterInput:
    """The cluster that the spec names. Raises InputError."""
    return files.cluster(loaded.spec.cluster, loaded.source.locate(("cluster",)))


def _named(file: tuple[str, str]) -> tuple[str, str]:
    """The name of a file as text, and its content: Linux allows any bytes in a name, a manifest
    only UTF-8."""
    name, text = file
    return pathlib.Path(name).name.encode("utf-8", "replace").decode(), text


# ------------------------------------------------------------------ further problems
# Problems of the plan that do not depend on the wrong values of a spec.


def independent(found: Iterable[Problem], wrong: Sequence[Problem]) -> Iterator[Problem]:
    """The errors in `found` that do not follow from the problems `wrong` of the spec itself."""
    paths = [problem.path for problem in wrong]
    topics = {topic for one in wrong for path in (one.path, one.meant) for topic in _topics(path)}
    for problem in found:
        if problem.warning or not problem.path or topics & _topics(problem.path):
            continue
        if not any(_is_related(problem.path, path) for path in paths):
            yield problem


def _topics(path: str) -> set[Topic]:
    """The topics of the key at the top: problems of a wrong key's topics may follow from it."""
    name = re.split(r"[.\[]", path, maxsplit=1)[0]
    if name in Experiment.model_fields:
        key = known_keys(Experiment)[name]
    else:
        key = option_models().key(name) if name else None
    return set(key.belongs_with) if key else set()


def _is_related(path: str, other: str) -> bool:
    """Whether the paths are the same, or one contains the other."""
    short, long = sorted((path, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))
