"""A script with Composer's Trainer: started by composer, torchrun or srun.

Source: Composer 0.32.1, composer/utils/dist.py and composer/trainer/trainer.py.
"""

from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import (
    arguments_of,
    check_parallel_arguments,
    refuse_arguments,
    script_of,
)
from clusterjobs.frameworks.base import (
    OWN_SCRIPT,
    Foreseen,
    Framework,
    LogLine,
    Program,
    Task,
    Variable,
)
from clusterjobs.frameworks.torch_foreseen import FUSED_LOGITS, of_arguments
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel

# Options of the launcher; after the script they would be the script's.
_OF_THE_LAUNCHER = (
    *("nproc", "world_size", "node_rank", "base_rank", "master_addr", "master_port"),
)

_PROGRESS = LogLine(  # with Trainer(log_to_console=True); measurements are in lines of their own
    r"\[batch=(?P<step>\d+)(?:/(?P<steps>\d+))?\]:?$",
    "[batch=20/1000]:",
    "Composer 0.32.1 composer/loggers/console_logger.py, _get_progress_string",
)


class Composer(Framework):
    """`framework: composer`."""

    name = "composer"
    launchers = ("composer", "torchrun", "srun")
    saving = OWN_SCRIPT._replace(
        reason="the script is yours: a callback of yours calls state.stop_training()"
    )
    parallel_keys = ("tensor", "pipeline", "context")
    log_lines = (_PROGRESS,)
    packages = ("torch", "composer")

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        """llm-foundry's defaults: FSDP, and a fused loss."""
        layout = {"engine": "fsdp", "zero": 3, "gradient_sync": "each"}
        layout["logit_bytes"] = FUSED_LOGITS
        return Foreseen(layout={**of_arguments(spec), **layout})

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        spec = task.spec
        script = script_of(spec, diagnostics)
        check_parallel_arguments(spec, diagnostics)
        ranks = f"{diagnostics.describe_key(('nodes',))} and ranks_per_node"
        refuse_arguments(spec, diagnostics, dict.fromkeys(_OF_THE_LAUNCHER, ranks))
        if script is None:
            return None
        return Program(
            (script, *arguments_of(spec)),
            is_python=True,
            environment=(
                Variable(
                    "COMPOSER_RUN_NAME",
                    spec.name,
                    "the same in each attempt, for Trainer(autoresume=True)",
                    "Composer composer/trainer/trainer.py",
                ),
            ),
        )
