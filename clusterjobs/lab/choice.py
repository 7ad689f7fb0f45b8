"""Chooses the version of Slurm that a lab runs, and says why.

This module knows versions and which are near to each other; it must not know what packages contain.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from clusterjobs.errors import InputError, one_problem
from clusterjobs.lab.apt import Say
from clusterjobs.lab.packages import Slurm, find_slurm, installed_slurm, unpacked_slurm
from clusterjobs.lab.suites import SUITES, fetch_suite, suite_version, unpacked_suite

OWN = "own"  # this machine's version
VERSIONS = (OWN, *SUITES)


def choose_slurm(cache: Path, version: str | None, cluster: str | None, say: Say) -> Slurm:
    """Slurm in one of VERSIONS; None: the nearest to the cluster's version, "25.11.8".

    Raises InputError if this machine cannot have that version, or for None, no Slurm at all.
    """
    if version is None:
        slurm, why = _nearest(cache, cluster, say)
    else:
        slurm = slurm_of(cache, version, say)
        why = "this machine's own" if version == OWN else "as asked for"
    say(f"Slurm {slurm.name}, {why}; the cluster has {cluster or 'an unknown version'}")
    return slurm


def slurm_of(cache: Path, version: str, say: Say, download: bool = True) -> Slurm:
    """Slurm in one of VERSIONS. Raises InputError if this machine cannot have it."""
    if version == OWN:
        return find_slurm(cache, say)
    installed = installed_slurm()
    if installed and installed.name.startswith(f"{version}."):
        return installed
    if not installed and version == suite_version():
        return find_slurm(cache, say)
    root = unpacked_suite(cache, version)
    if not root and not download:
        raise one_problem(f"Slurm {version} is not in {cache}")
    return unpacked_slurm(root or fetch_suite(cache, version, say))


def by_distance(cluster: str, versions: Iterable[str]) -> list[str]:
    """The versions, the nearest first; of two that are equally near, the newer."""
    wanted = _months(cluster)
    return sorted(versions, key=lambda one: (abs(_months(one) - wanted), -_months(one)))


def _nearest(cache: Path, cluster: str | None, say: Say) -> tuple[Slurm, str]:
    """After a download that failed, only versions that need none: never a failure instead."""
    installed = installed_slurm()
    own = [installed.name.rpartition(".")[0]] if installed else []
    download, why = True, "the nearest to the cluster's"
    for version in by_distance(cluster, {*SUITES, *own}) if cluster else ():
        try:
            return slurm_of(cache, version, say, download), why
        except InputError as error:
            if download:
                say(f"{error.problems[0].what}; using a version that is on this machine")
            download, why = False, "the nearest of those on this machine"
    return find_slurm(cache, say), "this machine's own"


def _months(version: str) -> int:
    """Slurm's versions are a year and a month."""
    year, month = version.split(".")[:2]
    return int(year) * 12 + int(month)
