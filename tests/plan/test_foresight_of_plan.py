"""From a plan to foresight's records: what each framework's arguments and files say."""

from __future__ import annotations

import json
from typing import Any

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.foresight.formulas.memory_parts import count_parameters
from clusterjobs.frameworks import option_models
from clusterjobs.models.records import Experts, Layout, ModelShape
from clusterjobs.runs.training import foreseen_of, model_and_layout
from clusterjobs.sections.order import resolve
from clusterjobs.spec.load import load_spec

NAME = "p4d-a100.yaml"
FACTS = cluster_facts(
    read_cluster((resources.cluster_configs_dir() / NAME).read_text("utf-8"), NAME, {})[0]
)
BASE = {"name": "a", "cluster": "p4d-a100", "nodes": 2, "script": "t.py", "batch": {"micro": 2}}
SIZES = {"layers": 24, "hidden": 1024, "heads": 16, "sequence": 2048}
MEGATRON = {"train-iters": 1000, "lr": "1e-4"}
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "max_position_embeddings": 8192,
    "vocab_size": 128_256,
}


def described(texts: dict[str, str] | None = None, **keys: Any) -> tuple[ModelShape, Layout] | str:
    data = {key: value for key, value in {**BASE, **keys}.items() if value is not None}
    spec = load_spec(json.dumps(data), "exp.yaml", option_models())
    return model_and_layout(resolve(spec, FACTS, texts or {}), spec, texts or {})


def both(texts: dict[str, str] | None = None, **keys: Any) -> tuple[ModelShape, Layout]:
    found = described(texts, **keys)
    assert not isinstance(found, str), found
    return found


def test_megatron_lm_says_it_in_its_arguments() -> None:
    args = {
        **MEGATRON,
        "swiglu": True,
        "group-query-attention": True,
        "num-query-groups": 8,
        "ffn-hidden-size": 2816,
        "untie-embeddings-and-output-weights": True,
        "normalization": "RMSNorm",
        "disable-bias-linear": True,
        "position-embedding-type": "rope",
        "use-distributed-optimizer": True,
        "recompute-activations": True,
        "attention-dropout": 0,
        "vocab-size": 32_000,
    }
    parallel = {"tensor": 4, "sequence": True}
    shape, layout = both(
        framework="megatron-lm", model=SIZES, args=args, parallel=parallel, precision="bf16"
    )
    assert shape == ModelShape(
        *(24, 1024, 16, 8, 64, 2816, 2048, 32_256),
        gated=True,
        tied=False,
        positions="rotary",
        bias=False,
        norm="rms",
    )
    assert layout == Layout(
        *(16, 8, 2, 8, "megatron-core"),
        tensor=4,
        zero=1,
        recompute="selective",
        sequence_parallel=True,
        hidden_dropout=True,
    )


def test_experts_of_megatron_lm() -> None:
    args = {**MEGATRON, "num-experts": 8, "moe-router-topk": 2, "moe-ffn-hidden-size": 512}
    model = {**SIZES, "vocab": 50_257}
    shape, _ = both(framework="megatron-lm", model=model, args=args)
    assert shape.experts == Experts(8, 2, 512)


def test_keys_of_the_spec_become_arguments_and_shape_alike() -> None:
    model = {**SIZES, "vocab": 32_000, "kv_heads": 4, "glu": True, "ffn": 2816, "tied": False}
    shape, _ = both(framework="megatron-lm", model=model, args=MEGATRON)
    assert (shape.kv_heads, shape.gated, shape.ffn, shape.tied) == (4, True, 2816, False)
    spec = load_spec(
        json.dumps({**BASE, "framework": "megatron-lm", "model": model, "args": MEGATRON}),
        "exp.yaml",
        option_models(),
    )
    command = " ".join(resolve(spec, FACTS).launch.words)
    assert "--group-query-attention --num-query-groups 4 --ffn-hidden-size 2816 --swiglu" in command
    assert "--untie-embeddings-and-output-weights" in command


def test_bert_of_megatron_is_an_encoder() -> None:
    model = {**SIZES, "vocab": 30_522}
    shape, _ = both(framework="megatron-lm", script="pretrain_bert.py", model=model, args=MEGATRON)
    assert not shape.causal
    assert shape.further == 1024 * 1024 + 3 * 1024 + 30_522


def test_megatron_deepspeed() -> None:
    args = {
        **MEGATRON,
        "tokenizer-type": "GPT2BPETokenizer",
        "vocab-file": "/v",
        "merge-file": "/m",
    }
    offload = {
        "zero_optimization": {"offload_optimizer": {"device": "cpu"}},
        "zero_force_ds_cpu_optimizer": False,
    }
    shape, layout = both(
        framework="megatron-deepspeed",
        model=SIZES,
        args=args,
        precision="fp16",
        zero={"stage": 1},
        activation_checkpointing=True,
        ds_config=offload,
    )
    assert shape.vocab == 50_304
    assert (layout.engine, layout.zero, layout.recompute) == ("megatron-deepspeed", 1, "full")
    assert (layout.flash, layout.offload, layout.precision) == (False, "optimizer", "fp16")


NEOX = """\
num_layers: 32
hidden_size: 4096
num_attention_heads: 32
num_kv_heads: 8
seq_length: 4096
max_position_embeddings: 4096
activation: swiglu
intermediate_size: 32768
norm: rmsnorm
no_weight_tying: true
pos_emb: rotary
use_bias_in_mlp: false
use_bias_in_attn_linear: false
checkpoint_activations: true
attention_config: [[["flash"], 32]]
train_micro_batch_size_per_gpu: 2
gradient_accumulation_steps: 4
zero_optimization: {stage: 1}
precision: bfloat16
vocab_file: /v
tokenizer_type: HFTokenizer
lr_decay_iters: 100
train_iters: 100
optimizer: {type: Adam, params: {lr: 1.0e-4}}
"""


def test_gpt_neox_says_all_of_it_in_its_configs() -> None:
    shape, layout = both(
        {"llama.yml": NEOX},
        framework="gpt-neox",
        configs=["llama.yml"],
        script="train.py",
        batch=None,
    )
    assert (shape.layers, shape.kv_heads, shape.ffn, shape.vocab) == (32, 8, 11_008, 50_304)
    assert (shape.gated, shape.tied, shape.norm, shape.bias) == (True, False, "rms", False)
    assert (layout.micro_batch, layout.global_batch, layout.zero) == (2, 128, 1)
    assert (layout.recompute, layout.flash, layout.precision) == ("full", True, "bf16")


def test_gpt_neox_says_how_long_it_trains() -> None:
    data = {**BASE, "framework": "gpt-neox", "configs": ["llama.yml"], "script": "train.py"}
    spec = load_spec(json.dumps(data), "exp.yaml", option_models())
    said = foreseen_of(spec, {"llama.yml": NEOX + "checkpoint_factor: 10\n"})[1]
    assert (said.steps, said.save_steps) == (100, 10)


def test_fairseq_says_it_with_its_architecture() -> None:
    fairseq = {"arch": "roberta_large", "data": "/fsx/data", "task": "masked_lm"}
    shape, layout = both(
        framework="fairseq",
        script=None,
        fairseq=fairseq,
        precision="fp16",
        args={"lr": "1e-4", "max-update": 10, "optimizer": "adam"},
    )
    assert count_parameters(shape) == 355_412_057 - 1024  # no types of tokens
    assert layout.engine == "fairseq"


def test_decoders_of_fairseq() -> None:
    for arch, parameters in (
        ("transformer_lm_gpt3_6_7", 6_658_445_312),
        ("transformer_lm_gpt2_small", 405_254_144),
    ):
        shape, _ = both(
            framework="fairseq",
            script=None,
            fairseq={"arch": arch, "data": "/fsx/data", "task": "language_modeling"},
            args={"lr": "1e-4", "max-update": 10, "optimizer": "adam"},
        )
        assert count_parameters(shape) == parameters


def test_hugging_face_with_a_config_and_fsdp() -> None:
    shape, layout = both(
        {"config.json": json.dumps(LLAMA)},
        framework="huggingface",
        model={"config": "config.json", "sequence": 4096},
        fsdp={"activation_checkpointing": True},
        precision="bf16",
    )
    assert count_parameters(shape) == 8_030_261_248
    assert shape.sequence == 4096
    assert (layout.engine, layout.zero, layout.recompute) == ("fsdp", 3, "full")


def test_hugging_face_with_zero_3_and_a_fused_loss() -> None:
    _, layout = both(
        framework="huggingface",
        model={**SIZES, "vocab": 32_000, "glu": True},
        zero={"stage": 3},
        args={"optim": "adamw_bnb_8bit", "gradient_checkpointing": True, "use_liger_kernel": True},
    )
    assert (layout.engine, layout.zero, layout.recompute) == ("deepspeed", 3, "full")
    assert (layout.optimizer, layout.logit_bytes) == ("adam8bit", 4.0)


def test_lightning_by_its_strategy() -> None:
    model = {**SIZES, "vocab": 32_000}
    for strategy, engine, zero in (
        ("fsdp", "fsdp", 3),
        ("deepspeed_stage_2", "deepspeed", 2),
        ("ddp", "ddp", 0),
    ):
        _, layout = both(framework="lightning", model=model, args={"strategy": strategy})
        assert (layout.engine, layout.zero) == (engine, zero)


def test_torchtitan_knows_llama_by_the_name_of_its_config() -> None:
    shape, layout = both(
        framework="torchtitan",
        script=None,
        torchtitan={"module": "llama3", "config": "llama3_8b"},
        precision="bf16",
    )
    assert count_parameters(shape) == 8_030_261_248
    assert (layout.engine, layout.recompute) == ("fsdp", "selective_ops")


def test_what_is_unknown_is_said() -> None:
    told = str(described(framework="torchrun"))
    assert told.startswith("the model is unknown: layers, hidden, heads, sequence, vocab missing; ")
    assert told.endswith("how the script shards the model is unknown")
    model = {**SIZES, "vocab": 100, "sharding": "ddp"}
    assert described(framework="torchrun", model=model, batch=None) == "the batch size is unknown"
    told = described(framework="command", script=None, command="./run", model=model)
    assert told == "nothing is predicted for framework: command"


def test_scripts_of_their_own_need_only_the_keys_of_model() -> None:

    for name in ("torchrun", "jax", "horovod", "composer", "lightning", "accelerate"):
        shape, layout = both(framework=name, model={**SIZES, "vocab": 32_000, "sharding": "ddp"})
        assert shape.vocab == 32_000, name
        assert layout.engine, name
