"""Asks the package megatron-core what it makes of command lines: JSON in, one line of JSON out.

    [{"words": [...], "world": 16}, ...]  ->  [{"sizes": [tensor, pipeline, ...]} or {"error": ...}]

The parser of Megatron-LM is not in the package. What it does between the command line and the
package (core_transformer_config_from_args, validate_args) is done here anew, from its description.
No GPU and no second process: the world is torch's fake process group, of any size.
"""

from __future__ import annotations

import json
import pathlib
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from megatron.core import num_microbatches_calculator, parallel_state
from megatron.core.transformer import TransformerConfig
from torch.testing._internal.distributed.fake_pg import FakeStore

FLAGS = pathlib.Path(__file__).parents[2] / "clusterjobs/frameworks/flags/megatron-lm.json"
_SAME = (  # arguments whose names are fields of the config
    *("hidden_size", "num_attention_heads", "kv_channels", "ffn_hidden_size", "fp16", "bf16"),
    *("num_layers", "tensor_model_parallel_size", "pipeline_model_parallel_size"),
    *("context_parallel_size", "expert_model_parallel_size", "expert_tensor_parallel_size"),
    *("sequence_parallel", "recompute_granularity", "recompute_method", "recompute_num_layers"),
    *("distribute_saved_activations", "cpu_offloading_num_layers", "tp_comm_overlap"),
    *("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"),
    *("moe_router_topk", "moe_router_pre_softmax", "moe_router_score_function"),
    *("moe_router_enable_expert_bias", "moe_router_num_groups", "moe_router_group_topk"),
    *("moe_token_dispatcher_type", "moe_enable_deepep", "moe_grouped_gemm", "moe_ffn_hidden_size"),
    *("moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "deterministic_mode"),
)


def read(words: list[str]) -> dict[str, Any]:
    """The arguments with the types of the table; every one must be known."""
    types, found, name = json.loads(FLAGS.read_text())["flags"], {}, ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = [value] if value else []
        else:
            found[name].append(word)
    return {key.replace("-", "_"): _value(types[key], value) for key, value in found.items()}


def _value(kind: str | list[str], words: list[str]) -> Any:
    if kind == "switch":
        return True
    if kind == "list":
        return words
    (word,) = words
    return {"integer": int, "number": float}.get(str(kind), str)(word)


def config_of(given: Mapping[str, Any], **more: Any) -> TransformerConfig:
    """The config of the model, as Megatron-LM makes it of its arguments, and `more` of its keys."""
    keys = {name: given[name] for name in _SAME if name in given}
    parameters = torch.bfloat16 if given.get("bf16") else torch.float32
    tensor = given["tensor_model_parallel_size"]
    if given.get("recompute_activations"):
        keys["recompute_granularity"] = "selective"
    keys |= {
        "params_dtype": parameters,
        "pipeline_dtype": parameters,
        "sequence_parallel": bool(given.get("sequence_parallel")) and tensor > 1,
        "virtual_pipeline_model_parallel_size": _virtual(given),
        "num_moe_experts": given.get("num_experts"),
        "num_layers_in_first_pipeline_stage": given.get("decoder_first_pipeline_num_layers"),
        "num_layers_in_last_pipeline_stage": given.get("decoder_last_pipeline_num_layers"),
        "cpu_offloading": given.get("cpu_offloading_num_layers", 0) > 0,
        "add_bias_linear": not given.get("disable_bias_linear"),
        "bias_activation_fusion": False,  # of kernels alone
        "fp8": given.get("fp8_format"),
        "fp4": given.get("fp4_format"),
        "fp8_param": given.get("fp8_param_gather", False),
    }
    if given.get("group_query_attention"):
        keys["num_query_groups"] = given["num_query_groups"]
    return TransformerConfig(**keys, **more)


def _virtual(given: Mapping[str, Any]) -> int | None:
    return given.get("num_virtual_stages_per_pipeline_rank")


def groups_of(given: Mapping[str, Any], world: int) -> list[int]:
    """The sizes of the groups that this process is in: tensor, pipeline, context, data, expert."""
    torch.distributed.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        parallel_state.initialize_model_parallel(
            given["tensor_model_parallel_size"],
            given["pipeline_model_parallel_size"],
            _virtual(given),
            context_parallel_size=given.get("context_parallel_size", 1),
            expert_model_parallel_size=given.get("expert_model_parallel_size", 1),
            expert_tensor_parallel_size=given.get("expert_tensor_parallel_size"),
            num_distributed_optimizer_instances=given.get("num_distributed_optimizer_instances", 1),
            order="tp-cp-ep-pp-dp" if given.get("use_tp_pp_dp_mapping") else "tp-cp-ep-dp-pp",
            create_gloo_process_groups=False,
        )
        return [
            parallel_state.get_tensor_model_parallel_world_size(),
            parallel_state.get_pipeline_model_parallel_world_size(),
            parallel_state.get_context_parallel_world_size(),
            parallel_state.get_data_parallel_world_size(),
            parallel_state.get_expert_model_parallel_world_size(),
        ]
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()


def steps_of(given: Mapping[str, Any], data: int) -> int:
    """The micro batches of one step; with a ramp, of the first one."""
    ramp = given.get("rampup_batch_size")
    num_microbatches_calculator.unset_num_microbatches_calculator()
    num_microbatches_calculator.init_num_microbatches_calculator(
        1, ramp, given["global_batch_size"], given["micro_batch_size"], data, False
    )
    num_microbatches_calculator.update_num_microbatches(0, consistency_check=True)
    return num_microbatches_calculator.get_num_microbatches()


def answer(words: list[str], world: int) -> dict[str, Any]:
    try:
        given = read(words)
        config_of(given)
        sizes = groups_of(given, world)
        return {"sizes": sizes, "steps": steps_of(given, sizes[3])}
    except (AssertionError, RuntimeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    warnings.simplefilter("ignore")
    print(json.dumps([answer(one["words"], one["world"]) for one in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
