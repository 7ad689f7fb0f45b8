"""A Python script that reads torch.distributed's variables: RANK, WORLD_SIZE, MASTER_ADDR ..."""

from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import arguments_of, check_parallel_arguments, script_of
from clusterjobs.frameworks.base import Foreseen, Framework, Program, Task
from clusterjobs.frameworks.torch_foreseen import of_script
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel


class Torchrun(Framework):
    """`framework: torchrun`."""

    name = "torchrun"
    launchers = ("torchrun", "srun")
    parallel_keys = ("tensor", "pipeline", "context")
    packages = ("torch",)
    neuron_launchers = ("torchrun",)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        return of_script(spec)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        script = script_of(task.spec, diagnostics)
        check_parallel_arguments(task.spec, diagnostics)
        if script is None:
            return None
        return Program((script, *arguments_of(task.spec)), is_python=True)
