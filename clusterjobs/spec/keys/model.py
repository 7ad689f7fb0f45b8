"""The size of a transformer, how long it trains, and how it is divided among the ranks.

The plan checks whether the values fit each other.
"""

import functools
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Count, Flag
from clusterjobs.spec.model import Key, Only, SpecModel
from clusterjobs.spec.references import as_text

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


_LAYERS = Key("the number of layers", "24")
_HIDDEN = Key("the width of a layer", "2048")
_HEADS = Key("the number of attention heads", "16")
_SEQUENCE = Key("the length of a sequence", "2048", unit="tokens")


class Model(SpecModel):
    """The size of a transformer."""

    layers: Annotated[Count, _LAYERS]
    hidden: Annotated[Count, _HIDDEN]
    heads: Annotated[Count, _HEADS]
    sequence: Annotated[Count, _SEQUENCE]
    vocab: Annotated[
        Count | None, Key("the size of the vocabulary before padding", "50257", unit="tokens")
    ] = None
    kv_heads: Annotated[
        Count | None,
        Key("heads of keys and values, if they are fewer", "8", default_is="as `heads`"),
    ] = None
    ffn: Annotated[
        Count | None,
        Key("the width of the feed-forward part, or of one expert", "8192"),
    ] = None
    glu: Annotated[Flag | None, Key("the feed-forward part has a gate, as SwiGLU", "true")] = None
    tied: Annotated[Flag | None, Key("the head is the embedding", "true")] = None
    experts: Annotated[Count | None, Key("the number of experts of a layer", "8")] = None
    experts_per_token: Annotated[Count | None, Key("how many of the experts a token uses", "2")] = (
        None
    )
    kind: Annotated[
        Literal["decoder", "encoder", "vision", "diffusion"] | None,
        Key(
            "what it is: `vision` is a transformer on patches of images, which needs no `vocab`; "
            "nothing is predicted for `diffusion`",
            "vision",
            default_is="as the framework or `config` says, else a decoder, which is marked as "
            "assumed",
        ),
    ] = None
    trainable: Annotated[
        Literal["all", "lora"] | None,
        Key(
            "what is trained: all parameters, or a LoRA adapter beside frozen ones",
            "lora",
            default_is="as the arguments say (`use_peft`), else all, which is marked as assumed",
        ),
    ] = None
    rank: Annotated[
        Count | None, Key("the rank of the adapter", "16", default_is="16 with `trainable: lora`")
    ] = None
    quantized: Annotated[
        Literal[4, 8] | None,
        Key("bits of the frozen weights (QLoRA: 4)", "4", default_is="16 bits"),
    ] = None
    sharding: Annotated[
        Literal["ddp", "fsdp", "zero1", "zero2", "zero3"] | None,
        Key(
            "how a script divides weights and states among data-parallel ranks, for frameworks "
            "that do not say it themselves (torchrun, Lightning)",
            "fsdp",
            default_is="as the framework or its arguments say, else unknown",
        ),
    ] = None

    @model_validator(mode="after")
    def _adapter(self) -> "Model":
        for name in ("rank", "quantized"):
            if getattr(self, name) and self.trainable != "lora":
                raise ValueError(f"{name} belongs to an adapter: add trainable: lora, or remove it")
        return self


class ModelOfConfig(Model):
    """A model that a file describes: a config.json in Hugging Face's format.

    Other keys replace what the file says. A size is 0 until the file has been read.
    """

    config: Annotated[
        field_types.Path,
        Key(
            "a config.json in Hugging Face's format beside the spec; the other keys replace what "
            "it says",
            "config.json",
            default_is="the first four keys are required without it",
            see="foresight.md#the-model",
        ),
    ]
    layers: Annotated[Count, _LAYERS] = 0
    hidden: Annotated[Count, _HIDDEN] = 0
    heads: Annotated[Count, _HEADS] = 0
    sequence: Annotated[Count, _SEQUENCE] = 0


def _kind(value: Any) -> str:
    has_file = isinstance(value, ModelOfConfig) or (isinstance(value, dict) and "config" in value)
    return "model of a file" if has_file else "model of sizes"


AnyModel = Annotated[
    Annotated[ModelOfConfig, Tag("model of a file")] | Annotated[Model, Tag("model of sizes")],
    Discriminator(_kind),
]


def _amount(value: Any) -> float:
    """A positive number, also as 300e9."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number: write 300e9 for 300 billion")
    if not 1 <= value <= _MOST or value != int(value):
        shown = as_text(value)[:40]
        raise ValueError(f"{shown} is not a whole number from 1 to 1e18: write, for example, 300e9")
    return float(value)


_MOST = 1e18
Amount = Annotated[
    float,
    BeforeValidator(_amount),
    Only({"type": "number", "minimum": 1, "maximum": _MOST, "multipleOf": 1}),
]


class Training(SpecModel):
    """How long the training is, by one of the three."""

    tokens: Annotated[
        Amount | None,
        Key("the number of tokens, of all epochs together", "300e9", excludes=("samples", "steps")),
    ] = None
    samples: Annotated[
        Amount | None,
        Key("the number of samples, of all epochs together", "1e8", excludes=("steps",)),
    ] = None
    steps: Annotated[Amount | None, Key("the number of optimizer steps", "10000")] = None

    @model_validator(mode="after")
    def _one(self) -> "Training":
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of tokens, samples and steps"
            raise ValueError(f"{found} given: write one of them, training: {{tokens: 300e9}}")
        return self


class Parallel(SpecModel):
    """Model parallelism: the number of GPUs that share one copy of the model."""

    tensor: Annotated[
        Count,
        Key(
            "ranks that share each layer",
            "8",
            also_called=(
                "tp",
                "tensor_parallel",
                "tensor_parallel_size",
                "tensor_model_parallel_size",
            ),
        ),
    ] = 1
    pipeline: Annotated[
        Count,
        Key(
            "ranks among which the layers are divided",
            "4",
            also_called=(
                "pp",
                "pipeline_parallel",
                "pipeline_parallel_size",
                "pipeline_model_parallel_size",
            ),
        ),
    ] = 1
    virtual_pipeline: Annotated[Count, Key("parts of the model on each pipeline rank", "2")] = 1
    context: Annotated[Count, Key("ranks that share a sequence", "2")] = 1
    expert: Annotated[Count, Key("ranks that share the experts of a layer", "8")] = 1
    sequence: Annotated[
        field_types.Flag,
        Key("the tensor ranks also divide the activations between their layers", "true"),
    ] = False


class Batch(SpecModel):
    """Samples of a step; any two of the keys determine the third."""

    micro: Annotated[
        Count | None,
        Key(
            "samples on each GPU, in each forward pass",
            "8",
            default_is="derived",
            also_called=(
                "micro_batch",
                "micro_batch_size",
                "per_gpu",
                "per_device",
                "per_device_train_batch_size",
                "train_micro_batch_size_per_gpu",
            ),
        ),
    ] = None
    global_: Annotated[
        Count | None,
        Key(
            "samples of all GPUs, in each optimizer step",
            "512",
            default_is="derived",
            also_called=(
                "size",
                "batch_size",
                "global_batch",
                "global_batch_size",
                "train_batch_size",
            ),
        ),
    ] = Field(None, alias="global")
    accumulation: Annotated[
        Count | None,
        Key(
            "forward passes in each optimizer step",
            "4",
            default_is="derived; 1 if only one of the keys is given",
            also_called=("gradient_accumulation", "gradient_accumulation_steps", "grad_accum"),
        ),
    ] = None


default_parallel = functools.cache(Parallel)


class ModelKeys:
    """What is trained, and how it is divided."""

    model: Annotated[
        AnyModel | None,
        Key(
            "the size of the model: checked against `parallel`, and passed to both Megatrons and "
            "fairseq as their arguments",
            "{layers: 24, hidden: 2048, heads: 16, sequence: 2048}",
            schedules=False,
            default_is="required by megatron-deepspeed and megatron-lm",
            belongs_with=("size",),
            is_section=True,
        ),
    ] = None
    training: Annotated[
        Training | None,
        Key(
            "how long the training is, by one of the keys below: for [foresight](foresight.md), "
            "and for both Megatrons (`train-iters`), fairseq (`max-update`), huggingface "
            "(`max_steps`) and GPT-NeoX (`train_iters`) where nothing else says it",
            "{tokens: 300e9}",
            schedules=False,
            default_is="what the arguments say (`train-iters`, `max_steps`)",
        ),
    ] = None
    parallel: Annotated[
        Parallel,
        Key(
            "how ranks share the model: the product of `tensor`, `pipeline` and `context` is the "
            "number of ranks that share one copy. [megatron-lm](frameworks/megatron-lm.md) has all "
            "keys, and other frameworks refuse those that they do not have",
            "{tensor: 8, pipeline: 2}",
            schedules=False,
            belongs_with=("size",),
            is_section=True,
        ),
    ] = Field(default_factory=default_parallel)
    batch: Annotated[
        Batch | None,
        Key(
            "samples; any two of the keys below determine the third",
            "{micro: 8, global: 512}",
            schedules=False,
            belongs_with=("size",),
            is_section=True,
        ),
    ] = None
    precision: Annotated[
        Literal["fp32", "fp16", "bf16"] | None,
        Key(
            "`fp32`, `fp16`, `bf16`",
            "bf16",
            schedules=False,
            default_is="the framework's own",
            see="#precision",
            also_called=("dtype", "mixed_precision"),
        ),
    ] = None
