"""Rules about Megatron's arguments: positions, precision, recomputation, tokenizer.

The files of the sources are in megatron/ of Megatron-DeepSpeed, megatron/training/ of Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.given import GivenArguments as Given
from clusterjobs.frameworks.rules import Finding, Rule, rule

_VALIDATE = "arguments.py, validate_args"


@rule("`max-position-embeddings` below the sequence length", "it asserts that it is not", _VALIDATE)
def positions(given: Given) -> Iterator[Finding]:
    most, model = given.number("max_position_embeddings"), given.task.experiment.model
    if most is not None and model and most < model.sequence:
        what = f"{most:g} positions, and sequences of {model.sequence} tokens"
        hint = f"{model.sequence} or more, or remove it: then it is the sequence length"
        yield given.finding("max_position_embeddings", what, hint)


@rule(
    "`fp16-lm-cross-entropy` without fp16, `fp32-residual-connection` without fp16 or bf16",
    "it asserts the precision",
    _VALIDATE,
)
def precision_of_flags(given: Given) -> Iterator[Finding]:
    precision = given.task.experiment.precision
    needed = {"fp16_lm_cross_entropy": ("fp16",), "fp32_residual_connection": ("fp16", "bf16")}
    for name, precisions in needed.items():
        if given.has(name) and precision not in precisions:
            what = f"needs precision: {' or '.join(precisions)}"
            yield given.finding(name, what, f"add precision: {precisions[0]}, or remove it")


@rule(
    "`recompute-granularity: selective` with `recompute-method`",
    "it asserts that there is none",
    _VALIDATE,
)
def selective_recomputation(given: Given) -> Iterator[Finding]:
    is_selective = given.has("recompute_activations")
    is_selective |= given.text("recompute_granularity") == "selective"
    if is_selective and given.has("recompute_method"):
        what = "selective recomputation has no method"
        yield given.finding("recompute_method", what, "remove it, or recompute-granularity: full")


@rule(
    "`distribute-saved-activations` without tensor ranks, full granularity and a method",
    "it asserts all three",
    _VALIDATE,
)
def distributed_activations(given: Given) -> Iterator[Finding]:
    is_full = given.text("recompute_granularity") == "full" and given.has("recompute_method")
    is_possible = is_full and given.task.parallelism.tensor > 1
    if given.has("distribute_saved_activations") and not is_possible:
        what = "needs tensor ranks, recompute-granularity: full and a recompute-method"
        yield given.finding("distribute_saved_activations", what, "add them, or remove it")


_NEEDED_BY_TOKENIZER = {
    "GPT2BPETokenizer": ("vocab_file", "merge_file"),
    "BertWordPieceLowerCase": ("vocab_file",),
    "BertWordPieceCase": ("vocab_file",),
    "SentencePieceTokenizer": ("tokenizer_model",),
    "GPTSentencePieceTokenizer": ("tokenizer_model",),
    "HFTokenizer": ("tokenizer_model",),
    "HuggingFaceTokenizer": ("tokenizer_model",),
    "Llama2Tokenizer": ("tokenizer_model",),
    "TikTokenizer": ("tokenizer_model",),
}


@rule(
    "a `tokenizer-type` without its files",
    "it asserts vocab-file, merge-file or tokenizer-model",
    "tokenizer/tokenizer.py",
)
def files_of_the_tokenizer(given: Given) -> Iterator[Finding]:
    kind = given.text("tokenizer_type") or ""
    for name in _NEEDED_BY_TOKENIZER.get(kind, ()):
        if not given.has(name):
            flag = name.replace("_", "-")
            what = f"{kind} needs {flag}"
            yield given.finding("tokenizer_type", what, f"add `{flag}: /fsx/...` to args")


RULES: tuple[Rule[Given], ...] = (
    positions,
    precision_of_flags,
    selective_recomputation,
    distributed_activations,
    files_of_the_tokenizer,
)
