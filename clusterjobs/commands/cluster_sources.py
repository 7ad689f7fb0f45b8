"""Chooses how a file that describes a cluster is read, by its content.

The one place of the commands that knows which kinds of such files there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clusterjobs.cluster.source import ClusterSource
from clusterjobs.commands.shell_check import CODE_HINT, bash_complaint
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.parallelcluster.source import ConfigSource
from clusterjobs.slurmcluster.detect import is_description
from clusterjobs.yaml.document import Path, dotted

if TYPE_CHECKING:
    from clusterjobs.slurmcluster.source import DescriptionSource


def cluster_source(
    text: str,
    file: str,
    site: Mapping[str, object],
    site_files: Sequence[str] = (),
    is_own: bool = True,
) -> ClusterSource:
    """A ParallelCluster config with the site's values, or a description of a Slurm cluster.

    `is_own`: the file is the user's own, not a ready one. Raises InputError with its problems.
    """
    if is_description(text):
        return described_source(text, file)
    return ConfigSource(text, file, site, site_files, is_own)


def described_source(text: str, file: str) -> DescriptionSource:
    """A description of a Slurm cluster. Raises InputError with its problems.

    Its lines of bash are checked as those of a spec are.
    """
    from clusterjobs.slurmcluster.source import DescriptionSource  # others need not load it

    source = DescriptionSource(text, file)
    found, document = source.description, source.document
    code: dict[Path, tuple[str, ...]] = {("setup",): found.setup}
    code |= {("node_types", name, "setup"): one.setup for name, one in found.node_types.items()}
    problems = [
        Problem(f"bash cannot read it: {said}", document.locate(path), dotted(path), CODE_HINT)
        for path, lines in code.items()
        if lines and (said := bash_complaint("\n".join(lines)))
    ]
    if problems:
        raise InputError(in_order(problems))
    return source
