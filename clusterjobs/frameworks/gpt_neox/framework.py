"""GPT-NeoX: `deepy.py train.py -d configs a.yml b.yml`, and a last file that clusterjobs writes.

deepy.py runs once; DeepSpeed's Slurm launcher then starts the ranks with its own srun.
Source: GPT-NeoX 2.0, deepy.py and megatron/neox_arguments; its issues 784, 849 and 891.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import Location
from clusterjobs.frameworks.arguments import arguments_of, script_of
from clusterjobs.frameworks.base import (
    ConfigFile,
    DataPath,
    Foreseen,
    Framework,
    Program,
    Saving,
    Task,
    Variable,
)
from clusterjobs.frameworks.ds_config import (
    LATEST,
    Zero,
    check_zero,
    extensions_folder,
    record_batch,
)
from clusterjobs.frameworks.gpt_neox.config import (
    Config,
    Given,
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
    NODES,
    OUR_FILES,
    Options,
    check_names,
    check_spec,
    keys_of_the_spec,
    launch_config,
    values_of_the_spec,
    warn_of_unread,
    with_suffix,
    written,
)
from clusterjobs.frameworks.gpt_neox.rules import check_config
from clusterjobs.frameworks.torch_foreseen import offload_of, stage_of
from clusterjobs.models.records import Experts
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.text import Value, expanding, show

# ------------------------------------------------------------------ data
# The data that a GPT-NeoX config names.
# Source: EleutherAI/gpt-neox, megatron/data/gpt2_dataset.py: the first rank writes an index beside
# the data, and without use_shared_fs the first rank of each node.


_PARTS = ("train", "valid", "test")
_LISTS = tuple(f"{part}_{kind}" for part in _PARTS for kind in ("data_paths", "label_data_paths"))


# ------------------------------------------------------------------ foreseen
# What GPT-NeoX's config says about a model's shape, its memory and its speed.
# Source of the keys and defaults: GPT-NeoX 2.0, megatron/neox_arguments/neox_args.py and
# megatron/model/transformer.py.


# GPT-2's; the tokenizer of GPT-NeoX-20B has 50,277, and both are padded to 50,304 or 50,432.
_VOCABULARY = 50_257
_VOCABULARIES = {"HFTokenizer": 50_277, "HFGPT2Tokenizer": 50_257, "CharLevelTokenizer": 512}
_GATED_MULTIPLE = 256


def _shape(config: Config) -> Mapping[str, Any]:
    hidden, gated = _count(config, "hidden_size"), config.value("activation") == "swiglu"
    ffn = _count(config, "intermediate_size") or (4 * hidden if hidden else None)
    if ffn and gated:  # a third for each matrix, in multiples of 256
        ffn = -(-(ffn // 3) // _GATED_MULTIPLE) * _GATED_MULTIPLE
    positions = str(config.value("pos_emb") or "learned")
    found = {
        "kv_heads": _count(config, "num_kv_heads"),
        "ffn": ffn,
        "gated": gated,
        "untied": config.value("no_weight_tying") is True,
        "positions": positions if positions in ("learned", "rotary", "alibi") else "none",
        "unbiased": config.value("use_bias_in_mlp") is False,
        "attention_bias": "none" if config.value("use_bias_in_attn_linear") is False else None,
        "norm": "rms" if str(config.value("norm")).startswith("rms") else None,
        "vocab": _VOCABULARIES.get(str(config.value("tokenizer_type")), _VOCABULARY),
    }
    number = _count(config, "moe_num_experts") or 1
    if number > 1 and ffn:
        found["experts"] = Experts(number, _count(config, "moe_top_k") or 1, ffn)
    return {name: value for name, value in found.items() if value}


def _count(config: Config, name: str) -> int | None:
    found = config.number(name)
    return int(found) if found and found == int(found) and 1 <= found < 1e12 else None


class GptNeoX(Framework):
    """`framework: gpt-neox`."""

    name = "gpt-neox"
    argument_check = "check_gpt_neox"
    saving = Saving(
        "never",
        "GPT-NeoX cannot be asked to: it saves every checkpoint_factor steps",
        "latest",
        overwritten=(LATEST,),
    )
    launchers = ("deepy",)
    options = Options
    log_lines = (ITERATION,)
    reads_precision = True
    packages = ("torch", "deepspeed")
    compiles_extensions = True
    helpers = "megatron/data"  # compile_helper of megatron/data/data_utils.py
    length_arguments = ("train_iters", "train_epochs")
    length_key = "neox"

    def config_files(self, options: SpecModel | None) -> tuple[str, ...]:
        assert isinstance(options, Options)
        folder = f"{show(options.config_dir)}/" if options.config_dir else ""
        return tuple(
            with_suffix(name if name.startswith("/") else f"{folder}{name}")
            for name in map(show, options.configs)
        )

    def completed(
        self,
        spec: Experiment,
        options: SpecModel | None,
        texts: Mapping[str, str],
        diagnostics: Diagnostics,
    ) -> Experiment:
        assert isinstance(options, Options)
        files = self.config_files(options)
        check_names(files, diagnostics)
        warn_of_unread(files, texts, diagnostics)
        given, problems = composed(texts)
        diagnostics.add(problems)
        refuse_keys(given, written(spec, options, diagnostics), _ONCE, diagnostics)
        refuse_keys(given, NODES, "remove it: it would select other nodes", diagnostics)
        is_complete = not problems and texts.keys() >= set(files)
        numbers = with_their_numbers(spec, given, is_complete, diagnostics)
        check_zero(
            options.zero or _zero_of(given, diagnostics), numbers.parallel.pipeline, diagnostics
        )
        keys = {**given, **keys_of_the_spec(spec, options, diagnostics)}
        has_training = spec.training is not None
        config = Config(keys, is_complete, spec.software.requires, has_training)
        check_config(config, spec, diagnostics)
        if is_complete:
            _check_required(spec, options, given, diagnostics)
        for key, one in keys.items():
            diagnostics.relocate(("neox", key), one.where)
        return numbers

    def has_length(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> bool:
        """Whether a length is given, or may be in a file that cannot be read here.

        deepy.py refuses a key that stands in two files.
        """
        assert isinstance(options, Options)
        keys = {*composed(texts)[0], *values_of_the_spec(spec, options)}
        return not keys.isdisjoint(self.length_arguments) or not texts.keys() >= set(
            self.config_files(options)
        )

    def with_length(
        self, spec: Experiment, options: SpecModel | None, steps: int
    ) -> tuple[Experiment, SpecModel | None]:
        assert isinstance(options, Options)
        neox = {**options.neox, self.length_arguments[0]: steps}
        return spec, options.model_copy(update={"neox": neox})

    def data_paths(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Iterator[DataPath]:
        """The paths of data and vocabulary in the merged config."""
        assert isinstance(options, Options)
        own = {key.replace("-", "_"): value for key, value in options.neox.items()}
        given = {key: one.value for key, one in composed(texts)[0].items()}
        config = {**given, **own}
        is_indexed = config.get("use_shared_fs", True) is not False
        for key in ("data_path", *_LISTS):
            value = config.get(key)
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, str):
                    yield DataPath(("neox", key), path, is_indexed)
        for key in ("vocab_file", "merge_file"):
            if isinstance(config.get(key), str):
                yield DataPath(("neox", key), config[key])

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        """The keys of the user's files, of `neox` and of the spec."""
        assert isinstance(options, Options)
        written = values_of_the_spec(spec, options)
        nowhere = Location("", 1, 1)
        own = {key: Given(value, nowhere, (key,)) for key, value in written.items()}
        config = Config({**composed(texts)[0], **own}, True, {})
        zero = {"zero_optimization": config.section("zero_optimization")}
        layout: dict[str, Any] = {
            "engine": "megatron-deepspeed",
            "precision": spec.precision or "fp32",
            "zero": stage_of(options.zero, zero),
            "offload": offload_of(zero),
            "recompute": "full" if config.value("checkpoint_activations") is True else "none",
            "flash": "flash" in str(config.value("attention_config")),
            "sequence_parallel": config.value("sequence_parallel") is True,
            "attention_dropout": (config.number("attention_dropout") or 0) > 0,
            "hidden_dropout": (config.number("hidden_dropout") or 0) > 0,
            "optimizer": str(config.section("optimizer").get("type", "adam")).lower()[:20],
        }
        multiple = _count(config, "make_vocab_size_divisible_by") or 128
        steps, saves = _count(config, "train_iters"), _count(config, "checkpoint_factor")
        return Foreseen(_shape(config), layout, multiple, steps, saves)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.spec, diagnostics, takes_module=False)
        check_spec(task.spec, options, diagnostics)
        record_batch(task, "train_batch_size", provenance)
        launch = launch_config(task, options)
        if script is None:
            return None
        return Program(
            (*_arguments(script, task.spec, options), *OUR_FILES),
            is_python=True,
            files=(ConfigFile(LAUNCH_NAME, yaml_text(launch)),),
            environment=tuple(_environment(task)),
        )


_ONCE = "remove one of the two: deepy.py refuses a key that is in two files"
_HOW_OFTEN = {"checkpoint_factor", "extra_save_iters", "save_interval"}  # the last before 2.0


def _check_required(
    spec: Experiment, options: Options, given: Givens, diagnostics: Diagnostics
) -> None:
    """Keys that deepy.py requires, in a file or in the spec; all files have been read."""
    if spec.batch is None and not has_batch(given):
        example = "{micro: 4, global: 64}"
        diagnostics.missing(
            "batch", "batch is missing, here and in the configs", f"add `batch: {example}`"
        )
    known = {*given, *(key.replace("-", "_") for key in options.neox)}
    if spec.checkpoints and not known & _HOW_OFTEN:
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


def _arguments(script: Value, spec: Experiment, options: Options) -> Iterator[Value]:
    yield from ("deepy.py", script, *arguments_of(spec))
    if options.config_dir:
        yield from ("-d", expanding(options.config_dir))
    yield from map(expanding, options.configs)


def _environment(task: Task) -> Iterator[Variable]:
    ranks = str(task.shape.ranks_per_node)
    yield Variable("LOCAL_WORLD_SIZE", ranks, "ranks per node, which srun does not set")
    yield extensions_folder()
