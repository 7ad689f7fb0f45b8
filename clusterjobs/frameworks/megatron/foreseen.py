"""What the arguments of both Megatrons say about a model's shape, its memory and its speed.

Source of the flags and their defaults: arguments.py of both.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clusterjobs.frameworks.arguments import Argument, arguments_by_key
from clusterjobs.frameworks.base import DataPath
from clusterjobs.models.records import Experts
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import show

VOCAB_MULTIPLE = 128  # --make-vocab-size-divisible-by
# Sizes of the vocabularies that a tokenizer of this type has.
_VOCABULARIES = {
    "GPT2BPETokenizer": 50_257,
    "BertWordPieceLowerCase": 30_522,
    "BertWordPieceCase": 28_996,
    "Llama2Tokenizer": 32_000,
}


class Flags:
    """The arguments of a spec, for questions about single values."""

    def __init__(self, spec: Experiment) -> None:
        self._given: Mapping[str, Argument] = arguments_by_key(spec)

    def names(self) -> Iterable[str]:
        return self._given

    def has(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str:
        found = self._given.get(name)
        return found.texts[0] if found and found.texts else ""

    def count(self, name: str) -> int | None:
        text = self.text(name)
        return int(text) if text.isdecimal() and 0 < len(text) < 13 and int(text) else None

    def number(self, name: str, default: float) -> float:
        try:
            return float(self.text(name) or default)
        except ValueError:
            return default


def shape_fields(spec: Experiment, heads_of_keys: str) -> dict[str, Any]:
    """Fields of ModelShape. `heads_of_keys`: the name of the argument for kv_heads."""
    flags = Flags(spec)
    return {name: value for name, value in _shape(spec, flags, heads_of_keys) if value}


def _shape(spec: Experiment, flags: Flags, heads_of_keys: str) -> Iterator[tuple[str, Any]]:
    """Names and values; a value that is not set is None or 0, since flags only switch on."""
    yield "kv_heads", flags.count(heads_of_keys)
    yield "head_dim", flags.count("kv_channels")
    yield "ffn", flags.count("ffn_hidden_size")
    yield "gated", flags.has("swiglu")
    yield "untied", flags.has("untie_embeddings_and_output_weights")
    kind = flags.text("position_embedding_type")
    if kind in ("rope", "rotary", "yarn") or flags.has("use_rotary_position_embeddings"):
        yield "positions", "rotary"
    elif kind in ("alibi", "none"):
        yield "positions", kind
    yield "unbiased", flags.has("disable_bias_linear")
    yield "attention_bias", "qkv" if flags.has("add_qkv_bias") else None
    yield "norm", "rms" if flags.text("normalization").lower() == "rmsnorm" else None
    tokenizer = flags.text("tokenizer_type")
    yield "vocab", flags.count("vocab_size") or _VOCABULARIES.get(tokenizer)
    yield "encoder", "bert" in show(spec.script or "").rpartition("/")[2]


def expert_fields(flags: Flags, ffn: int | None) -> dict[str, Any]:
    """The mixture of experts of Megatron-LM; {} without one. `ffn`: of a dense layer."""
    number = flags.count("num_experts")
    if number is None:
        return {}
    width = flags.count("moe_ffn_hidden_size") or flags.count("ffn_hidden_size") or ffn
    if width is None:
        return {}
    top_k = flags.count("moe_router_topk") or flags.count("topk") or 2
    shared = flags.count("moe_shared_expert_intermediate_size") or 0
    return {"experts": Experts(number, min(top_k, number), width, shared)}


def layout_fields(spec: Experiment) -> dict[str, Any]:
    """Fields of Layout that both have."""
    flags = Flags(spec)
    found: dict[str, Any] = {
        "attention_dropout": flags.number("attention_dropout", 0.1) > 0,
        "hidden_dropout": flags.number("hidden_dropout", 0.1) > 0,
        "optimizer": flags.text("optimizer") or "adam",
        "precision": spec.precision or "fp32",
    }
    granularity = flags.text("recompute_granularity")
    if granularity in ("full", "selective"):
        found["recompute"] = granularity
    elif flags.has("recompute_activations"):
        found["recompute"] = "selective"
    elif flags.has("checkpoint_activations"):
        found["recompute"] = "full"
    return found


# ------------------------------------------------------------------ data paths
# Megatron's arguments with paths that every node reads or writes.


# The first node writes an index of the data beside it, or into data-cache-path.
_INDEXED = ("data_path", "train_data_path", "valid_data_path", "test_data_path")
_USED_BY_ALL_NODES = (
    *_INDEXED,
    "data_cache_path",
    "save",
    "load",
    "vocab_file",
    "merge_file",
    "tokenizer_model",
)


def data_paths_of(spec: Experiment) -> Iterator[DataPath]:
    """The paths in the spec's arguments."""
    flags = arguments_by_key(spec)
    for name in _USED_BY_ALL_NODES:
        flag = flags.get(name)
        indexed = name in _INDEXED and "data_cache_path" not in flags
        for word in flag.texts if flag else ():
            if flag and word.startswith("/"):
                yield DataPath(flag.path, word, indexed)
