"""A Python script that calls hvd.init(): started by horovodrun over ssh, or by mpirun in Slurm.

Source: Horovod 0.28.1, runner/launch.py and runner/gloo_run.py; its guides to MPI and to PyTorch.
"""

from __future__ import annotations

from clusterjobs.frameworks.contract import (
    OWN_SCRIPT,
    LogLine,
    Program,
    Task,
    argument_words,
    refuse_arguments,
    script_of,
)
from clusterjobs.ledger import Ledger
from clusterjobs.spec import words
from clusterjobs.spec.part import Part


class Settings(Part):
    """`interface`: the network interface of every node; found on each, where it is not named."""

    interface: words.Interface | None = None


class Options(Part):
    """What horovodrun is told."""

    horovod: Settings = Settings()


_BENCHMARK = LogLine(  # Horovod itself logs no speed; these are its own examples' words
    r"(?:Iter #(?P<step>\d+): )(?P<samples_per_second>[\d.]+) img/sec per (?:GPU|CPU)",
    "[1,0]<stdout>:Iter #3: 1642.4 img/sec per CPU",
    "Horovod examples/pytorch/pytorch_synthetic_benchmark.py",
)


class Horovod:
    """`framework: horovod`."""

    name = "horovod"
    saving = OWN_SCRIPT
    launchers: tuple[str, ...] = ("horovodrun", "mpirun")
    options: type[Part] | None = Options
    log_lines: tuple[LogLine, ...] = (_BENCHMARK,)

    def program(self, task: Task, ledger: Ledger) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.experiment, ledger)
        refuse_arguments(task.experiment, ledger, _said_elsewhere(ledger))
        _check_parallel(task, ledger)
        _check_interface(task, options, ledger)
        _state_learning_rate(task, ledger)
        if script is None:
            return None
        program = (script, *argument_words(task.experiment))
        return Program(program, is_python=True, interface=options.horovod.interface)


def _said_elsewhere(ledger: Ledger) -> dict[str, str]:
    """horovodrun's and mpirun's own options: behind the script they would be the script's."""
    ranks = f"{ledger.place_of(('nodes',))} and ranks_per_node"
    interface = ledger.place_of(("horovod", "interface"))
    launcher = ledger.place_of(("launcher",))
    return {
        **dict.fromkeys(("np", "num_proc", "H", "hosts", "hostfile"), ranks),
        **dict.fromkeys(("network_interface", "network_interfaces"), interface),
        **dict.fromkeys(("ssh_port", "ssh_identity_file"), ledger.place_of(("ssh",))),
        **dict.fromkeys(("gloo", "mpi", "jsrun"), launcher),
    }


def _check_parallel(task: Task, ledger: Ledger) -> None:
    for key in ("tensor", "pipeline"):
        if (size := getattr(task.experiment.parallel, key)) > 1:
            ledger.problem(
                ("parallel", key),
                f"{key}: {size}, but Horovod's ranks each hold the whole model",
                f"remove it, or framework: megatron-deepspeed, which knows {key} parallelism",
            )


def _check_interface(task: Task, options: Options, ledger: Ledger) -> None:
    if options.horovod.interface and task.experiment.launcher == "mpirun":
        ledger.problem(
            ("horovod", "interface"),
            "mpirun is not told of it: Open MPI leaves out lo and docker0 and uses the others",
            "remove it, or env: {OMPI_MCA_btl_tcp_if_include: ...}",
        )


def _state_learning_rate(task: Task, ledger: Ledger) -> None:
    """Horovod averages the gradients of all ranks; the script scales its learning rate itself."""
    steps = task.samples.accumulation if task.samples else 1
    world = task.shape.world_size
    ledger.derive(
        "horovod.learning_rate_factor",
        world * steps,
        f"a step sees {world} ranks' samples"
        + (f", {steps} times" if steps > 1 else "")
        + ": the script multiplies its one-GPU rate by hvd.size()"
        + (f" x backward_passes_per_step {steps}" if steps > 1 else ""),
        "Horovod's guide to PyTorch",
    )
