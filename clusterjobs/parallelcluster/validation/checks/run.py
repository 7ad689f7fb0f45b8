"""Our own checks: what ParallelCluster does not catch, and what works without the extra.

A table of checks. Each reads a config's plain data and the account, and yields findings. Checks
know what goes wrong on real clusters; they must not know how ParallelCluster's validators run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clusterjobs.parallelcluster.validation.account import Account
from clusterjobs.parallelcluster.validation.checks.capacity import (
    check_drivers,
    check_instance_types,
    check_region,
)
from clusterjobs.parallelcluster.validation.checks.slurm import check_slurm_settings
from clusterjobs.parallelcluster.validation.checks.storage import (
    check_associations,
    check_import_paths,
    check_mounts,
    check_zones,
)
from clusterjobs.parallelcluster.validation.finding import Finding
from clusterjobs.parallelcluster.validation.walk import Data

Check = Callable[[Data, Account], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_region,
    check_instance_types,
    check_drivers,
    check_slurm_settings,
    check_mounts,
    check_associations,
    check_import_paths,
    check_zones,
)


def run_checks(data: Data, account: Account) -> list[Finding]:
    """The findings of every check."""
    return [finding for check in CHECKS for finding in check(data, account)]
