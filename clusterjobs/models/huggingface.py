"""A model's shape from its config.json in Hugging Face's format.

Each architecture has its own keys, and modules that add parameters beside them (biases, norms,
heads). Source: transformers 5.23, models/*/configuration_*.py and modeling_*.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from clusterjobs.models.records import Experts, ModelShape

MOST = 10_000_000  # of any size: beyond it, a file is damaged or hostile


class Mistake(NamedTuple):
    """What is wrong with a key of the file, and what to do."""

    key: str
    what: str
    hint: str


class ConfigKeys:
    """The keys of one file, checked. A wrong value is a mistake, and reads as 1: all are found."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.mistakes: list[Mistake] = []

    def mistake(self, key: str, what: str, hint: str) -> None:
        if all(one.key != key for one in self.mistakes):
            self.mistakes.append(Mistake(key, what, hint))

    def count(self, key: str, default: int | None = None) -> int:
        """An integer, 1 or more; the default if the key is missing or null."""
        value = self._config.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            kind = self._config.get("model_type")
            self.mistake(key, f"{key} is missing, which {kind} has", f'add "{key}"')
            return 1
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            shown = repr(value) if isinstance(value, (bool, int, float, str)) else "a list or map"
            self.mistake(key, f"{shown[:40]} is not a count", f"an integer, 1 to {MOST:,}")
            return 1
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._config.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.mistake(key, f"{str(value)[:40]!r} is not true or false", "true or false")
            return default
        return value

    def text(self, key: str) -> str:
        value = self._config.get(key)
        return value if isinstance(value, str) else ""

    def names(self, key: str) -> tuple[str, ...]:
        value = self._config.get(key)
        values = value if isinstance(value, list) else []
        return tuple(one for one in values if isinstance(one, str))

    def kv_heads(self, key: str, heads: int) -> int:
        """The number of kv heads, which divides the heads."""
        found = self.count(key, heads)
        if self.mistakes:
            return found
        if found > heads:
            self.mistake(key, f"{found} kv heads, and only {heads} heads", f"{heads} or less")
        elif heads % found:
            what = f"{found} kv heads do not divide {heads} heads"
            self.mistake(key, what, f"a divisor of {heads}")
        return found

    def classic(
        self,
        layers: str,
        hidden: str,
        heads: str,
        ffn: str,
        positions: str,
        sequence: int | None = None,
    ) -> ModelShape:
        """The shape of a transformer like GPT-2, by the names that an architecture has for it."""
        width, number = self.count(hidden), self.count(heads)
        if width % number:
            what = f"{hidden} {width} is not a multiple of {heads} {number}"
            self.mistake(heads, what, f"a divisor of {width}")
        return ModelShape(
            layers=self.count(layers),
            hidden=width,
            heads=number,
            kv_heads=number,
            head_dim=max(1, width // number),
            ffn=self.count(ffn, 4 * width) if ffn else 4 * width,
            sequence=self.count(positions, sequence),
            vocab=self.count("vocab_size"),
        )


Config = Mapping[str, Any]


class Found(NamedTuple):
    """The shape, or the mistakes because of which there is none.

    `is_unknown`: the file may be right, of a model whose shape is not known.
    """

    shape: ModelShape | None
    mistakes: tuple[Mistake, ...] = ()
    is_unknown: bool = False


def shape_of_config(config: Config) -> Found:
    kind = config.get("model_type")
    if "text_config" in config and isinstance(config["text_config"], Mapping):
        what = "a model of text with images or sound: only its text_config is a transformer decoder"
        return Found(
            None, (Mistake("text_config", what, "write layers, hidden, heads in model"),), True
        )
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        return Found(None, (_unknown_architecture(config, kind),), kind is not None)
    keys = ConfigKeys(config)
    shape = ARCHITECTURES[kind](keys)
    return Found(None if keys.mistakes else shape, tuple(keys.mistakes))


NEEDED = ("layers", "hidden", "heads", "sequence", "vocab")
_USUAL_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "sequence": ("max_position_embeddings", "n_positions", "max_seq_len"),
    "vocab": ("vocab_size",),
}


def _unknown_architecture(config: Config, kind: object) -> Mistake:
    """The keys of `model` that the file of an unknown architecture says, and those it does not."""
    values = {
        key: next((config[name] for name in names if isinstance(config.get(name), int)), None)
        for key, names in _USUAL_NAMES.items()
    }
    known = ", ".join(f"{key}: {value}" for key, value in values.items() if value)
    missing = [key for key in NEEDED if not values[key]]
    what = "model_type is missing"
    if kind is not None:
        what = f"{str(kind)[:40]!r} is not an architecture that is known: "
        what += "its memory and time are not predicted"
    shown = ", ".join([*filter(None, [known]), *(f"{key}: ..." for key in missing)])
    hint = f"write the keys in model in place of config: {{{shown}}}"
    hint += "; also kv_heads, ffn, glu, tied, experts if it has them"
    return Mistake("model_type", what, hint)


def _llama(keys: ConfigKeys) -> ModelShape:
    """LLaMA, Mistral, Qwen, Gemma: gated, RMSNorm, rotary positions; head untied by default."""
    kind = keys.text("model_type")
    heads, hidden = keys.count("num_attention_heads"), keys.count("hidden_size")
    layers = keys.count("num_hidden_layers")
    head_dim = keys.count("head_dim", 256 if kind == "gemma" else hidden // max(1, heads))
    biased = keys.flag("attention_bias", False)
    kv_heads = keys.kv_heads("num_key_value_heads", heads)
    norms_of_heads = {"qwen3": 2, "qwen3_moe": 2, "olmoe": heads + kv_heads}.get(kind, 0)
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=keys.count("intermediate_size"),
        sequence=keys.count("max_position_embeddings"),
        vocab=keys.count("vocab_size"),
        gated=True,
        tied=keys.flag("tie_word_embeddings", kind == "gemma"),
        positions="rotary",
        bias=keys.flag("mlp_bias", False),
        norm="rms",
        experts=_experts(keys, kind),
        attention_bias="qkv" if kind == "qwen2" else "all" if biased else "none",
        further=norms_of_heads * head_dim * layers,
    )


_EXPERTS = {  # the keys of their number and width
    "mixtral": ("num_local_experts", "intermediate_size"),
    "olmoe": ("num_experts", "intermediate_size"),
    "qwen3_moe": ("num_experts", "moe_intermediate_size"),
}


def _experts(keys: ConfigKeys, kind: str) -> Experts | None:
    if kind not in _EXPERTS:
        return None
    count, width = _EXPERTS[kind]
    number, top_k = keys.count(count), keys.count("num_experts_per_tok")
    if top_k > number:
        what = f"{top_k} experts for each token, and {number} in all"
        keys.mistake("num_experts_per_tok", what, f"{number} or less")
    return Experts(number, top_k, keys.count(width))


def _gpt2(keys: ConfigKeys) -> ModelShape:
    """GPT-2: learned positions, biases everywhere, head tied to the embedding."""
    return keys.classic("n_layer", "n_embd", "n_head", "n_inner", "n_positions")


def _gptj(keys: ConfigKeys) -> ModelShape:
    """GPT-J: one norm in a layer, no biases of attention, a bias of the head."""
    shape = keys.classic("n_layer", "n_embd", "n_head", "n_inner", "n_positions")
    return shape._replace(
        positions="rotary", tied=False, norms=1, attention_bias="none", further=shape.vocab
    )


def _gpt_neox(keys: ConfigKeys) -> ModelShape:
    """GPT-NeoX, Pythia: as GPT-2 with rotary positions and a head of its own."""
    shape = keys.classic(*_COMMON)
    biased = keys.flag("attention_bias", True)
    return shape._replace(
        positions="rotary",
        tied=keys.flag("tie_word_embeddings", False),
        attention_bias="all" if biased else "none",
    )


def _opt(keys: ConfigKeys) -> ModelShape:
    """OPT: as GPT-2, with two more rows of positions."""
    shape = keys.classic(
        "num_hidden_layers", "hidden_size", "num_attention_heads", "ffn_dim", _COMMON[4]
    )
    return shape._replace(position_rows=shape.sequence + 2)


def _bloom(keys: ConfigKeys) -> ModelShape:
    """BLOOM: ALiBi, and a norm behind the embedding. The file does not say the sequence length."""
    shape = keys.classic("n_layer", "hidden_size", "n_head", "", "seq_length", sequence=2048)
    return shape._replace(positions="alibi", further=2 * shape.hidden)


def _falcon(keys: ConfigKeys) -> ModelShape:
    """Falcon: one kv head (7B) or groups (40B, 180B, with two norms), no biases."""
    shape = keys.classic(
        _COMMON[0], _COMMON[1], _COMMON[2], "ffn_hidden_size", _COMMON[4], sequence=2048
    )
    is_new = keys.flag("new_decoder_architecture", False)
    kv_heads = 1 if keys.flag("multi_query", True) else shape.heads
    if is_new:
        kv_heads = keys.kv_heads("num_kv_heads", shape.heads)
    one_norm = not is_new and keys.flag("parallel_attn", True)
    return shape._replace(
        kv_heads=kv_heads,
        bias=keys.flag("bias", False),
        positions="alibi" if keys.flag("alibi", False) else "rotary",
        norms=1 if one_norm else 2,
    )


def _mpt(keys: ConfigKeys) -> ModelShape:
    """MPT: ALiBi or learned positions, no biases, not even of the norms."""
    shape = keys.classic("n_layers", "d_model", "n_heads", "", "max_seq_len")
    ratio = keys.count("expansion_ratio", 4)
    no_bias = keys.flag("no_bias", True)
    return shape._replace(
        ffn=ratio * shape.hidden,
        bias=not no_bias,
        norm="rms" if no_bias else "layer",
        positions="alibi",
    )


def _bert(keys: ConfigKeys) -> ModelShape:
    """BERT: types of tokens, and the pooler and heads that its class in `architectures` has."""
    shape = keys.classic(*_COMMON)
    h, rows = shape.hidden, shape.sequence
    is_roberta = keys.text("model_type") != "bert"
    name = (*keys.names("architectures"), "BertForPreTraining")[0]
    has_head = name.endswith(("ForMaskedLM", "ForPreTraining", "LMHeadModel"))
    extra = keys.count("type_vocab_size", 2) * h
    extra += h * h + 3 * h + shape.vocab if has_head else 0
    extra += h * h + h if not name.endswith(("ForMaskedLM", "LMHeadModel")) else 0
    extra += 2 * h + 2 if name.endswith("ForPreTraining") else 0
    return shape._replace(
        causal=False,
        further=extra,
        sequence=rows - 2 if is_roberta else rows,
        position_rows=rows,
    )


_COMMON = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
ARCHITECTURES: dict[str, Callable[[ConfigKeys], ModelShape]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma"), _llama),
    **dict.fromkeys(("mixtral", "olmoe", "qwen3_moe"), _llama),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta"), _bert),
    "gpt2": _gpt2,
    "gptj": _gptj,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "bloom": _bloom,
    "falcon": _falcon,
    "mpt": _mpt,
}
