"""Options of sbatch written as keys of the spec: `partition` is `queue`, `account` is in `sbatch`.

It knows the names of both; it must not know what the values mean.
"""

from __future__ import annotations

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem
from clusterjobs.slurm_options import known_options
from clusterjobs.spec.renamed_keys import written_value
from clusterjobs.yaml.document import Path, dotted

# Slurm's option -> the key of the spec, where both take the same value.
_SAME_VALUE = {
    "partition": "queue",
    "nodes": "nodes",
    "time": "time_limit",
    "job-name": "name",
    "gpus-per-node": "gpus_per_node",
    "ntasks-per-node": "ranks_per_node",
    "tasks-per-node": "ranks_per_node",
    "cpus-per-task": "cpus_per_task",
    "chdir": "workdir",
    "wrap": "command",
    "walltime": "time_limit",
}
# Slurm's option -> what to write instead.
_OTHER_VALUE = {
    "gpus": "gpus_per_node, the GPUs of each node",
    "gres": "gpus_per_node, the GPUs of each node",
    "gpus-per-task": "gpus_per_node, the GPUs of each node",
    "gpus-per-socket": "gpus_per_node, the GPUs of each node",
    "cpus-per-gpu": "cpus_per_task, the CPUs of each rank",
    "ntasks": "nodes and ranks_per_node",
    "ntasks-per-gpu": "ranks_per_node",
    "output": "logs, a folder",
    "error": "logs, a folder",
    "container": "software: {container: {runtime: pyxis, image: /fsx/images/pytorch.sqsh}}",
    "export": "env: {NAME: value}",
    "signal": "restarts: {signal: USR1}",
    "parsable": "nothing: clusterjobs submit prints the job's id",
    "test-only": "it when you submit: sbatch --test-only generated/job.sh",
}
# Options that a spec may also set in `sbatch`.
_ALSO_OPTIONS = ("output", "error", "signal")


def key_of_option(option: str) -> str | None:
    """What a spec has in place of the option, `queue`; None if it may set the option itself."""
    key = _SAME_VALUE.get(option) or _OTHER_VALUE.get(option)
    return None if option in _ALSO_OPTIONS else key


def slurm_name(path: Path, source: Locator) -> Problem | None:
    """The problem of the unknown key at `path`, if it is the name of an option of sbatch."""
    if len(path) > 1 or path[0] in ("help", "usage", "version"):
        return None
    options, option = known_options("sbatch"), str(path[0]).replace("_", "-")
    option, value = options.short.get(option, option), written_value(source.locate(path))
    if key := _SAME_VALUE.get(option):
        hint = f"write {key}: {value}"
    elif instead := _OTHER_VALUE.get(option):
        hint = f"write {instead}"
    elif option in options.takes_value:
        hint = f"write sbatch: {{{option}: {value}}}"
    else:
        return None
    what = f"{path[0]} is an option of sbatch, not a key of the spec"
    return Problem(what, source.locate_key(path), dotted(path), hint)
