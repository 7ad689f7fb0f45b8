"""fairseq's two programs, `fairseq-train` and `fairseq-hydra-train`, from one spec.

The world size is always given: if fairseq infers it, each rank may train a model of its own and
exit with 0. Source: fairseq 0.12, fairseq/distributed/utils.py and fairseq_cli/train.py.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import argument_key, refuse_derived
from clusterjobs.frameworks.base import (
    DataPath,
    Foreseen,
    Framework,
    LogLine,
    Program,
    Saving,
    Task,
    Variable,
)
from clusterjobs.frameworks.fairseq.rules import (
    ARGUMENT_RULES,
    TRAINING_RULES,
    Given,
    given_of,
    override_findings,
)
from clusterjobs.frameworks.fairseq.settings import (
    OF_THE_LAUNCHER,
    Setting,
    Settings,
    argument_keys,
    derived_settings,
    flag_of,
    half_of,
    hydra_command,
    override_of,
    train_command,
)
from clusterjobs.frameworks.flags import check_arguments, table
from clusterjobs.frameworks.megatron.foreseen import Flags
from clusterjobs.frameworks.rules import check_rules
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import Key, SpecModel, TopLevelKeys
from clusterjobs.text import show, split_text

# ------------------------------------------------------------------ foreseen
# What fairseq's architecture and arguments say about memory and speed.
# Source: fairseq 0.12, models/roberta/model.py and models/transformer_lm.py (the architectures).


# layers, hidden, heads, ffn
_ARCHITECTURES = {
    "roberta": (12, 768, 12, 3072),
    "roberta_base": (12, 768, 12, 3072),
    "roberta_large": (24, 1024, 16, 4096),
    "transformer_lm_big": (12, 1024, 16, 4096),
    "transformer_lm_gpt": (12, 768, 12, 3072),
    "transformer_lm_gpt2_small": (24, 1024, 16, 4096),
    "transformer_lm_gpt2_medium": (36, 1280, 20, 5120),
    "transformer_lm_gpt2_big": (48, 1600, 25, 6400),
    "transformer_lm_gpt3_small": (12, 768, 12, 3072),
    "transformer_lm_gpt3_medium": (24, 1024, 16, 4096),
    "transformer_lm_gpt3_large": (24, 1536, 16, 6144),
    "transformer_lm_gpt3_xl": (24, 2048, 32, 8192),
    "transformer_lm_gpt3_2_7": (32, 2560, 32, 10240),
    "transformer_lm_gpt3_6_7": (32, 4096, 32, 16384),
    "transformer_lm_gpt3_13": (40, 5120, 40, 20480),
    "transformer_lm_gpt3_175": (96, 12288, 96, 49152),
}
_NAMES = {
    "layers": "layers",
    "embed_dim": "hidden",
    "attention_heads": "heads",
    "ffn_embed_dim": "ffn",
}
_VOCABULARY = 50_265  # of GPT-2's byte pairs as fairseq counts them
_MASKED = 0.15  # --mask-prob
_SEQUENCE = {"encoder": 512, "decoder": 2048}


class Options(TopLevelKeys):
    """`fairseq`: its keys beside the common ones of a spec."""

    fairseq: Annotated[
        Settings,
        Key(
            "the program, the model and the data",
            "{data: /fsx/data-bin, arch: transformer_lm}",
            schedules=False,
            belongs_with=("size",),
        ),
    ] = Settings()


_INNER = LogLine(
    r"epoch (?P<epoch>\d+): +(?P<step_of_epoch>\d+) / (?P<steps_of_epoch>\d+) "
    r"loss=(?P<loss>[^,]+), .*?wps=(?P<words_per_second>[\d.]+), "
    r"ups=(?P<steps_per_second>[\d.]+), .*?num_updates=(?P<step>\d+)",
    "2026-11-21 06:49:36 | INFO | train_inner | epoch 001:      6 / 9 loss=7.687, ppl=206.07, "
    "wps=1551.4, ups=1.62, wpb=960, bsz=15, num_updates=6, lr=0.001, gnorm=0.946, train_wall=1, "
    "wall=10",
    "fairseq-fixed 0.12.3.1; hydra's begin with [date][train_inner][INFO] - ",
)


class Fairseq(Framework):
    """`framework: fairseq`."""

    name = "fairseq"
    argument_check = "check_fairseq"
    length_arguments = ("max-update", "max-epoch")
    saving = Saving(
        "never",
        "it saves every save-interval-updates; --stop-time-hours counts the hours of all attempts",
        # checkpoint_utils.py: save_checkpoint writes one file, and copies it to the others.
        overwritten=(("checkpoint_last.pt", r"checkpoint(?:_best|\d+|_\d+_\d+)\.pt"),),
    )
    launchers = ("srun", "torchrun")
    options = Options
    parallel_keys = ()
    log_lines = (_INNER,)
    reads_precision = True

    def half_precisions(self, spec: Experiment, options: SpecModel | None) -> tuple[str, ...]:
        assert isinstance(options, Options)
        return () if options.fairseq.config_name else ("fp16",)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        fairseq, spec = options.fairseq, task.spec
        given = frozenset(key for _, _, key in argument_keys(spec))
        settings = derived_settings(task, fairseq, given)
        check_spec(spec, fairseq, given, diagnostics)
        refuse_settings(spec, settings, diagnostics)
        check_values(given_of(task, fairseq), diagnostics)
        _derive(task, provenance)
        on_cpus = not task.shape.gpus_per_node and task.shape.world_size > 1
        command = hydra_command if fairseq.cli == "fairseq-hydra-train" else train_command
        return Program(
            command(spec, fairseq, settings, on_cpus),
            is_python=False,
            environment=_environment(spec),
            origins=_origins(settings, diagnostics),
        )

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        """The sizes of the architecture, replaced by the arguments."""
        assert isinstance(options, Options)
        fairseq = options.fairseq
        flags, half = Flags(spec), half_of(fairseq.arch or "")
        is_gpt3 = (fairseq.arch or "").startswith("transformer_lm_gpt3")
        dropout = 0.0 if is_gpt3 else 0.1
        model: dict[str, Any] = {}
        if fairseq.arch in _ARCHITECTURES:
            model = dict(zip(_NAMES.values(), _ARCHITECTURES[fairseq.arch], strict=True))
        for name, field in _NAMES.items():
            if found := flags.count(f"{half}_{name}"):
                model[field] = found
        if half:
            sequence = flags.count("tokens_per_sample") or _SEQUENCE[half]
            model |= {"sequence": sequence, "vocab": _VOCABULARY, "encoder": half == "encoder"}
            model["position_rows"] = sequence + 2
            if half == "encoder":  # its head sees the masked tokens alone
                model["predicted_share"] = _MASKED
            elif not is_gpt3 and not flags.has("share_decoder_input_output_embed"):
                model["untied"] = True
            if half == "decoder" and not is_gpt3:  # sinusoidal, which are no parameters
                model["positions"] = "none"
        sharded = flags.text("ddp_backend") == "fully_sharded"
        layout = {
            "engine": "fairscale" if sharded else "fairseq",
            "zero": 3 if sharded else 0,
            "recompute": "full" if flags.has("checkpoint_activations") else "none",
            "flash": False,
            "precision": spec.precision or "fp32",
            "attention_dropout": flags.number("attention_dropout", dropout) > 0,
            "hidden_dropout": flags.number("dropout", dropout) > 0,
        }
        return Foreseen({name: value for name, value in model.items() if value}, layout)

    def data_paths(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Iterator[DataPath]:
        """The data, which may be several folders with colons between them."""
        assert isinstance(options, Options)
        for path in split_text(options.fairseq.data or "", lambda text: text.split(":")):
            yield DataPath(("fairseq", "data"), path)


_OF_FAIRSEQ = {"--config-dir": "config_dir", "--config-name": "config_name", "task.data": "data"}


def _origins(settings: list[Setting], diagnostics: Diagnostics) -> dict[str, str]:
    """The key of the spec for each derived flag or override."""
    keys = {name: ("fairseq", key) for name, key in _OF_FAIRSEQ.items()}
    origins = {name: diagnostics.describe_key(path) for name, path in keys.items()}
    for setting in settings:
        for name in (flag_of(setting), show(override_of(setting)).partition("=")[0]):
            origins[name] = diagnostics.describe_key(setting.origin)
    return origins


def _environment(spec: Experiment) -> tuple[Variable, ...]:
    """The variable for torch.load, unless the spec sets it: with both, torch loads nothing."""
    if "TORCH_FORCE_WEIGHTS_ONLY_LOAD" in spec.env:
        return ()
    return (
        Variable(
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD",
            "1",
            "torch 2.6 and later need it for fairseq's checkpoints",
            "fairseq checkpoint_utils.py; torch, Miscellaneous Environment Variables",
        ),
    )


def _derive(task: Task, provenance: Provenance) -> None:
    provenance.record(
        "fairseq.distributed_world_size",
        task.shape.world_size,
        "always given: without it fairseq counts one node's GPUs, and with 1 every rank "
        "trains a model of its own",
        "fairseq dataclass/configs.py, distributed/utils.py",
    )
    if samples := task.samples:
        provenance.record(
            "fairseq.update_freq",
            samples.accumulation,
            f"global {samples.global_} / (micro {samples.micro} x data parallel "
            f"{task.parallelism.data})",
            "fairseq trainer.py",
        )


# ------------------------------------------------------------------ checks
# What fairseq cannot run, found before it starts.
# Source: fairseq 0.12, fairseq/options.py, fairseq/trainer.py and fairseq_cli/train.py.


def check_spec(
    spec: Experiment, fairseq: Settings, given: frozenset[str], diagnostics: Diagnostics
) -> None:
    """Check everything but the single arguments. `given`: fairseq's keys that are in `args`."""
    _check_program(spec, fairseq, diagnostics)
    _check_kind(spec, fairseq, diagnostics)
    _check_batch(spec, fairseq, given, diagnostics)
    _check_bucket(spec, fairseq, diagnostics)
    _check_precision(spec, fairseq, diagnostics)


def check_values(given: Given, diagnostics: Diagnostics) -> None:
    """Check the arguments, by the rules first: they say more than the tables of flags."""
    check_rules((*ARGUMENT_RULES, *TRAINING_RULES), given, diagnostics)
    if not given.is_hydra:
        known = table("fairseq-train", given.task.spec)
        choices = (name for name, kind in known.types.items() if isinstance(kind, list))
        extended = set(map(argument_key, choices)) if given.has("user_dir") else ()
        check_arguments(given.task.spec, diagnostics, known, extended)
        return
    for finding in override_findings(given):
        diagnostics.problem(*finding)


def _check_program(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    for key in ("script", "command"):
        if getattr(spec, key) is not None:
            diagnostics.problem(
                (key,),
                f"fairseq runs {fairseq.cli}, not a {key} of yours",
                "remove it; your own models: args: {user-dir: ...}",
            )


def _check_kind(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    is_hydra = fairseq.cli == "fairseq-hydra-train"
    if fairseq.arch is None and not (is_hydra and fairseq.config_name):
        diagnostics.problem(
            ("fairseq", "arch") if "fairseq" in spec.model_fields_set else ("fairseq",),
            "arch is missing: fairseq would train its default architecture or none",
            "add `fairseq: {arch: roberta_large}`"
            + (", or config_name: of a config with a model" if is_hydra else ""),
        )
    if fairseq.data is None and not (is_hydra and fairseq.config_name):
        diagnostics.problem(
            ("fairseq",),
            "data is missing: the folder written by fairseq-preprocess",
            "add `fairseq: {data: /fsx/data/wiki-bin}`",
        )
    for key in ("config_dir", "config_name"):
        if getattr(fairseq, key) is not None and not is_hydra:
            diagnostics.problem(
                ("fairseq", key),
                "fairseq-train reads no config file",
                "cli: fairseq-hydra-train, or remove it",
            )
    if spec.model and fairseq.arch and half_of(fairseq.arch) is None:
        diagnostics.problem(
            ("model",),
            f"not supported for {fairseq.arch}, only for roberta* and transformer_lm*",
            "remove it, and use fairseq's own arguments: args: {encoder-layers: 24}",
        )


def _check_batch(
    spec: Experiment, fairseq: Settings, given: frozenset[str], diagnostics: Diagnostics
) -> None:
    """fairseq does not start without a batch size (fairseq_cli/train.py asserts it)."""
    sizes = {"batch_size", "max_sentences", "max_tokens"}
    if spec.batch is None and not given & sizes and not fairseq.config_name:
        diagnostics.missing(
            "batch",
            "batch is missing: fairseq needs a batch size",
            "add `batch: {micro: 16, global: 2048}`, or args: {max-tokens: 4096}",
        )


_READ_BUCKETS = ("pytorch_ddp", "c10d")


def _check_bucket(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    arguments = spec.args if isinstance(spec.args, dict) else {}
    for name in ("ddp-backend", "distributed_training.ddp_backend"):
        backend = arguments.get(name)
        if fairseq.bucket_cap_mb and backend is not None and backend not in _READ_BUCKETS:
            shown = str(backend) if isinstance(backend, tuple) else show(backend)
            diagnostics.problem(
                ("fairseq", "bucket_cap_mb"),
                f"{shown} ({diagnostics.line_of(('args', name))}) ignores it",
                "ddp-backend: pytorch_ddp, which is the default",
                warning=True,
            )


def refuse_settings(spec: Experiment, settings: list[Setting], diagnostics: Diagnostics) -> None:
    """Refuse `args` that are derived or that the launcher decides."""
    origins = {
        _name_of(setting): diagnostics.describe_key(setting.origin)
        for setting in settings
        if setting.value is not None
    }
    if "batch_size" in origins:
        origins["max_sentences"] = origins["batch_size"]  # its older name
    ranks = f"{diagnostics.describe_key(('nodes',))} and the launcher"
    origins.update(dict.fromkeys(OF_THE_LAUNCHER, ranks))
    for position, name, key in argument_keys(spec):
        if key in origins:
            refuse_derived(position, name, origins[key], diagnostics)
        elif key in ("arch", "task", "criterion"):
            diagnostics.problem(
                ("args", position),
                f"{name} is a key of the spec",
                f"remove it, and write fairseq: {{{key}: ...}}",
            )


def _name_of(setting: Setting) -> str:
    return flag_of(setting).lstrip("-").replace("-", "_")


def _check_precision(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    """Refuse bf16 with fairseq-train, which then uses a TPU; fairseq-hydra-train can use GPUs."""
    if fairseq.cli == "fairseq-hydra-train":
        return
    hint = "fairseq: {cli: fairseq-hydra-train}, which trains in bf16 on GPUs"
    if spec.precision == "bf16":
        what = "fairseq-train cannot use bf16 on a GPU: --bf16 selects a TPU (fairseq/options.py)"
        diagnostics.problem(("precision",), what, hint)
    for position, name, key in argument_keys(spec):
        if key == "memory_efficient_bf16" or (key == "bf16" and spec.precision is None):
            what = f"{name} selects a TPU in fairseq-train (fairseq/options.py)"
            diagnostics.problem(("args", position), what, hint)
        if key == "memory_efficient_fp16" and spec.precision in ("fp32", "bf16"):
            where = diagnostics.describe_key(("precision",))
            what = f"{name} trains in fp16, and {where} is {spec.precision}"
            diagnostics.problem(("args", position), what, "precision: fp16, or remove it")
