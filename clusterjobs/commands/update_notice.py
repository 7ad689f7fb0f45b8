"""What a render has added to the cluster's config, and what that asks of who keeps the cluster."""

from __future__ import annotations

import pathlib
import shlex

from clusterjobs.commands.pipeline import Project
from clusterjobs.parallelcluster.find import is_path


def additions_text(project: Project, output: pathlib.Path) -> str:
    """What was added, that the cluster needs it, and how to keep it; "" where nothing was.

    ParallelCluster adds and removes associations of a cluster that runs, each by its name
    (update_policy of DataRepositoryAssociations in its schema, 3.16): with another spec's
    cluster.yaml it would remove these.
    """
    changes = project.fitted.changes
    if not changes:
        return ""
    config, file = project.cluster_document.file, shlex.quote(str(output / "cluster.yaml"))
    own = is_path(project.plan.experiment.cluster)
    keeper = config if own else f"a copy of {config}, and let `cluster:` name that copy"
    return "\n".join(
        [
            f"{output / 'cluster.yaml'} has more than {config}:",
            *(f"  {change}" for change in changes),
            "The cluster needs it before the job starts. Make it from this file, or update it:",
            f"  pcluster update-cluster --cluster-name NAME --cluster-configuration {file}",
            "Other specs do not know of it: an update with the cluster.yaml of one of them removes "
            "it again.",
            f"To keep it, put what stands there below `Added by clusterjobs` into {keeper}.",
        ]
    )
