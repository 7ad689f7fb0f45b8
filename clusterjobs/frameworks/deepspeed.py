"""A script that calls deepspeed.initialize: its arguments and its ds_config.json.

Both come from the spec's `batch`, `precision` and `zero`, so that they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import (
    Argument,
    arguments_of,
    given_arguments,
    refuse_arguments,
    refuse_parallel,
    script_of,
)
from clusterjobs.frameworks.base import (
    JOB_DIR,
    OWN_SCRIPT,
    ConfigFile,
    Foreseen,
    Framework,
    Program,
    Task,
)
from clusterjobs.frameworks.ds_config import (
    CONFIG_NAME,
    DS_CONFIG,
    LATEST,
    THROUGHPUT,
    ZERO,
    DsConfigKeys,
    Further,
    Zero,
    check_zero,
    config_file,
    config_text,
    derived_config,
    extensions_folder,
    keys_of,
    own_keys,
)
from clusterjobs.frameworks.rules import Finding, check_rules, rule
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel, TopLevelKeys
from clusterjobs.text import joined
from clusterjobs.yaml.document import look_at


class Options(TopLevelKeys):
    """`zero`, and `ds_config` for the keys of DeepSpeed's config that are not derived, or a file
    that has them."""

    zero: Annotated[Zero | None, ZERO] = None
    ds_config: Annotated[DsConfigKeys, DS_CONFIG] = Field(default_factory=dict)


class DeepSpeed(Framework):
    """`framework: deepspeed`."""

    name = "deepspeed"
    argument_check = "check_deepspeed"
    checks_config_alone = True
    launchers = ("srun", "torchrun", "deepspeed", "deepspeed-pdsh")
    options = Options
    saving = OWN_SCRIPT._replace(marker="latest", overwritten=(LATEST,))
    log_lines = (THROUGHPUT,)
    reads_precision = True
    packages = ("torch", "deepspeed")
    compiles_extensions = True

    def config_files(self, options: SpecModel | None) -> tuple[str, ...]:
        assert isinstance(options, Options)
        return config_file(options.ds_config)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        from clusterjobs.frameworks.torch_foreseen import foreseen  # only a foresight needs it

        assert isinstance(options, Options)
        return foreseen(spec, options.zero, keys_of(options.ds_config, texts))

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.spec, diagnostics)
        refuse_arguments(task.spec, diagnostics, _ORIGINS)
        refuse_parallel(
            task.spec,
            ("tensor",),
            "DeepSpeed does not divide layers among ranks: each rank is data parallel",
            diagnostics,
        )
        own = own_keys(options.ds_config, task.texts, diagnostics)
        check_rules(RULES, _Settings(given_arguments(task.spec), own), diagnostics)
        check_zero(options.zero, task.spec.parallel.pipeline, diagnostics)
        further = Further(is_file=isinstance(options.ds_config, str))
        derived = derived_config(task, options.zero)
        config = config_text(task, derived, own, diagnostics, provenance, further)
        if script is None:
            return None
        command = (
            script,
            *arguments_of(task.spec),
            "--deepspeed",
            "--deepspeed_config",
            joined(JOB_DIR, "/", CONFIG_NAME),
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


class _Settings(NamedTuple):
    """The arguments of the script, and DeepSpeed's own keys."""

    arguments: list[Argument]
    own: Mapping[str, Any]


# Where a script has an argument of this name, it is the same setting as DeepSpeed's key.
_SAME = {
    "lr": ("optimizer", "params", "lr"),
    "learning_rate": ("optimizer", "params", "lr"),
    "weight_decay": ("optimizer", "params", "weight_decay"),
    "clip_grad": ("gradient_clipping",),
    "max_grad_norm": ("gradient_clipping",),
    "gradient_clipping": ("gradient_clipping",),
}


@rule(
    "`lr`, `weight-decay` or `clip-grad` in args, and another value of it in ds_config",
    "DeepSpeed's optimizer takes the config's, the script's own the argument",
    "DeepSpeed runtime/engine.py, _configure_optimizer",
    warning=True,
)
def two_values(settings: _Settings) -> Iterator[Finding]:
    for argument in settings.arguments:
        path = _SAME.get(argument.key, ())
        value = look_at(settings.own, path)
        if path and isinstance(value, (int, float)) and _differs(argument, value):
            what = f"{value} here, and {argument.texts[0]} as {argument.name} in args"
            hint = f'one of them: write "{{{{ args.{argument.name} }}}}" here'
            yield Finding(("ds_config", *path), what, hint)


def _differs(argument: Argument, value: float) -> bool:
    try:
        return len(argument.texts) == 1 and not math.isclose(float(argument.texts[0]), value)
    except ValueError:
        return False


RULES = (two_values,)
