"""Slurm in a version that tests ask for."""

from __future__ import annotations

import pytest

from clusterjobs.errors import InputError
from clusterjobs.lab.namespaces import check_namespaces
from clusterjobs.lab.slurm import Slurm, cache_dir, slurm_of


def slurm_or_skip(version: str) -> Slurm:
    """Slurm in that version; where this machine cannot have it, the test is skipped."""
    try:
        check_namespaces()
        return slurm_of(cache_dir(), version, print)
    except InputError as error:
        pytest.skip(str(error))
