"""What a framework takes without a word, and trains something else than the spec says."""

from __future__ import annotations

from typing import Any

import pytest
from plans import plan_of

MODEL = {"layers": 24, "hidden": 1024, "heads": 16, "sequence": 1024}
BASES: dict[str, dict[str, Any]] = {
    "megatron-lm": {
        "script": "pretrain_gpt.py",
        "model": MODEL,
        "batch": {"micro": 4, "global": 128},
        "args": {"train-iters": 1000, "lr": "1e-4"},
    },
    "huggingface": {"script": "train.py", "launcher": "torchrun"},
    "lightning": {"script": "train.py", "lightning": {"cli": "fit"}},
    "torchtitan": {"torchtitan": {"module": "llama3", "config": "llama3_8b"}},
    "fairseq": {
        "script": None,
        "fairseq": {"arch": "roberta_large", "data": "/fsx/d", "task": "masked_lm"},
        "batch": {"micro": 16},
        "args": {"max-update": 1000, "lr": "1e-4", "optimizer": "adam"},
    },
    "megatron-deepspeed": {
        "script": "pretrain_gpt.py",
        "model": MODEL,
        "batch": {"micro": 4, "global": 128},
        "args": {"train-iters": 1000, "lr": "1e-4"},
    },
    "deepspeed": {"script": "train.py", "batch": {"micro": 4}},
    "torchrun": {"script": "train.py"},
    "accelerate": {"script": "train.py"},
    "jax": {"script": "train.py", "ranks_per_node": 1},
}
RESTARTS = {"restarts": {"failure": 2}, "checkpoints": {"path": "/fsx/c"}}
SAVES = {"save-interval": 100}
# A framework, what is added to its base, where the warning is, what it says.
WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("megatron-lm", {"args": {"rotary-base": 500000}}, "args.rotary-base", "not rotary"),
    (
        "megatron-lm",
        {"args": {"num-experts": 8, "moe-shared-expert-overlap": True}},
        "args.moe-shared-expert-overlap",
        "no shared expert",
    ),
    ("megatron-lm", {"args": {"mtp-loss-scaling-factor": 0.3}}, "args.mtp-loss-scaling-factor", ""),
    ("megatron-lm", {"args": {"recompute-modules": "mlp"}}, "args.recompute-modules", "not read"),
    (
        "megatron-lm",
        {"args": {"optimizer": "sgd", "adam-beta2": 0.95}},
        "args.adam-beta2",
        "the optimizer is sgd",
    ),
    ("megatron-lm", {"args": {"sgd-momentum": 0.9}}, "args.sgd-momentum", "optimizer is adam"),
    ("megatron-deepspeed", {"args": {"rotary-percent": 0.25}}, "args.rotary-percent", "not rotary"),
    ("megatron-deepspeed", {"args": {"topk": 2}}, "args.topk", "no experts"),
    ("megatron-deepspeed", {"args": {"kd-temp": 2.0}}, "args.kd-temp", "without kd"),
    (
        "fairseq",
        {"args": {"save-interval-updates": 5000}},
        "args.save-interval-updates",
        "longer than the training",
    ),
    (
        "fairseq",
        {"args": {"patience": 3, "disable-validation": True}},
        "args.patience",
        "nothing is validated",
    ),
    ("fairseq", {"args": {"fp16-init-scale": 4}}, "args.fp16-init-scale", "only fp16"),
    ("deepspeed", {"ds_config": {"wandb": {"project": "p"}}}, "ds_config.wandb", "off by default"),
    (
        "deepspeed",
        {
            "ds_config": {
                "scheduler": {
                    "type": "WarmupDecayLR",
                    "params": {"warmup_num_steps": 100, "total_num_steps": 100},
                }
            }
        },
        "ds_config.scheduler.params.warmup_num_steps",
        "a warm-up of 100 steps",
    ),
    (
        "deepspeed",
        {"zero": {"stage": 0}, "ds_config": {"zero_optimization": {"overlap_comm": True}}},
        "ds_config.zero_optimization.overlap_comm",
        "without ZeRO",
    ),
    (
        "deepspeed",
        {"zero": {"stage": 2}, "ds_config": {"offload_optimizer": {"device": "cpu"}}},
        "ds_config.offload_optimizer",
        "it is a part of zero_optimization",
    ),
    *(
        ("accelerate", {"accelerate_config": {section: keys}}, f"accelerate_config.{path}", says)
        for section, keys, path, says in (
            (
                "fsdp_config",
                {"fsdp_version": 2, "fsdp_sharding_strategy": "FULL_SHARD"},
                "fsdp_config.fsdp_sharding_strategy",
                "not read with FSDP2",
            ),
            (
                "fsdp_config",
                {"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 10}
                | {"fsdp_transformer_layer_cls_to_wrap": "Block"},
                "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
                "not read with SIZE_BASED_WRAP",
            ),
            (
                "deepspeed_config",
                {"zero_stage": 2, "zero3_init_flag": True},
                "deepspeed_config.zero3_init_flag",
                "only ZeRO stage 3",
            ),
            (
                "dynamo_config",
                {"dynamo_mode": "max-autotune"},
                "dynamo_config.dynamo_mode",
                "nothing is compiled",
            ),
        )
    ),
    ("megatron-lm", {"args": {"finetune": True, **SAVES}, **RESTARTS}, "args.finetune", "continue"),
    (
        "megatron-lm",
        {"args": {"no-load-optim": True, **SAVES}, **RESTARTS},
        "args.no-load-optim",
        "continue",
    ),
    (
        "megatron-lm",
        {"args": {"exit-interval": 500, **SAVES}, **RESTARTS},
        "args.exit-interval",
        "exit code 0",
    ),
    ("megatron-lm", {"args": {"eval-interval": 5000}}, "args.eval-interval", "at the end alone"),
    ("megatron-lm", {"args": {"log-interval": 2000}}, "args.log-interval", "no line is logged"),
    (
        "megatron-lm",
        {"args": {"log-timers-to-tensorboard": True}},
        "args.log-timers-to-tensorboard",
        "no effect without tensorboard-dir",
    ),
    ("megatron-lm", {"args": {"wandb-exp-name": "a"}}, "args.wandb-exp-name", "wandb-project"),
    (
        "huggingface",
        {"args": {"save_strategy": "epoch", "save_steps": 500}},
        "args.save_steps",
        "not read: save_strategy is epoch",
    ),
    (
        "huggingface",
        {"args": {"logging_strategy": "no", "logging_steps": 10}},
        "args.logging_steps",
        "not read",
    ),
    ("huggingface", {"args": {"eval_steps": 500}}, "args.eval_steps", "is no by default"),
    ("huggingface", {"args": {"max_steps": 1}}, "args.max_steps", "after one step"),
    (
        "huggingface",
        {"args": {"max_steps": 100, "warmup_steps": 200}},
        "args.warmup_steps",
        "a warm-up of 200 steps",
    ),
    (
        "huggingface",
        {"args": {"max_steps": 100, "save_steps": 500}},
        "args.save_steps",
        "every 500 steps",
    ),
    (
        "huggingface",
        {"args": {"ignore_data_skip": True}, **RESTARTS},
        "args.ignore_data_skip",
        "same data",
    ),
    (
        "huggingface",
        {"args": {"lr_scheduler_type": "constant", "warmup_steps": 10}},
        "args.warmup_steps",
        "not read: lr_scheduler_type is constant",
    ),
    (
        "huggingface",
        {"args": {"max_steps": 100, "logging_steps": 500}},
        "args.logging_steps",
        "no loss is logged",
    ),
    ("huggingface", {"args": {"hub_strategy": "end"}}, "args.hub_strategy", "without push_to_hub"),
    (
        "huggingface",
        {"args": {"gradient_checkpointing_kwargs": '{"use_reentrant": false}'}},
        "args.gradient_checkpointing_kwargs",
        "without gradient_checkpointing",
    ),
    (
        "accelerate",
        {"accelerate_config": {"fsdp_config": {"fsdp_version": 2, "fsdp_forward_prefetch": True}}},
        "accelerate_config.fsdp_config.fsdp_forward_prefetch",
        "not read with FSDP2",
    ),
    ("lightning", {"args": {"trainer.barebones": "true"}}, "args.trainer.barebones", "no checkp"),
    (
        "lightning",
        {"args": {"trainer.use_distributed_sampler": "false"}},
        "args.trainer.use_distributed_sampler",
        "gets all the data",
    ),
    (
        "lightning",
        {"args": {"trainer.gradient_clip_algorithm": "value"}},
        "args.trainer.gradient_clip_algorithm",
        "no gradient is clipped",
    ),
    (
        "lightning",
        {"args": {"trainer.max_steps": 10, "trainer.log_every_n_steps": 50}},
        "args.trainer.log_every_n_steps",
        "no metric",
    ),
    (
        "lightning",
        {"lightning": {}, "env": {"PL_TRAINER_FAST_DEV_RUN": "1"}},
        "env.PL_TRAINER_FAST_DEV_RUN",
        "no training",
    ),
    (
        "torchtitan",
        {"args": {"comm.mode": "fake_backend"}},
        "args.comm.mode",
        "no gradient is exchanged",
    ),
    (
        "torchtitan",
        {"args": {"training.steps": 100, "metrics.log_freq": 500}},
        "args.metrics.log_freq",
        "the first step alone",
    ),
    ("lightning", {"args": {"trainer.fast_dev_run": "true"}}, "args.trainer.fast_dev_run", "no tr"),
    (
        "lightning",
        {"args": {"trainer.overfit_batches": 10}},
        "args.trainer.overfit_batches",
        "no training",
    ),
    ("lightning", {"args": {"trainer.max_steps": 1}}, "args.trainer.max_steps", "ends at step 1"),
    (
        "lightning",
        {"args": {"trainer.enable_checkpointing": "false"}, **RESTARTS},
        "args.trainer.enable_checkpointing",
        "switched off",
    ),
    ("lightning", {"args": {"trainer.accelerator": "cpu"}}, "args.trainer.accelerator", "GPUs"),
    (
        "lightning",
        {"args": {"trainer.limit_train_batches": 0}},
        "args.trainer.limit_train_batches",
        "no batch",
    ),
    (
        "lightning",
        {"args": {"trainer.max_steps": 10, "trainer.min_steps": 20}},
        "args.trainer.min_steps",
        "20 steps at least",
    ),
    (
        "torchtitan",
        {"args": {"training.steps": 100, "lr_scheduler.warmup_steps": 200}},
        "args.lr_scheduler.warmup_steps",
        "a warm-up of 200",
    ),
    (
        "torchtitan",
        {"args": {"training.steps": 100, "checkpoint.interval": 500}},
        "args.checkpoint.interval",
        "every 500 steps",
    ),
    ("torchtitan", {"args": {"training.steps": 1}}, "args.training.steps", "after one step"),
    (
        "fairseq",
        {"args": {"reset-optimizer": True}, **RESTARTS},
        "args.reset-optimizer",
        "after each restart",
    ),
    ("fairseq", {"args": {"cpu": True}}, "args.cpu", "none of the node's GPUs"),
    ("fairseq", {"args": {"max-update": 1}}, "args.max-update", "after one update"),
    ("torchrun", {"nodes": 2, "env": {"NCCL_SOCKET_IFNAME": "lo"}}, "env.NCCL_SOCKET_IFNAME", "lo"),
    ("torchrun", {"env": {"TORCH_DISTRIBUTED_DEBUG": "1"}}, "env.TORCH_DISTRIBUTED_DEBUG", "OFF"),
    ("jax", {"env": {"JAX_PLATFORMS": "cpu"}}, "env.JAX_PLATFORMS", "none of the node's GPUs"),
]
RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("megatron-lm", {"args": {"rotary-base": 500000, "position-embedding-type": "rope"}}),
    ("megatron-lm", {"args": {"mtp-loss-scaling-factor": 0.3, "mtp-num-layers": 1}}),
    ("megatron-lm", {"args": {"recompute-modules": "mlp", "recompute-granularity": "selective"}}),
    ("megatron-lm", {"args": {"optimizer": "sgd", "sgd-momentum": 0.95}}),
    ("megatron-deepspeed", {"args": {"topk": 2, "num-experts": 8}}),
    ("megatron-deepspeed", {"args": {"kd": True, "kd-temp": 2.0}}),
    ("fairseq", {"args": {"patience": 3, "save-interval-updates": 500}}),
    ("fairseq", {"precision": "fp16", "args": {"fp16-init-scale": 4}}),
    ("megatron-lm", {"args": {"finetune": True, "load": "/fsx/other"}}),
    ("megatron-lm", {"args": {"eval-interval": 5000, "eval-iters": 0, "log-interval": 10}}),
    ("megatron-lm", {"args": {"log-timers-to-tensorboard": True, "tensorboard-dir": "/fsx/t"}}),
    ("megatron-lm", {"args": {"wandb-exp-name": "a", "wandb-project": "p"}}),
    ("huggingface", {"args": {"save_strategy": "steps", "save_steps": 500, "max_steps": 1000}}),
    ("huggingface", {"args": {"eval_strategy": "steps", "eval_steps": 500}}),
    ("huggingface", {"args": {"max_steps": -1, "warmup_steps": 200, "ignore_data_skip": True}}),
    ("huggingface", {"args": {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 10}}),
    ("huggingface", {"args": {"max_steps": 100, "logging_steps": 100}}),
    ("huggingface", {"args": {"push_to_hub": True, "hub_strategy": "end"}}),
    ("huggingface", {"args": {"save_strategy": "best", "metric_for_best_model": "loss"}}),
    (
        "huggingface",
        {
            "args": {
                "gradient_checkpointing": True,
                "gradient_checkpointing_kwargs": '{"use_reentrant": false}',
            }
        },
    ),
    ("lightning", {"args": {"trainer.barebones": "false", "trainer.log_every_n_steps": 50}}),
    ("lightning", {"args": {"trainer.use_distributed_sampler": "true"}}),
    (
        "lightning",
        {
            "args": {
                "trainer.gradient_clip_val": 0.5,
                "trainer.gradient_clip_algorithm": "value",
            }
        },
    ),
    ("lightning", {"lightning": {}, "env": {"PL_TRAINER_FAST_DEV_RUN": "False"}}),
    ("torchtitan", {"args": {"comm.mode": "default"}}),
    ("torchtitan", {"args": {"training.steps": 100, "metrics.log_freq": 10}}),
    ("lightning", {"args": {"trainer.fast_dev_run": "false", "trainer.max_steps": 1000}}),
    ("lightning", {"args": {"trainer.enable_checkpointing": "false", "trainer.min_steps": 10}}),
    ("lightning", {"args": {"trainer.limit_train_batches": 0.5, "trainer.accelerator": "gpu"}}),
    ("torchtitan", {"args": {"training.steps": 1000, "lr_scheduler.warmup_steps": 200}}),
    ("fairseq", {"args": {"reset-optimizer": True, "restore-file": "/fsx/other.pt"}}),
    ("torchrun", {"env": {"NCCL_SOCKET_IFNAME": "lo", "TORCH_DISTRIBUTED_DEBUG": "detail"}}),
    ("torchrun", {"nodes": 2, "env": {"NCCL_SOCKET_IFNAME": "^lo", "JAX_PLATFORMS": "cuda"}}),
]


def warnings(framework: str, more: dict[str, Any]) -> dict[str, str]:
    base = BASES[framework]
    keys = {**base, **more, "args": {**base.get("args", {}), **more.get("args", {})}}
    plan = plan_of(framework=framework, **keys)
    return {one.path: one.what for one in plan.warnings if not one.info}


@pytest.mark.parametrize(
    ("framework", "more", "path", "says"), WRONG, ids=lambda one: str(one)[:40]
)
def test_a_training_of_something_else_is_warned_of(
    framework: str, more: dict[str, Any], path: str, says: str
) -> None:
    found = warnings(framework, more)
    assert path in found, found
    assert says in found[path]


@pytest.mark.parametrize(("framework", "more"), RIGHT, ids=lambda one: str(one)[:60])
def test_what_is_meant_so_is_not_warned_of(framework: str, more: dict[str, Any]) -> None:
    before, found = warnings(framework, {}), warnings(framework, more)
    more_keys = {f"{part}.{name}" for part in ("args", "env") for name in more.get(part, ())}
    assert more_keys & (found.keys() - before.keys()) == set(), found
