"""Which Slurm a release of ParallelCluster ships: a table.

A config does not say which release it is for. A site.yaml may: `parallelcluster: 3.13.1`.
"""

from __future__ import annotations

from collections.abc import Mapping

# The release whose schema and validators clusterjobs knows.
CURRENT = "3.16.1"

# 3.1 to 3.6, 3.13 and 3.16: the changelog of aws-parallelcluster-cookbook and the release notes of
# aws-parallelcluster. 3.7 to 3.12: mostly a table of aws-eda-slurm-cluster. 3.15: a pull request of
# awsome-distributed-ai. Where they say nothing, a release ships what the release before it did.
# Not found: 3.13.2 and 3.14.
_SLURM = {
    "3.1.1": "21.08.5",
    "3.1.2": "21.08.6",
    "3.1.3": "21.08.6",
    "3.1.4": "21.08.8",
    "3.1.5": "21.08.8",
    "3.2.0": "21.08.8",
    "3.2.1": "21.08.8",
    "3.3.0": "22.05.5",
    "3.3.1": "22.05.5",
    "3.4.0": "22.05.7",
    "3.4.1": "22.05.7",
    "3.5.0": "22.05.8",
    "3.5.1": "22.05.8",
    "3.6.0": "23.02.2",
    "3.6.1": "23.02.2",
    "3.7.0": "23.02.4",
    "3.7.1": "23.02.5",
    "3.7.2": "23.02.6",
    "3.8.0": "23.02.7",
    "3.9.0": "23.11.4",
    "3.9.1": "23.11.4",
    "3.9.2": "23.11.7",
    "3.9.3": "23.11.7",
    "3.10.0": "23.11.7",
    "3.10.1": "23.11.7",
    "3.11.0": "23.11.10",
    "3.11.1": "23.11.10",
    "3.12.0": "23.11.10",
    "3.13.0": "24.05.7",
    "3.13.1": "24.05.8",
    "3.15.0": "25.11.4",
    "3.15.1": "25.11.4",
    "3.16.0": "25.11.6",
    "3.16.1": "25.11.8",
}


def slurm_version(site: Mapping[str, object]) -> str | None:
    """The Slurm of the site's release, or of CURRENT; None if the release is not in the table."""
    return _SLURM.get(str(site.get("parallelcluster", CURRENT)))
