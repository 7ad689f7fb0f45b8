"""A script that calls deepspeed.initialize: its arguments and its ds_config.json.

Both come from the spec's `batch`, `precision` and `zero`, so that they cannot disagree.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import arguments_of, refuse_arguments, script_of
from clusterjobs.frameworks.base import (
    JOB_DIR,
    OWN_SCRIPT,
    ConfigFile,
    Framework,
    Program,
    Task,
)
from clusterjobs.frameworks.ds_config import (
    CONFIG_NAME,
    THROUGHPUT,
    Zero,
    check_zero,
    config_text,
    derived_config,
    extensions_folder,
)
from clusterjobs.provenance import Provenance
from clusterjobs.spec.model import SpecModel


class Options(SpecModel):
    """`zero`, and `ds_config` for the keys of DeepSpeed's config that are not derived."""

    zero: Zero | None = None
    ds_config: dict[str, Any] = Field(default_factory=dict)


class DeepSpeed(Framework):
    """`framework: deepspeed`."""

    name = "deepspeed"
    launchers = ("srun", "torchrun", "deepspeed", "deepspeed-pdsh")
    options = Options
    saving = OWN_SCRIPT._replace(marker="latest")
    log_lines = (THROUGHPUT,)
    reads_precision = True
    packages = ("torch", "deepspeed")
    compiles_extensions = True

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.experiment, diagnostics)
        refuse_arguments(task.experiment, diagnostics, _ORIGINS)
        check_zero(options.zero, task.experiment.parallel.pipeline, diagnostics)
        config = config_text(
            task, derived_config(task, options.zero), options.ds_config, diagnostics, provenance
        )
        if script is None:
            return None
        command = (
            script,
            *arguments_of(task.experiment),
            "--deepspeed",
            "--deepspeed_config",
            f"{JOB_DIR}/{CONFIG_NAME}",
        )
        return Program(
            command,
            is_python=True,
            files=(ConfigFile(CONFIG_NAME, config),),
            environment=(extensions_folder(),),
            origins=_ORIGINS,
        )


_ORIGINS = {
    "deepspeed": "framework: deepspeed",
    "deepspeed_config": "batch, precision, zero and ds_config",
    "local_rank": "the launcher, which sets LOCAL_RANK",
}
