"""A Python script that calls jax.distributed.initialize(), which reads Slurm's variables.

Source: JAX 0.10.2, jax/_src/distributed.py, jax/_src/clusters/cluster.py and slurm_cluster.py.
"""

from collections.abc import Iterator, Mapping

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import counted
from clusterjobs.frameworks.arguments import (
    arguments_of,
    check_parallel_arguments,
    refuse_variables,
    script_of,
)
from clusterjobs.frameworks.base import Foreseen, Framework, Program, Shape, Task, Variable
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.text import joined, variable

_OURS = {
    "JAX_COORDINATOR_ADDRESS": "MASTER_ADDR and MASTER_PORT",
    "JAX_LOCAL_DEVICE_IDS": "gpus_per_node and ranks_per_node",
    "JAX_NUM_PROCESSES": "nodes and ranks_per_node",
    "JAX_PROCESS_ID": "SLURM_PROCID, and one value would make every rank the same",
}
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # gRPC knows these in lower case
_SOURCE = "JAX: jax.distributed.initialize"


class Jax(Framework):
    """`framework: jax`."""

    name = "jax"
    launchers = ("srun",)
    packages = ("jax",)
    parallel_keys = ("tensor", "pipeline", "context", "expert")
    uses_torch = False
    reads_variables = ("JAX_COORDINATOR_", "JAX_LOCAL_DEVICE_IDS", "JAX_NUM_PROC", "JAX_PROCESS_ID")
    one_rank_uses_all_gpus = True

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        return Foreseen(layout={"engine": "jax", "zero": 3}, is_own_script=True)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        script = script_of(task.spec, diagnostics)
        check_parallel_arguments(task.spec, diagnostics)
        _check_ranks(task.shape, diagnostics)
        refuse_variables(task.spec, _OURS, diagnostics)
        if script is None:
            return None
        command = (script, *arguments_of(task.spec))
        return Program(command, is_python=True, environment=tuple(_environment(task.shape)))


def _check_ranks(shape: Shape, diagnostics: Diagnostics) -> None:
    """A rank gets the one GPU of its own number, or all of the node."""
    ranks, gpus = shape.ranks_per_node, shape.gpus_per_node
    if 1 < ranks < gpus:
        diagnostics.problem(
            ("ranks_per_node",),
            f"JAX would use {ranks} of {counted(gpus, 'GPU')}: each rank takes one",
            f"ranks_per_node: {gpus}, a rank for each GPU; or 1, which gets them all",
        )


def _environment(shape: Shape) -> Iterator[Variable]:
    address = variable("MASTER_ADDR")
    yield Variable(
        "JAX_COORDINATOR_ADDRESS",
        joined(address, ":", variable("MASTER_PORT")),
        "a port that is free: JAX's own, 61440 + job id % 4096, may be taken",
        _SOURCE,
    )
    if shape.ranks_per_node == 1 < shape.gpus_per_node:
        numbers = ",".join(map(str, range(shape.gpus_per_node)))
        reason = "in Slurm, JAX gives a rank one GPU by default"
        yield Variable("JAX_LOCAL_DEVICE_IDS", numbers, reason, _SOURCE)
    yield Variable(
        "no_grpc_proxy",
        address,
        "JAX would call the first node through the proxy, and hang",
        "gRPC: environment variables",
        only_with=_PROXIES,
    )
