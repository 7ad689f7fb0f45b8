"""GPT-NeoX: `deepy.py train.py -d configs a.yml b.yml`, and a last file that clusterjobs writes.

deepy.py runs once; DeepSpeed's Slurm launcher then starts the ranks with its own srun.
Source: GPT-NeoX 2.0, deepy.py and megatron/neox_arguments; its issues 784, 849 and 891.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import arguments_of, refuse_arguments, script_of
from clusterjobs.frameworks.base import (
    JOB_DIR,
    ConfigFile,
    Framework,
    Program,
    Saving,
    Task,
    Variable,
)
from clusterjobs.frameworks.ds_config import (
    Zero,
    check_json,
    check_zero,
    extensions_folder,
    leaves,
    record_batch,
)
from clusterjobs.frameworks.gpt_neox.config_loading import (
    Givens,
    composed,
    has_batch,
    refuse_keys,
    with_their_numbers,
    yaml_text,
)
from clusterjobs.frameworks.gpt_neox.launch_config import (
    ITERATION,
    LAUNCH_NAME,
    MASTER_NAME,
    ORIGINS,
    OURS,
    Options,
    launch_config,
    written,
)
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.references import expanding, has_variable


class GptNeoX(Framework):
    """`framework: gpt-neox`."""

    name = "gpt-neox"
    saving = Saving(
        "never", "GPT-NeoX cannot be asked to: it saves every checkpoint_factor steps", "latest"
    )
    launchers = ("deepy",)
    options = Options
    log_lines = (ITERATION,)
    reads_precision = True
    packages = ("torch", "deepspeed")
    compiles_extensions = True
    helpers = "megatron/data"  # compile_helper of megatron/data/data_utils.py

    def config_files(self, options: SpecModel | None) -> tuple[str, ...]:
        assert isinstance(options, Options)
        folder = f"{options.config_dir}/" if options.config_dir else ""
        return tuple(
            _with_suffix(name if name.startswith("/") else f"{folder}{name}")
            for name in options.configs
        )

    def completed(
        self,
        experiment: Experiment,
        options: SpecModel | None,
        texts: Mapping[str, str],
        diagnostics: Diagnostics,
    ) -> Experiment:
        assert isinstance(options, Options)
        files = self.config_files(options)
        _check_names(files, diagnostics)
        _warn_of_unread(files, texts, diagnostics)
        given = composed(texts, diagnostics)
        refuse_keys(given, written(experiment, options, diagnostics), _ONCE, diagnostics)
        refuse_keys(given, _NODES, "remove it: it would select other nodes", diagnostics)
        numbers = with_their_numbers(experiment, given, diagnostics)
        check_zero(
            options.zero or _zero_of(given, diagnostics), numbers.parallel.pipeline, diagnostics
        )
        if texts.keys() >= set(files):
            _check_required(experiment, options, given, diagnostics)
        return numbers

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.experiment, diagnostics)
        _check_spec(task.experiment, options, diagnostics)
        record_batch(task, "train_batch_size", provenance)
        launch = launch_config(task, options)
        if script is None:
            return None
        return Program(
            (*_arguments(script, task.experiment, options), *_OUR_FILES),
            is_python=True,
            files=(ConfigFile(LAUNCH_NAME, yaml_text(launch)),),
            environment=tuple(_environment(task)),
        )


_OUR_FILES = (f"{JOB_DIR}/{LAUNCH_NAME}", f"{JOB_DIR}/{MASTER_NAME}")
_ONCE = "remove one of the two: deepy.py refuses a key that is in two files"
_NODES = {
    **dict.fromkeys(
        ("hostfile", "include", "exclude", "num_nodes", "num_gpus"),
        "the job, which writes its own host file (DLTS_HOSTFILE)",
    ),
    **dict.fromkeys(
        ("master_addr", "master_port"), "the job, which sets MASTER_ADDR and MASTER_PORT"
    ),
}


def _with_suffix(name: str) -> str:
    """deepy.py takes `small` for `small.yml`."""
    return name if name.endswith((".yml", ".json")) else f"{name}.yml"


def _check_names(files: tuple[str, ...], diagnostics: Diagnostics) -> None:
    """deepy.py copies each file beside the checkpoints, under its name without the folder."""
    names = [file.rpartition("/")[2] for file in (*_OUR_FILES, *files)]
    for index, name in enumerate(names[2:]):
        if name.endswith(".yaml.yml"):
            what = f"deepy.py would look for {name}"
            diagnostics.problem(
                ("configs", index), what, "rename the file: its name must end in .yml"
            )
        if name in names[: index + 2]:
            diagnostics.problem(
                ("configs", index),
                f"two configs have the name {name}: deepy.py refuses that",
                "rename one of them",
            )


def _warn_of_unread(
    files: tuple[str, ...], texts: Mapping[str, str], diagnostics: Diagnostics
) -> None:
    for index, file in enumerate(files):
        if file not in texts:
            diagnostics.problem(
                ("configs", index),
                f"{file} is not on this machine and was not checked",
                "put a copy next to the spec, under the same path",
                warning=True,
            )


_HOW_OFTEN = {"checkpoint_factor", "extra_save_iters", "save_interval"}  # the last before 2.0


def _check_required(
    experiment: Experiment, options: Options, given: Givens, diagnostics: Diagnostics
) -> None:
    """Keys that deepy.py requires, in a file or in the spec; all files have been read."""
    if experiment.batch is None and not has_batch(given):
        example = "{micro: 4, global: 64}"
        diagnostics.missing(
            "batch", "batch is missing, here and in the configs", f"add `batch: {example}`"
        )
    known = {*given, *(key.replace("-", "_") for key in options.neox)}
    if experiment.checkpoints and not known & _HOW_OFTEN:
        diagnostics.problem(
            ("checkpoints",),
            "checkpoint_factor is missing: how often a checkpoint is saved",
            "add `checkpoint_factor: 1000` (iterations) to a file or to neox",
        )


def _zero_of(given: Givens, diagnostics: Diagnostics) -> Zero | None:
    if "zero_optimization" not in given:
        return None
    found = given["zero_optimization"].value
    diagnostics.relocate(("zero", "stage"), given["zero_optimization"].where)
    stage = found.get("stage") if isinstance(found, dict) else None
    return Zero(stage=stage) if stage in (0, 1, 2, 3) else None


# ------------------------------------------------------------------ the program


def _arguments(script: str, experiment: Experiment, options: Options) -> Iterator[str]:
    yield from ("deepy.py", script, *arguments_of(experiment))
    if options.config_dir:
        yield from ("-d", expanding(options.config_dir))
    yield from map(expanding, options.configs)


def _environment(task: Task) -> Iterator[Variable]:
    ranks = str(task.shape.ranks_per_node)
    yield Variable("LOCAL_WORLD_SIZE", ranks, "ranks per node, which srun does not set")
    yield extensions_folder()


def _check_spec(experiment: Experiment, options: Options, diagnostics: Diagnostics) -> None:
    _check_neox(options, diagnostics)
    _check_checkpoints(experiment, diagnostics)
    names = ("conf_dir", "d", "conf_file", "hostfile", "H")
    refuse_arguments(
        experiment, diagnostics, dict.fromkeys(names, "config_dir, configs and the job")
    )
    if experiment.prefix:
        hint = "remove it: DeepSpeed starts the ranks with its own srun"
        diagnostics.problem(("prefix",), "prefix does not reach the ranks of gpt-neox", hint)
    if "WANDB_API_KEY" in experiment.secrets:
        hint = "keep it in ~/.netrc on the cluster, or use whole nodes"
        what = "deepy.py writes WANDB_API_KEY on srun's command line, where `ps` shows it"
        diagnostics.problem(("secrets", "WANDB_API_KEY"), what, hint, warning=True)


def _check_checkpoints(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """The path is written into a config file, in which nothing is expanded."""
    path = experiment.checkpoints.path if experiment.checkpoints else "/"
    if not path.startswith("/") or "${" in path or has_variable(path):
        diagnostics.problem(
            ("checkpoints", "path"),
            "the path is written into a config file, where variables are not expanded",
            "write an absolute path without variables: /fsx/checkpoints/my-run",
        )


def _check_neox(options: Options, diagnostics: Diagnostics) -> None:
    for key in options.neox:
        known = key.replace("-", "_")
        if known in ORIGINS or known in _NODES or known in OURS:
            by = f"{ORIGINS[known][0]}:" if known in ORIGINS else "the job"
            hint = "remove it here, so that the plan can check it"
            diagnostics.problem(("neox", key), f"{key} is set by {by}", hint)
    for path, value in leaves(options.neox, ()):
        check_json("neox", path, value, diagnostics)
