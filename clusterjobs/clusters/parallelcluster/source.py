"""A ParallelCluster config as the source of a cluster's facts, and of `cluster.yaml`."""

from __future__ import annotations

import functools
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.clusters.parallelcluster.detect import unfilled
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.read import read_cluster
from clusterjobs.clusters.parallelcluster.render_config import (
    FitChange,
    Fitted,
    UnwritableError,
    fit,
)
from clusterjobs.clusters.parallelcluster.site_values import (
    MissingValuesError,
    how_to_give,
    missing_values,
    not_given,
    substitute,
)
from clusterjobs.clusters.parallelcluster.slurm_nodes import slurm_shape
from clusterjobs.clusters.source import SlurmShape
from clusterjobs.errors import InputError, Problem
from clusterjobs.yaml.document import dotted

FILE = "cluster.yaml"


class ConfigFiles(NamedTuple):
    """`cluster.yaml`, and its changes for the job.

    `data` is its content; None if it is not written, because values of the site are missing.
    """

    files: Mapping[str, str]
    data: dict[str, Any] | None
    problems: tuple[Problem, ...]
    changes: tuple[FitChange, ...]
    config: str
    is_own: bool

    def notice(self, folder: pathlib.Path) -> str:
        """Which entries were added, and how to update the cluster.

        ParallelCluster adds and removes the associations of a running cluster by name
        (update_policy of DataRepositoryAssociations in its schema, 3.16): an update with another
        spec's cluster.yaml would remove these.
        """
        if not self.changes:
            return ""
        path, copy = folder / FILE, f"a copy of {self.config}, and let `cluster:` name that copy"
        return "\n".join(
            [
                f"{path} has more than {self.config}:",
                *(f"  {change}" for change in self.changes),
                "The cluster needs it before the job starts. Make it from this file, or update it:",
                "  pcluster update-cluster --cluster-name NAME --cluster-configuration "
                f"{shlex.quote(str(path))}",
                "Other specs do not know of it: an update with the cluster.yaml of one of them "
                "removes it again.",
                "To keep it, put what stands there below `Added by clusterjobs` into "
                f"{self.config if self.is_own else copy}.",
            ]
        )


class ConfigSource:
    """A config and the site's values. `is_own`: it is the user's own, not a ready one."""

    def __init__(
        self,
        text: str,
        file: str,
        site: Mapping[str, object],
        site_files: Sequence[str] = (),
        is_own: bool = True,
    ) -> None:
        """Raises InputError if the text is not a ParallelCluster config."""
        self._config = _read(text, file, _Site(site))
        self.cluster, self.document = self._config.cluster, self._config.document
        self.facts = self._config.facts
        self._site, self._site_files, self._is_own = site, site_files, is_own

    def shape(self) -> SlurmShape:
        """The cluster as its Slurm has it. Raises InputError with everything that is unknown."""
        return slurm_shape(self.cluster, self.document)

    def fit(self, links: Sequence[BucketLink] = ()) -> ConfigFiles:
        """The config as a job needs it.

        Raises InputError, for missing site values only if the config must be changed for the job.
        """
        file = self.document.file
        try:
            text, data, changes, problems = self._fit(links)
        except (MissingValuesError, UnwritableError) as error:
            (problem,) = error.problems
            if links:
                raise InputError([_needed(links[0], problem)]) from None
            why, hint = problem.what, problem.hint
            if isinstance(error, MissingValuesError):
                names = missing_values(substitute(self.document, self._site))
                why, hint = not_given(names), how_to_give(file)
            what = f"{FILE} is not written (the job runs without it): {why}"
            about = Problem(what, hint=hint, warning=True, info=True)
            return ConfigFiles({}, None, (about,), (), file, self._is_own)
        problems += self._unfilled(data)
        return ConfigFiles({FILE: text}, data, problems, changes, file, self._is_own)

    def _unfilled(self, data: dict[str, Any]) -> tuple[Problem, ...]:
        """A notice for placeholders that are written to cluster.yaml as they are."""
        paths = dict(unfilled(data))
        if not paths:
            return ()
        (path, written), *others = paths.items()
        more = f", and {len(others)} more" if others else ""
        what = f"{FILE} has {written}{more} as it is: nobody filled it in"
        hint = "fill it in before you make a cluster of the file; the job runs without it"
        where = self.document.locate(path)
        return (Problem(what, where, dotted(path), hint, warning=True, info=True),)

    def _fit(self, links: Sequence[BucketLink]) -> Fitted:
        """Most jobs want no links, so their cluster.yaml is the same."""
        if not links and self._config.fitted:
            return self._config.fitted
        fitted = fit(self.document, self._site, self._site_files, links)
        if not links:
            self._config.fitted = fitted
        return fitted


class _Site:
    """A site's values, which are a key of a cache."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values
        self._key = repr(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Site) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class _Config:
    """A config that was read, and its text for jobs without links if that was made."""

    def __init__(self, text: str, file: str, site: _Site) -> None:
        self.cluster, self.document = read_cluster(text, file, site.values)
        self.facts = cluster_facts(self.cluster)
        self.fitted: Fitted | None = None


# Many specs share a config, and reading it takes longer than the rest of a render.
_read = functools.lru_cache(maxsize=64)(_Config)


def _needed(link: BucketLink, problem: Problem) -> Problem:
    """Why a job with this link cannot do without cluster.yaml."""
    what = f"{link.folder} needs an association with {link.bucket_path} in {FILE}, which cannot be "
    what += f"written: {problem.what}"
    return Problem(what, link.where, hint=f"{problem.hint}; or copy the data: via: copy")
