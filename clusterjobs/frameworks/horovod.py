"""A Python script that calls hvd.init(): started by horovodrun over ssh, or by mpirun in Slurm.

Source: Horovod 0.28.1, runner/launch.py and runner/gloo_run.py; its guides to MPI and to PyTorch.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import counted
from clusterjobs.frameworks.arguments import arguments_of, refuse_arguments, script_of
from clusterjobs.frameworks.base import Foreseen, Framework, LogLine, Program, Task, Variable
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import Key, SpecModel, TopLevelKeys


class Settings(SpecModel):
    """How the nodes reach each other."""

    interface: Annotated[
        field_types.Interface | None,
        Key(
            "the network interface of every node (horovodrun)",
            "ens5",
            default_is="detected on each node",
        ),
    ] = None


class Options(TopLevelKeys):
    """`horovod`: options of its launchers."""

    horovod: Annotated[
        Settings, Key("options of Horovod's launchers", "{interface: ens5}", schedules=False)
    ] = Settings()


_BENCHMARK = LogLine(  # Horovod logs no speed; its own examples do
    r"(?:Iter #(?P<step>\d+): )(?P<samples_per_second>[\d.]+) img/sec per (?:GPU|CPU)",
    "[1,0]<stdout>:Iter #3: 1642.4 img/sec per CPU",
    "Horovod examples/pytorch/pytorch_synthetic_benchmark.py",
)


class Horovod(Framework):
    """`framework: horovod`."""

    name = "horovod"
    launchers = ("horovodrun", "mpirun")
    options = Options
    parallel_keys = ()
    log_lines = (_BENCHMARK,)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        return Foreseen(layout={"engine": "horovod"}, is_own_script=True)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.spec, diagnostics)
        refuse_arguments(task.spec, diagnostics, _origins(diagnostics))
        _check_interface(task, options, diagnostics)
        _state_learning_rate(task, provenance)
        if script is None:
            return None
        command = (script, *arguments_of(task.spec))
        return Program(
            command,
            is_python=True,
            interface=options.horovod.interface,
            environment=tuple(_open_mpi(task)),
        )


def _open_mpi(task: Task) -> Iterator[Variable]:
    """The ranks only coordinate through MPI, and NCCL sends the gradients: so TCP is enough."""
    if task.spec.launcher != "mpirun":
        return
    guide = "Horovod's guide to MPI"
    yield Variable("OMPI_MCA_pml", "ob1", "TCP: with RDMA, Open MPI may crash", guide)
    yield Variable("OMPI_MCA_btl", "^openib", "likewise", guide)
    if "OMPI_MCA_btl_tcp_if_include" not in task.spec.env:  # Open MPI refuses both
        reason = "these interfaces lead to no other node"
        yield Variable("OMPI_MCA_btl_tcp_if_exclude", "lo,docker0", reason, guide)


def _origins(diagnostics: Diagnostics) -> dict[str, str]:
    """horovodrun's and mpirun's own options; after the script they would be the script's."""
    ranks = f"{diagnostics.describe_key(('nodes',))} and ranks_per_node"
    interface = diagnostics.describe_key(("horovod", "interface"))
    launcher = diagnostics.describe_key(("launcher",))
    return {
        **dict.fromkeys(("np", "num_proc", "H", "hosts", "hostfile"), ranks),
        **dict.fromkeys(("network_interface", "network_interfaces"), interface),
        **dict.fromkeys(("ssh_port", "ssh_identity_file"), diagnostics.describe_key(("ssh",))),
        **dict.fromkeys(("gloo", "mpi", "jsrun"), launcher),
    }


def _check_interface(task: Task, options: Options, diagnostics: Diagnostics) -> None:
    if options.horovod.interface and task.spec.launcher == "mpirun":
        diagnostics.problem(
            ("horovod", "interface"),
            "not passed to mpirun: Open MPI uses all interfaces except lo and docker0",
            "remove it, or env: {OMPI_MCA_btl_tcp_if_include: ...}",
        )


def _state_learning_rate(task: Task, provenance: Provenance) -> None:
    """Horovod averages the gradients of all ranks; the script scales its learning rate itself."""
    steps = task.samples.accumulation if task.samples else 1
    world = task.shape.world_size
    provenance.record(
        "horovod.learning_rate_factor",
        world * steps,
        f"a step sees the samples of {counted(world, 'rank')}"
        + (f", {steps} times" if steps > 1 else "")
        + ": the script multiplies its one-GPU rate by hvd.size()"
        + (f" x backward_passes_per_step {steps}" if steps > 1 else ""),
        "Horovod's guide to PyTorch",
    )
