"""What ParallelCluster does not catch, and what a person without its extra should still be told.

A table of checks: each looks at a config's plain data and the account, and yields findings. They
know what goes wrong on real clusters; they must not know how ParallelCluster is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clusterjobs.parallelcluster.validation.account import Account
from clusterjobs.parallelcluster.validation.checks.capacity import (
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
    check_slurm_settings,
    check_mounts,
    check_associations,
    check_import_paths,
    check_zones,
)


def run_own_checks(data: Data, account: Account) -> list[Finding]:
    """The findings of every check."""
    return [finding for check in CHECKS for finding in check(data, account)]
